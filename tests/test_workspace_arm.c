/* test_workspace_arm.c - memory in which the CTAs of one launch meet (mla_decode by default, on sm_90a): refused until
 * it is armed, armed again after every launch, and not armed any more once something else lay there. May call:
 * tests/exchange.h, the runtime. */
#include <tests/exchange.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 200, ROOM = 1 << 20 };

#define MEETS "mla_decode heads=2 batch=2 sms=6" /* arch=sm_90a, pv=fp8, splits=auto: the defaults */
#define SPLITS MEETS " splits=3"

static dcpk_error error;
static dcpk_gen *gen;
static dcpk_device *device;
static void *stream;
static dcpk_args args;

static uint64_t zeros(uint64_t bytes) {
    uint64_t address;
    MUST(dcpk_mem_alloc(device, bytes, &address, &error));
    MUST(dcpk_mem_fill32(device, address, 0, bytes / 4, &error));
    return address;
}

static void words(uint64_t address, const int32_t *value, size_t count) {
    MUST(dcpk_mem_write(device, address, value, 4 * count, &error));
}

static void setup(void) {
    dcpk_device_options options = {.size = sizeof options, .kind = "cpu", .pdl = 1, .multicast = -1};
    const int32_t lens[2] = {KEYS, KEYS}, table[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    dcpk_error_init(&error);
    gen = exchange_gen(NULL);
    MUST(dcpk_device_open(&options, &device, &error));
    MUST(dcpk_stream_create(device, &stream, &error));
    args = (dcpk_args){.size = sizeof args,
                       .softmax_scale = 0.04f,
                       .output_scale = 1,
                       .page_stride = 64 * 576,
                       .max_pages = 4,
                       .query = zeros(4 * 576),
                       .kv_cache = zeros(8 * 64 * 576),
                       .block_table = zeros(sizeof table),
                       .lens = zeros(sizeof lens),
                       .totals = zeros(sizeof lens),
                       .rows = zeros(4 * 1024),
                       .rows_lse = zeros(4 * 4),
                       .workspace = zeros(ROOM)};
    words(args.lens, lens, 2);
    words(args.totals, lens, 2);
    words(args.block_table, table, 8);
}

static void teardown(void) {
    const uint64_t memory[] = {args.query,  args.kv_cache, args.block_table, args.lens,
                               args.totals, args.rows,     args.rows_lse,    args.workspace};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i] != 0) MUST(dcpk_mem_free(device, memory[i], &error));
    MUST(dcpk_stream_destroy(device, stream, &error));
    dcpk_device_close(device);
    dcpk_gen_close(gen);
}

static uint64_t bytes_of(const char *text) {
    dcpk_spec spec;
    uint64_t bytes;
    MUST(dcpk_spec_parse(&spec, text, &error));
    MUST(dcpk_spec_workspace(&spec, &bytes, NULL, &error));
    return bytes;
}

/* All entries of the kernel, once. */
static dcpk_status launch(const char *text) {
    dcpk_spec spec;
    dcpk_image *image;
    dcpk_kernel *kernel;
    dcpk_status status = DCPK_OK;
    MUST(dcpk_spec_parse(&spec, text, &error));
    MUST(dcpk_gen_build(gen, &spec, &image, NULL, &error));
    MUST(dcpk_kernel_load(device, image, NULL, &kernel, &error));
    for (uint32_t e = 0; e < dcpk_image_entry_count(image) && status == DCPK_OK; e++)
        status = dcpk_kernel_launch(kernel, e, &args, NULL, stream, e == 0 ? DCPK_LAUNCH_FIRST : 0, &error);
    if (status == DCPK_OK) MUST(dcpk_stream_sync(device, stream, &error));
    MUST(dcpk_kernel_free(kernel, NULL));
    dcpk_image_free(image);
    return status;
}

static void refused(const char *text) {
    ck_assert_int_eq(launch(text), DCPK_E_ARG);
    ck_assert_msg(strstr(error.text, "are not armed on this device") && strstr(error.text, "dcpk_workspace_arm"), "%s",
                  error.text);
}

