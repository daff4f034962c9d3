/* whole_file.h - a file written whole under its name, or not at all.
 *
 * Owns the way there: a regular file is written beside its place, brought to disk and renamed over it (a link's target
 * is replaced, not the link; an old file's permissions stay); other things (a pipe, a device) are written straight.
 * Knows nothing of what is written; says nothing. */
#ifndef TOOLS_WHOLE_FILE_H
#define TOOLS_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct file_part {
    const void *data; /* may be NULL when size is 0 */
    size_t size;
};

/* The parts, one after the other. False: errno says why, and what was under the name before is still there. */
bool whole_file_write(const char *path, const struct file_part *parts, size_t count);

#endif
