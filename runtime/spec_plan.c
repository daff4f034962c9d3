/* spec_plan.c - what follows from a resolved spec of mla_decode: its number of splits and the workspace they need.
 * The one place of both: the template reads the number from here (spec.planned_splits), engines and tools the bytes.
 * Pure: no state, no allocation. */
#include "runtime/error.h"
#include "runtime/keys.h"

#include <stdbool.h>

enum { MOST_SPLITS = 256, LATENT = 512, GROUP_ROWS = 64 };

/* The portable form (pv=f16; templates/lib/attend_shape.lua): two CTAs a multiprocessor up to 32 rows, one above. */
enum { NARROW_ROWS = 32 };

/* The form for sm_90a (pv=fp8; templates/lib/hopper_shape.lua): one CTA a multiprocessor. */
enum { CHUNKS_A_ROW = 64, CHUNK = 16, TILE_ALONE = 192 };

/* Columns have room for that many splits' weights of two rows (lib/hopper_armed.lua, WEIGHTS); more multiprocessors
 * stay idle. */
enum { MOST_COLUMNS = 512 };

static bool is_hopper(const dcpk_spec *s) {
    return s->pv == DCPK_PV_FP8;
}

static int32_t requests_of(const dcpk_spec *s) {
    return s->batch / s->q;
}

/* Rows of a request: all heads of the group, for each of its q query rows. */
static int32_t rows_of(const dcpk_spec *s) {
    return s->q * s->dcp * s->heads;
}

static int32_t ctas_a_multiprocessor(const dcpk_spec *s) {
    return !is_hopper(s) && rows_of(s) <= NARROW_ROWS ? 2 : 1;
}

static int32_t multiprocessors_of(const dcpk_spec *s) {
    return s->sms - s->reserve;
}

/* Rows of a CTA: what the groups share out, in eights. */
static int32_t rows_of_group(const dcpk_spec *s, int32_t groups) {
    return ((rows_of(s) + groups - 1) / groups + 7) / 8 * 8;
}

/* How long requests of one length take with that many groups, as value / *over: a tile of n rows takes as n + 192 do
 * (measured: 48 rows 0.94 of 64); a request has a whole number of columns, or CTAs come in waves. */
static int64_t time_of_groups(const dcpk_spec *s, int32_t requests, int32_t groups, int64_t *over) {
    int32_t room = multiprocessors_of(s), columns = room / groups;
    int64_t waves = columns > requests ? 1 : ((int64_t)requests * groups + room - 1) / room;
    *over = columns > requests ? columns / requests : 1;
    return waves * (rows_of_group(s, groups) + TILE_ALONE);
}

/* CTAs of a request and split, of at most 64 rows each: as few as can be. Instead of an odd number one more, where so
 * requests of one length take less time (sm_90a, splits=auto). */
static int32_t groups_of(const dcpk_spec *s, int32_t requests) {
    int32_t groups = (rows_of(s) + GROUP_ROWS - 1) / GROUP_ROWS;
    if (!is_hopper(s) || s->splits > 0 || groups % 2 == 0 || groups == 1) return groups;
    int64_t over, over_more, time = time_of_groups(s, requests, groups, &over);
    int64_t time_more = time_of_groups(s, requests, groups + 1, &over_more);
    return time_more * over < time * over_more ? groups + 1 : groups;
}

/* The form for sm_90a, splits=auto: columns of CTAs that its kernel deals out to the requests by their lengths, where
 * there are more than requests; 0: a request has one CTA (of each row group), or as many as `splits` says. */
static int32_t columns_of(const dcpk_spec *s, int32_t requests) {
    if (!is_hopper(s) || s->splits > 0) return 0;
    int32_t columns = multiprocessors_of(s) / groups_of(s, requests);
    if (columns > MOST_COLUMNS) columns = MOST_COLUMNS;
    return columns > requests ? columns : 0;
}

/* As many splits as all multiprocessors hold at once. */
static int32_t splits_of(const dcpk_spec *s, int32_t requests) {
    if (s->splits > 0) return s->splits;
    if (is_hopper(s) && columns_of(s, requests) == 0) return 1; /* splits=auto never asks for the reducer there */
    int32_t splits = ctas_a_multiprocessor(s) * multiprocessors_of(s) / (requests * groups_of(s, requests));
    return splits < 1 ? 1 : splits > MOST_SPLITS ? MOST_SPLITS : splits;
}

/* What CTAs of the form for sm_90a give each other (lib/hopper_armed.lua): rows in chunks, then words of LSE. Where
 * CTAs take a part of these rows each (lib/hopper_shape.lua), both are fewer. */
static uint64_t bytes_of_columns(const dcpk_spec *s, int32_t groups, int32_t columns) {
    uint64_t rows = (uint64_t)rows_of_group(s, groups), least = 2 * (uint64_t)columns,
             words = rows > least ? rows : least;
    return (uint64_t)groups * (uint64_t)columns * (rows * CHUNKS_A_ROW * CHUNK + words * sizeof(float));
}

/* What the splits of a request leave for the reducer, or for each other. */
static uint64_t bytes_of(const dcpk_spec *s, int32_t requests) {
    int32_t columns = columns_of(s, requests), splits = splits_of(s, requests);
    if (columns > 0) return bytes_of_columns(s, groups_of(s, requests), columns);
    if (splits == 1) return 0;
    return (uint64_t)requests * (uint64_t)splits * (uint64_t)rows_of(s) * (LATENT + 1) * sizeof(float);
}

int32_t dcpk_spec_planned_splits(const dcpk_spec *spec) {
    return splits_of(spec, requests_of(spec));
}

int32_t dcpk_spec_planned_groups(const dcpk_spec *spec) {
    return groups_of(spec, requests_of(spec));
}

int32_t dcpk_spec_planned_columns(const dcpk_spec *spec) {
    return columns_of(spec, requests_of(spec));
}

dcpk_status dcpk_spec_workspace(const dcpk_spec *spec, uint64_t *bytes, uint64_t *most, dcpk_error *error) {
    if (spec == NULL) return dcpk_error_set(error, DCPK_E_ARG, "dcpk_spec_workspace: spec is NULL");
    dcpk_spec s = *spec;
    dcpk_status status = dcpk_spec_resolve(&s, error);
    if (status != DCPK_OK) return status;
    bool decodes = dcpk_kernel_id_of(s.kernel) == DCPK_KERNEL_mla_decode;
    if (bytes != NULL) *bytes = decodes ? bytes_of(&s, requests_of(&s)) : 0;
    if (most == NULL) return DCPK_OK;
    *most = 0;
    for (int32_t requests = 1; decodes && requests <= requests_of(&s); requests++) {
        uint64_t needed = bytes_of(&s, requests);
        if (needed > *most) *most = needed;
    }
    return DCPK_OK;
}
