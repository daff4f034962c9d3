/* test_jit.c - which layers a build looks into: packs that need neither compiler nor templates, never and force, what a
 * miss says, and what the words of the environment may be. */
#include "tests/building.h"

#include <dcpk/pack.h>

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char pack_path[128], other_path[128];

static void setup(void) {
    building_setup();
    snprintf(pack_path, sizeof pack_path, "%s/one.dcpk-pack", place);
    snprintf(other_path, sizeof other_path, "%s/two.dcpk-pack", place);
}

/* What a generator is opened with here; the rest as building.h's. */
struct opening {
    const char *jit, *packs, *cache, *ptxas, *templates;
};

static dcpk_status try_open(const struct opening *o, dcpk_gen **gen, dcpk_error *error) {
    dcpk_gen_options options = {.size = sizeof options,
                                .template_path = o->templates ? o->templates : template_folder,
                                .cache_dir = o->cache ? o->cache : cache_folder,
                                .ptxas = o->ptxas ? o->ptxas : fake_path,
                                .log = building_log,
                                .jit = o->jit,
                                .aot_path = o->packs ? o->packs : ""};
    dcpk_error_init(error);
    return dcpk_gen_open(&options, gen, error);
}

static dcpk_gen *open_with(struct opening o) {
    dcpk_gen *gen = NULL;
    dcpk_error error;
    ck_assert_msg(try_open(&o, &gen, &error) == DCPK_OK, "%s", error.text);
    return gen;
}

/* Writes "tiny batch=first..last" as a pack; manifest NULL: this generator's own lines. */
static void put_pack(const char *path, int first, int last, const char *manifest) {
    dcpk_image *images[8];
    uint32_t count = 0;
    dcpk_text lines = {0};
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_gen *gen = open_with((struct opening){.cache = ""});
    for (int batch = first; batch <= last; batch++)
        images[count++] = build_tiny(gen, batch, NULL);
    ck_assert_int_eq(dcpk_gen_identity(gen, &lines, NULL), DCPK_OK);
    dcpk_status status = dcpk_pack_write(path, images, count, manifest ? manifest : lines.data, &error);
    ck_assert_msg(status == DCPK_OK, "%s", error.text);
    for (uint32_t i = 0; i < count; i++)
        dcpk_image_free(images[i]);
    dcpk_text_free(&lines);
    dcpk_gen_close(gen);
}

static dcpk_status find_tiny(dcpk_gen *gen, int batch, uint32_t *hit, dcpk_error *error) {
    dcpk_spec spec;
    dcpk_spec_init(&spec, "tiny");
    snprintf(spec.arch, sizeof spec.arch, "sm_90a");
    spec.batch = batch;
    dcpk_error_init(error);
    return dcpk_gen_find(gen, &spec, hit, error);
}

/* Said before, and so it comes. */
static void expect_hit(dcpk_gen *gen, int batch, uint32_t hit) {
    dcpk_build_report report;
    uint32_t found = 9;
    dcpk_error error;
    dcpk_status status = find_tiny(gen, batch, &found, &error);
    ck_assert_msg(status == DCPK_OK && found == hit, "batch %d: found %u, not %u: %s", batch, found, hit, error.text);
    dcpk_image_free(build_tiny(gen, batch, &report));
    ck_assert_msg(report.hit == hit, "batch %d: hit %u, not %u", batch, report.hit, hit);
}

START_TEST(jit_pack_hit_needs_no_toolchain_no_templates_and_no_cache) {
    static const char *const modes[] = {"auto", "never"};
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    put_pack(pack_path, 1, 3, NULL);
    unsigned before = starts_of("version");
    for (size_t i = 0; i < 2; i++) {
        log_reset();
        dcpk_gen *gen = open_with((struct opening){
            .jit = modes[i], .packs = pack_path, .cache = "", .ptxas = "/nowhere/ptxas", .templates = "/nowhere"});
        dcpk_build_report report;
        dcpk_image *image = build_tiny(gen, 2, &report);
        ck_assert_uint_eq(report.hit, 3);
        ck_assert_uint_eq(report.compiled, 0);
        ck_assert_uint_eq(report.cached, 0);
        ck_assert_str_eq(report.key, dcpk_image_key(image));
        dcpk_image_free(image);
        expect_hit(gen, 2, 1);
        ck_assert_msg(logged.warnings == 0, "%s", logged.all);
        dcpk_gen_close(gen);
    }
    ck_assert_uint_eq(starts_of("version"), before);
}
END_TEST

