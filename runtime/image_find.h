/* image_find.h - how an image is laid out in memory, and how to find its parts from the address of its first byte.
 *
 * Owns the byte layout that image.c writes and checks and that the CPU device reads: a driver's load call takes a
 * pointer and no length. Depends on nothing but the C library, so that libdcpkcpu.so may include it.
 * May not allocate, and never reads past `limit`.
 *
 *   cubin            an ELF file: the image's first bytes are \x7fELF
 *   zeros            up to a multiple of 16
 *   section header   IMAGE_HEADER_BYTES: "DCPKIMG1" | u32 format | u32 header bytes | u64 total bytes |
 *                    { u64 offset, u64 length } of cubin, PTX, line map, metadata, preimage
 *   PTX NUL, line map, metadata NUL, preimage NUL, each on a multiple of 16, zeros between
 *   footer           IMAGE_FOOTER_BYTES: u64 total bytes | XXH3-128 of everything before the footer, 16 bytes |
 *                    u32 format | u32 0 | "DCPKEND1"
 * Numbers are little-endian, offsets count from the first byte, lengths leave the NUL out. Every future format keeps
 * the header's first 16 bytes and the footer's last 16: that is how an older library knows a newer format from damage.
 *
 * Line map: u32 line_count | u32 file_count | { u32 file, u32 line } of PTX line 1, 2, ... | file names, NUL after
 * each. line 0: nobody knows. */
#ifndef DCPK_RUNTIME_IMAGE_FIND_H
#define DCPK_RUNTIME_IMAGE_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define IMAGE_MAGIC "DCPKIMG1"
#define IMAGE_END_MAGIC "DCPKEND1"
#ifndef DCPK_IMAGE_FORMAT /* tests build a version of the future beside this one */
#define DCPK_IMAGE_FORMAT 1
#endif
enum { IMAGE_FORMAT = DCPK_IMAGE_FORMAT, IMAGE_ALIGN = 16, IMAGE_HEADER_BYTES = 104, IMAGE_FOOTER_BYTES = 40 };
enum image_part { IMAGE_CUBIN, IMAGE_PTX, IMAGE_LINES, IMAGE_META, IMAGE_PREIMAGE, IMAGE_PARTS };

/* Where the parts lie; pointers into the blob, valid as long as it is. */
struct image_view {
    const unsigned char *blob;
    uint64_t total;
    const unsigned char *part[IMAGE_PARTS];
    uint64_t length[IMAGE_PARTS];
};

