/* test_cache_kill.c - eight builders over one cache folder, evicting and now and then clearing it, are killed by
 * SIGKILL at 200 random (seeded) moments: no living builder fails, nothing damaged is left, nobody waits for the dead,
 * and what they left half-written goes when it is a day old; their compilers die with them. */
#include "tests/building.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BUILDERS = 8, KILLS = 200, BATCHES = 24, MOMENT_US = 20000 };

static struct shared {
    atomic_uint built, compiled, failed;
    char text[1024]; /* of one failure */
} * shared;

static uint64_t bound;

static uint32_t next_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
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

static void note_failure(const char *what, const dcpk_error *error) {
    if (atomic_fetch_add(&shared->failed, 1) == 0)
        snprintf(shared->text, sizeof shared->text, "%s: %.900s", what, error->text);
}

/* Builds until it is killed, each time as a new process would. */
static void build_forever(uint64_t seed) {
    for (;;) {
        dcpk_error error;
        dcpk_image *image = NULL;
        dcpk_build_report report;
        int batch = 1 + (int)(next_random(&seed) % BATCHES);
        dcpk_gen *gen = open_bounded(bound);
        dcpk_error_init(&error);
        if (next_random(&seed) % 64 == 0 && dcpk_cache_clear(gen, NULL, &error) != DCPK_OK)
            note_failure("clear", &error);
        dcpk_spec spec;
        if (try_tiny(gen, batch, &image, &report, &error) != DCPK_OK)
            note_failure("build", &error);
        else if (dcpk_image_spec(image, &spec, &error) != DCPK_OK || spec.batch != batch)
            note_failure("another image", &error);
        atomic_fetch_add(&shared->built, 1);
        atomic_fetch_add(&shared->compiled, report.hit == 0);
        dcpk_image_free(image);
        dcpk_gen_close(gen);
    }
}

static pid_t start_builder(uint64_t seed) {
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) build_forever(seed);
    return child;
}

static void kill_builder(pid_t child) {
    int status = 0;
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a builder ended by itself: %d", status);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static unsigned entries, bad;
static int32_t count(void *self, const dcpk_cache_entry *entry) {
    (void)self;
    entries++;
    bad += entry->state != DCPK_OK;
    return 0;
}

static int age_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)ftw;
    const struct timespec then = {.tv_sec = time(NULL) - 2 * 86400};
    const struct timespec times[2] = {then, then};
    if (type == FTW_F && strstr(path, "/.tmp-")) utimensat(AT_FDCWD, path, times, 0);
    return 0;
}

static void expect_sound(void) {
    dcpk_gen *gen = open_bounded(bound);
    entries = bad = 0;
    ck_assert_int_eq(dcpk_cache_visit(gen, 1, count, NULL, NULL), DCPK_OK);
    ck_assert_uint_eq(bad, 0);
    dcpk_gen_close(gen);
}

static void kill_at_random_moments(void) {
    pid_t builders[BUILDERS];
    uint64_t state = 20240817, seed = 1;
    for (int i = 0; i < BUILDERS; i++)
        builders[i] = start_builder(seed++);
    for (int i = 0; i < KILLS; i++) {
        usleep(next_random(&state) % MOMENT_US);
        uint32_t victim = next_random(&state) % BUILDERS;
        kill_builder(builders[victim]);
        builders[victim] = start_builder(seed++);
    }
    for (int i = 0; i < BUILDERS; i++)
        kill_builder(builders[i]);
}

START_TEST(cache_survives_builders_that_are_killed_at_any_moment) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    dcpk_gen *gen = open_gen_with(fake_path, "", NULL);
    dcpk_image *image = build_tiny(gen, 1, NULL);
    size_t length = 0;
    dcpk_image_bytes(image, &length);
    bound = 12 * length;
    dcpk_image_free(image);
    dcpk_gen_close(gen);

    kill_at_random_moments();
    ck_assert_msg(shared->failed == 0, "%u failures: %s", shared->failed, shared->text);
    ck_assert_uint_gt(shared->built, KILLS / 4); /* they had work under way */
    ck_assert_uint_gt(shared->compiled, 10);
    expect_sound();

    /* No lock of a dead one holds anybody up, and everything is built and cached as ever. */
    double start = seconds();
    gen = open_bounded(0);
    for (int batch = 1; batch <= BATCHES; batch++) {
        dcpk_build_report report;
        dcpk_image_free(build_tiny(gen, batch, &report));
        ck_assert_uint_eq(report.cached, 1);
    }
    dcpk_gen_close(gen);
    ck_assert_msg(seconds() - start < 10, "%d builds took %.1f s", BATCHES, seconds() - start);
    ck_assert_msg(logged.warnings == 0, "%s", logged.all);
    expect_sound();
    ck_assert_uint_eq(entries, BATCHES);

    nftw(cache_folder, age_one, 16, FTW_PHYS);
    gen = open_bounded(8 << 20); /* one group: all shards */
    dcpk_image_free(build_tiny(gen, BATCHES + 1, NULL));
    dcpk_gen_close(gen);
    ck_assert_uint_eq(count_temporaries(), 0);
    munmap(shared, sizeof *shared);
}
END_TEST

/* A process whose parent is `parent`, 0 where there is none. */
static pid_t child_of(pid_t parent) {
    DIR *list = opendir("/proc");
    ck_assert_ptr_nonnull(list);
    pid_t found = 0;
    for (struct dirent *entry; found == 0 && (entry = readdir(list)) != NULL;) {
        char path[300];
        int above = 0;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? fopen(path, "re") : NULL;
        if (file == NULL) continue;
        if (fscanf(file, "%*d (%*[^)]) %*c %d", &above) == 1 && above == parent) found = (pid_t)atoi(entry->d_name);
        fclose(file);
    }
    closedir(list);
    return found;
}

/* Gone, or dead and not yet fetched by who inherits it. */
static bool is_over(pid_t pid) {
    char path[64], state = 'X';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return true;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 'X';
    fclose(file);
    return state == 'X' || state == 'Z';
}

START_TEST(cache_compiler_of_a_killed_builder_dies_with_it) {
    if (!have_ptxas()) return;
    give_orders("mode sleep\n");
    fflush(NULL);
    pid_t builder = fork(), compiler = 0;
    ck_assert_int_ge(builder, 0);
    if (builder == 0) {
        dcpk_image_free(build_tiny(open_bounded(0), 1, NULL));
        _exit(0);
    }
    for (int i = 0; i < 1000 && starts_of("assemble") == 0; i++)
        usleep(10000);
    ck_assert_uint_eq(starts_of("assemble"), 1);
    compiler = child_of(builder);
    ck_assert_int_gt(compiler, 0);
    ck_assert(!is_over(compiler));
    ck_assert_int_eq(kill(builder, SIGKILL), 0);
    ck_assert_int_eq(waitpid(builder, NULL, 0), builder);
    for (int i = 0; i < 500 && !is_over(compiler); i++)
        usleep(10000);
    bool over = is_over(compiler);
    if (!over) kill(compiler, SIGKILL);
    ck_assert(over);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cache_kill");
    TCase *tcase = tcase_create("kill");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, building_setup, building_teardown);
    tcase_add_test(tcase, cache_survives_builders_that_are_killed_at_any_moment);
    tcase_add_test(tcase, cache_compiler_of_a_killed_builder_dies_with_it);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
