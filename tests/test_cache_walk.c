/* test_cache_walk.c - lists, prefixes, clearing, and a provider that threads share. */
#include "tests/building.h"

#include <check.h>
#include <sys/stat.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct visits {
    unsigned count, good;
    char keys[16][33], specs[16][64], reasons[16][256];
    int32_t stop_after;
};

static int32_t note(void *self, const dcpk_cache_entry *entry) {
    struct visits *v = self;
    memcpy(v->keys[v->count], entry->key, 33);
    snprintf(v->specs[v->count], 64, "%.63s", entry->spec);
    snprintf(v->reasons[v->count], 256, "%.255s", entry->reason);
    v->good += entry->state == DCPK_OK;
    return ++v->count == (unsigned)v->stop_after;
}

START_TEST(cache_visit_goes_in_key_order_and_verify_finds_damage) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    char victim[33] = "";
    for (int batch = 1; batch <= 6; batch++) {
        dcpk_build_report report;
        dcpk_image_free(build_tiny(gen, batch, &report));
        memcpy(victim, report.key, 33);
    }
    struct visits all = {0}, some = {.stop_after = 2}, checked = {0};
    ck_assert_int_eq(dcpk_cache_visit(gen, 1, note, &all, NULL), DCPK_OK);
    ck_assert_uint_eq(all.count, 6);
    ck_assert_uint_eq(all.good, 6);
    for (int i = 1; i < 6; i++)
        ck_assert_int_lt(strcmp(all.keys[i - 1], all.keys[i]), 0);
    ck_assert_int_eq(strncmp(all.specs[0], "tiny arch=sm_90a batch=", 23), 0);
    ck_assert_int_eq(dcpk_cache_visit(gen, 0, note, &some, NULL), DCPK_OK);
    ck_assert_uint_eq(some.count, 2);
    char path[256];
    snprintf(path, sizeof path, "%s/%.2s/%s.dcpk", cache_folder, victim, victim);
    size_t length = 0;
    char *bytes = get_file(path, &length);
    bytes[200] ^= 1;
    put_file(path, bytes, length);
    free(bytes);
    ck_assert_int_eq(dcpk_cache_visit(gen, 1, note, &checked, NULL), DCPK_OK);
    ck_assert_uint_eq(checked.count, 6);
    ck_assert_uint_eq(checked.good, 5);
    for (unsigned i = 0; i < 6; i++)
        ck_assert_int_eq(checked.reasons[i][0] != '\0', strcmp(checked.keys[i], victim) == 0);
    dcpk_gen_close(gen);
}
END_TEST

/* The path of the first shard from `number` on that no key has begun; returns the number behind it. */
static unsigned free_shard(unsigned number, char *path, size_t capacity) {
    struct stat there;
    do
        snprintf(path, capacity, "%s/%02x", cache_folder, number++);
    while (lstat(path, &there) == 0 && number < 256);
    return number;
}

