/* exec_mma.c - mma.sync on tiles m16n8kK: f16, bf16, tf32, e4m3, e5m2 and 8-bit integers.
 * Factors of f16, bf16 and tf32 with f32 sums are added as an H200 adds them, to the bit: exec_fused.h; so d is within
 * (K + 2) * 2^-25 * max(|c|, 4 max|a b|) of the exact sum, towards zero. Otherwise the exact products are summed in
 * double in ascending k, c is added last, and the sum is rounded once to the type of d (nearest even), within half an
 * ulp of the exact one but for near-complete cancellation; e4m3 and e5m2 with sums near one, and f16 sums, are an
 * H200's bits, too. Integers wrap, or saturate under .satfinite. Thread t holds, in register r of a: row t / 4 + 8 (r &
 * 1), k from (r / 2) 4 e + (t % 4) e on, e elements a register. Numbers are taken apart a register at a time, 32 lanes
 * at once, and stay where that leaves them: only the words of B are turned, so that its columns lie side by side, even
 * ones before odd ones as registers of c and d have them. */
#include <string.h>
#include <runtime/cpu/exec_fused.h>

enum {
    HALVES = 2,      /* of the tile: 8 rows each */
    HALF = 8,        /* rows, and columns of the tile */
    QUAD = 4,        /* threads that share a row */
    MOST_GROUPS = 2, /* of 4 e columns of A */
    MOST_ELEMENTS = 4,
    AT_ONCE = 4 /* rows */
};

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define FOR_AVX2 __attribute__((target_clones("avx2", "default")))
#else
#define FOR_AVX2
#endif
#define INLINE static inline __attribute__((always_inline))

INLINE float float_of(u32 bits) {
    float v;
    memcpy(&v, &bits, 4);
    return v;
}

/* Exponents are moved by a product, so that subnormals come out right. */
INLINE u32 moved(u32 magnitude, float by) {
    float v = float_of(magnitude) * by;
    u32 bits;
    memcpy(&bits, &v, 4);
    return bits;
}

INLINE float value_f16(u32 bits) {
    u32 magnitude = bits & 0x7FFF, special = 0u - (u32)(magnitude >= 0x7C00);
    return float_of(moved(magnitude << 13, 0x1p112f) | (special & 0x7F800000) | (bits & 0x8000) << 16);
}

INLINE float value_e4m3(u32 bits) {
    u32 magnitude = bits & 0x7F, nan = 0u - (u32)(magnitude == 0x7F);
    return float_of(moved(magnitude << 20, 0x1p120f) | (nan & 0x7FFFFFFF) | (bits & 0x80) << 24);
}

/* The elements of a register's 32 words as numbers: out[i * WARP + lane]. */
#define EACH_ELEMENT(e, value)                                                                                         \
    for (unsigned i = 0; i < e; i++)                                                                                   \
        for (unsigned t = 0; t < WARP; t++) {                                                                          \
            u32 word = s[t];                                                                                           \
            out[i * WARP + t] = (double)(value);                                                                       \
        }                                                                                                              \
    break;
INLINE void elements(unsigned kind, const u32 *restrict s, double *restrict out) {
    switch (kind) {
    case N_F16:
        EACH_ELEMENT(2, value_f16(word >> 16 * i))
    case N_BF16:
        EACH_ELEMENT(2, float_of(word >> 16 * i << 16))
    case N_TF32:
        EACH_ELEMENT(1, float_of(word & 0xFFFFE000))
    case N_E4M3X2:
        EACH_ELEMENT(4, value_e4m3(word >> 8 * i))
    case N_E5M2X2:
        EACH_ELEMENT(4, value_f16(word >> 8 * i << 8))
    case N_S8:
        EACH_ELEMENT(4, (s32)(int8_t)(word >> 8 * i))
    case N_S32:
        EACH_ELEMENT(1, (s32)word)
    case N_F32:
        EACH_ELEMENT(1, float_of(word))
    default:
        EACH_ELEMENT(4, (s32)(word >> 8 * i & 0xFF))
    }
}

/* Their exponents, likewise. */
#define EACH_EXPONENT(e, value)                                                                                        \
    for (unsigned i = 0; i < e; i++)                                                                                   \
        for (unsigned t = 0; t < WARP; t++) {                                                                          \
            u32 word = s[t];                                                                                           \
            out[i * WARP + t] = (value);                                                                               \
        }                                                                                                              \
    break;
