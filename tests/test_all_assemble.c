/* test_all_assemble.c - head counts that fill no tile: mla_query and mla_decode for heads x dcp of public failures
 * (4, 8, 12, 96 heads are no multiples of 16 or 64). Each expands and passes the lint; a spread of them assembles,
 * every head count and every dcp among it; the form for Hopper spills nothing. What they compute: test_query.c,
 * test_decode.c. May call: include/dcpk. */
#include <dcpk/gen.h>

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const int32_t heads[] = {1, 4, 8, 12, 16, 24, 48, 64, 96, 128}, dcps[] = {1, 2, 4, 8};
enum { FORMS = 3, HEADS = sizeof heads / sizeof heads[0], DCPS = sizeof dcps / sizeof dcps[0], MAX_ROWS = 1024 };

/* What goes with them: one group of keys a kernel and turn. */
static const char *const forms[FORMS][4] = {
    {"batch=17", "batch=16 rope=half store_qc=1", "batch=64 rope=interleaved q_lora=0", "batch=1 page=16"},
    {"batch=17 splits=1 pv=f16", "batch=1 pv=f16", "batch=64 page=16 interleave=16 pv=f16",
     "batch=16 splits=5 page=32 pv=f16"},
    {"batch=17 splits=1", "batch=1", "batch=64 page=16", "batch=16 splits=5 page=32 pv=fp8"},
};
static const char *const kernels[FORMS] = {"mla_query", "mla_decode", "mla_decode"};

static dcpk_gen *gen;
static dcpk_error error;

static void setup(void) {
    dcpk_gen_options options = {.size = sizeof options, .template_path = "templates", .cache_dir = ""};
    dcpk_error_init(&error);
    ck_assert_msg(dcpk_gen_open(&options, &gen, &error) == DCPK_OK, "%s", error.text);
}

static void teardown(void) {
    dcpk_gen_close(gen);
}

static dcpk_spec spec_of(int kernel, int h, int d, int form, char *text, size_t capacity) {
    dcpk_spec spec;
    snprintf(text, capacity, "%s heads=%d dcp=%d %s", kernels[kernel], heads[h], dcps[d], forms[kernel][form]);
    ck_assert_msg(dcpk_spec_parse(&spec, text, &error) == DCPK_OK, "%s: %s", text, error.text);
    ck_assert_msg(dcpk_spec_resolve(&spec, &error) == DCPK_OK, "%s: %s", text, error.text);
    return spec;
}

START_TEST(every_head_count_expands_and_passes_the_lint) {
    char text[128];
    int expanded = 0;
    for (int h = 0; h < HEADS; h++)
        for (int d = 0; d < DCPS; d++)
            for (int form = 0; form < 4; form++) {
                ck_assert_int_le(heads[h] * dcps[d], MAX_ROWS); /* so no rule leaves one out */
                dcpk_spec spec = spec_of(_i, h, d, form, text, sizeof text);
                dcpk_text ptx;
                ck_assert_msg(dcpk_gen_expand(gen, &spec, &ptx, &error) == DCPK_OK, "%s: %s", text, error.text);
                ck_assert_msg(strstr(ptx.data, _i == 2 ? "wgmma.mma_async" : "mma.sync") != NULL, "%s: no product",
                              text);
                dcpk_text_free(&ptx);
                expanded++;
            }
    ck_assert_int_eq(expanded, HEADS * DCPS * 4);
}
END_TEST

