/* pack_check.c - the checks of a pack's bytes in memory (pack_format.h). Pure but for the images that it makes: no
 * file, no state. Any bytes may be handed in: every number is checked before it is used. */
#include "runtime/pack_format.h"

#include "runtime/error.h"
#include "runtime/image_find.h"
#include "runtime/image_format.h"

#include <stdbool.h>
#include <string.h>

static dcpk_status damaged(dcpk_error *error, const char *what) {
    return dcpk_error_set(error, DCPK_E_CACHE, "the pack is damaged: %s", what);
}

static bool zeros(const unsigned char *bytes, uint64_t length) {
    for (uint64_t i = 0; i < length; i++)
        if (bytes[i] != 0) return false;
    return true;
}

/* ---- header -------------------------------------------------------------------------------------- */
/* Each part begins where the one before it ends; no sum can overflow: every term is far below 2^63. */
static bool in_order(const struct pack_header *h) {
    if (h->manifest > PACK_MANIFEST_MAX || h->entries > PACK_ENTRIES_MAX || h->specs_bytes > PACK_FRONT_MAX)
        return false;
    uint64_t index = PACK_HEADER + h->manifest + 1;
    index += (PACK_INDEX_ALIGN - index % PACK_INDEX_ALIGN) % PACK_INDEX_ALIGN;
    uint64_t specs = index + h->entries * PACK_ROW, images = specs + h->specs_bytes;
    images += (PACK_ALIGN - images % PACK_ALIGN) % PACK_ALIGN;
    return h->index == index && h->specs == specs && h->images == images && images <= PACK_FRONT_MAX &&
           images <= h->total;
}

dcpk_status pack_header_read(const unsigned char *bytes, uint64_t total, struct pack_header *header,
                             dcpk_error *error) {
    unsigned char digest[DIGEST_BYTES];
    *header = (struct pack_header){0};
    if (total < PACK_HEADER || memcmp(bytes, PACK_MAGIC, 8) != 0)
        return dcpk_error_set(error, DCPK_E_CACHE, "this is no pack: it does not begin with a pack's header");
    uint32_t format = image_u32(bytes + 8);
    if (format > PACK_FORMAT && image_u32(bytes + 12) == ~format)
        return dcpk_error_set(error, DCPK_E_NOT_FOUND,
                              "the pack has format %u, this library reads %d: use a newer "
                              "library, or make the pack again with this version's dcpk aot",
                              format, PACK_FORMAT);
    digest_bytes(bytes, PACK_HEADER - DIGEST_BYTES, digest);
    if (format != PACK_FORMAT || image_u32(bytes + 12) != ~format ||
        memcmp(digest, bytes + PACK_HEADER - DIGEST_BYTES, DIGEST_BYTES) != 0)
        return damaged(error, "its header's checksum does not fit");
    *header = (struct pack_header){.total = image_u64(bytes + 16),
                                   .manifest = image_u64(bytes + 24),
                                   .index = image_u64(bytes + 32),
                                   .entries = image_u64(bytes + 40),
                                   .specs = image_u64(bytes + 48),
                                   .specs_bytes = image_u64(bytes + 56),
                                   .images = image_u64(bytes + 64)};
    if (header->total != total)
        return dcpk_error_set(error, DCPK_E_CACHE, "the pack is damaged: it was written with %llu bytes and has %llu",
                              (unsigned long long)header->total, (unsigned long long)total);
    if (!zeros(bytes + 72, 8) || !zeros(bytes + 96, 16) || !in_order(header))
        return damaged(error, "its header names parts that do not follow each other");
    return DCPK_OK;
}

/* ---- manifest ------------------------------------------------------------------------------------ */
static bool manifest_line(const char *line, size_t length) {
    size_t name = 0;
    while (name < length &&
           ((line[name] >= 'a' && line[name] <= 'z') || (line[name] >= '0' && line[name] <= '9') || line[name] == '-'))
        name++;
    if (name == 0 || name + 1 >= length || line[name] != ' ') return false;
    for (size_t i = name + 1; i < length; i++)
        if ((unsigned char)line[i] < 0x20 || (unsigned char)line[i] >= 0x7F) return false;
    return true;
}

dcpk_status pack_manifest_check(const char *text, size_t length, dcpk_error *error) {
    if (length > PACK_MANIFEST_MAX)
        return dcpk_error_set(error, DCPK_E_ARG, "a manifest has at most %d bytes, not %zu", PACK_MANIFEST_MAX, length);
    unsigned number = 1;
    for (const char *at = text, *end = text + length; at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (newline == NULL || !manifest_line(at, (size_t)(newline - at)))
            return dcpk_error_set(error, DCPK_E_ARG,
                                  "line %u of the manifest is not \"name value\" with a newline, "
                                  "name of a-z, 0-9 and -, without control characters",
                                  number);
        at = newline + 1;
    }
    return DCPK_OK;
}

/* ---- index --------------------------------------------------------------------------------------- */
static const unsigned char *row_at(const unsigned char *front, const struct pack_header *header, uint64_t entry) {
    return front + header->index + entry * PACK_ROW;
}

void pack_row_read(const unsigned char *front, const struct pack_header *header, uint64_t entry, struct pack_row *row) {
    static const char hex[] = "0123456789abcdef";
    const unsigned char *p = row_at(front, header, entry);
    *row = (struct pack_row){.offset = image_u64(p),
                             .bytes = image_u64(p + 8),
                             .digest = p + 16,
                             .spec = (const char *)front + header->specs + image_u32(p + 48)};
    for (int i = 0; i < DIGEST_BYTES; i++) {
        row->key[2 * i] = hex[p[32 + i] >> 4];
        row->key[2 * i + 1] = hex[p[32 + i] & 15];
    }
}

