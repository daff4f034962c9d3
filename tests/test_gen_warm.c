/* test_gen_warm.c - many specs at once: each built once and in parallel, results in the generator's memory, shown and
 * logged in the caller's thread; failures do not stop the others; the provider's prepare is the same. */
#include "tests/building.h"

#include <dcpk/pack.h>

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64 };

/* Calls made by the code under test: this definition stands in front of libc's. */
static _Atomic long getenv_calls;
char *getenv(const char *name) {
    if (strncmp(name, "CK_", 3) != 0) getenv_calls++; /* Check reads its own for every assertion */
    size_t length = strlen(name);
    for (char **row = environ; row != NULL && *row != NULL; row++)
        if (strncmp(*row, name, length) == 0 && (*row)[length] == '=') return *row + length + 1;
    return NULL;
}

static dcpk_spec specs[MOST];

static dcpk_gen *open_here(const char *cache, const char *jit, const char *packs, dcpk_log_fn *log) {
    dcpk_gen_options options = {.size = sizeof options,
                                .template_path = template_folder,
                                .cache_dir = cache,
                                .ptxas = fake_path,
                                .log = log,
                                .jit = jit,
                                .aot_path = packs ? packs : ""};
    dcpk_gen *gen = NULL;
    ck_assert_int_eq(dcpk_gen_open(&options, &gen, NULL), DCPK_OK);
    return gen;
}

/* specs[i] is "tiny batch=batches[i]". */
static void set_specs(const int *batches, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        char text[64];
        snprintf(text, sizeof text, "tiny arch=sm_90a batch=%d", batches[i]);
        ck_assert_int_eq(dcpk_spec_parse(&specs[i], text, NULL), DCPK_OK);
    }
}

static void set_range(int first, uint32_t count) {
    int batches[MOST];
    for (uint32_t i = 0; i < count; i++)
        batches[i] = first + (int)i;
    set_specs(batches, count);
}

struct seen {
    pthread_t caller;
    unsigned visits, images, order[MOST], times[MOST];
    uint32_t hits[MOST];
    dcpk_status failed[MOST];
    unsigned stop_after;
};

