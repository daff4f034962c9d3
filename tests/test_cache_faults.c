/* test_cache_faults.c - every system call of a build fails once: the build gives the right image or a clean error,
 * leaves no temporary, no open descriptor and no child, and the next build is right. */
#include "gen/system.h"
#include "tests/building.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The call that fails: the n-th of all (0: none), or every one of a name. */
static unsigned call_count, fail_at;
static const char *fail_name, *fail_path;
static int fail_errno, failures;
static char failed_call[64];

/* True when this call is the one to fail; errno is set. */
static bool must_fail(const char *name, const char *path) {
    call_count++;
    bool hit = fail_at ? call_count == fail_at
                       : fail_name && strcmp(name, fail_name) == 0 && (!fail_path || (path && strstr(path, fail_path)));
    if (!hit) return false;
    failures++;
    snprintf(failed_call, sizeof failed_call, "%s", name);
    errno = fail_errno;
    return true;
}

/* What a failing call does besides failing. close: Linux closes the descriptor all the same. */
static void on_failure_close(int fd) {
    system_calls.close(fd);
    errno = fail_errno;
}

#define PLAIN(type, name, parameters, arguments, path)                                                                 \
    static type faulty_##name parameters {                                                                             \
        return must_fail(#name, path) ? (type)-1 : system_calls.name arguments;                                        \
    }
PLAIN(int, open, (int dir, const char *path, int flags, mode_t mode), (dir, path, flags, mode), path)
PLAIN(int, stat_fd, (int fd, struct stat *st), (fd, st), NULL)
PLAIN(int, stat_at, (int dir, const char *name, struct stat *st), (dir, name, st), name)
PLAIN(int, touch, (int fd), (fd), NULL)
PLAIN(int, stat_path, (const char *path, struct stat *st), (path, st), path)
PLAIN(int, make_folder, (int dir, const char *path, mode_t mode), (dir, path, mode), path)
PLAIN(int, list_folder, (int dir, char **names, size_t *bytes), (dir, names, bytes), NULL)
PLAIN(ssize_t, read, (int fd, void *to, size_t bytes, off_t offset), (fd, to, bytes, offset), NULL)
PLAIN(ssize_t, write, (int fd, const void *from, size_t bytes), (fd, from, bytes), NULL)
PLAIN(int, sync, (int fd), (fd), NULL)
PLAIN(int, link, (int dir, const char *from, const char *to), (dir, from, to), to)
PLAIN(int, rename, (int dir, const char *from, const char *to), (dir, from, to), to)
PLAIN(int, unlink, (int dir, const char *path), (dir, path), path)
PLAIN(int, lock, (int fd, int64_t offset), (fd, offset), NULL)
PLAIN(int, random_bytes, (void *to, size_t bytes), (to, bytes), NULL)
PLAIN(int, memory_file, (const char *name), (name), name)
PLAIN(int, pipe, (int ends[2]), (ends), NULL)
PLAIN(ssize_t, read_pipe, (int fd, void *to, size_t bytes), (fd, to, bytes), NULL)
PLAIN(int, poll, (int fd, int ms), (fd, ms), NULL)
PLAIN(int, spawn, (const struct spawn_request *request, pid_t *pid), (request, pid), request->path)
PLAIN(pid_t, wait, (pid_t pid, int *status), (pid, status), NULL)
PLAIN(int, kill_group, (pid_t group), (group), NULL)

static int faulty_close(int fd) {
    if (!must_fail("close", NULL)) return system_calls.close(fd);
    on_failure_close(fd);
    return -1;
}

static const struct system faulty = {
#define S(type, name, parameters, arguments) .name = faulty_##name,
#include "gen/system.def"
#undef S
};

static void fail_nth(unsigned n, int reason) {
    call_count = 0;
    fail_at = n;
    fail_name = NULL;
    fail_errno = reason;
    failures = 0;
}

static void fail_all(const char *name, const char *path, int reason) {
    fail_nth(0, reason);
    fail_name = name;
    fail_path = path;
}

