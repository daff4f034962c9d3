/* test_oracle.c - the plain judges written in CUDA C++ (tests/templates/NAME_oracle.cu.lua) against the FP64
 * references, on the CPU device: what judges kernels on hardware at shapes that no host reference reaches is itself
 * right. Needs NVRTC and ptxas; without them it says what it skips. */
#include "tests/compilers.h"
#include "tests/exchange.h"

#include <tools/numbers.h>
#include <tools/reference_layer.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN = 576, MAX_PAGES = 24, MAX_REQUESTS = 8 };

static dcpk_error error;

/* ---- decode ---- */

static const struct shape {
    const char *keys;
    double sigma, mean;
    int32_t rank, totals[MAX_REQUESTS];
} shapes[] = {
    {"heads=1 dcp=1 batch=1 q=1 page=64 interleave=1", 1.3, 0, 0, {1}},
    {"heads=2 dcp=1 batch=3 q=1 page=64 interleave=1", 0.3, 0, 0, {65, 1, 300}},
    {"heads=3 dcp=1 batch=8 q=4 page=32 interleave=1", 1.3, 0, 0, {3, 200}},
    {"heads=2 dcp=1 batch=4 q=2 page=16 interleave=16", 3, 1, 0, {-1, 130}},
    {"heads=1 dcp=3 batch=6 q=2 page=16 interleave=1", 1.3, 0, 2, {1, 40, 300}},
    {"heads=1 dcp=2 batch=8 q=4 page=64 interleave=64",
     1.3,
     1,
     1,
     {
         66,
         64,
     }},
    {"heads=1 dcp=4 batch=4 q=2 page=32 interleave=16", 0.3, 0, 3, {50, 250}},
};

struct run {
    dcpk_spec spec;
    const struct shape *shape;
    size_t rows, stride, pages;
    uint8_t *query, *cache;
    int32_t table[MAX_REQUESTS * MAX_PAGES], lens[MAX_REQUESTS];
    double scale;
    uint16_t *out;
    float *lse;
};

/* Live pages scattered; table entries past them -1; bytes of no key NaN. */
static void make(struct run *run, uint64_t seed) {
    const dcpk_spec *spec = &run->spec;
    struct random random;
    random_seed(&random, seed);
    run->rows = (size_t)(spec->batch * spec->heads * spec->dcp);
    run->stride = (size_t)spec->page * TOKEN + 32;
    run->pages = MAX_REQUESTS * MAX_PAGES;
    run->query = malloc(run->rows * TOKEN);
    run->cache = malloc(run->pages * run->stride);
    run->out = malloc(run->rows * 1024);
    run->lse = malloc(run->rows * 4);
    memset(run->cache, 0x7F, run->pages * run->stride);
    for (size_t i = 0; i < run->rows * TOKEN; i++)
        run->query[i] = e4m3_from_double(random_normal(&random));
    run->scale = run->shape->sigma / 24; /* 576 products of variance 1 */
    for (int32_t r = 0; r < spec->batch / spec->q; r++) {
        run->lens[r] = reference_local(run->shape->totals[r], spec->dcp, run->shape->rank, spec->interleave);
        for (int32_t p = 0; p < MAX_PAGES; p++)
            run->table[r * MAX_PAGES + p] = -1;
        for (int32_t c = 0; c < run->lens[r]; c++) {
            int32_t entry = r * MAX_PAGES + c / spec->page, *page = &run->table[entry];
            *page = (int32_t)((size_t)entry * 7 % run->pages);
            uint8_t *key = run->cache + (size_t)*page * run->stride + (size_t)(c % spec->page) * TOKEN;
            for (int i = 0; i < TOKEN; i++)
                key[i] = e4m3_from_double(random_normal(&random) + (i < REF_LATENT ? run->shape->mean : 0));
        }
    }
}

static void drop(struct run *run) {
    free(run->query), free(run->cache), free(run->out), free(run->lse);
}

static uint64_t upload(dcpk_device *device, const void *bytes, size_t length) {
    uint64_t address;
    MUST(dcpk_mem_alloc(device, length, &address, &error));
    if (bytes) MUST(dcpk_mem_write(device, address, bytes, length, &error));
    return address;
}