/* The spec texts follow each other in the rows' order, each plain and with its NUL. *at: where the next one begins. */
static bool check_spec(const unsigned char *front, const struct pack_header *header, const unsigned char *row,
                       uint64_t *at) {
    uint64_t offset = image_u32(row + 48), length = image_u32(row + 52);
    if (offset != *at || length == 0 || length > PACK_SPEC_MAX || *at + length + 1 > header->specs_bytes) return false;
    const unsigned char *text = front + header->specs + offset;
    for (uint64_t i = 0; i < length; i++)
        if (text[i] < 0x20 || text[i] >= 0x7F) return false;
    *at += length + 1;
    return text[length] == 0;
}

/* *at: the first byte that the next image may have. */
static bool check_place(const struct pack_header *header, const unsigned char *row, uint64_t *at) {
    uint64_t offset = image_u64(row), bytes = image_u64(row + 8);
    uint64_t aligned = *at + (PACK_ALIGN - *at % PACK_ALIGN) % PACK_ALIGN;
    if (offset != aligned || bytes == 0 || bytes > PACK_IMAGE_MAX || offset > header->total ||
        bytes > header->total - offset)
        return false;
    *at = offset + bytes;
    return true;
}

static dcpk_status check_index(const unsigned char *front, const struct pack_header *header, dcpk_error *error) {
    uint64_t text = 0, image = header->images;
    const char *before = "";
    for (uint64_t i = 0; i < header->entries; i++) {
        const unsigned char *row = row_at(front, header, i);
        if (!check_spec(front, header, row, &text)) return damaged(error, "its index names a spec that is no text");
        if (!check_place(header, row, &image)) return damaged(error, "its index names bytes that are not an image's");
        const char *spec = (const char *)front + header->specs + image_u32(row + 48);
        if (strcmp(before, spec) >= 0) return damaged(error, "its index is not sorted");
        if (!zeros(row + 56, 8)) return damaged(error, "its index has bytes that mean nothing");
        before = spec;
    }
    if (text != header->specs_bytes || image != header->total)
        return damaged(error, "its index leaves bytes of the file to nobody");
    return DCPK_OK;
}

dcpk_status pack_front_check(const unsigned char *front, const struct pack_header *header, dcpk_error *error) {
    unsigned char digest[DIGEST_BYTES];
    const char *manifest = (const char *)front + PACK_HEADER;
    size_t length = (size_t)header->manifest, end = PACK_HEADER + length;
    digest_bytes(front + PACK_HEADER, (size_t)header->images - PACK_HEADER, digest);
    if (memcmp(digest, front + 80, DIGEST_BYTES) != 0)
        return damaged(error, "the checksum of its manifest and index does not fit");
    if (pack_manifest_check(manifest, length, NULL) != DCPK_OK || !zeros(front + end, header->index - end))
        return damaged(error, "its manifest is no text");
    uint64_t specs_end = header->specs + header->specs_bytes;
    if (!zeros(front + specs_end, header->images - specs_end)) return damaged(error, "its front does not end in zeros");
    return check_index(front, header, error);
}

uint64_t pack_row_find(const unsigned char *front, const struct pack_header *header, const char *spec) {
    for (uint64_t low = 0, high = header->entries; low < high;) {
        uint64_t middle = low + (high - low) / 2;
        struct pack_row row;
        pack_row_read(front, header, middle, &row);
        int order = strcmp(spec, row.spec);
        if (order == 0) return middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return header->entries;
}

uint64_t pack_row_padding(const unsigned char *front, const struct pack_header *header, uint64_t entry) {
    const unsigned char *row = row_at(front, header, entry);
    uint64_t end = image_u64(row) + image_u64(row + 8);
    return entry + 1 < header->entries ? image_u64(row + PACK_ROW) - end : 0;
}

/* ---- images -------------------------------------------------------------------------------------- */
dcpk_status pack_image_read(const struct pack_row *row, const void *bytes, dcpk_image **out, dcpk_error *error) {
    unsigned char digest[DIGEST_BYTES];
    *out = NULL;
    digest_bytes(bytes, (size_t)row->bytes, digest);
    if (memcmp(digest, row->digest, DIGEST_BYTES) != 0)
        return damaged(error, "the image's checksum does not fit its bytes");
    dcpk_image *image = NULL;
    dcpk_status status = dcpk_image_from_bytes(bytes, (size_t)row->bytes, &image, error);
    if (status != DCPK_OK) return status;
    const struct image_meta *meta = image_meta_of(image);
    bool same = meta->spec_length == strlen(row->spec) && memcmp(meta->spec, row->spec, meta->spec_length) == 0;
    if (!same || strcmp(dcpk_image_key(image), row->key) != 0) {
        dcpk_image_free(image);
        return damaged(error, "the image is not the one that the index names");
    }
    *out = image;
    return DCPK_OK;
}

dcpk_status pack_check_bytes(const void *bytes, size_t length, int images, dcpk_error *error) {
    const unsigned char *p = bytes;
    struct pack_header header;
    dcpk_status status = pack_header_read(p, length, &header, error);
    if (status == DCPK_OK) status = pack_front_check(p, &header, error);
    for (uint64_t i = 0; images && status == DCPK_OK && i < header.entries; i++) {
        struct pack_row row;
        dcpk_image *image = NULL;
        pack_row_read(p, &header, i, &row);
        status = pack_image_read(&row, p + row.offset, &image, error);
        dcpk_image_free(image);
        if (status == DCPK_OK && !zeros(p + row.offset + row.bytes, pack_row_padding(p, &header, i)))
            status = damaged(error, "there are bytes between two images");
    }
    return status;
}