static inline uint16_t image_u16(const unsigned char *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t image_u32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t image_u64(const unsigned char *p) {
    return (uint64_t)image_u32(p) | (uint64_t)image_u32(p + 4) << 32;
}

/* Raises *end to offset + bytes; false when that passes limit. */
static inline bool image_extend(uint64_t *end, uint64_t offset, uint64_t bytes, uint64_t limit) {
    if (offset > limit || bytes > limit - offset) return false;
    if (offset + bytes > *end) *end = offset + bytes;
    return true;
}

/* The length of a 64-bit little-endian ELF file: the furthest byte that its header, its two tables, a segment or a
 * section names. 0 when it is no such file or names a byte past limit (UINT64_MAX: unknown). */
static inline uint64_t image_elf_end(const void *blob, uint64_t limit) {
    enum { ELF_HEADER = 64, PROGRAM_HEADER = 56, SECTION_HEADER = 64, SECTION_NULL = 0, SECTION_NOBITS = 8 };
    const unsigned char *p = (const unsigned char *)blob;
    if (!p || limit < ELF_HEADER || memcmp(p, "\177ELF\2\1\1", 7) != 0) return 0;
    uint64_t end = ELF_HEADER, programs = image_u64(p + 32), sections = image_u64(p + 40);
    unsigned program_count = image_u16(p + 56), section_count = image_u16(p + 60);
    if ((program_count && image_u16(p + 54) != PROGRAM_HEADER) ||
        (section_count && image_u16(p + 58) != SECTION_HEADER))
        return 0;
    if (program_count && !image_extend(&end, programs, (uint64_t)program_count * PROGRAM_HEADER, limit)) return 0;
    if (section_count && !image_extend(&end, sections, (uint64_t)section_count * SECTION_HEADER, limit)) return 0;
    for (unsigned i = 0; i < program_count; i++) {
        const unsigned char *h = p + programs + (uint64_t)i * PROGRAM_HEADER;
        if (!image_extend(&end, image_u64(h + 8), image_u64(h + 32), limit)) return 0;
    }
    for (unsigned i = 0; i < section_count; i++) {
        const unsigned char *h = p + sections + (uint64_t)i * SECTION_HEADER;
        uint32_t type = image_u32(h + 4);
        if (type != SECTION_NULL && type != SECTION_NOBITS &&
            !image_extend(&end, image_u64(h + 24), image_u64(h + 32), limit))
            return 0;
    }
    return end;
}

/* Finds the parts. limit: bytes that may be read, UINT64_MAX when only the address is known; then blob must be an
 * image (a bare cubin ends where this looks for the section header). Checks that parts lie inside the image and that
 * texts end with NUL; not the checksum. False for anything else, formats other than IMAGE_FORMAT included. */
static inline bool image_find(const void *blob, uint64_t limit, struct image_view *view) {
    uint64_t end = image_elf_end(blob, limit);
    if (!end || end > UINT64_MAX / 2) return false;
    uint64_t at = (end + IMAGE_ALIGN - 1) / IMAGE_ALIGN * IMAGE_ALIGN;
    if (at > limit || limit - at < IMAGE_HEADER_BYTES) return false;
    const unsigned char *p = (const unsigned char *)blob, *header = p + at;
    if (memcmp(header, IMAGE_MAGIC, 8) != 0 || image_u32(header + 8) != IMAGE_FORMAT ||
        image_u32(header + 12) != IMAGE_HEADER_BYTES)
        return false;
    view->blob = p;
    view->total = image_u64(header + 16);
    if (view->total > limit || view->total < at + IMAGE_HEADER_BYTES + IMAGE_FOOTER_BYTES) return false;
    uint64_t body = view->total - IMAGE_FOOTER_BYTES; /* where the footer begins */
    for (unsigned i = 0; i < IMAGE_PARTS; i++) {
        const unsigned char *row = header + 24 + i * 16;
        uint64_t offset = image_u64(row), length = image_u64(row + 8);
        bool text = i == IMAGE_PTX || i == IMAGE_META || i == IMAGE_PREIMAGE;
        if (offset > body || length > body - offset || (text && body - offset == length)) return false;
        if (i == IMAGE_CUBIN ? offset != 0 || length != end : offset < at + IMAGE_HEADER_BYTES) return false;
        if (text && memchr(p + offset, 0, (size_t)length + 1) != p + offset + length) return false;
        view->part[i] = p + offset;
        view->length[i] = length;
    }
    return true;
}

/* The PTX text of an image of which only the address is known, NULL when it is none. */
static inline const char *image_find_ptx(const void *blob) {
    struct image_view view;
    return image_find(blob, UINT64_MAX, &view) ? (const char *)view.part[IMAGE_PTX] : NULL;
}

/* The template file and 1-based line that wrote PTX line `ptx_line` (1-based); 0 and *file NULL when unknown. */
static inline unsigned image_find_line(const struct image_view *view, unsigned ptx_line, const char **file) {
    const unsigned char *map = view->part[IMAGE_LINES];
    uint64_t bytes = view->length[IMAGE_LINES];
    *file = NULL;
    if (bytes < 8) return 0;
    uint64_t lines = image_u32(map), files = image_u32(map + 4), names = 8 + lines * 8;
    if (ptx_line == 0 || ptx_line > lines || names > bytes) return 0;
    uint32_t wanted = image_u32(map + 8 * (uint64_t)ptx_line), line = image_u32(map + 8 * (uint64_t)ptx_line + 4);
    if (line == 0 || wanted >= files) return 0;
    for (uint32_t i = 0; names < bytes; i++) {
        const unsigned char *name = map + names;
        const unsigned char *nul = (const unsigned char *)memchr(name, 0, (size_t)(bytes - names));
        if (!nul) return 0;
        if (i == wanted) {
            *file = (const char *)name;
            return line;
        }
        names += (uint64_t)(nul - name) + 1;
    }
    return 0;
}

#endif
