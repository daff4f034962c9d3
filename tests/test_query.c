/* test_query.c - mla_query at dcp = 1 against the FP64 reference: query rows, KV rows at their slots, q_c.
 * Judges: tools/reference_layer.h, and query_norm for the bits of q_c. May call: tests/exchange.h, the runtime. */
#include <tests/exchange.h>

#include <tools/numbers.h>
#include <tools/reference_layer.h>

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN = 576, PAGES = 8, PAD = 0xA5 };

struct shape {
    const char *keys;
    double q_scale, k_scale;
};

static const struct shape shapes[] = {
    {"heads=1 batch=1", 1, 1},
    {"heads=2 batch=5 store_qc=1", 0.5, 2},
    {"heads=3 batch=17 store_qc=1 page=16", 1, 1},
    {"heads=2 batch=18 rope=interleaved page=32", 4, 0.25},
    {"heads=2 batch=9 rope=half tiled_from=1 store_qc=1", 1, 1},
    {"heads=3 batch=20 q_lora=0 rope=half", 1, 1},
    {"heads=2 batch=6 q=2 q_lora=0 rope=interleaved", 1, 1},
};

struct run {
    dcpk_spec spec;
    size_t batch, heads, pitch, stride;
    uint16_t *qkv, *q_a_norm, *kv_a_norm, *w_q_b, *kv_b, *qf;
    float *cos_sin;
    int64_t *slots;
};

static uint16_t *normals(struct random *random, size_t count, double scale) {
    uint16_t *x = malloc(count * 2 + 2);
    for (size_t i = 0; i < count; i++)
        x[i] = bf16_from_double(random_normal(random) * scale);
    return x;
}

static void make(struct run *run, struct random *random) {
    const dcpk_spec *spec = &run->spec;
    run->batch = (size_t)spec->batch;
    run->heads = (size_t)spec->heads;
    run->pitch = (size_t)spec->q_lora + 576 + run->heads * 128 + 8;
    run->stride = (size_t)spec->page * TOKEN + 32;
    run->qkv = normals(random, run->batch * run->pitch, 1.5);
    run->q_a_norm = normals(random, REF_Q_LORA, 1);
    run->kv_a_norm = normals(random, REF_LATENT, 1);
    run->w_q_b = normals(random, run->heads * 192 * REF_Q_LORA, 0.03);
    run->kv_b = normals(random, run->heads * REF_HEAD_WEIGHTS, 0.1);
    run->qf = normals(random, run->batch * run->heads * 192, 1);
    run->cos_sin = malloc(run->batch * 64 * sizeof(float));
    run->slots = malloc(run->batch * sizeof(int64_t));
    for (size_t b = 0; b < run->batch; b++) {
        for (int i = 0; i < 32; i++) {
            double angle = random_uniform(random) * 6.28;
            run->cos_sin[b * 64 + (size_t)i] = (float)cos(angle);
            run->cos_sin[b * 64 + 32 + (size_t)i] = (float)sin(angle);
        }
        run->slots[b] = b % 3 == 1 ? -1 : (int64_t)(b * 5 % ((size_t)spec->page * PAGES));
    }
    run->qkv[(size_t)spec->q_lora + 3] = 0x7FC0; /* a NaN in the first row's kv_c: byte 0 in the cache */
}

static void done(struct run *run) {
    free(run->qkv), free(run->q_a_norm), free(run->kv_a_norm), free(run->w_q_b), free(run->kv_b), free(run->qf);
    free(run->cos_sin), free(run->slots);
}

enum { BUFFERS = 16 };

struct bench {
    dcpk_device *device;
    dcpk_gen *gen;
    void *stream;
    uint64_t buffers[BUFFERS]; /* freed by close_bench */
    size_t count;
};

static void open_bench(struct bench *bench) {
    dcpk_error error;
    dcpk_error_init(&error);
    *bench = (struct bench){.gen = exchange_gen(NULL)};
    dcpk_device_options options = {.size = sizeof options, .kind = "cpu", .pdl = 1, .multicast = -1};
    MUST(dcpk_device_open(&options, &bench->device, &error));
    MUST(dcpk_stream_create(bench->device, &bench->stream, &error));
}

