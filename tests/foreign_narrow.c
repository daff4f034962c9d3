/* foreign_narrow.c - cases of foreign.h of the narrow formats: half, bfloat16, the two of 8 bits. */
#include "tests/foreign.h"

#include <math.h>
#include <stdlib.h>

/* Inputs between 2^-6 and 2^4, whose products and sums FP64 holds exactly, behind a few special ones. */
static void fill_pairs(struct foreign_case *c, bool half, uint16_t *a, uint16_t *b, unsigned count) {
    static const double special[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, 0.5, 2.5, -3.5, 0x1p-24, -0x1p-20};
    enum { SPECIAL = sizeof special / sizeof special[0] };
    uint16_t (*bits)(double) = half ? foreign_f16_bits : foreign_bf16_bits;
    double (*nearest)(double) = half ? foreign_f16 : foreign_bf16;
    for (unsigned i = 0; i < count; i++) {
        double x = foreign_unit(c), y = foreign_unit(c);
        x = ldexp(x + copysign(1, x), foreign_between(c, -6, 3));
        y = ldexp(y + copysign(1, y), foreign_between(c, -6, 3));
        if (i < SPECIAL * SPECIAL) {
            x = special[i / SPECIAL];
            y = special[i % SPECIAL];
        }
        a[i] = i % 61 == 60 ? 0x7FFF : bits(nearest(x)); /* a NaN, in the first operand alone */
        b[i] = bits(nearest(y));
        if (i % 37 == 36) b[i] = a[i] & 0x7C00 ? bits(nearest(1)) : a[i];
    }
}

static double greatest(double x, double y, bool least, bool nan_wins) {
    if (isnan(x) || isnan(y)) return nan_wins ? (double)NAN : isnan(x) ? y : x;
    if (x == y) return (signbit(x) != 0) == least ? x : y;
    return (x < y) == least ? x : y;
}
static int cut(double v, double low, double high) {
    return isnan(v) ? 0 : v <= low ? (int)low : v >= high ? (int)high : (int)v;
}
static double f16_to(double v, enum foreign_rounding rounding) {
    return foreign_round(v, 11, -24, 65504, rounding);
}
static double bf16_to(double v, enum foreign_rounding rounding) {
    return foreign_round(v, 8, -133, 0x1.FEp127, rounding);
}
static int whole(double v) {
    return cut(v, -2147483648.0, 2147483647.0);
}
static int times(int v, unsigned by) { /* as 32 bits hold it */
    return (int)((unsigned)v * by);
}

/* ---- half ---- */
static void halves_of(double x, double y, double exact[14], double near[6]) {
    double sum = foreign_f16(x * y + x), saturated = foreign_f16(x * y);
    exact[0] = foreign_f16(x + y);
    exact[1] = foreign_f16(x * y);
    exact[2] = sum;
    exact[3] = greatest(x, y, false, false);
    exact[4] = greatest(x, y, true, true);
    exact[5] = foreign_f16(x * y + 0.5);
    exact[6] = foreign_f16(y - x);
    exact[7] = -fabs(x);
    exact[8] = isnan(sum) ? sum : sum > 0 ? sum : 0;
    exact[9] = f16_to((double)((float)x * 1.2345f), TO_ZERO);
    exact[10] = f16_to((double)((float)x * 1.2345f), UP);
    exact[11] = foreign_f16(times(whole(trunc(x)), 3));
    exact[12] = isnan(saturated) || saturated <= 0 ? 0 : saturated > 1 ? 1 : saturated;
    exact[13] = isnan(x) ? x : copysign(nearbyint(x), x);
    near[0] = exp2(foreign_f16(x * 0.125));
    near[1] = sqrt(fabs(x));
    near[2] = 1 / foreign_f16(fabs(x) + 0.25);
    near[3] = tanh(x);
    near[4] = x / foreign_f16(fabs(y) + 0.5);
    near[5] = log2(foreign_f16(fabs(x) + 0.25));
}

