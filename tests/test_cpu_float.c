/* test_cpu_float.c - f32, f64, f16 and bf16 arithmetic and comparisons against libm, and against rounding by search. */
#include "tests/cpu_numbers.h"
#include "tests/cpu_snippet.h"

enum { CASES = 2048 };
static struct snippet_in in[CASES];
static struct snippet_out out[CASES];

static const uint32_t edges[] = {0,          0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000,
                                 0x7FC00000, 0x7F800001, 0xFFFFFFFF, 1,          0x80000001, 0x007FFFFF,
                                 0x00800000, 0x80800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F000000, 0x34000000,
                                 0x40490FDB, 0x7F000000, 0x00FFFFFF, 0x3F7FFFFF};
enum { EDGES = sizeof edges / sizeof edges[0] };

static uint64_t fill_f32(void) {
    uint64_t seed = 5;
    for (size_t i = 0; i < CASES; i++) {
        uint64_t r = next_random(&seed);
        bool near = r & 1; /* exponents close to each other */
        in[i].a = i < EDGES * EDGES ? edges[i / EDGES]
                  : near            ? (r >> 8 & 0x807FFFFF) | (110 + (r >> 40) % 34) << 23
                                    : r >> 32;
        r = next_random(&seed);
        in[i].b = i < EDGES * EDGES ? edges[i % EDGES]
                  : near            ? (r >> 8 & 0x807FFFFF) | (110 + (r >> 40) % 34) << 23
                                    : r >> 32;
        r = next_random(&seed);
        in[i].c = i < EDGES * EDGES ? edges[r % EDGES]
                  : near            ? (r >> 8 & 0x807FFFFF) | (110 + (r >> 40) % 34) << 23
                                    : r >> 32;
    }
    return seed;
}

static float flush(float v) {
    return fabsf(v) < 0x1p-126f ? copysignf(0, v) : v;
}
/* .ftz flushes what is below 2^-126 when rounded to 24 bits without an end of the exponents, as hardware was seen to.
 */
static float tiny(wide exact, float rounded) {
    wide scaled = exact * 0x1p100; /* far from the end */
    return fabsf((float)scaled) < 0x1p-26f ? copysignf(0, rounded) : rounded;
}
static float saturate(float v) {
    return v > 0 ? (v < 1 ? v : 1) : 0;
}
static float least(float a, float b) {
    if (isnan(a) || isnan(b)) return isnan(a) ? b : a;
    return a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}
static float most(float a, float b) {
    if (isnan(a) || isnan(b)) return isnan(a) ? b : a;
    return a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}
static float with_sign(float v, bool negative) {
    return isnan(v) ? v : copysignf(v, negative ? -1.0f : 1.0f);
}

#define FA flush(a)
#define FB flush(b)
#define FC flush(c)
#define ROWS32(X)                                                                                                      \
    X(0, "add.f32 d, a, b;", a + b)                                                                                    \
    X(1, "sub.rn.f32 d, a, b;", a - b)                                                                                 \
    X(2, "mul.rn.f32 d, a, b;", a *b)                                                                                  \
    X(3, "fma.rn.f32 d, a, b, c;", fmaf(a, b, c))                                                                      \
    X(4, "add.ftz.f32 d, a, b;", flush(FA + FB))                                                                       \
    X(5, "mul.rn.ftz.f32 d, a, b;", tiny((wide)FA *FB, FA *FB))                                                        \
    X(6, "fma.rn.ftz.f32 d, a, b, c;", tiny((wide)FA *FB + FC, fmaf(FA, FB, FC)))                                      \
    X(7, "add.sat.f32 d, a, b;", saturate(a + b))                                                                      \
    X(8, "mul.ftz.sat.f32 d, a, b;", saturate(tiny((wide)FA *FB, FA *FB)))                                             \
    X(9, "fma.rn.sat.f32 d, a, b, c;", saturate(fmaf(a, b, c)))                                                        \
    X(10, "min.f32 d, a, b;", least(a, b))                                                                             \
    X(11, "max.f32 d, a, b;", most(a, b))                                                                              \
    X(12, "min.NaN.f32 d, a, b;", isnan(a) || isnan(b) ? NAN : least(a, b))                                            \
    X(13, "max.ftz.f32 d, a, b;", most(FA, FB))                                                                        \
    X(14, "max.xorsign.abs.f32 d, a, b;", with_sign(most(fabsf(a), fabsf(b)), !signbit(a) != !signbit(b)))             \
    X(15, "div.rn.f32 d, a, b;", a / b)                                                                                \
    X(16, "div.full.ftz.f32 d, a, b;", flush(FA / FB))                                                                 \
    X(17, "sqrt.rn.f32 d, a;", sqrtf(a))                                                                               \
    X(18, "rcp.rn.f32 d, a;", 1.0f / a)                                                                                \
    X(19, "rcp.approx.ftz.f32 d, a;", flush(1.0f / FA))                                                                \
    X(20, "rsqrt.approx.ftz.f32 d, a;", flush((float)(1 / sqrtl(FA))))                                                 \
    X(21, "mad.rn.f32 d, a, b, c;", fmaf(a, b, c))                                                                     \
    X(22, "ex2.approx.ftz.f32 d, a;", flush((float)exp2l(FA)))                                                         \
    X(23, "lg2.approx.f32 d, a;", (float)log2l(a))                                                                     \
    X(24, "@r add.f32 d, a, b; @!r mov.f32 d, c;", c)                                                                  \
    X(25, "mov.f32 d, 0f3FC00000; add.f32 d, d, 0.25;", 1.75f)                                                         \
    X(26, "selp.f32 d, a, b, q;", b)                                                                                   \
    X(27, "sub.f32 d, a, b; neg.f32 d, d; add.f32 d, d, 0f00000000;", -(a - b) + 0.0f)

