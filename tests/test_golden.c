/* test_golden.c - the shipped templates: their PTX is what tests/golden holds, to the byte, and every shape of the
 * contract assembles. Goldens are reviewed as diffs; tools/golden writes them anew. */
#include <dcpk/gen.h>

#include <check.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static char *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "cannot open %s: run from the project's folder", path);
    char *bytes = malloc(1 << 20);
    ck_assert_ptr_nonnull(bytes);
    *length = fread(bytes, 1, (1 << 20) - 1, file);
    bytes[*length] = '\0';
    fclose(file);
    return bytes;
}

static dcpk_spec parsed(const char *text) {
    dcpk_spec spec;
    ck_assert_msg(dcpk_spec_parse(&spec, text, &error) == DCPK_OK, "%s: %s", text, error.text);
    ck_assert_msg(dcpk_spec_resolve(&spec, &error) == DCPK_OK, "%s: %s", text, error.text);
    return spec;
}

/* The line where two texts part, for the message. */
static unsigned first_difference(const char *a, const char *b) {
    unsigned line = 1;
    for (; *a == *b && *a != '\0'; a++, b++)
        line += *a == '\n';
    return line;
}

START_TEST(templates_expand_to_their_goldens) {
    glob_t found;
    ck_assert_int_eq(glob("tests/golden/*.ptx", 0, NULL, &found), 0);
    ck_assert_uint_ge(found.gl_pathc, 15);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        size_t length;
        char *golden = read_file(found.gl_pathv[i], &length), text[512];
        ck_assert_msg(sscanf(golden, "%*[^\n]\n// %511[^\n]", text) == 1, "%s: no spec on line 2", found.gl_pathv[i]);
        dcpk_spec spec = parsed(text);
        dcpk_text ptx;
        ck_assert_msg(dcpk_gen_expand(gen, &spec, &ptx, &error) == DCPK_OK, "%s", error.text);
        ck_assert_msg(ptx.length == length && memcmp(ptx.data, golden, length) == 0,
                      "%s differs from line %u on: if the change is meant, run tools/golden and review the diff",
                      found.gl_pathv[i], first_difference(ptx.data, golden));
        dcpk_text_free(&ptx);
        free(golden);
    }
    globfree(&found);
}
END_TEST

static void assembles(const char *kernel, const char *keys, const char *arch) {
    char text[512];
    snprintf(text, sizeof text, "%s %s arch=%s", kernel, keys, arch);
    dcpk_spec spec = parsed(text);
    dcpk_image *image;
    dcpk_status status = dcpk_gen_build(gen, &spec, &image, NULL, &error);
    ck_assert_msg(status == DCPK_OK, "%s: %s", text, error.text);
    ck_assert_uint_ge(dcpk_image_entry_count(image), 1);
    dcpk_image_free(image);
}

/* What exchanges; test_all_assemble.c: mla_query and mla_decode in the contract's shapes. */
static const char *const box_kernels[] = {"query_push", "query_wait", "dcp_value"};

/* The corners and a spread of the shapes that no rule may refuse: heads x dcp x q x batch. */
START_TEST(every_shape_of_the_contract_assembles) {
    static const char *const shapes[] = {
        "heads=1 dcp=2 batch=1",           "heads=1 dcp=16 q=8 batch=8",   "heads=2 dcp=4 q=2 batch=64",
        "heads=4 dcp=8 q=3 batch=3",       "heads=6 dcp=16 q=4 batch=16",  "heads=8 dcp=2 batch=17",
        "heads=12 dcp=8 q=4 batch=64",     "heads=16 dcp=16 q=4 batch=64", "heads=24 dcp=4 batch=16",
        "heads=32 dcp=8 q=4 batch=16",     "heads=48 dcp=2 q=8 batch=64",  "heads=64 dcp=16 batch=64",
        "heads=96 dcp=8 batch=17",         "heads=128 dcp=8 batch=64",     "heads=128 dcp=2 q=4 batch=4",
        "heads=12 dcp=2 batch=512 cap=512"};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (size_t k = 0; k < sizeof box_kernels / sizeof box_kernels[0]; k++)
            assembles(box_kernels[k], shapes[i], "sm_90a");
    assembles("dcp_value", "heads=128 batch=64", "sm_90a");
    assembles("dcp_value", "heads=1 q=8 batch=8", "sm_90a");
    assembles("query_norm", "heads=1 batch=1", "sm_90a");
    assembles("query_norm", "heads=128 batch=512", "sm_90a");
}
END_TEST

START_TEST(templates_for_sm_90_assemble_for_later_architectures) {
    static const char *const arches[] = {"sm_90", "sm_90a", "sm_100a", "sm_120a"};
    for (size_t a = 0; a < sizeof arches / sizeof arches[0]; a++) {
        for (size_t k = 0; k < sizeof box_kernels / sizeof box_kernels[0]; k++)
            assembles(box_kernels[k], "heads=12 dcp=8 batch=17 checked=1", arches[a]);
        assembles("query_push", "heads=12 dcp=8 batch=17 publish=multicast", arches[a]);
        assembles("dcp_value", "heads=12 dcp=8 batch=17 split=1", arches[a]);
        assembles("dcp_value", "heads=12 batch=17", arches[a]);
        assembles("query_norm", "heads=12 batch=5", arches[a]);
        assembles("query_norm", "heads=12 batch=17", arches[a]);
        assembles("mla_query", "heads=12 dcp=8 batch=17 checked=1 rope=half", arches[a]);
        assembles("mla_query", "heads=12 dcp=2 batch=5 publish=multicast poll=0 store_qc=1", arches[a]);
        assembles("mla_query", "heads=12 batch=17 q_lora=0 rope=interleaved", arches[a]);
        assembles("mla_decode", "heads=12 dcp=8 batch=17 splits=2 checked=1", arches[a]);
        assembles("mla_decode", "heads=12 batch=17 splits=1 page=16 interleave=16", arches[a]);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("golden");
    TCase *tc = tcase_create("golden");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, templates_expand_to_their_goldens);
    tcase_add_test(tc, every_shape_of_the_contract_assembles);
    tcase_add_test(tc, templates_for_sm_90_assemble_for_later_architectures);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