static int32_t see(void *self, const dcpk_warm_result *result) {
    struct seen *seen = self;
    ck_assert(pthread_equal(pthread_self(), seen->caller));
    ck_assert_int_eq(result->image != NULL, result->reason == NULL);
    ck_assert_ptr_nonnull(result->report);
    seen->order[seen->visits++] = result->index;
    seen->times[result->index]++;
    seen->images += result->image != NULL;
    seen->hits[result->index] = result->report->hit;
    if (result->reason) {
        ck_assert_int_ne(result->reason->code, DCPK_OK);
        ck_assert_uint_gt(strlen(result->reason->text), 0);
        seen->failed[result->index] = result->reason->code;
    } else {
        char spec[64];
        size_t length = 0;
        snprintf(spec, sizeof spec, "spec: tiny arch=sm_90a batch=%d\n", specs[result->index].batch);
        ck_assert_ptr_nonnull(strstr(dcpk_image_preimage(result->image, &length), spec));
        ck_assert_str_eq(result->report->key, dcpk_image_key(result->image));
    }
    return seen->visits == seen->stop_after;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

START_TEST(warm_builds_each_spec_once_and_this_memory_serves_them) {
    static const int batches[] = {1, 2, 3, 4, 5, 6, 7, 8, 3, 3, 9, 10, 11, 12, 1};
    enum { COUNT = sizeof batches / sizeof batches[0], DIFFERENT = 12 };
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    set_specs(batches, COUNT);
    for (uint32_t jobs = 1; jobs <= 4; jobs += 3) {
        struct seen seen = {.caller = pthread_self()};
        unsigned before = starts_of("assemble"), asked = starts_of("version");
        dcpk_gen *gen = open_here("", NULL, NULL, building_log); /* no folder: memory alone */
        ck_assert_int_eq(dcpk_gen_warm(gen, specs, COUNT, jobs, see, &seen, NULL), DCPK_OK);
        ck_assert_uint_eq(seen.visits, COUNT);
        ck_assert_uint_eq(seen.images, COUNT);
        for (uint32_t i = 0; i < COUNT; i++)
            ck_assert_msg(seen.times[i] == 1, "spec %u was shown %u times", i, seen.times[i]);
        ck_assert_uint_eq(starts_of("assemble"), before + DIFFERENT);
        ck_assert_uint_eq(starts_of("version"), asked + 1);
        for (int batch = 1; batch <= DIFFERENT; batch++) {
            dcpk_build_report report;
            dcpk_image_free(build_tiny(gen, batch, &report));
            ck_assert_uint_eq(report.hit, 1);
        }
        ck_assert_uint_eq(starts_of("assemble"), before + DIFFERENT);
        dcpk_gen_close(gen);
    }
}
END_TEST

START_TEST(warm_builds_as_many_at_a_time_as_it_was_told) {
    if (!have_ptxas()) return;
    give_orders("mode slow\n"); /* 300 ms each */
    set_range(1, 8);
    dcpk_gen *gen = open_here(cache_folder, NULL, NULL, building_log);
    double start = seconds();
    ck_assert_int_eq(dcpk_gen_warm(gen, specs, 8, 8, NULL, NULL, NULL), DCPK_OK);
    double took = seconds() - start;
    ck_assert_msg(took < 1.5, "eight builds of 0.3 s took %.2f s", took);
    dcpk_gen_close(gen);
    ck_assert_uint_eq(count_files(".dcpk"), 8);
}
END_TEST

START_TEST(warm_failure_stops_nobody_and_the_first_in_spec_order_is_returned) {
    static const int batches[] = {1, 2, 6, 3, 7, 4, 6};
    dcpk_error error;
    char path[160];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    snprintf(path, sizeof path, "%s/tiny.ptx.lua", template_folder);
    char *text = get_file(path, NULL), more[4096];
    snprintf(more, sizeof more, "rule(spec.batch < 6, \"batch is below 6, not \" .. spec.batch)\n%s", text);
    put_text(path, more);
    free(text);
    set_specs(batches, 7);
    snprintf(specs[5].arch, sizeof specs[5].arch, "sm_1"); /* refused before it is queued */
    for (uint32_t jobs = 1; jobs <= 3; jobs += 2) {
        struct seen seen = {.caller = pthread_self()};
        dcpk_gen *gen = open_here("", NULL, NULL, building_log);
        dcpk_error_init(&error);
        ck_assert_int_eq(dcpk_gen_warm(gen, specs, 7, jobs, see, &seen, &error), DCPK_E_SPEC);
        ck_assert_msg(strstr(error.text, "not 6"), "%s", error.text);
        ck_assert_uint_eq(seen.visits, 7);
        static const dcpk_status wanted[] = {DCPK_OK,     DCPK_OK,     DCPK_E_SPEC, DCPK_OK,
                                             DCPK_E_SPEC, DCPK_E_ARCH, DCPK_E_SPEC};
        for (uint32_t i = 0; i < 7; i++)
            ck_assert_msg(seen.times[i] == 1 && seen.failed[i] == wanted[i], "spec %u: %d", i, seen.failed[i]);
        dcpk_gen_close(gen);
    }
}
END_TEST

START_TEST(warm_visit_can_stop_it) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    set_range(1, 32);
    for (uint32_t jobs = 1; jobs <= 4; jobs += 3) {
        struct seen seen = {.caller = pthread_self(), .stop_after = 3};
        unsigned before = starts_of("assemble");
        dcpk_gen *gen = open_here("", NULL, NULL, building_log);
        ck_assert_int_eq(dcpk_gen_warm(gen, specs, 32, jobs, see, &seen, NULL), DCPK_OK);
        ck_assert_uint_eq(seen.visits, 3);
        ck_assert_uint_lt(starts_of("assemble") - before, 32);
        dcpk_gen_close(gen);
    }
}
END_TEST

static pthread_t log_owner;
static void log_here(void *self, int level, const char *text) {
    ck_assert(pthread_equal(pthread_self(), log_owner));
    building_log(self, level, text);
}

