/* test_cache_versions.c - this version and one of the future (tests/program_other_version.c) share a cache folder: each
 * finds its own entries, neither takes the other's, and what this one does not know it neither removes nor counts. */
#include "tests/building.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a command below the folder of build programs prints; it ends with 0. Static. */
static const char *run(const char *command) {
    static char text[4096];
    char line[6000], program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    ck_assert_int_gt(length, 0);
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    snprintf(line, sizeof line, "'%s'/%s 2>&1", program, command);
    FILE *pipe = popen(line, "r");
    ck_assert_ptr_nonnull(pipe);
    text[fread(text, 1, sizeof text - 1, pipe)] = '\0';
    ck_assert_msg(pclose(pipe) == 0, "%s: %s", command, text);
    return text;
}

/* What the other version prints. */
static const char *other(uint64_t max, const char *action) {
    char command[600];
    snprintf(command, sizeof command, "other_version '%s' '%s' '%s' %llu %s", cache_folder, template_folder, fake_path,
             (unsigned long long)max, action);
    return run(command);
}

/* It builds batches 1, 2, 3: each hits as `hit` says; their keys where keys is not NULL. */
static void other_builds(uint32_t hit, char keys[3][33]) {
    char found[3][33];
    unsigned hits[3];
    const char *text = other(0, "build 1 2 3");
    ck_assert_msg(sscanf(text, "1 %u %32s\n2 %u %32s\n3 %u %32s", &hits[0], found[0], &hits[1], found[1], &hits[2],
                         found[2]) == 6,
                  "%s", text);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(hits[i] == hit, "the other version hits %u, not %u: %s", hits[i], hit, text);
    if (keys) memcpy(keys, found, sizeof found);
}

static dcpk_gen *open_bounded(uint64_t max) {
    dcpk_gen_options options = {.size = sizeof options,
                                .template_path = template_folder,
                                .cache_dir = cache_folder,
                                .ptxas = fake_path,
                                .cache_max = max,
                                .log = building_log};
    dcpk_gen *gen = NULL;
    ck_assert_int_eq(dcpk_gen_open(&options, &gen, NULL), DCPK_OK);
    return gen;
}

static void this_builds(uint32_t hit, char keys[3][33]) {
    dcpk_gen *gen = open_bounded(0);
    for (int batch = 1; batch <= 3; batch++) {
        dcpk_build_report report;
        dcpk_image_free(build_tiny(gen, batch, &report));
        ck_assert_msg(report.hit == hit, "batch %d: hit %u, not %u", batch, report.hit, hit);
        if (keys) memcpy(keys[batch - 1], report.key, 33);
    }
    dcpk_gen_close(gen);
}

START_TEST(cache_of_two_versions_serves_each_its_own) {
    char ours[3][33], theirs[3][33];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    this_builds(0, ours);
    other_builds(0, theirs);
    ck_assert_uint_eq(starts_of("assemble"), 6);
    ck_assert_uint_eq(starts_of("version"), 1); /* what the compiler is, they tell each other */
    this_builds(2, NULL);
    other_builds(2, NULL);
    ck_assert_uint_eq(starts_of("assemble"), 6);
    ck_assert_uint_eq(count_files(".dcpk"), 6);
    ck_assert_uint_eq(count_files(".manifest"), 6);
    for (int i = 0; i < 3; i++)
        ck_assert_str_ne(ours[i], theirs[i]);
    ck_assert_msg(logged.warnings == 0, "%s", logged.all);
}
END_TEST

static unsigned good, unknown, bad;
static int32_t count(void *self, const dcpk_cache_entry *entry) {
    (void)self;
    good += entry->state == DCPK_OK;
    unknown += entry->state == DCPK_E_NOT_FOUND && strstr(entry->reason, "format 2") != NULL;
    bad += entry->state != DCPK_OK && entry->state != DCPK_E_NOT_FOUND;
    return 0;
}

START_TEST(cache_verify_tells_a_newer_version_from_damage) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    this_builds(0, NULL);
    other_builds(0, NULL);
    dcpk_gen *gen = open_bounded(0);
    ck_assert_int_eq(dcpk_cache_visit(gen, 1, count, NULL, NULL), DCPK_OK);
    ck_assert_uint_eq(good, 3);
    ck_assert_uint_eq(unknown, 3);
    ck_assert_uint_eq(bad, 0);
    dcpk_gen_close(gen);
    setenv("DCPK_CACHE_DIR", cache_folder, 1);
    const char *text = run("../dcpk cache verify"); /* and ends with 0 */
    ck_assert_msg(strstr(text, "6 entries, ") && strstr(text, " 0 bad, 3 of a newer version\n"), "%s", text);
}
END_TEST

START_TEST(cache_clear_leaves_the_newer_versions_entries) {
    uint64_t removed = 0;
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    this_builds(0, NULL);
    other_builds(0, NULL);
    dcpk_gen *gen = open_bounded(0);
    ck_assert_int_eq(dcpk_cache_clear(gen, &removed, NULL), DCPK_OK);
    dcpk_gen_close(gen);
    ck_assert_uint_eq(count_files(".dcpk"), 3);
    other_builds(2, NULL);
    this_builds(0, NULL);
    ck_assert_str_eq(other(0, "verify"), "3 0 3\n"); /* the future knows of the past, and that it is of no use to it */
}
END_TEST

START_TEST(cache_bound_neither_counts_nor_removes_what_a_newer_version_wrote) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    other_builds(0, NULL);
    dcpk_build_report report;
    dcpk_gen *gen = open_bounded(0);
    dcpk_image *image = build_tiny(gen, 1, &report);
    size_t entry = 0;
    dcpk_image_bytes(image, &entry);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
    for (int batch = 1; batch <= 12; batch++) { /* two of ours fit: theirs alone are more */
        gen = open_bounded(5 * entry / 2);
        dcpk_image_free(build_tiny(gen, batch, &report));
        ck_assert_uint_eq(report.cached, 1);
        dcpk_gen_close(gen);
    }
    ck_assert_uint_le(count_files(".dcpk"), 3 + 2);
    ck_assert_uint_gt(count_files(".dcpk"), 3);
    other_builds(2, NULL);
    ck_assert_msg(logged.warnings == 0, "%s", logged.all);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cache_versions");
    TCase *tcase = tcase_create("versions");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, building_setup, building_teardown);
    tcase_add_test(tcase, cache_of_two_versions_serves_each_its_own);
    tcase_add_test(tcase, cache_verify_tells_a_newer_version_from_damage);
    tcase_add_test(tcase, cache_clear_leaves_the_newer_versions_entries);
    tcase_add_test(tcase, cache_bound_neither_counts_nor_removes_what_a_newer_version_wrote);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
