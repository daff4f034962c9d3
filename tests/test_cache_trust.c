/* test_cache_trust.c - a cubin is code: folders and entries that others may write to are refused with the command that
 * mends them; every such trouble, like a folder that cannot be written, costs one warning and never the build. */
#include "tests/building.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STRANGER = 12345, NOBODY = 65534 };

static bool am_root(void) {
    if (geteuid() == 0) return true;
    fprintf(stderr, "not root: tests with files of other users pass without doing so\n");
    return false;
}

/* Builds "tiny" and expects an image, nothing cached, one warning that holds every one of the words. */
static void expect_memory_only(const char *cache, const char *const *words) {
    dcpk_build_report report;
    log_reset();
    dcpk_gen *gen = open_gen_with(fake_path, cache, NULL);
    for (int batch = 1; batch <= 2; batch++) {
        dcpk_image_free(build_tiny(gen, batch, &report));
        ck_assert_uint_eq(report.hit, 0);
        ck_assert_uint_eq(report.cached, 0);
    }
    dcpk_image_free(build_tiny(gen, 1, &report));
    ck_assert_uint_eq(report.hit, 1);
    ck_assert_msg(logged.warnings == 1, "%u warnings: %s", logged.warnings, logged.all);
    for (; *words; words++)
        ck_assert_msg(strstr(logged.last_warning, *words), "no '%s' in: %s", *words, logged.last_warning);
    dcpk_gen_close(gen);
}

START_TEST(cache_folder_that_everyone_may_write_is_refused_with_the_chmod) {
    static const mode_t modes[] = {0777, 0770, 0702};
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    char fix[160];
    snprintf(fix, sizeof fix, "chmod -R go-w '%s'", cache_folder);
    const char *words[] = {fix, NULL};
    ck_assert_int_eq(mkdir(cache_folder, 0700), 0);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        ck_assert_int_eq(chmod(cache_folder, modes[i]), 0);
        expect_memory_only(NULL, words);
        char *names = list_cache();
        ck_assert_str_eq(names, "");
        free(names);
    }
    /* The command that it shows mends it. */
    ck_assert_int_eq(system(fix), 0);
    dcpk_build_report report;
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, &report));
    ck_assert_uint_eq(report.cached, 1);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(cache_calls_on_an_untrusted_folder_say_so) {
    const char *path = NULL;
    uint64_t removed = 0;
    dcpk_image *image = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    ck_assert_int_eq(mkdir(cache_folder, 0700), 0);
    ck_assert_int_eq(chmod(cache_folder, 0777), 0);
    dcpk_gen *gen = open_gen(fake_path);
    ck_assert_int_eq(dcpk_cache_path(gen, &path, &error), DCPK_OK);
    ck_assert_str_eq(path, "");
    ck_assert_int_eq(dcpk_cache_clear(gen, &removed, &error), DCPK_E_UNTRUSTED);
    ck_assert_int_eq(dcpk_cache_get(gen, "01234567", &image, &error), DCPK_E_UNTRUSTED);
    ck_assert_msg(strstr(error.text, "chmod -R go-w") && strstr(error.text, "' && dcpk cache clear"), "%s", error.text);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(cache_folder_of_a_stranger_is_refused_with_the_chown) {
    if (!have_ptxas() || !am_root()) return;
    give_orders("mode good\n");
    char fix[160];
    snprintf(fix, sizeof fix, "chown -R 0 '%s'", cache_folder);
    const char *words[] = {fix, "12345", NULL};
    ck_assert_int_eq(mkdir(cache_folder, 0700), 0);
    ck_assert_int_eq(chown(cache_folder, STRANGER, STRANGER), 0);
    expect_memory_only(NULL, words);
    char *names = list_cache();
    ck_assert_str_eq(names, "");
    free(names);
    setenv("DCPK_CACHE_TRUST_UID", "12345", 1);
    dcpk_build_report report;
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, &report));
    ck_assert_uint_eq(report.cached, 1);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(cache_shard_that_everyone_may_write_is_not_used) {
    dcpk_build_report report;
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, &report));
    dcpk_gen_close(gen);
    char shard[160];
    snprintf(shard, sizeof shard, "%s/%.2s", cache_folder, report.key);
    ck_assert_int_eq(chmod(shard, 0777), 0);
    log_reset();
    gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, &report));
    ck_assert_uint_eq(report.hit, 0);
    ck_assert_uint_eq(report.cached, 0);
    ck_assert_msg(logged.warnings == 1 && strstr(logged.last_warning, "chmod"), "%s", logged.all);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(cache_entry_that_others_may_write_is_a_miss_and_stays) {
    dcpk_build_report report;
    char path[256], fix[300];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, &report));
    dcpk_gen_close(gen);
    snprintf(path, sizeof path, "%s", only_file(".dcpk"));
    for (int round = 0; round < (am_root() ? 2 : 1); round++) {
        ck_assert_int_eq(round == 0 ? chmod(path, 0666) : chmod(path, 0644), 0);
        if (round == 1) ck_assert_int_eq(chown(path, STRANGER, STRANGER), 0);
        log_reset();
        gen = open_gen(fake_path);
        dcpk_image_free(build_tiny(gen, 1, &report));
        ck_assert_uint_eq(report.hit, 0);
        ck_assert_uint_eq(report.cached, 0);
        ck_assert_msg(logged.warnings == 1, "%s", logged.all);
        snprintf(fix, sizeof fix, "run: rm '%s'", path); /* its bytes may be anybody's already: not chmod */
        ck_assert_msg(strstr(logged.last_warning, fix) && !strstr(logged.last_warning, "chmod"), "%s",
                      logged.last_warning);
        dcpk_gen_close(gen);
    }
    ck_assert_uint_eq(count_files(".dcpk"), 1);
    ck_assert_int_eq(system(fix + strlen("run: ")), 0); /* the command that it shows mends it */
    gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, &report));
    ck_assert_uint_eq(report.cached, 1);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(cache_follows_no_link_that_lies_in_it) {
    dcpk_build_report report;
    char path[256], aside[256];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, &report));
    dcpk_gen_close(gen);
    snprintf(path, sizeof path, "%s", only_file(".dcpk"));
    snprintf(aside, sizeof aside, "%s/aside", place);
    ck_assert_int_eq(rename(path, aside), 0);
    ck_assert_int_eq(symlink(aside, path), 0);
    gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, &report));
    ck_assert_uint_eq(report.hit, 0);
    dcpk_gen_close(gen);
}
END_TEST