START_TEST(jit_packs_come_before_the_cache_and_the_first_pack_wins) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    char list[300];
    dcpk_build_report report;
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, &report));
    dcpk_gen_close(gen);
    put_pack(pack_path, 1, 1, NULL);
    put_pack(other_path, 1, 2, NULL);
    snprintf(list, sizeof list, "%s:%s", pack_path, other_path);
    gen = open_with((struct opening){.packs = list});
    expect_hit(gen, 1, 3);
    expect_hit(gen, 2, 3);
    expect_hit(gen, 3, 0);
    dcpk_gen_close(gen);
    setenv("DCPK_AOT_PATH", list, 1); /* and so where nobody says it in the options */
    dcpk_gen_options options = {.size = sizeof options, .cache_dir = "", .template_path = template_folder};
    ck_assert_int_eq(dcpk_gen_open(&options, &gen, NULL), DCPK_OK);
    expect_hit(gen, 2, 3);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(jit_pack_made_otherwise_is_one_warning_and_used) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    put_pack(pack_path, 1, 3, NULL);
    put_templates("\n-- edited since", "");
    dcpk_gen *gen = open_with((struct opening){.packs = pack_path});
    expect_hit(gen, 1, 3);
    expect_hit(gen, 2, 3);
    ck_assert_msg(logged.warnings == 1 && strstr(logged.last_warning, pack_path) &&
                      strstr(logged.last_warning, "templates "),
                  "%s", logged.all);
    dcpk_gen_close(gen);
    put_pack(pack_path, 1, 1, "dcpk 9.9.9\n");
    log_reset();
    gen = open_with((struct opening){.packs = pack_path});
    expect_hit(gen, 1, 3);
    ck_assert_msg(logged.warnings == 1 && strstr(logged.last_warning, "dcpk 9.9.9, here "), "%s", logged.all);
    dcpk_gen_close(gen);
    put_pack(pack_path, 1, 1, NULL);
    log_reset();
    gen = open_with((struct opening){.packs = pack_path});
    expect_hit(gen, 1, 3);
    ck_assert_msg(logged.warnings == 0, "%s", logged.all);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(jit_bad_pack_is_one_warning_and_the_others_serve) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    char list[500];
    put_pack(other_path, 1, 2, NULL);
    put_text(pack_path, "not a pack");
    snprintf(list, sizeof list, "/nowhere/gone:%s:%s", pack_path, other_path);
    dcpk_gen *gen = open_with((struct opening){.packs = list});
    expect_hit(gen, 1, 3);
    ck_assert_msg(logged.warnings == 2 && strstr(logged.all, "/nowhere/gone") && strstr(logged.all, pack_path), "%s",
                  logged.all);
    dcpk_gen_close(gen);
    ck_assert_int_eq(chmod(other_path, 0666), 0);
    log_reset();
    gen = open_with((struct opening){.packs = other_path});
    expect_hit(gen, 1, 0);
    ck_assert_msg(logged.warnings == 1 && strstr(logged.last_warning, "chmod"), "%s", logged.all);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(jit_damaged_entry_of_a_pack_is_one_warning_and_the_next_layer) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    put_pack(pack_path, 1, 2, NULL);
    size_t length = 0;
    char *bytes = get_file(pack_path, &length);
    for (size_t i = 0, found = 0; i + 4 < length && found < 2; i++)
        if (memcmp(bytes + i, "\177ELF", 4) == 0) {
            bytes[i + 2000] ^= 1; /* in both images */
            found++;
        }
    put_file(pack_path, bytes, length);
    free(bytes);
    dcpk_gen *gen = open_with((struct opening){.packs = pack_path});
    expect_hit(gen, 1, 0);
    expect_hit(gen, 2, 0);
    ck_assert_msg(logged.warnings == 1 && strstr(logged.last_warning, pack_path), "%s", logged.all);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(jit_never_serves_from_the_cache_and_starts_no_compiler) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, NULL));
    dcpk_gen_close(gen);
    ck_assert_uint_eq(starts_of("assemble"), 1);
    gen = open_with((struct opening){.jit = "never"});
    expect_hit(gen, 1, 2);
    expect_hit(gen, 1, 1);
    dcpk_gen_close(gen);
    ck_assert_int_eq(unlink(only_file(".manifest")), 0); /* by content, then */
    gen = open_with((struct opening){.jit = "never"});
    expect_hit(gen, 1, 2);
    dcpk_gen_close(gen);
    ck_assert_uint_eq(count_files(".manifest"), 1);
    setenv("DCPK_JIT", "never", 1);
    gen = open_gen(fake_path);
    expect_hit(gen, 1, 2);
    dcpk_image *image = NULL;
    dcpk_error error;
    ck_assert_int_eq(try_tiny(gen, 9, &image, NULL, &error), DCPK_E_NOT_FOUND);
    ck_assert_ptr_null(image);
    dcpk_gen_close(gen);
    ck_assert_uint_eq(starts_of("assemble"), 1);
}
END_TEST

