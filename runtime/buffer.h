/* buffer.h - a growing array of bytes for texts and blobs. Errors stick: check `failed` (out of memory) once, at the
 * end. */
#ifndef DCPK_RUNTIME_BUFFER_H
#define DCPK_RUNTIME_BUFFER_H

#include "runtime/private.h"

#include <stdbool.h>
#include <stddef.h>

struct buffer {
    char *data; /* always NUL after length bytes once anything was added; freed by buffer_free or taken over */
    size_t length, capacity;
    bool failed;
};

DCPK_PRIVATE void buffer_bytes(struct buffer *buffer, const void *bytes, size_t length);
DCPK_PRIVATE void buffer_format(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds zeros until length is a multiple of align. */
void buffer_align(struct buffer *buffer, size_t align);
DCPK_PRIVATE void buffer_free(struct buffer *buffer);

#endif
