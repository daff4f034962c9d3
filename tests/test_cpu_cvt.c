/* test_cpu_cvt.c - cvt against rounding by search: all inputs where there are 65536, spreads elsewhere; integers
 * against C. */
#include "tests/cpu_numbers.h"
#include "tests/cpu_snippet.h"

enum { CASES = 65536 };
static struct snippet_in in[CASES];
static struct snippet_out out[CASES];

static void each_is(const char *snippet, size_t i, uint64_t want) {
    ck_assert_msg(out[i].d == want, "%s of %016llx %016llx: %llx, not %llx", snippet, (unsigned long long)in[i].a,
                  (unsigned long long)in[i].b, (unsigned long long)out[i].d, (unsigned long long)want);
}

/* f32 inputs: every upper half, with lower halves that lie on, beside and between the halfway points */
static void fill_upper_halves(void) {
    static const uint32_t low[] = {0, 1, 0x7FFF, 0x8000, 0xFFFF, 0x1000, 0x0FFF, 0x8001};
    for (uint32_t i = 0; i < CASES; i++) {
        in[i].a = i << 16 | low[i * 5 % 8];
        in[i].b = (uint32_t)(i * 40503u) << 16 | low[i * 3 % 8];
    }
}

START_TEST(every_half_widens_to_its_value) {
    static const struct {
        const char *snippet;
        const struct format *format;
    } rows[] = {{"cvt.f32.f16 d, ha;", &F16}, {"cvt.f32.bf16 d, ha;", &BF16}};
    machine_with(fair(1, 8));
    for (uint32_t i = 0; i < CASES; i++)
        in[i].a = i;
    evaluate(rows[_i].snippet, 'w', in, out, CASES);
    for (uint32_t i = 0; i < CASES; i++) {
        float v = (float)small_value(rows[_i].format, i);
        bool canonical = isnan(v) && rows[_i].format == &F16; /* bf16 is moved up as it is */
        each_is(rows[_i].snippet, i, canonical ? 0x7FFFFFFF : isnan(v) ? (uint64_t)i << 16 : bits_of_float(v));
    }
}
END_TEST

START_TEST(every_pair_of_fp8_widens_to_its_values) {
    machine_with(fair(1, 8));
    for (uint32_t i = 0; i < CASES; i++)
        in[i].a = i;
    const struct format *f = _i ? &E5M2 : &E4M3;
    const char *snippet = _i ? "cvt.rn.f16x2.e5m2x2 d, ha;" : "cvt.rn.f16x2.e4m3x2 d, ha;";
    evaluate(snippet, 'w', in, out, CASES);
    for (uint32_t i = 0; i < CASES; i++) {
        double low = small_value(f, i & 255), high = small_value(f, i >> 8);
        each_is(snippet, i,
                small_rounded(&F16, low, signbit(low), 'n') | small_rounded(&F16, high, signbit(high), 'n') << 16);
    }
}
END_TEST

START_TEST(f32_narrows_to_the_nearest_and_saturates_where_asked) {
    static const struct {
        const char *snippet;
        const struct format *format;
        char kind, mode;
        bool pair, finite, relu;
    } rows[] = {{"cvt.rn.bf16.f32 hd, a;", &BF16, 'h', 'n', false, false, false},
                {"cvt.rz.bf16.f32 hd, a;", &BF16, 'h', 'z', false, false, false},
                {"cvt.rn.f16.f32 hd, a;", &F16, 'h', 'n', false, false, false},
                {"cvt.rz.f16.f32 hd, a;", &F16, 'h', 'z', false, false, false},
                {"cvt.rm.f16.f32 hd, a;", &F16, 'h', 'm', false, false, false},
                {"cvt.rp.f16.f32 hd, a;", &F16, 'h', 'p', false, false, false},
                {"cvt.rn.relu.bf16.f32 hd, a;", &BF16, 'h', 'n', false, false, true},
                {"cvt.rn.bf16x2.f32 d, a, b;", &BF16, 'w', 'n', true, false, false},
                {"cvt.rz.bf16x2.f32 d, a, b;", &BF16, 'w', 'z', true, false, false},
                {"cvt.rn.f16x2.f32 d, a, b;", &F16, 'w', 'n', true, false, false},
                {"cvt.rn.relu.f16x2.f32 d, a, b;", &F16, 'w', 'n', true, false, true},
                {"cvt.rn.satfinite.e4m3x2.f32 hd, a, b;", &E4M3, 'h', 'n', true, true, false},
                {"cvt.rn.satfinite.e5m2x2.f32 hd, a, b;", &E5M2, 'h', 'n', true, true, false},
                {"cvt.rn.satfinite.relu.e4m3x2.f32 hd, a, b;", &E4M3, 'h', 'n', true, true, true}};
    const struct format *f = rows[_i].format;
    machine_with(fair(1, 8));
    fill_upper_halves();
    evaluate(rows[_i].snippet, rows[_i].kind, in, out, CASES);
    for (size_t i = 0; i < CASES; i++) {
        uint32_t want = 0;
        for (int half = rows[_i].pair ? 0 : 1; half < 2; half++) { /* a is the upper half of a pair */
            double v = float_of_bits(half ? in[i].a : in[i].b);
            if (rows[_i].relu && v <= 0) v = 0;
            bool negative = signbit(v) && !isnan(v);
            uint32_t bits = rows[_i].finite ? small_saturated(f, v, negative, rows[_i].mode)
                                            : small_rounded(f, v, negative, rows[_i].mode);
            want = half && rows[_i].pair ? want | bits << (f->sign == 0x80 ? 8 : 16) : want | bits;
        }
        each_is(rows[_i].snippet, i, want);
    }
}
END_TEST

