/* exec_lanes.h - the functions of the lane tables: each row becomes one loop over 32 lanes that the compiler turns into
 * vector code. Compiled once for each instruction set, by exec_lanes_*.c, which define H(name) (the prefix of its
 * functions) and TABLE (the name of its table). Results are the same bits everywhere. Touches registers and predicates
 * only. */
#include <math.h>
#include <string.h>
#include <runtime/cpu/exec.h>

#ifdef __clang__
#define LANES for (int l = 0; l < WARP; l++)
#else
#define LANES _Pragma("GCC ivdep") for (int l = 0; l < WARP; l++)
#endif

static const u32 lane_bit[WARP] = {1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,
                                   1u << 8,  1u << 9,  1u << 10, 1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15,
                                   1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21, 1u << 22, 1u << 23,
                                   1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};

/* ---- helpers of the rows ---- */
#define HELPER static inline __attribute__((always_inline, unused))

HELPER s32 clamp_s32(s64 v) {
    return (s32)(v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : v);
}
HELPER u64 mul_high_u64(u64 a, u64 b) {
    return (u64)((unsigned __int128)a * b >> 64);
}
HELPER s64 mul_high_s64(s64 a, s64 b) {
    return (s64)((__int128)a * b >> 64);
}
HELPER s64 sign24(u32 v) {
    return (s32)(v << 8) >> 8;
}
HELPER u32 each16(u32 a, u32 b, int max) {
    u32 al = a & 0xFFFF, bl = b & 0xFFFF, ah = a >> 16, bh = b >> 16;
    return ((ah < bh) != max ? ah : bh) << 16 | ((al < bl) != max ? al : bl);
}
HELPER u32 lop3_bits(u32 a, u32 b, u32 c, u32 k) {
    u32 r = 0;
    r |= (0 - (k & 1)) & ~a & ~b & ~c;
    r |= (0 - (k >> 1 & 1)) & ~a & ~b & c;
    r |= (0 - (k >> 2 & 1)) & ~a & b & ~c;
    r |= (0 - (k >> 3 & 1)) & ~a & b & c;
    r |= (0 - (k >> 4 & 1)) & a & ~b & ~c;
    r |= (0 - (k >> 5 & 1)) & a & ~b & c;
    r |= (0 - (k >> 6 & 1)) & a & b & ~c;
    r |= (0 - (k >> 7 & 1)) & a & b & c;
    return r;
}
/* bfe: beyond the top come zeroes or copies of the field's sign. The 32-bit forms see the low bytes of position and
 * length, the 64-bit ones (as hardware does) the whole words. */
HELPER u64 bit_field(u64 a, u32 b, u32 c, u32 width, bool is_signed) {
    u32 position = width == 32 ? b & 0xFF : b < 255 ? b : 255, length = width == 32 ? c & 0xFF : c < 255 ? c : 255;
    u64 value = width == 32 ? (u32)a : a;
    if (length == 0) return 0;
    u32 top = position + length - 1 < width - 1 ? position + length - 1 : width - 1;
    u64 sign = is_signed && (value >> top & 1) ? ~0ull : 0;
    u64 field = position < 64 ? value >> position : 0;
    u32 have = position < width ? width - position : 0; /* bits that exist */
    u32 keep = length < have ? length : have;
    u64 low = keep >= 64 ? ~0ull : (1ull << keep) - 1;
    return (field & low) | (sign & ~low);
}
/* fns: the position of the |n|-th set bit of a from bit `base` on, upwards for n > 0, downwards for n < 0, base itself
 * for 0; all ones where there is none. */