static unsigned untrusted, good;
static int32_t count_states(void *self, const dcpk_cache_entry *entry) {
    (void)self;
    untrusted += entry->state == DCPK_E_UNTRUSTED && strstr(entry->reason, "rm -r '") != NULL;
    good += entry->state == DCPK_OK;
    return 0;
}

/* A link (kind 0), a folder that holds something (1), a FIFO (2). */
static void put_in_the_way(const char *path, int kind) {
    char below[300];
    unlink(path);
    snprintf(below, sizeof below, "%s/kept", path);
    if (kind == 0) ck_assert_int_eq(symlink("/nowhere", path), 0);
    if (kind == 1) ck_assert_int_eq(mkdir(path, 0700), 0);
    if (kind == 1) put_text(below, "somebody's\n");
    if (kind == 2) ck_assert_int_eq(mkfifo(path, 0600), 0);
}

START_TEST(cache_entry_that_is_no_file_is_told_once_with_the_rm_that_mends_it) {
    dcpk_build_report report;
    char path[256], fix[300], key[33];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    for (int kind = 0; kind < 3; kind++) {
        dcpk_gen *gen = open_gen(fake_path);
        dcpk_image_free(build_tiny(gen, 1, &report));
        memcpy(key, report.key, sizeof key);
        dcpk_image_free(build_tiny(gen, 2, NULL));
        dcpk_gen_close(gen);
        snprintf(path, sizeof path, "%s/%.2s/%s.dcpk", cache_folder, key, key);
        snprintf(fix, sizeof fix, "rm -r '%s'", path);
        put_in_the_way(path, kind);
        log_reset();
        gen = open_gen(fake_path);
        dcpk_image_free(build_tiny(gen, 1, &report));
        ck_assert_uint_eq(report.hit, 0);
        ck_assert_uint_eq(report.cached, 0);
        ck_assert_msg(logged.warnings == 1, "%u warnings: %s", logged.warnings, logged.all);
        ck_assert_msg(strstr(logged.last_warning, fix), "no '%s' in: %s", fix, logged.last_warning);
        untrusted = good = 0;
        ck_assert_int_eq(dcpk_cache_visit(gen, 1, count_states, NULL, NULL), DCPK_OK);
        ck_assert_uint_eq(untrusted, 1);
        ck_assert_uint_eq(good, 1);
        dcpk_gen_close(gen);
        ck_assert_int_eq(system(fix), 0); /* the command that it shows mends it */
        log_reset();
        gen = open_gen(fake_path);
        dcpk_image_free(build_tiny(gen, 1, &report));
        ck_assert_uint_eq(report.cached, 1);
        ck_assert_uint_eq(logged.warnings, 0);
        dcpk_gen_close(gen);
    }
}
END_TEST

