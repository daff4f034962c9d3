/* test_cache_bound.c - DCPK_CACHE_MAX: the folder never holds more, the longest unused goes first, a hit counts as use,
 * and nothing that is not this version's own goes with it. */
#include "tests/building.h"
#include "tests/faulty_system.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HOUR = 3600, DAY = 24 * HOUR };

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

/* "tiny batch=N" in a generator of its own. */
static dcpk_build_report build_bounded(uint64_t max, int batch) {
    dcpk_build_report report;
    dcpk_gen *gen = open_bounded(max);
    dcpk_image_free(build_tiny(gen, batch, &report));
    dcpk_gen_close(gen);
    return report;
}

static uint64_t entry_bytes(void) {
    dcpk_gen *gen = open_gen_with(fake_path, "", NULL);
    dcpk_image *image = build_tiny(gen, 1, NULL);
    size_t length = 0;
    dcpk_image_bytes(image, &length);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
    return length;
}

static uint64_t held;
static int add_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)path, (void)ftw;
    if (type == FTW_F) held += (uint64_t)st->st_size;
    return 0;
}

static uint64_t bytes_held(void) {
    held = 0;
    nftw(cache_folder, add_one, 16, FTW_PHYS);
    return held;
}

static void path_of(char *path, size_t capacity, const char *key, const char *suffix) {
    snprintf(path, capacity, "%s/%.2s/%s%s", cache_folder, key, key, suffix);
}

static bool has_entry(const char *key) {
    char path[256];
    path_of(path, sizeof path, key, ".dcpk");
    return access(path, F_OK) == 0;
}

static void set_age(const char *path, long seconds) {
    const struct timespec then = {.tv_sec = time(NULL) - seconds};
    const struct timespec times[2] = {then, then};
    ck_assert_msg(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW) == 0, "%s", path);
}

static long age_of(const char *path) {
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    return (long)(time(NULL) - st.st_mtim.tv_sec);
}

static long everyones_age;
static int age_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)ftw;
    if (type == FTW_F) set_age(path, everyones_age);
    return 0;
}

static void set_all_ages(long seconds) {
    everyones_age = seconds;
    nftw(cache_folder, age_one, 16, FTW_PHYS);
}

START_TEST(cache_bound_holds_after_every_build) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    uint64_t max = 6 * entry_bytes();
    dcpk_gen *gen = open_bounded(max);
    for (int batch = 1; batch <= 40; batch++) { /* in one generator, and in one each */
        dcpk_build_report report;
        dcpk_image_free(build_tiny(gen, batch, &report));
        ck_assert_uint_eq(report.cached, 1);
        report = build_bounded(max, 40 + batch);
        ck_assert_uint_eq(report.cached, 1);
        ck_assert_msg(bytes_held() <= max, "%llu bytes after batch %d, not %llu", (unsigned long long)held, batch,
                      (unsigned long long)max);
        ck_assert(has_entry(report.key));
    }
    dcpk_gen_close(gen);
    ck_assert_uint_ge(count_files(".dcpk"), 4); /* and is used: 7/8 of six stay */
    ck_assert_uint_eq(build_bounded(max, 80).hit, 2);
    ck_assert_msg(logged.warnings == 0, "%s", logged.all);
}
END_TEST

START_TEST(cache_bound_removes_the_longest_unused_first) {
    char keys[7][33], path[256];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    uint64_t entry = entry_bytes(), max = 8 * entry; /* 7/8: six, their manifests and one toolchain */
    for (int batch = 1; batch <= 6; batch++)
        memcpy(keys[batch], build_bounded(max, batch).key, 33);
    set_all_ages(20 * HOUR);
    for (int batch = 1; batch <= 6; batch++) {
        path_of(path, sizeof path, keys[batch], ".dcpk");
        set_age(path, (10 - batch) * HOUR); /* 1 is the oldest entry */
    }
    ck_assert_uint_eq(build_bounded(max, 1).hit, 2); /* and is used now */
    build_bounded(max, 7);                           /* two must go, to 3/4 */
    ck_assert(has_entry(keys[1]));
    ck_assert(!has_entry(keys[2]));
    ck_assert(has_entry(keys[6]) && has_entry(keys[5]));
    ck_assert_uint_le(bytes_held(), max);
    ck_assert_uint_lt(count_files(".manifest"), 7);  /* those that nobody used have gone before any entry */
    ck_assert_uint_eq(build_bounded(max, 6).hit, 2); /* whose manifest is gone: by content */
}
END_TEST

