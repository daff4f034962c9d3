/* exec_fused.h - what sums of products on Hopper's tensor cores have in common, for exec_wgmma_math.c and exec_mma.c.
 *
 * All products of an instruction and the accumulator are added at once. Each is exact, shifted to the greatest exponent
 * among them and cut (towards zero) below 2^-F of it; that sum is exact and is cut once more to f32. The exponent of a
 * product is the sum of its factors' exponents, subnormal ones having their type's least; zeros have none. */
#ifndef DCPK_CPU_EXEC_FUSED_H
#define DCPK_CPU_EXEC_FUSED_H

#include <math.h>
#include <string.h>
#include <runtime/cpu/exec_ops.h>

/* FRACTION_16: F where factors have 16 bits or are tf32. LEAST_TOP: a sum of zeros alone is scaled by this. */
enum { FRACTION_16 = 25, NO_EXPONENT = -10000, LEAST_TOP = -600 };

#define FUSED_INLINE static inline __attribute__((always_inline, unused))

FUSED_INLINE double power_of_two(int exponent) { /* -1022 to 1023 */
    u64 bits = (u64)(1023 + exponent) << 52;
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

/* The exponent of an f32 of these bits (or of a bf16 or tf32 in its place). */
FUSED_INLINE s16 exponent_f32(u32 bits) {
    int field = (int)(bits >> 23 & 0xFF);
    return (s16)(bits << 1 ? (field ? field : 1) - 127 : NO_EXPONENT);
}

/* A result of no magnitude is +0, whatever was cut (seen on an H200). */
FUSED_INLINE u32 no_negative_zero(u32 bits, u32 sign) {
    return bits & (0 - (u32)(bits != sign));
}

/* Towards zero; from 2^128 on infinite; NaN is 0x7FFFFFFF. kept: a mask of the bits that stay. Without branches: vector
 * code. */
FUSED_INLINE u32 f32_cut(double v, u32 kept) {
    float narrow = (float)v;
    u32 bits, nan = 0 - (u32)(v != v), beyond = (u32)(fabs((double)narrow) > fabs(v)) & (u32)(fabs(v) < 0x1p128);
    memcpy(&bits, &narrow, 4);
    return (no_negative_zero((bits - beyond) & kept, 0x80000000) & ~nan) | (nan & 0x7FFFFFFF);
}

/* mma.sync: half a tile, 8 rows of 8 columns, as exec_mma_fused.c adds it. Factors of A: [unit][row][word], of B:
 * [unit][word][place of the column], even columns at the first four places; sums, before and after: [odd
 * column][row][pair]. Exponents lie likewise. */
struct mma_half {
    const double *a, *b;
    const s16 *a_exponents, *b_exponents, *sum_exponents;
    double *sums;
    unsigned units; /* K / 4 */
};
void mma_fused(const struct mma_half *half);

#endif
