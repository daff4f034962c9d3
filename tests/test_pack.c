/* test_pack.c - packs: what goes in comes out, found by spec and by key, from several packs in order; their bytes are
 * as pack.h says and depend on nothing else; who may own one; what a miss says. */
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

static dcpk_status find(dcpk_packs *packs, int batch, dcpk_image **image) {
    dcpk_spec spec;
    packing_spec(batch, &spec);
    return dcpk_packs_find(packs, &spec, image, &error);
}

/* ---- bytes --------------------------------------------------------------------------------------- */
START_TEST(pack_gives_back_the_very_bytes_that_went_in) {
    static const int batches[] = {7, 1, 30, 0};
    packing_write("a.dcpk", batches);
    dcpk_packs *packs = packing_open("a.dcpk");
    for (int i = 0; i < 3; i++) {
        dcpk_image *in = packing_image(batches[i], 128), *out = NULL;
        size_t left = 0, right = 0;
        ck_assert_int_eq(find(packs, batches[i], &out), DCPK_OK);
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
    ck_assert_int_eq(find(packs, 3, &image), DCPK_OK);
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
    struct stat st;
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
    ck_assert_int_eq(stat("deep/b", &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0644);
    free(a);
    free(b);
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
    ck_assert_int_eq(find(packs, 1, &image), DCPK_E_NOT_FOUND);
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
    ck_assert_int_eq(find(packs, 1, &image), DCPK_OK);
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
    ck_assert_int_eq(find(packs, 2, &image), DCPK_OK);
    dcpk_image_free(image);
    dcpk_packs_close(packs);
}
END_TEST

/* ---- searching ----------------------------------------------------------------------------------- */
static void write_one(const char *path, int batch, uint32_t threads) {
    dcpk_image *image = packing_image(batch, threads);
    ck_assert_int_eq(dcpk_pack_write(path, &image, 1, NULL, &error), DCPK_OK);
    dcpk_image_free(image);
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

static uint32_t threads_of(dcpk_packs *packs, int batch) {
    dcpk_image *image = NULL;
    dcpk_entry_info info = {.size = sizeof info};
    ck_assert_msg(find(packs, batch, &image) == DCPK_OK, "%s", error.text);
    ck_assert_int_eq(dcpk_image_entry(image, 0, &info, &error), DCPK_OK);
    dcpk_image_free(image);
    return info.block[0];
}

START_TEST(of_several_packs_the_first_that_has_the_spec_answers) {
    write_one("a.dcpk", 1, 128);
    write_one("b.dcpk", 1, 256);
    write_one("c.dcpk", 2, 512);
    dcpk_packs *packs = packing_open("a.dcpk::b.dcpk:c.dcpk:");
    ck_assert_uint_eq(dcpk_packs_count(packs), 3);
    ck_assert_uint_eq(threads_of(packs, 1), 128);
    ck_assert_uint_eq(threads_of(packs, 2), 512);
    dcpk_packs_close(packs);
    packs = packing_open("b.dcpk:a.dcpk");
    ck_assert_uint_eq(threads_of(packs, 1), 256);
    dcpk_packs_close(packs);
}
END_TEST

START_TEST(packs_come_from_the_environment_and_an_empty_list_is_none) {
    dcpk_packs *packs = NULL;
    write_one("a.dcpk", 1, 128);
    ck_assert_int_eq(dcpk_packs_open(NULL, &packs, &error), DCPK_OK);
    ck_assert_uint_eq(dcpk_packs_count(packs), 0);
    dcpk_image *image = NULL;
    ck_assert_int_eq(find(packs, 1, &image), DCPK_E_NOT_FOUND);
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
    ck_assert_int_eq(find(packs, 18, &image), DCPK_E_NOT_FOUND);
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
    write_one("b.dcpk", 5, 128); /* the same key twice is one key */
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
        ck_assert_int_eq(find(packs, batch, &image), DCPK_E_CACHE);
        expect_text(error, "a.dcpk: entry ");
        expect_text(error, "the file ends at byte");
    }
    ck_assert_int_eq(truncate("a.dcpk", 0), 0);
    ck_assert_int_eq(find(packs, 1, &image), DCPK_E_CACHE);
    ck_assert_int_eq(find(packs, 99, &image), DCPK_E_NOT_FOUND); /* the index is in memory */
    dcpk_packs_close(packs);
}
END_TEST

START_TEST(a_pack_that_is_replaced_by_rename_goes_on_with_the_old_file) {
    write_one("a.dcpk", 1, 128);
    dcpk_packs *packs = packing_open("a.dcpk");
    write_one("a.dcpk", 1, 256);
    ck_assert_uint_eq(threads_of(packs, 1), 128);
    dcpk_packs_close(packs);
    packs = packing_open("a.dcpk");
    ck_assert_uint_eq(threads_of(packs, 1), 256);
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
    tcase_add_test(tests, pack_is_laid_out_as_its_header_file_says);
    tcase_add_test(tests, an_empty_pack_is_a_pack);
    tcase_add_test(tests, two_different_images_of_one_spec_are_refused);
    tcase_add_test(tests, manifests_that_are_no_lines_are_refused);
    tcase_add_test(tests, pack_is_written_whole_or_not_at_all);
    tcase_add_test(tests, pack_is_not_written_over_what_is_no_file);
    tcase_add_test(tests, of_several_packs_the_first_that_has_the_spec_answers);
    tcase_add_test(tests, packs_come_from_the_environment_and_an_empty_list_is_none);
    tcase_add_test(tests, a_miss_names_spec_packs_and_the_nearest_entries_with_the_keys_that_differ);
    tcase_add_test(tests, an_entry_is_found_by_its_key_or_a_unique_prefix);
    tcase_add_test(tests, a_prefix_of_two_keys_is_refused_and_names_both);
    tcase_add_test(tests, visits_go_pack_by_pack_in_spec_order_and_stop_when_asked);
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