START_TEST(cache_hit_is_noted_once_an_hour_at_most) {
    static const struct {
        long age;
        bool set;
    } rows[] = {{600, false}, {2 * HOUR, true}, {400 * DAY, true}, {-2 * DAY, true}, {-600, false}};
    char path[256];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    build_bounded(0, 1);
    snprintf(path, sizeof path, "%s", only_file(".dcpk"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        set_all_ages(rows[i].age);
        ck_assert_uint_eq(build_bounded(0, 1).hit, 2);
        long now = age_of(path), wanted = rows[i].set ? 0 : rows[i].age;
        ck_assert_msg(labs(now - wanted) < 60, "age %ld became %ld", rows[i].age, now);
        ck_assert_int_lt(labs(age_of(only_file(".manifest")) - wanted), 60);
        ck_assert_int_lt(labs(age_of(only_file(".toolchain")) - wanted), 60);
    }
}
END_TEST

START_TEST(cache_bound_works_with_clocks_that_are_wrong) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    uint64_t max = 5 * entry_bytes();
    for (int batch = 1; batch <= 4; batch++)
        build_bounded(max, batch);
    set_all_ages(-3650L * DAY); /* written by one that lived in the future */
    for (int batch = 5; batch <= 8; batch++) {
        dcpk_build_report report = build_bounded(max, batch);
        ck_assert_uint_eq(report.cached, 1);
        ck_assert(has_entry(report.key));
        ck_assert_uint_le(bytes_held(), max);
        ck_assert_uint_eq(build_bounded(max, batch).hit, 2);
    }
    set_all_ages(20000L * DAY); /* 1970 */
    for (int batch = 9; batch <= 12; batch++) {
        ck_assert_uint_eq(build_bounded(max, batch).cached, 1);
        ck_assert_uint_le(bytes_held(), max);
    }
}
END_TEST

static void strange_path(char *path, const char *name) {
    char shard[160];
    snprintf(shard, sizeof shard, "%.150s", only_file(".toolchain"));
    *strrchr(shard, '/') = '\0';
    snprintf(path, 256, "%s/%.2s%s", shard, strrchr(shard, '/') + 1, name);
    if (name[0] == '.' || name[0] == '!') snprintf(path, 256, "%s/%s", shard, name[0] == '!' ? name + 1 : name);
}