START_TEST(warm_logs_in_the_callers_thread_and_warns_once) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    set_range(1, 12);
    log_owner = pthread_self();
    put_text(cache_folder, "a file where the folder should be\n");
    dcpk_gen *gen = open_here(cache_folder, NULL, NULL, log_here);
    ck_assert_int_eq(dcpk_gen_warm(gen, specs, 12, 4, NULL, NULL, NULL), DCPK_OK);
    ck_assert_msg(logged.warnings == 1, "%s", logged.all);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(warm_without_a_compiler_fails_each_with_the_reason) {
    struct seen seen = {.caller = pthread_self()};
    dcpk_error error;
    dcpk_error_init(&error);
    set_range(1, 6);
    dcpk_gen_options options = {
        .size = sizeof options, .template_path = template_folder, .cache_dir = "", .ptxas = "/nowhere/ptxas"};
    dcpk_gen *gen = NULL;
    ck_assert_int_eq(dcpk_gen_open(&options, &gen, NULL), DCPK_OK);
    ck_assert_int_eq(dcpk_gen_warm(gen, specs, 6, 4, see, &seen, &error), DCPK_E_TOOLCHAIN);
    ck_assert_msg(strstr(error.text, "/nowhere/ptxas"), "%s", error.text);
    ck_assert_uint_eq(seen.visits, 6);
    ck_assert_uint_eq(seen.images, 0);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(warm_takes_from_packs_and_the_cache_what_is_there) {
    struct seen seen = {.caller = pthread_self()};
    dcpk_image *images[3];
    char pack[128];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    snprintf(pack, sizeof pack, "%s/pack", place);
    dcpk_gen *gen = open_here("", NULL, NULL, building_log);
    for (int i = 0; i < 3; i++)
        images[i] = build_tiny(gen, i + 1, NULL);
    ck_assert_int_eq(dcpk_pack_write(pack, images, 3, NULL, NULL), DCPK_OK);
    for (int i = 0; i < 3; i++)
        dcpk_image_free(images[i]);
    dcpk_gen_close(gen);
    gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 4, NULL));
    dcpk_image_free(build_tiny(gen, 5, NULL));
    dcpk_gen_close(gen);
    set_range(1, 8);
    gen = open_here(cache_folder, NULL, pack, building_log);
    ck_assert_int_eq(dcpk_gen_warm(gen, specs, 8, 3, see, &seen, NULL), DCPK_OK);
    static const uint32_t wanted[] = {3, 3, 3, 2, 2, 0, 0, 0};
    for (int i = 0; i < 8; i++)
        ck_assert_msg(seen.hits[i] == wanted[i], "spec %d: hit %u", i, seen.hits[i]);
    dcpk_gen_close(gen);
    memset(&seen, 0, sizeof seen); /* and without a compiler: what is there, a reason for the others */
    seen.caller = pthread_self();
    set_range(1, 12);
    gen = open_here(cache_folder, "never", pack, building_log);
    ck_assert_int_eq(dcpk_gen_warm(gen, specs, 12, 4, see, &seen, NULL), DCPK_E_NOT_FOUND);
    ck_assert_uint_eq(seen.visits, 12);
    ck_assert_uint_eq(seen.images, 8);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(warm_arguments_are_checked) {
    dcpk_error error;
    dcpk_error_init(&error);
    set_range(1, 2);
    dcpk_gen *gen = open_here("", NULL, NULL, NULL);
    ck_assert_int_eq(dcpk_gen_warm(NULL, specs, 1, 1, NULL, NULL, &error), DCPK_E_ARG);
    ck_assert_int_eq(dcpk_gen_warm(gen, NULL, 1, 1, NULL, NULL, &error), DCPK_E_ARG);
    ck_assert_int_eq(dcpk_gen_warm(gen, NULL, 0, 1, NULL, NULL, &error), DCPK_OK);
    specs[1].size = 8;
    ck_assert_int_eq(dcpk_gen_warm(gen, specs, 2, 1, NULL, NULL, &error), DCPK_E_ARG);
    dcpk_gen_close(gen);
}
END_TEST

/* A caller of the next version of the headers: its specs end in what this library does not know. */
START_TEST(warm_takes_the_specs_of_a_caller_whose_struct_is_larger) {
    struct {
        dcpk_spec spec;
        uint64_t more[3];
    } later[3];
    struct seen seen = {.caller = pthread_self()};
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    set_range(1, 3);
    memset(later, 0xa5, sizeof later);
    for (int i = 0; i < 3; i++) {
        later[i].spec = specs[i];
        later[i].spec.size = sizeof later[i];
    }
    dcpk_gen *gen = open_here(fake_path, NULL, NULL, NULL);
    ck_assert_int_eq(dcpk_gen_warm(gen, &later[0].spec, 3, 2, see, &seen, NULL), DCPK_OK);
    ck_assert_uint_eq(seen.images, 3);
    for (int i = 0; i < 3; i++) {
        dcpk_build_report report = {.size = sizeof report};
        dcpk_image *image = NULL;
        ck_assert_int_eq(dcpk_gen_build(gen, &specs[i], &image, &report, NULL), DCPK_OK);
        ck_assert_uint_eq(report.hit, 1);
        dcpk_image_free(image);
    }
    dcpk_gen_close(gen);
}
END_TEST

