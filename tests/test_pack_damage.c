/* test_pack_damage.c - bytes that are not a pack's: whatever is flipped, cut off or written with right checksums over
 * wrong numbers is refused, or costs that one image; nothing crashes. Run it under the sanitizers, too. */
#include "tests/packing.h"

#include "runtime/pack_format.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const int batches[] = {1, 2, 3, 0};
static unsigned char *pack;
static size_t length;
static dcpk_error error;

static void setup(void) {
    packing_setup();
    dcpk_error_init(&error);
    packing_write("good.dcpk", batches);
    pack = packing_read("good.dcpk", &length);
}

static void teardown(void) {
    free(pack);
    packing_teardown();
}

/* ---- damage in a file ---------------------------------------------------------------------------- */
struct tally {
    uint32_t good, bad;
};

static int32_t count(void *self, const dcpk_pack_entry *entry) {
    struct tally *tally = self;
    if (entry->state == DCPK_OK)
        tally->good++;
    else
        tally->bad++;
    ck_assert(entry->state == DCPK_OK || entry->state == DCPK_E_CACHE || entry->state == DCPK_E_BAD_CUBIN ||
              entry->state == DCPK_E_NOT_FOUND);
    ck_assert_int_eq(entry->state == DCPK_OK, entry->reason[0] == '\0');
    return 0;
}

/* What verify calls good can be had, and is what went in; the rest cannot. */
static uint32_t found_whole(dcpk_packs *packs) {
    uint32_t whole = 0;
    for (int i = 0; batches[i] != 0; i++) {
        dcpk_spec spec;
        dcpk_image *image = NULL, *wanted = packing_image(batches[i], 128);
        packing_spec(batches[i], &spec);
        if (dcpk_packs_find(packs, &spec, &image, &error) == DCPK_OK) {
            size_t left = 0, right = 0;
            const void *a = dcpk_image_bytes(image, &left), *b = dcpk_image_bytes(wanted, &right);
            ck_assert_uint_eq(left, right);
            ck_assert_mem_eq(a, b, left);
            whole++;
        } else
            ck_assert_ptr_null(image);
        dcpk_image_free(image);
        dcpk_image_free(wanted);
    }
    return whole;
}

/* Refused, or exactly one image is bad. Returns whether the file was opened. */
static bool look_at(const char *path) {
    dcpk_packs_options options = {.size = sizeof options, .path = path, .trusted_uid = -1};
    dcpk_packs *packs = NULL;
    dcpk_status status = dcpk_packs_open(&options, &packs, &error);
    if (status != DCPK_OK) {
        ck_assert_ptr_null(packs);
        ck_assert_msg(status == DCPK_E_CACHE, "%s: %s", dcpk_status_name(status), error.text);
        expect_text(error, path);
        return false;
    }
    struct tally tally = {0, 0};
    ck_assert_int_eq(dcpk_packs_visit(packs, 1, count, &tally, &error), DCPK_OK);
    ck_assert_uint_eq(tally.good, 2);
    ck_assert_uint_eq(tally.bad, 1);
    ck_assert_uint_ge(found_whole(packs), 2); /* a byte behind an image is not the image's */
    dcpk_packs_close(packs);
    return true;
}

START_TEST(a_flipped_byte_is_refused_or_costs_one_image) {
    uint32_t opened = 0, refused = 0;
    for (size_t at = 0; at < length; at += 97) {
        unsigned char kept = pack[at];
        pack[at] ^= (unsigned char)(1 + at % 255);
        packing_put("bad.dcpk", pack, length);
        pack[at] = kept;
        if (look_at("bad.dcpk"))
            opened++;
        else
            refused++;
    }
    ck_assert_uint_gt(opened, 20);
    ck_assert_uint_gt(refused, 5);
}
END_TEST