START_TEST(cache_bound_leaves_what_it_does_not_know) {
    static const char *const files[] = {"!notes.txt",
                                        "!lock",
                                        ".tmp-notes",
                                        ".tmp-0123456789abcdeX",
                                        "!..dcpk",
                                        "ff.dcpk",
                                        "ffffffffffffffffffffffffffffff.dcpk.bak",
                                        "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFF.dcpk"};
    enum { FILES = sizeof files / sizeof files[0] };
    char paths[FILES][256], newer[256], link_path[256], folder[256];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    uint64_t max = 3 * entry_bytes();
    build_bounded(0, 1);
    char *large = calloc(1, max);
    ck_assert_ptr_nonnull(large);
    for (size_t i = 0; i < FILES; i++) {
        strange_path(paths[i], files[i]);
        put_file(paths[i], large, max); /* each alone is the whole bound */
        set_age(paths[i], 400L * DAY);
    }
    memcpy(large, "dcpk manifest 2\n", 16);
    strange_path(newer, "eeeeeeeeeeeeeeeeeeeeeeeeeeeeee.manifest");
    put_file(newer, large, max);
    free(large);
    strange_path(link_path, "cccccccccccccccccccccccccccccc.dcpk");
    ck_assert_int_eq(symlink(paths[0], link_path), 0);
    strange_path(folder, "dddddddddddddddddddddddddddddd.dcpk");
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    char stranger[256];
    strange_path(stranger, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.dcpk");
    put_text(stranger, "of another user");
    if (geteuid() == 0) ck_assert_int_eq(chown(stranger, 12345, 12345), 0);
    set_all_ages(400L * DAY);
    for (int batch = 2; batch <= 9; batch++)
        ck_assert_uint_eq(build_bounded(max, batch).cached, 1);
    ck_assert_msg(logged.warnings == 0, "%s", logged.all);
    struct stat st;
    for (size_t i = 0; i < FILES; i++)
        ck_assert_msg(stat(paths[i], &st) == 0 && (uint64_t)st.st_size == max, "%s", paths[i]);
    ck_assert(access(newer, F_OK) == 0 && lstat(link_path, &st) == 0 && access(folder, F_OK) == 0);
    if (geteuid() == 0) ck_assert_int_eq(access(stranger, F_OK), 0);
    ck_assert_uint_le(count_files(".dcpk"), 3 + 5);
}
END_TEST

START_TEST(cache_bound_holds_beside_a_shard_that_is_not_to_be_had) {
    char shard[128];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    uint64_t max = 6 * entry_bytes();
    for (int kind = 0; kind < 2; kind++) { /* the first of the group: the others come after it */
        snprintf(shard, sizeof shard, "%s/00", cache_folder);
        mkdir(cache_folder, 0700);
        ck_assert_int_eq(kind == 0 ? mkdir(shard, 0700) : symlink("/tmp", shard), 0);
        if (kind == 0) ck_assert_int_eq(chmod(shard, 0770), 0);
        log_reset();
        dcpk_gen *gen = open_bounded(max);
        unsigned cached = 0;
        for (int batch = 1; batch <= 30; batch++) {
            dcpk_build_report report;
            dcpk_image_free(build_tiny(gen, 40 * kind + batch, &report));
            cached += report.cached;
            ck_assert_msg(bytes_held() <= max, "%llu bytes after batch %d", (unsigned long long)held, batch);
        }
        dcpk_gen_close(gen);
        ck_assert_uint_ge(cached, 28); /* all but what belongs into that shard */
        const char *told = strstr(logged.all, "1: not counted in DCPK_CACHE_MAX: ");
        ck_assert_msg(told && !strstr(told + 1, "1: not counted") && strstr(told, "/00"), "%.2000s", logged.all);
        ck_assert_uint_le(logged.warnings, 2); /* and once more where a key belongs into that shard */
        ck_assert_int_eq(kind == 0 ? rmdir(shard) : unlink(shard), 0);
    }
}
END_TEST

START_TEST(cache_removes_old_temporaries_of_dead_builders_only) {
    static const char *const names[] = {".tmp-00000000000000a1", ".tmp-00000000000000a2", ".tmp-00000000000000a3",
                                        ".tmp-00000000000000a4"};
    static const bool stays[] = {false, true, true, false}; /* old; old and locked; young; from the future */
    static const long ages[] = {2 * DAY, 2 * DAY, HOUR, -2 * DAY};
    char paths[4][256];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    build_bounded(8 << 20, 1);
    for (int i = 0; i < 4; i++) {
        strange_path(paths[i], names[i]);
        put_text(paths[i], "half of an ent");
        set_age(paths[i], ages[i]);
    }
    int fd = open(paths[1], O_WRONLY | O_CLOEXEC);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
    build_bounded(8 << 20, 2); /* one group: every shard is looked at */
    for (int i = 0; i < 4; i++)
        ck_assert_msg((access(paths[i], F_OK) == 0) == stays[i], "temporary %d", i);
    dcpk_gen *gen = open_gen(fake_path); /* clear takes the young one of a dead builder, too */
    ck_assert_int_eq(dcpk_cache_clear(gen, NULL, NULL), DCPK_OK);
    dcpk_gen_close(gen);
    ck_assert(access(paths[1], F_OK) == 0 && access(paths[2], F_OK) != 0);
    close(fd);
}
END_TEST

/* Between a temporary's creation and its lock, once: the folder is cleared (0), or somebody else has the lock, as who
 * clears it has while it is removed (1). */
static int meddling, other_lock;
static int lock_too_late(int fd, int64_t offset) {
    char path[64];
    struct stat st;
    if (meddling < 0 || offset != 0 || fstat(fd, &st) != 0 || fcntl(fd, F_GETFL) < 0)
        return system_calls.lock(fd, offset);
    int kind = meddling;
    meddling = -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (kind == 0) {
        dcpk_gen *gen = open_gen(fake_path);
        ck_assert_int_eq(dcpk_cache_clear(gen, NULL, NULL), DCPK_OK);
        dcpk_gen_close(gen);
        ck_assert_uint_eq(count_temporaries(), 0);
    } else {
        other_lock = open(path, O_WRONLY | O_CLOEXEC);
        ck_assert_int_eq(system_calls.lock(other_lock, 0), 0);
    }
    return system_calls.lock(fd, offset);
}

START_TEST(cache_clear_in_the_midst_of_a_publication_costs_it_nothing) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    struct system calls = system_calls;
    calls.lock = lock_too_late;
    for (int kind = 0; kind < 2; kind++) {
        dcpk_build_report report;
        meddling = -1;
        other_lock = -1;
        dcpk_gen *gen = open_gen_with(fake_path, NULL, &calls);
        dcpk_image_free(build_tiny(gen, 1 + 2 * kind, NULL)); /* the compiler is known now */
        meddling = kind;
        dcpk_image_free(build_tiny(gen, 2 + 2 * kind, &report));
        ck_assert_int_eq(meddling, -1);
        ck_assert_uint_eq(report.cached, 1);
        dcpk_gen_close(gen);
        if (other_lock >= 0) close(other_lock);
        ck_assert(has_entry(report.key));
        ck_assert_uint_eq(count_temporaries(), 0);
        ck_assert_msg(logged.warnings == 0, "%s", logged.all);
    }
}
END_TEST