static void launch(const struct run *run, uint32_t entry) {
    dcpk_device *device;
    dcpk_kernel *kernel;
    dcpk_image *image;
    void *stream;
    dcpk_gen *gen = exchange_gen(NULL);
    dcpk_device_options options = {.size = sizeof options, .kind = "cpu", .pdl = 1, .multicast = -1};
    MUST(dcpk_device_open(&options, &device, &error));
    MUST(dcpk_stream_create(device, &stream, &error));
    MUST(dcpk_gen_build(gen, &run->spec, &image, NULL, &error));
    MUST(dcpk_kernel_load(device, image, NULL, &kernel, &error));
    uint64_t address[] = {upload(device, run->query, run->rows * TOKEN),
                          upload(device, run->cache, run->pages * run->stride),
                          upload(device, run->table, sizeof run->table),
                          upload(device, run->lens, sizeof run->lens),
                          upload(device, run->shape->totals, sizeof run->shape->totals),
                          upload(device, NULL, run->rows * 1024),
                          upload(device, NULL, run->rows * 4)};
    uint64_t stride = run->stride;
    uint32_t pages = MAX_PAGES, shard = (uint32_t)run->shape->rank;
    float scale = (float)run->scale, one = 1;
    void *params[] = {&address[0], &address[1], &stride, &address[2], &pages,      &address[3],
                      &address[4], &scale,      &one,    &address[5], &address[6], &shard};
    MUST(dcpk_kernel_launch_raw(kernel, entry, params, stream, DCPK_LAUNCH_FIRST, &error));
    MUST(dcpk_stream_sync(device, stream, &error));
    MUST(dcpk_mem_read(device, run->out, address[5], run->rows * 1024, &error));
    MUST(dcpk_mem_read(device, run->lse, address[6], run->rows * 4, &error));
    MUST(dcpk_kernel_free(kernel, &error));
    for (size_t i = 0; i < sizeof address / sizeof address[0]; i++)
        MUST(dcpk_mem_free(device, address[i], &error));
    MUST(dcpk_stream_destroy(device, stream, &error));
    dcpk_image_free(image);
    dcpk_device_close(device);
    dcpk_gen_close(gen);
}

/* Far below what kernels are allowed (6e-3 and 4e-2): rounding to BF16 costs about 1.5e-3, rounding P about 2e-2. */
static void judge(const struct run *run, bool rounded) {
    const dcpk_spec *spec = &run->spec;
    size_t count = run->rows * REF_LATENT;
    double *value = malloc(count * 8), *wanted = malloc(count * 8), *logs = malloc(run->rows * 8);
    struct reference_decode in = {.dcp = spec->dcp,
                                  .rank = run->shape->rank,
                                  .heads_all = spec->heads * spec->dcp,
                                  .batch = spec->batch,
                                  .q = spec->q,
                                  .interleave = spec->interleave,
                                  .page = spec->page,
                                  .query = run->query,
                                  .cache = run->cache,
                                  .page_stride = run->stride,
                                  .block_table = run->table,
                                  .max_pages = MAX_PAGES,
                                  .lens = run->lens,
                                  .totals = run->shape->totals,
                                  .softmax_scale = (double)(float)run->scale,
                                  .output_scale = 1,
                                  .rounded = rounded};
    reference_decode(&in, wanted, logs);
    for (size_t i = 0; i < count; i++)
        value[i] = bf16_to_double(run->out[i]);
    double relative = relative_error(value, wanted, count);
    ck_assert_msg(relative < 2.5e-3, "%s: rows are %g from the %s reference", run->shape->keys, relative,
                  rounded ? "rounded" : "ideal");
    for (size_t i = 0; i < run->rows; i++) {
        double off = isinf(logs[i]) && isinf(run->lse[i]) ? 0 : fabs((double)run->lse[i] - logs[i]);
        ck_assert_msg(off <= 1e-4, "%s: LSE %d is %g instead of %g", run->shape->keys, (int)i, (double)run->lse[i],
                      logs[i]);
        for (int l = 0; isinf(logs[i]) && l < REF_LATENT; l++)
            ck_assert_uint_eq(run->out[i * REF_LATENT + (size_t)l], 0);
    }
    free(value), free(wanted), free(logs);
}

START_TEST(decode_oracle_is_right_on_every_shard_with_p_as_it_is_and_rounded) {
    struct run run = {.shape = &shapes[_i]};
    char text[128];
    dcpk_error_init(&error);
    snprintf(text, sizeof text, "decode_oracle %s", run.shape->keys);
    MUST(dcpk_spec_parse(&run.spec, text, &error));
    MUST(dcpk_spec_resolve(&run.spec, &error));
    make(&run, 5 + (uint64_t)_i);
    for (uint32_t entry = 0; entry < 2; entry++) {
        launch(&run, entry);
        judge(&run, entry == 1);
    }
    drop(&run);
}
END_TEST

START_TEST(oracle_without_nvrtc_says_what_is_missing) {
    dcpk_spec spec;
    dcpk_text ptx;
    dcpk_error_init(&error);
    setenv("DCPK_NVRTC", "/nowhere/libnvrtc.so", 1);
    dcpk_gen *gen = exchange_gen(NULL);
    MUST(dcpk_spec_parse(&spec, "decode_oracle heads=1 dcp=1 batch=1 q=1 page=64 interleave=1", &error));
    ck_assert_int_eq(dcpk_gen_expand(gen, &spec, &ptx, &error), DCPK_E_TOOLCHAIN);
    ck_assert_msg(strstr(error.text, "/nowhere/libnvrtc.so") && strstr(error.text, "DCPK_NVRTC"), "%s", error.text);
    dcpk_gen_close(gen);
}
END_TEST

int main(void) {
    int failed = 0;
    Suite *suite = suite_create("oracle");
    TCase *tc = tcase_create("oracle");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, oracle_without_nvrtc_says_what_is_missing);
    if (have_nvrtc("all but one test of test_oracle") && have_ptxas())
        tcase_add_loop_test(tc, decode_oracle_is_right_on_every_shard_with_p_as_it_is_and_rounded, 0,
                            (int)(sizeof shapes / sizeof shapes[0]));
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
