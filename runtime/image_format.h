/* image_format.h - making images, and the launch metadata as text. Internal: gen, packs and tests include it.
 * The byte layout is image_find.h's. */
#ifndef DCPK_RUNTIME_IMAGE_FORMAT_H
#define DCPK_RUNTIME_IMAGE_FORMAT_H

#include "runtime/private.h"

#include <dcpk/image.h>

#include <stdbool.h>

/* One PTX line's origin: index into image_parts.files and 1-based line; line 0: unknown. */
struct image_line {
    uint32_t file, line;
};

/* Everything an image is made of; borrowed for the call. */
struct image_parts {
    const void *cubin;
    size_t cubin_length;
    const char *ptx;
    size_t ptx_length; /* without NUL */
    const char *preimage;
    const char *spec;     /* canonical text */
    char target[16];      /* the .target line */
    uint32_t ptx_version; /* 80 = 8.0 */
    uint32_t entry_count;
    const dcpk_entry_info *entries; /* resources are read from the cubin, whatever stands here */
    const struct image_line *lines; /* of PTX line 1, 2, ... */
    uint32_t line_count;
    const char *const *files;
    uint32_t file_count;
};

/* Writes the blob, then reads it back as dcpk_image_from_bytes does: what comes out has passed every check. */
DCPK_PRIVATE dcpk_status image_make(const struct image_parts *parts, dcpk_image **out, dcpk_error *error);

/* Reads bytes without checksum and without the cubin's insides: enough to list a folder. */
DCPK_PRIVATE dcpk_status image_open_quick(const void *bytes, size_t length, dcpk_image **out, dcpk_error *error);

/* What stands in the metadata part. */
struct image_meta {
    char kernel[32];
    const char *spec; /* inside the text it was read from; not NUL-terminated */
    size_t spec_length;
    char target[16];
    uint32_t ptx_version;
    uint32_t entry_count;
    dcpk_entry_info entries[DCPK_IMAGE_MAX_ENTRIES];
};

/* The text of what the template decides about launching (resources = false: what is known before the compiler has run)
 * and, with resources, of what the cubin says. NULL when memory is out. Freed by the caller. */
DCPK_PRIVATE char *image_meta_write(const char *spec, const char *target, uint32_t ptx_version,
                                    const dcpk_entry_info *entries, uint32_t entry_count, bool resources,
                                    size_t *length);
/* Strict: exactly what image_meta_write writes with resources. CACHE with the line that is wrong. */
dcpk_status image_meta_read(const char *text, size_t length, struct image_meta *meta, dcpk_error *error);

/* Accessors that the public header has no need for. */
DCPK_PRIVATE const struct image_meta *image_meta_of(const dcpk_image *image);
DCPK_PRIVATE const void *image_lines_of(const dcpk_image *image, size_t *length);

/* The line map part as image_find.h lays it out; NULL when memory is out. Freed by the caller. */
DCPK_PRIVATE void *image_lines_write(const struct image_parts *parts, size_t *length);

#endif