static void close_bench(struct bench *bench) {
    dcpk_error error;
    dcpk_error_init(&error);
    while (bench->count > 0)
        MUST(dcpk_mem_free(bench->device, bench->buffers[--bench->count], &error));
    MUST(dcpk_stream_destroy(bench->device, bench->stream, &error));
    dcpk_device_close(bench->device);
    dcpk_gen_close(bench->gen);
}

static uint64_t upload(struct bench *bench, const void *bytes, size_t length) {
    uint64_t address;
    dcpk_error error;
    dcpk_error_init(&error);
    ck_assert_uint_lt(bench->count, BUFFERS);
    MUST(dcpk_mem_alloc(bench->device, length, &address, &error));
    bench->buffers[bench->count++] = address;
    if (bytes) MUST(dcpk_mem_write(bench->device, address, bytes, length, &error));
    return address;
}

static void run_kernel(const struct bench *bench, const dcpk_spec *spec, const dcpk_args *args) {
    dcpk_error error;
    dcpk_image *image;
    dcpk_kernel *kernel;
    dcpk_error_init(&error);
    MUST(dcpk_gen_build(bench->gen, spec, &image, NULL, &error));
    MUST(dcpk_kernel_load(bench->device, image, NULL, &kernel, &error));
    MUST(dcpk_kernel_launch(kernel, 0, args, NULL, bench->stream, DCPK_LAUNCH_FIRST, &error));
    MUST(dcpk_stream_sync(bench->device, bench->stream, &error));
    MUST(dcpk_kernel_free(kernel, &error));
    dcpk_image_free(image);
}

/* Rows of 576: each byte at most one e4m3 step from the reference's, the step taken at no less than 1/32 of the row's
 * RMS (a value that all but cancels moves further when FP32 and FP64 round one of its BF16 terms apart); equal in 99 of
 * 100. */
static void judge(const char *what, const uint8_t *got, const uint8_t *wanted, size_t rows) {
    size_t apart = 0;
    for (size_t row = 0; row < rows; row++) {
        const uint8_t *g = got + row * TOKEN, *w = wanted + row * TOKEN;
        double square = 0;
        for (int i = 0; i < TOKEN; i++)
            square += isnan(e4m3_to_double(w[i])) ? 0 : pow(e4m3_to_double(w[i]), 2);
        uint8_t floor_byte = e4m3_from_double(sqrt(square / TOKEN) / 32);
        double floor_step = e4m3_to_double((uint8_t)(floor_byte + 1)) - e4m3_to_double(floor_byte);
        for (int i = 0; i < TOKEN; i++) {
            bool fits = e4m3_steps(g[i], w[i]) <= 1 || fabs(e4m3_to_double(g[i]) - e4m3_to_double(w[i])) <= floor_step;
            ck_assert_msg(fits, "%s: row %zu byte %d is %02x instead of %02x", what, row, i, g[i], w[i]);
            apart += e4m3_steps(g[i], w[i]) > 0;
        }
    }
    ck_assert_msg(apart * 100 <= rows * TOKEN, "%s: %zu of %zu bytes differ", what, apart, rows * TOKEN);
}

static void judge_cache(const struct run *run, const uint8_t *cache, const uint8_t *rows) {
    size_t bytes = PAGES * run->stride;
    uint8_t *wanted = malloc(bytes);
    memset(wanted, PAD, bytes);
    for (size_t b = 0; b < run->batch; b++) {
        if (run->slots[b] < 0) continue;
        size_t page = (size_t)run->slots[b] / (size_t)run->spec.page,
               inside = (size_t)run->slots[b] % (size_t)run->spec.page;
        size_t at = page * run->stride + inside * TOKEN;
        judge("KV row", cache + at, rows + b * TOKEN, 1);
        memcpy(wanted + at, cache + at, TOKEN);
    }
    ck_assert_msg(memcmp(wanted, cache, bytes) == 0, "bytes outside the slots were written");
    free(wanted);
}

