/* test_image.c - the kernel image: what goes in comes out, from an address alone too; damage of any byte is refused;
 * newer formats are told from damage; nothing reads out of bounds. */
#include "runtime/image_find.h"
#include "runtime/image_format.h"
#include "tests/building.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char ptx[] = ".version 7.8\n.target sm_90\n.address_size 64\n"
                          ".visible .entry dcpk_one(.param .u64 to)\n{\n.reg .b64 %a;\nld.param.u64 %a, [to];\n"
                          "st.global.u32 [%a], 7;\nret;\n}\n"
                          ".visible .entry dcpk_two(.param .u64 to, .param .u32 n)\n{\nret;\n}\n";
static const char spec_text[] = "mine arch=sm_90a heads=3 batch=5";
static const char preimage[] = "a preimage\nof two lines\n";
enum { LINES = 14 };

static char *cubin;
static size_t cubin_length;

static void setup(void) {
    cubin = have_ptxas() ? real_cubin(ptx, "sm_90a", &cubin_length, NULL) : NULL;
}

static void teardown(void) {
    free(cubin);
}

static void fill_entries(dcpk_entry_info entries[2]) {
    memset(entries, 0, 2 * sizeof entries[0]);
    for (uint32_t i = 0; i < 2; i++) {
        dcpk_entry_info *e = &entries[i];
        e->size = sizeof *e;
        snprintf(e->name, sizeof e->name, "dcpk_%s", i ? "two" : "one");
        for (uint32_t d = 0; d < 3; d++) {
            e->grid[d] = 2 * (d + 1 + i);
            e->block[d] = d + 2;
            e->cluster[d] = d == 0 ? 2 : 1;
        }
        e->dynamic_shared = 100 * (i + 1);
        e->waits = i;
        e->resident = 1 - i;
        e->param_count = 1 + i;
        snprintf(e->params[0].name, sizeof e->params[0].name, "to");
        snprintf(e->params[0].type, sizeof e->params[0].type, "u64");
        snprintf(e->params[1].name, sizeof e->params[1].name, "n");
        snprintf(e->params[1].type, sizeof e->params[1].type, "u32");
    }
}

static struct image_line line_table[LINES];
static const char *const file_table[] = {"mine.ptx.lua", "lib/helper.lua"};

static dcpk_status make(const char *text, const dcpk_entry_info *entries, uint32_t count, dcpk_image **image,
                        dcpk_error *error) {
    for (uint32_t i = 0; i < LINES; i++)
        line_table[i] = (struct image_line){i % 2, i < 3 ? 0 : 10 + i};
    struct image_parts parts = {.cubin = cubin,
                                .cubin_length = cubin_length,
                                .ptx = text,
                                .ptx_length = strlen(text),
                                .preimage = preimage,
                                .spec = spec_text,
                                .target = "sm_90",
                                .ptx_version = 78,
                                .entry_count = count,
                                .entries = entries,
                                .lines = line_table,
                                .line_count = LINES,
                                .files = file_table,
                                .file_count = 2};
    dcpk_error_init(error);
    return image_make(&parts, image, error);
}

static dcpk_image *good_image(void) {
    dcpk_entry_info entries[2];
    dcpk_image *image = NULL;
    dcpk_error error;
    fill_entries(entries);
    dcpk_status status = make(ptx, entries, 2, &image, &error);
    ck_assert_msg(status == DCPK_OK, "%s", error.text);
    return image;
}

/* A writable copy of the good image's bytes, exactly as long, so that a read past the end shows. */
static unsigned char *good_bytes(size_t *length) {
    dcpk_image *image = good_image();
    const void *bytes = dcpk_image_bytes(image, length);
    unsigned char *copy = malloc(*length);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes, *length);
    dcpk_image_free(image);
    return copy;
}

static dcpk_status read_bytes(const unsigned char *bytes, size_t length, dcpk_error *error) {
    dcpk_image *image = NULL;
    dcpk_error_init(error);
    dcpk_status status = dcpk_image_from_bytes(bytes, length, &image, error);
    ck_assert_int_eq(status == DCPK_OK, image != NULL);
    dcpk_image_free(image);
    return status;
}