HELPER u32 nth_set(u32 a, u32 base, s32 n) {
    if (base > 31) return ~0u;
    if (n == 0) return a >> base & 1 ? base : ~0u;
    u32 left = n < 0 ? 0u - (u32)n : (u32)n;
    for (u32 i = 0; i < 32; i++) {
        u32 at = n < 0 ? base - i : base + i; /* wraps below 0 */
        if (at > 31) break;
        left -= a >> at & 1;
        if (!left) return at;
    }
    return ~0u;
}
/* Halves below zero become zero. */
HELPER u32 relu16(u32 v) {
    return v & ~((v >> 15 & 0x00010001) * 0xFFFF);
}
/* Differences of four bytes. */
HELPER u32 difference4(u32 a, u32 b, bool sum) {
    u32 bytes = 0, total = 0;
    for (u32 shift = 0; shift < 32; shift += 8) {
        u32 x = a >> shift & 0xFF, y = b >> shift & 0xFF, far = x > y ? x - y : y - x;
        bytes |= far << shift;
        total += far;
    }
    return sum ? total : bytes;
}
/* For bfind of signed numbers: the first bit that is not the sign. */
HELPER u32 folded32(u32 v) {
    return (s32)v < 0 ? ~v : v;
}
HELPER u64 folded64(u64 v) {
    return (s64)v < 0 ? ~v : v;
}
HELPER u32 reverse32(u32 v) {
    v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
    v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
    v = (v >> 4 & 0x0F0F0F0F) | (v & 0x0F0F0F0F) << 4;
    return __builtin_bswap32(v);
}
HELPER u32 count_bits(u32 v) {
    v -= v >> 1 & 0x55555555;
    v = (v & 0x33333333) + (v >> 2 & 0x33333333);
    v = (v + (v >> 4)) & 0x0F0F0F0F;
    return v * 0x01010101 >> 24;
}
HELPER u32 permute(u32 a, u32 b, u32 selector) {
    u64 bytes = (u64)b << 32 | a;
    u32 r = 0;
    for (u32 i = 0; i < 4; i++) {
        u32 s = selector >> 4 * i & 15;
        u32 byte = (u32)(bytes >> 8 * (s & 7)) & 0xFF;
        r |= (s & 8 ? (byte & 0x80 ? 0xFFu : 0u) : byte) << 8 * i;
    }
    return r;
}
HELPER u32 prmt_b4e_selector(u32 n) {
    return n == 0 ? 0x5670 : n == 1 ? 0x6701 : n == 2 ? 0x7012 : 0x0123;
}
HELPER u32 prmt_ecl_selector(u32 n) {
    return n == 0 ? 0x3210 : n == 1 ? 0x3211 : n == 2 ? 0x3222 : 0x3333;
}
HELPER u32 prmt_ecr_selector(u32 n) {
    return n == 0 ? 0x0000 : n == 1 ? 0x1110 : n == 2 ? 0x2210 : 0x3210;
}
HELPER u32 mask_of(u32 position, u32 length) {
    u64 low = ((1ull << length) - 1) << position;
    return (u32)low;
}
HELPER u32 part(u32 v, u32 shift, u32 bits, bool is_signed) {
    u32 left = v << (32 - shift - bits);
    return is_signed ? (u32)((s32)left >> (32 - bits)) : left >> (32 - bits);
}
HELPER u32 dot4(u32 a, u32 b, bool sa, bool sb) {
    return part(a, 0, 8, sa) * part(b, 0, 8, sb) + part(a, 8, 8, sa) * part(b, 8, 8, sb) +
           part(a, 16, 8, sa) * part(b, 16, 8, sb) + part(a, 24, 8, sa) * part(b, 24, 8, sb);
}
HELPER u32 dot2(u32 a, u32 b, u32 shift, bool sa, bool sb) {
    return part(a, 0, 16, sa) * part(b, shift, 8, sb) + part(a, 16, 16, sa) * part(b, shift + 8, 8, sb);
}
HELPER u32 bits_of(f32 v) {
    u32 bits;
    memcpy(&bits, &v, 4);
    return bits;
}
HELPER float float_of(u32 bits) {
    float v;
    memcpy(&v, &bits, 4);
    return v;
}
HELPER u32 flush(u32 bits) {
    return bits & 0x7F800000 ? bits : bits & 0x80000000;
}
HELPER float nan_f32(void) {
    return float_of(0x7FFFFFFF);
}
HELPER float min_f32(float a, float b) {
    float r = a < b ? a : b;
    r = a == b ? float_of(bits_of(a) | bits_of(b)) : r;
    r = a != a ? b : r;
    return b != b ? a : r;
}
HELPER float max_f32(float a, float b) {
    float r = a > b ? a : b;
    r = a == b ? float_of(bits_of(a) & bits_of(b)) : r;
    r = a != a ? b : r;
    return b != b ? a : r;
}
HELPER float xor_sign(const struct op *o, float a, float b, bool max) {
    u32 sign = (bits_of(a) ^ bits_of(b)) & 0x80000000;
    float pa = float_of(bits_of(a) & 0x7FFFFFFF), pb = float_of(bits_of(b) & 0x7FFFFFFF);
    if ((o->flags & F_NAN) && (a != a || b != b)) return nan_f32();
    float r = max ? max_f32(pa, pb) : min_f32(pa, pb);
    return float_of(bits_of(r) | sign);
}
HELPER double min_f64(double a, double b) {
    if (a == b) return signbit(a) ? a : b;
    return a != a ? b : b != b ? a : a < b ? a : b;
}
HELPER double max_f64(double a, double b) {
    if (a == b) return signbit(a) ? b : a;
    return a != a ? b : b != b ? a : a > b ? a : b;
}
HELPER u32 canonical(float r) {
    return r != r ? 0x7FFFFFFF : bits_of(r);
}
/* Under .ftz and .sat, which are masks here (all ones or zero) so that loops stay without branches; .sat turns NaN into
 * +0. */
