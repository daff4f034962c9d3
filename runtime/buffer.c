/* buffer.c - a growing array of bytes. Calls the C library only. */
#include "runtime/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for `more` bytes and a NUL. */
static bool reserve(struct buffer *buffer, size_t more) {
    if (buffer->failed || more >= SIZE_MAX / 2 - buffer->length) return !(buffer->failed = true);
    size_t wanted = buffer->length + more + 1;
    if (wanted <= buffer->capacity) return true;
    size_t capacity = buffer->capacity < 512 ? 1024 : buffer->capacity * 2;
    if (capacity < wanted) capacity = wanted;
    char *data = realloc(buffer->data, capacity);
    if (!data) return !(buffer->failed = true);
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void buffer_bytes(struct buffer *buffer, const void *bytes, size_t length) {
    if (!reserve(buffer, length)) return;
    if (length) memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    buffer->data[buffer->length] = '\0';
}

void buffer_format(struct buffer *buffer, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length < 0)
        buffer->failed = true;
    else if (reserve(buffer, (size_t)length)) {
        vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, again);
        buffer->length += (size_t)length;
    }
    va_end(again);
    va_end(args);
}

void buffer_align(struct buffer *buffer, size_t align) {
    size_t zeros = (align - buffer->length % align) % align;
    if (!reserve(buffer, zeros)) return;
    memset(buffer->data + buffer->length, 0, zeros + 1);
    buffer->length += zeros;
}

void buffer_free(struct buffer *buffer) {
    free(buffer->data);
    *buffer = (struct buffer){0};
}
