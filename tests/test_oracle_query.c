/* test_oracle_query.c - query_oracle (CUDA C++) against the FP64 reference on the CPU device: query rows and KV rows.
 * Needs NVRTC and ptxas; without them it says what it skips. */
#include "tests/compilers.h"
#include "tests/exchange.h"
#include "tests/fake_open.h"

#include <tools/numbers.h>
#include <tools/reference_layer.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOKEN = 576,
    PAGES = 4,
    PAGE = 16,
    STRIDE = PAGE * TOKEN + 32,
    CACHE = PAGES * STRIDE,
    PAD = 0xA5,
    BUFFERS = 12
};

static const struct shape {
    const char *keys;
    enum reference_rope rope;
    int32_t heads, batch, q_lora;
    double q_scale, k_scale;
} shapes[] = {
    {"q_lora=1536 rope=none", ROPE_NONE, 2, 3, 1536, 1, 1},
    {"q_lora=1536 rope=interleaved", ROPE_INTERLEAVED, 1, 4, 1536, 0.5, 2},
    {"q_lora=0 rope=half", ROPE_HALF, 3, 5, 0, 4, 0.25},
};

static dcpk_error error;

static struct bench {
    dcpk_device *device;
    dcpk_gen *gen;
    void *stream;
    uint64_t buffers[BUFFERS];
    void *texts[BUFFERS];
    size_t count;
} bench;

static void open_bench(void) {
    dcpk_device_options options = {.size = sizeof options, .kind = "cpu", .pdl = 1, .multicast = -1};
    bench.gen = exchange_gen(NULL);
    MUST(dcpk_device_open(&options, &bench.device, &error));
    MUST(dcpk_stream_create(bench.device, &bench.stream, &error));
}

static void close_bench(void) {
    while (bench.count > 0) {
        MUST(dcpk_mem_free(bench.device, bench.buffers[--bench.count], &error));
        free(bench.texts[bench.count]);
    }
    MUST(dcpk_stream_destroy(bench.device, bench.stream, &error));
    dcpk_device_close(bench.device);
    dcpk_gen_close(bench.gen);
}

/* Owned by the bench from here on. */
static uint64_t upload(void *bytes, size_t length) {
    uint64_t address;
    ck_assert_uint_lt(bench.count, BUFFERS);
    MUST(dcpk_mem_alloc(bench.device, length, &address, &error));
    MUST(dcpk_mem_write(bench.device, address, bytes, length, &error));
    bench.texts[bench.count] = bytes;
    bench.buffers[bench.count++] = address;
    return address;
}

static uint16_t *normals(struct random *random, size_t count, double scale) {
    uint16_t *x = malloc(count * 2);
    for (size_t i = 0; i < count; i++)
        x[i] = bf16_from_double(random_normal(random) * scale);
    return x;
}

static float *angles(struct random *random, size_t rows) {
    float *x = malloc(rows * 64 * sizeof *x);
    for (size_t i = 0; i < rows * 32; i++) {
        double angle = random_uniform(random) * 6.28;
        x[i / 32 * 64 + i % 32] = (float)cos(angle);
        x[i / 32 * 64 + 32 + i % 32] = (float)sin(angle);
    }
    return x;
}

/* Bytes that are not the reference's: at most one e4m3 step off, or by less than a step at 1/32 of the row's RMS (sums
 * that all but cancel), and no more than 1 in 200: FP32 sums leave few others. */
static void judge(const char *what, const uint8_t *got, const uint8_t *wanted, size_t rows) {
    size_t apart = 0;
    for (size_t i = 0; i < rows * TOKEN; i++) {
        double square = 0;
        for (size_t k = i / TOKEN * TOKEN; k < (i / TOKEN + 1) * TOKEN && got[i] != wanted[i]; k++)
            square += isnan(e4m3_to_double(wanted[k])) ? 0 : pow(e4m3_to_double(wanted[k]), 2);
        uint8_t small = e4m3_from_double(sqrt(square / TOKEN) / 32);
        double step = e4m3_to_double((uint8_t)(small + 1)) - e4m3_to_double(small);
        bool fits =
            e4m3_steps(got[i], wanted[i]) <= 1 || fabs(e4m3_to_double(got[i]) - e4m3_to_double(wanted[i])) < step;
        ck_assert_msg(fits, "%s: byte %zu is %02x instead of %02x", what, i, got[i], wanted[i]);
        apart += e4m3_steps(got[i], wanted[i]) > 0;
    }
    ck_assert_msg(apart * 200 <= rows * TOKEN, "%s: %zu of %zu bytes differ", what, apart, rows * TOKEN);
}

static void judge_cache(const uint8_t *cache, const uint8_t *rows, const int64_t *slots, size_t batch) {
    uint8_t *wanted = malloc(CACHE);
    memset(wanted, PAD, CACHE);
    for (size_t b = 0; b < batch; b++) {
        if (slots[b] < 0) continue;
        size_t at = (size_t)slots[b] / PAGE * STRIDE + (size_t)slots[b] % PAGE * TOKEN;
        judge("KV row", cache + at, rows + b * TOKEN, 1);
        memcpy(wanted + at, cache + at, TOKEN);
    }
    ck_assert_msg(memcmp(wanted, cache, CACHE) == 0, "bytes outside the slots were written");
    free(wanted);
}