START_TEST(memory_that_is_not_armed_is_refused) {
    uint64_t bytes = bytes_of(MEETS);
    ck_assert_uint_gt(bytes, 0);
    refused(MEETS);
    MUST(dcpk_workspace_arm(device, args.workspace, bytes - 16, &error)); /* too little */
    refused(MEETS);
    MUST(dcpk_workspace_arm(device, args.workspace, bytes, &error));
    ck_assert_msg(launch(MEETS) == DCPK_OK, "%s", error.text);
    args.workspace += 16; /* part of it is not */
    refused(MEETS);
    args.workspace -= 16;
}
END_TEST

START_TEST(every_launch_leaves_it_armed) {
    uint64_t bytes = bytes_of(MEETS);
    uint32_t *word = malloc(bytes);
    MUST(dcpk_workspace_arm(device, args.workspace, bytes, &error));
    for (int use = 0; use < 3; use++) {
        ck_assert_msg(launch(MEETS) == DCPK_OK, "%s", error.text);
        MUST(dcpk_mem_read(device, word, args.workspace, bytes, &error));
        for (uint64_t i = 0; i < bytes / 4; i++)
            ck_assert_msg(word[i] == 0xFFFFFFFF, "use %d, word %llu: %08x", use, (unsigned long long)i, word[i]);
    }
    free(word);
}
END_TEST

START_TEST(kernel_with_splits_of_its_own_ends_it) {
    uint64_t meets = bytes_of(MEETS), splits = bytes_of(SPLITS);
    MUST(dcpk_workspace_arm(device, args.workspace, meets > splits ? meets : splits, &error));
    ck_assert_msg(launch(MEETS) == DCPK_OK, "%s", error.text);
    ck_assert_msg(launch(SPLITS) == DCPK_OK, "%s", error.text);
    refused(MEETS);
    MUST(dcpk_workspace_arm(device, args.workspace, meets, &error));
    ck_assert_msg(launch(MEETS) == DCPK_OK, "%s", error.text);
}
END_TEST

START_TEST(memory_that_was_given_back_is_not_armed) {
    uint64_t bytes = bytes_of(MEETS), old = args.workspace;
    MUST(dcpk_workspace_arm(device, args.workspace, bytes, &error));
    ck_assert_msg(launch(MEETS) == DCPK_OK, "%s", error.text);
    MUST(dcpk_mem_free(device, args.workspace, &error));
    args.workspace = 0;
    for (int i = 0; i < 64 && args.workspace != old; i++) /* the same place again, if the device gives it */
        args.workspace = zeros(ROOM);
    refused(MEETS);
}
END_TEST

static const struct {
    uint64_t offset, bytes;
    const char *says;
} bad[] = {{4, 64, "no multiple of 16"}, {0, 0, "0 bytes: 0, or no multiple of 4"}, {0, 6, "6 bytes"}};

START_TEST(bad_arming_is_refused) {
    ck_assert_int_eq(dcpk_workspace_arm(device, args.workspace + bad[_i].offset, bad[_i].bytes, &error), DCPK_E_ARG);
    ck_assert_msg(strstr(error.text, bad[_i].says) != NULL, "%s", error.text);
    ck_assert_int_eq(dcpk_workspace_arm(NULL, args.workspace, 64, &error), DCPK_E_ARG);
    ck_assert_int_eq(dcpk_workspace_arm(device, 0, 64, &error), DCPK_E_ARG);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("workspace_arm");
    TCase *tests = tcase_create("workspace_arm");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, memory_that_is_not_armed_is_refused);
    tcase_add_test(tests, every_launch_leaves_it_armed);
    tcase_add_test(tests, kernel_with_splits_of_its_own_ends_it);
    tcase_add_test(tests, memory_that_was_given_back_is_not_armed);
    tcase_add_loop_test(tests, bad_arming_is_refused, 0, sizeof bad / sizeof *bad);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
