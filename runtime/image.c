/* image.c - owns dcpk_image: reading and checking the blob, reference counting, the public accessors.
 * The layout is image_find.h's, the metadata image_meta.c's, the cubin's insides cubin.c's.
 * Any byte string may be handed in: every length is checked before use. */
#include "runtime/image_format.h"

#include "runtime/cubin.h"
#include "runtime/digest.h"
#include "runtime/error.h"
#include "runtime/image_find.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct dcpk_image {
    atomic_uint references;
    unsigned char *bytes;
    size_t length;
    struct image_view view; /* into bytes */
    struct image_meta meta; /* into bytes */
    char key[DIGEST_HEX];
};

static dcpk_status damaged(dcpk_error *error, const char *what) {
    return dcpk_error_set(error, DCPK_E_CACHE, "the image is damaged: %s", what);
}

/* A newer format says so twice, in the header and in the footer: a flipped bit does not make one. */
static bool is_newer(const unsigned char *bytes, size_t length, uint32_t *format) {
    uint64_t end = image_elf_end(bytes, length);
    if (!end || length < 16) return false;
    uint64_t at = (end + IMAGE_ALIGN - 1) / IMAGE_ALIGN * IMAGE_ALIGN;
    const unsigned char *last = bytes + length - 16;
    if (at > length || length - at < 32 || memcmp(bytes + at, IMAGE_MAGIC, 8) != 0 ||
        memcmp(last + 8, IMAGE_END_MAGIC, 8) != 0)
        return false;
    *format = image_u32(last);
    return *format > IMAGE_FORMAT && *format == image_u32(bytes + at + 8);
}

static dcpk_status check_footer(const struct image_view *view, bool checksum, dcpk_error *error) {
    const unsigned char *footer = view->blob + view->total - IMAGE_FOOTER_BYTES;
    if (memcmp(footer + 32, IMAGE_END_MAGIC, 8) != 0 || image_u32(footer + 24) != IMAGE_FORMAT ||
        image_u32(footer + 28) != 0 || image_u64(footer) != view->total)
        return damaged(error, "its footer does not fit its header");
    unsigned char digest[DIGEST_BYTES];
    if (checksum) {
        digest_bytes(view->blob, (size_t)view->total - IMAGE_FOOTER_BYTES, digest);
        if (memcmp(digest, footer + 8, DIGEST_BYTES) != 0) return damaged(error, "its checksum does not fit its bytes");
    }
    return DCPK_OK;
}

/* The arch= word of the spec text; the spec's own parser is stricter than an image needs. */
static bool spec_arch(const struct image_meta *meta, char *arch, size_t capacity) {
    static const char word[] = " arch=";
    const char *p = memmem(meta->spec, meta->spec_length, word, sizeof word - 1);
    if (!p) return false;
    p += sizeof word - 1;
    const char *end = meta->spec + meta->spec_length, *stop = memchr(p, ' ', (size_t)(end - p));
    size_t length = (size_t)((stop ? stop : end) - p);
    if (length == 0 || length >= capacity) return false;
    memcpy(arch, p, length);
    arch[length] = '\0';
    return true;
}

/* The cubin must be whole, for the spec's architecture, and use what the metadata says. */
static dcpk_status check_cubin(const dcpk_image *image, dcpk_error *error) {
    char arch[16];
    if (!spec_arch(&image->meta, arch, sizeof arch)) return damaged(error, "its spec names no architecture");
    dcpk_entry_info entries[DCPK_IMAGE_MAX_ENTRIES];
    memcpy(entries, image->meta.entries, sizeof entries);
    dcpk_status status = cubin_check(image->view.part[IMAGE_CUBIN], (size_t)image->view.length[IMAGE_CUBIN], arch,
                                     entries, image->meta.entry_count, error);
    if (status != DCPK_OK) return status;
    for (uint32_t i = 0; i < image->meta.entry_count; i++)
        if (entries[i].registers != image->meta.entries[i].registers ||
            entries[i].static_shared != image->meta.entries[i].static_shared ||
            entries[i].local_bytes != image->meta.entries[i].local_bytes)
            return damaged(error, "its metadata and its cubin name different resources");
    return DCPK_OK;
}

static dcpk_status check_ptx(const struct image_view *view, dcpk_error *error) {
    for (uint64_t i = 0; i < view->length[IMAGE_PTX]; i++)
        if (view->part[IMAGE_PTX][i] >= 0x80) return damaged(error, "its PTX holds a byte that is not ASCII");
    return DCPK_OK;
}

