/* pack_write.c - makes the bytes of a pack from images and writes them whole or not at all. The only writer of
 * pack_format.h's layout; what it made is read back by pack_check.c before it is written. */
#include "runtime/pack_format.h"

#include "runtime/buffer.h"
#include "runtime/error.h"
#include "runtime/image_format.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct item {
    dcpk_image *image;
    char spec[PACK_SPEC_MAX + 1];
};

static dcpk_status no_memory(dcpk_error *error) {
    return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a pack");
}

static int compare(const void *a, const void *b) {
    return strcmp(((const struct item *)a)->spec, ((const struct item *)b)->spec);
}

/* The image's spec must be the text that a search will ask for. */
static dcpk_status fill(struct item *item, dcpk_image *image, uint32_t index, dcpk_error *error) {
    dcpk_spec spec;
    if (image == NULL) return dcpk_error_set(error, DCPK_E_ARG, "dcpk_pack_write: image %u is NULL", index);
    dcpk_status status = dcpk_image_spec(image, &spec, error);
    if (status != DCPK_OK) return status;
    const struct image_meta *meta = image_meta_of(image);
    size_t length = dcpk_spec_format(&spec, item->spec, sizeof item->spec);
    if (length >= sizeof item->spec || length != meta->spec_length || memcmp(item->spec, meta->spec, length) != 0)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_pack_write: the spec of image %u is not a canonical text: %.*s",
                              index, (int)meta->spec_length, meta->spec);
    item->image = image;
    return DCPK_OK;
}

static bool same_bytes(const dcpk_image *a, const dcpk_image *b) {
    size_t left = 0, right = 0;
    const void *x = dcpk_image_bytes(a, &left), *y = dcpk_image_bytes(b, &right);
    return left == right && memcmp(x, y, left) == 0;
}

/* Sorts, and leaves one of those that are the same. */
static dcpk_status order(struct item *items, uint32_t *count, dcpk_error *error) {
    uint32_t kept = 0;
    qsort(items, *count, sizeof *items, compare);
    for (uint32_t i = 0; i < *count; i++) {
        if (kept == 0 || compare(&items[kept - 1], &items[i]) != 0) {
            items[kept++] = items[i];
            continue;
        }
        if (!same_bytes(items[kept - 1].image, items[i].image))
            return dcpk_error_set(error, DCPK_E_ARG, "dcpk_pack_write: two different images of %s", items[i].spec);
    }
    *count = kept;
    return DCPK_OK;
}

/* ---- bytes --------------------------------------------------------------------------------------- */
static void put(struct buffer *b, uint64_t value, size_t bytes) {
    unsigned char out[8];
    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)(value >> 8 * i);
    buffer_bytes(b, out, bytes);
}

static void put_key(struct buffer *b, const char *hex) {
    for (int i = 0; i < DIGEST_BYTES; i++) {
        char byte[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        put(b, strtoul(byte, NULL, 16), 1);
    }
}

static uint64_t align_up(uint64_t value, uint64_t align) {
    return value + (align - value % align) % align;
}

static void put_row(struct buffer *b, const struct item *item, uint64_t offset, uint64_t text) {
    unsigned char digest[DIGEST_BYTES];
    size_t length = 0;
    const void *bytes = dcpk_image_bytes(item->image, &length);
    digest_bytes(bytes, length, digest);
    put(b, offset, 8);
    put(b, length, 8);
    buffer_bytes(b, digest, sizeof digest);
    put_key(b, dcpk_image_key(item->image));
    put(b, text, 4);
    put(b, strlen(item->spec), 4);
    put(b, 0, 8);
}

static void put_header(struct buffer *b, const struct pack_header *header, const unsigned char *front) {
    unsigned char digest[DIGEST_BYTES];
    static const unsigned char zeros[DIGEST_BYTES];
    buffer_bytes(b, PACK_MAGIC, 8);
    put(b, PACK_FORMAT, 4);
    put(b, ~(uint32_t)PACK_FORMAT, 4);
    put(b, header->total, 8);
    put(b, header->manifest, 8);
    put(b, header->index, 8);
    put(b, header->entries, 8);
    put(b, header->specs, 8);
    put(b, header->specs_bytes, 8);
    put(b, header->images, 8);
    put(b, 0, 8);
    digest_bytes(front + PACK_HEADER, (size_t)header->images - PACK_HEADER, digest);
    buffer_bytes(b, digest, sizeof digest);
    buffer_bytes(b, zeros, sizeof zeros);
    if (!b->failed) digest_bytes(b->data, b->length, digest);
    buffer_bytes(b, digest, sizeof digest);
}

/* Where everything will lie. */
static void plan(const struct item *items, uint32_t count, const char *manifest, struct pack_header *header) {
    *header = (struct pack_header){.manifest = strlen(manifest), .entries = count};
    header->index = align_up(PACK_HEADER + header->manifest + 1, PACK_INDEX_ALIGN);
    header->specs = header->index + (uint64_t)count * PACK_ROW;
    for (uint32_t i = 0; i < count; i++)
        header->specs_bytes += strlen(items[i].spec) + 1;
    header->images = header->total = align_up(header->specs + header->specs_bytes, PACK_ALIGN);
    for (uint32_t i = 0; i < count; i++) {
        size_t length = 0;
        dcpk_image_bytes(items[i].image, &length);
        header->total = align_up(header->total, PACK_ALIGN) + length;
    }
}

/* The whole pack; the header is written last, over the zeros that stand in its place. */
static void lay_out(struct buffer *b, const struct item *items, uint32_t count, const char *manifest) {
    static const char zeros[PACK_HEADER];
    struct pack_header header;
    struct buffer head = {0};
    plan(items, count, manifest, &header);
    buffer_bytes(b, zeros, sizeof zeros);
    buffer_bytes(b, manifest, strlen(manifest) + 1);
    buffer_align(b, PACK_INDEX_ALIGN);
    uint64_t offset = header.images, text = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t length = 0;
        dcpk_image_bytes(items[i].image, &length);
        offset = align_up(offset, PACK_ALIGN);
        put_row(b, &items[i], offset, text);
        offset += length;
        text += strlen(items[i].spec) + 1;
    }
    for (uint32_t i = 0; i < count; i++)
        buffer_bytes(b, items[i].spec, strlen(items[i].spec) + 1);
    buffer_align(b, PACK_ALIGN);
    if (!b->failed) put_header(&head, &header, (const unsigned char *)b->data);
    for (uint32_t i = 0; i < count; i++) {
        size_t length = 0;
        const void *bytes = dcpk_image_bytes(items[i].image, &length);
        buffer_align(b, PACK_ALIGN);
        buffer_bytes(b, bytes, length);
    }
    b->failed |= head.failed;
    if (!b->failed && head.data != NULL) memcpy(b->data, head.data, PACK_HEADER);
    buffer_free(&head);
}