#define FUNCTION32(id, snippet, value)                                                                                 \
    static float row32_##id(float a, float b, float c) {                                                               \
        (void)a, (void)b, (void)c;                                                                                     \
        return value;                                                                                                  \
    }
ROWS32(FUNCTION32)
static const struct {
    const char *snippet;
    float (*expected)(float, float, float);
} rows32[] = {
#define ROW32(id, snippet, value) {snippet, row32_##id},
    ROWS32(ROW32)};

START_TEST(f32_is_ieee_with_canonical_nan) {
    machine_with(fair(1, 4));
    fill_f32();
    evaluate(rows32[_i].snippet, 'w', in, out, CASES);
    for (size_t i = 0; i < CASES; i++) {
        float r = rows32[_i].expected(float_of_bits(in[i].a), float_of_bits(in[i].b), float_of_bits(in[i].c));
        bool moved = strncmp(rows32[_i].snippet, "selp", 4) == 0 || rows32[_i].snippet[0] == '@';
        uint64_t want = moved ? (_i == 26 ? in[i].b : in[i].c) : isnan(r) ? 0x7FFFFFFF : bits_of_float(r);
        ck_assert_msg(out[i].d == want, "%s of %08llx %08llx %08llx: %08llx, not %08llx", rows32[_i].snippet,
                      (unsigned long long)in[i].a, (unsigned long long)in[i].b, (unsigned long long)in[i].c,
                      (unsigned long long)out[i].d, (unsigned long long)want);
    }
}
END_TEST

/* ---- directed rounding: the neighbour of the nearest that the mode asks for ---- */
static float directed(wide exact, char mode) {
    float nearest = (float)exact;
    if (isnan(nearest) || exact == (wide)INFINITY || exact == -(wide)INFINITY) return nearest;
    if ((mode == 'm' && (wide)nearest > exact) || (mode == 'z' && exact > 0 && (wide)nearest > exact))
        return nextafterf(nearest, -INFINITY);
    if ((mode == 'p' && (wide)nearest < exact) || (mode == 'z' && exact < 0 && (wide)nearest < exact))
        return nextafterf(nearest, INFINITY);
    return nearest;
}

START_TEST(directed_rounding_takes_the_right_neighbour) {
    static const char *const operations[] = {"add.r%c.f32 d, a, b;", "mul.r%c.f32 d, a, b;", "fma.r%c.f32 d, a, b, c;",
                                             "div.r%c.f32 d, a, b;"};
    char snippet[64], mode = "zmp"[_i % 3];
    int operation = _i / 3;
    machine_with(fair(1, 4));
    fill_f32();
    snprintf(snippet, sizeof snippet, operations[operation], mode);
    evaluate(snippet, 'w', in, out, CASES);
    size_t compared = 0;
    for (size_t i = EDGES * EDGES; i < CASES; i++) {
        wide a = float_of_bits(in[i].a), b = float_of_bits(in[i].b), c = float_of_bits(in[i].c);
        if (fabs((double)a) > 0x1p40 || fabs((double)b) > 0x1p40 || fabs((double)c) > 0x1p40 ||
            fabs((double)a) < 0x1p-20 || fabs((double)b) < 0x1p-20 || fabs((double)c) < 0x1p-20 || a != a || b != b ||
            c != c)
            continue; /* beyond what 113 bits hold exactly */
        wide exact = operation == 0 ? a + b : operation == 1 ? a * b : operation == 2 ? a * b + c : a / b;
        if (exact == 0) continue;
        compared++;
        ck_assert_msg(out[i].d == bits_of_float(directed(exact, mode)), "%s of %08llx %08llx %08llx: %08llx", snippet,
                      (unsigned long long)in[i].a, (unsigned long long)in[i].b, (unsigned long long)in[i].c,
                      (unsigned long long)out[i].d);
    }
    ck_assert_int_gt((int)compared, 400);
}
END_TEST