HELPER u32 flush_if(u32 bits, u32 ftz) {
    return bits & 0x7F800000 ? bits : bits & (0x80000000 | ~ftz);
}
HELPER u32 finished(float r, u32 ftz, u32 sat) {
    u32 bits = flush_if(canonical(r), ftz);
    u32 low = r > 0.0f ? bits : 0, clamped = r < 1.0f ? low : r >= 1.0f ? 0x3F800000 : 0;
    return (clamped & sat) | (bits & ~sat);
}
/* Whether the exact result, rounded to 24 bits as if exponents had no end, is below 2^-126: .ftz flushes such results
 * even where f32 rounds them up to 2^-126. Asked only there. A tie goes up, to the even 2^-126. */
#define TINY_EDGE (0x1p-126 - 0x1p-151)
HELPER bool tiny_product(float a, float b) {
    return fabs((double)a * (double)b) < TINY_EDGE;
}
HELPER bool tiny_sum(float a, float b, float c) {
    double p = (double)a * (double)b, s = p + (double)c, t = s - p, lost = (p - (s - t)) + ((double)c - t);
    return fabs(s) < TINY_EDGE || (fabs(s) == TINY_EDGE && lost != 0 && (lost < 0) == (s > 0));
}
/* div.approx for divisors of 2^126 and more: zero, or NaN of infinity. */
HELPER float div_approx(float a, float b) {
    float size = float_of(bits_of(b) & 0x7FFFFFFF), q = a / b;
    bool big = size >= 0x1p126f && size <= 0x1.fffffep127f;
    float zero = float_of((bits_of(a) ^ bits_of(b)) & 0x80000000);
    float other = float_of(bits_of(a) & 0x7FFFFFFF) <= 0x1.fffffep127f ? zero : nan_f32();
    return big ? other : q;
}
HELPER bool is_nan_f64(u64 v) {
    return (v & 0x7FFFFFFFFFFFFFFF) > 0x7FF0000000000000;
}
HELPER double flush_f64(double v) {
    return fabs(v) < 0x1p-1022 ? copysign(0.0, v) : v;
}
/* The approximations of f64 with .ftz give the upper word only. */
HELPER u64 gross(double v) {
    u64 bits;
    v = flush_f64(v);
    memcpy(&bits, &v, 8);
    return v != v ? 0x7FFFFFFF00000000 : bits & 0xFFFFFFFF00000000;
}
HELPER u32 bf16_bits(u32 v) {
    u32 rounded = (v + 0x7FFF + (v >> 16 & 1)) >> 16;
    return (v & 0x7FFFFFFF) > 0x7F800000 ? 0x7FFF : rounded;
}
/* .rn.satfinite: normal numbers round in place, subnormal ones by adding 2^14, whose last place is theirs. */
HELPER u32 e4m3_bits(u32 v) {
    u32 magnitude = v & 0x7FFFFFFF, sign = v >> 24 & 0x80;
    u32 normal = ((magnitude + 0x7FFFF + (magnitude >> 20 & 1)) >> 20) - (120u << 3);
    u32 small = bits_of(float_of(magnitude) + 0x1p14f) - 0x46800000u;
    u32 r = magnitude < 0x3C800000 ? small : normal;
    r = magnitude > 0x43E00000 ? 0x7E : r; /* beyond 448 */
    return magnitude > 0x7F800000 ? 0x7F : sign | r;
}
HELPER u32 f16_of_e4m3(u32 v) {
    u32 magnitude = v & 0x7F, sign = (v & 0x80) << 8;
    u32 top = magnitude >= 4 ? 2 : magnitude >= 2 ? 1 : 0; /* of a subnormal m * 2^-9 */
    u32 small = magnitude == 0 ? 0 : ((top + 6) << 10) + ((magnitude << (10 - top)) & 0x3FF);
    u32 r = magnitude >= 8 ? (magnitude << 7) + 0x2000 : small;
    return magnitude == 0x7F ? 0x7FFF : sign | r;
}
HELPER u32 pack_lanes(const s32 *t) {
    u32 bits = 0;
#ifdef __AVX2__
    for (int i = 0; i < WARP; i += 8)
        bits |= (u32)_mm256_movemask_ps(_mm256_loadu_ps((const float *)(const void *)(t + i))) << i;
#elif defined __SSE2__
    for (int i = 0; i < WARP; i += 16) {
        const __m128i *v = (const __m128i *)(const void *)(t + i);
        __m128i low = _mm_packs_epi32(_mm_loadu_si128(v), _mm_loadu_si128(v + 1));
        __m128i high = _mm_packs_epi32(_mm_loadu_si128(v + 2), _mm_loadu_si128(v + 3));
        bits |= (u32)_mm_movemask_epi8(_mm_packs_epi16(low, high)) << i;
    }
#else
    for (int i = 0; i < WARP; i++)
        bits |= (u32)(t[i] & 1) << i;
#endif
    return bits;
}
HELPER int finish_compare(struct exec *x, const struct op *o, u32 m, u32 bits) {
    if (o->flags & F_NOT) bits = ~bits;
    u32 other = ~bits;
    if (o->flags & (F_AND | F_OR | F_XOR)) {
        u32 c = predicate_read(x, o->c);
        bits = o->flags & F_AND ? bits & c : o->flags & F_OR ? bits | c : bits ^ c;
        other = o->flags & F_AND ? other & c : o->flags & F_OR ? other | c : other ^ c;
    }
    predicate_write(x, o->d, bits, m);
    if (o->extra != NO_OPERAND) predicate_write(x, o->extra, other, m);
    return RUN_NEXT;
}

