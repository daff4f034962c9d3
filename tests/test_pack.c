/* test_pack.c - packs: what goes in comes out; their bytes are as pack.h says and depend on nothing else; who may own
 * one; files that change. Searching in them is test_pack_find.c's. */
#include "tests/packing.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static dcpk_error error;

static void setup(void) {
    packing_setup();
    dcpk_error_init(&error);
}

/* ---- bytes --------------------------------------------------------------------------------------- */
START_TEST(pack_gives_back_the_very_bytes_that_went_in) {
    static const int batches[] = {7, 1, 30, 0};
    packing_write("a.dcpk", batches);
    dcpk_packs *packs = packing_open("a.dcpk");
    for (int i = 0; i < 3; i++) {
        dcpk_image *in = packing_image(batches[i], 128), *out = NULL;
        size_t left = 0, right = 0;
        ck_assert_int_eq(packing_find(packs, batches[i], &out, &error), DCPK_OK);
        const void *a = dcpk_image_bytes(in, &left), *b = dcpk_image_bytes(out, &right);
        ck_assert_uint_eq(left, right);
        ck_assert_mem_eq(a, b, left);
        dcpk_image_free(in);
        dcpk_image_free(out);
    }
    dcpk_packs_close(packs);
}
END_TEST

START_TEST(images_stay_valid_after_the_pack_is_closed) {
    packing_write("a.dcpk", (const int[]){3, 0});
    dcpk_packs *packs = packing_open("a.dcpk");
    dcpk_image *image = NULL;
    ck_assert_int_eq(packing_find(packs, 3, &image, &error), DCPK_OK);
    dcpk_packs_close(packs);
    ck_assert_int_eq(unlink("a.dcpk"), 0);
    size_t length = 0;
    ck_assert_ptr_nonnull(dcpk_image_ptx(image, &length));
    ck_assert_str_ne(dcpk_image_key(image), "");
    dcpk_image_free(image);
    dcpk_packs_close(NULL);
}
END_TEST

START_TEST(pack_bytes_do_not_depend_on_order_repetition_folder_mask_or_time) {
    size_t first = 0, second = 0;
    packing_write("a.dcpk", (const int[]){1, 2, 3, 20, 0});
    ck_assert_int_eq(mkdir("deep", 0755), 0);
    mode_t mask = umask(077);
    ck_assert_int_eq(setenv("SOURCE_DATE_EPOCH", "1", 1), 0);
    packing_write("deep/b", (const int[]){20, 3, 1, 2, 3, 20, 0});
    umask(mask);
    unsetenv("SOURCE_DATE_EPOCH");
    unsigned char *a = packing_read("a.dcpk", &first), *b = packing_read("deep/b", &second);
    ck_assert_uint_eq(first, second);
    ck_assert_mem_eq(a, b, first);
    free(a);
    free(b);
}
END_TEST

START_TEST(pack_has_the_permissions_that_the_mask_leaves_and_none_to_write_for_others) {
    static const struct { mode_t mask, mode; } rows[] = {{0, 0644}, {002, 0644}, {022, 0644}, {027, 0640}, {077, 0600}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct stat st;
        mode_t mask = umask(rows[i].mask);
        packing_write("a.dcpk", (const int[]){1, 0});
        umask(mask);
        ck_assert_int_eq(stat("a.dcpk", &st), 0);
        ck_assert_uint_eq(st.st_mode & 07777, rows[i].mode);
    }
}
END_TEST

static uint64_t number(const unsigned char *p, int bytes) {
    uint64_t value = 0;
    for (int i = bytes; i-- > 0;)
        value = value << 8 | p[i];
    return value;
}

static void expect_digest(const unsigned char *stored, const unsigned char *bytes, size_t length) {
    XXH128_canonical_t wanted;
    XXH128_canonicalFromHash(&wanted, XXH3_128bits(bytes, length));
    ck_assert_mem_eq(stored, wanted.digest, 16);
}

