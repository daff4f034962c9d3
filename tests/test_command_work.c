/* test_command_work.c - the command's work: builds and their cache.
 *
 * Knows nothing of the libraries' insides: a process, its output, its exit code. */
#include "tests/shell.h"

#include <check.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUE "dcp_value heads=2 dcp=2 batch=1"

/* ---- build, cache, explain ---------------------------------------------------------------------- */

static void hold_key(const json_t *object, char key[33]) {
    const char *text = json_string_value(json_object_get(object, "key"));
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(strlen(text), 32);
    ck_assert_uint_eq(strspn(text, "0123456789abcdef"), 32);
    strcpy(key, text);
}

/* From here on, ptxas is a script that leaves a line in a log each time it is started. */
static void count_compilers(void) {
    sh("real=$(command -v ptxas || echo /usr/local/cuda/bin/ptxas)\n"
       "printf '#!/bin/sh\\necho started >>%%s/starts\\nexec %%s \"$@\"\\n' \"$PWD\" \"$real\" >ptxas && chmod +x "
       "ptxas");
    expect_code(0);
    char path[128];
    snprintf(path, sizeof path, "%s/ptxas", shell_folder);
    setenv("DCPK_PTXAS", path, 1);
}

/* How often since the last call. */
static int compiler_starts(void) {
    size_t length = 0;
    char *log = shell_read_file("starts", &length);
    remove("starts");
    free(log);
    return (int)(length / strlen("started\n"));
}

START_TEST(build_says_miss_then_hit_with_the_same_key) {
    char first_key[33], key[33];
    count_compilers();
    sh("$dcpk build --json " VALUE);
    expect_code(0);
    json_t *first = shell_json();
    hold_key(first, first_key);
    ck_assert_str_eq(json_string_value(json_object_get(first, "cache")), "miss");
    ck_assert_int_ge(json_integer_value(json_object_get(first, "compilers")), 1);
    json_t *entry = json_array_get(json_object_get(first, "entries"), 0);
    ck_assert_int_gt(json_integer_value(json_object_get(entry, "registers")), 8);
    ck_assert_int_le(json_integer_value(json_object_get(entry, "registers")), 255);
    ck_assert_int_eq(json_integer_value(json_object_get(entry, "spill_bytes")), 0);
    json_decref(first);
    ck_assert_int_ge(compiler_starts(), 1);
    sh("$dcpk build --json " VALUE);
    expect_code(0);
    ck_assert_int_eq(compiler_starts(), 0);
    json_t *second = shell_json();
    hold_key(second, key);
    ck_assert_str_eq(key, first_key);
    ck_assert_str_eq(json_string_value(json_object_get(second, "cache")), "hit");
    ck_assert_int_eq(json_integer_value(json_object_get(second, "compilers")), 0);
    json_decref(second);
    sh("$dcpk build " VALUE);
    expect_in(last.out, key);
    expect_in(last.out, "hit");
    sh("$dcpk explain " VALUE);
    expect_code(0);
    expect_in(last.out, "heads=2");
    expect_in(last.out, key);
}
END_TEST

START_TEST(a_missing_compiler_is_code_3_and_one_that_fails_is_code_1) {
    sh("DCPK_PTXAS=/nonexistent/ptxas $dcpk build " VALUE);
    expect_failure(3, "DCPK_E_TOOLCHAIN");
    expect_in(last.err, "/nonexistent/ptxas");
    sh("printf '#!/bin/sh\\ncase $* in *--version*) exec ptxas --version;; esac\\necho broken >&2; exit 9\\n' >fake; "
       "chmod +x fake");
    sh("PATH=$PATH:/usr/local/cuda/bin DCPK_PTXAS=$PWD/fake $dcpk build " VALUE);
    expect_failure(1, "DCPK_E_TOOLCHAIN");
    expect_in(last.err, "broken");
}
END_TEST

START_TEST(an_entry_can_be_taken_apart) {
    char key[33];
    sh("$dcpk build --json " VALUE " -o image");
    expect_code(0);
    json_t *report = shell_json();
    hold_key(report, key);
    json_decref(report);
    size_t length;
    char *image = shell_read_file("image", &length);
    ck_assert_uint_gt(length, 4096);
    ck_assert_int_eq(memcmp(image, "\177ELF", 4), 0);
    sh("$dcpk cache extract %s -o same && cmp image same", key);
    expect_code(0);
    sh("$dcpk cache extract %.6s --cubin -o - | cmp -n 64 - image", key); /* a prefix serves */
    expect_code(0);
    sh("$dcpk gen " VALUE " >gen.ptx; $dcpk cache extract %s --ptx -o k.ptx && cmp k.ptx gen.ptx", key);
    expect_code(0);
    sh("PATH=$PATH:/usr/local/cuda/bin; ptxas -arch=sm_90a -o k.cubin k.ptx && test -s k.cubin");
    expect_code(0);
    sh("$dcpk cache extract ffffffffffffffffffffffffffffffff -o none; echo $?; test -e none");
    ck_assert_str_eq(last.out, "1\n");
    ck_assert_int_eq(last.code, 1);
    free(image);
}
END_TEST

START_TEST(verify_finds_a_damaged_entry_and_building_replaces_it) {
    sh("$dcpk build " VALUE " && $dcpk build query_norm heads=2 batch=1 && $dcpk cache verify --json");
    expect_code(0);
    sh("$dcpk cache path");
    char path[4096];
    snprintf(path, sizeof path, "%.*s", (int)strcspn(last.out, "\n"), last.out);
    ck_assert_int_eq(strncmp(path, shell_folder, strlen(shell_folder)), 0);
    sh("$dcpk cache ls | grep -c '  good  '");
    ck_assert_str_eq(last.out, "2\n");
    sh("find '%s' -type f -size +4k -exec sh -c 'printf Z | dd of=\"$1\" bs=1 seek=3000 conv=notrunc 2>&1' _ {} \\;",
       path);
    sh("$dcpk cache verify");
    expect_code(1);
    expect_in(last.out, "2 bad");
    sh("$dcpk build --json " VALUE);
    expect_code(0);
    expect_in(last.out, "\"miss\"");
    sh("$dcpk cache verify");
    expect_in(last.out, "1 bad");
    sh("$dcpk cache clear && $dcpk cache ls");
    expect_code(0);
    expect_in(last.out, "0 entries");
}
END_TEST

START_TEST(no_home_means_no_cache_and_no_failure) {
    sh("env -u DCPK_CACHE_DIR -u XDG_CACHE_HOME -u HOME $dcpk build --json " VALUE);
    expect_code(0);
    json_t *report = shell_json();
    ck_assert_str_eq(json_string_value(json_object_get(report, "cached")), "no");
    json_decref(report);
    sh("env -u DCPK_CACHE_DIR -u XDG_CACHE_HOME -u HOME $dcpk cache path");
    expect_failure(1, "memory");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("command work");
    TCase *tests = tcase_create("command work");
    tcase_add_checked_fixture(tests, shell_setup, shell_teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, build_says_miss_then_hit_with_the_same_key);
    tcase_add_test(tests, a_missing_compiler_is_code_3_and_one_that_fails_is_code_1);
    tcase_add_test(tests, an_entry_can_be_taken_apart);
    tcase_add_test(tests, verify_finds_a_damaged_entry_and_building_replaces_it);
    tcase_add_test(tests, no_home_means_no_cache_and_no_failure);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
