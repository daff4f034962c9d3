/* test_pack_alone.c - packs where there is nothing else: a program that links the runtime alone runs from them, and
 * neither it nor the generator makes a file anywhere when a pack has what is asked for. */
#include "tests/shell.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Nothing to write to: no home, no cache, no temporary folder, a folder that nobody may write to. */
#define BARE "env -i PATH=\"$PATH\" LD_LIBRARY_PATH=\"$LD_LIBRARY_PATH\" ASAN_OPTIONS=\"$ASAN_OPTIONS\" "

/* $build: the folder of the programs. */
static void setup(void) {
    shell_setup();
    const char *command = getenv("dcpk");
    ck_assert_ptr_nonnull(command);
    char *dcpk = strdup(command);
    ck_assert_ptr_nonnull(dcpk);
    *strrchr(dcpk, '/') = '\0';
    ck_assert_int_eq(setenv("build", dcpk, 1), 0);
    free(dcpk);
}

/* False where nothing here assembles. The suite's tests share the compiler's work. */
static bool have_pack(void) {
    ck_assert_int_eq(mkdir("aot", 0755), 0);
    sh("DCPK_CACHE_DIR=$shared $dcpk aot heads=2 --dcp 1,2 --batch 2 -o aot/a.dcpk");
    if (last.code == 3) {
        fprintf(stderr, "skipped: nothing here assembles PTX\n");
        return false;
    }
    expect_code(0);
    sh("chmod 0444 aot/a.dcpk && chmod 0555 aot");
    expect_code(0);
    return true;
}

START_TEST(runtime_alone_runs_a_layer_from_packs) {
    if (!have_pack()) return;
    sh("DCPK_AOT_PATH=$PWD/aot/a.dcpk $build/tests/pack_layer");
    expect_code(0);
    expect_in(last.out, "right");
    sh("DCPK_AOT_PATH= $build/tests/pack_layer");
    expect_code(1);
    expect_in(last.err, "no packs are open");
}
END_TEST

/* The program of the test above and the library that it links: no generator, no Lua, no CUDA. */
START_TEST(runtime_links_neither_generator_nor_lua_nor_cuda) {
    sh("ldd $build/tests/pack_layer");
    expect_code(0);
    expect_in(last.out, "libdcpk.so");
    static const char *const others[] = {"lua", "dcpkgen", "cuda", "jansson", "nvJitLink"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        const char *at = last.out; /* library names: what stands before => */
        for (; (at = strstr(at, others[i])) != NULL; at++)
            ck_assert_msg(strchr(at, '=') == NULL || strcspn(at, "\n") < strcspn(at, "="), "%s", last.out);
    }
    sh("nm -D $build/libdcpk.so | grep -ciE ' (lua|luaL|cu[A-Z])' || true");
    expect_code(0);
    ck_assert_str_eq(last.out, "0\n");
}
END_TEST

/* Everything below the suite's folder, as the shell lists it. */
static char *listing(void) {
    sh("find aot -print | sort");
    expect_code(0);
    return strdup(last.out);
}

static bool filter_works(void) {
    sh("$build/tests/no_files true");
    if (last.code == 77)
        fprintf(stderr, "skipped: this system has no filter of system calls\n");
    else
        expect_code(0);
    return last.code == 0;
}

START_TEST(the_filter_of_these_tests_kills_whoever_makes_a_file) {
    static const char *const makers[] = {"touch x", "mkdir x", "ln -s a x", "mv aot x", "mkfifo x", "sh -c 'echo > x'"};
    ck_assert_int_eq(mkdir("aot", 0755), 0);
    if (!filter_works()) return;
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++) {
        sh("$build/tests/no_files %s", makers[i]);
        ck_assert_msg(last.code != 0, "%s is let through", makers[i]);
        ck_assert(!shell_exists("x"));
    }
}
END_TEST

START_TEST(a_pack_in_a_read_only_folder_without_home_serves_the_runtime_and_no_file_is_made) {
    if (!have_pack() || !filter_works()) return;
    char *before = listing();
    sh("w=$PWD; cd aot && " BARE "DCPK_AOT_PATH=$w/aot/a.dcpk $build/tests/no_files $build/tests/pack_layer");
    expect_code(0);
    expect_in(last.out, "right");
    char *after = listing();
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
}
END_TEST

START_TEST(a_pack_in_a_read_only_folder_without_home_serves_the_generator_and_no_file_is_made) {
    if (!have_pack() || !filter_works()) return;
    char *before = listing();
    sh("w=$PWD; cd aot && " BARE "DCPK_JIT=never DCPK_AOT_PATH=a.dcpk $build/tests/no_files $dcpk build mla_decode "
       "heads=2 dcp=2 batch=2 --json");
    expect_code(0);
    json_t *json = shell_json();
    ck_assert_int_eq(json_integer_value(json_object_get(json, "compilers")), 0);
    json_decref(json);
    /* A miss is built in memory; compilers may make files of their own, the generator makes none. */
    sh("w=$PWD; cd aot && " BARE "DCPK_AOT_PATH=a.dcpk $dcpk build mla_decode heads=2 dcp=2 batch=4");
    expect_code(0);
    char *after = listing();
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
}
END_TEST

int main(void) {
    char shared[] = "/tmp/dcpk-alone-XXXXXX", line[64];
    if (mkdtemp(shared) == NULL || setenv("shared", shared, 1) != 0) return 1;
    Suite *suite = suite_create("pack_alone");
    TCase *tests = tcase_create("pack_alone");
    tcase_set_timeout(tests, 30);
    tcase_add_checked_fixture(tests, setup, shell_teardown);
    tcase_add_test(tests, runtime_alone_runs_a_layer_from_packs);
    tcase_add_test(tests, runtime_links_neither_generator_nor_lua_nor_cuda);
    tcase_add_test(tests, the_filter_of_these_tests_kills_whoever_makes_a_file);
    tcase_add_test(tests, a_pack_in_a_read_only_folder_without_home_serves_the_runtime_and_no_file_is_made);
    tcase_add_test(tests, a_pack_in_a_read_only_folder_without_home_serves_the_generator_and_no_file_is_made);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    snprintf(line, sizeof line, "rm -rf '%s'", shared);
    if (system(line) != 0) return 1; /* NOLINT: our own words */
    return failed == 0 ? 0 : 1;
}