/* Read here without any code of the reader. */
START_TEST(pack_is_laid_out_as_its_header_file_says) {
    size_t length = 0;
    packing_write("a.dcpk", (const int[]){2, 10, 1, 0});
    unsigned char *p = packing_read("a.dcpk", &length);
    ck_assert_mem_eq(p, "dcpkpack\1\0\0\0\xFE\xFF\xFF\xFF", 16);
    ck_assert_uint_eq(number(p + 16, 8), length);
    size_t manifest = number(p + 24, 8), index = number(p + 32, 8), entries = number(p + 40, 8);
    size_t specs = number(p + 48, 8), specs_bytes = number(p + 56, 8), images = number(p + 64, 8);
    ck_assert_uint_eq(manifest, strlen("dcpk test\ntoolchain none\n"));
    ck_assert_str_eq((const char *)p + 128, "dcpk test\ntoolchain none\n");
    ck_assert_uint_eq(entries, 3);
    ck_assert_uint_eq(index % 16, 0);
    ck_assert_uint_eq(specs, index + 64 * entries);
    ck_assert_uint_eq(images % 64, 0);
    expect_digest(p + 80, p + 128, images - 128);
    expect_digest(p + 112, p, 112);
    const char *before = "";
    size_t end = images;
    for (size_t i = 0; i < entries; i++) {
        const unsigned char *row = p + index + 64 * i;
        size_t offset = number(row, 8), bytes = number(row + 8, 8), at = number(row + 48, 4);
        const char *spec = (const char *)p + specs + at;
        ck_assert_uint_lt(at, specs_bytes);
        ck_assert_uint_eq(strlen(spec), number(row + 52, 4));
        ck_assert_int_lt(strcmp(before, spec), 0);
        ck_assert_uint_eq(offset, (end + 63) / 64 * 64);
        ck_assert_mem_eq(p + offset, "\177ELF", 4);
        expect_digest(row + 16, p + offset, bytes);
        before = spec;
        end = offset + bytes;
    }
    ck_assert_uint_eq(end, length);
    free(p);
}
END_TEST

START_TEST(an_empty_pack_is_a_pack) {
    ck_assert_int_eq(dcpk_pack_write("none.dcpk", NULL, 0, NULL, &error), DCPK_OK);
    dcpk_packs *packs = packing_open("none.dcpk");
    dcpk_pack_info info = {.size = sizeof info};
    ck_assert_int_eq(dcpk_packs_info(packs, 0, &info, &error), DCPK_OK);
    ck_assert_str_eq(info.manifest, "");
    ck_assert_uint_eq(info.entries, 0);
    dcpk_image *image = NULL;
    ck_assert_int_eq(packing_find(packs, 1, &image, &error), DCPK_E_NOT_FOUND);
    expect_text(error, "there are no entries");
    dcpk_packs_close(packs);
}
END_TEST

/* ---- writing ------------------------------------------------------------------------------------- */
START_TEST(two_different_images_of_one_spec_are_refused) {
    dcpk_image *images[] = {packing_image(1, 128), packing_image(1, 256)};
    ck_assert_int_eq(dcpk_pack_write("a.dcpk", images, 2, NULL, &error), DCPK_E_ARG);
    expect_text(error, "query_norm arch=sm_90a heads=2 batch=1 ");
    ck_assert_int_ne(access("a.dcpk", F_OK), 0);
    dcpk_image_free(images[0]);
    dcpk_image_free(images[1]);
}
END_TEST

START_TEST(manifests_that_are_no_lines_are_refused) {
    static const char *const wrong[] = {"a",      "name value", "name\n",   "name \n",      "Name value\n", " value\n",
                                        "\n",     "a b\n\n",    "a b\nc d", "a \033[31m\n", "a \xC3\xA4\n", "a b\tc\n",
                                        "a_b c\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        dcpk_error_init(&error);
        ck_assert_msg(dcpk_pack_write("a.dcpk", NULL, 0, wrong[i], &error) == DCPK_E_ARG, "'%s' is taken", wrong[i]);
        expect_text(error, "manifest");
        ck_assert_int_ne(access("a.dcpk", F_OK), 0);
    }
    ck_assert_int_eq(dcpk_pack_write("a.dcpk", NULL, 0, "a-1 b c = d\nx y\n", &error), DCPK_OK);
}
END_TEST