/* ---- f64 ---- */
START_TEST(f64_is_ieee) {
    static const char *const snippets[] = {"add.f64 D, A, B;",    "mul.f64 D, A, B;",  "fma.rn.f64 D, A, B, C;",
                                           "div.rn.f64 D, A, B;", "sqrt.rn.f64 D, A;", "min.f64 D, A, B;",
                                           "sub.f64 D, A, B;",    "neg.f64 D, A;"};
    uint64_t seed = 9;
    machine_with(fair(1, 4));
    for (size_t i = 0; i < CASES; i++) {
        in[i].a = next_random(&seed);
        in[i].b = i & 1 ? (in[i].a & 0xFFF0000000000000) ^ next_random(&seed) >> 12 : next_random(&seed);
        in[i].c = next_random(&seed);
    }
    evaluate(snippets[_i], 'l', in, out, CASES);
    for (size_t i = 0; i < CASES; i++) {
        double a = double_of_bits(in[i].a), b = double_of_bits(in[i].b), c = double_of_bits(in[i].c);
        double r = _i == 0   ? a + b
                   : _i == 1 ? a * b
                   : _i == 2 ? fma(a, b, c)
                   : _i == 3 ? a / b
                   : _i == 4 ? sqrt(a)
                   : _i == 5 ? fmin(a, b)
                   : _i == 6 ? a - b
                             : -a;
        ck_assert(isnan(r) ? isnan(double_of_bits(out[i].d)) : out[i].d == bits_of_double(r));
    }
}
END_TEST

/* ---- f16, bf16, single and packed ---- */
/* A term too small for the 113 bits of the sum still decides ties. */
static wide nudged(wide sum, wide big, wide small) {
    wide step = big * 0x1p-100;
    return sum != big || small == 0 || big == 0 ? sum : (small > 0) == (big > 0) ? big + step : big - step;
}
static wide half_exact(int operation, wide a, wide b, wide c) {
    wide product = a * b, sum = product + c;
    return operation == 0   ? a + b
           : operation == 1 ? a - b
           : operation == 2 ? product
                            : nudged(nudged(sum, product, c), c, product);
}

START_TEST(half_arithmetic_rounds_the_exact_result_once) {
    static const char *const names[] = {"add", "sub", "mul", "fma.rn"};
    static const char *const suffixes[] = {"f16", "bf16", "f16x2", "bf16x2"};
    int operation = _i / 4, suffix = _i % 4;
    const struct format *f = suffix & 1 ? &BF16 : &F16;
    uint64_t seed = 11;
    char snippet[64];
    machine_with(fair(1, 4));
    for (size_t i = 0; i < CASES; i++) {
        in[i].a = next_random(&seed);
        in[i].b = i & 1 ? next_random(&seed)
                        : (in[i].a & 0x7C007C00) ^ (next_random(&seed) & 0x8FFF8FFF); /* near exponents every second */
        in[i].c = i & 2 ? next_random(&seed) : (in[i].b & 0x7C007C00) ^ (next_random(&seed) & 0x8FFF8FFF);
    }
    bool packed = suffix > 1, three = operation == 3;
    snprintf(snippet, sizeof snippet, packed ? "%s.%s d, a, b%s;" : "%s.%s hd, ha, hb%s;", names[operation],
             suffixes[suffix], three ? (packed ? ", c" : ", hc") : "");
    evaluate(snippet, packed ? 'w' : 'h', in, out, CASES);
    for (size_t i = 0; i < CASES; i++)
        for (int half = 0; half <= packed; half++) {
            double a = small_value(f, (uint32_t)(in[i].a >> 16 * half & 0xFFFF)),
                   b = small_value(f, (uint32_t)(in[i].b >> 16 * half & 0xFFFF));
            double c = small_value(f, (uint32_t)(in[i].c >> 16 * half & 0xFFFF));
            wide exact = half_exact(operation, a, b, c);
            double sign = operation == 0 ? a + b : operation == 1 ? a - b : operation == 2 ? a * b : fma(a, b, c);
            uint32_t want = small_rounded(f, exact, exact == 0 ? signbit(sign) : exact < 0, 'n'),
                     got = (uint32_t)(out[i].d >> 16 * half & 0xFFFF);
            ck_assert_msg(got == want, "%s, half %d of %08llx %08llx %08llx: %04x, not %04x", snippet, half,
                          (unsigned long long)in[i].a, (unsigned long long)in[i].b, (unsigned long long)in[i].c, got,
                          want);
        }
}
END_TEST