void foreign_case_half_math(struct foreign_case *c) {
    enum { COUNT = 256 };
    uint16_t *a = foreign_in(c, COUNT * sizeof *a), *b = foreign_in(c, COUNT * sizeof *b);
    struct foreign_near exact = foreign_out_near(c, FOREIGN_F16, 14 * COUNT),
                        near = foreign_out_near(c, FOREIGN_F16, 6 * COUNT);
    int *integers = foreign_out(c, 3 * COUNT * sizeof *integers);
    foreign_u32(c, COUNT);
    foreign_launch(c, 2, 1, COUNT / 2, 1);
    fill_pairs(c, true, a, b, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        double x = foreign_f16_value(a[i]), y = foreign_f16_value(b[i]), exacts[14], nears[6];
        halves_of(x, y, exacts, nears);
        for (size_t k = 0; k < 14; k++)
            exact.want[k * COUNT + i] = exacts[k];
        for (size_t k = 0; k < 6; k++) { /* a unit in the last place; tanh 2^-10.987 in all */
            near.want[k * COUNT + i] = nears[k];
            double off = k == 3 ? 0x1.04p-11 + 0x1p-12 : 0x1p-10 * fabs(nears[k]) + 0x1p-24;
            near.bound[k * COUNT + i] = isfinite(nears[k]) ? off : 0;
        }
        integers[i] = (x < y) | !(x < y) << 1 | (x == y) << 2 | (isnan(x) ? 1 : 0) << 3 | (x == x) << 4;
        integers[COUNT + i] =
            (int)((unsigned)times(whole(nearbyint(x)), 65536) + (unsigned)cut(floor(y), -32768, 32767));
        double up = ceil(fabs(x));
        unsigned up_bits = isnan(up) ? 0 : isinf(up) ? UINT32_MAX : (unsigned)up;
        integers[2 * COUNT + i] = (int)(up_bits ^ (unsigned)(int16_t)b[i]);
    }
}

/* ---- bfloat16 ---- */
static void bfloats_of(double x, double y, double exact[11], double near[3]) {
    double scaled = (double)((float)x * 1.001f);
    exact[0] = foreign_bf16(x + y);
    exact[1] = foreign_bf16(x * y);
    exact[2] = foreign_bf16(x * y + x);
    exact[3] = greatest(x, y, true, false);
    exact[4] = foreign_bf16(y * x + x);
    exact[5] = bf16_to(scaled, TO_ZERO);
    exact[6] = bf16_to(scaled, DOWN);
    exact[7] = foreign_bf16(x * 1.00390625);
    exact[8] = foreign_bf16(times(whole(trunc(x)), 257));
    exact[9] = foreign_bf16((double)((float)x * 3.0f));
    exact[10] = greatest(x, y, false, true);
    near[0] = exp2(foreign_bf16(x * 0.125));
    near[1] = 1 / sqrt(foreign_bf16(fabs(x) + 0.25));
    near[2] = tanh(x);
}

void foreign_case_bf16_math(struct foreign_case *c) {
    enum { COUNT = 256 };
    uint16_t *a = foreign_in(c, COUNT * sizeof *a), *b = foreign_in(c, COUNT * sizeof *b);
    struct foreign_near exact = foreign_out_near(c, FOREIGN_BF16, 11 * COUNT),
                        near = foreign_out_near(c, FOREIGN_BF16, 3 * COUNT);
    uint32_t *integers = foreign_out(c, 2 * COUNT * sizeof *integers);
    foreign_u32(c, COUNT);
    foreign_launch(c, 2, 1, COUNT / 2, 1);
    fill_pairs(c, false, a, b, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        double x = foreign_bf16_value(a[i]), y = foreign_bf16_value(b[i]), exacts[11], nears[3];
        bfloats_of(x, y, exacts, nears);
        for (size_t k = 0; k < 11; k++)
            exact.want[k * COUNT + i] = exacts[k];
        for (size_t k = 0; k < 3; k++) { /* a unit in the last place; tanh 2^-8 */
            near.want[k * COUNT + i] = nears[k];
            near.bound[k * COUNT + i] = !isfinite(nears[k]) ? 0 : k == 2 ? 0x1p-8 : 0x1p-7 * fabs(nears[k]);
        }
        uint32_t masks = (x > y ? 0x00000002u : 0) | (y > x ? 0x00010000u : 0);
        integers[i] = (x < y) | (uint32_t)(x < y || x > y) << 1 | masks << 2;
        integers[COUNT + i] = (uint32_t)whole(nearbyint(x)) ^ (uint32_t)(b[i] ^ 0x8000) << 16;
    }
}

