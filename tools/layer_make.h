/* layer_make.h - layers with random numbers: every value a function of the seed and of its global place (global head,
 * request, position, step), so that the same layer over another number of ranks is the same problem.
 *
 * What no kernel owes anything to is NaN: whole rows of padding (qkv, gate, qf, angles), the padding columns of qkv,
 * page 0 and every cache byte that holds no token; table entries past the live pages are -1. */
#ifndef TOOLS_LAYER_MAKE_H
#define TOOLS_LAYER_MAKE_H

#include <tools/layer_case.h>

struct layer_make {
    int32_t heads, dcp, batch, q, page, interleave, q_lora, gate; /* as in layer_case */
    int32_t cap, qh, tiled_from;                                  /* 0: default */
    enum reference_rope rope;
    double rope_theta, eps, softmax_scale, q_scale_inv, k_scale_inv;
    /* Length of each request at the first step, its q new tokens included; <= 0: padding. One context serves all
     * requests; of a list, requests past its end are padding. Each step adds q tokens to those that are not padding. */
    const int32_t *contexts;
    int32_t context_count;
    int32_t steps;
    uint64_t seed;
    double sigma;       /* standard deviation of the scores, natural logarithm */
    double mean;        /* of the latent columns of keys */
    int32_t more_pitch; /* elements that rows of qkv are longer than needed, a multiple of 8 */
};

/* kimi-k3's constants, 1 head, 1 rank, 1 row, 1 step; contexts NULL: one of 1. */
void layer_make_init(struct layer_make *make);
/* NULL: out of memory, or sizes that layer_case_check refuses (why says which). */
struct layer_case *layer_make(const struct layer_make *make, char why[LAYER_SENTENCE]);

#endif
