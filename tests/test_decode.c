/* test_decode.c - mla_decode, portable, at dcp = 1 against the FP64 reference in both forms: rows, LSE, bounds, poison.
 * Judges: tools/reference_layer.h. May call: tests/exchange.h, the runtime. */
#include <tests/exchange.h>

#include <tools/numbers.h>
#include <tools/reference_layer.h>

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN = 576, MAX_PAGES = 24 };

struct shape {
    const char *keys;
    double sigma, mean;
    int32_t totals[8];
};

static const struct shape shapes[] = {
    {"heads=1 batch=1", 1.3, 0, {1}},
    {"heads=2 batch=3", 1.3, 0, {65, 1, 300}},
    {"heads=2 batch=3 splits=1", 0.3, 0, {65, 1, 300}},
    {"heads=12 batch=2 splits=3 page=16", 3, 0, {127, 64}},
    {"heads=3 batch=8 q=4 page=32 splits=2", 1.3, 0, {3, 200}},
    {"heads=17 batch=4 q=2 splits=1", 1.3, 1, {0, 130}},
    {"heads=5 batch=6 q=2 splits=4 interleave=16", 1.3, 1, {300, -1, 2}},
    /* CTAs of 48 and of 64 rows, one and several */
    {"heads=33 batch=4 splits=1", 3, 0, {330, 1, 0, 64}},
    {"heads=64 batch=2 splits=2 page=16", 1.3, 1, {257, 65}},
    {"heads=49 batch=2 splits=3 page=32", 30, 0, {300, 2}},
    {"heads=97 batch=1 splits=1", 1.3, 0, {130}},
    {"heads=13 batch=8 q=8 splits=1 interleave=16 page=32", 1.3, 0, {70}},
};

struct run {
    dcpk_spec spec;
    int32_t requests;
    uint8_t *query, *cache;
    int32_t table[8 * MAX_PAGES], lens[8];
    size_t stride, pages;
    double scale;
};

/* Live pages scattered; page 0 all NaN; table entries past the live pages -1; bytes past each length NaN. */
static void make(struct run *run, const struct shape *shape, struct random *random) {
    const dcpk_spec *spec = &run->spec;
    size_t rows = (size_t)spec->batch * (size_t)spec->heads;
    run->requests = spec->batch / spec->q;
    run->stride = (size_t)spec->page * TOKEN + 64;
    run->pages = 8 * MAX_PAGES;
    run->query = malloc(rows * TOKEN);
    run->cache = malloc(run->pages * run->stride);
    memset(run->cache, 0x7F, run->pages * run->stride);
    for (size_t i = 0; i < rows * TOKEN; i++)
        run->query[i] = e4m3_from_double(random_normal(random));
    run->scale = shape->sigma / 24; /* 576 products of variance 1 */
    for (int32_t r = 0; r < run->requests; r++) {
        int32_t length = shape->totals[r] > 0 ? shape->totals[r] : 0;
        run->lens[r] = shape->totals[r];
        for (int32_t p = 0; p < MAX_PAGES; p++)
            run->table[r * MAX_PAGES + p] = -1;
        for (int32_t c = 0; c < length; c++) {
            int32_t *page = &run->table[r * MAX_PAGES + c / spec->page];
            if (*page < 0) *page = (int32_t)((size_t)(r * MAX_PAGES + c / spec->page) * 7 % (run->pages - 1)) + 1;
            uint8_t *key = run->cache + (size_t)*page * run->stride + (size_t)(c % spec->page) * TOKEN;
            for (int i = 0; i < TOKEN; i++)
                key[i] = e4m3_from_double(random_normal(random) + (i < REF_LATENT ? shape->mean : 0));
        }
    }
}

static uint64_t upload(dcpk_device *device, const void *bytes, size_t length) {
    uint64_t address;
    dcpk_error error;
    dcpk_error_init(&error);
    MUST(dcpk_mem_alloc(device, length, &address, &error));
    if (bytes) MUST(dcpk_mem_write(device, address, bytes, length, &error));
    return address;
}

