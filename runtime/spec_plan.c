/* spec_plan.c - what follows from a resolved spec of mla_decode: its number of splits and the workspace they need.
 * The one place of both: the template reads the number from here (spec.planned_splits), engines and tools the bytes.
 * Pure: no state, no allocation. */
#include "runtime/error.h"
#include "runtime/keys.h"

#include <stdbool.h>

enum { MOST_SPLITS = 256, LATENT = 512, CTAS_A_MULTIPROCESSOR = 2 };

static int32_t requests_of(const dcpk_spec *s) {
    return s->batch / s->q;
}

/* Rows of a request: all heads of the group, for each of its q query rows. */
static int32_t rows_of(const dcpk_spec *s) {
    return s->q * s->dcp * s->heads;
}

/* Rows of a CTA of mla_decode, as its template (lib/attend_shape.lua) has them: a block of 16, or two. */
static int32_t tile_of(int32_t rows) {
    return rows > 16 ? 32 : 16;
}

/* One CTA a row tile, request and split, two at a time on a multiprocessor: as many splits as they all hold at once. */
static int32_t splits_of(const dcpk_spec *s, int32_t requests) {
    if (s->splits > 0) return s->splits;
    int32_t rows = rows_of(s), tiles = (rows + tile_of(rows) - 1) / tile_of(rows);
    int32_t splits = CTAS_A_MULTIPROCESSOR * (s->sms - s->reserve) / (requests * tiles);
    return splits < 1 ? 1 : splits > MOST_SPLITS ? MOST_SPLITS : splits;
}

static uint64_t bytes_of(const dcpk_spec *s, int32_t requests) {
    int32_t splits = splits_of(s, requests);
    if (splits == 1) return 0;
    return (uint64_t)requests * (uint64_t)splits * (uint64_t)rows_of(s) * (LATENT + 1) * sizeof(float);
}

int32_t dcpk_spec_planned_splits(const dcpk_spec *spec) {
    return splits_of(spec, requests_of(spec));
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
