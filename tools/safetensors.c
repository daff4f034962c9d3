/* safetensors.c - opening and reading; see safetensors.h. May call jansson and the system; writing is in
 * safetensors_write.c. */
#include <tools/safetensors.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "data is little-endian in the file and copied as it is");

static const struct {
    const char *name;
    unsigned bits;
} dtypes[SAFETENSORS_DTYPE_COUNT] = {
#define D(name, bits) {#name, bits},
    SAFETENSORS_DTYPES(D)
#undef D
};

const char *safetensors_dtype_name(enum safetensors_dtype dtype) {
    return dtypes[dtype].name;
}

bool safetensors_bytes(enum safetensors_dtype dtype, const uint64_t *shape, size_t dimensions, uint64_t *bytes) {
    uint64_t product = 1;
    for (size_t i = 0; i < dimensions; i++) {
        if (__builtin_mul_overflow(product, shape[i], &product)) return false;
    }
    if (__builtin_mul_overflow(product, dtypes[dtype].bits, &product) || product % 8 != 0) return false;
    *bytes = product / 8;
    return true;
}

char *safetensors_printable(char *text) {
    for (char *c = text; *c; c++) {
        if (*c < ' ' || *c > '~') *c = '?';
    }
    return text;
}

bool safetensors_refuse(char why[SAFETENSORS_SENTENCE], const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(why, SAFETENSORS_SENTENCE, format, list);
    va_end(list);
    safetensors_printable(why);
    return false;
}

/* ---- one tensor's entry in the header ------------------------------------------------------------- */

static bool read_dtype(const char *name, const json_t *entry, enum safetensors_dtype *dtype, char *why) {
    const char *text = json_string_value(json_object_get(entry, "dtype"));
    if (text == NULL) return safetensors_refuse(why, "tensor '%.80s' has no dtype; it must be a string", name);
    for (int d = 0; d < SAFETENSORS_DTYPE_COUNT; d++) {
        if (strcmp(text, dtypes[d].name) == 0) {
            *dtype = (enum safetensors_dtype)d;
            return true;
        }
    }
    return safetensors_refuse(why, "tensor '%.80s': dtype '%.40s' is none of the format's (BF16, F32, I32, U8, ...)",
                              name, text);
}

static bool read_shape(const json_t *entry, struct safetensors_tensor *tensor, char *why) {
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape)) {
        return safetensors_refuse(why, "tensor '%.80s' has no shape; it must be a list of sizes", tensor->name);
    }
    tensor->dimensions = json_array_size(shape);
    tensor->shape = malloc((tensor->dimensions + 1) * sizeof *tensor->shape);
    if (tensor->shape == NULL) return safetensors_refuse(why, "out of memory");
    for (size_t i = 0; i < tensor->dimensions; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0) {
            return safetensors_refuse(why, "tensor '%.80s': shape[%zu] must be a whole number, 0 or more", tensor->name,
                                      i);
        }
        tensor->shape[i] = (uint64_t)json_integer_value(size);
    }
    if (!safetensors_bytes(tensor->dtype, tensor->shape, tensor->dimensions, &tensor->bytes)) {
        return safetensors_refuse(why, "tensor '%.80s': its shape in %s is more than 2^64 bits, or not whole bytes",
                                  tensor->name, dtypes[tensor->dtype].name);
    }
    return true;
}

/* `data`: bytes after the header, which begin at `base` of the file. */
static bool read_offsets(const json_t *entry, uint64_t base, uint64_t data, struct safetensors_tensor *tensor,
                         char *why) {
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to)) {
        return safetensors_refuse(why, "tensor '%.80s': data_offsets must be two whole numbers, begin and end",
                                  tensor->name);
    }
    json_int_t begin = json_integer_value(from), end = json_integer_value(to);
    if (begin < 0 || begin > end) {
        return safetensors_refuse(why,
                                  "tensor '%.80s': data_offsets are [%" PRId64 ", %" PRId64 "]; begin must be 0 to end",
                                  tensor->name, (int64_t)begin, (int64_t)end);
    }
    if ((uint64_t)end > data) {
        return safetensors_refuse(why,
                                  "tensor '%.80s': data_offsets [%" PRId64 ", %" PRId64
                                  "] end outside the file, which has %" PRIu64
                                  " bytes of data; it was cut short, or its header is wrong",
                                  tensor->name, (int64_t)begin, (int64_t)end, data);
    }
    if ((uint64_t)(end - begin) != tensor->bytes) {
        return safetensors_refuse(why,
                                  "tensor '%.80s': data_offsets [%" PRId64 ", %" PRId64 "] span %" PRId64
                                  " bytes, but its shape in %s is %" PRIu64,
                                  tensor->name, (int64_t)begin, (int64_t)end, (int64_t)(end - begin),
                                  dtypes[tensor->dtype].name, tensor->bytes);
    }
    tensor->begin = base + (uint64_t)begin;
    return true;
}

