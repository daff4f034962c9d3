/* test_cpu_wgmma.c - wgmma against double-precision products of the suite's own: types, shapes, layouts of descriptors,
 * fragments, chains, and where the bits go that Hopper's sums drop. */
#include "tests/cpu_numbers.h"
#include "tests/cpu_snippet.h"
#include "tests/wgmma_record.h"

static struct wgmma_data data;
static uint32_t out[WG_THREADS][WG_OUT];

static double number(const char *type, uint32_t bits) {
    if (!strncmp(type, "f16", 3)) return small_value(&F16, bits & 0xFFFF);
    if (!strncmp(type, "bf16", 4)) return small_value(&BF16, bits & 0xFFFF);
    if (!strncmp(type, "e4m3", 4)) return small_value(&E4M3, bits & 0xFF);
    if (!strncmp(type, "e5m2", 4)) return small_value(&E5M2, bits & 0xFF);
    if (!strncmp(type, "s32", 3)) return (int32_t)bits;
    if (!strncmp(type, "s8", 2)) return (int8_t)bits;
    if (!strncmp(type, "u8", 2)) return (uint8_t)bits;
    return (double)float_of_bits(bits);
}

static void run(const struct wgmma_case *c, dcpkcpu_options options) {
    static char text[WG_TEXT];
    machine_with(options);
    wgmma_kernel(c, text);
    cu_ptr image = words(WG_IMAGE / 4, 0), registers = words(WG_THREADS * WG_WORDS, 0),
           to = words(WG_THREADS * WG_OUT, 0), descriptors = words(4 * WG_STEPS, 0);
    OK(cpu_copy_to_device(image, data.image, sizeof data.image));
    OK(cpu_copy_to_device(registers, data.registers, sizeof data.registers));
    OK(cpu_copy_to_device(descriptors, data.descriptors, sizeof data.descriptors));
    void *parameters[] = {&image, &registers, &to, &descriptors};
    cu_function function = function_of_text(text, "f");
    OK(cpu_func_set_attribute(function, DRIVER_FUNC_MAX_DYNAMIC_SHARED, WG_IMAGE));
    OK(launch_with(function, 1, WG_THREADS, WG_IMAGE, NULL, false, parameters));
    OK(cpu_ctx_synchronize());
    OK(cpu_copy_to_host(out, to, sizeof out));
}

/* Each row's exact sums; what each step may lose: K + 2 times the last kept bit of the greatest of all. */
static void compare(const struct wgmma_case *c) {
    const char *a_type = strchr(c->types, '.') + 1, *b_type = strchr(a_type, '.') + 1;
    unsigned depth = wgmma_depth(c);
    bool eight = wgmma_bits(c) == 8, half = !strncmp(c->types, "f16", 3), whole = c->types[0] == 's';
    double sign = c->negate_a == c->negate_b ? 1 : -1;
    for (unsigned row = 0; row < WG_ROWS; row++)
        for (unsigned n = 0; n < c->columns; n++) {
            double sum = c->fresh ? 0 : number(c->types, data.d[row][n]), loss = 0;
            for (unsigned step = 0; step < c->steps * c->repeats; step++) {
                double greatest = fabs(sum);
                for (unsigned k = 0; k < depth; k++) {
                    double product =
                        number(a_type, data.a[step % c->steps][row][k]) * number(b_type, data.b[step % c->steps][n][k]);
                    greatest = fmax(greatest, 4 * fabs(product));
                    sum += sign * product;
                }
                greatest = fmax(greatest, fabs(sum));
                loss += whole ? 0 : (depth + 2) * ldexp(greatest, eight ? -13 : -25);
                loss += whole ? 0 : ldexp(fabs(sum) + loss, half ? -11 : eight ? -13 : -23);
            }
            uint32_t bits = wgmma_result(c, (const uint32_t(*)[WG_OUT])out, row, n);
            double got = number(c->types, bits);
            if (whole) sum = (double)(int32_t)(uint32_t)(int64_t)sum;
            ck_assert_msg(fabs(got - sum) <= loss, "%s n%u row %u column %u: %.9g, not %.9g +- %.3g", c->types,
                          c->columns, row, n, got, sum, loss);
        }
}

