/* test_cache_sweep.c - every system call of gen's work on a cache fails once, with each of several reasons: cold and
 * warm builds, a damaged entry replaced, eviction, and the walks. A build gives the right image, or where the
 * compiler's own call failed, a clean error; nothing damaged, no descriptor and no temporary stays, and the next build
 * is right. The compiler is played (faulty_system.h): a sweep makes thousands of builds. */
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
#include <unistd.h>

static const struct reason {
    const char *name;
    int value;
} reasons[] = {{"EIO", EIO},     {"ENOSPC", ENOSPC}, {"ESTALE", ESTALE}, {"EBUSY", EBUSY},
               {"EINTR", EINTR}, {"EACCES", EACCES}, {"EMFILE", EMFILE}};
enum { REASONS = sizeof reasons / sizeof reasons[0], FILES = 32, SPARSE = 8 << 20 };

/* ---- a cache folder as bytes in memory ------------------------------------------------------------ */
static struct kept {
    char path[160];
    char *bytes; /* NULL: a sparse file of that length, unused for long */
    size_t length;
} kept[FILES];
static unsigned kept_count;

static unsigned temporaries;
static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int keep_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)ftw;
    if (type != FTW_F) return 0;
    ck_assert_uint_lt(kept_count, FILES);
    struct kept *k = &kept[kept_count++];
    snprintf(k->path, sizeof k->path, "%s", path);
    k->bytes = get_file(path, &k->length);
    return 0;
}

static int count_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)ftw;
    temporaries += type == FTW_F && strstr(path, "/.tmp-") != NULL;
    return 0;
}

static void keep_cache(void) {
    kept_count = 0;
    nftw(cache_folder, keep_one, 16, FTW_PHYS);
}

static void set_long_ago(const char *path) {
    static const struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    ck_assert_int_eq(utimensat(AT_FDCWD, path, long_ago, 0), 0);
}

static void put_sparse(const char *path) {
    int fd = open(path, O_CREAT | O_WRONLY, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, SPARSE), 0);
    close(fd);
}

static void restore_cache(void) {
    nftw(cache_folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (kept_count > 0) ck_assert_int_eq(mkdir(cache_folder, 0700), 0);
    for (unsigned i = 0; i < kept_count; i++) {
        char folder[sizeof kept[i].path];
        memcpy(folder, kept[i].path, sizeof folder);
        *strrchr(folder, '/') = '\0';
        ck_assert(mkdir(folder, 0700) == 0 || errno == EEXIST);
        if (kept[i].bytes)
            put_file(kept[i].path, kept[i].bytes, kept[i].length);
        else
            put_sparse(kept[i].path);
        set_long_ago(kept[i].path);
    }
}

static void forget_cache(void) {
    for (unsigned i = 0; i < kept_count; i++)
        free(kept[i].bytes);
    kept_count = 0;
}

static struct kept *kept_file(const char *suffix, unsigned index) {
    for (unsigned i = 0; i < kept_count; i++) {
        size_t length = strlen(kept[i].path), wanted = strlen(suffix);
        if (length >= wanted && strcmp(kept[i].path + length - wanted, suffix) == 0 && index-- == 0) return &kept[i];
    }
    ck_abort_msg("no file *%s", suffix);
    return NULL;
}

/* ---- what must hold after a fault ----------------------------------------------------------------- */
static char shm[64], *cubin, where[160], newer_path[160], notes_path[160], key[33];
static size_t cubin_length;
static dcpk_image *wanted;
static unsigned entries, bad, unknown;

static int32_t count_entry(void *self, const dcpk_cache_entry *entry) {
    (void)self;
    entries++;
    bad += entry->state != DCPK_OK && entry->state != DCPK_E_NOT_FOUND;
    unknown += entry->state == DCPK_E_NOT_FOUND;
    return 0;
}

static void expect_wanted(const dcpk_image *image) {
    size_t length = 0, wanted_length = 0;
    const void *bytes = dcpk_image_bytes(image, &length), *right = dcpk_image_bytes(wanted, &wanted_length);
    ck_assert_msg(length == wanted_length && memcmp(bytes, right, length) == 0, "%s: another image", where);
}

static int check_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)ftw;
    if (type != FTW_F || !strstr(path, ".dcpk") || strcmp(path, newer_path) == 0) return 0;
    size_t length = 0;
    dcpk_image *image = NULL;
    char *bytes = get_file(path, &length);
    dcpk_status status = dcpk_image_from_bytes(bytes, length, &image, NULL);
    ck_assert_msg(status == DCPK_OK, "%s leaves a bad entry %s", where, path);
    dcpk_image_free(image);
    free(bytes);
    return 0;
}