/* The checksum as the layout's comment says: of everything before the footer, most significant byte first. */
static void seal(unsigned char *bytes, size_t length) {
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes, length - 40));
    memcpy(bytes + length - 32, digest.digest, 16);
}

START_TEST(image_gives_back_what_it_was_made_of) {
    if (!cubin) return;
    dcpk_image *image = good_image();
    size_t length = 0;
    ck_assert_mem_eq(dcpk_image_cubin(image, &length), cubin, cubin_length);
    ck_assert_uint_eq(length, cubin_length);
    ck_assert_str_eq(dcpk_image_ptx(image, &length), ptx);
    ck_assert_uint_eq(length, sizeof ptx - 1);
    ck_assert_str_eq(dcpk_image_preimage(image, &length), preimage);
    ck_assert_uint_eq(length, sizeof preimage - 1);
    XXH128_canonical_t digest;
    char key[33];
    XXH128_canonicalFromHash(&digest, XXH3_128bits(preimage, sizeof preimage - 1));
    for (int i = 0; i < 16; i++)
        snprintf(key + 2 * i, 3, "%02x", digest.digest[i]);
    ck_assert_str_eq(dcpk_image_key(image), key);
    dcpk_spec spec;
    dcpk_error error;
    dcpk_error_init(&error);
    ck_assert_int_eq(dcpk_image_spec(image, &spec, &error), DCPK_OK);
    ck_assert_str_eq(spec.kernel, "mine");
    ck_assert_str_eq(spec.arch, "sm_90a");
    ck_assert_int_eq(spec.heads, 3);
    ck_assert_int_eq(spec.batch, 5);
    dcpk_image_free(image);
}
END_TEST

START_TEST(image_entries_keep_launch_and_take_resources_from_the_cubin) {
    if (!cubin) return;
    dcpk_image *image = good_image();
    dcpk_entry_info wanted[2], info = {.size = sizeof info};
    dcpk_error error;
    dcpk_error_init(&error);
    fill_entries(wanted);
    ck_assert_uint_eq(dcpk_image_entry_count(image), 2);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(dcpk_image_entry(image, i, &info, &error), DCPK_OK);
        ck_assert_uint_gt(info.registers, 0);
        wanted[i].registers = info.registers;
        ck_assert_str_eq(info.name, wanted[i].name);
        ck_assert_mem_eq(info.grid, wanted[i].grid, sizeof info.grid);
        ck_assert_mem_eq(info.block, wanted[i].block, sizeof info.block);
        ck_assert_mem_eq(info.cluster, wanted[i].cluster, sizeof info.cluster);
        ck_assert_uint_eq(info.dynamic_shared, 100 * (i + 1));
        ck_assert_uint_eq(info.waits, i);
        ck_assert_uint_eq(info.resident, 1 - i);
        ck_assert_uint_eq(info.param_count, 1 + i);
        ck_assert_str_eq(info.params[i].name, i ? "n" : "to");
        ck_assert_str_eq(info.params[i].type, i ? "u32" : "u64");
    }
    ck_assert_int_eq(dcpk_image_entry(image, 2, &info, &error), DCPK_E_ARG);
    dcpk_image_free(image);
}
END_TEST

START_TEST(image_lines_lead_to_template_lines) {
    if (!cubin) return;
    dcpk_image *image = good_image();
    for (uint32_t line = 0; line < LINES + 3; line++) {
        const char *file = "x";
        uint32_t found = dcpk_image_template_line(image, line, &file);
        if (line < 4 || line > LINES) {
            ck_assert_uint_eq(found, 0);
            ck_assert_ptr_null(file);
        } else {
            ck_assert_uint_eq(found, 10 + line - 1);
            ck_assert_str_eq(file, file_table[(line - 1) % 2]);
        }
    }
    dcpk_image_free(image);
}
END_TEST