static void expect_words(const char *text, const char *const *words) {
    for (; *words; words++)
        ck_assert_msg(strstr(text, *words), "no '%s' in: %s", *words, text);
}

START_TEST(jit_miss_names_spec_key_layers_and_the_nearest_entries) {
    dcpk_image *image = NULL;
    dcpk_error error;
    dcpk_build_report report;
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    put_pack(pack_path, 1, 3, NULL);
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 7, &report));
    dcpk_image_free(build_tiny(gen, 8, &report));
    dcpk_gen_close(gen);
    char key[48];
    snprintf(key, sizeof key, "key %s", report.key);
    gen = open_with((struct opening){.jit = "never", .packs = pack_path, .cache = ""});
    ck_assert_int_eq(try_tiny(gen, 8, &image, NULL, &error), DCPK_E_NOT_FOUND);
    expect_words(error.text, (const char *[]){"'tiny arch=sm_90a batch=8'", "jit never", pack_path, "3 entries",
                                              "there is no folder", "batch=3, not batch=8", NULL});
    dcpk_gen_close(gen);
    ck_assert_int_eq(unlink(pack_path), 0);
    put_pack(pack_path, 1, 3, NULL);
    char path[256];
    snprintf(path, sizeof path, "%s/%.2s/%s.dcpk", cache_folder, report.key, report.key);
    ck_assert_int_eq(unlink(path), 0);
    gen = open_with((struct opening){.jit = "never", .packs = pack_path});
    ck_assert_int_eq(try_tiny(gen, 8, &image, NULL, &error), DCPK_E_NOT_FOUND);
    expect_words(error.text,
                 (const char *[]){"'tiny arch=sm_90a batch=8'", key, pack_path, cache_folder,
                                  "by request and by content", "nearest of 4 entries", "batch=7, not batch=8", NULL});
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(jit_never_without_a_toolchain_serves_packs_and_says_why_the_cache_was_not_searched) {
    dcpk_image *image = NULL;
    dcpk_error error;
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    put_pack(pack_path, 1, 3, NULL);
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 5, NULL));
    dcpk_gen_close(gen);
    gen = open_with((struct opening){.jit = "never", .packs = pack_path, .ptxas = "/nowhere/ptxas"});
    expect_hit(gen, 3, 3);
    ck_assert_int_eq(try_tiny(gen, 5, &image, NULL, &error), DCPK_E_NOT_FOUND);
    expect_words(error.text, (const char *[]){"not searched", "/nowhere/ptxas is not a program", cache_folder,
                                              "this spec, made otherwise", NULL});
    ck_assert_ptr_null(strstr(error.text, "\nkey"));
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(jit_never_still_refuses_what_the_template_refuses) {
    dcpk_image *image = NULL;
    dcpk_error error;
    char path[160];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    snprintf(path, sizeof path, "%s/tiny.ptx.lua", template_folder);
    put_text(path, "rule(spec.batch < 4, \"batch is below 4\")\nneed { ptx = \"7.8\", target = \"sm_90\" }\n");
    dcpk_gen *gen = open_with((struct opening){.jit = "never"});
    ck_assert_int_eq(try_tiny(gen, 4, &image, NULL, &error), DCPK_E_SPEC);
    ck_assert_msg(strstr(error.text, "batch is below 4"), "%s", error.text);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(jit_force_compiles_once_a_generator_and_replaces_the_entry) {
    struct stat before, after;
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    put_pack(pack_path, 1, 1, NULL);
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, NULL));
    dcpk_gen_close(gen);
    unsigned assembled = starts_of("assemble");
    ck_assert_int_eq(stat(only_file(".dcpk"), &before), 0);
    char kept[128];
    snprintf(kept, sizeof kept, "%s/kept", place);
    ck_assert_int_eq(link(only_file(".dcpk"), kept), 0); /* its inode is not given out again */
    dcpk_build_report report;
    gen = open_with((struct opening){.jit = "force", .packs = pack_path});
    dcpk_image_free(build_tiny(gen, 1, &report));
    ck_assert_uint_eq(report.hit, 0);
    ck_assert_uint_eq(report.cached, 1);
    ck_assert_uint_eq(starts_of("assemble"), assembled + 1);
    expect_hit(gen, 1, 1);
    ck_assert_uint_eq(starts_of("assemble"), assembled + 1);
    dcpk_gen_close(gen);
    ck_assert_int_eq(stat(only_file(".dcpk"), &after), 0);
    ck_assert_uint_ne(before.st_ino, after.st_ino);
    gen = open_gen(fake_path); /* whole, and found */
    expect_hit(gen, 1, 2);
    dcpk_gen_close(gen);
    ck_assert_uint_eq(count_temporaries(), 0);
}
END_TEST