START_TEST(nan_of_either_sign_becomes_positive_nan_in_e4m3) {
    static const uint32_t nans[] = {0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001, 0xFFFFFFFF, 0x7FFFFFFF};
    machine_with(fair(1, 1));
    for (size_t i = 0; i < 6; i++)
        in[i] = (struct snippet_in){nans[i], 0xFF800000, 0, 0};
    evaluate("cvt.rn.satfinite.e4m3x2.f32 hd, a, b;", 'h', in, out, 6);
    for (size_t i = 0; i < 6; i++)
        ck_assert_int_eq((int)out[i].d, 0x7FFE); /* NaN above, -Inf below: never the byte 0xFF */
}
END_TEST

START_TEST(pairs_of_f16_narrow_to_fp8) {
    static const struct {
        const char *snippet;
        const struct format *format;
        bool relu;
    } rows[] = {{"cvt.rn.satfinite.e4m3x2.f16x2 hd, a;", &E4M3, false},
                {"cvt.rn.satfinite.e5m2x2.f16x2 hd, a;", &E5M2, false},
                {"cvt.rn.satfinite.relu.e4m3x2.f16x2 hd, a;", &E4M3, true}};
    machine_with(fair(1, 8));
    for (uint32_t i = 0; i < CASES; i++)
        in[i].a = i | (uint64_t)(i * 40503u & 0xFFFF) << 16;
    evaluate(rows[_i].snippet, 'h', in, out, CASES);
    for (uint32_t i = 0; i < CASES; i++) {
        uint32_t want = 0;
        for (int half = 0; half < 2; half++) {
            double v = small_value(&F16, (uint32_t)in[i].a >> 16 * half & 0xFFFF);
            if (rows[_i].relu && v <= 0) v = 0;
            want |= small_saturated(rows[_i].format, v, signbit(v) && !isnan(v), 'n') << 8 * half;
        }
        each_is(rows[_i].snippet, i, want);
    }
}
END_TEST

START_TEST(tf32_keeps_ten_bits) {
    machine_with(fair(1, 8));
    fill_upper_halves();
    evaluate("cvt.rna.tf32.f32 d, a;", 'w', in, out, CASES);
    for (size_t i = 0; i < CASES; i++) {
        float v = float_of_bits(in[i].a);
        uint32_t magnitude = in[i].a & 0x7FFFFFFF, kept = (magnitude + 0x1000) & 0xFFFFE000; /* nearest, ties away */
        if (!isnan(v) && magnitude < 0x7F7FF000) each_is("cvt.rna.tf32.f32", i, (in[i].a & 0x80000000) | kept);
    }
}
END_TEST

/* ---- integers and floats ---- */
static wide rounded_whole(wide v, char mode) {
    wide magnitude = v < 0 ? -v : v;
    if (magnitude > 0x1p70) return v;
    wide down = (wide)(__int128)v;
    if (down > v) down -= 1;
    wide rest = v - down;
    bool odd = (__int128)down & 1, up = mode == 'n'   ? rest > 0.5 || (rest == 0.5 && odd)
                                        : mode == 'z' ? v < 0 && rest > 0
                                        : mode == 'p' ? rest > 0
                                                      : false;
    return up ? down + 1 : down;
}