static const struct wgmma_case cases[] = {
    {"f32.e4m3.e4m3", 64, 4, 1, 128, 128, .contents = 'f'},
    {"f32.e4m3.e4m3", 16, 2, 1, 64, 64, .contents = 'f', .fresh = true},
    {"f32.e4m3.e5m2", 8, 1, 1, 0, 0, .contents = 'f'},
    {"f32.e5m2.e4m3", 48, 2, 1, 32, 32, .contents = 'f', .negate_a = true},
    {"f32.e5m2.e5m2", 96, 2, 1, 128, 32, .contents = 'f', .negate_b = true},
    {"f16.e4m3.e4m3", 24, 2, 1, 64, 128, .contents = 'f'},
    {"f16.e5m2.e4m3", 32, 1, 1, 0, 0, .contents = 'f', .registers = true},
    {"f32.e4m3.e4m3", 32, 3, 1, .swizzle_b = 64, .contents = 'f', .registers = true},
    {"f32.f16.f16", 64, 4, 1, 128, 128, .contents = 'f'},
    {"f32.f16.f16", 64, 2, 1, 128, 128, .trans_a = true, .trans_b = true, .contents = 'f'},
    {"f32.f16.f16", 256, 1, 1, 64, 64, .trans_b = true, .contents = 'f'},
    {"f32.bf16.bf16", 40, 2, 1, 32, 32, .trans_a = true, .trans_b = true, .contents = 'f', .fresh = true},
    {"f32.bf16.bf16", 128, 2, 1, 0, 0, .trans_a = true, .trans_b = true, .contents = 'f'},
    {"f32.bf16.bf16", 8, 2, 1, 128, 128, .trans_b = true, .contents = 'f', .registers = true},
    {"f32.bf16.bf16", 72, 2, 1, 0, 0, .contents = 'f', .negate_a = true, .negate_b = true},
    {"f16.f16.f16", 16, 2, 1, 64, 32, .trans_a = true, .contents = 'f', .negate_a = true},
    {"f32.f16.f16", 48, 2, 1, .swizzle_b = 128, .contents = 'f', .registers = true},
    {"f32.f16.f16", 16, 4, 50, 64, 64, .contents = 'f'},
    {"f32.e4m3.e4m3", 8, 4, 50, 128, 64, .contents = 'p'},
    /* swizzle patterns that begin where their base offset says; a leading offset that K-major swizzles do not use */
    {"f32.e4m3.e4m3", 8, 4, 1, 128, 128, .contents = 'f', .skew = 384, .base = 3},
    {"f32.f16.f16", 24, 2, 1, 128, 64, .contents = 'f', .trans_b = true, .skew = 640, .base = 5},
    {"f32.e4m3.e4m3", 64, 4, 1, 128, 128, .contents = 'f', .leading = 4096},
    {"s32.s8.s8", 32, 2, 1, 128, 128, .contents = 'r'},
    {"s32.u8.s8", 16, 1, 1, 64, 32, .contents = 'r', .fresh = true},
    {"s32.s8.u8", 224, 1, 1, 0, 0, .contents = 'r'},
    {"s32.u8.u8", 8, 2, 1, .swizzle_b = 32, .contents = 'r', .registers = true},
};

START_TEST(a_product_is_that_of_its_operands_by_the_manuals_layouts) {
    wgmma_fill(&cases[_i], 1000 + (uint64_t)_i, &data);
    run(&cases[_i], fair(1, 1));
    compare(&cases[_i]);
}
END_TEST

START_TEST(a_late_result_is_the_same_under_every_seed) {
    static const int which[] = {1, 7, 9, 17};
    static uint32_t first[WG_THREADS][WG_OUT];
    const struct wgmma_case *c = &cases[which[_i]];
    wgmma_fill(c, 5, &data);
    run(c, fair(1, 1));
    memcpy(first, out, sizeof out);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        run(c, adverse(1, 1, seed));
        ck_assert_mem_eq(first, out, sizeof out);
    }
}
END_TEST

/* ---- bits that are dropped: e4m3, one row of A and one column of B by hand ---- */
enum { ONE = 0x38, SMALLEST_NORMAL = 0x08 /* 2^-6 */, HALF = 0x30, LEAST = 0x01 /* 2^-9 */ };

/* d of row 0 and column 0: c + a[0] b[0] + a[1] b[1], `times` over. */
static uint32_t by_hand(const char *types, uint32_t c, const uint8_t a[2], const uint8_t b[2], unsigned times) {
    struct wgmma_case one = {types, 8, 1, times, 0, 0, .contents = 'f'};
    memset(&data, 0, sizeof data);
    struct wgmma_layout la = wgmma_layout_of(WG_ROWS, 0, false, 1), lb = wgmma_layout_of(8, 0, false, 1);
    for (unsigned k = 0; k < 2; k++) {
        data.image[wgmma_byte(&la, false, 8, 0, 0, k)] = a[k];
        data.image[4096 + wgmma_byte(&lb, false, 8, 0, 0, k)] = b[k];
    }
    data.descriptors[0] = wgmma_descriptor(&la, 0, 0);
    data.descriptors[1] = wgmma_descriptor(&lb, 4096, 0);
    data.registers[0][4] = c;
    run(&one, fair(1, 1));
    return out[0][0];
}