START_TEST(cache_manifest_and_shard_that_are_something_else_are_told_once_with_the_rm) {
    dcpk_build_report report;
    char path[256], fix[300];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    for (int kind = 0; kind < 2; kind++) {
        dcpk_gen *gen = open_gen(fake_path);
        dcpk_image_free(build_tiny(gen, 1, &report));
        dcpk_gen_close(gen);
        snprintf(path, sizeof path, "%s", only_file(".manifest"));
        if (kind == 0) {
            put_in_the_way(path, 1);
        } else {
            snprintf(path, sizeof path, "%s/%.2s", cache_folder, report.key);
            char line[300];
            snprintf(line, sizeof line, "rm -r '%s'", path);
            ck_assert_int_eq(system(line), 0);
            put_in_the_way(path, 0);
        }
        snprintf(fix, sizeof fix, "rm %s'%s'", kind == 0 ? "-r " : "", path);
        log_reset();
        gen = open_gen(fake_path);
        dcpk_image_free(build_tiny(gen, 1, &report));
        ck_assert_msg(logged.warnings == 1, "%u warnings: %s", logged.warnings, logged.all);
        ck_assert_msg(strstr(logged.last_warning, fix), "no '%s' in: %s", fix, logged.last_warning);
        dcpk_gen_close(gen);
        ck_assert_int_eq(system(fix), 0);
        for (int round = 0; round < 2; round++) {
            log_reset();
            gen = open_gen(fake_path);
            dcpk_image_free(build_tiny(gen, 1, &report));
            ck_assert_uint_eq(report.cached, 1);
            ck_assert_uint_eq(logged.warnings, 0);
            dcpk_gen_close(gen);
        }
        ck_assert_uint_eq(report.hit, 2);
    }
}
END_TEST

/* Runs body in a child that is nobody; root may write anywhere. Passes for a caller that is not root as it is. */
static void as_nobody(void (*body)(void)) {
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) _exit(3);
        body();
        _exit(0);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child says %d", status);
}

/* ck_assert in a forked child of a test would report twice: plain exits instead. */
#define must(condition, code)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n%s\n", __FILE__, __LINE__, #condition, logged.all);                            \
            _exit(code);                                                                                               \
        }                                                                                                              \
    } while (0)

static void use_read_only(void) {
    dcpk_build_report report;
    log_reset();
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image *image = build_tiny(gen, 1, &report); /* warm: the folder serves it */
    must(report.hit == 2 && report.cached == 1 && report.compiled == 0, 10);
    must(logged.warnings == 0, 11);
    dcpk_image_free(image);
    for (int batch = 2; batch <= 4; batch++) {
        image = build_tiny(gen, batch, &report);
        must(report.hit == 0 && report.cached == 0, 12);
        dcpk_image_free(image);
    }
    must(logged.warnings == 1, 13);
    must(strstr(logged.last_warning, "not cached") != NULL, 14);
    dcpk_gen_close(gen);
}

