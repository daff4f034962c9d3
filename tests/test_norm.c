/* test_norm.c - query_norm: q_c bit for bit as the stated FP32 operation order gives it, in both forms, at every batch.
 * Judges: the replay of reference.h (independent of the templates) and FP64. May call: tests/exchange.h, the runtime.
 */
#include <tests/exchange.h>

#include <tools/numbers.h>
#include <tools/reference.h>

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PITCH = 1536 + 40, GUARD = 512, MOST_ROWS = 512 };
static const float eps = 1e-5f;

/* One device, rows of every scale, and the rows' places on it. */
struct norm_bench {
    dcpk_gen *gen;
    dcpk_device *device;
    void *stream;
    uint16_t *qkv, gamma[REF_Q_LORA], *got, *right;
    int32_t judged; /* rows of `right`: q_c as judged in this process, all of one form */
    uint64_t d_qkv, d_gamma, d_qc;
};

static struct norm_bench bench;

/* Row r: normal numbers scaled by 2^(r % 41 - 20); every seventh has one great value, every eleventh is zero, every
 * thirteenth holds a NaN or an infinity. */
static void make_rows(struct random *random) {
    for (int row = 0; row < MOST_ROWS; row++) {
        uint16_t *x = bench.qkv + (size_t)row * PITCH;
        for (int i = 0; i < PITCH; i++) {
            x[i] = i < REF_Q_LORA ? bf16_from_double(ldexp(random_normal(random), row % 41 - 20)) : 0x7FC0;
        }
        if (row % 7 == 3) {
            x[random_below(random, REF_Q_LORA)] = bf16_from_double(ldexp(3000, row % 41 - 20));
        }
        if (row % 11 == 5) {
            memset(x, 0, REF_Q_LORA * 2);
        }
        if (row % 13 == 9) {
            x[random_below(random, REF_Q_LORA)] = row % 2 ? 0x7FC0 : 0xFF80;
        }
    }
}

static void open_bench(void) {
    dcpk_error error;
    dcpk_device_options options = {.size = sizeof options, .kind = "cpu", .pdl = 1, .multicast = -1};
    dcpk_error_init(&error);
    bench.gen = exchange_gen(NULL);
    MUST(dcpk_device_open(&options, &bench.device, &error));
    MUST(dcpk_stream_create(bench.device, &bench.stream, &error));
    MUST(dcpk_mem_alloc(bench.device, (uint64_t)MOST_ROWS * PITCH * 2, &bench.d_qkv, &error));
    MUST(dcpk_mem_alloc(bench.device, sizeof bench.gamma, &bench.d_gamma, &error));
    MUST(dcpk_mem_alloc(bench.device, (uint64_t)MOST_ROWS * REF_Q_LORA * 2 + GUARD, &bench.d_qc, &error));
    MUST(dcpk_mem_write(bench.device, bench.d_qkv, bench.qkv, (uint64_t)MOST_ROWS * PITCH * 2, &error));
    MUST(dcpk_mem_write(bench.device, bench.d_gamma, bench.gamma, sizeof bench.gamma, &error));
}

/* Once, before the tests fork. */
static void make_inputs(void) {
    struct random random;
    random_seed(&random, 5);
    bench.qkv = malloc((size_t)MOST_ROWS * PITCH * 2);
    bench.got = malloc((size_t)MOST_ROWS * REF_Q_LORA * 2 + GUARD);
    bench.right = malloc((size_t)MOST_ROWS * REF_Q_LORA * 2);
    if (!bench.qkv || !bench.got || !bench.right) {
        abort();
    }
    make_rows(&random);
    for (int i = 0; i < REF_Q_LORA; i++) {
        bench.gamma[i] = bf16_from_double(1 + random_normal(&random) / 3);
    }
}

static void close_bench(void) {
    dcpk_device_close(bench.device);
    dcpk_gen_close(bench.gen);
}

static dcpk_kernel *load_norm(int32_t batch, int32_t tiled_from) {
    dcpk_error error;
    dcpk_spec spec;
    dcpk_image *image = NULL;
    dcpk_kernel *kernel = NULL;
    dcpk_error_init(&error);
    dcpk_spec_init(&spec, "query_norm");
    spec.heads = 12;
    spec.batch = batch;
    spec.tiled_from = tiled_from;
    MUST(dcpk_spec_resolve(&spec, &error));
    MUST(dcpk_gen_build(bench.gen, &spec, &image, NULL, &error));
    MUST(dcpk_kernel_load(bench.device, image, bench.stream, &kernel, &error));
    dcpk_image_free(image);
    return kernel;
}