/* ---- the header ------------------------------------------------------------------------------------ */

static bool read_exactly(int fd, uint64_t at, void *to, uint64_t size, char *why) {
    char *next = to;
    while (size > 0) {
        size_t piece = size < (1u << 30) ? (size_t)size : 1u << 30;
        ssize_t n = pread(fd, next, piece, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return safetensors_refuse(why, "cannot read at byte %" PRIu64 ": %s", at, strerror(errno));
        if (n == 0) return safetensors_refuse(why, "the file ends at byte %" PRIu64 ", while it is read", at);
        next += n;
        at += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return true;
}

/* The header's text, ended by a zero that does not count; *length: its bytes. NULL: `why`. */
static char *read_header(int fd, uint64_t size, uint64_t *length, char *why) {
    unsigned char little[8];
    if (size < sizeof little) {
        safetensors_refuse(why, "the file has %" PRIu64 " bytes; a safetensors file begins with 8 of header length",
                           size);
        return NULL;
    }
    if (!read_exactly(fd, 0, little, sizeof little, why)) return NULL;
    *length = 0;
    for (int i = 7; i >= 0; i--) {
        *length = *length << 8 | little[i];
    }
    if (*length > SAFETENSORS_HEADER_MOST || *length > size - sizeof little) {
        safetensors_refuse(why,
                           "the first 8 bytes say a header of %" PRIu64 " bytes; the file has %" PRIu64
                           " after them, and a header has at most %d: it was cut short, or is no safetensors file",
                           *length, size - sizeof little, SAFETENSORS_HEADER_MOST);
        return NULL;
    }
    char *text = malloc((size_t)*length + 1);
    if (text == NULL) {
        safetensors_refuse(why, "out of memory");
        return NULL;
    }
    text[*length] = '\0';
    if (read_exactly(fd, sizeof little, text, *length, why)) return text;
    free(text);
    return NULL;
}

static json_t *parse_header(const char *text, uint64_t length, char *why) {
    json_error_t error;
    if (length == 0 || text[0] != '{') {
        safetensors_refuse(why, "the header must begin with '{' at byte 8; is this a safetensors file?");
        return NULL;
    }
    json_t *header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (header == NULL) {
        safetensors_refuse(why, "the header is not JSON as the format wants it: %s (byte %d of the file)", error.text,
                           8 + error.position);
    }
    return header;
}

static bool read_texts(struct safetensors *file, json_t *metadata, char *why) {
    if (!json_is_object(metadata)) return safetensors_refuse(why, "__metadata__ must be an object of strings");
    file->texts = calloc(json_object_size(metadata) + 1, sizeof *file->texts);
    if (file->texts == NULL) return safetensors_refuse(why, "out of memory");
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value)) {
            return safetensors_refuse(why, "metadata '%.80s' must be a string, as all metadata", key);
        }
        file->texts[file->text_count++] = (struct safetensors_text){key, json_string_value(value)};
    }
    return true;
}

static bool read_entries(struct safetensors *file, uint64_t base, uint64_t data, char *why) {
    file->tensors = calloc(json_object_size(file->header) + 1, sizeof *file->tensors);
    if (file->tensors == NULL) return safetensors_refuse(why, "out of memory");
    const char *name;
    json_t *entry;
    json_object_foreach(file->header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) {
            if (!read_texts(file, entry, why)) return false;
            continue;
        }
        struct safetensors_tensor *tensor = &file->tensors[file->count++];
        tensor->name = name;
        if (!json_is_object(entry)) {
            return safetensors_refuse(why, "tensor '%.80s' must be an object of dtype, shape and data_offsets", name);
        }
        if (!read_dtype(name, entry, &tensor->dtype, why) || !read_shape(entry, tensor, why) ||
            !read_offsets(entry, base, data, tensor, why)) {
            return false;
        }
    }
    return true;
}