static dcpk_status make_bytes(struct buffer *b, dcpk_image *const *images, uint32_t count, const char *manifest,
                              dcpk_error *error) {
    dcpk_status status = pack_manifest_check(manifest, strlen(manifest), error);
    if (status != DCPK_OK) return status;
    if (count > PACK_ENTRIES_MAX)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_pack_write: a pack has at most %d images, not %u",
                              PACK_ENTRIES_MAX, count);
    struct item *items = calloc((size_t)count + 1, sizeof *items);
    if (items == NULL) return no_memory(error);
    for (uint32_t i = 0; status == DCPK_OK && i < count; i++)
        status = fill(&items[i], images[i], i, error);
    if (status == DCPK_OK) status = order(items, &count, error);
    if (status == DCPK_OK) lay_out(b, items, count, manifest);
    free(items);
    if (status == DCPK_OK && b->failed) status = no_memory(error);
    return status == DCPK_OK ? pack_check_bytes(b->data, b->length, 0, error) : status;
}

/* ---- file ---------------------------------------------------------------------------------------- */
static int write_all(int fd, const char *data, size_t length) {
    while (length > 0) {
        ssize_t n = write(fd, data, length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        data += n;
        length -= (size_t)n;
    }
    return 0;
}

/* The name must outlive a crash, too. Not every file system syncs folders: the pack is there all the same. */
static void sync_folder(const char *path) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash != NULL) slash[slash == folder] = '\0';
    int fd = open(slash != NULL ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

/* A new file beside `path`, of the permissions that the umask leaves, never to be written by group or others; its name
 * goes to `name`. */
static int open_beside(const char *path, char *name, size_t room) {
    enum { TRIES = 1000 };
    for (int i = 0; i < TRIES; i++) {
        if ((size_t)snprintf(name, room, "%s.tmp-%ld-%d", path, (long)getpid(), i) >= room) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

static dcpk_status publish(const char *path, const struct buffer *bytes, dcpk_error *error) {
    char temporary[PATH_MAX];
    int fd = open_beside(path, temporary, sizeof temporary);
    if (fd < 0) return dcpk_error_system(error, DCPK_E_IO, errno, "cannot write %s", path);
    int rc = write_all(fd, bytes->data, bytes->length);
    if (rc == 0) rc = fsync(fd);
    int reason = errno;
    if (close(fd) != 0 && rc == 0) rc = -1, reason = errno;
    if (rc == 0 && rename(temporary, path) != 0) rc = -1, reason = errno;
    if (rc != 0) {
        unlink(temporary);
        return dcpk_error_system(error, DCPK_E_IO, reason, "cannot write %s", path);
    }
    sync_folder(path);
    return DCPK_OK;
}

dcpk_status dcpk_pack_write(const char *path, dcpk_image *const *images, uint32_t count, const char *manifest,
                            dcpk_error *error) {
    if (path == NULL || path[0] == '\0' || (images == NULL && count > 0))
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_pack_write: path and images may not be NULL");
    char real[PATH_MAX]; /* a link's target is replaced, not the link */
    struct stat there;
    if (realpath(path, real) != NULL) {
        if (stat(real, &there) == 0 && !S_ISREG(there.st_mode))
            return dcpk_error_set(error, DCPK_E_IO, "cannot write %s: it is there and is not a regular file", path);
        path = real;
    }
    struct buffer bytes = {0};
    dcpk_status status = make_bytes(&bytes, images, count, manifest != NULL ? manifest : "", error);
    if (status == DCPK_OK) status = publish(path, &bytes, error);
    buffer_free(&bytes);
    return status;
}
