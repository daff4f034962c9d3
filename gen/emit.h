/* emit.h - the growing PTX text and, for every line, who wrote it. Owned memory: emitter_free frees what was not taken.
 */
#ifndef DCPK_GEN_EMIT_H
#define DCPK_GEN_EMIT_H

#include "gen/expand.h"

#include <stdbool.h>

enum { EMIT_MAX_BYTES = 32 << 20, EMIT_MAX_FRAMES = 64, EMIT_MAX_LINE = 16384 };

struct emitter {
    char *text;
    size_t length, capacity;
    struct line_origin *origins;
    uint32_t lines, origin_capacity;
    struct line_frame *frames;
    uint32_t frame_count, frame_capacity;
};

/* Who writes: stack[0] is the line, stack[1..] the callers above it. */
struct writers {
    struct line_frame stack[EMIT_MAX_FRAMES];
    uint32_t count;
};

/* Appends one line (text without newline; level * 4 blanks before it unless it is empty). NULL, or what is wrong. */
const char *emitter_line(struct emitter *emitter, const char *text, size_t length, int level,
                         const struct writers *writers);
/* Appends all lines of `from`. NULL, or what is wrong. */
const char *emitter_append(struct emitter *emitter, const struct emitter *from);
/* Appends one line with line `number` (0-based) of `from` as its writer. */
const char *emitter_copy(struct emitter *emitter, const char *text, size_t length, const struct emitter *from,
                         uint32_t number);
void emitter_free(struct emitter *emitter);

#endif
