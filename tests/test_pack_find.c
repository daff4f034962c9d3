/* test_pack_find.c - searching in packs: by spec, from several packs in order; by key and its prefix; visits; what a
 * miss says, and which entries are nearest to what is not there. */
#include "tests/packing.h"

#include "runtime/nearest.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dcpk_error error;

static void setup(void) {
    packing_setup();
    dcpk_error_init(&error);
}

/* Two images whose keys begin with the same 4 digits: found by trying, as keys are what they are. */
static bool same_prefix(dcpk_image *pair[2], char prefix[5]) {
    enum { BATCHES = 512, TRIES = 4 * BATCHES };
    static char keys[TRIES][5];
    for (int i = 0; i < TRIES; i++) {
        pair[1] = packing_image(1 + i % BATCHES, 32u * (1 + (uint32_t)(i / BATCHES)));
        memcpy(keys[i], dcpk_image_key(pair[1]), 4);
        for (int other = 0; other < i; other++) {
            if (strcmp(keys[other], keys[i]) != 0 || other % BATCHES == i % BATCHES) continue;
            pair[0] = packing_image(1 + other % BATCHES, 32u * (1 + (uint32_t)(other / BATCHES)));
            memcpy(prefix, keys[i], 5);
            return true;
        }
        dcpk_image_free(pair[1]);
    }
    return false;
}

START_TEST(a_prefix_of_two_keys_is_refused_and_names_both) {
    dcpk_image *pair[2], *image = NULL;
    char prefix[5] = "";
    ck_assert(same_prefix(pair, prefix));
    ck_assert_int_eq(dcpk_pack_write("a.dcpk", pair, 2, NULL, &error), DCPK_OK);
    dcpk_packs *packs = packing_open("a.dcpk");
    ck_assert_int_eq(dcpk_packs_get(packs, prefix, &image, &error), DCPK_E_ARG);
    expect_text(error, dcpk_image_key(pair[0]));
    expect_text(error, dcpk_image_key(pair[1]));
    ck_assert_ptr_null(image);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(dcpk_packs_get(packs, dcpk_image_key(pair[i]), &image, &error), DCPK_OK);
        ck_assert_str_eq(dcpk_image_key(image), dcpk_image_key(pair[i]));
        dcpk_image_free(image);
        dcpk_image_free(pair[i]);
    }
    dcpk_packs_close(packs);
}
END_TEST

START_TEST(of_several_packs_the_first_that_has_the_spec_answers) {
    packing_write_one("a.dcpk", 1, 128);
    packing_write_one("b.dcpk", 1, 256);
    packing_write_one("c.dcpk", 2, 512);
    dcpk_packs *packs = packing_open("a.dcpk::b.dcpk:c.dcpk:");
    ck_assert_uint_eq(dcpk_packs_count(packs), 3);
    ck_assert_uint_eq(packing_threads(packs, 1), 128);
    ck_assert_uint_eq(packing_threads(packs, 2), 512);
    dcpk_packs_close(packs);
    packs = packing_open("b.dcpk:a.dcpk");
    ck_assert_uint_eq(packing_threads(packs, 1), 256);
    dcpk_packs_close(packs);
}
END_TEST

START_TEST(packs_come_from_the_environment_and_an_empty_list_is_none) {
    dcpk_packs *packs = NULL;
    packing_write_one("a.dcpk", 1, 128);
    ck_assert_int_eq(dcpk_packs_open(NULL, &packs, &error), DCPK_OK);
    ck_assert_uint_eq(dcpk_packs_count(packs), 0);
    dcpk_image *image = NULL;
    ck_assert_int_eq(packing_find(packs, 1, &image, &error), DCPK_E_NOT_FOUND);
    expect_text(error, "DCPK_AOT_PATH");
    dcpk_packs_close(packs);
    ck_assert_int_eq(setenv("DCPK_AOT_PATH", "a.dcpk", 1), 0);
    ck_assert_int_eq(dcpk_packs_open(NULL, &packs, &error), DCPK_OK);
    ck_assert_uint_eq(dcpk_packs_count(packs), 1);
    dcpk_packs_close(packs);
    dcpk_packs_options options = {.size = sizeof options, .path = "", .trusted_uid = -1};
    ck_assert_int_eq(dcpk_packs_open(&options, &packs, &error), DCPK_OK);
    ck_assert_uint_eq(dcpk_packs_count(packs), 0);
    dcpk_packs_close(packs);
    ck_assert_int_eq(setenv("DCPK_CACHE_TRUST_UID", "me", 1), 0);
    ck_assert_int_eq(dcpk_packs_open(NULL, &packs, &error), DCPK_E_ARG);
    expect_text(error, "DCPK_CACHE_TRUST_UID=me");
}
END_TEST