/* The next build, with nothing failing, is right and finds or makes an entry; the folder is sound. */
static void expect_sound(unsigned descriptors) {
    dcpk_build_report report;
    ck_assert_msg(open_descriptors() == descriptors, "%s leaks a descriptor", where);
    temporaries = 0;
    nftw(cache_folder, count_one, 16, FTW_PHYS);
    ck_assert_msg(temporaries == 0, "%s leaves a temporary", where);
    fault_nth(0, 0);
    dcpk_gen *gen = open_gen_with(fake_path, NULL, &faulty_system);
    dcpk_image *image = build_tiny(gen, 1, &report);
    expect_wanted(image);
    ck_assert_msg(report.cached == 1, "%s: the next build is not cached: %s", where, logged.all);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
    nftw(cache_folder, check_one, 16, FTW_PHYS);
}

static void build_with_fault(void) {
    dcpk_image *image = NULL;
    dcpk_error error;
    dcpk_gen *gen = open_gen_with(fake_path, NULL, &faulty_system);
    dcpk_status status = try_tiny(gen, 1, &image, NULL, &error);
    ck_assert_int_eq(status == DCPK_OK, image != NULL);
    if (status == DCPK_OK)
        expect_wanted(image);
    else
        ck_assert_msg(fault.compiler && status == DCPK_E_TOOLCHAIN && error.text[0], "%s: %s", where, error.text);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
}

/* act with the n-th call failing, for every n and reason, each from the kept folder; at least `least` calls. */
static void sweep(const char *what, void (*act)(void), unsigned least) {
    unsigned n = 0, failures = 1;
    while (failures > 0) {
        n++;
        failures = 0;
        fault.vain = false;
        for (size_t r = 0; r < REASONS && !fault.vain;
             r++) { /* a call that fails by itself fails for one reason more */
            restore_cache();
            log_reset();
            unsigned descriptors = open_descriptors();
            snprintf(where, sizeof where, "%s, call %u, %s", what, n, reasons[r].name);
            fault_nth(n, reasons[r].value);
            act();
            failures += fault.failures;
            snprintf(where, sizeof where, "%s, call %u (%s), %s", what, n, fault.name, reasons[r].name);
            expect_sound(descriptors);
        }
    }
    ck_assert_msg(n > least, "%s: %u calls only", what, n - 1);
}

/* In memory where there is such a folder: a sweep makes a hundred thousand files. */
static void setup(void) {
    building_setup();
    snprintf(shm, sizeof shm, "/dev/shm/dcpk-sweep-XXXXXX");
    if (mkdtemp(shm)) snprintf(cache_folder, sizeof cache_folder, "%s/cache", shm);
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    char path[128];
    snprintf(path, sizeof path, "%s/cubin", fake_folder);
    cubin = get_file(path, &cubin_length);
    fault_play_compiler(cubin, cubin_length);
    dcpk_gen *gen = open_gen_with(fake_path, NULL, &faulty_system);
    wanted = build_tiny(gen, 1, NULL);
    dcpk_gen_close(gen);
    keep_cache();
}