START_TEST(cache_walks_go_on_past_shards_that_are_not_to_be_trusted) {
    struct visits seen = {0};
    uint64_t removed = 0;
    char shard[160], why[40];
    dcpk_error error;
    dcpk_error_init(&error);
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    for (int batch = 1; batch <= 6; batch++)
        dcpk_image_free(build_tiny(gen, batch, NULL));
    unsigned next = free_shard(0, shard, sizeof shard);
    ck_assert(mkdir(shard, 0700) == 0 && chmod(shard, 0770) == 0);
    snprintf(why, sizeof why, "/%02x may be written", next - 1);
    free_shard(next, shard, sizeof shard);
    ck_assert_int_eq(symlink("/tmp", shard), 0);
    ck_assert_int_eq(dcpk_cache_visit(gen, 1, note, &seen, &error), DCPK_E_UNTRUSTED);
    ck_assert_uint_eq(seen.count, 6);
    ck_assert_msg(strstr(error.text, why) && strstr(error.text, "1 more"), "%s", error.text);
    ck_assert_int_eq(dcpk_cache_clear(gen, &removed, &error), DCPK_E_UNTRUSTED);
    ck_assert_uint_ge(removed, 12); /* entries and manifests */
    ck_assert_uint_eq(count_files(".dcpk") + count_files(".manifest"), 0);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(cache_get_takes_a_unique_prefix) {
    dcpk_build_report report;
    dcpk_image *image = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    ck_assert_int_eq(dcpk_cache_get(gen, "0123", &image, &error), DCPK_E_NOT_FOUND);
    dcpk_image_free(build_tiny(gen, 1, &report));
    for (size_t length = 1; length <= 33; length++) {
        char prefix[40];
        snprintf(prefix, sizeof prefix, "%.*s%s", (int)length, report.key, length > 32 ? "0" : "");
        dcpk_status status = dcpk_cache_get(gen, prefix, &image, &error);
        ck_assert_int_eq(status, length < 4 || length > 32 ? DCPK_E_ARG : DCPK_OK);
        if (status == DCPK_OK) ck_assert_str_eq(dcpk_image_key(image), report.key);
        dcpk_image_free(image);
    }
    char path[256], twin[256], key[33];
    memcpy(key, report.key, 33);
    key[31] = key[31] == 'a' ? 'b' : 'a';
    snprintf(path, sizeof path, "%s/%.2s/%s.dcpk", cache_folder, key, report.key);
    snprintf(twin, sizeof twin, "%s/%.2s/%s.dcpk", cache_folder, key, key);
    ck_assert_int_eq(link(path, twin), 0);
    key[12] = '\0';
    ck_assert_int_eq(dcpk_cache_get(gen, key, &image, &error), DCPK_E_ARG);
    ck_assert_msg(strstr(error.text, report.key), "%s", error.text);
    ck_assert_int_eq(dcpk_cache_get(gen, "../../etc/passwd", &image, &error), DCPK_E_ARG);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(cache_get_of_a_damaged_entry_names_its_path) {
    dcpk_image *image = NULL;
    dcpk_error error;
    char path[256];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_build_report report;
    dcpk_image_free(build_tiny(gen, 1, &report));
    snprintf(path, sizeof path, "%s", only_file(".dcpk"));
    put_text(path, "not an image");
    dcpk_error_init(&error);
    ck_assert_int_ne(dcpk_cache_get(gen, report.key, &image, &error), DCPK_OK);
    ck_assert_msg(strncmp(error.text, path, strlen(path)) == 0, "%s", error.text);
    ck_assert_ptr_null(image);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(cache_clear_goes_on_past_a_folder_in_an_entrys_place) {
    uint64_t removed = 0;
    char path[256];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, NULL));
    snprintf(path, sizeof path, "%s", only_file(".dcpk"));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(dcpk_cache_clear(gen, &removed, NULL), DCPK_OK);
    ck_assert_uint_eq(removed, 2); /* the manifest, the toolchain */
    ck_assert_uint_eq(count_files(".manifest") + count_files(".toolchain"), 0);
    ck_assert_int_eq(rmdir(path), 0);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(cache_clear_takes_what_it_knows_and_leaves_the_rest) {
    uint64_t removed = 0;
    char path[256];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    for (int batch = 1; batch <= 3; batch++)
        dcpk_image_free(build_tiny(gen, batch, NULL));
    snprintf(path, sizeof path, "%s", only_file(".toolchain"));
    *strrchr(path, '/') = '\0';
    strcat(path, "/notes.txt");
    put_text(path, "somebody's\n");
    ck_assert_int_eq(dcpk_cache_clear(gen, &removed, NULL), DCPK_OK);
    ck_assert_uint_eq(removed, 7); /* three entries, three manifests, one toolchain */
    ck_assert_uint_eq(count_files(".dcpk") + count_files(".manifest") + count_files(".toolchain"), 0);
    ck_assert_uint_eq(count_files("notes.txt"), 1);
    dcpk_gen_close(gen);
    dcpk_build_report report;
    gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, &report));
    ck_assert_uint_eq(report.hit, 0);
    dcpk_gen_close(gen);
}
END_TEST

struct asker {
    dcpk_provider provider;
    unsigned good;
};

static void *ask(void *self) {
    struct asker *asker = self;
    for (int i = 0; i < 20; i++) {
        dcpk_spec spec;
        dcpk_image *image = NULL;
        char text[64];
        snprintf(text, sizeof text, "tiny arch=sm_90a batch=%d", 1 + i % 4);
        if (dcpk_spec_parse(&spec, text, NULL) == DCPK_OK &&
            asker->provider.get(asker->provider.self, &spec, &image, NULL) == DCPK_OK)
            asker->good++;
        dcpk_image_free(image);
    }
    return NULL;
}

START_TEST(cache_provider_serves_threads_and_builds_each_kernel_once) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    struct asker askers[4] = {0};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(dcpk_gen_provider(gen, &askers[i].provider, NULL), DCPK_OK);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_uint_eq(askers[i].good, 20);
    }
    ck_assert_uint_eq(starts_of("assemble"), 4);
    dcpk_gen_close(gen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cache_walk");
    TCase *tcase = tcase_create("walk");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, building_setup, building_teardown);
    tcase_add_test(tcase, cache_visit_goes_in_key_order_and_verify_finds_damage);
    tcase_add_test(tcase, cache_walks_go_on_past_shards_that_are_not_to_be_trusted);
    tcase_add_test(tcase, cache_get_takes_a_unique_prefix);
    tcase_add_test(tcase, cache_get_of_a_damaged_entry_names_its_path);
    tcase_add_test(tcase, cache_clear_goes_on_past_a_folder_in_an_entrys_place);
    tcase_add_test(tcase, cache_clear_takes_what_it_knows_and_leaves_the_rest);
    tcase_add_test(tcase, cache_provider_serves_threads_and_builds_each_kernel_once);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