static unsigned files_here(void) {
    char text[16] = "";
    FILE *ls = popen("ls -A | wc -l", "r"); /* NOLINT: our own words */
    ck_assert_ptr_nonnull(ls);
    ck_assert_ptr_nonnull(fgets(text, sizeof text, ls));
    pclose(ls);
    return (unsigned)atoi(text);
}

/* In a child: the limit holds for a whole process. */
static int write_on_a_full_disk(void) {
    struct rlimit limit = {1024, 1024};
    signal(SIGXFSZ, SIG_IGN);
    dcpk_image *image = packing_image(2, 128);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    dcpk_status status = dcpk_pack_write("a.dcpk", &image, 1, NULL, &error);
    return status == DCPK_E_IO && error.sys_errno == EFBIG && strstr(error.text, "a.dcpk") != NULL ? 0 : 1;
}

START_TEST(pack_is_written_whole_or_not_at_all) {
    int status = 0;
    packing_write("a.dcpk", (const int[]){1, 0});
    pid_t child = fork();
    if (child == 0) _exit(write_on_a_full_disk());
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
    ck_assert_uint_eq(files_here(), 1);
    dcpk_packs *packs = packing_open("a.dcpk"); /* the old one */
    dcpk_image *image = NULL;
    ck_assert_int_eq(packing_find(packs, 1, &image, &error), DCPK_OK);
    dcpk_image_free(image);
    dcpk_packs_close(packs);
}
END_TEST

START_TEST(pack_is_not_written_over_what_is_no_file) {
    ck_assert_int_eq(mkdir("folder", 0755), 0);
    ck_assert_int_eq(mkfifo("pipe", 0600), 0);
    ck_assert_int_eq(dcpk_pack_write("folder", NULL, 0, NULL, &error), DCPK_E_IO);
    ck_assert_int_eq(dcpk_pack_write("pipe", NULL, 0, NULL, &error), DCPK_E_IO);
    expect_text(error, "not a regular file");
    ck_assert_int_eq(dcpk_pack_write("missing/a.dcpk", NULL, 0, NULL, &error), DCPK_E_IO);
    expect_text(error, "missing/a.dcpk: No such file");
    ck_assert_int_eq(dcpk_pack_write("", NULL, 0, NULL, &error), DCPK_E_ARG);
    ck_assert_int_eq(dcpk_pack_write("a.dcpk", NULL, 1, NULL, &error), DCPK_E_ARG);
    ck_assert_uint_eq(files_here(), 2);
    /* A link's target is replaced, not the link. */
    struct stat st;
    ck_assert_int_eq(symlink("real.dcpk", "link.dcpk"), 0);
    packing_write("real.dcpk", (const int[]){1, 0});
    packing_write("link.dcpk", (const int[]){2, 0});
    ck_assert_int_eq(lstat("link.dcpk", &st), 0);
    ck_assert(S_ISLNK(st.st_mode));
    dcpk_packs *packs = packing_open("real.dcpk");
    dcpk_image *image = NULL;
    ck_assert_int_eq(packing_find(packs, 2, &image, &error), DCPK_OK);
    dcpk_image_free(image);
    dcpk_packs_close(packs);
}
END_TEST

/* ---- who may own a pack, and what is none -------------------------------------------------------- */
START_TEST(a_pack_that_others_may_write_is_refused_with_the_chmod_that_mends_it) {
    static const mode_t modes[] = {0666, 0664, 0646};
    packing_write("a.dcpk", (const int[]){1, 0});
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        ck_assert_int_eq(chmod("a.dcpk", modes[i]), 0);
        packing_refused("a.dcpk", DCPK_E_UNTRUSTED, "chmod go-w 'a.dcpk'");
    }
    ck_assert_int_eq(system("chmod go-w 'a.dcpk'"), 0); /* NOLINT: the command that the message shows */
    dcpk_packs_close(packing_open("a.dcpk"));
    ck_assert_int_eq(chmod("a.dcpk", 0444), 0);
    dcpk_packs_close(packing_open("a.dcpk"));
}
END_TEST