/* ---- rows to functions ---- */
#define FUNCTION(name) static int H(name)(struct exec * x, const struct op *o, u32 m)
#define LOOP(td, loads, result)                                                                                        \
    {                                                                                                                  \
        td *d_ = AT(x, o->d);                                                                                          \
        if (m == ALL_LANES) {                                                                                          \
            LANES {                                                                                                    \
                loads d_[l] = (td)(result);                                                                            \
            }                                                                                                          \
        } else {                                                                                                       \
            LANES {                                                                                                    \
                loads td r_ = (td)(result);                                                                            \
                d_[l] = m & lane_bit[l] ? r_ : d_[l];                                                                  \
            }                                                                                                          \
        }                                                                                                              \
        return RUN_NEXT;                                                                                               \
    }
#define SOURCE(t, v) const t *v##_ = AT(x, o->v);
#define D1(name, pattern, sig, td, ta, value)                                                                          \
    FUNCTION(name) {                                                                                                   \
        SOURCE(ta, a) LOOP(td, ta a = a_[l];, value)                                                                   \
    }
#define D2(name, pattern, sig, td, ta, tb, value)                                                                      \
    FUNCTION(name) {                                                                                                   \
        SOURCE(ta, a) SOURCE(tb, b) LOOP(td, ta a = a_[l]; tb b __attribute__((unused)) = b_[l];, value)               \
    }
#define D3(name, pattern, sig, td, ta, tb, tc, value)                                                                  \
    FUNCTION(name) {                                                                                                   \
        SOURCE(ta, a)                                                                                                  \
        SOURCE(tb, b) SOURCE(tc, c) LOOP(td, ta a = a_[l]; tb b __attribute__((unused)) = b_[l]; tc c = c_[l];, value) \
    }
#define PLAIN(v) float v = float_of(v##_[l]);
#define MAYBE(v) float v = float_of(flush_if(v##_[l], ftz));
#define F_LOOPS(plain, maybe, value)                                                                                   \
    if (!(o->flags & (F_FTZ | F_SAT))) LOOP(u32, plain, canonical(value))                                              \
    u32 ftz = 0 - (u32)(o->flags & F_FTZ), sat = 0 - (o->flags >> 1 & 1);                                              \
    LOOP(u32, maybe, finished(value, ftz, sat))
#define F1(name, pattern, sig, value)                                                                                  \
    FUNCTION(name) {                                                                                                   \
        SOURCE(u32, a) F_LOOPS(PLAIN(a), MAYBE(a), value)                                                              \
    }
#define F2(name, pattern, sig, value)                                                                                  \
    FUNCTION(name) {                                                                                                   \
        SOURCE(u32, a) SOURCE(u32, b) F_LOOPS(PLAIN(a) PLAIN(b), MAYBE(a) MAYBE(b), value)                             \
    }
#define F3(name, pattern, sig, value)                                                                                  \
    FUNCTION(name) {                                                                                                   \
        SOURCE(u32, a)                                                                                                 \
        SOURCE(u32, b) SOURCE(u32, c) F_LOOPS(PLAIN(a) PLAIN(b) PLAIN(c), MAYBE(a) MAYBE(b) MAYBE(c), value)           \
    }