static void launch(const struct shape *shape, const dcpk_args *args) {
    dcpk_spec spec;
    dcpk_image *image;
    dcpk_kernel *kernel;
    char text[160];
    snprintf(text, sizeof text, "query_oracle heads=%d batch=%d page=%d %s", shape->heads, shape->batch, PAGE,
             shape->keys);
    MUST(dcpk_spec_parse(&spec, text, &error));
    MUST(dcpk_spec_resolve(&spec, &error));
    MUST(dcpk_gen_build(bench.gen, &spec, &image, NULL, &error));
    MUST(dcpk_kernel_load(bench.device, image, NULL, &kernel, &error));
    for (uint32_t entry = 0; entry < 2; entry++)
        MUST(dcpk_kernel_launch(kernel, entry, args, NULL, bench.stream, entry == 0 ? DCPK_LAUNCH_FIRST : 0, &error));
    MUST(dcpk_stream_sync(bench.device, bench.stream, &error));
    MUST(dcpk_kernel_free(kernel, &error));
    dcpk_image_free(image);
}

START_TEST(query_oracle_is_right_with_every_rotation) {
    const struct shape *shape = &shapes[_i];
    struct random random;
    size_t batch = (size_t)shape->batch, heads = (size_t)shape->heads, pitch = (size_t)shape->q_lora + 576 + 8;
    dcpk_error_init(&error);
    random_seed(&random, 77 + (uint64_t)_i);
    uint16_t *qkv = normals(&random, batch * pitch, 1.5), *q_a_norm = normals(&random, REF_Q_LORA, 1);
    uint16_t *kv_a_norm = normals(&random, REF_LATENT, 1), *kv_b = normals(&random, heads * REF_HEAD_WEIGHTS, 0.1);
    uint16_t *w_q_b = normals(&random, heads * 192 * REF_Q_LORA, 0.03), *qf = normals(&random, batch * heads * 192, 1);
    float *cos_sin = angles(&random, batch);
    int64_t *slots = malloc(batch * sizeof *slots);
    uint8_t *cache = malloc(CACHE), *query = calloc(batch * heads, TOKEN);
    uint8_t *wanted = malloc(batch * heads * TOKEN), *kv = malloc(batch * TOKEN);
    memset(cache, PAD, CACHE);
    for (size_t b = 0; b < batch; b++)
        slots[b] = b % 3 == 1 ? -1 : (int64_t)(b * 13 % (PAGES * PAGE));
    qkv[(size_t)shape->q_lora + 3] = 0x7FC0; /* a NaN in the first row's kv_c: byte 0 in the cache */
    struct reference_query in = {.heads = shape->heads,
                                 .batch = shape->batch,
                                 .q_lora = shape->q_lora,
                                 .qkv = qkv,
                                 .pitch = pitch,
                                 .q_a_norm = q_a_norm,
                                 .kv_a_norm = kv_a_norm,
                                 .w_q_b = w_q_b,
                                 .qf = qf,
                                 .kv_b = kv_b,
                                 .cos_sin = cos_sin,
                                 .rope = shape->rope,
                                 .eps = (double)1e-5f,
                                 .q_scale_inv = shape->q_scale,
                                 .k_scale_inv = shape->k_scale};
    reference_query(&in, wanted, kv);
    open_bench();
    dcpk_args args = {.size = sizeof args,
                      .qkv = upload(qkv, batch * pitch * 2),
                      .q_a_norm = upload(q_a_norm, REF_Q_LORA * 2),
                      .kv_a_norm = upload(kv_a_norm, REF_LATENT * 2),
                      .w_q_b = upload(w_q_b, heads * 192 * REF_Q_LORA * 2),
                      .qf = upload(qf, batch * heads * 384),
                      .kv_b = upload(kv_b, heads * REF_HEAD_WEIGHTS * 2),
                      .cos_sin = upload(cos_sin, batch * 256),
                      .slots = upload(slots, batch * 8),
                      .kv_cache = upload(cache, CACHE),
                      .query = upload(query, batch * heads * TOKEN),
                      .pitch = (uint32_t)pitch,
                      .page_stride = STRIDE,
                      .eps = 1e-5f,
                      .q_scale_inv = (float)shape->q_scale,
                      .k_scale_inv = (float)shape->k_scale};
    launch(shape, &args);
    MUST(dcpk_mem_read(bench.device, query, args.query, batch * heads * TOKEN, &error));
    MUST(dcpk_mem_read(bench.device, cache, args.kv_cache, CACHE, &error));
    judge("query", query, wanted, batch * heads);
    judge_cache(cache, kv, slots, batch);
    free(wanted), free(kv);
    close_bench();
}
END_TEST

START_TEST(query_oracle_says_which_key_it_needs) {
    dcpk_spec spec;
    dcpk_text ptx;
    dcpk_error_init(&error);
    setenv("DCPK_NVRTC", fake_driver_path(), 1); /* any that opens: nothing gets so far */
    dcpk_gen *gen = exchange_gen(NULL);
    MUST(dcpk_spec_parse(&spec, "query_oracle heads=1 batch=1 page=64 rope=none", &error));
    ck_assert_int_eq(dcpk_gen_expand(gen, &spec, &ptx, &error), DCPK_E_SPEC);
    ck_assert_msg(strstr(error.text, "query_oracle: the template needs q_lora, which the spec does not set"), "%s",
                  error.text);
    dcpk_gen_close(gen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("oracle_query");
    TCase *tc = tcase_create("oracle_query");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, query_oracle_says_which_key_it_needs);
    if (have_nvrtc("all but one test of test_oracle_query") && have_ptxas())
        tcase_add_loop_test(tc, query_oracle_is_right_with_every_rotation, 0, (int)(sizeof shapes / sizeof shapes[0]));
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
