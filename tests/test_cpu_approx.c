/* test_cpu_approx.c - approximations stay within the errors that the manual states (the table is in
 * runtime/cpu/ops_float.def) and within half an ulp, which is what the device promises; exact values are libm's in
 * long double. Every sign, exponent and upper fraction of f32 is an input, and every f16 and bf16. */
#include "tests/cpu_numbers.h"
#include "tests/cpu_snippet.h"

enum { CASES = 65536 };
static struct snippet_in in[CASES];
static struct snippet_out out[CASES];
typedef long double fine;

static fine inverse(fine a) {
    return 1 / a;
}
static fine inverse_root(fine a) {
    return 1 / sqrtl(a);
}

/* Distance of two neighbours at v in a format with `fraction` bits whose subnormals step by 2^least. */
static fine step_at(fine v, int fraction, int least) {
    int exponent = v == 0 ? least : ilogbl(v) - fraction;
    return ldexpl(1, exponent < least ? least : exponent);
}

/* u: ulp of the result, r: relative, a: absolute, l: absolute in (0.5, 2) and relative elsewhere */
static const struct {
    const char *snippet;
    fine (*exact)(fine);
    char measure;
    double bound, least, most; /* of the inputs judged */
} singles[] = {
    {"rcp.approx.f32 d, a;", inverse, 'u', 1, -INFINITY, INFINITY},
    {"rcp.approx.ftz.f32 d, a;", inverse, 'u', 1, -INFINITY, INFINITY},
    {"sqrt.approx.f32 d, a;", sqrtl, 'r', 0x1p-23, 0, INFINITY},
    {"sqrt.approx.ftz.f32 d, a;", sqrtl, 'r', 0x1p-23, 0, INFINITY},
    {"rsqrt.approx.f32 d, a;", inverse_root, 'r', 0x1.125fbep-23, 0, INFINITY},
    {"rsqrt.approx.ftz.f32 d, a;", inverse_root, 'r', 0x1.125fbep-23, 0, INFINITY},
    {"ex2.approx.f32 d, a;", exp2l, 'u', 2, -INFINITY, INFINITY},
    {"ex2.approx.ftz.f32 d, a;", exp2l, 'u', 2, -INFINITY, INFINITY},
    {"lg2.approx.f32 d, a;", log2l, 'l', 0x1p-22, 0, INFINITY},
    {"lg2.approx.ftz.f32 d, a;", log2l, 'l', 0x1p-22, 0, INFINITY},
    {"tanh.approx.f32 d, a;", tanhl, 'r', 0x1p-11, -INFINITY, INFINITY},
    {"sin.approx.f32 d, a;", sinl, 'a', 0x1.6a09e6p-21, -6.2831853, 6.2831853},
    {"cos.approx.f32 d, a;", cosl, 'a', 0x1.6a09e6p-21, -6.2831853, 6.2831853},
    {"sin.approx.f32 d, a;", sinl, 'a', 0x1.3b2c48p-15, -314.15926, 314.15926},
    {"cos.approx.ftz.f32 d, a;", cosl, 'a', 0x1.3b2c48p-15, -314.15926, 314.15926},
};

static fine allowed(char measure, double bound, fine a, fine exact) {
    bool near = a > 0.5L && a < 2;
    return measure == 'u'                               ? bound * step_at(exact, 23, -149)
           : measure == 'a' || (measure == 'l' && near) ? bound
                                                        : bound * fabsl(exact);
}

/* f32 of every upper half; the lower half is drawn */
static void fill(void) {
    uint64_t seed = 41;
    for (uint32_t i = 0; i < CASES; i++)
        in[i].a = i << 16 | (i & 1 ? (uint32_t)next_random(&seed) & 0xFFFF : 0);
}