/* Under .ftz, results of 2^-126 that only the end of the exponents has rounded there become zero. */
#define FU_LOOPS(plain, maybe, value, tiny)                                                                            \
    if (!(o->flags & (F_FTZ | F_SAT))) LOOP(u32, plain, canonical(value))                                              \
    u32 ftz = 0 - (u32)(o->flags & F_FTZ), sat = 0 - (o->flags >> 1 & 1), t_[WARP], hit = 0, *out = AT(x, o->d);       \
    LANES {                                                                                                            \
        maybe t_[l] = finished(value, ftz, sat);                                                                       \
        hit |= ftz & (u32)((t_[l] & 0x7FFFFFFF) == 0x00800000);                                                        \
    }                                                                                                                  \
    for (int l = 0; hit && l < WARP; l++) {                                                                            \
        maybe if ((t_[l] & 0x7FFFFFFF) == 0x00800000 && (tiny)) t_[l] &= 0x80000000;                                   \
    }                                                                                                                  \
    LANES {                                                                                                            \
        out[l] = m & lane_bit[l] ? t_[l] : out[l];                                                                     \
    }                                                                                                                  \
    return RUN_NEXT;
#define FU2(name, pattern, sig, value, tiny)                                                                           \
    FUNCTION(name) {                                                                                                   \
        SOURCE(u32, a) SOURCE(u32, b) FU_LOOPS(PLAIN(a) PLAIN(b), MAYBE(a) MAYBE(b), value, tiny)                      \
    }
#define FU3(name, pattern, sig, value, tiny)                                                                           \
    FUNCTION(name) {                                                                                                   \
        SOURCE(u32, a)                                                                                                 \
        SOURCE(u32, b) SOURCE(u32, c) FU_LOOPS(PLAIN(a) PLAIN(b) PLAIN(c), MAYBE(a) MAYBE(b) MAYBE(c), value, tiny)    \
    }
/* Library functions: only the lanes that ask. */
#define M1(name, pattern, sig, value)                                                                                  \
    FUNCTION(name) {                                                                                                   \
        SOURCE(u32, a)                                                                                                 \
        u32 *d_ = AT(x, o->d);                                                                                         \
        u32 ftz = 0 - (u32)(o->flags & F_FTZ);                                                                         \
        FOR_LANES(l, m) {                                                                                              \
            MAYBE(a)                                                                                                   \
            d_[l] = finished(value, ftz, 0);                                                                           \
        }                                                                                                              \
        return RUN_NEXT;                                                                                               \
    }
#define E1(name, pattern, sig, value) D1(name, pattern, sig, f64, f64, value)
#define E2(name, pattern, sig, value) D2(name, pattern, sig, f64, f64, f64, value)
#define E3(name, pattern, sig, value) D3(name, pattern, sig, f64, f64, f64, f64, value)
#define COMPARE(name, t, loads, value)                                                                                 \
    FUNCTION(name) {                                                                                                   \
        SOURCE(t, a) SOURCE(t, b) s32 t_[WARP];                                                                        \
        LANES {                                                                                                        \
            loads t_[l] = (value) ? -1 : 0;                                                                            \
        }                                                                                                              \
        return finish_compare(x, o, m, pack_lanes(t_));                                                                \
    }
#define C(name, t, value) COMPARE(name, t, t a = a_[l]; t b = b_[l];, value)
#define CF(name, value)                                                                                                \
    FUNCTION(name) {                                                                                                   \
        SOURCE(u32, a) SOURCE(u32, b) s32 t_[WARP];                                                                    \
        u32 ftz = 0 - (u32)(o->flags & F_FTZ);                                                                         \
        LANES {                                                                                                        \
            MAYBE(a) MAYBE(b) t_[l] = (value) ? -1 : 0;                                                                \
        }                                                                                                              \
        return finish_compare(x, o, m, pack_lanes(t_));                                                                \
    }
#define S(name, t)                                                                                                     \
    FUNCTION(name) {                                                                                                   \
        SOURCE(t, a) SOURCE(t, b) u32 p = predicate_read(x, o->c);                                                     \
        LOOP(t, t a = a_[l]; t b = b_[l];, p & lane_bit[l] ? a : b)                                                    \
    }

#include <runtime/cpu/ops_int.def>
#include <runtime/cpu/ops_float.def>

op_fn *const TABLE[L_COUNT] = {
#define ROW(name) [L_##name] = H(name),
#include <runtime/cpu/lane_undef.h>
#include <runtime/cpu/lane_rows.h>
#undef ROW
};