START_TEST(a_miss_names_spec_packs_and_the_nearest_entries_with_the_keys_that_differ) {
    packing_write("a.dcpk", (const int[]){1, 40, 17, 64, 0});
    packing_write("b.dcpk", (const int[]){2, 0});
    dcpk_packs *packs = packing_open("a.dcpk:b.dcpk");
    dcpk_image *image = (dcpk_image *)&error;
    ck_assert_int_eq(packing_find(packs, 18, &image, &error), DCPK_E_NOT_FOUND);
    ck_assert_ptr_null(image);
    expect_text(error, "no pack has query_norm arch=sm_90a heads=2 batch=18 ");
    expect_text(error, "a.dcpk (4 entries), b.dcpk (1 entries)");
    const char *first = strstr(error.text, "batch=17, not batch=18"), *second = strstr(error.text, "batch=2, not"),
               *third = strstr(error.text, "batch=1, not");
    ck_assert_msg(first && second && third && first < second && second < third, "%s", error.text);
    ck_assert_msg(!strstr(error.text, "batch=40"), "%s", error.text);
    dcpk_spec spec;
    ck_assert_int_eq(dcpk_spec_parse(&spec, "query_push heads=2 dcp=2 batch=18", &error), DCPK_OK);
    ck_assert_int_eq(dcpk_spec_resolve(&spec, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_packs_find(packs, &spec, &image, &error), DCPK_E_NOT_FOUND);
    expect_text(error, "none of 5 entries is of kernel query_push");
    dcpk_packs_close(packs);
}
END_TEST

static dcpk_status get(dcpk_packs *packs, const char *key, dcpk_image **image) {
    *image = NULL;
    return dcpk_packs_get(packs, key, image, &error);
}

START_TEST(an_entry_is_found_by_its_key_or_a_unique_prefix) {
    enum { MANY = 30 };
    int batches[MANY + 1] = {0};
    char prefix[5] = "";
    dcpk_image *image = packing_image(5, 128), *found = NULL;
    for (int i = 0; i < MANY; i++)
        batches[i] = i + 1;
    packing_write("a.dcpk", batches);
    packing_write_one("b.dcpk", 5, 128); /* the same key twice is one key */
    dcpk_packs *packs = packing_open("a.dcpk:b.dcpk");
    ck_assert_int_eq(get(packs, dcpk_image_key(image), &found), DCPK_OK);
    ck_assert_str_eq(dcpk_image_key(found), dcpk_image_key(image));
    dcpk_image_free(found);
    memcpy(prefix, dcpk_image_key(image), 4);
    ck_assert_int_eq(get(packs, prefix, &found), DCPK_OK);
    ck_assert_str_eq(dcpk_image_key(found), dcpk_image_key(image));
    dcpk_image_free(found);
    static const char *const wrong[] = {"", "123", "12345678g", "ABCD", "0123456789abcdef0123456789abcdef0"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_int_eq(get(packs, wrong[i], &found), DCPK_E_ARG);
    ck_assert_int_eq(get(packs, "00000000000000000000000000000000", &found), DCPK_E_NOT_FOUND);
    expect_text(error, "searched: a.dcpk");
    dcpk_packs_close(packs);
    dcpk_image_free(image);
}
END_TEST

struct seen {
    uint32_t count, stop_after, bad;
    char specs[8][256];
    uint32_t packs[8];
};

static int32_t note(void *self, const dcpk_pack_entry *entry) {
    struct seen *seen = self;
    snprintf(seen->specs[seen->count], sizeof seen->specs[0], "%s", entry->spec);
    seen->packs[seen->count] = entry->pack;
    seen->bad += entry->state != DCPK_OK;
    ck_assert_uint_eq(strlen(entry->key), 32);
    ck_assert_uint_gt(entry->bytes, 0);
    ck_assert_uint_eq(entry->offset % 64, 0);
    return ++seen->count == seen->stop_after;
}

START_TEST(visits_go_pack_by_pack_in_spec_order_and_stop_when_asked) {
    packing_write("a.dcpk", (const int[]){9, 8, 10, 0});
    packing_write("b.dcpk", (const int[]){1, 0});
    dcpk_packs *packs = packing_open("a.dcpk:b.dcpk");
    struct seen all = {0}, two = {.stop_after = 2};
    ck_assert_int_eq(dcpk_packs_visit(packs, 1, note, &all, &error), DCPK_OK);
    ck_assert_uint_eq(all.count, 4);
    ck_assert_uint_eq(all.bad, 0);
    ck_assert_int_lt(strcmp(all.specs[0], all.specs[1]), 0);
    ck_assert_int_lt(strcmp(all.specs[1], all.specs[2]), 0);
    ck_assert_uint_eq(all.packs[2], 0);
    ck_assert_uint_eq(all.packs[3], 1);
    ck_assert_int_eq(dcpk_packs_visit(packs, 0, note, &two, &error), DCPK_OK);
    ck_assert_uint_eq(two.count, 2);
    dcpk_packs_close(packs);
}
END_TEST

static void offer(struct nearest *nearest, const char *text) {
    dcpk_spec spec;
    char canonical[512];
    ck_assert_int_eq(dcpk_spec_parse(&spec, text, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_spec_resolve(&spec, &error), DCPK_OK);
    dcpk_spec_format(&spec, canonical, sizeof canonical);
    nearest_offer(nearest, canonical);
}

START_TEST(the_nearest_specs_are_those_with_the_fewest_differing_keys_in_any_order) {
    static const char *const offers[] = {"query_push heads=4 dcp=2 batch=9 cap=64", /* heads, batch, qh */
                                         "query_push heads=2 dcp=2 batch=100 arch=sm_100a publish=multicast",
                                         "query_push heads=2 dcp=2 batch=8 cap=64 publish=multicast",
                                         "query_push heads=2 dcp=2 batch=60 cap=64",
                                         "query_push heads=2 dcp=2 batch=60 cap=64", /* twice is once */
                                         "query_wait heads=2 dcp=2 batch=8"};
    enum { OFFERS = sizeof offers / sizeof offers[0] };
    char first[NEAREST_TEXT] = "", text[NEAREST_TEXT];
    dcpk_spec wanted;
    ck_assert_int_eq(dcpk_spec_parse(&wanted, "query_push heads=2 dcp=2 batch=8 cap=64", &error), DCPK_OK);
    ck_assert_int_eq(dcpk_spec_resolve(&wanted, &error), DCPK_OK);
    for (int start = 0; start < OFFERS; start++) {
        struct nearest nearest;
        nearest_begin(&nearest, &wanted);
        nearest_offer(&nearest, "what is this");
        for (int i = 0; i < OFFERS; i++)
            offer(&nearest, offers[(start + i) % OFFERS]);
        nearest_text(&nearest, text, sizeof text);
        if (start == 0) strcpy(first, text);
        ck_assert_str_eq(text, first);
    }
    ck_assert_str_eq(first, "nearest of 7 entries:\n"
                            "  publish=multicast, not publish=peer\n"
                            "  batch=60, not batch=8\n"
                            "  heads=4 batch=9 qh=8, not heads=2 batch=8 qh=4");
}
END_TEST

START_TEST(nearest_texts_fit_and_say_when_there_is_nothing_or_the_spec_itself) {
    struct nearest nearest;
    dcpk_spec wanted;
    char text[NEAREST_TEXT], small[24];
    packing_spec(3, &wanted);
    nearest_begin(&nearest, &wanted);
    nearest_text(&nearest, text, sizeof text);
    ck_assert_str_eq(text, "there are no entries");
    offer(&nearest, "query_norm heads=2 batch=3");
    nearest_text(&nearest, text, sizeof text);
    ck_assert_str_eq(text, "nearest of 1 entry:\n  this spec, made otherwise");
    memset(small, 'x', sizeof small);
    nearest_text(&nearest, small, 22);
    ck_assert_uint_eq(strlen(small), 21);
    ck_assert_int_eq(small[22], 'x');
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pack_find");
    TCase *tests = tcase_create("pack_find");
    tcase_add_checked_fixture(tests, setup, packing_teardown);
    tcase_add_test(tests, a_prefix_of_two_keys_is_refused_and_names_both);
    tcase_add_test(tests, of_several_packs_the_first_that_has_the_spec_answers);
    tcase_add_test(tests, packs_come_from_the_environment_and_an_empty_list_is_none);
    tcase_add_test(tests, a_miss_names_spec_packs_and_the_nearest_entries_with_the_keys_that_differ);
    tcase_add_test(tests, an_entry_is_found_by_its_key_or_a_unique_prefix);
    tcase_add_test(tests, visits_go_pack_by_pack_in_spec_order_and_stop_when_asked);
    tcase_add_test(tests, the_nearest_specs_are_those_with_the_fewest_differing_keys_in_any_order);
    tcase_add_test(tests, nearest_texts_fit_and_say_when_there_is_nothing_or_the_spec_itself);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