/* ---- comparisons ---- */
static bool compares(const char *name, double a, double b) {
    bool unordered = isnan(a) || isnan(b), u = name[2] == 'u';
    if (!strcmp(name, "num")) return !unordered;
    if (!strcmp(name, "nan")) return unordered;
    if (unordered) return u;
    return name[0] == 'e'   ? a == b
           : name[0] == 'n' ? a != b
           : name[0] == 'l' ? (name[1] == 't' ? a < b : a <= b)
           : name[1] == 't' ? a > b
                            : a >= b;
}

START_TEST(setp_covers_ordered_and_unordered_and_combines) {
    static const char *const names[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                        "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
    char snippet[128];
    machine_with(fair(1, 4));
    fill_f32();
    for (size_t i = 0; i < CASES; i++)
        in[i].x = i % 3;
    snprintf(snippet, sizeof snippet, "setp.ne.u32 r, x, 0; setp.%s.%s.f32 p|q, a, b, %sr;", names[_i],
             _i % 3 == 0   ? "and"
             : _i % 3 == 1 ? "or"
                           : "xor",
             _i & 1 ? "!" : "");
    evaluate(snippet, 'p', in, out, CASES);
    for (size_t i = 0; i < CASES; i++) {
        bool holds = compares(names[_i], float_of_bits(in[i].a), float_of_bits(in[i].b)),
             r = (in[i].x != 0) != (_i & 1);
        bool p = _i % 3 == 0   ? holds && r
                 : _i % 3 == 1 ? holds || r
                               : holds != r,
             q = _i % 3 == 0   ? !holds && r
                 : _i % 3 == 1 ? !holds || r
                               : !holds != r;
        ck_assert_msg(out[i].d == p && out[i].e == q, "%s of %08llx %08llx", snippet, (unsigned long long)in[i].a,
                      (unsigned long long)in[i].b);
    }
    snprintf(snippet, sizeof snippet, "setp.%s.bf16x2 p|q, a, b;", names[_i]);
    evaluate(snippet, 'p', in, out, CASES);
    for (size_t i = 0; i < CASES; i++)
        ck_assert(out[i].d ==
                      compares(names[_i], small_value(&BF16, in[i].a & 0xFFFF), small_value(&BF16, in[i].b & 0xFFFF)) &&
                  out[i].e == compares(names[_i], small_value(&BF16, (uint32_t)in[i].a >> 16),
                                       small_value(&BF16, (uint32_t)in[i].b >> 16)));
}
END_TEST

START_TEST(integer_comparisons_know_their_signs) {
    static const char *const names[] = {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"};
    char snippet[64];
    uint64_t seed = 3;
    machine_with(fair(1, 4));
    for (size_t i = 0; i < CASES; i++) {
        in[i].a = next_random(&seed) >> (i % 50);
        in[i].b = i % 5 ? next_random(&seed) >> (i % 47) : in[i].a;
    }
    for (int type = 0; type < 6; type++) {
        static const char *const types[] = {"s16 p, ha, hb;", "u16 p, ha, hb;", "s32 p, a, b;",
                                            "u32 p, a, b;",   "s64 p, A, B;",   "u64 p, A, B;"};
        if (_i >= 6 && !(type & 1)) continue;
        snprintf(snippet, sizeof snippet, "setp.%s.%s", names[_i], types[type]);
        evaluate(snippet, 'p', in, out, CASES);
        for (size_t i = 0; i < CASES; i++) {
            uint64_t a = in[i].a, b = in[i].b;
            __int128 x = type == 0   ? (int16_t)a
                         : type == 1 ? (uint16_t)a
                         : type == 2 ? (int32_t)a
                         : type == 3 ? (__int128)(uint32_t)a
                         : type == 4 ? (int64_t)a
                                     : (__int128)a;
            __int128 y = type == 0   ? (int16_t)b
                         : type == 1 ? (uint16_t)b
                         : type == 2 ? (int32_t)b
                         : type == 3 ? (__int128)(uint32_t)b
                         : type == 4 ? (int64_t)b
                                     : (__int128)b;
            bool wants[] = {x == y, x != y, x<y, x <= y, x> y, x >= y, x<y, x <= y, x> y, x >= y};
            ck_assert_msg(out[i].d == wants[_i], "%s of %llx %llx", snippet, (unsigned long long)a,
                          (unsigned long long)b);
        }
    }
}
END_TEST

/* What an H200 (driver 580.159.04) gave where the manual leaves room or formulas mislead. */
START_TEST(edges_are_as_hardware_was_seen_to_give_them) {
    static const struct {
        const char *snippet;
        char kind;
        uint64_t a, b, c, want;
    } rows[] = {
        {"mul.ftz.f32 d, a, b;", 'w', 0x00800000, 0x3F7FFFFF, 0, 0},
        {"fma.rn.ftz.f32 d, a, b, c;", 'w', 0x80800000, 0x00800000, 0x00800000, 0x00800000},
        {"div.approx.f32 d, a, b;", 'w', 0xBF800000, 0x7F7FFFFF, 0, 0x80000000},
        {"div.approx.ftz.f32 d, a, b;", 'w', 0x7F800000, 0x7F7FFFFF, 0, 0x7FFFFFFF},
        {"abs.f32 d, a;", 'w', 0xFFC12345, 0, 0, 0x7FFFFFFF},
        {"neg.f64 D, A;", 'l', 0xFFFFFFFF00000000, 0, 0, 0xFFFFFFFF00000000},
        {"rcp.approx.ftz.f64 D, A;", 'l', 0x7F80000100000000, 0, 0, 0x005FFFFE00000000},
        {"cvt.f64.f32 D, a;", 'l', 0xFFC12345, 0, 0, 0xFFF82468A0000000},
        {"cvt.f64.f16 D, ha;", 'l', 0x7C01, 0, 0, 0x7FF8040000000000},
        {"cvt.rn.f32.f64 d, A;", 'w', 0xFFFFFFFF00000000, 0, 0, 0xFFFFFFF8},
        {"cvt.rn.f16.f64 hd, A;", 'h', 0xFFFFFFFF00000000, 0, 0, 0xFFFF},
        {"cvt.rna.tf32.f32 d, a;", 'w', 0x7F95D145, 0, 0, 0x7F95C000},
        {"max.xorsign.abs.f16 hd, ha, hb;", 'h', 0, 0xFFFF, 0, 0x8000},
        {"testp.normal.f32 p, a;", 'p', 0x80000000, 0, 0, 1},
        {"rem.u16 hd, ha, hb;", 'h', 0x8000, 0, 0, 0xFFFF},
        {"bfe.u64 D, A, b, c;", 'l', 0x1BF800000, 1, 0x8000, 0xDFC00000},
        {"bfi.b64 D, A, B, c, a;", 'l', 0x8080000040490FDB, 0x40490FDB80800000, 0x21, 0x80921FB780800000},
    };
    machine_with(fair(1, 1));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        in[0] = (struct snippet_in){rows[i].a, rows[i].b, rows[i].c, 0};
        evaluate(rows[i].snippet, rows[i].kind, in, out, 1);
        ck_assert_msg(out[0].d == rows[i].want, "%s: %llx, not %llx", rows[i].snippet, (unsigned long long)out[0].d,
                      (unsigned long long)rows[i].want);
    }
}
END_TEST

START_TEST(the_hosts_flush_to_zero_does_not_reach_kernels) {
#ifdef __SSE2__
    machine_with(fair(1, 1));
    in[0] = (struct snippet_in){1, 0, 0, 0};
    unsigned mode = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(mode | 0x8040);
    evaluate("add.f32 d, a, b;", 'w', in, out, 1);
    unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(mode);
    ck_assert(out[0].d == 1);
    ck_assert((after & 0x8040) == 0x8040);
#endif
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_float");
    TCase *tcase = tcase_create("rows");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, f32_is_ieee_with_canonical_nan, 0, (int)(sizeof rows32 / sizeof rows32[0]));
    tcase_add_loop_test(tcase, directed_rounding_takes_the_right_neighbour, 0, 12);
    tcase_add_loop_test(tcase, f64_is_ieee, 0, 8);
    tcase_add_loop_test(tcase, half_arithmetic_rounds_the_exact_result_once, 0, 16);
    tcase_add_loop_test(tcase, setp_covers_ordered_and_unordered_and_combines, 0, 14);
    tcase_add_loop_test(tcase, integer_comparisons_know_their_signs, 0, 10);
    tcase_add_test(tcase, edges_are_as_hardware_was_seen_to_give_them);
    tcase_add_test(tcase, the_hosts_flush_to_zero_does_not_reach_kernels);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
