/* test_cpu_int.c - integer instructions of the CPU device against C on wider types, over edge values and random ones.
 */
#include "tests/cpu_snippet.h"

typedef __int128 i128;
typedef unsigned __int128 u128;
typedef uint64_t reference(uint64_t A, uint64_t B, uint64_t C);

struct row {
    const char *snippet;
    char kind;
    reference *expected;
};

#define S16(v) ((int16_t)(v))
#define S32(v) ((int32_t)(v))
#define S64(v) ((int64_t)(v))
#define U16(v) ((uint64_t)(uint16_t)(v))
#define U32(v) ((uint64_t)(uint32_t)(v))
#define U64(v) ((uint64_t)(v))
#define ROWS(X)                                                                                                        \
    X(0, "add.s32 d, a, b;", 'w', U32(U32(A) + U32(B)))                                                                \
    X(1, "add.u64 D, A, B;", 'l', A + B)                                                                               \
    X(2, "add.s16 hd, ha, hb;", 'h', U16(A + B))                                                                       \
    X(3, "add.sat.s32 d, a, b;", 'w', U32(clamp(S64(S32(A)) + S32(B))))                                                \
    X(4, "sub.u32 d, a, b;", 'w', U32(A - B))                                                                          \
    X(5, "sub.sat.s32 d, a, b;", 'w', U32(clamp(S64(S32(A)) - S32(B))))                                                \
    X(6, "sub.s64 D, A, B;", 'l', A - B)                                                                               \
    X(7, "mul.lo.s32 d, a, b;", 'w', U32(A *B))                                                                        \
    X(8, "mul.hi.s32 d, a, b;", 'w', U32(S64(S32(A)) * S32(B) >> 32))                                                  \
    X(9, "mul.hi.u32 d, a, b;", 'w', U32(A) * U32(B) >> 32)                                                            \
    X(10, "mul.hi.u64 D, A, B;", 'l', U64((u128)A *B >> 64))                                                           \
    X(11, "mul.hi.s64 D, A, B;", 'l', U64((i128)S64(A) * S64(B) >> 64))                                                \
    X(12, "mul.lo.u64 D, A, B;", 'l', A *B)                                                                            \
    X(13, "mul.wide.u32 D, a, b;", 'l', U32(A) * U32(B))                                                               \
    X(14, "mul.wide.s32 D, a, b;", 'l', U64(S64(S32(A)) * S32(B)))                                                     \
    X(15, "mul.wide.s16 d, ha, hb;", 'w', U32(S16(A) * S16(B)))                                                        \
    X(16, "mul.wide.u16 d, ha, hb;", 'w', U32(U16(A) * U16(B)))                                                        \
    X(17, "mul.hi.s16 hd, ha, hb;", 'h', U16(S16(A) * S16(B) >> 16))                                                   \
    X(18, "mad.lo.s32 d, a, b, c;", 'w', U32(A *B + C))                                                                \
    X(19, "mad.hi.u32 d, a, b, c;", 'w', U32((U32(A) * U32(B) >> 32) + C))                                             \
    X(20, "mad.wide.s32 D, a, b, C;", 'l', U64(S64(S32(A)) * S32(B)) + C)                                              \
    X(21, "mad.lo.u64 D, A, B, C;", 'l', A *B + C)                                                                     \
    X(22, "mad.hi.sat.s32 d, a, b, c;", 'w', U32(clamp((S64(S32(A)) * S32(B) >> 32) + S32(C))))                        \
    X(23, "mul24.lo.s32 d, a, b;", 'w', U32(sign24(A) * sign24(B)))                                                    \
    X(24, "div.u32 d, a, b;", 'w', U32(B) ? U32(A) / U32(B) : U32(-1))                                                 \
    X(25, "div.s32 d, a, b;", 'w', U32(B) ? U32(S64(S32(A)) / S32(B)) : U32(-1))                                       \
    X(26, "div.s64 D, A, B;", 'l', B ? U64((i128)S64(A) / S64(B)) : U64(-1))                                           \
    X(27, "rem.u64 D, A, B;", 'l', B ? A % B : U64(-1))                                                                \
    X(28, "rem.s32 d, a, b;", 'w', U32(B) ? U32(S64(S32(A)) % S32(B)) : U32(-1))                                       \
    X(29, "rem.s64 D, A, B;", 'l', B ? U64((i128)S64(A) % S64(B)) : U64(-1))                                           \
    X(30, "div.s16 hd, ha, hb;", 'h', U16(B) ? U16(S16(A) / S16(B)) : U16(-1))                                         \
    X(31, "abs.s32 d, a;", 'w', U32(S32(A) < 0 ? -S64(S32(A)) : S64(S32(A))))                                          \
    X(32, "neg.s64 D, A;", 'l', 0 - A)                                                                                 \
    X(33, "min.s32 d, a, b;", 'w', U32(S32(A) < S32(B) ? A : B))                                                       \
    X(34, "max.u32 d, a, b;", 'w', U32(A) > U32(B) ? U32(A) : U32(B))                                                  \
    X(35, "min.u64 D, A, B;", 'l', A < B ? A : B)                                                                      \
    X(36, "max.s64 D, A, B;", 'l', S64(A) > S64(B) ? A : B)                                                            \
    X(37, "max.s16 hd, ha, hb;", 'h', U16(S16(A) > S16(B) ? A : B))                                                    \
    X(38, "sad.s32 d, a, b, c;", 'w', U32((S32(A) < S32(B) ? S64(S32(B)) - S32(A) : S64(S32(A)) - S32(B)) + S64(C)))   \
    X(39, "and.b32 d, a, b;", 'w', U32(A &B))                                                                          \
    X(40, "or.b64 D, A, B;", 'l', A | B)                                                                               \
    X(41, "xor.b16 hd, ha, hb;", 'h', U16(A ^ B))                                                                      \
    X(42, "not.b32 d, a;", 'w', U32(~A))                                                                               \
    X(43, "cnot.b64 D, A;", 'l', A == 0)                                                                               \
    X(44, "shl.b32 d, a, b;", 'w', U32(B) < 32 ? U32(A << U32(B)) : 0)                                                 \
    X(45, "shr.s32 d, a, b;", 'w', U32(S64(S32(A)) >> (U32(B) < 40 ? U32(B) : 40)))                                    \
    X(46, "shr.u64 D, A, b;", 'l', U32(B) < 64 ? A >> U32(B) : 0)                                                      \
    X(47, "shr.s64 D, A, b;", 'l', U64((i128)S64(A) >> (U32(B) < 100 ? U32(B) : 100)))                                 \
    X(48, "shr.s16 hd, ha, b;", 'h', U16(S64(S16(A)) >> (U32(B) < 40 ? U32(B) : 40)))                                  \
    X(49, "shf.l.wrap.b32 d, a, b, c;", 'w', funnel(A, B, C & 31, true))                                               \
    X(50, "shf.l.clamp.b32 d, a, b, c;", 'w', funnel(A, B, U32(C) < 32 ? U32(C) : 32, true))                           \
    X(51, "shf.r.wrap.b32 d, a, b, c;", 'w', funnel(A, B, C & 31, false))                                              \
    X(52, "shf.r.clamp.b32 d, a, b, c;", 'w', funnel(A, B, U32(C) < 32 ? U32(C) : 32, false))                          \
    X(53, "bfe.u32 d, a, b, c;", 'w', field(U32(A), 32, B & 255, C & 255, false))                                      \
    X(54, "bfe.s32 d, a, b, c;", 'w', U32(field(U32(A), 32, B & 255, C & 255, true)))                                  \
    X(55, "bfe.u64 D, A, b, c;", 'l', field(A, 64, clip(B), clip(C), false))                                           \
    X(56, "bfe.s64 D, A, b, c;", 'l', field(A, 64, clip(B), clip(C), true))                                            \
    X(57, "bfi.b32 d, a, b, c, x;", 'w', insert(U32(A), U32(B), 32, C & 255, 7))                                       \
    X(58, "bfi.b64 D, A, B, c, x;", 'l', insert(A, B, 64, clip(C), 7))                                                 \
    X(59, "brev.b32 d, a;", 'w', reversed(U32(A), 32))                                                                 \
    X(60, "brev.b64 D, A;", 'l', reversed(A, 64))                                                                      \
    X(61, "clz.b32 d, a;", 'w', leading(U32(A), 32))                                                                   \
    X(62, "clz.b64 d, A;", 'w', leading(A, 64))                                                                        \
    X(63, "popc.b32 d, a;", 'w', ones(U32(A)))                                                                         \
    X(64, "popc.b64 d, A;", 'w', ones(A))                                                                              \
    X(65, "bfind.u32 d, a;", 'w', U32(31 - S64(leading(U32(A), 32))))                                                  \
    X(66, "bfind.s32 d, a;", 'w', U32(31 - S64(leading(U32(S32(A) < 0 ? ~A : A), 32))))                                \
    X(67, "bfind.shiftamt.u64 d, A;", 'w', A ? leading(A, 64) : U32(-1))                                               \
    X(68, "prmt.b32 d, a, b, c;", 'w', bytes_picked(A, B, C))                                                          \
    X(69, "prmt.b32.f4e d, a, b, c;", 'w', U32((U32(A) | U32(B) << 32) >> 8 * (C & 3)))                                \
    X(70, "prmt.b32.rc16 d, a, b, c;", 'w', (C & 1 ? U32(A) >> 16 : U16(A)) * 0x10001)                                 \
    X(71, "prmt.b32.b4e d, a, b, c;", 'w', backward(A, B, C))                                                          \
    X(72, "prmt.b32.ecl d, a, b, c;", 'w', edge(A, C, true))                                                           \
    X(73, "prmt.b32.ecr d, a, b, c;", 'w', edge(A, C, false))                                                          \
    X(74, "lop3.b32 d, a, b, c, 0x96;", 'w', U32(A ^ B ^ C))                                                           \
    X(75, "lop3.b32 d, a, b, c, 0xEA;", 'w', U32((A & B) | C))                                                         \
    X(76, "lop3.b32 d, a, b, c, 0xE4;", 'w', U32((A & C) | (B & ~C)))                                                  \
    X(77, "lop3.b32 d, a, b, c, 0x1D;", 'w', table_logic(A, B, C, 0x1D))                                               \
    X(78, "dp4a.s32.s32 d, a, b, c;", 'w', U32(dot(A, B, true, true) + S64(C)))                                        \
    X(79, "dp4a.u32.s32 d, a, b, c;", 'w', U32(dot(A, B, false, true) + S64(C)))                                       \
    X(80, "selp.b32 d, a, b, r;", 'w', U32(B))                                                                         \
    X(81, "setp.lt.s32 r, a, b; selp.s32 d, 7, -9, r;", 'w', U32(S32(A) < S32(B) ? 7 : -9))                            \
    X(82, "slct.u32.s32 d, a, b, c;", 'w', U32(S32(C) >= 0 ? A : B))                                                   \
    X(83, "set.gt.u32.s32 d, a, b;", 'w', U32(S32(A) > S32(B) ? -1 : 0))                                               \
    X(84, "add.cc.u32 d, a, b; addc.u32 e, c, 0; add.u32 d, d, e;", 'w',                                               \
      U32(U32(A + B) + U32(C) + ((U32(A) + U32(B)) >> 32)))                                                            \
    X(85, "sub.cc.u64 F, A, B; subc.u64 D, C, 0;", 'l', C - (A < B))                                                   \
    X(86, "mad.lo.cc.u32 f, a, b, c; madc.hi.u32 d, a, b, 0;", 'w', U32((U32(A) * U32(B) + U32(C)) >> 32))             \
    X(87, "mov.b64 {d, e}, A; add.u32 d, d, e;", 'w', U32(A + (A >> 32)))                                              \
    X(88, "mov.b64 D, {a, b};", 'l', U32(A) | U32(B) << 32)                                                            \
    X(89, "mov.b32 {hd, he}, a; mov.b32 d, {he, hd};", 'w', U32(A << 16) | U16(A >> 16))                               \
    X(90, "mov.b64 {hd, he, hf, hg}, A; mov.b64 D, {hg, hf, he, hd};", 'l', halves_reversed(A))                        \
    X(91, "mov.b64 {_, d}, A;", 'w', A >> 32)                                                                          \
    X(92, ".reg .b128 z; mov.b128 z, {A, B}; mov.b128 {E, D}, z; sub.u64 D, D, E;", 'l', B - A)                        \
    X(93, "add.u16x2 d, a, b;", 'w', U16(A + B) | U16((A >> 16) + (B >> 16)) << 16)                                    \
    X(94, "min.s16x2 d, a, b;", 'w',                                                                                   \
      U16(S16(A) < S16(B) ? A : B) | U16(S16(A >> 16) < S16(B >> 16) ? A >> 16 : B >> 16) << 16)                       \
    X(95, "bmsk.clamp.b32 d, b, c;", 'w', low_bits(C) << (U32(B) < 32 ? U32(B) : 32) & 0xFFFFFFFF)                     \
    X(96, "sub.s16 hd, ha, hb;", 'h', U16(A - B))                                                                      \
    X(97, "mul.lo.s16 hd, ha, hb;", 'h', U16(U16(A) * U16(B)))                                                         \
    X(98, "szext.wrap.s32 d, a, b;", 'w', U32(field(U32(A), 32, 0, B & 31, true)))                                     \
    X(99, "dp2a.hi.s32.u32 d, a, b, c;", 'w',                                                                          \
      U32(S16(A) * S64(B >> 16 & 255) + S16(A >> 16) * S64(B >> 24 & 255) + S64(C)))

