/* layer_expect.h - what the kernels should make of a step of a layer_case: the FP64 reference of reference.h and
 * reference_layer.h over all ranks. Pure functions on host memory. */
#ifndef TOOLS_LAYER_EXPECT_H
#define TOOLS_LAYER_EXPECT_H

#include <tools/layer_case.h>

/* The rank's own query rows [batch, H, 576] and the cache row of each token [batch, 576]; either may be NULL. */
void expect_query(const struct layer_case *layer, const struct layer_step *step, int32_t rank, uint8_t *query,
                  uint8_t *kv);
/* All ranks' rows, gathered: [batch, D*H, 576]. False: out of memory. */
bool expect_gathered(const struct layer_case *layer, const struct layer_step *step, uint8_t *query);
/* Stores the step's tokens that the rank owns, kv [batch, 576], into its cache. */
void expect_insert(const struct layer_case *layer, const struct layer_step *step, int32_t rank, const uint8_t *kv,
                   uint8_t *cache);

/* Partial rows of one rank, given gathered queries and its cache (laid out as layer_rank.cache). rows
 * [batch, D*H, 512], lse and most (largest |z| of the row; may be NULL) [batch, D*H]; magnitude (may be NULL) as rows:
 * sum of P |v| / l. */
void expect_decode(const struct layer_case *layer, const struct layer_step *step, int32_t rank, const uint8_t *query,
                   const uint8_t *cache, bool rounded, double *rows, double *lse, double *most, double *magnitude);

/* The rank's output [batch, H*128] given all ranks' partial rows (BF16) and LSE; magnitude and judged as in
 * reference_value. */
bool expect_value(const struct layer_case *layer, const struct layer_step *step, int32_t rank,
                  const uint16_t *const *rows, const float *const *lse, const uint16_t *judged, uint16_t *output,
                  double *magnitude);

/* The whole step in FP64, from the case's inputs alone: every member malloc'd, as in layer_step and layer_rank_step. */
struct layer_expected {
    uint8_t *query;
    uint16_t *rows[LAYER_MAX_RANKS];
    float *rows_lse[LAYER_MAX_RANKS];
    uint16_t *output[LAYER_MAX_RANKS];
};
/* cache[r]: the rank's shard with the step's tokens in it. rounded: decision 7's P. False: out of memory. */
bool expect_step(const struct layer_case *layer, const struct layer_step *step, const uint8_t *const *cache,
                 bool rounded, struct layer_expected *out);
/* The same, out->query being filled (expect_gathered) already. */
bool expect_rest(const struct layer_case *layer, const struct layer_step *step, const uint8_t *const *cache,
                 bool rounded, struct layer_expected *out);
void expected_free(struct layer_expected *expected);

#endif
