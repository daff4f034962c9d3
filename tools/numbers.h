/* numbers.h - the number formats and the random numbers of references, tools and tests.
 *
 * Owns: BF16 and e4m3fn as explicit rounding of FP64, a seeded generator, error measures. Pure functions, no
 * state, no I/O. Shares no code with kernels, runtime or the CPU device: it is what they are judged by. */
#ifndef TOOLS_NUMBERS_H
#define TOOLS_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Round to nearest, ties to even; overflow to infinity; NaN to 0x7FFF. */
uint16_t bf16_from_double(double value);
double bf16_to_double(uint16_t bits);
bool bf16_is_nan(uint16_t bits);
/* Distance of neighbouring BF16 numbers at |value| (2^-133 at and below the subnormals). */
double bf16_ulp(double value);
/* How many BF16 numbers lie from a to b; +0 and -0 are one. NaN against NaN 0, NaN against a number UINT32_MAX. */
uint32_t bf16_steps(uint16_t a, uint16_t b);

/* Error of `got` in BF16 ulp of `magnitude`; infinity for a NaN or an infinity where `want` has none, or the other way.
 */
double bf16_ulp_error(uint16_t got, uint16_t want, double magnitude);

/* OCP E4M3 "fn": nearest, ties to even, saturating at +-448; NaN to 0x7F. */
uint8_t e4m3_from_double(double value);
double e4m3_to_double(uint8_t bits); /* 0x7F and 0xFF are NaN */

/* Round to FP32 once, ties to even. */
float f32_from_bits(uint32_t bits);
uint32_t f32_to_bits(float value);
/* The FP32 number `steps` places above value (below when negative); value finite and positive. */
float f32_step(float value, int32_t steps);

/* xoshiro256**, seeded by splitmix64: the same numbers on every machine. */
struct random {
    uint64_t state[4];
};
void random_seed(struct random *random, uint64_t seed);
uint64_t random_next(struct random *random);
uint32_t random_below(struct random *random, uint32_t bound); /* 0..bound-1, bound > 0 */
double random_uniform(struct random *random);                 /* [0, 1) */
double random_normal(struct random *random);                  /* mean 0, variance 1 */

/* sqrt(sum (a-b)^2 / sum b^2) over elements where both are finite; 0 when both sums are 0, infinity when only b's is.
 */
double relative_error(const double *value, const double *reference, size_t count);

#endif
