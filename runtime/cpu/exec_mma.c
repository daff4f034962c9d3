/* exec_mma.c - mma.sync on tiles m16n8kK: f16, bf16, tf32, e4m3, e5m2 and 8-bit integers.
 * Order of accumulation: the exact products are summed in double in ascending k, c is added last, and the sum is
 * rounded once to the type of d (nearest even). The sum in double is within K * 2^-53 * sum|products| of the exact one,
 * so that d in f32 is within half an ulp of it but for near-complete cancellation. Hardware keeps fewer bits and
 * truncates: an H200 was found within 2^-23 * sum|a b| for bf16 at k16; compare within K * 2^-23 * (|c| + sum|a b|),
 * subnormal f16 factors counted as 2^-14. Integers wrap, or saturate under .satfinite. Thread t holds, in register r of
 * a: row t / 4 + 8 (r & 1), k from (r / 2) 4 e + (t % 4) e on, e elements a register. */
#include <string.h>
#include <runtime/cpu/exec_ops.h>

enum { ROWS = 16, COLUMNS = 8, MOST_K = 32 };

static inline float float_of(u32 bits) {
    float v;
    memcpy(&v, &bits, 4);
    return v;
}

/* Exponents are moved by a product, so that subnormals come out right. */
static inline float value_f16(u32 bits) {
    u32 magnitude = bits & 0x7FFF;
    float v = float_of(magnitude << 13) * 0x1p112f;
    v = magnitude > 0x7C00 ? float_of(0x7FFFFFFF) : magnitude == 0x7C00 ? float_of(0x7F800000) : v;
    return bits & 0x8000 ? -v : v;
}

static inline float value_e4m3(u32 bits) {
    u32 magnitude = bits & 0x7F;
    float v = magnitude == 0x7F ? float_of(0x7FFFFFFF) : float_of(magnitude << 20) * 0x1p120f;
    return bits & 0x80 ? -v : v;
}

/* The elements of a register's 32 words as numbers: out[i * WARP + lane]. */
#define EACH_ELEMENT(e, value)                                                                                         \
    for (unsigned i = 0; i < e; i++)                                                                                   \
        for (unsigned t = 0; t < WARP; t++) {                                                                          \
            u32 word = s[t];                                                                                           \
            out[i * WARP + t] = (double)(value);                                                                       \
        }                                                                                                              \
    break;
static void elements(unsigned kind, const u32 *s, double *out) {
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

static unsigned elements_in(unsigned kind) {
    return kind == N_TF32 ? 1 : kind == N_F16 || kind == N_BF16 ? 2 : 4;
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
__attribute__((target_clones("avx2", "default")))
#endif
static void
multiply(unsigned depth, const double a[ROWS][MOST_K], const double b[MOST_K][COLUMNS], double sum[ROWS][COLUMNS]) {
    for (unsigned i = 0; i < ROWS; i++) {
        double row[COLUMNS] = {0};
        for (unsigned k = 0; k < depth; k++)
            for (unsigned n = 0; n < COLUMNS; n++)
                row[n] += a[i][k] * b[k][n];
        memcpy(sum[i], row, sizeof row);
    }
}

static const u32 *source(const struct exec *x, const struct op *o, unsigned at) {
    return AT(x, x->code->extra[o->extra + at]);
}

static inline u32 rounded(double v, unsigned kind, u32 flags) {
    if (kind == N_F32) {
        float narrow = (float)v;
        u32 bits;
        memcpy(&bits, &narrow, 4);
        return v != v ? 0x7FFFFFFF : bits;
    }
    if (kind == N_F16) return (u32)float_from_double(FMT_F16, v, ROUND_NEAREST);
    s64 whole = (s64)v; /* sums of 8-bit products and a 32-bit c are exact in double */
    if (flags & F_SATFINITE) whole = whole < INT32_MIN ? INT32_MIN : whole > INT32_MAX ? INT32_MAX : whole;
    return (u32)(u64)whole;
}

/* extra: registers of d, a, b, c; order and sub: types of a and b; bytes: K; width and space: types of d and c */
int sync_mma(struct exec *x, const struct part *parts, unsigned count, u32 members) {
    const struct op *o = parts[0].op;
    double a[ROWS][MOST_K], b[MOST_K][COLUMNS], c[ROWS][COLUMNS], sum[ROWS][COLUMNS];
    unsigned depth = o->bytes, e = elements_in(o->order), groups = depth / (4 * e), results = o->count,
             addends = o->space == N_F16 ? 2 : 4;
    (void)members;
    if (count > 1)
        return exec_fault(x, (unsigned)__builtin_ctz(parts[1].lanes), FAULT_LAUNCH,
                          "an .aligned operation is executed at two places of one warp");
    double part[4 * WARP];
    for (unsigned r = 0; r < 2 * groups; r++) {
        elements(o->order, source(x, o, results + r), part);
        for (unsigned i = 0; i < e; i++)
            for (unsigned t = 0; t < WARP; t++)
                a[t / 4 + 8 * (r & 1)][(r / 2) * 4 * e + (t % 4) * e + i] = part[i * WARP + t];
    }
    for (unsigned r = 0; r < groups; r++) {
        elements(o->sub, source(x, o, results + 2 * groups + r), part);
        for (unsigned i = 0; i < e; i++)
            for (unsigned t = 0; t < WARP; t++)
                b[r * 4 * e + (t % 4) * e + i][t / 4] = part[i * WARP + t];
    }
    for (unsigned r = 0; r < addends; r++) {
        elements(o->space, source(x, o, results + 3 * groups + r), part);
        for (unsigned t = 0; t < WARP; t++) {
            double *row = addends == 2 ? c[t / 4 + 8 * r] : c[t / 4 + 8 * (r / 2)];
            if (addends == 2) {
                row[2 * (t % 4)] = part[t];
                row[2 * (t % 4) + 1] = part[WARP + t];
            } else {
                row[2 * (t % 4) + (r & 1)] = part[t];
            }
        }
    }
    multiply(depth, (const double(*)[MOST_K])a, (const double(*)[COLUMNS])b, sum);
    for (unsigned r = 0; r < results; r++) {
        u32 *d = AT(x, x->code->extra[o->extra + r]);
        for (unsigned t = 0; t < WARP; t++) {
            unsigned row = t / 4 + 8 * (results == 2 ? r : r / 2), column = 2 * (t % 4);
            if (results == 2)
                d[t] = rounded(sum[row][column] + c[row][column], N_F16, 0) |
                       rounded(sum[row][column + 1] + c[row][column + 1], N_F16, 0) << 16;
            else
                d[t] = rounded(sum[row][column + (r & 1)] + c[row][column + (r & 1)], o->width, o->flags);
        }
    }
    return RUN_NEXT;
}
