/* image_write.c - makes the blob of an image from its parts. The only writer of image_find.h's layout.
 * What it writes is read back by image.c's checks before anyone gets it. */
#include "runtime/image_format.h"

#include "runtime/buffer.h"
#include "runtime/cubin.h"
#include "runtime/digest.h"
#include "runtime/error.h"
#include "runtime/image_find.h"

#include <stdlib.h>

static void put(struct buffer *b, uint64_t value, size_t bytes) {
    unsigned char out[8];
    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)(value >> 8 * i);
    buffer_bytes(b, out, bytes);
}

static void line_map(struct buffer *b, const struct image_parts *parts) {
    put(b, parts->line_count, 4);
    put(b, parts->file_count, 4);
    for (uint32_t i = 0; i < parts->line_count; i++) {
        put(b, parts->lines[i].file, 4);
        put(b, parts->lines[i].line, 4);
    }
    for (uint32_t i = 0; i < parts->file_count; i++)
        buffer_bytes(b, parts->files[i], strlen(parts->files[i]) + 1);
}

void *image_lines_write(const struct image_parts *parts, size_t *length) {
    struct buffer b = {0};
    line_map(&b, parts);
    if (b.failed) {
        buffer_free(&b);
        return NULL;
    }
    *length = b.length;
    return b.data;
}

struct body {
    struct buffer bytes;
    uint64_t offset[IMAGE_PARTS], length[IMAGE_PARTS];
};

/* One part on a multiple of 16, with a NUL behind it when it is a text. */
static void add_part(struct body *body, enum image_part which, const void *data, size_t length, bool text) {
    buffer_align(&body->bytes, IMAGE_ALIGN);
    body->offset[which] = body->bytes.length;
    body->length[which] = length;
    buffer_bytes(&body->bytes, data, length);
    if (text) buffer_bytes(&body->bytes, "", 1);
}

/* The header is written last, over the zeros that stand in its place. */
static void fill_header(struct body *body, size_t at) {
    struct buffer h = {0};
    buffer_bytes(&h, IMAGE_MAGIC, 8);
    put(&h, IMAGE_FORMAT, 4);
    put(&h, IMAGE_HEADER_BYTES, 4);
    put(&h, body->bytes.length + IMAGE_FOOTER_BYTES, 8);
    for (int i = 0; i < IMAGE_PARTS; i++) {
        put(&h, body->offset[i], 8);
        put(&h, body->length[i], 8);
    }
    if (h.failed || body->bytes.failed)
        body->bytes.failed = true;
    else
        memcpy(body->bytes.data + at, h.data, IMAGE_HEADER_BYTES);
    buffer_free(&h);
}

static void add_footer(struct buffer *b) {
    unsigned char digest[DIGEST_BYTES] = {0};
    if (!b->failed) digest_bytes(b->data, b->length, digest);
    put(b, b->length + IMAGE_FOOTER_BYTES, 8);
    buffer_bytes(b, digest, sizeof digest);
    put(b, IMAGE_FORMAT, 4);
    put(b, 0, 4);
    buffer_bytes(b, IMAGE_END_MAGIC, 8);
}

static void write_body(struct body *body, const struct image_parts *parts, const char *meta, size_t meta_length) {
    static const char zeros[IMAGE_HEADER_BYTES];
    struct buffer lines = {0};
    add_part(body, IMAGE_CUBIN, parts->cubin, parts->cubin_length, false);
    buffer_align(&body->bytes, IMAGE_ALIGN);
    size_t header = body->bytes.length;
    buffer_bytes(&body->bytes, zeros, sizeof zeros);
    add_part(body, IMAGE_PTX, parts->ptx, parts->ptx_length, true);
    line_map(&lines, parts);
    body->bytes.failed |= lines.failed;
    add_part(body, IMAGE_LINES, lines.data, lines.length, false);
    add_part(body, IMAGE_META, meta, meta_length, true);
    add_part(body, IMAGE_PREIMAGE, parts->preimage, strlen(parts->preimage), true);
    buffer_align(&body->bytes, IMAGE_ALIGN);
    fill_header(body, header);
    add_footer(&body->bytes);
    buffer_free(&lines);
}

static dcpk_status no_memory(dcpk_error *error) {
    return dcpk_error_set(error, DCPK_E_NOMEM, "no memory to make an image");
}

dcpk_status image_make(const struct image_parts *parts, dcpk_image **out, dcpk_error *error) {
    *out = NULL;
    if (parts->entry_count == 0 || parts->entry_count > DCPK_IMAGE_MAX_ENTRIES)
        return dcpk_error_set(error, DCPK_E_ARG, "an image has 1 to %d entries, not %u", DCPK_IMAGE_MAX_ENTRIES,
                              parts->entry_count);
    dcpk_entry_info entries[DCPK_IMAGE_MAX_ENTRIES];
    memcpy(entries, parts->entries, parts->entry_count * sizeof entries[0]);
    dcpk_spec spec;
    dcpk_status status = dcpk_spec_parse(&spec, parts->spec, error);
    if (status == DCPK_OK)
        status = cubin_check(parts->cubin, parts->cubin_length, spec.arch, entries, parts->entry_count, error);
    if (status != DCPK_OK) return status;
    size_t meta_length = 0;
    char *meta = image_meta_write(parts->spec, parts->target, parts->ptx_version, entries, parts->entry_count, true,
                                  &meta_length);
    if (!meta) return no_memory(error);
    struct body body = {0};
    write_body(&body, parts, meta, meta_length);
    status =
        body.bytes.failed ? no_memory(error) : dcpk_image_from_bytes(body.bytes.data, body.bytes.length, out, error);
    free(meta);
    buffer_free(&body.bytes);
    return status;
}
