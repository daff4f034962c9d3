/* spec_plan.c - what follows from a resolved spec of mla_decode: its number of splits and the workspace they need.
 * The one place of both: the template reads the number from here (spec.planned_splits), engines and tools the bytes.
 * Pure: no state, no allocation. */
#include "runtime/error.h"
#include "runtime/keys.h"

#include <stdbool.h>

enum { MOST_SPLITS = 256, LATENT = 512, CTAS_A_MULTIPROCESSOR = 2 };

/* The form for sm_90a (pv=fp8; templates/lib/hopper_shape.lua): one CTA a multiprocessor, at most 64 rows each; row
 * groups above one come in pairs, whose CTAs are neighbours of a cluster. */
enum { GROUP_ROWS = 64, SOME_ROWS = 32, CLUSTER = 8, CLUSTERS = 15, CLUSTERS_OF = 132 };

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

/* CTAs of a request and split. */
static int32_t groups_of(const dcpk_spec *s) {
    int32_t rows = rows_of(s);
    if (is_hopper(s)) return rows <= GROUP_ROWS ? 1 : (rows + 2 * GROUP_ROWS - 1) / (2 * GROUP_ROWS) * 2;
    return rows > 16 ? (rows + 31) / 32 : 1; /* lib/attend_shape.lua: a block of 16 rows, or two */
}

/* Few rows of one request: whole clusters of 8, of which a chip with 132 multiprocessors holds 15. */
static bool clusters_alone(const dcpk_spec *s, int32_t requests) {
    return is_hopper(s) && requests == 1 && rows_of(s) <= SOME_ROWS && s->sms - s->reserve >= CLUSTERS_OF;
}

/* As many splits as all multiprocessors hold at once. */
static int32_t splits_of(const dcpk_spec *s, int32_t requests) {
    if (s->splits > 0) return s->splits;
    if (clusters_alone(s, requests)) return CLUSTER * CLUSTERS;
    int32_t splits = (is_hopper(s) ? 1 : CTAS_A_MULTIPROCESSOR) * (s->sms - s->reserve) / (requests * groups_of(s));
    return splits < 1 ? 1 : splits > MOST_SPLITS ? MOST_SPLITS : splits;
}

/* Neighbouring splits that one cluster adds up, so that a reducer has less to do, or nothing. */
static int32_t share_of(const dcpk_spec *s, int32_t requests) {
    int32_t splits = splits_of(s, requests);
    if (!is_hopper(s) || groups_of(s) > 1) return 1;
    if (clusters_alone(s, requests) && splits % CLUSTER == 0 && splits <= CLUSTER * CLUSTERS) return CLUSTER;
    return splits == 2 ? 2 : 1;
}

/* What the splits or clusters of a request leave for the reducer, where there are several. */
static uint64_t bytes_of(const dcpk_spec *s, int32_t requests) {
    int32_t partial = splits_of(s, requests) / share_of(s, requests);
    if (partial == 1) return 0;
    return (uint64_t)requests * (uint64_t)partial * (uint64_t)rows_of(s) * (LATENT + 1) * sizeof(float);
}

int32_t dcpk_spec_planned_splits(const dcpk_spec *spec) {
    return splits_of(spec, requests_of(spec));
}

int32_t dcpk_spec_planned_share(const dcpk_spec *spec) {
    return share_of(spec, requests_of(spec));
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
