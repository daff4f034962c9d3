/* layer_expect.c - see layer_expect.h. */
#include <tools/layer_expect.h>

#include <tools/numbers.h>

#include <stdlib.h>
#include <string.h>

void expect_query(const struct layer_case *l, const struct layer_step *step, int32_t r, uint8_t *query, uint8_t *kv) {
    struct reference_query in = {.heads = l->heads,
                                 .batch = l->batch,
                                 .q_lora = l->q_lora,
                                 .qkv = step->rank[r].qkv,
                                 .pitch = step->rank[r].pitch,
                                 .q_a_norm = l->q_a_norm,
                                 .kv_a_norm = l->kv_a_norm,
                                 .w_q_b = l->rank[r].w_q_b,
                                 .qf = step->rank[r].qf,
                                 .kv_b = l->rank[r].kv_b,
                                 .cos_sin = step->cos_sin,
                                 .rope = l->rope,
                                 .eps = l->eps,
                                 .q_scale_inv = l->q_scale_inv,
                                 .k_scale_inv = l->k_scale_inv};
    reference_query(&in, query, kv);
}

bool expect_gathered(const struct layer_case *l, const struct layer_step *step, uint8_t *query) {
    size_t own = (size_t)l->heads * LAYER_TOKEN, all = own * (size_t)l->dcp;
    uint8_t *part = malloc((size_t)l->batch * own);
    for (int32_t r = 0; part && r < l->dcp; r++) {
        expect_query(l, step, r, part, NULL);
        for (size_t row = 0; row < (size_t)l->batch; row++) {
            memcpy(query + row * all + (size_t)r * own, part + row * own, own);
        }
    }
    free(part);
    return part != NULL;
}

void expect_insert(const struct layer_case *l, const struct layer_step *step, int32_t r, const uint8_t *kv,
                   uint8_t *cache) {
    for (int32_t row = 0; row < l->batch; row++) {
        int64_t slot = step->rank[r].slots[row];
        if (slot >= 0) {
            memcpy(cache + (size_t)slot * LAYER_TOKEN, kv + (size_t)row * LAYER_TOKEN, LAYER_TOKEN);
        }
    }
}

void expect_decode(const struct layer_case *l, const struct layer_step *step, int32_t r, const uint8_t *query,
                   const uint8_t *cache, bool rounded, double *rows, double *lse, double *most, double *magnitude) {
    int32_t lens[512];
    layer_lens(l, step, r, lens);
    struct reference_decode in = {.dcp = l->dcp,
                                  .rank = r,
                                  .heads_all = l->dcp * l->heads,
                                  .batch = l->batch,
                                  .q = l->q,
                                  .interleave = l->interleave,
                                  .page = l->page,
                                  .query = query,
                                  .cache = cache,
                                  .page_stride = (size_t)l->page * LAYER_TOKEN,
                                  .block_table = step->rank[r].block_table,
                                  .max_pages = step->rank[r].max_pages,
                                  .lens = lens,
                                  .totals = step->totals,
                                  .softmax_scale = l->softmax_scale / (l->q_scale_inv * l->k_scale_inv),
                                  .output_scale = 1 / l->k_scale_inv,
                                  .rounded = rounded,
                                  .most = most,
                                  .magnitude = magnitude};
    reference_decode(&in, rows, lse);
}

bool expect_value(const struct layer_case *l, const struct layer_step *step, int32_t r, const uint16_t *const *rows,
                  const float *const *lse, const uint16_t *judged, uint16_t *output, double *magnitude) {
    size_t requests = (size_t)layer_requests(l);
    int32_t *lens = malloc((size_t)l->dcp * requests * sizeof *lens);
    const int32_t *each[LAYER_MAX_RANKS];
    for (int32_t s = 0; lens && s < l->dcp; s++) {
        each[s] = lens + (size_t)s * requests;
        layer_lens(l, step, s, lens + (size_t)s * requests);
    }
    struct reference_value in = {.dcp = l->dcp,
                                 .heads = l->heads,
                                 .batch = l->batch,
                                 .q = l->q,
                                 .rank = r,
                                 .rows = rows,
                                 .lse = lse,
                                 .lens = each,
                                 .totals = step->totals,
                                 .kv_b = l->rank[r].kv_b,
                                 .gate = l->gate ? step->rank[r].qkv + layer_gate_at(l) : NULL,
                                 .pitch = step->rank[r].pitch,
                                 .judged = judged};
    if (lens) {
        reference_value(&in, output, magnitude);
    }
    free(lens);
    return lens != NULL;
}

void expected_free(struct layer_expected *expected) {
    free(expected->query);
    for (int r = 0; r < LAYER_MAX_RANKS; r++) {
        free(expected->rows[r]);
        free(expected->rows_lse[r]);
        free(expected->output[r]);
    }
    memset(expected, 0, sizeof *expected);
}

/* Partial rows of every rank, rounded to what a decode stores. */
static bool all_rows(const struct layer_case *l, const struct layer_step *step, const uint8_t *const *cache,
                     bool rounded, struct layer_expected *out) {
    size_t count = (size_t)l->batch * (size_t)(l->dcp * l->heads);
    double *rows = malloc(count * REF_LATENT * sizeof *rows), *lse = malloc(count * sizeof *lse);
    bool good = rows && lse;
    for (int32_t r = 0; good && r < l->dcp; r++) {
        out->rows[r] = malloc(count * REF_LATENT * sizeof *out->rows[r]);
        out->rows_lse[r] = malloc(count * sizeof *out->rows_lse[r]);
        good = out->rows[r] && out->rows_lse[r];
        if (good) {
            expect_decode(l, step, r, out->query, cache[r], rounded, rows, lse, NULL, NULL);
            for (size_t i = 0; i < count * REF_LATENT; i++) {
                out->rows[r][i] = bf16_from_double(rows[i]);
            }
            for (size_t i = 0; i < count; i++) {
                out->rows_lse[r][i] = (float)lse[i];
            }
        }
    }
    free(rows);
    free(lse);
    return good;
}

bool expect_rest(const struct layer_case *l, const struct layer_step *step, const uint8_t *const *cache, bool rounded,
                 struct layer_expected *out) {
    size_t outputs = (size_t)l->batch * (size_t)l->heads * REF_VALUE;
    double *magnitude = malloc(outputs * sizeof *magnitude);
    bool good = magnitude && all_rows(l, step, cache, rounded, out);
    for (int32_t r = 0; good && r < l->dcp; r++) {
        out->output[r] = malloc(outputs * sizeof *out->output[r]);
        good = out->output[r] && expect_value(l, step, r, (const uint16_t *const *)out->rows,
                                              (const float *const *)out->rows_lse, NULL, out->output[r], magnitude);
    }
    free(magnitude);
    return good;
}

bool expect_step(const struct layer_case *l, const struct layer_step *step, const uint8_t *const *cache, bool rounded,
                 struct layer_expected *out) {
    memset(out, 0, sizeof *out);
    out->query = malloc((size_t)l->batch * (size_t)(l->dcp * l->heads) * LAYER_TOKEN);
    bool good = out->query && expect_gathered(l, step, out->query) && expect_rest(l, step, cache, rounded, out);
    if (!good) {
        expected_free(out);
    }
    return good;
}