START_TEST(image_ptx_and_lines_are_found_from_the_address_alone) {
    if (!cubin) return;
    dcpk_image *image = good_image();
    const void *blob = dcpk_image_bytes(image, NULL);
    struct image_view view;
    const char *file = NULL;
    ck_assert_mem_eq(blob, "\177ELF", 4);
    ck_assert_uint_eq((uintptr_t)blob % 16, 0);
    ck_assert_str_eq(image_find_ptx(blob), ptx);
    ck_assert(image_find(blob, UINT64_MAX, &view));
    ck_assert_uint_eq(image_find_line(&view, 7, &file), 16);
    ck_assert_str_eq(file, "mine.ptx.lua");
    ck_assert_ptr_null(image_find_ptx(".version 7.8\n.target sm_90\n"));
    dcpk_image_free(image);
}
END_TEST

/* cuobjdump, readelf and ptxas work on an entry: the ELF file is whole and first, the PTX is plain text. */
START_TEST(image_begins_with_the_cubin_and_its_ptx_is_plain_text) {
    if (!cubin) return;
    size_t length = 0;
    unsigned char *bytes = good_bytes(&length);
    ck_assert_mem_eq(bytes, cubin, cubin_length);
    dcpk_image *image = good_image();
    const char *text = dcpk_image_ptx(image, &length);
    for (size_t i = 0; i < length; i++)
        ck_assert_msg(text[i] != 0 && (unsigned char)text[i] < 0x80, "byte %zu", i);
    size_t again = 0;
    char *second = real_cubin(text, "sm_90a", &again, NULL); /* and ptxas takes it */
    free(second);
    dcpk_image_free(image);
    free(bytes);
}
END_TEST

START_TEST(image_ptx_with_nul_or_non_ascii_bytes_is_refused) {
    if (!cubin) return;
    dcpk_entry_info entries[2];
    dcpk_image *image = NULL;
    dcpk_error error;
    fill_entries(entries);
    ck_assert_int_eq(make("// an arrow: \xe2\x86\x92\n", entries, 2, &image, &error), DCPK_E_CACHE);
    ck_assert_ptr_null(image);
    struct image_parts parts = {.cubin = cubin,
                                .cubin_length = cubin_length,
                                .ptx = "a\0b",
                                .ptx_length = 3,
                                .preimage = preimage,
                                .spec = spec_text,
                                .target = "sm_90",
                                .ptx_version = 78,
                                .entry_count = 2,
                                .entries = entries};
    ck_assert_int_eq(image_make(&parts, &image, &error), DCPK_E_CACHE);
    ck_assert_ptr_null(image);
}
END_TEST

START_TEST(image_with_any_bit_flipped_is_refused) {
    if (!cubin) return;
    size_t length = 0;
    unsigned char *bytes = good_bytes(&length);
    dcpk_error error;
    ck_assert_int_eq(read_bytes(bytes, length, &error), DCPK_OK);
    for (size_t at = 0; at < length; at++) {
        bytes[at] ^= (unsigned char)(1u << at % 8);
        dcpk_status status = read_bytes(bytes, length, &error);
        ck_assert_msg(status == DCPK_E_CACHE || status == DCPK_E_BAD_CUBIN, "byte %zu flipped: %s", at,
                      dcpk_status_name(status));
        bytes[at] ^= (unsigned char)(1u << at % 8);
    }
    free(bytes);
}
END_TEST

START_TEST(image_cut_anywhere_is_refused) {
    if (!cubin) return;
    size_t length = 0;
    unsigned char *bytes = good_bytes(&length);
    dcpk_error error;
    for (size_t cut = 0; cut<length; cut += cut> 64 && cut < length - 64 ? 7 : 1) {
        unsigned char *exact = malloc(cut ? cut : 1);
        ck_assert_ptr_nonnull(exact);
        memcpy(exact, bytes, cut);
        ck_assert_msg(read_bytes(exact, cut, &error) == DCPK_E_CACHE, "the first %zu bytes pass", cut);
        free(exact);
    }
    free(bytes);
}
END_TEST

START_TEST(image_of_a_newer_format_is_not_found_rather_than_damaged) {
    if (!cubin) return;
    size_t length = 0;
    unsigned char *bytes = good_bytes(&length);
    size_t header = (cubin_length + 15) / 16 * 16;
    dcpk_error error;
    ck_assert_mem_eq(bytes + header, "DCPKIMG1", 8);
    ck_assert_mem_eq(bytes + length - 8, "DCPKEND1", 8);
    bytes[header + 8] = 2;
    seal(bytes, length);
    ck_assert_int_eq(read_bytes(bytes, length, &error), DCPK_E_CACHE); /* one of the two alone is damage */
    bytes[length - 16] = 2;
    ck_assert_int_eq(read_bytes(bytes, length, &error), DCPK_E_NOT_FOUND);
    ck_assert_msg(strstr(error.text, "format 2"), "%s", error.text);
    free(bytes);
}
END_TEST

