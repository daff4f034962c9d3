/* test_cache.c - what hits and what misses: keys, template edits, damage of every kind, and where the folder is. */
#include "tests/building.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* "tiny batch=1" in a generator of its own: what a new process would see. */
static dcpk_build_report fresh_build(void) {
    dcpk_build_report report;
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, &report));
    dcpk_gen_close(gen);
    return report;
}

static void edit(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", template_folder, name);
    put_text(path, text);
}

START_TEST(cache_hit_of_a_new_process_expands_nothing) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_build_report cold = fresh_build(), warm = fresh_build();
    ck_assert_uint_eq(cold.hit, 0);
    ck_assert_uint_eq(cold.cached, 1);
    ck_assert(cold.expand_ms > 0);
    ck_assert_uint_eq(warm.hit, 2);
    ck_assert_uint_eq(warm.cached, 1);
    ck_assert(warm.expand_ms == 0 && warm.compile_ms == 0);
    ck_assert_str_eq(cold.key, warm.key);
    ck_assert_uint_eq(cold.ptx_lines, warm.ptx_lines);
    ck_assert_uint_eq(cold.cubin_bytes, warm.cubin_bytes);
}
END_TEST

START_TEST(cache_entry_begins_like_a_cubin_and_holds_its_preimage) {
    struct stat st;
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_build_report report = fresh_build();
    size_t length = 0, cubin_length = 0;
    char path[160];
    char *entry = get_file(only_file(".dcpk"), &length);
    snprintf(path, sizeof path, "%s/cubin", fake_folder);
    char *cubin = get_file(path, &cubin_length);
    ck_assert_mem_eq(entry, cubin, cubin_length);
    snprintf(path, sizeof path, "%s/%.2s/%s.dcpk", cache_folder, report.key, report.key);
    ck_assert_str_eq(only_file(".dcpk"), path);
    dcpk_image *image = NULL;
    ck_assert_int_eq(dcpk_image_from_bytes(entry, length, &image, NULL), DCPK_OK);
    size_t preimage_length = 0;
    const char *preimage = dcpk_image_preimage(image, &preimage_length);
    XXH128_canonical_t digest;
    char key[33];
    XXH128_canonicalFromHash(&digest, XXH3_128bits(preimage, preimage_length));
    for (int i = 0; i < 16; i++)
        snprintf(key + 2 * i, 3, "%02x", digest.digest[i]);
    ck_assert_str_eq(key, report.key);
    ck_assert_ptr_null(strstr(preimage, place)); /* no path */
    dcpk_image_free(image);
    ck_assert_int_eq(stat(cache_folder, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0700);
    free(entry);
    free(cubin);
}
END_TEST

START_TEST(cache_keeps_the_hit_when_an_unused_template_changes) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    fresh_build();
    edit("lib/unused.lua", "return { changed = true }\n");
    edit("other.ptx.lua", "-- another kernel\n");
    dcpk_build_report report = fresh_build();
    ck_assert_uint_eq(report.hit, 2);
    ck_assert(report.expand_ms == 0);
}
END_TEST

START_TEST(cache_loses_the_hit_when_a_helper_two_includes_deep_changes) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_build_report first = fresh_build();
    edit("lib/inner.lua", "return { value = 2 }\n");
    dcpk_build_report second = fresh_build();
    ck_assert_uint_eq(second.hit, 0);
    ck_assert_str_ne(first.key, second.key);
    /* Back again: the older record of the manifest still serves. */
    edit("lib/inner.lua", "return { value = 1 }\n");
    dcpk_build_report third = fresh_build();
    ck_assert_uint_eq(third.hit, 2);
    ck_assert(third.expand_ms == 0);
    ck_assert_str_eq(first.key, third.key);
}
END_TEST

START_TEST(cache_serves_the_same_ptx_without_compiling) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    fresh_build();
    edit("lib/inner.lua", "return { value = 1 } -- the same in other words\n");
    dcpk_build_report report = fresh_build();
    ck_assert_uint_eq(report.hit, 2);
    ck_assert(report.expand_ms > 0);
    ck_assert_uint_eq(starts_of("assemble"), 1);
    report = fresh_build(); /* and the manifest knows it now */
    ck_assert(report.expand_ms == 0);
}
END_TEST