START_TEST(cache_entry_larger_than_the_bound_costs_one_warning) {
    dcpk_build_report report;
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    uint64_t max = entry_bytes() - 1;
    dcpk_gen *gen = open_bounded(max);
    for (int batch = 1; batch <= 3; batch++) {
        dcpk_image_free(build_tiny(gen, batch, &report));
        ck_assert_uint_eq(report.cached, 0);
    }
    ck_assert_msg(logged.warnings == 1 && strstr(logged.last_warning, "DCPK_CACHE_MAX"), "%s", logged.all);
    dcpk_gen_close(gen);
    ck_assert_uint_eq(count_files(".dcpk") + count_temporaries(), 0);
    setenv("DCPK_CACHE_MAX", "8M", 1);
    ck_assert_uint_eq(build_bounded(0, 1).cached, 1);
    setenv("DCPK_CACHE_MAX", "1K", 1);
    ck_assert_uint_eq(build_bounded(0, 2).cached, 0);
}
END_TEST

START_TEST(cache_publishing_lists_a_shard_now_and_then) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    build_bounded(0, 99);
    char path[128];
    size_t length = 0;
    snprintf(path, sizeof path, "%s/cubin", fake_folder);
    char *cubin = get_file(path, &length);
    fault_play_compiler(cubin, length);
    fault_nth(0, 0);
    dcpk_gen *gen = open_gen_with(fake_path, NULL, &faulty_system);
    for (int batch = 1; batch <= 98; batch++)
        dcpk_image_free(build_tiny(gen, batch, NULL));
    dcpk_gen_close(gen);
    /* 196 files in up to 256 shards of 8 MiB: each shard's first look leaves an eighth of that to write. */
    ck_assert_uint_le(fault.listings, 196);
    unsigned shards = fault.listings;
    gen = open_gen_with(fake_path, NULL, &faulty_system);
    fault_nth(0, 0);
    dcpk_image_free(build_tiny(gen, 1, NULL)); /* a hit lists nothing */
    ck_assert_uint_eq(fault.listings, 0);
    ck_assert_uint_gt(shards, 0);
    dcpk_gen_close(gen);
    fault_play_compiler(NULL, 0);
    free(cubin);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cache_bound");
    TCase *tcase = tcase_create("bound");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, building_setup, building_teardown);
    tcase_add_test(tcase, cache_bound_holds_after_every_build);
    tcase_add_test(tcase, cache_bound_removes_the_longest_unused_first);
    tcase_add_test(tcase, cache_hit_is_noted_once_an_hour_at_most);
    tcase_add_test(tcase, cache_bound_works_with_clocks_that_are_wrong);
    tcase_add_test(tcase, cache_bound_leaves_what_it_does_not_know);
    tcase_add_test(tcase, cache_bound_holds_beside_a_shard_that_is_not_to_be_had);
    tcase_add_test(tcase, cache_removes_old_temporaries_of_dead_builders_only);
    tcase_add_test(tcase, cache_clear_in_the_midst_of_a_publication_costs_it_nothing);
    tcase_add_test(tcase, cache_entry_larger_than_the_bound_costs_one_warning);
    tcase_add_test(tcase, cache_publishing_lists_a_shard_now_and_then);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