/* The CTAs that the shape calls for: nothing is dropped or done twice where heads fill no tile. */
static void check_grid(const dcpk_image *image, const dcpk_spec *spec, const char *text) {
    dcpk_entry_info entry = {.size = sizeof entry};
    ck_assert_int_eq(dcpk_image_entry(image, 0, &entry, &error), DCPK_OK);
    uint32_t rows = (uint32_t)(spec->dcp * spec->heads), batch = (uint32_t)spec->batch;
    bool query = strcmp(spec->kernel, "mla_query") == 0;
    uint32_t x = query ? (uint32_t)spec->heads : (rows + 63) / 64;    /* groups of at most 64 rows */
    if (!query && x > 1 && x % 2 == 1 && entry.grid[0] == x + 1) x++; /* or one more, test_workspace says when */
    uint32_t columns = spec->pv == DCPK_PV_FP8 && spec->splits == 0 ? (uint32_t)(spec->sms - spec->reserve) / x : 0;
    uint32_t z = query || columns > batch ? 1 : batch; /* the kernel deals columns out to the requests itself */
    if (!query && columns > batch) ck_assert_uint_eq(entry.grid[1], columns);
    ck_assert_msg(entry.grid[0] == x && entry.grid[2] == z, "%s: grid %u, %u, %u", text, entry.grid[0], entry.grid[1],
                  entry.grid[2]);
    if (query) ck_assert_uint_eq(entry.grid[1], (batch + 15) / 16);
}

/* A stack frame in a loop over key tiles costs half of its speed. */
static void check_no_spills(const dcpk_image *image, const char *text) {
    for (uint32_t e = 0; e < dcpk_image_entry_count(image); e++) {
        dcpk_entry_info entry = {.size = sizeof entry};
        ck_assert_int_eq(dcpk_image_entry(image, e, &entry, &error), DCPK_OK);
        ck_assert_msg(entry.local_bytes == 0, "%s: %s has a stack frame of %u bytes", text, entry.name,
                      entry.local_bytes);
    }
}

START_TEST(spread_of_head_counts_assembles) {
    char text[128];
    for (int h = 0; h < HEADS; h++) {
        int d = h % DCPS, form = (h + h / DCPS) % 4;
        dcpk_spec spec = spec_of(_i, h, d, form, text, sizeof text);
        dcpk_image *image;
        ck_assert_msg(dcpk_gen_build(gen, &spec, &image, NULL, &error) == DCPK_OK, "%s: %s", text, error.text);
        check_grid(image, &spec, text);
        check_no_spills(image, text);
        dcpk_image_free(image);
    }
}
END_TEST

/* A pair of CTAs of 64 rows each with a box is where registers are scarcest. */
START_TEST(decode_for_hopper_spills_nothing) {
    static const char *const specs[] = {
        "heads=64 dcp=2 batch=4",           "heads=64 dcp=2 q=2 batch=4",
        "heads=16 dcp=8 batch=64",          "heads=16 dcp=8 q=4 batch=8",
        "heads=16 dcp=4 batch=1",           "heads=16 dcp=4 batch=8 splits=4",
        "heads=12 dcp=8 q=2 batch=4",       "heads=16 dcp=8 batch=132",
        "heads=64 dcp=2 batch=16",          "heads=12 dcp=8 batch=16",
        "heads=16 dcp=2 batch=16 page=32",  "heads=8 dcp=2 q=8 batch=8",
        "heads=128 dcp=1 q=8 batch=16",     "heads=2 dcp=4 batch=4 page=16",
        "heads=16 dcp=1 batch=64 q=2",      "heads=64 dcp=2 batch=4 watchdog=0",
        "heads=64 dcp=2 batch=4 checked=1",
    };
    char text[128];
    dcpk_spec spec;
    dcpk_image *image;
    snprintf(text, sizeof text, "mla_decode arch=sm_90a pv=fp8 %s", specs[_i]);
    ck_assert_msg(dcpk_spec_parse(&spec, text, &error) == DCPK_OK, "%s: %s", text, error.text);
    ck_assert_msg(dcpk_gen_build(gen, &spec, &image, NULL, &error) == DCPK_OK, "%s: %s", text, error.text);
    check_no_spills(image, text);
    dcpk_image_free(image);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("all_assemble");
    TCase *tc = tcase_create("all_assemble");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, every_head_count_expands_and_passes_the_lint, 0, FORMS);
    tcase_add_loop_test(tc, spread_of_head_counts_assembles, 0, FORMS);
    tcase_add_loop_test(tc, decode_for_hopper_spills_nothing, 0, 15);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
