/* reference.h - what the kernels compute, in FP64 with explicit rounding points: spec.md section 6, written from it
 * alone.
 *
 * Owns: the norm, the publish rule of a query byte, the merge of partial rows, W_UV and gate. Pure functions on
 * host memory. Shares no code with templates, runtime or the CPU device. All shapes row-major. */
#ifndef TOOLS_REFERENCE_H
#define TOOLS_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REF_Q_LORA = 1536, REF_LATENT = 512, REF_VALUE = 128, REF_HEAD_BYTES = 576, REF_HEAD_WEIGHTS = 256 * 512 };

/* q_c of one row: bf(x * rsqrt(mean(x^2) + eps) * gamma), all in FP64 but for the last rounding. exact (may be NULL)
 * gets the value before it. */
void reference_norm(const uint16_t *x, const uint16_t *gamma, double eps, uint16_t *out, double *exact);

/* The stated FP32 operation order of the two forms of query_norm (spec.md 2.2). The one approximation,
 * rsqrt.approx, is allowed `slack` FP32 steps around the exact root: returns how many of `got`'s 1536 values
 * differ from the replay with the best root in that range. NaN equals NaN. */
enum reference_form { FORM_SCALAR, FORM_TILED };
uint32_t reference_norm_replay(enum reference_form form, const uint16_t *x, const uint16_t *gamma, float eps,
                               int32_t slack, const uint16_t *got);
/* The sum of squares that the form arrives at. */
float reference_norm_total(enum reference_form form, const uint16_t *x);

/* A query byte as it lands in a mailbox: NaN of either sign is 0x7F. */
uint8_t reference_query_byte(uint8_t byte);

struct reference_value {
    int32_t dcp, heads, batch, q;
    int32_t rank;                /* whose heads */
    const uint16_t *const *rows; /* [dcp] of [batch, dcp*heads, 512] BF16 */
    const float *const *lse;     /* [dcp] of [batch, dcp*heads], base 2 */
    const int32_t *const *lens;  /* [dcp] of [batch/q] */
    const int32_t *totals;       /* [batch/q] */
    const uint16_t *kv_b;        /* the rank's [heads*256, 512] BF16 */
    const uint16_t *gate;        /* NULL: no gate; else row 0, head 0 of the rank */
    size_t pitch;                /* elements from row to row of gate */
    const uint16_t *judged; /* NULL, or the output under judgement, of output's shape: where the FP32 merge may round a
                               latent either way (its exact sum is a tie for FP32), the way that fits it is taken */
};

/* How many BF16 ulp of magnitude an output may be off. */
enum { REF_VALUE_ULP = 2 };

/* output [batch, heads*128] BF16. magnitude, of the same shape: max(|output|, RMS of the head's row before the gate *
 * gate / 16), the size whose BF16 ulp bounds the error (spec.md section 0, decision 9). */
void reference_value(const struct reference_value *in, uint16_t *output, double *magnitude);

/* The merge alone: weights[dcp] of one (row, global head); returns their sum's base-2 logarithm plus the maximum,
 * -infinity when every source is empty. */
double reference_merge_weights(const struct reference_value *in, int32_t row, int32_t head, double *weights);

#endif