/* Runs `batch` rows from row `first` on; afterwards bench.got holds q_c and the guard behind it. By name and value,
 * past the runtime's rules for arguments: an epsilon below zero is a test's business. */
static void launch_norm(const dcpk_kernel *kernel, int32_t first, int32_t batch, float epsilon) {
    dcpk_error error;
    dcpk_entry_info info = {.size = sizeof info};
    uint64_t bytes = (uint64_t)batch * REF_Q_LORA * 2 + GUARD, qkv = bench.d_qkv + (uint64_t)first * PITCH * 2;
    uint32_t pitch = PITCH;
    struct {
        const char *name;
        void *value;
    } known[] = {
        {"qkv", &qkv}, {"q_a_norm", &bench.d_gamma}, {"qc", &bench.d_qc}, {"pitch", &pitch}, {"eps", &epsilon}};
    void *params[DCPK_IMAGE_MAX_PARAMS] = {NULL};
    dcpk_error_init(&error);
    MUST(dcpk_image_entry(dcpk_kernel_image(kernel), 0, &info, &error));
    for (uint32_t i = 0; i < info.param_count; i++) {
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
            params[i] = strcmp(known[k].name, info.params[i].name) == 0 ? known[k].value : params[i];
        }
    }
    MUST(dcpk_mem_fill32(bench.device, bench.d_qc, 0xABCDABCDu, bytes / 4, &error));
    MUST(dcpk_kernel_launch_raw(kernel, 0, params, bench.stream, 0, &error));
    MUST(dcpk_stream_sync(bench.device, bench.stream, &error));
    MUST(dcpk_mem_read(bench.device, bench.got, bench.d_qc, bytes, &error));
}

static void run_norm(int32_t batch, int32_t tiled_from) {
    dcpk_kernel *kernel = load_norm(batch, tiled_from);
    launch_norm(kernel, 0, batch, eps);
    ck_assert_int_eq(dcpk_kernel_free(kernel, NULL), DCPK_OK);
}

/* One row of q_c against the replay of its form and FP64. */
static void judge_row(int32_t batch, int32_t row, enum reference_form form) {
    uint16_t want[REF_Q_LORA];
    const uint16_t *x = bench.qkv + (size_t)row * PITCH, *got = bench.got + (size_t)row * REF_Q_LORA;
    uint32_t differ = reference_norm_replay(form, x, bench.gamma, eps, 2, got);
    ck_assert_msg(differ == 0, "batch %d row %d: %u values differ from the %s order", batch, row, differ,
                  form == FORM_TILED ? "tiled" : "scalar");
    reference_norm(x, bench.gamma, (double)eps, want, NULL);
    for (int i = 0; i < REF_Q_LORA; i++) {
        ck_assert_msg(bf16_steps(got[i], want[i]) <= 1, "batch %d row %d column %d: %04x, FP64 says %04x", batch, row,
                      i, got[i], want[i]);
    }
}

/* bench.got after a launch of `batch` rows. Row r holds the same inputs at every batch and its bits may not depend on
 * its neighbours, so a row is judged once in a process; `bench.judged` rows must come out the same again. */
static void check_norm(int32_t batch, enum reference_form form) {
    const uint16_t *behind = bench.got + (size_t)batch * REF_Q_LORA;
    int32_t known = bench.judged < batch ? bench.judged : batch;
    for (int32_t row = 0; row < known; row++) {
        ck_assert_msg(
            memcmp(bench.got + (size_t)row * REF_Q_LORA, bench.right + (size_t)row * REF_Q_LORA, REF_Q_LORA * 2) == 0,
            "batch %d row %d: other bits than in another batch", batch, row);
    }
    for (int32_t row = known; row < batch; row++) {
        judge_row(batch, row, form);
    }
    if (batch > bench.judged) {
        memcpy(bench.right, bench.got, (size_t)batch * REF_Q_LORA * 2);
        bench.judged = batch;
    }
    for (int i = 0; i < GUARD / 2; i++) {
        ck_assert_msg(behind[i] == 0xABCD, "batch %d: something was written behind the last row", batch);
    }
}

/* Every batch 1..512: test i of PARTS takes each PARTS-th, the parts being about equally long. */
enum { PARTS = 16 };

START_TEST(norm_scalar_form_is_exact_at_every_batch) {
    for (int32_t batch = _i + 1; batch <= MOST_ROWS; batch += PARTS) {
        run_norm(batch, 513);
        check_norm(batch, FORM_SCALAR);
    }
}
END_TEST

