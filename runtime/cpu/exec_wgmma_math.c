/* exec_wgmma_math.c - the arithmetic of wgmma: a fused sum with few bits, as Hopper's tensor cores have it.
 *
 * All K products of an instruction and the accumulator are added at once. Each is exact, shifted to the greatest
 * exponent among them and cut (towards zero) below 2^-F of it; that sum is exact and is cut once more to the type of d
 * (f16: rounded to nearest even). The exponent of a product is the sum of its factors' exponents, subnormal ones having
 * their type's least; zeros have none. F is 25 for f16 and bf16, 13 for e4m3 and e5m2, whose sums keep 13 bits of
 * fraction in f32 too: from the public bit-accurate model of Xie and others, MMA-Sim (arXiv 2511.10909). So d is within
 * (K + 2) * 2^-F * max(|c|, 4 max|a b|) of the exact sum, towards zero: long chains of 8-bit products lose what is
 * smaller than 2^-13 of the accumulator, as on an H200. NaN is 0x7FFFFFFF (0x7FFF). Integers wrap or saturate. */
#include <math.h>
#include <string.h>
#include <runtime/cpu/exec_ops.h>
#include <runtime/cpu/exec_wgmma.h>

enum { FRACTION_16 = 25, FRACTION_8 = 13, NO_EXPONENT = -10000, LEAST_TOP = -600, AT_ONCE = 8 };

/* ---- numbers ---- */
struct format {
    int fraction, exponents; /* bits */
    bool finite;             /* no infinity: only all bits set is a NaN */
};

static struct format format_of(unsigned kind) {
    switch (kind) {
    case N_F16:
        return (struct format){10, 5, false};
    case N_BF16:
        return (struct format){7, 8, false};
    case N_E4M3X2:
        return (struct format){3, 4, true};
    case N_E5M2X2:
        return (struct format){2, 5, false};
    default:
        return (struct format){23, 8, false};
    }
}

