/* test_conform_cover.c - every instruction and special register that the templates and the foreign kernels emit has a
 * snippet of `dcpk check device`. May call: include/dcpk, tools/conform.h. */
#include "tools/conform.h"

#include <dcpk/gen.h>

#include <check.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct conform_list list;
static struct conform_cover *cover;
static dcpk_gen *gen;
static dcpk_error error;

static void setup(void) {
    dcpk_gen_options options = {
        .size = sizeof options, .template_path = "templates:tests/templates:templates/checks", .cache_dir = ""};
    dcpk_error_init(&error);
    list = conform_list_make();
    cover = conform_cover_make(&list);
    ck_assert_msg(dcpk_gen_open(&options, &gen, &error) == DCPK_OK, "%s", error.text);
}

static void teardown(void) {
    dcpk_gen_close(gen);
    conform_cover_free(cover);
    conform_list_free(&list);
}

/* ---- texts ---- */
struct text {
    const char *from;
    size_t names, missing;
    char said[4096]; /* what is missing, a line each */
};

static void see(void *self, const char *name, unsigned line) {
    struct text *text = self;
    char entry[256];
    text->names++;
    if (conform_covers(cover, name)) return;
    snprintf(entry, sizeof entry, "%s\n", name);
    if (strstr(text->said, entry) != NULL) return;
    text->missing++;
    size_t used = strlen(text->said);
    snprintf(text->said + used, sizeof text->said - used, "line %u of %.120s: %s", line, text->from, entry);
}

static void scan(struct text *text, const char *from, const char *ptx) {
    text->from = from;
    conform_scan(ptx, see, text);
}

static char *read_file(const char *path) {
    FILE *file = fopen(path, "re");
    char *text = calloc(1, 1 << 20);
    ck_assert_msg(file != NULL && text != NULL, "cannot open %s: run from the project's folder", path);
    ck_assert_uint_lt(fread(text, 1, 1 << 20, file), 1 << 20);
    fclose(file);
    return text;
}

/* ---- templates ---- */
/* What of their key space tests run: shapes, and for each other key its values ("": the default). A turn takes the next
 * shape and of each key a value by chance; each value of each key has to come up for each kernel that takes it. */
static const char *const kernels[] = {"query_norm", "query_push", "query_wait", "mla_query", "mla_decode", "dcp_value"};
static const char *const shapes[] = {
    "heads=12 dcp=8 batch=17",     "heads=1 dcp=2 batch=1",      "heads=128 batch=64",
    "heads=16 dcp=4 q=2 batch=16", "heads=4 dcp=8 batch=64",     "heads=64 dcp=16 batch=3",
    "heads=96 dcp=8 batch=17",     "heads=8 q=4 batch=8",        "heads=48 dcp=2 batch=5",
    "heads=24 dcp=4 batch=16",     "heads=6 dcp=16 q=3 batch=9", "heads=12 dcp=2 batch=512 cap=512",
    "heads=32 dcp=8 q=4 batch=16"};
static const char *const keys[][7] = {
    {"", "publish=multicast"},
    {"", "poll=0", "poll=1"},
    {"", "store_qc=1"},
    {"", "split=0", "split=1"},
    {"", "page=16", "page=32"},
    {"", "interleave=16", "interleave=4"},
    {"", "splits=1", "splits=2", "splits=5", "splits=16"},
    {"", "pv=f16"},
    {"", "gate=0"},
    {"", "rope=half", "rope=interleaved"},
    {"", "q_lora=0"},
    {"", "tiled_from=1", "tiled_from=513"},
    {"", "parity=arg"},
    {"", "watchdog=0"},
    {"", "checked=1"},
    {"", "lineinfo=1"},
    {"", "sms=32", "reserve=8"},
    {"", "arch=sm_90"},
};
enum { KEYS = sizeof keys / sizeof keys[0], SHAPES = sizeof shapes / sizeof shapes[0], TURNS = 6 * SHAPES };

/* False: a rule of the spec refuses it. */
static bool expand(const char *words, struct text *text) {
    dcpk_spec spec;
    dcpk_text ptx;
    ck_assert_msg(dcpk_spec_parse(&spec, words, &error) == DCPK_OK, "%s: %s", words, error.text);
    dcpk_status status = dcpk_spec_resolve(&spec, &error);
    if (status == DCPK_OK) status = dcpk_gen_expand(gen, &spec, &ptx, &error);
    if (status == DCPK_E_SPEC || status == DCPK_E_ARCH || status == DCPK_E_TOOLCHAIN) return false;
    ck_assert_msg(status == DCPK_OK, "%s: %s", words, error.text);
    scan(text, words, ptx.data);
    dcpk_text_free(&ptx);
    return true;
}

static bool takes(const char *kernel, const char *assignment) {
    char key[32];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(assignment, "="), assignment);
    return strcmp(key, "arch") == 0 || dcpk_spec_takes(kernel, key);
}

/* The text of one turn, and which value of each key it takes. */
static void choose(const char *kernel, int turn, uint64_t *state, char *words, size_t room, int chosen[KEYS]) {
    char shape[128];
    snprintf(words, room, "%s", kernel);
    snprintf(shape, sizeof shape, "%s", shapes[turn % SHAPES]);
    for (char *rest = shape, *word; (word = strsep(&rest, " ")) != NULL;)
        if (takes(kernel, word)) snprintf(words + strlen(words), room - strlen(words), " %s", word);
    for (int k = 0; k < KEYS; k++) {
        int count = 1;
        while (keys[k][count] != NULL)
            count++;
        chosen[k] = takes(kernel, keys[k][1]) ? (int)(conform_random(state) % (uint64_t)count) : -1;
        if (chosen[k] > 0) snprintf(words + strlen(words), room - strlen(words), " %s", keys[k][chosen[k]]);
    }
}