START_TEST(floats_become_integers_clamped) {
    static const struct {
        const char *name, *to;
        int bits;
        bool is_signed;
        char kind;
    } types[] = {{"s32", "d", 32, true, 'w'},  {"u32", "d", 32, false, 'w'}, {"s64", "D", 64, true, 'l'},
                 {"u64", "D", 64, false, 'l'}, {"s16", "hd", 16, true, 'h'}, {"u16", "hd", 16, false, 'h'},
                 {"u8", "hd", 8, false, 'h'},  {"s8", "d", 8, true, 'w'}};
    static const char modes[] = {'n', 'z', 'm', 'p'};
    char snippet[64];
    int type = _i % 8;
    char mode = modes[_i / 8];
    uint64_t seed = 21;
    machine_with(fair(1, 8));
    for (size_t i = 0; i < 4096; i++) {
        uint64_t r = next_random(&seed);
        in[i].a = i % 2 ? (r & 0x807FFFFF) | (115 + (r >> 40) % 80) << 23 : r >> 32;
        if (i % 5 == 0) in[i].a = bits_of_float((float)((int)(r % 600) - 300) / 2);
    }
    snprintf(snippet, sizeof snippet, "cvt.r%ci.%s.f32 %s, a;", mode, types[type].name, types[type].to);
    evaluate(snippet, types[type].kind, in, out, 4096);
    for (size_t i = 0; i < 4096; i++) {
        float v = float_of_bits(in[i].a);
        int bits = types[type].bits;
        wide most = (wide)(((unsigned __int128)1 << (types[type].is_signed ? bits - 1 : bits)) - 1),
             least = types[type].is_signed ? -most - 1 : 0;
        wide whole = isnan(v) ? 0 : rounded_whole(v, mode);
        whole = whole > most ? most : whole < least ? least : whole;
        uint64_t want = (uint64_t)(__int128)whole;
        if (isnan(v) && bits == 64) want = UINT64_C(1) << 63;
        want &= types[type].kind == 'w'   ? 0xFFFFFFFF
                : types[type].kind == 'h' ? 0xFFFF
                                          : ~UINT64_C(0); /* signed ones extend to the register */
        each_is(snippet, i, want);
    }
}
END_TEST

START_TEST(integers_become_the_nearest_float) {
    uint64_t seed = 23;
    static const char *const snippets[] = {"cvt.rn.f32.s32 d, a;", "cvt.rn.f32.u32 d, a;",  "cvt.rn.f32.s64 d, A;",
                                           "cvt.rz.f32.u64 d, A;", "cvt.rn.f16.s32 hd, a;", "cvt.rp.f32.s32 d, a;",
                                           "cvt.rn.f64.s64 D, A;", "cvt.rn.bf16.u64 hd, A;"};
    machine_with(fair(1, 8));
    for (size_t i = 0; i < 4096; i++)
        in[i].a = i < 3 ? i - 1 : next_random(&seed) >> (i % 64);
    evaluate(snippets[_i], _i == 6 ? 'l' : _i == 4 || _i == 7 ? 'h' : 'w', in, out, 4096);
    for (size_t i = 0; i < 4096; i++) {
        int64_t s = (int64_t)in[i].a;
        wide v = _i == 0 || _i == 4 || _i == 5 ? (wide)(int32_t)s
                 : _i == 1                     ? (wide)(uint32_t)s
                 : _i == 2 || _i == 6          ? (wide)s
                                               : (wide)in[i].a;
        const struct format *f = _i == 4 ? &F16 : _i == 7 ? &BF16 : &SINGLE;
        uint64_t want = _i == 6 ? bits_of_double((double)v)
                                : small_rounded(f, v, v < 0,
                                                _i == 3   ? 'z'
                                                : _i == 5 ? 'p'
                                                          : 'n');
        each_is(snippets[_i], i, want);
    }
}
END_TEST