START_TEST(jit_force_leaves_an_entry_of_a_newer_format) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, NULL));
    dcpk_gen_close(gen);
    size_t length = 0, now = 0;
    char path[256];
    snprintf(path, sizeof path, "%s", only_file(".dcpk"));
    char *bytes = get_file(path, &length), *header = memmem(bytes, length, "DCPKIMG1", 8);
    ck_assert_ptr_nonnull(header);
    header[8] = bytes[length - 16] = 2;
    put_file(path, bytes, length);
    gen = open_with((struct opening){.jit = "force"});
    dcpk_build_report report;
    dcpk_image_free(build_tiny(gen, 1, &report));
    ck_assert_uint_eq(report.cached, 0);
    dcpk_gen_close(gen);
    char *after = get_file(path, &now);
    ck_assert_uint_eq(now, length);
    ck_assert_mem_eq(after, bytes, length);
    free(bytes);
    free(after);
}
END_TEST

/* Opening with one variable set: its status, and the message names the variable. */
static void expect_word(const char *name, const char *value, dcpk_status wanted) {
    dcpk_gen *gen = NULL;
    dcpk_error error;
    setenv(name, value, 1);
    dcpk_status status = try_open(&(struct opening){0}, &gen, &error);
    ck_assert_msg(status == wanted, "%s=%s: %s", name, value, error.text);
    if (wanted != DCPK_OK) ck_assert_msg(strstr(error.text, name), "%s=%s: %s", name, value, error.text);
    dcpk_gen_close(gen);
    unsetenv(name);
}

