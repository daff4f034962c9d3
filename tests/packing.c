/* packing.c - see packing.h. */
#include "tests/packing.h"

#include "tests/shell.h"
#include "tests/stand_in.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char pack_folder[64];
static char came_from[4096];

void packing_setup(void) {
    unsetenv("DCPK_AOT_PATH");
    unsetenv("DCPK_CACHE_TRUST_UID");
    ck_assert_ptr_nonnull(getcwd(came_from, sizeof came_from));
    strcpy(pack_folder, "/tmp/dcpk-pack-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(pack_folder));
    ck_assert_int_eq(chdir(pack_folder), 0);
}

void packing_teardown(void) {
    char line[128];
    ck_assert_int_eq(chdir(came_from), 0);
    snprintf(line, sizeof line, "rm -rf '%s'", pack_folder);
    ck_assert_int_eq(system(line), 0); /* NOLINT: our own words */
}

static void spec_words(int batch, char *text, size_t capacity) {
    snprintf(text, capacity, "query_norm heads=2 batch=%d", batch);
}

dcpk_image *packing_image(int batch, uint32_t threads) {
    char text[64];
    spec_words(batch, text, sizeof text);
    dcpk_entry_info entry = stand_in_entry("dcpk_query_norm", "qkv q_a_norm qc pitch eps");
    entry.block[0] = threads;
    return stand_in_image(text, &entry, 1);
}

void packing_spec(int batch, dcpk_spec *spec) {
    char text[64];
    spec_words(batch, text, sizeof text);
    ck_assert_int_eq(dcpk_spec_parse(spec, text, NULL), DCPK_OK);
    ck_assert_int_eq(dcpk_spec_resolve(spec, NULL), DCPK_OK);
}

void packing_write(const char *path, const int *batches) {
    dcpk_image *images[64];
    uint32_t count = 0;
    dcpk_error error;
    dcpk_error_init(&error);
    for (; batches[count] != 0; count++)
        images[count] = packing_image(batches[count], 128);
    dcpk_status status = dcpk_pack_write(path, images, count, "dcpk test\ntoolchain none\n", &error);
    ck_assert_msg(status == DCPK_OK, "%s", error.text);
    while (count > 0)
        dcpk_image_free(images[--count]);
}

dcpk_packs *packing_open(const char *path) {
    dcpk_packs_options options = {.size = sizeof options, .path = path, .trusted_uid = -1};
    dcpk_packs *packs = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_status status = dcpk_packs_open(&options, &packs, &error);
    ck_assert_msg(status == DCPK_OK && packs != NULL, "%s", error.text);
    return packs;
}

void packing_refused(const char *path, dcpk_status status, const char *text) {
    dcpk_packs_options options = {.size = sizeof options, .path = path, .trusted_uid = -1};
    dcpk_packs *packs = (dcpk_packs *)&options;
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_status got = dcpk_packs_open(&options, &packs, &error);
    ck_assert_msg(got == status && error.code == status, "%s, wanted %s: %s", dcpk_status_name(got),
                  dcpk_status_name(status), error.text);
    ck_assert_ptr_null(packs);
    expect_text(error, text);
}

unsigned char *packing_read(const char *path, size_t *length) {
    char *data = shell_read_file(path, length);
    ck_assert_ptr_nonnull(data);
    return (unsigned char *)data;
}

void packing_put(const char *path, const void *bytes, size_t length) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
}

void packing_write_one(const char *path, int batch, uint32_t threads) {
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_image *image = packing_image(batch, threads);
    ck_assert_msg(dcpk_pack_write(path, &image, 1, NULL, &error) == DCPK_OK, "%s", error.text);
    dcpk_image_free(image);
}

dcpk_status packing_find(dcpk_packs *packs, int batch, dcpk_image **image, dcpk_error *error) {
    dcpk_spec spec;
    packing_spec(batch, &spec);
    return dcpk_packs_find(packs, &spec, image, error);
}

uint32_t packing_threads(dcpk_packs *packs, int batch) {
    dcpk_image *image = NULL;
    dcpk_entry_info info = {.size = sizeof info};
    dcpk_error error;
    dcpk_error_init(&error);
    ck_assert_msg(packing_find(packs, batch, &image, &error) == DCPK_OK, "%s", error.text);
    ck_assert_int_eq(dcpk_image_entry(image, 0, &info, &error), DCPK_OK);
    dcpk_image_free(image);
    return info.block[0];
}