/* ---- 8 bits ---- */
struct eight {
    int fraction, bias;
    double most;
    uint8_t infinity; /* beyond `most`: its bits, or those of `most` where there is none */
};
static const struct eight e4m3 = {3, 7, 448, 0x7E}, e5m2 = {2, 15, 57344, 0x7B}, e5m2_infinite = {2, 15, 57344, 0x7C};

static uint8_t eight_bits(double v, const struct eight *format) {
    uint8_t sign = signbit(v) ? 0x80 : 0;
    int lowest = 1 - format->bias - format->fraction;
    double r = fabs(foreign_round(v, format->fraction + 1, lowest, format->most, TO_NEAREST));
    if (isinf(r)) return sign | format->infinity;
    if (r < ldexp(1, 1 - format->bias)) return sign | (uint8_t)ldexp(r, -lowest);
    int e = ilogb(r);
    return sign | (uint8_t)(((e + format->bias) << format->fraction) + (int)ldexp(r, format->fraction - e) -
                            (1 << format->fraction));
}
static double eight_value(uint8_t bits, const struct eight *format) {
    int exponent = (bits & 127) >> format->fraction, fraction = bits & ((1 << format->fraction) - 1);
    double v = exponent == 0 ? ldexp(fraction, 1 - format->bias - format->fraction)
                             : ldexp(fraction + (1 << format->fraction), exponent - format->bias - format->fraction);
    return bits >> 7 ? -v : v;
}

void foreign_case_fp8_convert(struct foreign_case *c) {
    enum { COUNT = 256 };
    static const float special[] = {0.0f,   -0.0f,     INFINITY, -INFINITY, 448.0f,  464.0f,
                                    464.1f, -57344.0f, 61439.0f, 61440.0f,  0x1p-9f, 0x1p-10f};
    float *in = foreign_in(c, COUNT * sizeof *in);
    uint8_t *narrow = foreign_out(c, 7 * COUNT);
    float *wide = foreign_out(c, 3 * COUNT * sizeof *wide);
    foreign_u32(c, COUNT);
    foreign_launch(c, 2, 1, COUNT / 2, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        in[i] = (float)ldexp(foreign_unit(c), foreign_between(c, -18, 18));
        if (i < sizeof special / sizeof special[0]) in[i] = special[i];
    }
    for (unsigned i = 0; i < COUNT; i++) {
        double v = (double)in[i], w = (double)in[i ^ 1];
        narrow[i] = eight_bits(v, &e4m3);
        narrow[COUNT + i] = eight_bits(v, &e5m2);
        narrow[2 * COUNT + i] = eight_bits(v, &e5m2_infinite);
        narrow[3 * COUNT + i] = eight_bits(v * 1.0001, &e4m3);
        narrow[4 * COUNT + i] = eight_bits(foreign_f16(v), &e4m3);
        narrow[5 * COUNT + i] = eight_bits(foreign_bf16(v), &e5m2);
        narrow[6 * COUNT + i] = eight_bits(w, &e4m3);
        wide[i] = (float)eight_value(narrow[i], &e4m3);
        wide[COUNT + i] = (float)eight_value(narrow[COUNT + i], &e5m2);
        wide[2 * COUNT + i] = (float)eight_value(narrow[6 * COUNT + i], &e4m3);
    }
}