START_TEST(cache_hit_never_brings_an_old_line_map) {
    const char *file = NULL;
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image *image = build_tiny(gen, 1, NULL);
    uint32_t lines = 0, before[64], moved = 0;
    for (; lines < 64; lines++)
        before[lines] = dcpk_image_template_line(image, lines + 1, &file);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
    put_templates("\n-- one line more", "");
    gen = open_gen(fake_path);
    image = build_tiny(gen, 1, NULL);
    for (uint32_t i = 0; i < lines; i++)
        moved += before[i] != 0 && dcpk_image_template_line(image, i + 1, &file) == before[i] + 1;
    ck_assert_uint_ge(moved, 4); /* the four PTX lines of the template's text */
    dcpk_image_free(image);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(cache_hit_never_brings_an_old_grid) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    static const char text[] = "need { ptx = \"7.8\", target = \"sm_90\" }\n"
                               "kernel { grid = { %d }, block = { 32 }, params = { { \"to\", \"u64\" } } }\n"
                               "|   griddepcontrol.wait;\n|   ret;\n";
    for (int grid = 3; grid < 5; grid++) { /* the grid stands nowhere in the PTX */
        char template[512];
        snprintf(template, sizeof template, text, grid);
        edit("tiny.ptx.lua", template);
        dcpk_gen *gen = open_gen(fake_path);
        dcpk_image *image = build_tiny(gen, 1, NULL);
        dcpk_entry_info info = {.size = sizeof info};
        ck_assert_int_eq(dcpk_image_entry(image, 0, &info, NULL), DCPK_OK);
        ck_assert_uint_eq(info.grid[0], (uint32_t)grid);
        dcpk_image_free(image);
        dcpk_gen_close(gen);
    }
}
END_TEST

START_TEST(cache_explain_shows_both_preimages_and_hashes_as_they_are) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_build_report report = fresh_build();
    dcpk_spec spec;
    dcpk_text text, again;
    dcpk_gen *gen = open_gen(fake_path);
    ck_assert_int_eq(dcpk_spec_parse(&spec, "tiny arch=sm_90a batch=1", NULL), DCPK_OK);
    ck_assert_int_eq(dcpk_gen_explain(gen, &spec, &text, NULL), DCPK_OK);
    ck_assert_int_eq(dcpk_gen_explain(gen, &spec, &again, NULL), DCPK_OK);
    ck_assert_str_eq(text.data, again.data);
    char line[64], direct[33];
    snprintf(line, sizeof line, "\ncontent %s\n", report.key);
    ck_assert_msg(strstr(text.data, line), "no %s in %s", line, text.data);
    ck_assert_int_eq(sscanf(text.data, "direct %32s\n", direct), 1);
    snprintf(line, sizeof line, "/%s.manifest", direct);
    ck_assert_msg(strstr(only_file(".manifest"), line), "%s", only_file(".manifest"));
    static const char *const parts[] = {"spec: tiny arch=sm_90a batch=1\n", "toolchain: ptxas 13.0.88 (build fake.1)\n",
                                        "options: -arch sm_90a -O3\n", " tiny.ptx.lua\n", " lib/inner.lua\n"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        ck_assert_msg(strstr(text.data, parts[i]), "no %s in %s", parts[i], text.data);
    ck_assert_ptr_null(strstr(text.data, "unused.lua"));
    dcpk_text_free(&text);
    dcpk_text_free(&again);
    dcpk_gen_close(gen);
}
END_TEST

/* Writes damaged bytes over the entry, builds, and expects a miss, an image, and the good bytes back. */
static void expect_replaced(const char *path, const char *good, size_t good_length, const char *damaged, size_t length,
                            const char *what) {
    put_file(path, damaged, length);
    dcpk_build_report report = fresh_build();
    ck_assert_msg(report.hit == 0 && report.compiled == 1 && report.cached == 1, "%s: hit %u, compiled %u, cached %u",
                  what, report.hit, report.compiled, report.cached);
    size_t now = 0;
    char *bytes = get_file(path, &now);
    ck_assert_msg(now == good_length && memcmp(bytes, good, now) == 0, "%s: not replaced", what);
    free(bytes);
}

START_TEST(cache_entry_damaged_at_any_97th_byte_is_a_miss_and_is_replaced) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    fresh_build();
    char path[256], what[64];
    snprintf(path, sizeof path, "%s", only_file(".dcpk"));
    size_t length = 0;
    char *good = get_file(path, &length), *bytes = malloc(length);
    ck_assert_ptr_nonnull(bytes);
    for (size_t at = 0; at < length; at += 97) {
        memcpy(bytes, good, length);
        bytes[at] = (char)(bytes[at] ^ 0x20);
        snprintf(what, sizeof what, "byte %zu flipped", at);
        expect_replaced(path, good, length, bytes, length, what);
    }
    for (size_t cut = 0; cut < length; cut += 512) {
        snprintf(what, sizeof what, "cut after %zu bytes", cut);
        expect_replaced(path, good, length, good, cut, what);
    }
    ck_assert_uint_eq(count_temporaries(), 0);
    ck_assert_msg(logged.warnings == 0, "%s", logged.all);
    free(bytes);
    free(good);
}
END_TEST