static int by_place(const void *left, const void *right) {
    const struct safetensors_tensor *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

static int by_name(const void *left, const void *right) {
    return strcmp(((const struct safetensors_tensor *)left)->name, ((const struct safetensors_tensor *)right)->name);
}

/* Every byte of data belongs to one tensor. */
static bool check_cover(struct safetensors *file, uint64_t base, uint64_t data, char *why) {
    uint64_t at = base;
    qsort(file->tensors, file->count, sizeof *file->tensors, by_place);
    for (size_t i = 0; i < file->count; i++) {
        const struct safetensors_tensor *tensor = &file->tensors[i];
        if (tensor->begin < at) {
            return safetensors_refuse(why,
                                      "tensor '%.80s' overlaps tensor '%.80s': it begins at %" PRIu64
                                      " of the data, which ends there at %" PRIu64,
                                      tensor->name, file->tensors[i - 1].name, tensor->begin - base, at - base);
        }
        if (tensor->begin > at) {
            return safetensors_refuse(
                why, "bytes %" PRIu64 " to %" PRIu64 " of the data, before tensor '%.80s', belong to no tensor",
                at - base, tensor->begin - base, tensor->name);
        }
        at += tensor->bytes;
    }
    if (at != base + data) {
        return safetensors_refuse(why, "the last %" PRIu64 " bytes of the file belong to no tensor", base + data - at);
    }
    qsort(file->tensors, file->count, sizeof *file->tensors, by_name);
    return true;
}

static bool open_header(struct safetensors *file, char *why) {
    struct stat state;
    uint64_t length = 0;
    if (fstat(file->fd, &state) != 0) return safetensors_refuse(why, "cannot look at it: %s", strerror(errno));
    if (!S_ISREG(state.st_mode)) return safetensors_refuse(why, "not a regular file");
    uint64_t size = (uint64_t)state.st_size;
    char *text = read_header(file->fd, size, &length, why);
    file->header = text != NULL ? parse_header(text, length, why) : NULL;
    free(text);
    if (file->header == NULL) return false;
    uint64_t base = 8 + length;
    return read_entries(file, base, size - base, why) && check_cover(file, base, size - base, why);
}

bool safetensors_open(const char *path, struct safetensors *file, char why[SAFETENSORS_SENTENCE]) {
    *file = (struct safetensors){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (file->fd < 0) return safetensors_refuse(why, "cannot open it: %s", strerror(errno));
    if (open_header(file, why)) return true;
    safetensors_close(file);
    return false;
}

void safetensors_close(struct safetensors *file) {
    for (size_t i = 0; i < file->count; i++) {
        free(file->tensors[i].shape);
    }
    free(file->tensors);
    free(file->texts);
    json_decref(file->header);
    if (file->fd >= 0) close(file->fd);
    *file = (struct safetensors){.fd = -1};
}

/* ---- what is in it ----------------------------------------------------------------------------------- */

const struct safetensors_tensor *safetensors_find(const struct safetensors *file, const char *name) {
    struct safetensors_tensor wanted = {.name = name};
    return file->count == 0 ? NULL : bsearch(&wanted, file->tensors, file->count, sizeof wanted, by_name);
}

const char *safetensors_metadata(const struct safetensors *file, const char *key) {
    for (size_t i = 0; i < file->text_count; i++) {
        if (strcmp(file->texts[i].key, key) == 0) return file->texts[i].value;
    }
    return NULL;
}

bool safetensors_read(const struct safetensors *file, const struct safetensors_tensor *tensor, void *to,
                      char why[SAFETENSORS_SENTENCE]) {
    char inner[SAFETENSORS_SENTENCE];
    return read_exactly(file->fd, tensor->begin, to, tensor->bytes, inner) ||
           safetensors_refuse(why, "tensor '%.80s': %.400s", tensor->name, inner);
}