INLINE s16 exponent_f16(u32 bits) {
    int field = (int)(bits >> 10 & 31);
    return (s16)(bits & 0x7FFF ? (field ? field : 1) - 15 : NO_EXPONENT);
}
INLINE void exponents(unsigned kind, const u32 *restrict s, s16 *restrict out) {
    switch (kind) {
    case N_F16:
        EACH_EXPONENT(2, exponent_f16(word >> 16 * i))
    case N_BF16:
        EACH_EXPONENT(2, exponent_f32(word >> 16 * i << 16))
    case N_TF32:
        EACH_EXPONENT(1, exponent_f32(word & 0xFFFFE000))
    default:
        EACH_EXPONENT(1, exponent_f32(word))
    }
}

static unsigned elements_in(unsigned kind) {
    return kind == N_TF32 ? 1 : kind == N_F16 || kind == N_BF16 ? 2 : 4;
}

/* ---- the product ---- */
typedef double quad __attribute__((vector_size(32)));
typedef double numbers[MOST_ELEMENTS * WARP] __attribute__((aligned(32))); /* of a register: [element][lane] */

struct tile {
    const u32 *a[HALVES * MOST_GROUPS], *b[MOST_GROUPS], *c[4];
    unsigned a_kind, b_kind, c_kind, d_kind, groups, each /* elements a register */, addends, results;
    bool saturates;
    u32 d[4][WARP];
};

/* Column n of B is in words 4 n to 4 n + 3: out[word * 8 + place], the even columns at the first four places. */
INLINE void turn(const u32 *restrict s, u32 *restrict out) {
    for (unsigned place = 0; place < HALF; place++)
        for (unsigned word = 0; word < QUAD; word++)
            out[word * HALF + place] = s[(place < QUAD ? 2 * place : 2 * (place - QUAD) + 1) * QUAD + word];
}

/* Rows `row` to row + 3 of a half: sum[odd column][lane]. */
INLINE void multiply(const struct tile *t, const numbers *a, const numbers *b, unsigned row, double *sum) {
    quad even[AT_ONCE] = {{0}}, odd[AT_ONCE] = {{0}};
    for (unsigned g = 0; g < t->groups; g++)
        for (unsigned word = 0; word < QUAD; word++)
            for (unsigned i = 0; i < t->each; i++) { /* k ascends */
                const double *factors = &a[HALVES * g][i * WARP + row * QUAD + word];
                const quad *columns = (const quad *)&b[g][i * WARP + word * HALF];
                for (unsigned r = 0; r < AT_ONCE; r++) {
                    even[r] += columns[0] * factors[r * QUAD];
                    odd[r] += columns[1] * factors[r * QUAD];
                }
            }
    for (unsigned r = 0; r < AT_ONCE; r++) {
        *(quad *)&sum[(row + r) * QUAD] = even[r];
        *(quad *)&sum[WARP + (row + r) * QUAD] = odd[r];
    }
}

/* ---- results ---- */
INLINE u32 bits_f32(double v) {
    float narrow = (float)v;
    u32 bits;
    memcpy(&bits, &narrow, 4);
    return v != v ? 0x7FFFFFFF : bits;
}

/* Adding 1.5 * 2^(52 - 10) of the number's power of two leaves the 10 bits of its fraction, rounded to nearest even. */
INLINE u32 bits_f16(double v) {
    const s64 least = (s64)(1023 - 14) << 52, most = (s64)(1023 + 16) << 52, infinity = (s64)0x7FF << 52;
    s64 bits, power, over;
    u64 big, rest;
    memcpy(&bits, &v, 8);
    s64 magnitude = bits & INT64_MAX;
    power = magnitude & infinity;
    power = power < least ? least : power;
    power = power > most ? most : power;
    big = (u64)power + ((u64)42 << 52 | 1ull << 51);
    double add, size;
    memcpy(&add, &big, 8);
    memcpy(&size, &magnitude, 8);
    double rounded = ((size + add) - add) * 0x1p-112; /* exponents as f16 counts them, subnormals too */
    float narrow = (float)rounded;
    u32 half;
    memcpy(&half, &narrow, 4);
    half >>= 13;
    half = half > 0x7C00 ? 0x7C00 : half;
    over = magnitude > infinity ? 0x7FFF : 0;
    rest = (u64)bits >> 48 & 0x8000;
    return over ? 0x7FFF : half | (u32)rest;
}

/* Sums of 8-bit products and a 32-bit c are exact in double: 1.5 * 2^52 brings the lowest 32 bits into place. */
INLINE u32 bits_s32(double v, bool saturates) {
    double least = saturates ? INT32_MIN : -0x1p51, most = saturates ? INT32_MAX : 0x1p51;
    double shifted = (v < least ? least : v > most ? most : v) + 0x1.8p52;
    u64 bits;
    memcpy(&bits, &shifted, 8);
    return (u32)bits;
}