static unsigned open_descriptors(void) {
    unsigned count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Two builds (a miss, then a hit from the folder), with the n-th call failing. */
static void build_twice(unsigned n, int reason, const void *wanted, size_t wanted_length) {
    dcpk_error error;
    unsigned before = open_descriptors();
    fail_nth(n, reason);
    for (int round = 0; round < 2; round++) {
        dcpk_image *image = NULL;
        dcpk_gen *gen = open_gen_with(fake_path, NULL, &faulty);
        dcpk_status status = try_tiny(gen, 1, &image, NULL, &error);
        ck_assert_int_eq(status == DCPK_OK, image != NULL);
        if (status == DCPK_OK) {
            size_t length = 0;
            const void *bytes = dcpk_image_bytes(image, &length);
            ck_assert_uint_eq(length, wanted_length);
            ck_assert_mem_eq(bytes, wanted, length);
        } else {
            ck_assert_msg(status == error.code && error.text[0], "call %u (%s): %d without a word", n, failed_call,
                          status);
            ck_assert_msg(status == DCPK_E_TOOLCHAIN, "call %u (%s): %s", n, failed_call, error.text);
        }
        dcpk_image_free(image);
        dcpk_gen_close(gen);
    }
    ck_assert_msg(open_descriptors() == before, "call %u (%s) leaks a descriptor", n, failed_call);
    ck_assert_msg(count_temporaries() == 0, "call %u (%s) leaves a temporary", n, failed_call);
    ck_assert_msg(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "call %u (%s) leaves a child", n, failed_call);
}

static void empty_cache(void) {
    char line[256];
    snprintf(line, sizeof line, "rm -rf '%s'", cache_folder);
    ck_assert_int_eq(system(line), 0);
}

START_TEST(cache_build_survives_the_failure_of_any_one_system_call) {
    static const int reasons[] = {EIO, ENOSPC};
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image *reference = build_tiny(gen, 1, NULL);
    dcpk_gen_close(gen);
    size_t length = 0;
    const void *wanted = dcpk_image_bytes(reference, &length);
    for (size_t r = 0; r < sizeof reasons / sizeof reasons[0]; r++) {
        unsigned n = 0;
        do {
            empty_cache();
            build_twice(++n, reasons[r], wanted, length);
            /* Whatever happened, the next one is right. */
            dcpk_build_report report;
            gen = open_gen(fake_path);
            dcpk_image *image = build_tiny(gen, 1, &report);
            ck_assert_mem_eq(dcpk_image_bytes(image, NULL), wanted, length);
            ck_assert_uint_eq(report.cached, 1);
            dcpk_image_free(image);
            dcpk_gen_close(gen);
        } while (failures > 0);
        ck_assert_uint_gt(n, 60); /* as many calls as a cold and a warm build make */
    }
    dcpk_image_free(reference);
}
END_TEST

/* A build while one kind of call always fails: an image, one warning at most, nothing left. */
static void expect_image(const char *name, const char *path, int reason, unsigned warnings, uint32_t cached) {
    dcpk_build_report report;
    empty_cache();
    log_reset();
    fail_all(name, path, reason);
    dcpk_gen *gen = open_gen_with(fake_path, NULL, &faulty);
    dcpk_image *image = build_tiny(gen, 1, &report);
    ck_assert_msg(failures > 0, "%s was never called", name);
    ck_assert_msg(logged.warnings == warnings, "%s: %u warnings: %s", name, logged.warnings, logged.all);
    ck_assert_msg(report.cached == cached, "%s: cached %u", name, report.cached);
    fail_nth(0, 0);
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
    expect_image("link", NULL, EPERM, 1, 0);
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
    fail_all("sync", NULL, ENOSPC); /* where delayed allocation says it */
    dcpk_gen *gen = open_gen_with(fake_path, NULL, &faulty);
    for (int batch = 1; batch <= 5; batch++) {
        dcpk_image_free(build_tiny(gen, batch, &report));
        ck_assert_uint_eq(report.cached, 0);
    }
    ck_assert_msg(logged.warnings == 1 && strstr(logged.last_warning, "No space"), "%s", logged.all);
    ck_assert_uint_eq(count_files(".dcpk") + count_temporaries(), 0);
    dcpk_gen_close(gen);
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
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
