/* foreign_math.c - cases of foreign.h of single and double precision: functions of the CUDA library and fast ones.
 *
 * Bounds are those that NVIDIA states for the functions, in units in the last place, and one for what is near a power
 * of 2. */
#include "tests/foreign.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One result: what is wanted, and how many units of 2^-23 (2^-52) of it, or how much at all, it may be off. */
struct result {
    double want, units, absolute;
};

static void put(struct foreign_near to, size_t at, struct result r, double unit) {
    to.want[at] = r.want;
    to.bound[at] = r.units == 0 && r.absolute == 0 ? 0 : (r.units + 1) * unit * fabs(r.want) + r.absolute;
}

/* ---- double ---- */
static double directed(int rounding, char operation, double a, double b, double c) {
    volatile double x = a, y = b, z = c, r;
    fesetround(rounding);
    r = operation == '+'   ? x + y
        : operation == '*' ? x * y
        : operation == '/' ? x / y
        : operation == 'f' ? fma(x, y, z)
                           : sqrt(x);
    fesetround(FE_TONEAREST);
    return r;
}

static void doubles_of(double x, int i, struct result out[17]) {
    double p = fabs(x) + 0.125;
    const struct result rows[17] = {
        {exp(x * 0.5), 1, 0},
        {log(p), 1, 0},
        {sin(x), 2, 0},
        {cos(x * 1e6), 2, 0},
        {pow(p, 1.75), 2, 0},
        {sqrt(p), 0, 0},
        {cbrt(x), 1, 0},
        {erf(x), 2, 0},
        {tgamma(p), 10, 0},
        {atan2(x, p), 2, 0},
        {fmod(x * 100.0, 0.7), 0, 0},
        {1.0 / sqrt(p), 2, 0},
        {tanh(x), 2, 0},
        {x / p + 1.0 / p, 0, 0},
        {floor(x * 10.0) + rint(x) + trunc(x * 3.0) + ceil(x), 0, 0},
        {ldexp(x, i % 40 - 20) + (double)llrint(x * 1e9) + (double)(int)x, 0, 0},
        {directed(FE_TOWARDZERO, '+', x, 1e-17, 0) + directed(FE_UPWARD, '*', x, 1.1, 0) +
             directed(FE_DOWNWARD, 'f', x, x, 1e-18) + directed(FE_DOWNWARD, '/', x, 3.0, 0) +
             directed(FE_UPWARD, 's', p, 0, 0),
         0, 0},
    };
    memcpy(out, rows, sizeof rows);
}

void foreign_case_double_math(struct foreign_case *c) {
    enum { COUNT = 128 };
    double *in = foreign_in(c, COUNT * sizeof *in);
    free(foreign_fill(c, FOREIGN_F64, in, COUNT, 6));
    struct foreign_near out = foreign_out_near(c, FOREIGN_F64, 17 * COUNT);
    foreign_u32(c, COUNT);
    foreign_launch(c, 2, 1, COUNT / 2, 1);
    for (int i = 0; i < COUNT; i++) {
        struct result rows[17];
        doubles_of(in[i], i, rows);
        for (unsigned k = 0; k < 17; k++)
            put(out, k * COUNT + (size_t)i, rows[k], 0x1p-52);
    }
}

/* ---- single ---- */
static void floats_of(float f, struct result out[15], struct result fast[8]) {
    float fp = fabsf(f) + 0.125f, wide = f * 30000.0f, quotient = f / (fp + 1.0f), three = f * 3.0f;
    double x = (double)f, p = (double)fp, ratio = (double)quotient;
    const struct result rows[15] = {
        {exp(x), 2, 0},
        {log(p), 1, 0},
        {sin(x), 2, 0},
        {cos((double)wide), 2, 0},
        {pow(p, 1.75), 4, 0},
        {(double)sqrtf(fp), 0, 0},
        {tanh(x), 2, 0},
        {erf(x), 2, 0},
        {lgamma(p), 6, 6 * 0x1p-23}, /* near 1 and 2, where it is nothing */
        {atan2(x, p), 3, 0},
        {fmod((double)(f * 100.0f), 0.75), 0, 0},
        {(double)(f / fp), 0, 0},
        {log1p(p) + expm1(x) + hypot(x, p), 3, 8 * 0x1p-23},
        {(double)(roundf(f * 4.0f) + truncf(f) + floorf(three) + ceilf(f) + rintf(f * 2.0f)), 0, 0},
        {asin(ratio) + acos(ratio), 4, 4 * 0x1p-23},
    };
    memcpy(out, rows, sizeof rows);
    const struct result quick[8] = {
        {exp(x), 2 + floor(fabs(1.173 * x)), 0},
        {log(p), 3, 0x1p-21},
        {sin(x), 0, 0x1p-19}, /* 2^-21.41 within pi; beyond, x / (2 pi) is rounded first */
        {cos(x), 0, 0x1p-19},
        {x / p, 2, 0},
        {1.0 / sqrt(p), 2, 0},
        {pow(p, 1.75), 32, 0}, /* exp2(1.75 log2 p) with 2^-21 of the exponent */
        {(double)(1.0f / fp), 0, 0},
    };
    memcpy(fast, quick, sizeof quick);
}

void foreign_case_float_math(struct foreign_case *c) {
    enum { COUNT = 256 };
    float *in = foreign_in(c, COUNT * sizeof *in);
    free(foreign_fill(c, FOREIGN_F32, in, COUNT, 7.5));
    struct foreign_near out = foreign_out_near(c, FOREIGN_F32, 15 * COUNT),
                        fast = foreign_out_near(c, FOREIGN_F32, 8 * COUNT);
    foreign_u32(c, COUNT);
    foreign_launch(c, 2, 1, COUNT / 2, 1);
    for (size_t i = 0; i < COUNT; i++) {
        struct result rows[15], quick[8];
        floats_of(in[i], rows, quick);
        for (unsigned k = 0; k < 15; k++)
            put(out, k * COUNT + i, rows[k], 0x1p-23);
        for (unsigned k = 0; k < 8; k++)
            put(fast, k * COUNT + i, quick[k], 0x1p-23);
    }
}

