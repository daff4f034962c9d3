/* cpu_numbers.h - small floating-point formats for the suites, by definition: the value of each pattern by formula,
 * rounding by search among all patterns with exact comparison. Shares nothing with the device. */
#ifndef DCPK_TESTS_CPU_NUMBERS_H
#define DCPK_TESTS_CPU_NUMBERS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef __float128 wide;

struct format {
    int fraction, exponent, bias;
    uint32_t largest, infinity, nan, sign;
};
static const struct format F16 = {10, 5, 15, 0x7BFF, 0x7C00, 0x7FFF, 0x8000},
                           BF16 = {7, 8, 127, 0x7F7F, 0x7F80, 0x7FFF, 0x8000}, E4M3 = {3, 4, 7, 0x7E, 0x7F, 0x7F, 0x80},
                           E5M2 = {2, 5, 15, 0x7B, 0x7C, 0x7F, 0x80},
                           SINGLE = {23, 8, 127, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF, 0x80000000};

/* The value of a finite magnitude pattern; one past the largest gives what the next would be. */
static inline double magnitude_value(const struct format *f, uint32_t pattern) {
    uint32_t exponent = pattern >> f->fraction, fraction = pattern & ((1u << f->fraction) - 1);
    double unit = ldexp(1.0, -f->fraction);
    return exponent ? ldexp(1.0 + fraction * unit, (int)exponent - f->bias) : ldexp(fraction * unit, 1 - f->bias);
}

static inline double small_value(const struct format *f, uint32_t bits) {
    uint32_t magnitude = bits & (f->sign - 1);
    double v = magnitude <= f->largest                             ? magnitude_value(f, magnitude)
               : f->infinity != f->nan && magnitude == f->infinity ? INFINITY
                                                                   : NAN;
    return bits & f->sign ? -v : v;
}

/* mode: 'n' nearest even, 'z', 'm', 'p', 'a' nearest away */
static inline uint32_t small_rounded(const struct format *f, wide v, bool negative, char mode) {
    uint32_t sign = negative ? f->sign : 0;
    if (v != v) return f->nan;
    wide magnitude = v < 0 ? -v : v;
    if (magnitude == (wide)INFINITY) return sign | f->infinity;
    uint32_t low = 0, high = f->largest; /* the largest pattern with value <= magnitude */
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if ((wide)magnitude_value(f, middle) <= magnitude)
            low = middle;
        else
            high = middle - 1;
    }
    wide below = magnitude_value(f, low), above = magnitude_value(f, low + 1), rest = magnitude - below,
         half = (above - below) / 2;
    bool up = false;
    if (rest != 0)
        up = mode == 'n'   ? rest > half || (rest == half && (low & 1))
             : mode == 'a' ? rest >= half
             : mode == 'm' ? negative
             : mode == 'p' ? !negative
                           : false;
    uint32_t pattern = low + up;
    return sign | (pattern > f->largest ? f->infinity : pattern);
}

static inline uint32_t small_saturated(const struct format *f, wide v, bool negative, char mode) {
    if (v != v) return f->nan;
    uint32_t bits = small_rounded(f, v, negative, mode);
    return (bits & (f->sign - 1)) > f->largest ? (bits & f->sign) | f->largest : bits;
}

#endif