START_TEST(cache_manifest_damaged_anywhere_costs_no_more_than_an_expansion) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    fresh_build();
    char path[256];
    snprintf(path, sizeof path, "%s", only_file(".manifest"));
    size_t length = 0;
    char *good = get_file(path, &length), *bytes = malloc(length);
    ck_assert_ptr_nonnull(bytes);
    for (size_t at = 0; at < length; at += 7) {
        memcpy(bytes, good, length);
        bytes[at] = (char)(bytes[at] ^ 0x01);
        put_file(path, bytes, length);
        dcpk_build_report report = fresh_build();
        ck_assert_msg(report.hit == 2 && report.compiled == 0, "byte %zu flipped: hit %u", at, report.hit);
        put_file(path, good, at); /* cut, too */
        report = fresh_build();
        ck_assert_msg(report.hit == 2 && report.compiled == 0, "cut after %zu: hit %u", at, report.hit);
    }
    ck_assert_uint_eq(starts_of("assemble"), 1);
    free(bytes);
    free(good);
}
END_TEST

START_TEST(cache_entry_of_a_newer_format_is_a_miss_and_stays_untouched) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    fresh_build();
    char path[256];
    snprintf(path, sizeof path, "%s", only_file(".dcpk"));
    size_t length = 0, now = 0;
    char *bytes = get_file(path, &length);
    char *header = memmem(bytes, length, "DCPKIMG1", 8);
    ck_assert_ptr_nonnull(header);
    header[8] = 2;
    bytes[length - 16] = 2;
    put_file(path, bytes, length);
    dcpk_build_report report = fresh_build();
    ck_assert_uint_eq(report.hit, 0);
    ck_assert_uint_eq(report.cached, 0);
    char *after = get_file(path, &now);
    ck_assert_uint_eq(now, length);
    ck_assert_mem_eq(after, bytes, length);
    uint64_t removed = 99;
    dcpk_gen *gen = open_gen(fake_path);
    ck_assert_int_eq(dcpk_cache_clear(gen, &removed, NULL), DCPK_OK);
    ck_assert_uint_eq(count_files(".dcpk"), 1); /* not even clear takes it */
    dcpk_gen_close(gen);
    free(bytes);
    free(after);
}
END_TEST

START_TEST(cache_entry_under_a_foreign_key_is_a_miss) {
    dcpk_build_report one, two;
    char from[256], to[256];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, &one));
    dcpk_image_free(build_tiny(gen, 2, &two));
    dcpk_gen_close(gen);
    snprintf(from, sizeof from, "%s/%.2s/%s.dcpk", cache_folder, two.key, two.key);
    snprintf(to, sizeof to, "%s/%.2s/%s.dcpk", cache_folder, one.key, one.key);
    ck_assert_int_eq(unlink(to), 0);
    ck_assert_int_eq(link(from, to), 0);
    dcpk_build_report report = fresh_build();
    ck_assert_uint_eq(report.hit, 0);
    ck_assert_str_eq(report.key, one.key);
    report = fresh_build();
    ck_assert_uint_eq(report.hit, 2);
}
END_TEST

START_TEST(cache_does_not_look_at_the_times_of_files) {
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    fresh_build();
    char line[512];
    snprintf(line, sizeof line,
             "find '%s' -type f -exec touch -d '1999-01-01' {} +; find '%s' -type f -exec touch -d '2033-01-01' {} +",
             cache_folder, template_folder);
    ck_assert_int_eq(system(line), 0);
    dcpk_build_report report = fresh_build();
    ck_assert_uint_eq(report.hit, 2);
    ck_assert(report.expand_ms == 0);
}
END_TEST

START_TEST(cache_memory_only_builds_and_leaves_no_file) {
    const char *path = "x";
    dcpk_build_report report;
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    static const char *const names[] = {"HOME", "XDG_CACHE_HOME", "DCPK_CACHE_DIR"};
    for (size_t i = 0; i < 3; i++)
        unsetenv(names[i]);
    dcpk_gen_options options = {.size = sizeof options, .template_path = template_folder, .ptxas = fake_path};
    dcpk_gen *gen = NULL;
    ck_assert_int_eq(dcpk_gen_open(&options, &gen, NULL), DCPK_OK);
    ck_assert_int_eq(dcpk_cache_path(gen, &path, NULL), DCPK_OK);
    ck_assert_str_eq(path, "");
    dcpk_image_free(build_tiny(gen, 1, &report));
    ck_assert_uint_eq(report.hit, 0);
    ck_assert_uint_eq(report.cached, 0);
    dcpk_image_free(build_tiny(gen, 1, &report));
    ck_assert_uint_eq(report.hit, 1);
    dcpk_gen_close(gen);
    ck_assert_uint_eq(starts_of("version"), 1);
    ck_assert_int_ne(access(cache_folder, F_OK), 0);
}
END_TEST

