/* test_cache_race.c - many processes, one key: one compilation, one entry, equal images, nothing left behind; and no
 * holder of a lock, dead or alive, holds anybody up for long. */
#include "gen/cache.h"
#include "tests/building.h"

#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { MAX_RACERS = 64, ROUNDS = 50 };

struct racer {
    int32_t status;
    uint32_t hit, compiled, cached;
    uint64_t digest; /* of the image's bytes */
    char text[512];
};

static struct racer *racers; /* shared with the children */

static void setup(void) {
    building_setup();
    racers = mmap(NULL, MAX_RACERS * sizeof *racers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(racers, MAP_FAILED);
}

static void teardown(void) {
    munmap(racers, MAX_RACERS * sizeof *racers);
    building_teardown();
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* One build in this process, written to *racer. lock_ms: how long to wait for another builder. */
static void race_once(struct racer *racer, int batch, uint32_t lock_ms) {
    dcpk_gen_options options = {.size = sizeof options,
                                .template_path = template_folder,
                                .cache_dir = cache_folder,
                                .ptxas = fake_path,
                                .lock_timeout_ms = lock_ms};
    dcpk_gen *gen = NULL;
    dcpk_image *image = NULL;
    dcpk_build_report report = {.size = sizeof report};
    dcpk_error error;
    dcpk_error_init(&error);
    racer->status = dcpk_gen_open(&options, &gen, &error);
    if (racer->status == DCPK_OK) racer->status = try_tiny(gen, batch, &image, &report, &error);
    snprintf(racer->text, sizeof racer->text, "%.500s", error.text);
    racer->hit = report.hit;
    racer->compiled = report.compiled;
    racer->cached = report.cached;
    if (image) {
        size_t length = 0;
        const void *bytes = dcpk_image_bytes(image, &length);
        racer->digest = XXH3_64bits(bytes, length);
    }
    dcpk_image_free(image);
    dcpk_gen_close(gen);
}

/* A child that waits at the barrier (the pipe's end), then races. In a PID namespace of its own where that is allowed,
 * so that all of them have the same number. */
static pid_t start_racer(int number, const int barrier[2], int batch, uint32_t lock_ms, bool alone) {
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child != 0) return child;
    char byte;
    close(barrier[1]);
    if (alone && geteuid() == 0 && unshare(CLONE_NEWPID) == 0) {
        pid_t inner = fork();
        if (inner != 0) {
            int status = 1;
            waitpid(inner, &status, 0);
            _exit(status != 0);
        }
    }
    if (read(barrier[0], &byte, 1) != 0) _exit(9);
    race_once(&racers[number], batch, lock_ms);
    _exit(0);
}

/* All at once; asserts that each got the same image. */
static void race(int count, int batch, uint32_t lock_ms, bool alone) {
    int barrier[2], status = 0;
    pid_t children[MAX_RACERS];
    memset(racers, 0, MAX_RACERS * sizeof *racers);
    ck_assert_int_eq(pipe(barrier), 0);
    for (int i = 0; i < count; i++)
        children[i] = start_racer(i, barrier, batch, lock_ms, alone);
    close(barrier[0]);
    close(barrier[1]);
    for (int i = 0; i < count; i++) {
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_int_eq(status, 0);
    }
    for (int i = 0; i < count; i++) {
        ck_assert_msg(racers[i].status == DCPK_OK, "process %d: %s", i, racers[i].text);
        ck_assert_uint_ne(racers[i].digest, 0);
        ck_assert_uint_eq(racers[i].digest, racers[0].digest);
    }
}

START_TEST(cache_cold_processes_compile_once) {
    if (!have_ptxas()) return;
    give_orders("mode slow\n"); /* 300 ms: nobody can be done before all have begun */
    race(16, 1, 60000, false);
    ck_assert_uint_eq(starts_of("assemble"), 1);
    unsigned misses = 0;
    for (int i = 0; i < 16; i++) {
        misses += racers[i].hit == 0;
        ck_assert_uint_eq(racers[i].cached, 1);
    }
    ck_assert_uint_eq(misses, 1);
    ck_assert_uint_eq(count_files(".dcpk"), 1);
    ck_assert_uint_eq(count_temporaries(), 0);
}
END_TEST

/* One process of many with the same number: ROUNDS kernels, each begun by all at once. */
static void run_rounds(pthread_barrier_t *barrier, int number) {
    if (geteuid() == 0 && unshare(CLONE_NEWPID) == 0) {
        pid_t inner = fork();
        if (inner != 0) {
            int status = 1;
            waitpid(inner, &status, 0);
            _exit(status != 0);
        }
    }
    for (int round = 1; round <= ROUNDS; round++) {
        struct racer one = {0};
        pthread_barrier_wait(barrier);
        race_once(&one, round, 60000);
        if (one.status != DCPK_OK) racers[number] = one;
        if (one.status != DCPK_OK || one.digest == 0 || !one.cached) racers[number].compiled = 1000;
    }
    _exit(0);
}

START_TEST(cache_processes_with_equal_numbers_leave_one_entry_and_no_temporary) {
    pid_t children[MAX_RACERS];
    pthread_barrierattr_t attributes;
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    pthread_barrier_t *barrier = mmap(NULL, sizeof *barrier, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(barrier, MAP_FAILED);
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    ck_assert_int_eq(pthread_barrier_init(barrier, &attributes, MAX_RACERS), 0);
    memset(racers, 0, MAX_RACERS * sizeof *racers);
    fflush(NULL);
    for (int i = 0; i < MAX_RACERS; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] == 0) run_rounds(barrier, i);
    }
    for (int i = 0; i < MAX_RACERS; i++) {
        int status = 0;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_int_eq(status, 0);
        ck_assert_msg(racers[i].compiled == 0, "process %d: %s", i, racers[i].text);
    }
    munmap(barrier, sizeof *barrier);
    ck_assert_uint_eq(count_files(".dcpk"), ROUNDS);
    ck_assert_uint_eq(count_files(".manifest"), ROUNDS);
    ck_assert_uint_eq(count_temporaries(), 0);
    ck_assert_uint_eq(starts_of("assemble"), ROUNDS);
}
END_TEST

