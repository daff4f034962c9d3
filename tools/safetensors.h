/* safetensors.h - named tensors in a file: 8 bytes of little-endian header length, a JSON header, raw little-endian
 * data.
 *
 * Owns the format, both ways, and nothing of what tensors mean. The reader is strict: it opens what the public library
 * opens, less what that library lets pass although the format forbids it (a name twice, a header that does not begin
 * with '{'). Data is read straight from the file to where the caller wants it: once, at any alignment. What is wrong
 * is said in one sentence of printable ASCII that does not name the file. */
#ifndef TOOLS_SAFETENSORS_H
#define TOOLS_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SAFETENSORS_SENTENCE = 512, SAFETENSORS_DIMENSIONS = 8, SAFETENSORS_HEADER_MOST = 100000000 };

/* Element types and their bits. */
/* clang-format off */
#define SAFETENSORS_DTYPES(D)                                                                                          \
    D(BOOL, 8) D(F4, 4) D(F6_E2M3, 6) D(F6_E3M2, 6) D(U8, 8) D(I8, 8) D(F8_E5M2, 8) D(F8_E4M3, 8) D(F8_E8M0, 8)         \
    D(F8_E4M3FNUZ, 8) D(F8_E5M2FNUZ, 8) D(I16, 16) D(U16, 16) D(F16, 16) D(BF16, 16) D(I32, 32) D(U32, 32) D(F32, 32)  \
    D(C64, 64) D(F64, 64) D(I64, 64) D(U64, 64)
/* clang-format on */
enum safetensors_dtype {
#define D(name, bits) SAFETENSORS_##name,
    SAFETENSORS_DTYPES(D)
#undef D
        SAFETENSORS_DTYPE_COUNT
};
const char *safetensors_dtype_name(enum safetensors_dtype dtype);
/* Bytes of a tensor; false: more than 64 bits hold, or not whole bytes. A product of dimensions that leaves 64 bits on
 * the way is refused also when a later dimension is 0. */
bool safetensors_bytes(enum safetensors_dtype dtype, const uint64_t *shape, size_t dimensions, uint64_t *bytes);

/* A pair of __metadata__. */
struct safetensors_text {
    const char *key, *value;
};

struct safetensors_tensor {
    const char *name;
    enum safetensors_dtype dtype;
    size_t dimensions; /* 0: a scalar */
    uint64_t *shape;
    uint64_t begin, bytes; /* of its data, from the file's start */
};

/* An open file whose header kept every rule. The members are for reading alone. */
struct safetensors {
    int fd;
    struct json_t *header;
    struct safetensors_tensor *tensors; /* sorted by name (strcmp) */
    size_t count;
    struct safetensors_text *texts; /* in the file's order */
    size_t text_count;
};

/* False: `why`; nothing to close. */
bool safetensors_open(const char *path, struct safetensors *file, char why[SAFETENSORS_SENTENCE]);
void safetensors_close(struct safetensors *file);
/* NULL: there is none of that name (key). */
const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name);
const char *safetensors_metadata(const struct safetensors *file, const char *key);
/* The tensor's bytes into `to`. False: `why` (the file was cut meanwhile, or cannot be read). */
bool safetensors_read(const struct safetensors *file, const struct safetensors_tensor *tensor, void *to,
                      char why[SAFETENSORS_SENTENCE]);

struct safetensors_item {
    const char *name;
    enum safetensors_dtype dtype;
    size_t dimensions; /* at most SAFETENSORS_DIMENSIONS */
    uint64_t shape[SAFETENSORS_DIMENSIONS];
    const void *data; /* may be NULL when there are no elements */
};

/* The whole file or none (whole_file.h). The same arguments give the same bytes: metadata as given, tensors as given
 * but wide elements before narrow ones, so that all data is aligned. Names must differ and be UTF-8. False: `why`. */
bool safetensors_write(const char *path, const struct safetensors_text *texts, size_t text_count,
                       const struct safetensors_item *items, size_t count, char why[SAFETENSORS_SENTENCE]);

/* For those who build on this. The first makes '?' of whatever is not printable ASCII and returns `text`; the second
 * writes such a sentence and returns false. */
char *safetensors_printable(char *text);
bool safetensors_refuse(char why[SAFETENSORS_SENTENCE], const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