START_TEST(cache_folder_that_is_read_only_serves_hits_and_costs_one_warning) {
    char line[512];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, NULL));
    dcpk_gen_close(gen);
    char *before = list_cache();
    snprintf(line, sizeof line, "find '%s' -type d -exec chmod 0555 {} +; touch '%s/starts'; chmod 0666 '%s/starts'",
             cache_folder, fake_folder, fake_folder);
    ck_assert_int_eq(system(line), 0);
    as_nobody(use_read_only);
    char *after = list_cache();
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
    snprintf(line, sizeof line, "find '%s' -type d -exec chmod 0755 {} +", cache_folder);
    ck_assert_int_eq(system(line), 0);
}
END_TEST

static void use_nothing(void) {
    dcpk_build_report report;
    static const char *const names[] = {"HOME", "XDG_CACHE_HOME", "DCPK_CACHE_DIR"};
    for (size_t i = 0; i < 3; i++)
        unsetenv(names[i]);
    setenv("HOME", "/proc/nowhere", 1); /* no folder can be made there */
    dcpk_gen_options options = {.size = sizeof options, .template_path = template_folder, .ptxas = fake_path};
    dcpk_gen *gen = NULL;
    must(dcpk_gen_open(&options, &gen, NULL) == DCPK_OK, 20);
    dcpk_image_free(build_tiny(gen, 1, &report));
    must(report.hit == 0 && report.cached == 0, 21);
    dcpk_gen_close(gen);
}

START_TEST(cache_home_that_cannot_be_made_is_memory_only) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    char path[160];
    snprintf(path, sizeof path, "%s/starts", fake_folder);
    put_text(path, "");
    ck_assert_int_eq(chmod(path, 0666), 0);
    as_nobody(use_nothing);
    static const char *const words[] = {"cannot create the cache folder", "/proc/nowhere", NULL};
    expect_memory_only("/proc/nowhere/dcpk", words);
}
END_TEST

START_TEST(cache_path_that_is_a_file_is_memory_only) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    put_text(cache_folder, "a file");
    static const char *const words[] = {"not using the cache folder", NULL};
    expect_memory_only(NULL, words);
}
END_TEST

START_TEST(cache_folder_is_made_for_its_owner_alone_whatever_the_umask) {
    struct stat st;
    char path[256], folder[128];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    umask(0);
    snprintf(folder, sizeof folder, "%s/a/b/dcpk", place);
    dcpk_gen *gen = open_gen_with(fake_path, folder, NULL);
    dcpk_build_report report;
    dcpk_image_free(build_tiny(gen, 1, &report));
    ck_assert_uint_eq(report.cached, 1);
    dcpk_gen_close(gen);
    static const char *const below[] = {"a", "a/b", "a/b/dcpk"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", place, below[i]);
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_uint_eq(st.st_mode & 0777, 0700);
    }
    snprintf(path, sizeof path, "%s/%.2s/%s.dcpk", folder, report.key, report.key);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0133, 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cache_trust");
    TCase *tcase = tcase_create("trust");
    tcase_set_timeout(tcase, 20);
    tcase_add_checked_fixture(tcase, building_setup, building_teardown);
    tcase_add_test(tcase, cache_folder_that_everyone_may_write_is_refused_with_the_chmod);
    tcase_add_test(tcase, cache_calls_on_an_untrusted_folder_say_so);
    tcase_add_test(tcase, cache_folder_of_a_stranger_is_refused_with_the_chown);
    tcase_add_test(tcase, cache_shard_that_everyone_may_write_is_not_used);
    tcase_add_test(tcase, cache_entry_that_others_may_write_is_a_miss_and_stays);
    tcase_add_test(tcase, cache_follows_no_link_that_lies_in_it);
    tcase_add_test(tcase, cache_entry_that_is_no_file_is_told_once_with_the_rm_that_mends_it);
    tcase_add_test(tcase, cache_manifest_and_shard_that_are_something_else_are_told_once_with_the_rm);
    tcase_add_test(tcase, cache_folder_that_is_read_only_serves_hits_and_costs_one_warning);
    tcase_add_test(tcase, cache_home_that_cannot_be_made_is_memory_only);
    tcase_add_test(tcase, cache_path_that_is_a_file_is_memory_only);
    tcase_add_test(tcase, cache_folder_is_made_for_its_owner_alone_whatever_the_umask);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