/* With the checksum made right again, the deeper checks stand alone. */
START_TEST(image_of_resealed_random_damage_never_crashes) {
    if (!cubin) return;
    size_t length = 0;
    unsigned char *good = good_bytes(&length), *bytes = malloc(length);
    ck_assert_ptr_nonnull(bytes);
    size_t header = (cubin_length + 15) / 16 * 16;
    uint64_t state = 88172645463325252u;
    unsigned refused = 0;
    for (int round = 0; round < 20000; round++) {
        memcpy(bytes, good, length);
        for (int flips = 0; flips < 3; flips++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            size_t at = flips == 0 && round % 4 == 0 ? header + state % 104 : header + state % (length - header);
            bytes[at] = state & 64 ? (unsigned char)(state >> 40) : (unsigned char)(bytes[at] + 1);
        }
        seal(bytes, length);
        dcpk_error error;
        dcpk_image *image = NULL;
        dcpk_error_init(&error);
        if (dcpk_image_from_bytes(bytes, length, &image, &error) != DCPK_OK) {
            refused++;
            continue;
        }
        for (uint32_t line = 0; line < 20; line++)
            dcpk_image_template_line(image, line, NULL);
        dcpk_spec spec;
        dcpk_image_spec(image, &spec, &error);
        dcpk_image_free(image);
    }
    ck_assert_uint_gt(refused, 2000);
    ck_assert_uint_lt(refused, 20000);
    free(bytes);
    free(good);
}
END_TEST

static void refuse_meta(const char *text, const char *why) {
    struct image_meta meta;
    dcpk_error error;
    dcpk_error_init(&error);
    ck_assert_msg(image_meta_read(text, strlen(text), &meta, &error) == DCPK_E_CACHE, "%s passes", why);
}

#define META_HEAD "spec k arch=sm_90a\ntarget sm_90\nptx 78\nentries 1\n"
#define META_DIMS "entry k\ngrid 1 1 1\nblock 32 1 1\ncluster 1 1 1\ndynamic_shared 0\nwaits 1\nresident 0\n"
#define META_REST "static_shared 0\nregisters 8\nlocal 0\n"

START_TEST(image_metadata_is_read_strictly) {
    struct image_meta meta;
    dcpk_error error;
    dcpk_error_init(&error);
    static const char good[] = META_HEAD META_DIMS META_REST "params 1\nparam u64 to\n";
    ck_assert_int_eq(image_meta_read(good, strlen(good), &meta, &error), DCPK_OK);
    ck_assert_str_eq(meta.kernel, "k");
    ck_assert_uint_eq(meta.entries[0].block[0], 32);
    refuse_meta("", "an empty text");
    refuse_meta(META_HEAD META_DIMS META_REST "params 1\n", "a missing parameter");
    refuse_meta(META_HEAD META_DIMS META_REST "params 0\nmore\n", "a line too many");
    refuse_meta(META_HEAD META_DIMS META_REST "params 33\n", "33 parameters");
    refuse_meta(META_HEAD META_DIMS META_REST "params 01\nparam u64 to\n", "a leading zero");
    refuse_meta(META_HEAD META_DIMS META_REST "params 1\nparam u63 to\n", "an unknown type");
    refuse_meta(META_HEAD META_DIMS META_REST "params 1\nparam u64 a name\n", "a name with a blank");
    refuse_meta(META_HEAD META_DIMS META_REST "params 1\nparam u64 n23456789012345678901234567890123\n", "33 letters");
    refuse_meta(META_HEAD META_DIMS "registers 8\n", "lines in another order");
    refuse_meta("spec k\ntarget sm_90\nptx 4294967296\nentries 1\n", "a number past 32 bits");
    refuse_meta("spec k\ntarget sm_90\nptx -1\nentries 1\n", "a negative number");
    refuse_meta("spec k\ntarget sm_90\nptx 78\nentries 5\n", "five entries");
    refuse_meta("spec k\ntarget sm_90\nptx 78\nentries 0\n", "no entry");
    refuse_meta(META_HEAD
                "entry k\ngrid 1 1 1\nblock 64 32 1\ncluster 1 1 1\ndynamic_shared 0\nwaits 1\nresident 0\n" META_REST
                "params 0\n",
                "2048 threads a CTA");
    refuse_meta(META_HEAD
                "entry k\ngrid 0 1 1\nblock 64 1 1\ncluster 1 1 1\ndynamic_shared 0\nwaits 1\nresident 0\n" META_REST
                "params 0\n",
                "an empty grid");
}
END_TEST

