/* layer_judge.h - a layer run against the FP64 reference: each kernel by what it was given, and the step as a whole.
 *
 * Kernel by kernel: q_c bit by bit against the stated FP32 order; query and cache bytes against the reference of the
 * inputs; partial rows and LSE against both forms of decision 9 given the queries and the cache that the device holds;
 * output given the partial rows that it holds. The step: output against the ideal form from the inputs alone. */
#ifndef TOOLS_LAYER_JUDGE_H
#define TOOLS_LAYER_JUDGE_H

#include <tools/layer_run.h>

/* Bounds of spec.md decision 9 for one kind of device. */
struct layer_bounds {
    double rows_rounded, rows_ideal; /* relative Frobenius error of partial rows, of one step and rank */
    double one_row;                  /* of one row and head, ideal form */
    double element;                  /* of one element of rows, ideal form, as a fraction of its sum of P |v| / l */
    double lse_fixed, lse_scaled;    /* |dLSE| <= lse_fixed + lse_scaled * max |z| */
    double output_ideal, output_cosine;
};
/* Decision 9's; the ideal form's are 2^-4 and 2^-9 (half its square) where a request is shorter than 64 or there are
 * fewer than 64 rows times heads: an average over few weights may reach what one may.
 * scores_fp8: scores come from FP8 tensor cores, which keep about 13 bits; sigma: of the scores, natural logarithm. */
void layer_bounds_of(const struct layer_case *layer, bool scores_fp8, double sigma, struct layer_bounds *bounds);

/* The worst of all steps and ranks. wrong: what was out of its bound; the run is right when it is 0. */
struct layer_judgement {
    uint64_t wrong;
    char first[LAYER_SENTENCE];         /* the first thing wrong: step, rank, tensor, row, head, by how much */
    double norm_steps, norm_relative;   /* BF16 steps from FP64, bound 1 */
    double query_steps, query_relative; /* e4m3 steps, bound 1; Frobenius of the decoded bytes */
    double query_unequal;               /* fraction of all compared bytes that differ; bound: e4m3_unequal_allowed */
    double cache_steps, cache_relative;
    double rows_rounded, rows_ideal, lse; /* lse: the worst as a fraction of its bound */
    double value_ulp, value_relative;     /* BF16 ulp of decision 9's magnitude, bound 2 */
    double output_ideal, output_cosine;   /* the whole step */
};
enum { NORM_BOUND = 1, E4M3_BOUND = 1 };
#define E4M3_RELATIVE_BOUND 1.25e-2 /* one byte in a hundred off by a step of at most 1/8 */

/* After layer_run_all. False: out of memory. */
bool layer_judge(const struct layer_run *run, const struct layer_case *layer, const struct layer_bounds *bounds,
                 struct layer_judgement *out);
/* Puts the judgement into the rows of the run's kernels: error, bound, relative, wrong. */
void layer_judge_rows(struct layer_run *run, const struct layer_bounds *bounds, const struct layer_judgement *judged);

/* How many of `compared` bytes may differ: one in a hundred, and a little more for small numbers: one BF16 term rounded
 * the other way moves all 512 latents of its row, and some of them over an e4m3 boundary. */
uint64_t e4m3_unequal_allowed(uint64_t compared);

/* Rows of 576 e4m3 bytes: each byte at most one e4m3 step from the reference's, the step taken at no less than 1/8 of
 * the row's RMS (a value that all but cancels moves further when FP32 and FP64 round one of its BF16 terms, a qf,
 * apart). Returns how many bytes do not fit; place: row * 576 + byte of the first of them; unequal: bytes that differ
 * at all; steps: the worst distance of one that the RMS rule did not excuse. sums: += squares of error and reference.
 */
uint64_t layer_compare_bytes(const uint8_t *got, const uint8_t *wanted, size_t rows, size_t *place, uint64_t *unequal,
                             double *steps, double sums[2]);

#endif
