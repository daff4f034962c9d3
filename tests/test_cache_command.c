/* test_cache_command.c - the cache as its command shows it, and the checksum of sources that the Makefile puts in keys.
 */
#include "tests/shell.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char here[512]; /* where the suite was started: the sources */

#define NORM "query_norm heads=2 batch=1"

START_TEST(cache_command_takes_only_the_options_of_its_action) {
    static const char *const lines[] = {"ls --ptx -o x",       "ls -o x",     "path --cubin",
                                        "verify --image",      "clear -o x",  "path -o -",
                                        "extract 0123 --json", "clear --ptx", "extract 0123 --json -o x",
                                        "verify --ptx --json", "path --image"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        sh("$dcpk cache %s", lines[i]);
        expect_failure(2, "takes no --");
        ck_assert(!shell_exists("x"));
    }
}
END_TEST

START_TEST(cache_command_speaks_json_where_it_is_asked) {
    sh("$dcpk cache path --json");
    expect_code(0);
    json_t *json = shell_json();
    const char *path = json_string_value(json_object_get(json, "path"));
    ck_assert_ptr_nonnull(path);
    ck_assert_str_eq(path, getenv("DCPK_CACHE_DIR"));
    json_decref(json);
    sh("$dcpk cache clear --json");
    expect_code(0);
    json = shell_json();
    ck_assert(json_is_integer(json_object_get(json, "removed")));
    ck_assert_int_eq(json_integer_value(json_object_get(json, "removed")), 0);
    json_decref(json);
}
END_TEST

START_TEST(cache_list_calls_nothing_good_that_is_damaged) {
    sh("$dcpk build " NORM);
    if (last.code == 3) return; /* no compiler here */
    expect_code(0);
    sh("$dcpk build query_norm heads=2 batch=2");
    expect_code(0);
    sh("f=$(find \"$DCPK_CACHE_DIR\" -name '*.dcpk' | sort | head -n 1); printf X | dd of=\"$f\" bs=1 seek=700 "
       "conv=notrunc");
    expect_code(0);
    static const char *const actions[] = {"ls", "verify"};
    for (size_t i = 0; i < 2; i++) {
        sh("$dcpk cache %s", actions[i]);
        expect_code(i == 0 ? 0 : 1);
        expect_in(last.out, ", 1 bad");
        sh("$dcpk cache %s --json", actions[i]);
        expect_code(i == 0 ? 0 : 1);
        json_t *rows = shell_json();
        unsigned good = 0, bad = 0;
        for (size_t r = 0; r < json_array_size(rows); r++) {
            json_t *row = json_array_get(rows, r);
            const char *state = json_string_value(json_object_get(row, "state"));
            const char *spec = json_string_value(json_object_get(row, "spec"));
            const char *reason = json_string_value(json_object_get(row, "reason"));
            ck_assert(state && spec && reason);
            good += strcmp(state, "good") == 0 && strncmp(spec, "query_norm arch=", 16) == 0 && reason[0] == '\0';
            bad += strcmp(state, "good") != 0 && reason[0] != '\0';
        }
        ck_assert_uint_eq(good, 1);
        ck_assert_uint_eq(bad, 1);
        json_decref(rows);
    }
}
END_TEST

START_TEST(cache_command_shows_what_it_can_beside_a_shard_that_it_cannot) {
    sh("mkdir -p -m 700 \"$DCPK_CACHE_DIR\" && mkdir -m 770 \"$DCPK_CACHE_DIR/00\" && chmod 770 "
       "\"$DCPK_CACHE_DIR/00\"");
    expect_code(0);
    static const char *const actions[] = {"ls", "verify", "clear"}, *const shown[] = {"0 bad", "0 bad", "removed "};
    for (size_t i = 0; i < 3; i++) {
        sh("$dcpk cache %s", actions[i]);
        expect_code(1);
        expect_in(last.out, shown[i]);
        expect_in(last.err, "/00 may be written by its group");
        sh("$dcpk cache %s --json", actions[i]);
        expect_code(1);
        json_decref(shell_json());
    }
    sh("rmdir \"$DCPK_CACHE_DIR/00\" && $dcpk cache verify");
    expect_code(0);
}
END_TEST

/* The definition that make gives the compiler for a copy of the sources. */
static void generator_id(char *id, size_t capacity) {
    sh("cd copy && env -u MAKEFLAGS -u MAKELEVEL make -n V=1 BUILD=b b/gen/key.o | grep -o 'DCPK_GENERATOR_ID=[^ ]*'");
    expect_code(0);
    snprintf(id, capacity, "%s", last.out);
    ck_assert_uint_gt(strlen(id), strlen("DCPK_GENERATOR_ID=\n"));
}

START_TEST(cache_edited_source_that_shapes_ptx_or_launch_data_is_a_miss) {
    static const char *const files[] = {"include/dcpk/args.def",
                                        "include/dcpk/box.def",
                                        "include/dcpk/keys.def",
                                        "include/dcpk/image.h",
                                        "gen/instructions.def",
                                        "gen/lint.c",
                                        "gen/host.h",
                                        "runtime/spec_rules.c",
                                        "runtime/spec.c",
                                        "runtime/arch.def",
                                        "runtime/keys.h",
                                        "runtime/names.c",
                                        "runtime/image_meta.c",
                                        "runtime/image_format.h",
                                        "runtime/cubin.c"};
    char before[200], after[200];
    sh("mkdir -p copy/tests copy/tools copy/b/gen && cp -r '%s/Makefile' '%s/gen' '%s/include' '%s/runtime' copy/ && "
       "cp -r '%s/tools/packaging' copy/tools/",
       here, here, here, here, here);
    expect_code(0);
    generator_id(before, sizeof before);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        sh("cd copy && echo '/* */' >>%s", files[i]);
        generator_id(after, sizeof after);
        ck_assert_msg(strcmp(before, after) != 0, "%s", files[i]);
        memcpy(before, after, sizeof before);
        /* An object that is newer than all else but that file is made anew. */
        sh("cd copy && touch b/gen/key.o && touch -d '+1 minute' %s && ! env -u MAKEFLAGS -u MAKELEVEL make -q BUILD=b "
           "b/gen/key.o && rm b/gen/key.o && touch %s",
           files[i], files[i]);
        ck_assert_msg(last.code == 0, "%s: %s", files[i], last.err);
    }
    sh("cd copy && echo '/* */' >>runtime/launch.c");
    generator_id(after, sizeof after);
    ck_assert_str_eq(before, after); /* what only runs kernels changes no key */
}
END_TEST

int main(void) {
    if (!getcwd(here, sizeof here)) return 1;
    Suite *suite = suite_create("cache_command");
    TCase *tcase = tcase_create("command");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, shell_setup, shell_teardown);
    tcase_add_test(tcase, cache_command_takes_only_the_options_of_its_action);
    tcase_add_test(tcase, cache_command_speaks_json_where_it_is_asked);
    tcase_add_test(tcase, cache_list_calls_nothing_good_that_is_damaged);
    tcase_add_test(tcase, cache_command_shows_what_it_can_beside_a_shard_that_it_cannot);
    tcase_add_test(tcase, cache_edited_source_that_shapes_ptx_or_launch_data_is_a_miss);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