START_TEST(templates_emit_nothing_without_a_snippet) {
    const char *kernel = kernels[_i];
    struct text text = {0};
    int used[KEYS][7] = {{0}}, chosen[KEYS], expanded = 0;
    uint64_t state = (uint64_t)_i + 1;
    char words[512];
    for (int turn = 0; turn < TURNS; turn++) {
        choose(kernel, turn, &state, words, sizeof words, chosen);
        if (!expand(words, &text)) continue;
        expanded++;
        for (int k = 0; k < KEYS; k++)
            if (chosen[k] >= 0) used[k][chosen[k]]++;
    }
    ck_assert_int_ge(expanded, 10);
    for (int k = 0; k < KEYS; k++)
        for (int v = 0; keys[k][v] != NULL; v++)
            ck_assert_msg(used[k][v] > 0 || !takes(kernel, keys[k][1]), "%s: no spec with '%s' expands", kernel,
                          keys[k][v][0] != '\0' ? keys[k][v] : keys[k][1]);
    ck_assert_msg(text.missing == 0, "%zu instructions have no snippet:\n%s", text.missing, text.said);
}
END_TEST

/* Templates of tests and of checks; the CUDA C++ ones where there is a compiler for them. */
START_TEST(templates_of_tests_emit_nothing_without_a_snippet) {
    static const char *const specs[] = {
        "bench_node sms=132",
        "bench_read sms=528",
        "map_tile",
        "whereabouts batch=4",
        "copy_rows heads=12 dcp=1 batch=17",
        "copy_rows heads=12 dcp=8 batch=17 cap=64 qh=96",
        "query_copy heads=12 dcp=8 batch=17 cap=64 qh=96",
        "decode_oracle heads=12 dcp=8 batch=17 page=64 interleave=1 q=1",
        "query_oracle heads=12 batch=17 page=64 interleave=1 rope=half q_lora=1536",
        "query_oracle heads=12 batch=17 page=64 interleave=1 rope=interleaved q_lora=0"};
    struct text text = {0};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        bool cuda = strstr(specs[i], "oracle") != NULL;
        if (!expand(specs[i], &text) && !(cuda && error.code == DCPK_E_TOOLCHAIN))
            ck_abort_msg("%s: %s", specs[i], error.text);
    }
    ck_assert_msg(text.missing == 0, "%zu instructions have no snippet:\n%s", text.missing, text.said);
}
END_TEST

static void scan_files(const char *pattern, size_t least) {
    glob_t found;
    struct text text = {0};
    ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
    ck_assert_uint_ge(found.gl_pathc, least);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *ptx = read_file(found.gl_pathv[i]);
        size_t before = text.names;
        scan(&text, found.gl_pathv[i], ptx);
        ck_assert_msg(text.names > before + 5, "%s: hardly an instruction", found.gl_pathv[i]);
        free(ptx);
    }
    globfree(&found);
    ck_assert_msg(text.missing == 0, "%zu instructions have no snippet:\n%s", text.missing, text.said);
}

START_TEST(foreign_kernels_hold_nothing_without_a_snippet) {
    scan_files("tests/foreign/*.ptx", 25);
}
END_TEST

START_TEST(goldens_hold_nothing_without_a_snippet) {
    scan_files("tests/golden/*.ptx", 15);
}
END_TEST

/* ---- the check itself ---- */
START_TEST(an_instruction_without_a_snippet_is_named) {
    struct text text = {0};
    scan(&text, "a text",
         ".version 8.6\n.target sm_90a\n.address_size 64\n// add.q17.u32 a, b, c;\n.visible .entry f(.param .u64 p) {\n"
         ".reg .b32 %r<9>; /* sub.q18 */ .reg .pred %p<2>;\n"
         "LOOP: add.u32 %r1, %r2, %r3; @!%p1 mul.q19.rn.u32\n %r1, %r1, %r1; mov.u32 %r4, %smid;\n"
         "mov.u32 %r5, %made_up; @%p1 bra LOOP; { mad.q20.u32 %r1, %r1, %r1, %r1; }\n"
         "mov.u32 %r6, %envreg3;\nret; }\n");
    ck_assert_msg(text.missing == 3, "%s", text.said);
    ck_assert_str_eq(text.said,
                     "line 7 of a text: mul.q19.rn.u32\nline 9 of a text: mad.q20.u32\nline 10 of a text: %envreg3\n");
}
END_TEST

START_TEST(every_snippet_is_found_by_its_name) {
    ck_assert_uint_ge(list.count, 600);
    for (size_t i = 0; i < list.count; i++)
        ck_assert_msg(conform_covers(cover, list.forms[i].instruction), "%s", list.forms[i].instruction);
    ck_assert(!conform_covers(cover, "add.u33"));
    ck_assert(!conform_covers(cover, "add"));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("conform_cover");
    TCase *tc = tcase_create("conform_cover");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, templates_emit_nothing_without_a_snippet, 0, sizeof kernels / sizeof kernels[0]);
    tcase_add_test(tc, templates_of_tests_emit_nothing_without_a_snippet);
    tcase_add_test(tc, foreign_kernels_hold_nothing_without_a_snippet);
    tcase_add_test(tc, goldens_hold_nothing_without_a_snippet);
    tcase_add_test(tc, an_instruction_without_a_snippet_is_named);
    tcase_add_test(tc, every_snippet_is_found_by_its_name);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