/* Without the lock everyone compiles and publishes: the first wins, the others use their own bytes. */
START_TEST(cache_loser_uses_its_own_bytes) {
    if (!have_ptxas()) return;
    give_orders("mode slow\n");
    race(12, 1, 1, true);
    ck_assert_uint_gt(starts_of("assemble"), 1);
    for (int i = 0; i < 12; i++)
        ck_assert_uint_eq(racers[i].cached, 1);
    ck_assert_uint_eq(count_files(".dcpk"), 1);
    ck_assert_uint_eq(count_temporaries(), 0);
}
END_TEST

START_TEST(cache_waiter_goes_on_when_the_lock_holder_is_killed) {
    int barrier[2];
    if (!have_ptxas()) return;
    give_orders("mode sleep\n");
    ck_assert_int_eq(pipe(barrier), 0);
    pid_t holder = start_racer(0, barrier, 1, 60000, false);
    close(barrier[0]);
    close(barrier[1]);
    for (int i = 0; i < 500 && starts_of("assemble") == 0; i++)
        usleep(10000);
    ck_assert_uint_eq(starts_of("assemble"), 1);
    give_orders("mode good\n");
    ck_assert_int_eq(pipe(barrier), 0);
    pid_t waiter = start_racer(1, barrier, 1, 60000, false);
    close(barrier[0]);
    close(barrier[1]);
    usleep(300000);
    int status = 0;
    ck_assert_int_eq(waitpid(waiter, &status, WNOHANG), 0); /* it waits */
    double killed = seconds();
    ck_assert_int_eq(kill(holder, SIGKILL), 0);
    ck_assert_int_eq(waitpid(waiter, &status, 0), waiter);
    ck_assert_msg(seconds() - killed < 1, "the waiter went on after %.1f s", seconds() - killed);
    ck_assert_int_eq(racers[1].status, DCPK_OK);
    ck_assert_uint_eq(racers[1].cached, 1);
    ck_assert_int_eq(waitpid(holder, &status, 0), holder);
    ck_assert_uint_eq(count_files(".dcpk"), 1);
    ck_assert_uint_eq(count_temporaries(), 0);
}
END_TEST

START_TEST(cache_waiter_builds_itself_when_its_patience_ends) {
    int barrier[2];
    if (!have_ptxas()) return;
    give_orders("mode sleep\n");
    ck_assert_int_eq(pipe(barrier), 0);
    pid_t holder = start_racer(0, barrier, 1, 60000, false);
    close(barrier[0]);
    close(barrier[1]);
    for (int i = 0; i < 500 && starts_of("assemble") == 0; i++)
        usleep(10000);
    give_orders("mode good\n");
    double start = seconds();
    race_once(&racers[1], 1, 200);
    ck_assert_int_eq(racers[1].status, DCPK_OK);
    ck_assert(seconds() - start >= 0.2);
    ck_assert(seconds() - start < 2);
    ck_assert_int_eq(kill(holder, SIGKILL), 0);
    ck_assert_int_eq(waitpid(holder, NULL, 0), holder);
}
END_TEST

enum { WRITERS = CACHE_WRITERS, BOUND = 204800 };

/* Files of all sizes, as fast as they can be written. */
static void write_files(unsigned seed) {
    static const struct notice notice = {0};
    static char bytes[BOUND / 8];
    struct cache cache;
    if (!cache_init(&cache, &system_calls, &notice, cache_folder, -1)) _exit(1);
    cache.max = BOUND;
    for (;;) {
        char key[33];
        unsigned part[4];
        for (int i = 0; i < 4; i++) {
            seed = seed * 1103515245 + 12345;
            part[i] = seed ^ seed >> 13;
        }
        snprintf(key, sizeof key, "%08x%08x%08x%08x", part[0], part[1], part[2], part[3]);
        if (cache_write(&cache, key, CACHE_ENTRY, bytes, 50 + part[3] % (sizeof bytes - 50), CACHE_FIRST_WINS, NULL,
                        NULL) != DCPK_OK)
            _exit(2);
    }
}