static void launch(const struct run *run, const struct shape *shape, uint16_t *rows, float *lse) {
    dcpk_error error;
    dcpk_device *device;
    dcpk_kernel *kernel;
    dcpk_image *image;
    void *stream;
    const dcpk_spec *spec = &run->spec;
    size_t count = (size_t)spec->batch * (size_t)spec->heads;
    dcpk_error_init(&error);
    dcpk_device_options options = {.size = sizeof options, .kind = "cpu", .pdl = 1, .multicast = -1};
    dcpk_gen *gen = exchange_gen(NULL);
    MUST(dcpk_device_open(&options, &device, &error));
    MUST(dcpk_stream_create(device, &stream, &error));
    MUST(dcpk_gen_build(gen, spec, &image, NULL, &error));
    MUST(dcpk_kernel_load(device, image, NULL, &kernel, &error));
    dcpk_args args = {.size = sizeof args,
                      .softmax_scale = (float)run->scale,
                      .output_scale = 1,
                      .page_stride = run->stride,
                      .max_pages = MAX_PAGES};
    args.query = upload(device, run->query, count * TOKEN);
    args.kv_cache = upload(device, run->cache, run->pages * run->stride);
    args.block_table = upload(device, run->table, sizeof run->table);
    args.lens = upload(device, run->lens, sizeof run->lens);
    args.totals = upload(device, shape->totals, sizeof shape->totals);
    args.rows = upload(device, NULL, count * 1024);
    args.rows_lse = upload(device, NULL, count * 4);
    uint64_t bytes = 0;
    MUST(dcpk_spec_workspace(spec, &bytes, NULL, &error));
    args.workspace = bytes > 0 ? upload(device, NULL, bytes) : 0;
    if (bytes > 0) MUST(dcpk_workspace_arm(device, args.workspace, bytes, &error));
    for (uint32_t e = 0; e < dcpk_image_entry_count(image); e++)
        MUST(dcpk_kernel_launch(kernel, e, &args, NULL, stream, e == 0 ? DCPK_LAUNCH_FIRST : 0, &error));
    MUST(dcpk_stream_sync(device, stream, &error));
    MUST(dcpk_mem_read(device, rows, args.rows, count * 1024, &error));
    MUST(dcpk_mem_read(device, lse, args.rows_lse, count * 4, &error));
    MUST(dcpk_kernel_free(kernel, &error));
    const uint64_t buffers[] = {args.query,  args.kv_cache, args.block_table, args.lens,
                                args.totals, args.rows,     args.rows_lse,    args.workspace};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        if (buffers[i] != 0) MUST(dcpk_mem_free(device, buffers[i], &error));
    MUST(dcpk_stream_destroy(device, stream, &error));
    dcpk_image_free(image);
    dcpk_device_close(device);
    dcpk_gen_close(gen);
}

START_TEST(decode_is_right_at_dcp_1) {
    const struct shape *shape = &shapes[_i];
    struct run run;
    struct random random;
    char text[128];
    dcpk_error error;
    dcpk_error_init(&error);
    random_seed(&random, 11 + (uint64_t)_i);
    snprintf(text, sizeof text, "mla_decode pv=f16 %s", shape->keys);
    MUST(dcpk_spec_parse(&run.spec, text, &error));
    MUST(dcpk_spec_resolve(&run.spec, &error));
    make(&run, shape, &random);
    size_t count = (size_t)run.spec.batch * (size_t)run.spec.heads;
    uint16_t *rows = malloc(count * 1024);
    float *lse = malloc(count * 4);
    double *value = malloc(count * REF_LATENT * 8), *wanted = malloc(count * REF_LATENT * 8), *logs = malloc(count * 8);
    launch(&run, shape, rows, lse);
    for (size_t i = 0; i < count * REF_LATENT; i++)
        value[i] = bf16_to_double(rows[i]);
    for (int rounded = 1; rounded >= 0; rounded--) {
        struct reference_decode in = {.dcp = 1,
                                      .heads_all = run.spec.heads,
                                      .batch = run.spec.batch,
                                      .q = run.spec.q,
                                      .interleave = 1,
                                      .page = run.spec.page,
                                      .query = run.query,
                                      .cache = run.cache,
                                      .page_stride = run.stride,
                                      .block_table = run.table,
                                      .max_pages = MAX_PAGES,
                                      .lens = run.lens,
                                      .totals = shape->totals,
                                      .softmax_scale = (double)(float)run.scale,
                                      .output_scale = 1,
                                      .rounded = rounded};
        reference_decode(&in, wanted, logs);
        double relative = relative_error(value, wanted, count * REF_LATENT), bound = rounded ? 6e-3 : 4e-2;
        ck_assert_msg(relative < bound, "%s: rows are %g from the %s reference", text, relative,
                      rounded ? "rounded" : "ideal");
        for (size_t i = 0; i < count; i++) {
            double off = isinf(logs[i]) && isinf(lse[i]) ? 0 : fabs((double)lse[i] - logs[i]);
            ck_assert_msg(off <= 2e-3 + 0x1p-18 * 64, "%s: LSE %d is %g instead of %g", text, (int)i, (double)lse[i],
                          logs[i]);
            for (int l = 0; isinf(logs[i]) && l < REF_LATENT; l++)
                ck_assert_uint_eq(rows[i * REF_LATENT + (size_t)l], 0);
        }
    }
    free(rows), free(lse), free(value), free(wanted), free(logs), free(run.query), free(run.cache);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("decode");
    TCase *tc = tcase_create("decode");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, decode_is_right_at_dcp_1, 0, (int)(sizeof shapes / sizeof shapes[0]));
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