START_TEST(jit_find_says_what_a_build_would_do_and_leaves_everything_as_it_was) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    uint32_t hit = 9;
    dcpk_error error;
    dcpk_gen *gen = open_with((struct opening){0});
    ck_assert_int_eq(find_tiny(gen, 1, &hit, &error), DCPK_OK);
    ck_assert_uint_eq(hit, 0);
    ck_assert_uint_eq(starts_of("assemble"), 0);
    ck_assert_int_ne(access(cache_folder, F_OK), 0); /* no folder, no version remembered */
    expect_hit(gen, 1, 0);
    dcpk_gen_close(gen);
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    const char *entry = only_file(".dcpk");
    ck_assert_int_eq(utimensat(AT_FDCWD, entry, old, 0), 0);
    gen = open_with((struct opening){0});
    ck_assert_int_eq(find_tiny(gen, 1, &hit, &error), DCPK_OK);
    ck_assert_uint_eq(hit, 2);
    struct stat there;
    ck_assert_int_eq(stat(entry, &there), 0);
    ck_assert_int_eq((int)there.st_mtim.tv_sec, 1000000000); /* to look is no use; to build is */
    expect_hit(gen, 1, 2);
    ck_assert_int_eq(stat(entry, &there), 0);
    ck_assert_int_gt((int)there.st_mtim.tv_sec, 1000000000);
    dcpk_gen_close(gen);
    put_pack(pack_path, 1, 2, NULL);
    gen = open_with((struct opening){.jit = "force", .packs = pack_path, .cache = "", .ptxas = "/nowhere/ptxas"});
    ck_assert_int_eq(find_tiny(gen, 1, &hit, &error), DCPK_E_TOOLCHAIN); /* force passes packs over */
    dcpk_gen_close(gen);
    gen = open_with((struct opening){.jit = "never", .packs = pack_path});
    expect_hit(gen, 1, 3);
    expect_hit(gen, 1, 1);
    ck_assert_int_eq(find_tiny(gen, 3, &hit, &error), DCPK_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "batch=3"));
    ck_assert_int_eq(dcpk_gen_find(gen, NULL, &hit, &error), DCPK_E_ARG);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(jit_words_of_the_environment_are_checked) {
    static const char *const good[] = {"2G", "512M", "1", "123456789", "64k", "1T", ""};
    static const char *const bad[] = {"0",        "-1",   "1.5G",
                                      "2X",       "2GG",  "G",
                                      " 2G",      "2 G",  "0G",
                                      "4194305T", "2GB",  "99999999999999999999",
                                      "0x10",     "many", "5000000000000000000"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        expect_word("DCPK_CACHE_MAX", good[i], DCPK_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect_word("DCPK_CACHE_MAX", bad[i], DCPK_E_ARG);
    expect_word("DCPK_JIT", "auto", DCPK_OK);
    expect_word("DCPK_JIT", "", DCPK_OK);
    expect_word("DCPK_JIT", "always", DCPK_E_ARG);
    expect_word("DCPK_JIT", "Never", DCPK_E_ARG);
    dcpk_gen *gen = NULL;
    dcpk_error error;
    ck_assert_int_eq(try_open(&(struct opening){.jit = "maybe"}, &gen, &error), DCPK_E_ARG);
    ck_assert_msg(strstr(error.text, "jit") && strstr(error.text, "maybe"), "%s", error.text);
    ck_assert_ptr_null(gen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("jit");
    TCase *tcase = tcase_create("layers");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, setup, building_teardown);
    tcase_add_test(tcase, jit_pack_hit_needs_no_toolchain_no_templates_and_no_cache);
    tcase_add_test(tcase, jit_packs_come_before_the_cache_and_the_first_pack_wins);
    tcase_add_test(tcase, jit_pack_made_otherwise_is_one_warning_and_used);
    tcase_add_test(tcase, jit_bad_pack_is_one_warning_and_the_others_serve);
    tcase_add_test(tcase, jit_damaged_entry_of_a_pack_is_one_warning_and_the_next_layer);
    tcase_add_test(tcase, jit_never_serves_from_the_cache_and_starts_no_compiler);
    tcase_add_test(tcase, jit_miss_names_spec_key_layers_and_the_nearest_entries);
    tcase_add_test(tcase, jit_never_without_a_toolchain_serves_packs_and_says_why_the_cache_was_not_searched);
    tcase_add_test(tcase, jit_never_still_refuses_what_the_template_refuses);
    tcase_add_test(tcase, jit_force_compiles_once_a_generator_and_replaces_the_entry);
    tcase_add_test(tcase, jit_force_leaves_an_entry_of_a_newer_format);
    tcase_add_test(tcase, jit_find_says_what_a_build_would_do_and_leaves_everything_as_it_was);
    tcase_add_test(tcase, jit_words_of_the_environment_are_checked);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
