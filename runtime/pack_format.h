/* pack_format.h - the bytes of a pack, and their checks on bytes that lie in memory. Internal: the reader (pack.c), the
 * writer (pack_write.c), tests and fuzzers include it. Little-endian; offsets from the file's first byte.
 *
 *     0  "dcpkpack"         8  format         12  ~format (so that a flipped bit does not make a newer one)
 *    16  bytes of the file  24  bytes of the manifest, which begins at 128 and has a NUL behind it
 *    32  offset of the index, a multiple of 16   40  entries
 *    48  offset of the spec texts, right behind the index   56  their bytes, a NUL behind each
 *    64  offset of the first image: the front's length      72  zero (8)
 *    80  XXH3-128 of the front from 128 on (16)   96  zero (16)   112  XXH3-128 of the bytes before (16)
 *   128  manifest, index, spec texts, zeros to a multiple of 64: the front ends. Then the images, in the index's order,
 *        each on the next multiple of 64, zeros between; the file ends with the last image's last byte.
 * An index row, 64 bytes: offset, bytes of the image; XXH3-128 of them (16); content key (16); offset of the spec's
 * text from the first text (4), its length without NUL (4); zero (8). Rows ascend by text (strcmp), no two alike. */
#ifndef DCPK_RUNTIME_PACK_FORMAT_H
#define DCPK_RUNTIME_PACK_FORMAT_H

#include "runtime/digest.h"

#include <dcpk/pack.h>

#define PACK_MAGIC "dcpkpack"
enum { PACK_FORMAT = 1, PACK_HEADER = 128, PACK_ROW = 64, PACK_ALIGN = 64, PACK_INDEX_ALIGN = 16 };
enum { PACK_ENTRIES_MAX = 1 << 20, PACK_FRONT_MAX = 1 << 30, PACK_SPEC_MAX = 1023, PACK_MANIFEST_MAX = 1 << 20 };
/* An image's bytes: what the cache takes, too. */
enum { PACK_IMAGE_MAX = 256 << 20 };

/* Of a checked header. */
struct pack_header {
    uint64_t total, manifest, index, entries, specs, specs_bytes, images;
};
struct pack_row {
    uint64_t offset, bytes;
    const unsigned char *digest;
    char key[DIGEST_HEX];
    const char *spec; /* NUL-terminated */
};

/* bytes: the first PACK_HEADER of a file of `total` bytes. Every number is in range and in order afterwards: the front
 * lies in the file, its parts in the front. NOT_FOUND for a newer format, CACHE for anything else. No name in messages:
 * the caller has the path. */
dcpk_status pack_header_read(const unsigned char *bytes, uint64_t total, struct pack_header *header, dcpk_error *error);
/* front: header->images bytes. Checks its digest, manifest and index: afterwards pack_row is safe for every entry. */
dcpk_status pack_front_check(const unsigned char *front, const struct pack_header *header, dcpk_error *error);
void pack_row_read(const unsigned char *front, const struct pack_header *header, uint64_t entry, struct pack_row *row);
/* The entry of a spec's text; header->entries when there is none. */
uint64_t pack_row_find(const unsigned char *front, const struct pack_header *header, const char *spec);
/* Bytes of zeros behind an entry's image: to the next image, none behind the last. */
uint64_t pack_row_padding(const unsigned char *front, const struct pack_header *header, uint64_t entry);

/* bytes: the row's image. Checks digest, image, and that the image is of the row's spec and key. */
dcpk_status pack_image_read(const struct pack_row *row, const void *bytes, dcpk_image **out, dcpk_error *error);

/* Whole packs in memory: header, front, and with images != 0 every image and the zeros between. For any bytes. */
dcpk_status pack_check_bytes(const void *bytes, size_t length, int images, dcpk_error *error);

/* "name value" lines, each with its newline, names of [a-z0-9-], all plain ASCII; "" is fine. ARG. */
dcpk_status pack_manifest_check(const char *text, size_t length, dcpk_error *error);

#endif