static uint64_t published;
static int add_published(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    if (type == FTW_F && strncmp(path + ftw->base, CACHE_TEMPORARY, sizeof CACHE_TEMPORARY - 1) != 0)
        published += (uint64_t)st->st_size;
    return 0;
}

static void signal_all(const pid_t *children, int number) {
    for (int i = 0; i < WRITERS; i++)
        ck_assert_int_eq(kill(children[i], number), 0);
}

START_TEST(cache_bound_holds_while_eight_processes_write) {
    pid_t children[WRITERS];
    uint64_t peak = 0, least = 0;
    ck_assert_int_eq(mkdir(cache_folder, 0700), 0);
    fflush(NULL);
    for (int i = 0; i < WRITERS; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] == 0) write_files((unsigned)i + 1);
    }
    usleep(500000);
    for (int look = 0; look < 40; look++) {
        usleep(20000);
        signal_all(children, SIGSTOP); /* a walk is no instant: nothing may move under it */
        for (int i = 0, status; i < WRITERS; i++)
            ck_assert(waitpid(children[i], &status, WUNTRACED) == children[i] && WIFSTOPPED(status));
        published = 0;
        nftw(cache_folder, add_published, 16, FTW_PHYS);
        peak = published > peak ? published : peak;
        least = look == 0 || published < least ? published : least;
        signal_all(children, SIGCONT);
    }
    signal_all(children, SIGKILL);
    for (int i = 0; i < WRITERS; i++)
        ck_assert_int_eq(waitpid(children[i], NULL, 0), children[i]);
    ck_assert_msg(peak <= BOUND, "%llu bytes of %d", (unsigned long long)peak, BOUND);
    ck_assert_uint_gt(least, BOUND / 2); /* and the folder is used */
}
END_TEST

static void *race_in_thread(void *self) {
    race_once(self, 1, 60000);
    return NULL;
}

START_TEST(cache_generators_of_one_process_compile_once) {
    if (!have_ptxas()) return;
    give_orders("mode slow\n");
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, race_in_thread, &racers[i]), 0);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 6; i++) {
        ck_assert_msg(racers[i].status == DCPK_OK, "%s", racers[i].text);
        ck_assert_uint_eq(racers[i].digest, racers[0].digest);
    }
    ck_assert_uint_eq(starts_of("assemble"), 1);
}
END_TEST

START_TEST(cache_lock_keeps_its_file_through_a_thousand_cycles) {
    struct notice notice = {0};
    struct cache cache;
    struct stat first, now;
    char path[160];
    static const char key[] = "ab0123456789abcdef0123456789abcd";
    ck_assert(cache_init(&cache, &system_calls, &notice, cache_folder, -1));
    snprintf(path, sizeof path, "%s/ab/lock", cache_folder);
    for (int i = 0; i < 1000; i++) {
        int lock = cache_lock(&cache, key, 0);
        ck_assert_int_ge(lock, 0);
        ck_assert_int_eq(stat(path, i == 0 ? &first : &now), 0);
        ck_assert(i == 0 || (now.st_ino == first.st_ino && now.st_size == 0));
        cache_unlock(&cache, lock);
    }
    cache_close(&cache);
}
END_TEST

START_TEST(cache_lock_files_are_permanent) {
    struct stat first, now;
    dcpk_build_report report;
    char path[256];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    for (int i = 0; i < 30; i++) {
        dcpk_gen *gen = open_gen(fake_path);
        dcpk_image_free(build_tiny(gen, 1, &report));
        ck_assert_uint_eq(report.hit, 0);
        snprintf(path, sizeof path, "%s/%.2s/lock", cache_folder, report.key);
        ck_assert_int_eq(stat(path, i == 0 ? &first : &now), 0);
        ck_assert(i == 0 || (now.st_ino == first.st_ino && now.st_size == 0));
        ck_assert_int_eq(dcpk_cache_clear(gen, NULL, NULL), DCPK_OK);
        dcpk_gen_close(gen);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cache_race");
    TCase *tcase = tcase_create("race");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, cache_cold_processes_compile_once);
    tcase_add_test(tcase, cache_processes_with_equal_numbers_leave_one_entry_and_no_temporary);
    tcase_add_test(tcase, cache_loser_uses_its_own_bytes);
    tcase_add_test(tcase, cache_waiter_goes_on_when_the_lock_holder_is_killed);
    tcase_add_test(tcase, cache_waiter_builds_itself_when_its_patience_ends);
    tcase_add_test(tcase, cache_generators_of_one_process_compile_once);
    tcase_add_test(tcase, cache_lock_keeps_its_file_through_a_thousand_cycles);
    tcase_add_test(tcase, cache_lock_files_are_permanent);
    tcase_add_test(tcase, cache_bound_holds_while_eight_processes_write);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