static void judge_qc(struct bench *bench, const struct run *run, dcpk_args args, const uint16_t *qc) {
    dcpk_error error;
    dcpk_spec spec;
    dcpk_error_init(&error);
    dcpk_spec_init(&spec, "query_norm");
    spec.heads = run->spec.heads, spec.batch = run->spec.batch, spec.tiled_from = run->spec.tiled_from;
    MUST(dcpk_spec_resolve(&spec, &error));
    size_t bytes = run->batch * REF_Q_LORA * 2;
    uint16_t *wanted = malloc(bytes);
    args.qc = upload(bench, NULL, bytes);
    run_kernel(bench, &spec, &args);
    MUST(dcpk_mem_read(bench->device, wanted, args.qc, bytes, &error));
    ck_assert_msg(memcmp(wanted, qc, bytes) == 0, "q_c differs from query_norm's");
    free(wanted);
}

START_TEST(query_is_right_at_dcp_1) {
    const struct shape *shape = &shapes[_i];
    struct run run;
    struct random random;
    char text[128];
    dcpk_error error;
    dcpk_error_init(&error);
    random_seed(&random, 5 + (uint64_t)_i);
    snprintf(text, sizeof text, "mla_query %s", shape->keys);
    MUST(dcpk_spec_parse(&run.spec, text, &error));
    MUST(dcpk_spec_resolve(&run.spec, &error));
    make(&run, &random);
    struct bench bench;
    open_bench(&bench);
    size_t bytes = run.batch * run.heads * TOKEN;
    uint8_t *query = malloc(bytes), *wanted = malloc(bytes), *kv = malloc(run.batch * TOKEN),
            *cache = malloc(PAGES * run.stride);
    uint16_t *qc = malloc(run.batch * REF_Q_LORA * 2);
    memset(cache, PAD, PAGES * run.stride);
    dcpk_args args = {.size = sizeof args,
                      .pitch = (uint32_t)run.pitch,
                      .eps = 1e-5f,
                      .page_stride = run.stride,
                      .q_scale_inv = (float)shape->q_scale,
                      .k_scale_inv = (float)shape->k_scale};
    args.qkv = upload(&bench, run.qkv, run.batch * run.pitch * 2);
    args.q_a_norm = upload(&bench, run.q_a_norm, REF_Q_LORA * 2);
    args.kv_a_norm = upload(&bench, run.kv_a_norm, REF_LATENT * 2);
    args.w_q_b = upload(&bench, run.w_q_b, run.heads * 192 * REF_Q_LORA * 2);
    args.kv_b = upload(&bench, run.kv_b, run.heads * REF_HEAD_WEIGHTS * 2);
    args.qf = upload(&bench, run.qf, run.batch * run.heads * 192 * 2);
    args.cos_sin = upload(&bench, run.cos_sin, run.batch * 256);
    args.slots = upload(&bench, run.slots, run.batch * 8);
    args.kv_cache = upload(&bench, cache, PAGES * run.stride);
    args.query = upload(&bench, NULL, bytes);
    args.qc = upload(&bench, NULL, run.batch * REF_Q_LORA * 2);
    run_kernel(&bench, &run.spec, &args);
    MUST(dcpk_mem_read(bench.device, query, args.query, bytes, &error));
    MUST(dcpk_mem_read(bench.device, cache, args.kv_cache, PAGES * run.stride, &error));
    MUST(dcpk_mem_read(bench.device, qc, args.qc, run.batch * REF_Q_LORA * 2, &error));
    struct reference_query in = {.heads = run.spec.heads,
                                 .batch = run.spec.batch,
                                 .q_lora = run.spec.q_lora,
                                 .qkv = run.qkv,
                                 .pitch = run.pitch,
                                 .q_a_norm = run.q_a_norm,
                                 .kv_a_norm = run.kv_a_norm,
                                 .w_q_b = run.w_q_b,
                                 .qf = run.qf,
                                 .kv_b = run.kv_b,
                                 .cos_sin = run.cos_sin,
                                 .rope = (enum reference_rope)run.spec.rope,
                                 .eps = (double)1e-5f,
                                 .q_scale_inv = shape->q_scale,
                                 .k_scale_inv = shape->k_scale};
    reference_query(&in, wanted, kv);
    judge("query", query, wanted, bytes / TOKEN);
    judge_cache(&run, cache, kv);
    if (run.spec.store_qc) judge_qc(&bench, &run, args, qc);
    close_bench(&bench);
    free(query), free(wanted), free(kv), free(cache), free(qc);
    done(&run);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("query");
    TCase *tc = tcase_create("query");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, query_is_right_at_dcp_1, 0, (int)(sizeof shapes / sizeof shapes[0]));
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
