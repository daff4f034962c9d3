/* numbers.c - the number formats and the random numbers of references, tools and tests.
 * May call: libm. Must not: keep state, do I/O, share code with what it judges. */
#include <tools/numbers.h>

#include <math.h>
#include <string.h>

enum { BF16_FRACTION = 7, BF16_LOWEST = -126, BF16_INFINITY = 0x7F80, BF16_NAN = 0x7FFF };
enum { E4M3_FRACTION = 3, E4M3_LOWEST = -6, E4M3_GREATEST = 0x7E, E4M3_NAN = 0x7F };

/* Exponent of the binade of a finite value >= 0, not below lowest; frexp calls that of 0 zero. */
static int binade(double magnitude, int lowest) {
    int exponent = 0;
    frexp(magnitude, &exponent);
    return magnitude > 0 && exponent - 1 > lowest ? exponent - 1 : lowest;
}

/* Nearest integer, ties to even, of a value in [0, 2^52). */
static double nearest_even(double value) {
    double below = floor(value);
    double rest = value - below;
    if (rest > 0.5 || (rest == 0.5 && fmod(below, 2.0) == 1.0)) {
        return below + 1.0;
    }
    return below;
}

/* The bits without sign of a format with `fraction` bits and lowest normal exponent `lowest`: a carry out of the
 * fraction walks into the exponent by itself. The caller clips. */
static uint64_t encode(double magnitude, int fraction, int lowest) {
    int exponent = binade(magnitude, lowest);
    double steps = nearest_even(ldexp(magnitude, fraction - exponent));
    return ((uint64_t)(exponent - lowest) << fraction) + (uint64_t)steps;
}

uint16_t bf16_from_double(double value) {
    if (isnan(value)) {
        return BF16_NAN;
    }
    uint64_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs(value);
    uint64_t bits = magnitude >= 0x1p128 ? BF16_INFINITY : encode(magnitude, BF16_FRACTION, BF16_LOWEST);
    return (uint16_t)(sign | bits); /* a value that rounds to 2^128 has become 0x7F80 by the carry */
}

double bf16_to_double(uint16_t bits) {
    return (double)f32_from_bits((uint32_t)bits << 16);
}

bool bf16_is_nan(uint16_t bits) {
    return (bits & 0x7FFF) > BF16_INFINITY;
}

double bf16_ulp(double value) {
    double magnitude = fabs(value);
    if (!(magnitude < 0x1p128)) {
        return INFINITY;
    }
    return ldexp(1.0, binade(magnitude, BF16_LOWEST) - BF16_FRACTION);
}

uint32_t bf16_steps(uint16_t a, uint16_t b) {
    if (bf16_is_nan(a) || bf16_is_nan(b)) {
        return bf16_is_nan(a) && bf16_is_nan(b) ? 0 : UINT32_MAX;
    }
    int32_t place_a = a & 0x8000 ? -(a & 0x7FFF) : a;
    int32_t place_b = b & 0x8000 ? -(b & 0x7FFF) : b;
    return (uint32_t)(place_a > place_b ? place_a - place_b : place_b - place_a);
}

double bf16_ulp_error(uint16_t got, uint16_t want, double magnitude) {
    double value = bf16_to_double(got), ideal = bf16_to_double(want);
    if (bf16_is_nan(want) || bf16_is_nan(got)) {
        return bf16_is_nan(want) && bf16_is_nan(got) ? 0 : INFINITY;
    }
    if (isinf(value) || isinf(ideal)) {
        return value == ideal ? 0 : INFINITY;
    }
    if (magnitude == 0) {
        return value == 0 ? 0 : INFINITY;
    }
    return fabs(value - ideal) / bf16_ulp(magnitude);
}

uint8_t e4m3_from_double(double value) {
    if (isnan(value)) {
        return E4M3_NAN;
    }
    uint64_t sign = signbit(value) ? 0x80 : 0;
    double magnitude = fabs(value);
    uint64_t bits = magnitude >= 512.0 ? E4M3_GREATEST : encode(magnitude, E4M3_FRACTION, E4M3_LOWEST);
    return (uint8_t)(sign | (bits > E4M3_GREATEST ? E4M3_GREATEST : bits));
}

double e4m3_to_double(uint8_t bits) {
    if ((bits & 0x7F) == E4M3_NAN) {
        return NAN;
    }
    int exponent = (bits >> E4M3_FRACTION) & 15;
    int fraction = bits & 7;
    double magnitude = exponent == 0 ? ldexp(fraction, E4M3_LOWEST - E4M3_FRACTION)
                                     : ldexp(8 + fraction, exponent - 7 - E4M3_FRACTION);
    return bits & 0x80 ? -magnitude : magnitude;
}

float f32_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint32_t f32_to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float f32_step(float value, int32_t steps) {
    return f32_from_bits((uint32_t)((int64_t)f32_to_bits(value) + steps));
}

static uint64_t rotate(uint64_t word, int by) {
    return (word << by) | (word >> (64 - by));
}

void random_seed(struct random *random, uint64_t seed) {
    for (int i = 0; i < 4; i++) {
        seed += 0x9E3779B97F4A7C15u;
        uint64_t word = seed;
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
        word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
        random->state[i] = word ^ (word >> 31);
    }
}

uint64_t random_next(struct random *random) {
    uint64_t *s = random->state;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate(s[3], 45);
    return result;
}

uint32_t random_below(struct random *random, uint32_t bound) {
    return (uint32_t)(((random_next(random) >> 32) * bound) >> 32);
}

double random_uniform(struct random *random) {
    return (double)(random_next(random) >> 11) * 0x1p-53;
}

double random_normal(struct random *random) {
    double radius = sqrt(-2.0 * log(1.0 - random_uniform(random)));
    return radius * cos(6.283185307179586 * random_uniform(random));
}

double relative_error(const double *value, const double *reference, size_t count) {
    double error = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        if (isfinite(value[i]) && isfinite(reference[i])) {
            error += (value[i] - reference[i]) * (value[i] - reference[i]);
            norm += reference[i] * reference[i];
        }
    }
    return error == 0 ? 0 : sqrt(error / norm);
}