START_TEST(integers_extend_truncate_and_saturate) {
    static const struct {
        const char *snippet;
        char kind;
    } rows[] = {{"cvt.u32.u8 d, a;", 'w'},      {"cvt.s32.s8 d, ha;", 'w'},      {"cvt.s64.s16 D, ha;", 'l'},
                {"cvt.u64.u8 D, ha;", 'l'},     {"cvt.u16.u32 hd, a;", 'h'},     {"cvt.s8.s32 d, a;", 'w'},
                {"cvt.sat.u8.s32 hd, a;", 'h'}, {"cvt.sat.s16.s64 hd, A;", 'h'}, {"cvt.sat.u32.s64 d, A;", 'w'},
                {"cvt.sat.s32.u32 d, a;", 'w'}, {"cvt.s64.s32 D, a;", 'l'},      {"cvt.u64.u32 D, a;", 'l'},
                {"cvt.u32.u64 d, A;", 'w'},     {"cvt.s32.s16 d, ha;", 'w'},     {"cvt.u32.u16 d, ha;", 'w'},
                {"cvt.u8.u32 hd, a;", 'h'}};
    uint64_t seed = 29;
    machine_with(fair(1, 8));
    for (size_t i = 0; i < 4096; i++)
        in[i].a = next_random(&seed) >> (i % 64) ^ (i % 3 ? 0 : ~UINT64_C(0));
    evaluate(rows[_i].snippet, rows[_i].kind, in, out, 4096);
    for (size_t i = 0; i < 4096; i++) {
        uint64_t a = in[i].a;
        int64_t s = (int64_t)a, w = (int32_t)a;
        uint32_t byte = (uint32_t)(int8_t)a, half = (uint32_t)(int16_t)a;
        uint64_t wants[] = {(uint8_t)a,
                            byte,
                            (uint64_t)(int16_t)a,
                            (uint8_t)a,
                            (uint16_t)a,
                            byte,
                            (uint64_t)(w < 0     ? 0
                                       : w > 255 ? 255
                                                 : w),
                            (uint16_t)(s > 32767    ? 32767
                                       : s < -32768 ? -32768
                                                    : s),
                            (uint64_t)(s < 0            ? 0
                                       : s > UINT32_MAX ? UINT32_MAX
                                                        : s),
                            (uint32_t)a > 0x7FFFFFFF ? 0x7FFFFFFF : (uint32_t)a,
                            (uint64_t)w,
                            (uint32_t)a,
                            (uint32_t)a,
                            half,
                            (uint16_t)a,
                            (uint8_t)a};
        each_is(rows[_i].snippet, i, wants[_i]);
    }
}
END_TEST

START_TEST(rounding_to_integral_floats_and_f64) {
    uint64_t seed = 31;
    machine_with(fair(1, 8));
    for (size_t i = 0; i < 4096; i++) {
        uint64_t r = next_random(&seed);
        in[i].a = i % 2 ? bits_of_float((float)((int)(r % 9999) - 5000) / 4) : r >> 32;
        in[i].b = (r & 0x800FFFFFFFFFFFFF) | (1023 - 160 + (r >> 40) % 300) << 52;
    }
    evaluate("cvt.rmi.f32.f32 d, a; cvt.rn.f32.f64 e, B;", 'w', in, out, 4096);
    for (size_t i = 0; i < 4096; i++) {
        float v = floorf(float_of_bits(in[i].a)), narrow = (float)double_of_bits(in[i].b);
        each_is("cvt.rmi.f32.f32", i, isnan(v) ? 0x7FFFFFFF : bits_of_float(v));
        ck_assert(out[i].e == bits_of_float(narrow));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_cvt");
    TCase *tcase = tcase_create("rows");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, every_half_widens_to_its_value, 0, 2);
    tcase_add_loop_test(tcase, every_pair_of_fp8_widens_to_its_values, 0, 2);
    tcase_add_loop_test(tcase, f32_narrows_to_the_nearest_and_saturates_where_asked, 0, 14);
    tcase_add_test(tcase, nan_of_either_sign_becomes_positive_nan_in_e4m3);
    tcase_add_loop_test(tcase, pairs_of_f16_narrow_to_fp8, 0, 3);
    tcase_add_test(tcase, tf32_keeps_ten_bits);
    tcase_add_loop_test(tcase, floats_become_integers_clamped, 0, 32);
    tcase_add_loop_test(tcase, integers_become_the_nearest_float, 0, 8);
    tcase_add_loop_test(tcase, integers_extend_truncate_and_saturate, 0, 16);
    tcase_add_test(tcase, rounding_to_integral_floats_and_f64);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