START_TEST(a_pack_of_another_user_is_refused_unless_that_user_is_trusted) {
    enum { STRANGER = 12345 };
    if (geteuid() != 0) {
        fprintf(stderr, "skipped: not root, so no file can belong to another user\n");
        return;
    }
    packing_write("a.dcpk", (const int[]){1, 0});
    ck_assert_int_eq(chown("a.dcpk", STRANGER, STRANGER), 0);
    packing_refused("a.dcpk", DCPK_E_UNTRUSTED, "a.dcpk belongs to user 12345");
    packing_refused("a.dcpk", DCPK_E_UNTRUSTED, "chown 0 'a.dcpk'");
    dcpk_packs_options options = {.size = sizeof options, .path = "a.dcpk", .trusted_uid = STRANGER};
    dcpk_packs *packs = NULL;
    ck_assert_int_eq(dcpk_packs_open(&options, &packs, &error), DCPK_OK);
    dcpk_packs_close(packs);
    ck_assert_int_eq(setenv("DCPK_CACHE_TRUST_UID", "12345", 1), 0);
    dcpk_packs_close(packing_open("a.dcpk"));
    ck_assert_int_eq(setenv("DCPK_CACHE_TRUST_UID", "12346", 1), 0);
    packing_refused("a.dcpk", DCPK_E_UNTRUSTED, "DCPK_CACHE_TRUST_UID=12345");
}
END_TEST

START_TEST(what_is_no_pack_says_so) {
    ck_assert_int_eq(mkdir("folder", 0755), 0);
    ck_assert_int_eq(mkfifo("pipe", 0600), 0);
    packing_put("text", "hello", 5);
    packing_put("empty", "", 0);
    packing_refused("missing.dcpk", DCPK_E_NOT_FOUND, "there is no pack missing.dcpk");
    packing_refused("folder", DCPK_E_IO, "folder is not a regular file");
    packing_refused("pipe", DCPK_E_IO, "pipe is not a regular file"); /* and nobody waits for a writer */
    packing_refused("text", DCPK_E_CACHE, "text: this is no pack");
    packing_refused("empty", DCPK_E_CACHE, "empty: this is no pack");
    packing_write("a.dcpk", (const int[]){1, 0});
    packing_refused("a.dcpk:text", DCPK_E_CACHE, "text: this is no pack");
}
END_TEST

START_TEST(a_newer_format_is_not_found_and_names_both_versions) {
    size_t length = 0;
    packing_write("a.dcpk", (const int[]){1, 0});
    unsigned char *bytes = packing_read("a.dcpk", &length);
    memcpy(bytes + 8, "\3\0\0\0\xFC\xFF\xFF\xFF", 8);
    packing_put("new.dcpk", bytes, length);
    packing_refused("new.dcpk", DCPK_E_NOT_FOUND, "format 3, this library reads 1");
    memcpy(bytes + 8, "\3\0\0\0\xFE\xFF\xFF\xFF", 8); /* one word alone: bits that flipped */
    packing_put("new.dcpk", bytes, length);
    packing_refused("new.dcpk", DCPK_E_CACHE, "damaged");
    memcpy(bytes + 8, "\0\0\0\0\xFF\xFF\xFF\xFF", 8); /* there is no older one */
    packing_put("new.dcpk", bytes, length);
    packing_refused("new.dcpk", DCPK_E_CACHE, "damaged");
    free(bytes);
}
END_TEST