START_TEST(image_with_more_entries_than_the_cubin_is_refused) {
    if (!cubin) return;
    dcpk_entry_info entries[2];
    dcpk_image *image = NULL;
    dcpk_error error;
    fill_entries(entries);
    snprintf(entries[1].name, sizeof entries[1].name, "dcpk_three");
    ck_assert_int_eq(make(ptx, entries, 2, &image, &error), DCPK_E_BAD_CUBIN);
    ck_assert_msg(strstr(error.text, "dcpk_three"), "%s", error.text);
    ck_assert_int_eq(make(ptx, entries, 0, &image, &error), DCPK_E_ARG);
    ck_assert_int_eq(make(ptx, entries, 5, &image, &error), DCPK_E_ARG);
}
END_TEST

static void *take_and_drop(void *self) {
    for (int i = 0; i < 20000; i++) {
        dcpk_image_ref(self);
        dcpk_image_free(self);
    }
    return NULL;
}

START_TEST(image_references_are_counted_from_any_thread) {
    if (!cubin) return;
    dcpk_image *image = good_image();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_and_drop, image), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_str_eq(dcpk_image_ptx(image, NULL), ptx); /* still alive: the sanitizer sees it if not */
    dcpk_image_free(image);
    dcpk_image_free(NULL);
}
END_TEST

START_TEST(image_entry_fills_no_more_than_the_caller_has) {
    if (!cubin) return;
    dcpk_image *image = good_image();
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_entry_info info;
    memset(&info, 0x5a, sizeof info);
    info.size = 80; /* size and name, and 12 bytes of grid */
    ck_assert_int_eq(dcpk_image_entry(image, 0, &info, &error), DCPK_OK);
    ck_assert_uint_eq(info.size, 80);
    ck_assert_str_eq(info.name, "dcpk_one");
    ck_assert_uint_eq(info.block[0], 0x5a5a5a5a);
    info.size = 0;
    ck_assert_int_eq(dcpk_image_entry(image, 0, &info, &error), DCPK_E_ARG);
    dcpk_image_free(image);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("image");
    TCase *tcase = tcase_create("image");
    tcase_set_timeout(tcase, 20);
    tcase_add_unchecked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, image_gives_back_what_it_was_made_of);
    tcase_add_test(tcase, image_entries_keep_launch_and_take_resources_from_the_cubin);
    tcase_add_test(tcase, image_lines_lead_to_template_lines);
    tcase_add_test(tcase, image_ptx_and_lines_are_found_from_the_address_alone);
    tcase_add_test(tcase, image_begins_with_the_cubin_and_its_ptx_is_plain_text);
    tcase_add_test(tcase, image_ptx_with_nul_or_non_ascii_bytes_is_refused);
    tcase_add_test(tcase, image_with_any_bit_flipped_is_refused);
    tcase_add_test(tcase, image_cut_anywhere_is_refused);
    tcase_add_test(tcase, image_of_a_newer_format_is_not_found_rather_than_damaged);
    tcase_add_test(tcase, image_of_resealed_random_damage_never_crashes);
    tcase_add_test(tcase, image_metadata_is_read_strictly);
    tcase_add_test(tcase, image_with_more_entries_than_the_cubin_is_refused);
    tcase_add_test(tcase, image_references_are_counted_from_any_thread);
    tcase_add_test(tcase, image_entry_fills_no_more_than_the_caller_has);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