START_TEST(f32_approximations_keep_the_manuals_bounds) {
    const char *snippet = singles[_i].snippet;
    bool ftz = strstr(snippet, ".ftz") != NULL;
    unsigned judged = 0;
    machine_with(fair(1, 8));
    fill();
    evaluate(snippet, 'w', in, out, CASES);
    for (uint32_t i = 0; i < CASES; i++) {
        float a = float_of_bits(in[i].a), got = float_of_bits(out[i].d);
        if (ftz && fabsf(a) < 0x1p-126f) a = copysignf(0, a);
        if (!(a > singles[_i].least && a < singles[_i].most) || a == 0) continue; /* see the corners below */
        fine exact = singles[_i].exact(a), half = step_at(exact, 23, -149) * 0.500000002L, error = fabsl(got - exact);
        if (fabsl(exact) >= 0x1.ffffffp127L) { /* rounds beyond the largest */
            ck_assert(isinf(got) && !signbit(got) == !signbit(exact));
            continue;
        }
        if (ftz && fabsl(exact) < 0x1p-126L - 0x1p-151L) {
            ck_assert_msg(got == 0, "%s of %a: %a", snippet, (double)a, (double)got);
            continue;
        }
        judged++;
        ck_assert_msg(error <= half && error <= allowed(singles[_i].measure, singles[_i].bound, a, exact),
                      "%s of %a: %a is off by %Lg", snippet, (double)a, (double)got, error);
    }
    ck_assert_uint_gt(judged, 15000);
}
END_TEST

START_TEST(corners_are_those_of_the_manuals_tables) {
    static const float inputs[5] = {-INFINITY, -0.0f, 0.0f, INFINITY, NAN};
    static const struct {
        const char *name;
        float want[5];
    } rows[] = {
        {"rcp.approx%s.f32 d, a;", {-0.0f, -INFINITY, INFINITY, 0, NAN}},
        {"sqrt.approx%s.f32 d, a;", {NAN, -0.0f, 0, INFINITY, NAN}},
        {"rsqrt.approx%s.f32 d, a;", {NAN, -INFINITY, INFINITY, 0, NAN}},
        {"ex2.approx%s.f32 d, a;", {0, 1, 1, INFINITY, NAN}},
        {"lg2.approx%s.f32 d, a;", {NAN, -INFINITY, -INFINITY, INFINITY, NAN}},
        {"sin.approx%s.f32 d, a;", {NAN, -0.0f, 0, NAN, NAN}},
        {"cos.approx%s.f32 d, a;", {NAN, 1, 1, NAN, NAN}},
        {"tanh.approx.f32 d, a;", {-1, -0.0f, 0, 1, NAN}},
    };
    char snippet[64];
    machine_with(fair(1, 1));
    for (int ftz = 0; ftz < 2; ftz++) {
        for (size_t i = 0; i < 5; i++)
            in[i].a = bits_of_float(inputs[i]);
        snprintf(snippet, sizeof snippet, rows[_i].name, ftz ? ".ftz" : "");
        evaluate(snippet, 'w', in, out, 5);
        for (size_t i = 0; i < 5; i++)
            ck_assert_msg(out[i].d == (isnan(rows[_i].want[i]) ? 0x7FFFFFFF : bits_of_float(rows[_i].want[i])),
                          "%s of %a: %08x", snippet, (double)inputs[i], (unsigned)out[i].d);
    }
}
END_TEST

START_TEST(approximate_quotients_are_within_two_ulp) {
    const char *snippet = _i ? "div.approx.f32 d, a, b;" : "div.full.f32 d, a, b;";
    uint64_t seed = 43;
    unsigned judged = 0;
    machine_with(fair(1, 8));
    fill();
    for (uint32_t i = 0; i < CASES; i++)
        in[i].b = next_random(&seed) & 0xFFFFFFFF;
    evaluate(snippet, 'w', in, out, CASES);
    for (uint32_t i = 0; i < CASES; i++) {
        float a = float_of_bits(in[i].a), b = float_of_bits(in[i].b), got = float_of_bits(out[i].d);
        fine exact = (fine)a / b;
        if (!isfinite(exact) || fabsl(exact) >= 0x1.ffffffp127L || fabsf(b) < 0x1p-126f || fabsf(b) > 0x1p126f)
            continue;
        judged++;
        ck_assert_msg(fabsl(got - exact) <= step_at(exact, 23, -149) * 0.500000002L, "%s of %a, %a: %a", snippet,
                      (double)a, (double)b, (double)got);
    }
    ck_assert_uint_gt(judged, 40000);
}
END_TEST