/* ---- files that change --------------------------------------------------------------------------- */
START_TEST(a_pack_that_shrinks_while_it_is_open_is_an_error_and_no_signal) {
    packing_write("a.dcpk", (const int[]){1, 2, 3, 0});
    dcpk_packs *packs = packing_open("a.dcpk");
    dcpk_image *image = NULL;
    ck_assert_int_eq(truncate("a.dcpk", 700), 0);
    for (int batch = 1; batch <= 3; batch++) {
        ck_assert_int_eq(packing_find(packs, batch, &image, &error), DCPK_E_CACHE);
        expect_text(error, "a.dcpk: entry ");
        expect_text(error, "the file ends at byte");
    }
    ck_assert_int_eq(truncate("a.dcpk", 0), 0);
    ck_assert_int_eq(packing_find(packs, 1, &image, &error), DCPK_E_CACHE);
    ck_assert_int_eq(packing_find(packs, 99, &image, &error), DCPK_E_NOT_FOUND); /* the index is in memory */
    dcpk_packs_close(packs);
}
END_TEST

START_TEST(a_pack_that_is_replaced_by_rename_goes_on_with_the_old_file) {
    packing_write_one("a.dcpk", 1, 128);
    dcpk_packs *packs = packing_open("a.dcpk");
    packing_write_one("a.dcpk", 1, 256);
    ck_assert_uint_eq(packing_threads(packs, 1), 128);
    dcpk_packs_close(packs);
    packs = packing_open("a.dcpk");
    ck_assert_uint_eq(packing_threads(packs, 1), 256);
    dcpk_packs_close(packs);
}
END_TEST

static void *find_often(void *packs) {
    for (int i = 0; i < 200; i++) {
        dcpk_spec spec;
        dcpk_image *image = NULL;
        packing_spec(1 + i % 3, &spec);
        if (dcpk_packs_find(packs, &spec, &image, NULL) != DCPK_OK) return packs;
        dcpk_image_free(image);
    }
    return NULL;
}

START_TEST(any_thread_may_search) {
    pthread_t threads[4];
    packing_write("a.dcpk", (const int[]){1, 2, 3, 0});
    dcpk_packs *packs = packing_open("a.dcpk");
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, find_often, packs), 0);
    for (int i = 0; i < 4; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    dcpk_provider provider;
    ck_assert_int_eq(dcpk_packs_provider(packs, &provider, &error), DCPK_OK);
    dcpk_spec spec;
    dcpk_image *image = NULL;
    packing_spec(2, &spec);
    ck_assert_int_eq(provider.get(provider.self, &spec, &image, &error), DCPK_OK);
    dcpk_image_free(image);
    dcpk_packs_close(packs);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pack");
    TCase *tests = tcase_create("pack");
    tcase_add_checked_fixture(tests, setup, packing_teardown);
    tcase_add_test(tests, pack_gives_back_the_very_bytes_that_went_in);
    tcase_add_test(tests, images_stay_valid_after_the_pack_is_closed);
    tcase_add_test(tests, pack_bytes_do_not_depend_on_order_repetition_folder_mask_or_time);
    tcase_add_test(tests, pack_has_the_permissions_that_the_mask_leaves_and_none_to_write_for_others);
    tcase_add_test(tests, pack_is_laid_out_as_its_header_file_says);
    tcase_add_test(tests, an_empty_pack_is_a_pack);
    tcase_add_test(tests, two_different_images_of_one_spec_are_refused);
    tcase_add_test(tests, manifests_that_are_no_lines_are_refused);
    tcase_add_test(tests, pack_is_written_whole_or_not_at_all);
    tcase_add_test(tests, pack_is_not_written_over_what_is_no_file);
    tcase_add_test(tests, a_pack_that_others_may_write_is_refused_with_the_chmod_that_mends_it);
    tcase_add_test(tests, a_pack_of_another_user_is_refused_unless_that_user_is_trusted);
    tcase_add_test(tests, what_is_no_pack_says_so);
    tcase_add_test(tests, a_newer_format_is_not_found_and_names_both_versions);
    tcase_add_test(tests, a_pack_that_shrinks_while_it_is_open_is_an_error_and_no_signal);
    tcase_add_test(tests, a_pack_that_is_replaced_by_rename_goes_on_with_the_old_file);
    tcase_add_test(tests, any_thread_may_search);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