/* 64-bit fields: the whole word counts, as on hardware */
static uint64_t clip(uint64_t v) {
    return U32(v) < 255 ? U32(v) : 255;
}
static int64_t clamp(int64_t v) {
    return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
}
static int64_t sign24(uint64_t v) {
    v &= 0xFFFFFF;
    return v >= 0x800000 ? (int64_t)v - 0x1000000 : (int64_t)v;
}
static uint64_t funnel(uint64_t low, uint64_t high, uint64_t n, bool left) {
    uint64_t both = U32(low) | U32(high) << 32;
    if (left) return n == 32 ? U32(low) : U32(both >> (32 - n));
    return n == 32 ? U32(high) : U32(both >> n);
}
/* bit by bit, as the manual's pseudo-code */
static uint64_t field(uint64_t a, int width, uint64_t position, uint64_t length, bool is_signed) {
    uint64_t top = position + length - 1 < (uint64_t)width - 1 ? position + length - 1 : (uint64_t)width - 1, d = 0;
    uint64_t sign = is_signed && length ? a >> top & 1 : 0;
    for (uint64_t i = 0; i < (uint64_t)width; i++) {
        uint64_t bit = i < length && position + i < (uint64_t)width ? a >> (position + i) & 1 : sign;
        d |= bit << i;
    }
    return d;
}
static uint64_t insert(uint64_t a, uint64_t b, uint64_t width, uint64_t position, uint64_t length) {
    for (uint64_t i = 0; i < length && position + i < width; i++)
        b = (b & ~(UINT64_C(1) << (position + i))) | (a >> i & 1) << (position + i);
    return b;
}
static uint64_t reversed(uint64_t a, int width) {
    uint64_t d = 0;
    for (int i = 0; i < width; i++)
        d |= (a >> i & 1) << (width - 1 - i);
    return d;
}
static uint64_t leading(uint64_t a, int width) {
    uint64_t n = 0;
    while (n < (uint64_t)width && !(a >> ((uint64_t)width - 1 - n) & 1))
        n++;
    return n;
}
static uint64_t ones(uint64_t a) {
    uint64_t n = 0;
    for (; a; a >>= 1)
        n += a & 1;
    return n;
}
static uint64_t byte_at(uint64_t a, uint64_t b, uint64_t i) {
    return (i < 4 ? a >> 8 * i : b >> 8 * (i - 4)) & 255;
}
static uint64_t bytes_picked(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t d = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t n = c >> 4 * i & 15, byte = byte_at(a, b, n & 7);
        d |= (n & 8 ? (byte & 128 ? UINT64_C(255) : 0) : byte) << 8 * i;
    }
    return d;
}
static uint64_t backward(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t d = 0;
    for (uint64_t i = 0; i < 4; i++)
        d |= byte_at(a, b, ((c & 3) + 8 - i) % 8) << 8 * i;
    return d;
}
static uint64_t edge(uint64_t a, uint64_t c, bool left) {
    uint64_t d = 0;
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t from = left ? (i > (c & 3) ? i : (c & 3)) : (i < (c & 3) ? i : (c & 3));
        d |= byte_at(a, 0, from) << 8 * i;
    }
    return d;
}
static uint64_t table_logic(uint64_t a, uint64_t b, uint64_t c, uint64_t table) {
    uint64_t d = 0;
    for (int i = 0; i < 32; i++)
        d |= (table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i;
    return d;
}
static int64_t dot(uint64_t a, uint64_t b, bool sa, bool sb) {
    int64_t sum = 0;
    for (int i = 0; i < 4; i++) {
        int64_t x = (int64_t)(a >> 8 * i & 255), y = (int64_t)(b >> 8 * i & 255);
        sum += (sa && x > 127 ? x - 256 : x) * (sb && y > 127 ? y - 256 : y);
    }
    return sum;
}
static uint64_t halves_reversed(uint64_t a) {
    return a >> 48 | (a >> 32 & 0xFFFF) << 16 | (a >> 16 & 0xFFFF) << 32 | a << 48;
}
static uint64_t low_bits(uint64_t c) {
    return U32(c) < 32 ? (UINT64_C(1) << U32(c)) - 1 : 0xFFFFFFFF;
}

#define FUNCTION(id, snippet, kind, value)                                                                             \
    static uint64_t row_##id(uint64_t A, uint64_t B, uint64_t C) {                                                     \
        (void)A, (void)B, (void)C;                                                                                     \
        return value;                                                                                                  \
    }