/* Both halves of a pair, and single ones: every input. Relative bounds are for results that are normal numbers. */
START_TEST(half_approximations_keep_the_manuals_bounds) {
    static const struct {
        const char *single, *pair;
        const struct format *format;
        fine (*exact)(fine);
        char measure;
        double bound;
        bool flushes;
    } rows[] = {
        {"ex2.approx.f16 hd, ha;", "ex2.approx.f16x2 d, a;", &F16, exp2l, 'r', 0x1.125fbep-10, false},
        {"ex2.approx.ftz.bf16 hd, ha;", "ex2.approx.ftz.bf16x2 d, a;", &BF16, exp2l, 'r', 0x1p-7, true},
        {"tanh.approx.f16 hd, ha;", "tanh.approx.f16x2 d, a;", &F16, tanhl, 'a', 0x1.025135p-11, false},
        {"tanh.approx.bf16 hd, ha;", "tanh.approx.bf16x2 d, a;", &BF16, tanhl, 'a', 0x1p-8, false},
    };
    const struct format *f = rows[_i].format;
    fine least = magnitude_value(f, 1), normal = ldexpl(1, 1 - f->bias), top = magnitude_value(f, f->largest + 1);
    machine_with(fair(1, 8));
    for (int pair = 0; pair < 2; pair++) {
        const char *snippet = pair ? rows[_i].pair : rows[_i].single;
        for (uint32_t i = 0; i < CASES; i++)
            in[i].a = i | (uint64_t)(i * 40503u & 0xFFFF) << 16;
        evaluate(snippet, pair ? 'w' : 'h', in, out, CASES);
        for (uint32_t i = 0; i < 2 * CASES; i++) {
            unsigned shift = i & 1 ? 16 : 0;
            if (shift && !pair) continue;
            uint32_t bits = (uint32_t)(out[i / 2].d >> shift) & 0xFFFF;
            fine a = small_value(f, (uint32_t)(in[i / 2].a >> shift) & 0xFFFF), exact = rows[_i].exact(a);
            if (isnan(a) || exact >= top) {
                ck_assert_uint_eq(bits, isnan(a) ? f->nan : f->infinity);
                continue;
            }
            fine got = small_value(f, bits), error = fabsl(got - exact);
            if (rows[_i].flushes && fabsl(exact) < normal - least / 2) {
                ck_assert_uint_eq(bits, 0);
                continue;
            }
            fine bound = rows[_i].measure == 'a' ? rows[_i].bound : rows[_i].bound * exact;
            bool judged = rows[_i].measure == 'a' || exact >= normal;
            ck_assert_msg(error <= step_at(exact, f->fraction, ilogbl(least)) * 0.500001L &&
                              (!judged || error <= bound),
                          "%s of %La: %La is off by %Lg", snippet, a, got, error);
        }
    }
}
END_TEST

START_TEST(forms_that_do_not_exist_are_refused) {
    static const char *const forms[] = {"ex2.approx.ftz.f16x2 d, a;", "ex2.approx.bf16x2 d, a;",
                                        "add.ftz.bf16x2 d, a, b;",    "mul.sat.bf16x2 d, a, b;",
                                        "max.ftz.bf16x2 d, a, b;",    "tanh.approx.ftz.f32 d, a;"};
    char text[512];
    machine_with(fair(1, 1));
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        snprintf(text, sizeof text, PTX_HEAD ".visible .entry f(.param .u64 p) { .reg .b32 d, a, b; %s ret; }\n",
                 forms[i]);
        says(refusal(text), "is not supported in this form");
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_approx");
    TCase *tcase = tcase_create("approx");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, f32_approximations_keep_the_manuals_bounds, 0, 15);
    tcase_add_loop_test(tcase, corners_are_those_of_the_manuals_tables, 0, 8);
    tcase_add_loop_test(tcase, approximate_quotients_are_within_two_ulp, 0, 2);
    tcase_add_loop_test(tcase, half_approximations_keep_the_manuals_bounds, 0, 4);
    tcase_add_test(tcase, forms_that_do_not_exist_are_refused);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