struct asker {
    dcpk_provider provider;
    int prepares;
    unsigned good;
};

static void *ask(void *self) {
    struct asker *asker = self;
    if (asker->prepares && asker->provider.prepare(asker->provider.self, specs, 16, NULL) != DCPK_OK) return NULL;
    for (uint32_t i = 0; i < 16; i++) {
        dcpk_image *image = NULL;
        asker->good += asker->provider.get(asker->provider.self, &specs[i], &image, NULL) == DCPK_OK && image != NULL;
        dcpk_image_free(image);
    }
    return NULL;
}

START_TEST(warm_is_the_providers_prepare_and_threads_share_it) {
    struct asker askers[4] = {0};
    pthread_t threads[4];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    set_range(1, 16);
    dcpk_gen *gen = open_here("", NULL, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(dcpk_gen_provider(gen, &askers[i].provider, NULL), DCPK_OK);
        ck_assert_ptr_nonnull(askers[i].provider.prepare);
        askers[i].prepares = i % 2 == 0;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(askers[i].good, 16);
    }
    ck_assert_uint_eq(starts_of("assemble"), 16);
    dcpk_gen_close(gen);
}
END_TEST

static void *change_environment(void *stop) {
    for (int i = 0; !*(_Atomic int *)stop; i++) {
        char value[32];
        snprintf(value, sizeof value, "%d", i % 1000);
        setenv("DCPK_CACHE_MAX", value, 1);
        setenv("DCPK_JIT", i % 2 ? "never" : "nonsense", 1);
    }
    return NULL;
}

/* mori#548: a getenv beside another thread's setenv is a race. */
START_TEST(warm_reads_no_environment_once_the_generator_is_open) {
    pthread_t thread;
    _Atomic int stop = 0;
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    set_range(1, 16);
    dcpk_gen *gen = open_here(cache_folder, NULL, NULL, NULL);
    ck_assert_int_gt(getenv_calls, 0); /* they are counted */
    long before = getenv_calls;
    int started = pthread_create(&thread, NULL, change_environment, &stop);
    dcpk_image *image = NULL; /* no assertion until the thread is gone: Check reads the environment in each */
    dcpk_status warmed = dcpk_gen_warm(gen, specs, 15, 4, NULL, NULL, NULL);
    dcpk_status built = dcpk_gen_build(gen, &specs[15], &image, NULL, NULL);
    stop = 1;
    if (started == 0) pthread_join(thread, NULL);
    ck_assert_int_eq(started, 0);
    ck_assert_int_eq(warmed, DCPK_OK);
    ck_assert_int_eq(built, DCPK_OK);
    dcpk_image_free(image);
    ck_assert_int_eq(getenv_calls, before);
    dcpk_gen_close(gen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gen_warm");
    TCase *tcase = tcase_create("warm");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, building_setup, building_teardown);
    tcase_add_test(tcase, warm_builds_each_spec_once_and_this_memory_serves_them);
    tcase_add_test(tcase, warm_builds_as_many_at_a_time_as_it_was_told);
    tcase_add_test(tcase, warm_failure_stops_nobody_and_the_first_in_spec_order_is_returned);
    tcase_add_test(tcase, warm_visit_can_stop_it);
    tcase_add_test(tcase, warm_logs_in_the_callers_thread_and_warns_once);
    tcase_add_test(tcase, warm_without_a_compiler_fails_each_with_the_reason);
    tcase_add_test(tcase, warm_takes_from_packs_and_the_cache_what_is_there);
    tcase_add_test(tcase, warm_arguments_are_checked);
    tcase_add_test(tcase, warm_takes_the_specs_of_a_caller_whose_struct_is_larger);
    tcase_add_test(tcase, warm_is_the_providers_prepare_and_threads_share_it);
    tcase_add_test(tcase, warm_reads_no_environment_once_the_generator_is_open);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
