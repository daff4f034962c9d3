/* fp8_chain.h - a sum of e4m3 products as a chain of Hopper's tensor core leaves it (wgmma .f32.e4m3.e4m3): what a
 * kernel that never takes its sums out computes. On the host, element by element; pure functions, no device.
 *
 * An instruction adds 32 products and the accumulator at once, each cut (towards zero) below 2^-13 of the greatest
 * exponent among them, and keeps 13 bits of fraction of the sum: the public model of Xie and others (MMA-Sim, arXiv
 * 2511.10909). The suite holds it against chains that an H200 has computed: equal to the bit. */
#ifndef TESTS_FP8_CHAIN_H
#define TESTS_FP8_CHAIN_H

#include <stdint.h>

enum { FP8_CHAIN_DEPTH = 32 }; /* products of an instruction */

/* e4m3 numbers taken apart: fraction * 2^(exponent - 3); zero's exponent is below all others'. */
struct fp8_parts {
    int16_t fraction[256], exponent[256];
};
void fp8_parts_fill(struct fp8_parts *parts);

/* One instruction on one element: d + sum of a[k] b[k]. Everything finite. */
float fp8_chain_step(const struct fp8_parts *parts, float d, const uint8_t a[FP8_CHAIN_DEPTH],
                     const uint8_t b[FP8_CHAIN_DEPTH]);

#endif
