/* reference_layer.h - mla_query and mla_decode in FP64 with explicit rounding points: spec.md section 6, written from
 * it alone. Pure functions on host memory; shares no code with templates, runtime or the CPU device. All shapes
 * row-major. */
#ifndef TOOLS_REFERENCE_LAYER_H
#define TOOLS_REFERENCE_LAYER_H

#include <tools/reference.h>

enum { REF_HEAD_QUERY = 192, REF_NOPE = 128, REF_ROPE = 64 };
enum reference_rope { ROPE_NONE, ROPE_INTERLEAVED, ROPE_HALF };

struct reference_query {
    int32_t heads, batch, q_lora; /* q_lora: 1536 or 0 */
    const uint16_t *qkv;          /* [batch, pitch]: q_a (when q_lora), kv_c 512, k_pe 64 */
    size_t pitch;
    const uint16_t *q_a_norm, *kv_a_norm;
    const uint16_t *w_q_b; /* [heads*192, 1536] */
    const uint16_t *qf;    /* [batch, heads*192] when q_lora = 0 */
    const uint16_t *kv_b;  /* [heads*256, 512] */
    const float *cos_sin;  /* [batch, 64], NULL without rope */
    enum reference_rope rope;
    double eps, q_scale_inv, k_scale_inv;
};
/* query [batch, heads, 576] e4m3, kv [batch, 576] e4m3 (the row each token would store). Either may be NULL. */
void reference_query(const struct reference_query *in, uint8_t *query, uint8_t *kv);

/* Local keys on a rank of the first n tokens (n <= 0: none). */
int32_t reference_local(int32_t n, int32_t dcp, int32_t rank, int32_t interleave);

struct reference_decode {
    int32_t dcp, rank, heads_all, batch, q, interleave, page; /* heads_all: D*H */
    const uint8_t *query;                                     /* [batch, heads_all, 576] */
    const uint8_t *cache;                                     /* pages page_stride bytes apart */
    size_t page_stride;
    const int32_t *block_table; /* [batch/q, max_pages] */
    int32_t max_pages;
    const int32_t *lens, *totals; /* [batch/q] */
    double softmax_scale, output_scale;
    double *most; /* [batch, heads_all]: the largest |z| of each row, 0 where nothing is visible; or NULL */
    /* As rows, with the ideal form: the sum of P |v| / l, what a relative error of each P may move; or NULL. No P
     * counts as less than 2^-13 of the largest: there an e4m3 P of 2^8 and less is subnormal, off by an absolute 2^-10.
     */
    double *magnitude;
    bool rounded; /* true: P rounded to e4m3 as the kernel does (2^8 scale, m' = ceil(max)); false: ideal */
};
/* rows [batch, heads_all, 512], unrounded; lse [batch, heads_all], base 2, -infinity where nothing is visible. */
void reference_decode(const struct reference_decode *in, double *rows, double *lse);

/* e4m3 numbers from a to b; +0 and -0 are one, NaN to NaN 0, NaN to a number 255. */
uint32_t e4m3_steps(uint8_t a, uint8_t b);

#endif
