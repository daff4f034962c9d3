/* key.c - writes and hashes the preimages of the direct and the content key. Pure but for memory. */
#include "gen/key.h"

#include "runtime/buffer.h"
#include "runtime/error.h"
#include "runtime/image_find.h"
#include "runtime/image_format.h"

#include <stdlib.h>

/* The Makefile gives a checksum of all sources that shape PTX and launch data, so that an edit of one misses. */
#ifndef DCPK_GENERATOR_ID
#define DCPK_GENERATOR_ID "release"
#endif

const char *key_generator(void) {
    return DCPK_GENERATOR_ID;
}

static dcpk_status no_memory(dcpk_error *error) {
    return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a key");
}

static void add_request(struct buffer *b, const struct key_request *request) {
    buffer_format(b, "spec: %s\narch: %s\ntoolchain: %s\noptions: %s\n", request->spec, request->arch,
                  request->toolchain, request->options);
    if (request->front && request->front[0]) buffer_format(b, "front: %s\n", request->front);
}

static dcpk_status finish(struct buffer *b, struct key *key, dcpk_error *error) {
    if (b->failed) {
        buffer_free(b);
        return no_memory(error);
    }
    key->text = b->data;
    key->length = b->length;
    digest_hex(b->data, b->length, key->hex);
    return DCPK_OK;
}

dcpk_status key_direct(const struct key_request *request, struct key *key, dcpk_error *error) {
    struct buffer b = {0};
    buffer_format(&b, "dcpk direct key, schema %d\ngenerator: dcpk " DCPK_VERSION_TEXT " (%s)\n", KEY_SCHEMA,
                  DCPK_GENERATOR_ID);
    add_request(&b, request);
    buffer_format(&b, "image format: %d\n", IMAGE_FORMAT);
    return finish(&b, key, error);
}

dcpk_status key_of_content(const struct key_request *request, const struct key_content *content, struct key *key,
                           dcpk_error *error) {
    struct buffer b = {0};
    buffer_format(&b, "dcpk content key, schema %d\n", KEY_SCHEMA);
    add_request(&b, request);
    buffer_format(&b, "target: %s\nptx: %s\nlaunch: %s\nlines: %s\nimage format: %d\n", content->target, content->ptx,
                  content->launch, content->lines, IMAGE_FORMAT);
    return finish(&b, key, error);
}

void key_free(struct key *key) {
    free(key->text);
    *key = (struct key){0};
}

dcpk_status key_line_map(const struct expansion *expansion, struct image_parts *parts, dcpk_error *error) {
    struct image_line *lines = calloc(expansion->ptx_lines + 1, sizeof *lines);
    const char **files = calloc(expansion->file_count + 1, sizeof *files);
    if (!lines || !files) {
        free(lines);
        free(files);
        return no_memory(error);
    }
    for (uint32_t i = 0; i < expansion->ptx_lines; i++)
        lines[i] = (struct image_line){expansion->origins[i].file, expansion->origins[i].line};
    for (uint32_t i = 0; i < expansion->file_count; i++)
        files[i] = expansion->files[i].name;
    parts->lines = lines;
    parts->line_count = expansion->ptx_lines;
    parts->files = files;
    parts->file_count = expansion->file_count;
    return DCPK_OK;
}

void key_line_map_free(struct image_parts *parts) {
    free((void *)(uintptr_t)parts->lines);
    free((void *)(uintptr_t)parts->files);
    parts->lines = NULL;
    parts->files = NULL;
}

static dcpk_status digest_launch(const char *spec, const char *target, uint32_t ptx_version,
                                 const dcpk_entry_info *entries, uint32_t entry_count, char *hex, dcpk_error *error) {
    size_t length = 0;
    char *launch = image_meta_write(spec, target, ptx_version, entries, entry_count, false, &length);
    if (!launch) return no_memory(error);
    digest_hex(launch, length, hex);
    free(launch);
    return DCPK_OK;
}

dcpk_status key_content_of_expansion(const char *spec, const struct expansion *expansion, struct key_content *content,
                                     dcpk_error *error) {
    struct image_parts parts = {0};
    dcpk_status status = key_line_map(expansion, &parts, error);
    if (status != DCPK_OK) return status;
    size_t length = 0;
    void *lines = image_lines_write(&parts, &length);
    key_line_map_free(&parts);
    if (!lines) return no_memory(error);
    digest_hex(lines, length, content->lines);
    free(lines);
    digest_hex(expansion->ptx, expansion->ptx_length, content->ptx);
    content->target = expansion->target;
    return digest_launch(spec, expansion->target, expansion->ptx_version, expansion->entries, expansion->entry_count,
                         content->launch, error);
}

dcpk_status key_content_of_image(const char *spec, const dcpk_image *image, struct key_content *content,
                                 dcpk_error *error) {
    const struct image_meta *meta = image_meta_of(image);
    size_t length = 0;
    const void *bytes = dcpk_image_ptx(image, &length);
    digest_hex(bytes, length, content->ptx);
    bytes = image_lines_of(image, &length);
    digest_hex(bytes, length, content->lines);
    content->target = meta->target;
    return digest_launch(spec, meta->target, meta->ptx_version, meta->entries, meta->entry_count, content->launch,
                         error);
}
