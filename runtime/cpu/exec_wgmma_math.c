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
#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <runtime/cpu/exec_fused.h>
#include <runtime/cpu/exec_wgmma.h>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define FOR_AVX2 __attribute__((target_clones("avx2", "default")))
#else
#define FOR_AVX2
#endif
#define INLINE static inline __attribute__((always_inline))

enum { FRACTION_8 = 13, AT_ONCE = 8 };

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

INLINE double number(struct format f, u32 bits, s16 *exponent) {
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

struct block { /* accumulators side by side */
    double value[AT_ONCE];
    s16 exponent[AT_ONCE];
};
struct row { /* of A */
    double value[WGMMA_BYTES];
    s16 exponent[WGMMA_BYTES];
};

/* The greatest exponent of each column's products and accumulator. */
INLINE void tops(unsigned depth, const struct row *a, const struct wgmma_factor *b, unsigned from,
                 const struct block *c, s16 *top) {
    for (unsigned n = 0; n < AT_ONCE; n++)
        top[n] = c->exponent[n];
    for (unsigned k = 0; k < depth; k++)
        for (unsigned n = 0; n < AT_ONCE; n++) {
            s16 e = (s16)(a->exponent[k] + b->exponent[k][from + n]);
            top[n] = e > top[n] ? e : top[n];
        }
    for (unsigned n = 0; n < AT_ONCE; n++)
        top[n] = top[n] < LEAST_TOP ? LEAST_TOP : top[n];
}

/* c becomes c + sum of a[k] b[k], cut: columns from `from` on. */
static void fused(unsigned depth, int fraction, const struct row *a, const struct wgmma_factor *b, unsigned from,
                  struct block *c) {
    s16 top[AT_ONCE];
    tops(depth, a, b, from, c, top);
    for (unsigned n = 0; n < AT_ONCE; n++) {
        double scale = power_of_two(fraction - top[n]), sum = trunc(c->value[n] * scale) + 0.0;
        for (unsigned k = 0; k < depth; k++)
            sum += trunc(a->value[k] * b->value[k][from + n] * scale);
        c->value[n] = sum * power_of_two(top[n] - fraction);
    }
}

#ifdef __x86_64__
enum { QUAD = 4, QUADS = AT_ONCE / QUAD, CUT = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC };

/* The same sums, in the same order. */
__attribute__((target("avx2"))) static void fused_avx2(unsigned depth, int fraction, const struct row *a,
                                                       const struct wgmma_factor *b, unsigned from, struct block *c) {
    s16 top[AT_ONCE];
    double up[AT_ONCE], down[AT_ONCE];
    __m256d scale[QUADS], sum[QUADS];
    tops(depth, a, b, from, c, top);
    for (unsigned n = 0; n < AT_ONCE; n++) {
        up[n] = power_of_two(fraction - top[n]);
        down[n] = power_of_two(top[n] - fraction);
    }
    for (unsigned q = 0; q < QUADS; q++) {
        scale[q] = _mm256_loadu_pd(&up[q * QUAD]);
        sum[q] = _mm256_round_pd(_mm256_mul_pd(_mm256_loadu_pd(&c->value[q * QUAD]), scale[q]), CUT);
        sum[q] = _mm256_add_pd(sum[q], _mm256_setzero_pd());
    }
    for (unsigned k = 0; k < depth; k++) {
        __m256d factor = _mm256_set1_pd(a->value[k]);
        for (unsigned q = 0; q < QUADS; q++) {
            __m256d product = _mm256_mul_pd(factor, _mm256_loadu_pd(&b->value[k][from + q * QUAD]));
            sum[q] = _mm256_add_pd(sum[q], _mm256_round_pd(_mm256_mul_pd(product, scale[q]), CUT));
        }
    }
    for (unsigned q = 0; q < QUADS; q++)
        _mm256_storeu_pd(&c->value[q * QUAD], _mm256_mul_pd(sum[q], _mm256_loadu_pd(&down[q * QUAD])));
}
#endif

typedef void fused_fn(unsigned depth, int fraction, const struct row *a, const struct wgmma_factor *b, unsigned from,
                      struct block *c);
static fused_fn *best_fused(void) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) return fused_avx2;
#endif
    return fused;
}

INLINE void plain(unsigned depth, const struct row *a, const struct wgmma_factor *b, unsigned from, struct block *c) {
    for (unsigned k = 0; k < depth; k++)
        for (unsigned n = 0; n < AT_ONCE; n++)
            c->value[n] += a->value[k] * b->value[k][from + n];
}

/* ---- accumulators ---- */
INLINE void take_f32(const u32 *d, struct block *c) {
    for (unsigned n = 0; n < AT_ONCE; n++) {
        float v;
        memcpy(&v, &d[n], 4);
        c->value[n] = (double)v;
        c->exponent[n] = exponent_f32(d[n]);
    }
}

INLINE void take(const struct op *o, const u32 *d, bool scale, struct block *c) {
    struct format f = format_of(o->space);
    if (scale && o->space == N_F32) {
        take_f32(d, c);
        return;
    }
    for (unsigned n = 0; n < AT_ONCE; n++) {
        c->value[n] = 0;
        c->exponent[n] = NO_EXPONENT;
        if (scale) c->value[n] = is_integer(o) ? (double)(s32)d[n] : number(f, d[n], &c->exponent[n]);
    }
}

static u32 whole_bits(double v, bool saturate) {
    s64 value = (s64)v; /* exact: 32 products of 8 bits and 32 bits */
    if (saturate) value = value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value;
    return (u32)(u64)value;
}

INLINE void give(const struct op *o, bool eight, const struct block *c, u32 *d) {
    u32 kept = eight ? ~((1u << (23 - FRACTION_8)) - 1) : ~0u;
    if (o->space == N_F32) {
        for (unsigned n = 0; n < AT_ONCE; n++)
            d[n] = f32_cut(c->value[n], kept);
        return;
    }
    for (unsigned n = 0; n < AT_ONCE; n++)
        d[n] = is_integer(o) ? whole_bits(c->value[n], o->flags & F_SATFINITE)
                             : no_negative_zero((u32)float_from_double(FMT_F16, c->value[n], ROUND_NEAREST), 0x8000);
}

FOR_AVX2 void wgmma_row(const struct op *o, const u8 *raw, const struct wgmma_factor *b, bool scale, u32 *d) {
    bool eight = o->order == N_E4M3X2 || o->order == N_E5M2X2;
    struct format f = format_of(o->order);
    struct row a = {{0}, {0}};
    fused_fn *add = best_fused();
    double sign = o->imm & WGMMA_NEGATE_A ? -1.0 : 1.0;
    for (unsigned k = 0; k < o->bytes; k++) {
        u32 bits = element(o->order, raw, k);
        a.value[k] = is_integer(o) ? whole(o->order, bits) : sign * number(f, bits, &a.exponent[k]);
    }
    for (unsigned from = 0; from < wgmma_columns(o); from += AT_ONCE) {
        struct block c;
        take(o, d + from, scale, &c);
        if (is_integer(o))
            plain(o->bytes, &a, b, from, &c);
        else
            add(o->bytes, eight ? FRACTION_8 : FRACTION_16, &a, b, from, &c);
        give(o, eight, &c, d + from);
    }
}