FOR_AVX2 static void tile_multiply(struct tile *t) {
    numbers a[HALVES * MOST_GROUPS], b[MOST_GROUPS], c, sum; /* c, sum: [half][odd column][lane] */
    u32 turned[WARP];
    for (unsigned r = 0; r < HALVES * t->groups; r++)
        elements(t->a_kind, t->a[r], a[r]);
    for (unsigned r = 0; r < t->groups; r++) {
        turn(t->b[r], turned);
        elements(t->b_kind, turned, b[r]);
    }
    for (unsigned r = 0; r < t->addends; r++)
        elements(t->c_kind, t->c[r], &c[r * 4 / t->addends * WARP]);
    for (unsigned half = 0; half < HALVES; half++)
        for (unsigned row = 0; row < HALF; row += AT_ONCE)
            multiply(t, (const numbers *)a + half, (const numbers *)b, row, &sum[half * 2 * WARP]);
    for (unsigned i = 0; i < 4 * WARP; i++)
        sum[i] += c[i]; // cppcheck-suppress uninitvar
    u32 *d = t->d[0];
    if (t->d_kind == N_F32)
        for (unsigned i = 0; i < 4 * WARP; i++)
            d[i] = bits_f32(sum[i]);
    else if (t->d_kind == N_F16)
        for (unsigned half = 0; half < HALVES; half++)
            for (unsigned i = 0; i < WARP; i++)
                t->d[half][i] = bits_f16(sum[half * 2 * WARP + i]) | bits_f16(sum[(half * 2 + 1) * WARP + i]) << 16;
    else
        for (unsigned i = 0; i < 4 * WARP; i++)
            d[i] = bits_s32(sum[i], t->saturates);
}

/* As an H200 adds: exec_fused.h. */
FOR_AVX2 static void tile_fused(struct tile *t) {
    enum { MOST_UNITS = 4 };
    double a[MOST_UNITS * WARP], b[MOST_UNITS * WARP], sums[2 * WARP];
    s16 a_exponents[MOST_UNITS * WARP], b_exponents[MOST_UNITS * WARP], sum_exponents[2 * WARP];
    u32 turned[WARP];
    for (unsigned g = 0; g < t->groups; g++) {
        turn(t->b[g], turned);
        elements(t->b_kind, turned, &b[g * t->each * WARP]);
        exponents(t->b_kind, turned, &b_exponents[g * t->each * WARP]);
    }
    for (unsigned half = 0; half < HALVES; half++) {
        for (unsigned g = 0; g < t->groups; g++) {
            elements(t->a_kind, t->a[HALVES * g + half], &a[g * t->each * WARP]);
            exponents(t->a_kind, t->a[HALVES * g + half], &a_exponents[g * t->each * WARP]);
        }
        for (unsigned odd = 0; odd < 2; odd++) {
            elements(N_F32, t->c[half * 2 + odd], &sums[odd * WARP]);
            exponents(N_F32, t->c[half * 2 + odd], &sum_exponents[odd * WARP]);
        }
        mma_fused(&(struct mma_half){a, b, a_exponents, b_exponents, sum_exponents, sums, t->groups * t->each});
        for (unsigned i = 0; i < 2 * WARP; i++)
            t->d[half * 2 + i / WARP][i % WARP] = f32_cut(sums[i], ~0u);
    }
}

/* extra: registers of d, a, b, c; order and sub: types of a and b; bytes: K; width and space: types of d and c */
int sync_mma(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    const struct op *o = parts[0].op;
    const u32 *registers = &x->code->extra[o->extra];
    struct tile t = {.a_kind = o->order,
                     .b_kind = o->sub,
                     .c_kind = o->space,
                     .d_kind = o->width,
                     .each = elements_in(o->order),
                     .addends = o->space == N_F16 ? 2 : 4,
                     .results = o->count,
                     .saturates = o->flags & F_SATFINITE};
    (void)members;
    if (count > 1)
        return exec_fault(x, (unsigned)__builtin_ctz(parts[1].lanes), FAULT_LAUNCH,
                          "an .aligned operation is executed at two places of one warp");
    t.groups = o->bytes / (QUAD * t.each);
    const u32 *from = registers + t.results;
    for (unsigned r = 0; r < HALVES * t.groups; r++)
        t.a[r] = AT(x, from[r]);
    from += HALVES * t.groups;
    for (unsigned r = 0; r < t.groups; r++)
        t.b[r] = AT(x, from[r]);
    from += t.groups;
    for (unsigned r = 0; r < t.addends; r++)
        t.c[r] = AT(x, from[r]);
    bool as_wgmma = t.d_kind == N_F32 && (t.a_kind == N_F16 || t.a_kind == N_BF16 || t.a_kind == N_TF32);
    if (as_wgmma)
        tile_fused(&t);
    else
        tile_multiply(&t);
    for (unsigned r = 0; r < t.results; r++)
        memcpy(AT(x, registers[r]), t.d[r], sizeof t.d[r]);
    return RUN_NEXT;
}