/* ---- every rounding ---- */
static uint32_t bits_of(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return isnan(v) ? 0x7FFFFFFF : bits; /* the NaN that arithmetic makes */
}

static uint32_t rounded(int rounding, char operation, float a, float b, float c) {
    volatile float x = a, y = b, z = c, r;
    fesetround(rounding);
    r = operation == '+'   ? x + y
        : operation == '*' ? x * y
        : operation == '/' ? x / y
        : operation == 'f' ? fmaf(x, y, z)
                           : sqrtf(x);
    fesetround(FE_TONEAREST);
    return bits_of(r);
}

static uint32_t from_integer(int rounding, int64_t v) {
    volatile int64_t x = v;
    volatile float r;
    fesetround(rounding);
    r = (float)x;
    fesetround(FE_TONEAREST);
    return bits_of(r);
}

static uint32_t from_double(int rounding, double v) {
    volatile double x = v;
    volatile float r;
    fesetround(rounding);
    r = (float)x;
    fesetround(FE_TONEAREST);
    return bits_of(r);
}

/* A whole number as an integer between low and high, both exact; 0 for a NaN. */
static int64_t whole(double v, double low, double high) {
    return isnan(v) ? 0 : v <= low ? (int64_t)low : v >= high ? (int64_t)high : (int64_t)v;
}

static uint32_t lesser(float x, float y, bool least) {
    if (isnan(x) || isnan(y)) return isnan(x) ? bits_of(y) : bits_of(x);
    if (x == y) return bits_of((signbit(x) != 0) == least ? x : y); /* -0 is less than 0 */
    return bits_of((x < y) == least ? x : y);
}

static void rounding_of(float x, float y, uint32_t out[21]) {
    uint32_t raw, other, sign;
    memcpy(&raw, &x, sizeof raw);
    memcpy(&other, &y, sizeof other);
    sign = other & 0x80000000;
    double d = (double)x, most = 2147483647, least = -2147483648.0;
    int64_t wide = isnan(x) ? 0 : d >= 0x1p63 ? INT64_MAX : d < -0x1p63 ? INT64_MIN : (int64_t)nearbyint(d);
    const uint32_t rows[21] = {
        (uint32_t)whole(nearbyint(d), least, most),
        (uint32_t)whole(trunc(d), least, most),
        (uint32_t)whole(ceil(d), least, most),
        (uint32_t)whole(floor(d), 0, 4294967295.0),
        (uint32_t)(wide >> 16),
        rounded(FE_TOWARDZERO, '+', x, y, 0),
        rounded(FE_UPWARD, '*', x, y, 0),
        rounded(FE_DOWNWARD, 'f', x, y, x),
        rounded(FE_TOWARDZERO, '/', x, y, 0),
        rounded(FE_DOWNWARD, 's', fabsf(x), 0, 0),
        from_integer(FE_TOWARDZERO, (int32_t)raw),
        from_integer(FE_UPWARD, raw),
        from_integer(FE_DOWNWARD, (int64_t)raw * 12345),
        from_double(FE_UPWARD, d * 1.0000001),
        lesser(x, y, true),
        lesser(x, y, false),
        isnan(x) || x <= 0 ? 0
        : x >= 1           ? 0x3F800000
                           : raw,
        (raw & 0x7FFFFFFF) | sign,
        (uint32_t)whole(trunc(d), 0, 4294967295.0) & 255,
        (uint32_t)((int8_t)raw * (int16_t)other),
        (uint32_t)isnan(x) | (uint32_t)(isinf(x) != 0) << 1 | raw >> 31 << 2 | (uint32_t)(isfinite(y) != 0) << 3,
    };
    memcpy(out, rows, sizeof rows);
}

void foreign_case_rounding(struct foreign_case *c) {
    enum { COUNT = 256 };
    static const float special[] = {
        0.0f, -0.0f, 1.0f,      -1.0f,      INFINITY,        -INFINITY, NAN,      NAN,     0.5f,    1.5f,
        2.5f, -2.5f, 0x1p-149f, -0x1p-130f, 0x1.FFFFFEp127f, 0x1p31f,   -0x1p31f, 0x1p32f, 0x1p63f, -0x1.8p63f};
    float *in = foreign_in(c, COUNT * sizeof *in);
    uint32_t *out = foreign_out(c, 21 * COUNT * sizeof *out), row[21];
    foreign_any_nan(c, 13 * COUNT, COUNT); /* cvt from double keeps a payload or not */
    foreign_u32(c, COUNT);
    foreign_launch(c, 2, 1, COUNT / 2, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        uint32_t word = foreign_word(c); /* three in four of ordinary size, the others of any */
        if (i % 4 != 0) word = (word & 0x807FFFFF) | (100 + (word >> 8) % 60) << 23;
        memcpy(&in[i], &word, sizeof word);
        if (i % 8 == 0) in[i] = special[i / 8 % (sizeof special / sizeof special[0])];
        if (i % 8 == 1 && i > 200) in[i] = special[foreign_word(c) % (sizeof special / sizeof special[0])];
    }
    for (unsigned i = 0; i < COUNT; i++) {
        rounding_of(in[i], in[(i + 1) % COUNT], row);
        for (unsigned k = 0; k < 21; k++)
            out[k * COUNT + i] = row[k];
    }
}