START_TEST(a_file_that_was_cut_or_grew_is_refused) {
    for (size_t cut = 0; cut < length; cut += cut < 256 ? 1 : 512) {
        packing_put("bad.dcpk", pack, cut);
        ck_assert_msg(!look_at("bad.dcpk"), "%zu of %zu bytes are taken", cut, length);
    }
    packing_put("bad.dcpk", pack, length - 1);
    ck_assert(!look_at("bad.dcpk"));
    unsigned char *longer = calloc(length + 64, 1);
    memcpy(longer, pack, length);
    packing_put("bad.dcpk", longer, length + 64);
    ck_assert(!look_at("bad.dcpk"));
    free(longer);
}
END_TEST

/* ---- damage in memory ---------------------------------------------------------------------------- */
/* Exactly as many bytes as there are, so that a sanitizer sees the first one read behind them. */
static dcpk_status check(const unsigned char *bytes, size_t many) {
    unsigned char *exact = malloc(many > 0 ? many : 1);
    memcpy(exact, bytes, many);
    dcpk_status status = pack_check_bytes(exact, many, 1, &error);
    free(exact);
    return status;
}

START_TEST(every_bit_of_a_pack_is_checked) {
    ck_assert_int_eq(check(pack, length), DCPK_OK);
    for (size_t at = 0; at < length; at += at < 1024 ? 1 : 3)
        for (int bit = 0; bit < 8; bit += at < 1024 ? 1 : 3) {
            pack[at] ^= (unsigned char)(1 << bit);
            ck_assert_msg(check(pack, length) != DCPK_OK, "bit %d of byte %zu may flip", bit, at);
            pack[at] ^= (unsigned char)(1 << bit);
        }
}
END_TEST

START_TEST(every_shorter_front_is_refused) {
    for (size_t many = 0; many < length; many += many < 1500 ? 1 : 61)
        ck_assert_int_ne(check(pack, many), DCPK_OK);
}
END_TEST

static void seal(unsigned char *bytes, size_t many) {
    XXH128_canonical_t digest;
    uint64_t images = 0;
    for (int i = 8; i-- > 0;)
        images = images << 8 | bytes[64 + i];
    if (images >= 128 && images <= many) {
        XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes + 128, images - 128));
        memcpy(bytes + 80, digest.digest, 16);
    }
    XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes, 112));
    memcpy(bytes + 112, digest.digest, 16);
}

static void put_number(unsigned char *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

static uint64_t get_number(const unsigned char *from, int bytes) {
    uint64_t value = 0;
    for (int i = bytes; i-- > 0;)
        value = value << 8 | from[i];
    return value;
}

/* Numbers that overflow, point outside, overlap or are off by one, under checksums that fit. */
static void try_numbers(size_t at, int bytes) {
    unsigned char *copy = malloc(length);
    uint64_t was = get_number(pack + at, bytes);
    const uint64_t wrong[] = {0,          1,          was - 1,    was + 1,        was - 64,       was + 64,
                              length,     length - 1, length + 1, UINT64_MAX,     UINT64_MAX / 2, UINT64_MAX - 63,
                              UINT32_MAX, 1u << 31,   1u << 20,   (1u << 20) + 1, 1ull << 62,     was << 8};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        memcpy(copy, pack, length);
        put_number(copy + at, wrong[i], bytes);
        if (memcmp(copy, pack, length) == 0) continue;
        seal(copy, length);
        dcpk_error_init(&error);
        ck_assert_msg(check(copy, length) != DCPK_OK, "number at %zu: %llu is taken", at, (unsigned long long)wrong[i]);
        ck_assert_int_eq(error.code, DCPK_E_CACHE);
    }
    free(copy);
}

START_TEST(wrong_numbers_under_right_checksums_are_refused) {
    size_t index = get_number(pack + 32, 8);
    for (size_t at = 16; at < 80; at += 8)
        try_numbers(at, 8);
    try_numbers(96, 8);
    for (size_t row = 0; row < 3; row++) {
        try_numbers(index + 64 * row, 8);
        try_numbers(index + 64 * row + 8, 8);
        try_numbers(index + 64 * row + 16, 8); /* digest */
        try_numbers(index + 64 * row + 32, 8); /* key */
        try_numbers(index + 64 * row + 48, 4);
        try_numbers(index + 64 * row + 52, 4);
        try_numbers(index + 64 * row + 56, 8);
    }
}
END_TEST