static void teardown(void) {
    dcpk_image_free(wanted);
    forget_cache();
    fault_play_compiler(NULL, 0);
    free(cubin);
    nftw(shm, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    building_teardown();
}

START_TEST(cache_cold_build_survives_every_failure) {
    if (!wanted) return;
    forget_cache();
    sweep("cold", build_with_fault, 60);
}
END_TEST

START_TEST(cache_warm_build_survives_every_failure) {
    if (!wanted) return;
    sweep("warm", build_with_fault, 15); /* the files were unused for long: the hit touches them */
}
END_TEST

START_TEST(cache_damaged_entry_is_replaced_through_every_failure) {
    if (!wanted) return;
    struct kept *entry = kept_file(".dcpk", 0);
    entry->bytes[entry->length / 2] ^= 4;
    sweep("damaged", build_with_fault, 60);
}
END_TEST

/* In each shard that the build writes to lies an old file as large as the shard's part of the bound. */
START_TEST(cache_eviction_survives_every_failure) {
    static const char *const suffixes[] = {".dcpk", ".manifest", ".toolchain"};
    if (!wanted) return;
    for (size_t i = 0; i < 3; i++) {
        struct kept *file = kept_file(suffixes[i], 0);
        char *name = strrchr(file->path, '/') + 1;
        memset(name + 2, 'e', 30);
        memcpy(name + 32, ".manifest", 10);
        free(file->bytes);
        file->bytes = NULL;
    }
    sweep("eviction", build_with_fault, 90);
}
END_TEST

/* ---- walks: an entry, one of a newer format, and somebody's notes ---------------------------------- */

static bool is_there(const char *path) {
    return access(path, F_OK) == 0;
}

static void expect_status(dcpk_status status, const dcpk_error *error) {
    ck_assert_msg(status == DCPK_OK || (status == error->code && error->text[0]), "%s: %d without a word", where,
                  status);
}

static void walk_with_fault(void) {
    dcpk_error error;
    dcpk_image *image = NULL;
    dcpk_gen *gen = open_gen_with(fake_path, NULL, &faulty_system);
    entries = bad = unknown = 0;
    dcpk_error_init(&error);
    expect_status(dcpk_cache_visit(gen, 1, count_entry, NULL, &error), &error);
    ck_assert_msg(entries <= 2, "%s: %u entries", where, entries);
    dcpk_error_init(&error);
    dcpk_status status = dcpk_cache_get(gen, key, &image, &error);
    expect_status(status, &error);
    if (status == DCPK_OK) expect_wanted(image);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
}

static void clear_with_fault(void) {
    dcpk_error error;
    uint64_t removed = 0;
    dcpk_error_init(&error);
    dcpk_gen *gen = open_gen_with(fake_path, NULL, &faulty_system);
    expect_status(dcpk_cache_clear(gen, &removed, &error), &error);
    ck_assert_msg(removed <= 3, "%s: %u removed", where, (unsigned)removed);
    ck_assert_msg(is_there(newer_path) && is_there(notes_path), "%s removes what it does not know", where);
    dcpk_gen_close(gen);
}

static void add_kept(const char *path, char *bytes, size_t length) {
    struct kept *k = &kept[kept_count++];
    ck_assert_uint_lt(kept_count, FILES);
    snprintf(k->path, sizeof k->path, "%s", path);
    k->bytes = bytes;
    k->length = length;
}

static void keep_strangers(void) {
    struct kept *entry = kept_file(".dcpk", 0);
    char *bytes = malloc(entry->length);
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, entry->bytes, entry->length);
    char *header = memmem(bytes, entry->length, "DCPKIMG1", 8);
    ck_assert_ptr_nonnull(header);
    header[8] = bytes[entry->length - 16] = 2;
    memcpy(key, dcpk_image_key(wanted), 33);
    snprintf(newer_path, sizeof newer_path, "%s/%.2s/%.2sffffffffffffffffffffffffffffff.dcpk", cache_folder, key, key);
    snprintf(notes_path, sizeof notes_path, "%s/%.2s/notes", cache_folder, key);
    size_t length = entry->length;
    add_kept(newer_path, bytes, length);
    add_kept(notes_path, strdup("somebody's"), 10);
}

START_TEST(cache_walks_survive_every_failure) {
    if (!wanted) return;
    keep_strangers();
    sweep("visit and get", walk_with_fault, 256);
}
END_TEST

START_TEST(cache_clear_survives_every_failure_and_never_removes_what_it_does_not_know) {
    if (!wanted) return;
    keep_strangers();
    sweep("clear", clear_with_fault, 256);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cache_sweep");
    TCase *tcase = tcase_create("sweep");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, cache_cold_build_survives_every_failure);
    tcase_add_test(tcase, cache_warm_build_survives_every_failure);
    tcase_add_test(tcase, cache_damaged_entry_is_replaced_through_every_failure);
    tcase_add_test(tcase, cache_eviction_survives_every_failure);
    tcase_add_test(tcase, cache_walks_survive_every_failure);
    tcase_add_test(tcase, cache_clear_survives_every_failure_and_never_removes_what_it_does_not_know);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
