/* test_cache_faults.c - every system call of a build fails once: the build gives the right image or a clean error,
 * leaves no temporary, no open descriptor and no child, and the next build is right. */
#include "tests/building.h"
#include "tests/faulty_system.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* Two builds (a miss, then a hit from the folder), with the n-th call failing. */
static void build_twice(unsigned n, int reason, const void *wanted, size_t wanted_length) {
    dcpk_error error;
    unsigned before = open_descriptors();
    fault_nth(n, reason);
    for (int round = 0; round < 2; round++) {
        dcpk_image *image = NULL;
        dcpk_gen *gen = open_gen_with(fake_path, NULL, &faulty_system);
        dcpk_status status = try_tiny(gen, 1, &image, NULL, &error);
        ck_assert_int_eq(status == DCPK_OK, image != NULL);
        if (status == DCPK_OK) {
            size_t length = 0;
            const void *bytes = dcpk_image_bytes(image, &length);
            ck_assert_uint_eq(length, wanted_length);
            ck_assert_mem_eq(bytes, wanted, length);
        } else {
            ck_assert_msg(status == error.code && error.text[0], "call %u (%s): %d without a word", n, fault.name,
                          status);
            ck_assert_msg(status == DCPK_E_TOOLCHAIN, "call %u (%s): %s", n, fault.name, error.text);
        }
        dcpk_image_free(image);
        dcpk_gen_close(gen);
    }
    ck_assert_msg(open_descriptors() == before, "call %u (%s) leaks a descriptor", n, fault.name);
    ck_assert_msg(count_temporaries() == 0, "call %u (%s) leaves a temporary", n, fault.name);
    ck_assert_msg(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "call %u (%s) leaves a child", n, fault.name);
}

static void empty_cache(void) {
    char line[256];
    snprintf(line, sizeof line, "rm -rf '%s'", cache_folder);
    ck_assert_int_eq(system(line), 0);
}

/* With real processes and a real disk; test_cache_sweep.c knows more reasons. */
START_TEST(cache_build_survives_the_failure_of_any_one_system_call) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image *reference = build_tiny(gen, 1, NULL);
    dcpk_gen_close(gen);
    size_t length = 0;
    const void *wanted = dcpk_image_bytes(reference, &length);
    unsigned n = 0;
    do {
        empty_cache();
        build_twice(++n, EIO, wanted, length);
        /* Whatever happened, the next one is right. */
        dcpk_build_report report;
        gen = open_gen(fake_path);
        dcpk_image *image = build_tiny(gen, 1, &report);
        ck_assert_mem_eq(dcpk_image_bytes(image, NULL), wanted, length);
        ck_assert_uint_eq(report.cached, 1);
        dcpk_image_free(image);
        dcpk_gen_close(gen);
    } while (fault.failures > 0);
    ck_assert_uint_gt(n, 60); /* as many calls as a cold and a warm build make */
    dcpk_image_free(reference);
}
END_TEST

/* A build while one kind of call always fails: an image, one warning at most, nothing left. */
static void expect_image(const char *name, const char *path, int reason, unsigned warnings, uint32_t cached) {
    dcpk_build_report report;
    empty_cache();
    log_reset();
    fault_all(name, path, reason);
    dcpk_gen *gen = open_gen_with(fake_path, NULL, &faulty_system);
    dcpk_image *image = build_tiny(gen, 1, &report);
    ck_assert_msg(fault.failures > 0, "%s was never called", name);
    ck_assert_msg(logged.warnings == warnings, "%s: %u warnings: %s", name, logged.warnings, logged.all);
    ck_assert_msg(report.cached == cached, "%s: cached %u", name, report.cached);
    fault_nth(0, 0);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
}

START_TEST(cache_trouble_of_network_file_systems_costs_one_warning) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    expect_image("unlink", NULL, EBUSY, 1, 1); /* published, but the temporary will not go */
    expect_image("open", ".dcpk", ENOENT, 0, 1);
    expect_image("open", ".dcpk", ESTALE, 0, 1);
    expect_image("lock", NULL, ENOLCK, 0, 1);
    expect_image("link", NULL, EPERM, 0, 1); /* no hard links there: renamed, then */
    expect_image("link", NULL, EBUSY, 1, 0);
    expect_image("sync", NULL, EIO, 1, 0);
    expect_image("make_folder", NULL, EROFS, 1, 0);
    expect_image("random_bytes", NULL, ENOSYS, 0, 1);
    expect_image("rename", NULL, EIO, 0, 1); /* no manifest: no warning, the entry is there */
    ck_assert_uint_eq(count_temporaries(), 0);
}
END_TEST

START_TEST(cache_full_disk_is_one_warning_for_many_builds) {
    dcpk_build_report report;
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    empty_cache();
    log_reset();
    fault_all("sync", NULL, ENOSPC); /* where delayed allocation says it */
    dcpk_gen *gen = open_gen_with(fake_path, NULL, &faulty_system);
    for (int batch = 1; batch <= 5; batch++) {
        dcpk_image_free(build_tiny(gen, batch, &report));
        ck_assert_uint_eq(report.cached, 0);
    }
    ck_assert_msg(logged.warnings == 1 && strstr(logged.last_warning, "No space"), "%s", logged.all);
    ck_assert_uint_eq(count_files(".dcpk") + count_temporaries(), 0);
    dcpk_gen_close(gen);
}
END_TEST

static volatile sig_atomic_t alarms;
static void on_alarm(int number) {
    (void)number;
    alarms++;
}

START_TEST(cache_builds_go_on_through_a_storm_of_signals) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART: calls end with EINTR */
    ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
    const struct itimerval storm = {{0, 300}, {0, 300}}, calm = {0};
    unsigned before = open_descriptors();
    ck_assert_int_eq(setitimer(ITIMER_REAL, &storm, NULL), 0);
    for (int round = 0; round < 40; round++) {
        dcpk_build_report report;
        dcpk_gen *gen = open_gen(fake_path);
        dcpk_image_free(build_tiny(gen, 1 + round / 2, &report));
        ck_assert_uint_eq(report.hit, round % 2 ? 2 : 0);
        ck_assert_uint_eq(report.cached, 1);
        dcpk_gen_close(gen);
    }
    ck_assert_int_eq(setitimer(ITIMER_REAL, &calm, NULL), 0);
    ck_assert_int_gt(alarms, 40);
    ck_assert_msg(logged.warnings == 0, "%s", logged.all);
    ck_assert_uint_eq(open_descriptors(), before);
    ck_assert_uint_eq(count_temporaries(), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cache_faults");
    TCase *tcase = tcase_create("faults");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, building_setup, building_teardown);
    tcase_add_test(tcase, cache_build_survives_the_failure_of_any_one_system_call);
    tcase_add_test(tcase, cache_trouble_of_network_file_systems_costs_one_warning);
    tcase_add_test(tcase, cache_full_disk_is_one_warning_for_many_builds);
    tcase_add_test(tcase, cache_builds_go_on_through_a_storm_of_signals);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