/* Under checksums that fit, so that the texts' own checks answer. */
static void try_text(size_t at, unsigned char byte) {
    unsigned char *copy = malloc(length);
    memcpy(copy, pack, length);
    copy[at] = byte;
    seal(copy, length);
    ck_assert_msg(check(copy, length) != DCPK_OK, "byte %02x at %zu is taken", byte, at);
    free(copy);
}

START_TEST(texts_that_are_none_are_refused) {
    size_t specs = get_number(pack + 48, 8), bytes = get_number(pack + 56, 8), manifest = get_number(pack + 24, 8);
    try_text(specs, 'z'); /* sorted no more, and not what the image says */
    try_text(specs, 0);
    try_text(specs + bytes - 1, 'x'); /* the last NUL */
    try_text(specs + 3, '\n');
    try_text(specs + 3, 0x80);
    try_text(128, ' ');
    try_text(130, 0x1B);
    try_text(130, 0);
    try_text(128 + manifest - 1, ' '); /* the last newline */
    try_text(128 + manifest, 'x');     /* the NUL */
}
END_TEST

/* Rows swapped with their texts' offsets untouched, rows repeated. */
START_TEST(rows_in_another_order_are_refused) {
    size_t index = get_number(pack + 32, 8);
    for (int i = 0; i < 2; i++) {
        unsigned char *copy = malloc(length);
        memcpy(copy, pack, length);
        memcpy(copy + index, pack + index + 64, 64);
        if (i == 0) memcpy(copy + index + 64, pack + index, 64);
        seal(copy, length);
        ck_assert_int_eq(check(copy, length), DCPK_E_CACHE);
        free(copy);
    }
}
END_TEST

START_TEST(images_under_anothers_spec_or_key_are_refused) {
    size_t index = get_number(pack + 32, 8);
    for (int field = 0; field < 2; field++) { /* image 0 gets the key of image 1; its digest and place */
        unsigned char *copy = malloc(length);
        memcpy(copy, pack, length);
        if (field == 0)
            memcpy(copy + index + 32, pack + index + 64 + 32, 16);
        else {
            size_t first = get_number(pack + index, 8), second = get_number(pack + index + 64, 8);
            size_t bytes = get_number(pack + index + 8, 8);
            ck_assert_uint_eq(bytes, get_number(pack + index + 64 + 8, 8)); /* both have the same length */
            memcpy(copy + first, pack + second, bytes);
            memcpy(copy + index + 16, pack + index + 64 + 16, 16);
        }
        seal(copy, length);
        ck_assert_int_eq(check(copy, length), DCPK_E_CACHE);
        expect_text(error, "not the one that the index names");
        free(copy);
    }
}
END_TEST

START_TEST(random_bytes_are_refused) {
    uint64_t state = 1;
    unsigned char noise[4096] = {0};
    for (int round = 0; round < 3000; round++) {
        size_t many = (size_t)(round % 4096);
        for (size_t i = 0; i < many; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            noise[i] = (unsigned char)(state >> 56);
        }
        if (many >= 16 && round % 2) memcpy(noise, "dcpkpack\1\0\0\0\xFE\xFF\xFF\xFF", 16);
        if (many >= 128 && round % 3 == 0) seal(noise, many);
        ck_assert_int_ne(check(noise, many), DCPK_OK);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pack_damage");
    TCase *tests = tcase_create("pack_damage");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_flipped_byte_is_refused_or_costs_one_image);
    tcase_add_test(tests, a_file_that_was_cut_or_grew_is_refused);
    tcase_add_test(tests, every_bit_of_a_pack_is_checked);
    tcase_add_test(tests, every_shorter_front_is_refused);
    tcase_add_test(tests, wrong_numbers_under_right_checksums_are_refused);
    tcase_add_test(tests, texts_that_are_none_are_refused);
    tcase_add_test(tests, rows_in_another_order_are_refused);
    tcase_add_test(tests, images_under_anothers_spec_or_key_are_refused);
    tcase_add_test(tests, random_bytes_are_refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
