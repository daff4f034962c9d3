/* fuzz_pack.c - input: the bytes of an ahead-of-time pack. Checksums, and the length that the header holds unless its
 * upper half is not 0, are made right before they are read, from the images outward: what stands behind those checks is
 * reached. A front that is accepted answers for every entry; whatever the check of the whole says of its images, each
 * alone says, too. */
#include "tests/fuzz/fuzz.h"

#include "runtime/image_find.h"
#include "runtime/pack_format.h"

#include <string.h>

enum { MOST_ENTRIES = 64 };

static void put_u64(uint8_t *to, uint64_t value) {
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

/* The image's checksum, then the row's checksum and key. */
static void make_row_right(uint8_t *bytes, size_t length, uint8_t *row) {
    uint64_t offset = image_u64(row), size = image_u64(row + 8);
    if (offset > length || size > length - offset || size < IMAGE_FOOTER_BYTES) return;
    uint8_t *image = bytes + offset, *footer = image + size - IMAGE_FOOTER_BYTES;
    struct image_view view;
    digest_bytes(image, (size_t)size - IMAGE_FOOTER_BYTES, footer + 8);
    digest_bytes(image, (size_t)size, row + 16);
    if (image_find(image, size, &view))
        digest_bytes(view.part[IMAGE_PREIMAGE], (size_t)view.length[IMAGE_PREIMAGE], row + 32);
}

static void make_right(uint8_t *bytes, size_t length) {
    if (length < PACK_HEADER) return;
    if (image_u32(bytes + 20) == 0) put_u64(bytes + 16, length);
    uint64_t index = image_u64(bytes + 32), entries = image_u64(bytes + 40), images = image_u64(bytes + 64);
    for (uint64_t i = 0; i < entries && i < MOST_ENTRIES; i++)
        if (index >= PACK_HEADER && index <= length && (i + 1) * PACK_ROW <= length - index)
            make_row_right(bytes, length, bytes + index + i * PACK_ROW);
    if (images >= PACK_HEADER && images <= length) digest_bytes(bytes + PACK_HEADER, images - PACK_HEADER, bytes + 80);
    digest_bytes(bytes, PACK_HEADER - DIGEST_BYTES, bytes + PACK_HEADER - DIGEST_BYTES);
}

static void ask(const uint8_t *front, const struct pack_header *header, const uint8_t *bytes, dcpk_status whole) {
    dcpk_error error;
    dcpk_error_init(&error);
    bool all_good = true;
    for (uint64_t i = 0; i < header->entries; i++) {
        struct pack_row row;
        dcpk_image *image = NULL;
        pack_row_read(front, header, i, &row);
        fuzz_check(strlen(row.key) == 32 && strlen(row.spec) <= PACK_SPEC_MAX);
        fuzz_check(pack_row_find(front, header, row.spec) == i);
        fuzz_check(pack_row_padding(front, header, i) < PACK_ALIGN);
        if (i >= MOST_ENTRIES) continue;
        dcpk_status status = pack_image_read(&row, bytes + row.offset, &image, &error);
        fuzz_check((status == DCPK_OK) == (image != NULL) && (status == DCPK_OK || error.text[0] != '\0'));
        all_good = all_good && status == DCPK_OK;
        dcpk_image_free(image);
    }
    fuzz_check(pack_row_find(front, header, "no such kernel") == header->entries);
    fuzz_check(whole != DCPK_OK || all_good);
}

void fuzz_pack(const uint8_t *bytes, size_t length) {
    uint8_t *copy = malloc(length > 0 ? length : 1);
    struct pack_header header;
    dcpk_error error;
    fuzz_check(copy != NULL);
    if (length > 0) memcpy(copy, bytes, length);
    make_right(copy, length);
    dcpk_error_init(&error);
    dcpk_status front = pack_check_bytes(copy, length, 0, &error);
    fuzz_check(front == DCPK_OK || error.text[0] != '\0');
    dcpk_status whole = pack_check_bytes(copy, length, 1, &error);
    fuzz_check(front == DCPK_OK || whole != DCPK_OK);
    if (front == DCPK_OK) {
        fuzz_check(pack_header_read(copy, length, &header, &error) == DCPK_OK);
        fuzz_check(pack_front_check(copy, &header, &error) == DCPK_OK);
        ask(copy, &header, copy, whole);
    }
    free(copy);
}