/* image->bytes are set and the image's own. */
static dcpk_status read_image(dcpk_image *image, bool whole, dcpk_error *error) {
    uint32_t format = 0;
    if (is_newer(image->bytes, image->length, &format))
        return dcpk_error_set(error, DCPK_E_NOT_FOUND,
                              "the image has format %u, this library reads %d: use a newer library", format,
                              IMAGE_FORMAT);
    if (!image_find(image->bytes, image->length, &image->view))
        return damaged(error, "its section header is missing or names bytes past its end");
    if (image->view.total != image->length) return damaged(error, "its length is not the one that it was written with");
    dcpk_status status = check_footer(&image->view, whole, error);
    if (status == DCPK_OK)
        status = image_meta_read((const char *)image->view.part[IMAGE_META], (size_t)image->view.length[IMAGE_META],
                                 &image->meta, error);
    if (status == DCPK_OK && whole) status = check_ptx(&image->view, error);
    if (status == DCPK_OK && whole) status = check_cubin(image, error);
    if (status == DCPK_OK)
        digest_hex(image->view.part[IMAGE_PREIMAGE], (size_t)image->view.length[IMAGE_PREIMAGE], image->key);
    return status;
}

static dcpk_status open_image(const void *bytes, size_t length, bool whole, dcpk_image **out, dcpk_error *error) {
    if (!bytes || !out) return dcpk_error_set(error, DCPK_E_ARG, "bytes and out may not be NULL");
    *out = NULL;
    dcpk_image *image = calloc(1, sizeof *image);
    unsigned char *copy = aligned_alloc(64, length / 64 * 64 + 64); /* a driver may want the ELF file aligned */
    if (!image || !copy) {
        free(image);
        free(copy);
        return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for an image of %zu bytes", length);
    }
    memcpy(copy, bytes, length);
    image->bytes = copy;
    image->length = length;
    atomic_init(&image->references, 1);
    dcpk_status status = read_image(image, whole, error);
    if (status == DCPK_OK)
        *out = image;
    else
        dcpk_image_free(image);
    return status;
}

dcpk_status dcpk_image_from_bytes(const void *bytes, size_t length, dcpk_image **out, dcpk_error *error) {
    return open_image(bytes, length, true, out, error);
}

dcpk_status image_open_quick(const void *bytes, size_t length, dcpk_image **out, dcpk_error *error) {
    return open_image(bytes, length, false, out, error);
}

void dcpk_image_ref(dcpk_image *image) {
    if (image) atomic_fetch_add_explicit(&image->references, 1, memory_order_relaxed);
}

void dcpk_image_free(dcpk_image *image) {
    if (image && atomic_fetch_sub_explicit(&image->references, 1, memory_order_acq_rel) == 1) {
        free(image->bytes);
        free(image);
    }
}

static const void *part(const dcpk_image *image, enum image_part which, size_t *length) {
    if (length) *length = (size_t)image->view.length[which];
    return image->view.part[which];
}

const void *dcpk_image_bytes(const dcpk_image *image, size_t *length) {
    if (length) *length = image->length;
    return image->bytes;
}

const void *dcpk_image_cubin(const dcpk_image *image, size_t *length) {
    return part(image, IMAGE_CUBIN, length);
}

const char *dcpk_image_ptx(const dcpk_image *image, size_t *length) {
    return part(image, IMAGE_PTX, length);
}

const char *dcpk_image_preimage(const dcpk_image *image, size_t *length) {
    return part(image, IMAGE_PREIMAGE, length);
}

const void *image_lines_of(const dcpk_image *image, size_t *length) {
    return part(image, IMAGE_LINES, length);
}

const struct image_meta *image_meta_of(const dcpk_image *image) {
    return &image->meta;
}

const char *dcpk_image_key(const dcpk_image *image) {
    return image->key;
}

dcpk_status dcpk_image_spec(const dcpk_image *image, dcpk_spec *spec, dcpk_error *error) {
    if (!image || !spec) return dcpk_error_set(error, DCPK_E_ARG, "image and spec may not be NULL");
    char *text = strndup(image->meta.spec, image->meta.spec_length);
    if (!text) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a spec's text");
    dcpk_status status = dcpk_spec_parse(spec, text, error);
    free(text);
    return status;
}

uint32_t dcpk_image_entry_count(const dcpk_image *image) {
    return image->meta.entry_count;
}

dcpk_status dcpk_image_entry(const dcpk_image *image, uint32_t index, dcpk_entry_info *info, dcpk_error *error) {
    if (!image || !info) return dcpk_error_set(error, DCPK_E_ARG, "image and info may not be NULL");
    if (info->size < sizeof(uint32_t) || info->size > sizeof *info)
        return dcpk_error_set(error, DCPK_E_ARG, "info->size is %u: set it to sizeof(dcpk_entry_info), %zu", info->size,
                              sizeof *info);
    if (index >= image->meta.entry_count)
        return dcpk_error_set(error, DCPK_E_ARG, "entry %u: the image of %s has %u", index, image->meta.kernel,
                              image->meta.entry_count);
    uint32_t size = info->size;
    memcpy(info, &image->meta.entries[index], size);
    info->size = size;
    return DCPK_OK;
}

uint32_t dcpk_image_template_line(const dcpk_image *image, uint32_t ptx_line, const char **file) {
    const char *name = NULL;
    uint32_t line = image ? image_find_line(&image->view, ptx_line, &name) : 0;
    if (file) *file = name;
    return line;
}