START_TEST(cache_folder_is_the_first_of_the_documented_places) {
    static const struct {
        const char *name, *wanted;
    } rows[] = {{"DCPK_CACHE_DIR", "/c"}, {"XDG_CACHE_HOME", "/c/dcpk"}, {"HOME", "/c/.cache/dcpk"}};
    char value[160], wanted[200];
    snprintf(value, sizeof value, "%s/c", place);
    for (size_t i = 0; i < 3; i++)
        unsetenv(rows[i].name);
    for (size_t i = 3; i-- > 0;) { /* each one outranks those set before */
        dcpk_gen_options options = {.size = sizeof options, .template_path = template_folder};
        dcpk_gen *gen = NULL;
        const char *path = NULL;
        setenv(rows[i].name, value, 1);
        ck_assert_int_eq(dcpk_gen_open(&options, &gen, NULL), DCPK_OK);
        ck_assert_int_eq(dcpk_cache_path(gen, &path, NULL), DCPK_OK);
        snprintf(wanted, sizeof wanted, "%s%s", place, rows[i].wanted);
        ck_assert_str_eq(path, wanted);
        ck_assert_int_ne(access(value, F_OK), 0); /* opening and asking create nothing */
        dcpk_gen_close(gen);
    }
}
END_TEST

/* A manifest, checksum and all, in which one word is another. */
static void forge_manifest(const char *path, const char *from, const char *to) {
    size_t length = 0;
    char *text = get_file(path, &length), *at = strstr(text, from);
    ck_assert_msg(at && strlen(from) == strlen(to), "no %s in %s", from, text);
    for (size_t i = 0; to[i]; i++)
        at[i] = to[i];
    XXH128_canonical_t digest;
    size_t body = length - 37; /* "end ", 32 digits, newline */
    ck_assert_mem_eq(text + body, "end ", 4);
    XXH128_canonicalFromHash(&digest, XXH3_128bits(text, body));
    for (int i = 0; i < 16; i++)
        snprintf(text + body + 4 + 2 * i, 3, "%02x", digest.digest[i]);
    text[length - 1] = '\n';
    put_file(path, text, length);
    free(text);
}

/* What a collision of hashes would look like: the names fit, the texts do not. */
START_TEST(cache_collision_is_a_miss) {
    dcpk_build_report one, two, again;
    char manifest[256];
    if (!have_ptxas()) return;
    give_orders("mode good\n");
    dcpk_gen *gen = open_gen(fake_path);
    dcpk_image_free(build_tiny(gen, 1, &one));
    snprintf(manifest, sizeof manifest, "%s", only_file(".manifest"));
    dcpk_image_free(build_tiny(gen, 2, &two));
    dcpk_gen_close(gen);
    /* The content key that the manifest names is a good image of another spec. */
    forge_manifest(manifest, one.key, two.key);
    gen = open_gen(fake_path);
    dcpk_image *image = build_tiny(gen, 1, &again);
    ck_assert_str_eq(again.key, one.key);
    ck_assert(again.expand_ms > 0);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
    /* The manifest itself is one of another request: its preimage says batch=7. */
    forge_manifest(manifest, "batch=1", "batch=7");
    again = fresh_build();
    ck_assert_str_eq(again.key, one.key);
    ck_assert(again.expand_ms > 0);
    ck_assert_uint_eq(starts_of("assemble"), 2);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cache");
    TCase *tcase = tcase_create("cache");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, building_setup, building_teardown);
    tcase_add_test(tcase, cache_hit_of_a_new_process_expands_nothing);
    tcase_add_test(tcase, cache_entry_begins_like_a_cubin_and_holds_its_preimage);
    tcase_add_test(tcase, cache_keeps_the_hit_when_an_unused_template_changes);
    tcase_add_test(tcase, cache_loses_the_hit_when_a_helper_two_includes_deep_changes);
    tcase_add_test(tcase, cache_serves_the_same_ptx_without_compiling);
    tcase_add_test(tcase, cache_hit_never_brings_an_old_line_map);
    tcase_add_test(tcase, cache_hit_never_brings_an_old_grid);
    tcase_add_test(tcase, cache_explain_shows_both_preimages_and_hashes_as_they_are);
    tcase_add_test(tcase, cache_entry_damaged_at_any_97th_byte_is_a_miss_and_is_replaced);
    tcase_add_test(tcase, cache_manifest_damaged_anywhere_costs_no_more_than_an_expansion);
    tcase_add_test(tcase, cache_entry_of_a_newer_format_is_a_miss_and_stays_untouched);
    tcase_add_test(tcase, cache_entry_under_a_foreign_key_is_a_miss);
    tcase_add_test(tcase, cache_collision_is_a_miss);
    tcase_add_test(tcase, cache_does_not_look_at_the_times_of_files);
    tcase_add_test(tcase, cache_memory_only_builds_and_leaves_no_file);
    tcase_add_test(tcase, cache_folder_is_the_first_of_the_documented_places);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