START_TEST(sums_of_8_bit_products_keep_13_bits_below_the_greatest) {
    static const struct {
        const char *types;
        float c;
        uint8_t a[2], b[2];
        unsigned times;
        float want;
    } rows[] = {
        {"f32.e4m3.e4m3", 1, {SMALLEST_NORMAL, 0}, {0x01 << 3, 0}, 1, 1 + 0x1p-12f},  /* 2^-12 is kept */
        {"f32.e4m3.e4m3", 1, {SMALLEST_NORMAL, 0}, {0x04, 0}, 1, 1 + 0x1p-13f},       /* 2^-6 2^-7: the last bit */
        {"f32.e4m3.e4m3", 1, {SMALLEST_NORMAL, 0}, {0x02, 0}, 1, 1},                  /* 2^-14: lost */
        {"f32.e4m3.e4m3", 1, {SMALLEST_NORMAL, 0}, {0x02, 0}, 1000, 1},               /* however often */
        {"f32.e4m3.e4m3", 1, {SMALLEST_NORMAL, SMALLEST_NORMAL}, {0x02, 0x02}, 1, 1}, /* each for itself */
        {"f32.e4m3.e4m3", -1, {SMALLEST_NORMAL, 0}, {0x02, 0}, 1, -1},                /* towards zero */
        {"f32.e4m3.e4m3", 0, {SMALLEST_NORMAL, LEAST}, {0x02, LEAST}, 1, 0x1p-14f + 0x1p-18f}, /* among its like */
        {"f32.e4m3.e4m3", 1 + 0x1p-20f, {ONE, 0}, {0, 0}, 1, 1}, /* the accumulator's own, too */
        {"f32.e4m3.e4m3", 2, {ONE, 0}, {0x80 | ONE, 0}, 1, 1},
        {"f32.e4m3.e4m3", 16384, {ONE, 0}, {ONE, 0}, 1, 16384}, /* 2^14 and 1 */
        {"f32.e4m3.e4m3", 8192, {ONE, 0}, {ONE, 0}, 1, 8193},
        {"f32.e4m3.e4m3", 8191.5f, {HALF, 0}, {ONE, 0}, 1, 8192},
    };
    float got = float_of_bits(
        by_hand(rows[_i].types, (uint32_t)bits_of_float(rows[_i].c), rows[_i].a, rows[_i].b, rows[_i].times));
    ck_assert_msg(got == rows[_i].want, "row %d: %.10g, not %.10g", _i, (double)got, (double)rows[_i].want);
}
END_TEST

/* ---- hardware ---- */
START_TEST(what_hardware_gave_is_what_the_device_gives) {
    static char line[WG_KEPT * 9 + 256];
    static uint32_t results[WG_ROWS * 256];
    const struct wgmma_case *c = &wgmma_recorded[_i];
    FILE *file = fopen("tests/golden/wgmma_h200.txt", "r");
    char name[WG_NAME];
    wgmma_name(c, name);
    if (!file) {
        if (_i == 0) printf("skipped: no tests/golden/wgmma_h200.txt\n");
        return;
    }
    bool found = false;
    while (!found && fgets(line, sizeof line, file))
        found = strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ' ';
    fclose(file);
    ck_assert_msg(found, "%s is not in the record", name);
    wgmma_fill(c, wgmma_seed((unsigned)_i), &data);
    run(c, fair(1, 1));
    uint64_t hash = wgmma_gather(c, (const uint32_t(*)[WG_OUT])out, results);
    char *at = line + strlen(name);
    uint64_t want = strtoull(at, &at, 16);
    for (unsigned i = 0; i < WG_ROWS * c->columns && *at == ' '; i++) {
        uint32_t word = (uint32_t)strtoull(at, &at, 16);
        ck_assert_msg(results[i] == word, "%s: row %u column %u: %x, not %x", name, i / c->columns, i % c->columns,
                      results[i], word);
    }
    ck_assert_msg(hash == want, "%s: the results are others", name);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_wgmma");
    TCase *tcase = tcase_create("products");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_product_is_that_of_its_operands_by_the_manuals_layouts, 0,
                        sizeof cases / sizeof cases[0]);
    tcase_add_loop_test(tcase, a_late_result_is_the_same_under_every_seed, 0, 4);
    tcase_add_loop_test(tcase, sums_of_8_bit_products_keep_13_bits_below_the_greatest, 0, 12);
    tcase_add_loop_test(tcase, what_hardware_gave_is_what_the_device_gives, 0, WG_RECORDED);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