ROWS(FUNCTION)
static const struct row rows[] = {
#define ROW(id, snippet, kind, value) {snippet, kind, row_##id},
    ROWS(ROW)};

enum { CASES = 640 };

START_TEST(every_integer_instruction_gives_what_c_gives) {
    static const uint64_t edges[] = {0,
                                     1,
                                     2,
                                     31,
                                     32,
                                     33,
                                     63,
                                     64,
                                     0x7F,
                                     0x80,
                                     0xFF,
                                     0x7FFF,
                                     0x8000,
                                     0xFFFF,
                                     0x7FFFFFFF,
                                     0x80000000,
                                     0xFFFFFFFF,
                                     0x7FFFFFFFFFFFFFFF,
                                     0x8000000000000000,
                                     0xFFFFFFFFFFFFFFFF};
    enum { EDGES = sizeof edges / sizeof edges[0] };
    static struct snippet_in in[CASES];
    static struct snippet_out out[CASES];
    uint64_t seed = 1;
    machine_with(fair(1, 4));
    for (size_t i = 0; i < CASES; i++) {
        uint64_t r = next_random(&seed);
        in[i].a = i < EDGES * EDGES ? edges[i / EDGES] : next_random(&seed) >> (r & 63);
        in[i].b = i < EDGES * EDGES ? edges[i % EDGES] : next_random(&seed) >> (r >> 8 & 63);
        in[i].c = r & 1 ? edges[r >> 8 & 15] : next_random(&seed);
        in[i].x = 7;
    }
    const struct row *row = &rows[_i];
    evaluate(row->snippet, row->kind, in, out, CASES);
    for (size_t i = 0; i < CASES; i++) {
        uint64_t want = row->expected(in[i].a, in[i].b, in[i].c);
        ck_assert_msg(out[i].d == want, "%s of 0x%llx 0x%llx 0x%llx: 0x%llx, not 0x%llx", row->snippet,
                      (unsigned long long)in[i].a, (unsigned long long)in[i].b, (unsigned long long)in[i].c,
                      (unsigned long long)out[i].d, (unsigned long long)want);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_int");
    TCase *tcase = tcase_create("rows");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, every_integer_instruction_gives_what_c_gives, 0, (int)(sizeof rows / sizeof rows[0]));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