static inline double power_of_two(int exponent) { /* -1022 to 1023 */
    u64 bits = (u64)(1023 + exponent) << 52;
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

static inline double number(struct format f, u32 bits, s16 *exponent) {
    u32 top = (1u << f.exponents) - 1, field = bits >> f.fraction & top, fraction = bits & ((1u << f.fraction) - 1);
    int bias = (int)(top >> 1);
    double sign = bits >> (f.fraction + f.exponents) & 1 ? -1.0 : 1.0;
    *exponent = (s16)((field ? (int)field : 1) - bias);
    if (field == top && (!f.finite || fraction == (1u << f.fraction) - 1))
        return fraction ? (double)NAN : sign * (double)INFINITY;
    if (field) fraction |= 1u << f.fraction;
    if (!fraction) *exponent = NO_EXPONENT;
    return sign * (double)fraction * (fraction ? power_of_two(*exponent - f.fraction) : 1.0);
}

static bool is_integer(const struct op *o) {
    return o->space == N_S32;
}

static inline u32 element(unsigned kind, const u8 *raw, unsigned k) {
    return kind == N_F16 || kind == N_BF16 ? (u32)(raw[2 * k] | raw[2 * k + 1] << 8) : raw[k];
}

static inline double whole(unsigned kind, u32 bits) {
    return kind == N_S8 ? (double)(int8_t)bits : (double)bits;
}

void wgmma_factor(const struct op *o, const u8 (*raw)[WGMMA_BYTES], struct wgmma_factor *b) {
    struct format f = format_of(o->width);
    double sign = o->imm & WGMMA_NEGATE_B ? -1.0 : 1.0;
    for (unsigned n = 0; n < wgmma_columns(o); n++)
        for (unsigned k = 0; k < o->bytes; k++) {
            u32 bits = element(o->width, raw[n], k);
            b->value[k][n] = is_integer(o) ? whole(o->width, bits) : sign * number(f, bits, &b->exponent[k][n]);
        }
}

/* ---- the sum ---- */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define FOR_AVX2 __attribute__((target_clones("avx2", "default")))
#else
#define FOR_AVX2
#endif

/* sum[n] = c[n] + sum of a[k] b[k][n], cut; AT_ONCE columns from `from` on. */
FOR_AVX2 static void fused(unsigned depth, int fraction, const double *a, const s16 *a_exponent,
                           const struct wgmma_factor *b, unsigned from, const double *c, const s16 *c_exponent,
                           double *sum) {
    s16 top[AT_ONCE];
    double scale[AT_ONCE], part[AT_ONCE];
    for (unsigned n = 0; n < AT_ONCE; n++)
        top[n] = c_exponent[n];
    for (unsigned k = 0; k < depth; k++)
        for (unsigned n = 0; n < AT_ONCE; n++) {
            s16 e = (s16)(a_exponent[k] + b->exponent[k][from + n]);
            top[n] = e > top[n] ? e : top[n];
        }
    for (unsigned n = 0; n < AT_ONCE; n++) {
        top[n] = top[n] < LEAST_TOP ? LEAST_TOP : top[n];
        scale[n] = power_of_two(fraction - top[n]);
        part[n] = trunc(c[n] * scale[n]) + 0.0;
    }
    for (unsigned k = 0; k < depth; k++)
        for (unsigned n = 0; n < AT_ONCE; n++)
            part[n] += trunc(a[k] * b->value[k][from + n] * scale[n]);
    for (unsigned n = 0; n < AT_ONCE; n++)
        sum[n] = part[n] * power_of_two(top[n] - fraction);
}

FOR_AVX2 static void plain(unsigned depth, const double *a, const struct wgmma_factor *b, unsigned from, double *sum) {
    for (unsigned k = 0; k < depth; k++)
        for (unsigned n = 0; n < AT_ONCE; n++)
            sum[n] += a[k] * b->value[k][from + n];
}

/* Towards zero; from 2^128 on infinite. */
static u32 f32_cut(double v, bool eight) {
    float narrow = (float)v;
    u32 bits;
    memcpy(&bits, &narrow, 4);
    if (v != v) return 0x7FFFFFFF;
    if (fabs(v) >= 0x1p128) return bits;
    if (fabs((double)narrow) > fabs(v)) bits--;
    return eight ? bits & ~((1u << (23 - FRACTION_8)) - 1) : bits;
}

static u32 whole_bits(double v, bool saturate) {
    s64 value = (s64)v; /* exact: 32 products of 8 bits and 32 bits */
    if (saturate) value = value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value;
    return (u32)(u64)value;
}

void wgmma_row(const struct op *o, const u8 *raw, const struct wgmma_factor *b, bool scale, u32 *d) {
    bool integer = is_integer(o), half = o->space == N_F16, eight = o->order == N_E4M3X2 || o->order == N_E5M2X2;
    struct format f = format_of(o->order), of_d = format_of(o->space);
    double a[WGMMA_BYTES], sign = o->imm & WGMMA_NEGATE_A ? -1.0 : 1.0;
    s16 exponent[WGMMA_BYTES];
    for (unsigned k = 0; k < o->bytes; k++) {
        u32 bits = element(o->order, raw, k);
        a[k] = integer ? whole(o->order, bits) : sign * number(f, bits, &exponent[k]);
    }
    for (unsigned from = 0; from < wgmma_columns(o); from += AT_ONCE) {
        double c[AT_ONCE] = {0}, sum[AT_ONCE];
        s16 c_exponent[AT_ONCE];
        for (unsigned n = 0; n < AT_ONCE; n++) {
            c_exponent[n] = NO_EXPONENT;
            if (scale) c[n] = integer ? (double)(s32)d[from + n] : number(of_d, d[from + n], &c_exponent[n]);
        }
        if (integer)
            plain(o->bytes, a, b, from, memcpy(sum, c, sizeof c));
        else
            fused(o->bytes, eight ? FRACTION_8 : FRACTION_16, a, exponent, b, from, c, c_exponent, sum);
        for (unsigned n = 0; n < AT_ONCE; n++)
            d[from + n] = integer ? whole_bits(sum[n], o->flags & F_SATFINITE)
                          : half  ? (u32)float_from_double(FMT_F16, sum[n], ROUND_NEAREST)
                                  : f32_cut(sum[n], eight);
    }
}