START_TEST(norm_tiled_form_is_exact_at_every_batch) {
    for (int32_t batch = _i + 1; batch <= MOST_ROWS; batch += PARTS) {
        run_norm(batch, 1);
        check_norm(batch, FORM_TILED);
    }
}
END_TEST

START_TEST(norm_tiled_from_says_where_the_tiled_form_begins) {
    run_norm(15, 16);
    check_norm(15, FORM_SCALAR);
    bench.judged = 0;
    run_norm(16, 16);
    check_norm(16, FORM_TILED);
    run_norm(17, 17);
    check_norm(17, FORM_TILED);
    bench.judged = 0;
    run_norm(16, 17);
    check_norm(16, FORM_SCALAR);
}
END_TEST

/* The root forgives two steps of rsqrt.approx, and with them the last bits of the sum. So here eps cancels the mean but
 * for eight of its own steps: what is left, and with it the root, changes by tens of percent when the sum is off by one
 * step. */
START_TEST(norm_sums_in_the_stated_order_to_the_last_bit) {
    enum reference_form form = _i ? FORM_TILED : FORM_SCALAR, other = _i ? FORM_SCALAR : FORM_TILED;
    dcpk_kernel *kernel = load_norm(1, _i ? 1 : 513);
    uint32_t rows = 0, apart = 0;
    for (int32_t row = 0; row < 64; row++) {
        const uint16_t *x = bench.qkv + (size_t)row * PITCH;
        float total = reference_norm_total(form, x), mean = total * (1.0f / 1536.0f);
        if (!(mean > 0x1p-60f && mean < 0x1p60f)) {
            continue;
        }
        float epsilon = f32_step(mean, 8) - 2 * mean; /* exact: 8 steps - mean */
        launch_norm(kernel, row, 1, epsilon);
        ck_assert_msg(reference_norm_replay(form, x, bench.gamma, epsilon, 2, bench.got) == 0, "row %d: another order",
                      row);
        rows++;
        apart += total != reference_norm_total(other, x) &&
                 reference_norm_replay(other, x, bench.gamma, epsilon, 2, bench.got) > 100;
    }
    ck_assert_uint_gt(rows, 40);
    ck_assert_uint_gt(apart, 10); /* the other form's order would have failed above */
    ck_assert_int_eq(dcpk_kernel_free(kernel, NULL), DCPK_OK);
}
END_TEST

/* x * rr first: with x near 2^56 and gamma near 2^74 or 2^-74, x * gamma would overflow and rr * gamma lose its bits.
 */
START_TEST(norm_scales_in_the_stated_order) {
    dcpk_error error;
    struct random random;
    uint16_t x[2 * PITCH], want[REF_Q_LORA];
    dcpk_error_init(&error);
    random_seed(&random, 17);
    for (int i = 0; i < REF_Q_LORA; i++) {
        x[i] = x[PITCH + i] = bf16_from_double(ldexp(1 + random_uniform(&random), 56));
        bench.gamma[i] = bf16_from_double(ldexp(1 + random_uniform(&random), i % 2 ? 74 : -74));
    }
    MUST(dcpk_mem_write(bench.device, bench.d_qkv, x, sizeof x, &error));
    MUST(dcpk_mem_write(bench.device, bench.d_gamma, bench.gamma, sizeof bench.gamma, &error));
    run_norm(2, _i ? 1 : 513);
    reference_norm(x, bench.gamma, (double)eps, want, NULL);
    for (int row = 0; row < 2; row++) {
        const uint16_t *got = bench.got + row * REF_Q_LORA;
        ck_assert_uint_eq(reference_norm_replay(_i ? FORM_TILED : FORM_SCALAR, x, bench.gamma, eps, 2, got), 0);
        for (int i = 0; i < REF_Q_LORA; i++) {
            ck_assert_uint_le(bf16_steps(got[i], want[i]), 1);
        }
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("norm");
    TCase *tests = tcase_create("norm");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, open_bench, close_bench);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, norm_scalar_form_is_exact_at_every_batch, 0, PARTS);
    tcase_add_loop_test(tests, norm_tiled_form_is_exact_at_every_batch, 0, PARTS);
    tcase_add_test(tests, norm_tiled_from_says_where_the_tiled_form_begins);
    tcase_add_loop_test(tests, norm_sums_in_the_stated_order_to_the_last_bit, 0, 2);
    tcase_add_loop_test(tests, norm_scales_in_the_stated_order, 0, 2);
    make_inputs();
    int result = exchange_main(suite);
    free(bench.qkv);
    free(bench.got);
    free(bench.right);
    return result;
}
