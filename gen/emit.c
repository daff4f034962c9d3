/* emit.c - owns the PTX text under construction and its line map. Must not know Lua or what a line means. */
#include "gen/emit.h"

#include <stdlib.h>
#include <string.h>

/* Grows *array to hold `wanted` elements of `size` bytes. */
static bool reserve(void **items, uint32_t *capacity, size_t wanted, size_t size) {
    if (wanted <= *capacity) return true;
    size_t room = wanted * 2 + 256;
    void *more = realloc(*items, room * size);
    if (more == NULL) return false;
    *items = more;
    *capacity = (uint32_t)room;
    return true;
}

static bool reserve_text(struct emitter *e, size_t more) {
    if (e->length + more <= e->capacity) return true;
    size_t room = (e->length + more) * 2 + 65536;
    char *text = realloc(e->text, room);
    if (text == NULL) return false;
    e->text = text;
    e->capacity = room;
    return true;
}

/* Lines of one helper call share their frames: most lines find theirs under the line before. */
static bool keep_frames(struct emitter *e, const struct writers *writers, struct line_origin *origin) {
    uint32_t count = writers->count - 1;
    origin->frame_count = count;
    if (e->lines > 0) {
        const struct line_origin *before = &e->origins[e->lines - 1];
        if (before->frame_count == count && (count == 0 || memcmp(&e->frames[before->frame_first], writers->stack + 1,
                                                                  count * sizeof *e->frames) == 0)) {
            origin->frame_first = before->frame_first;
            return true;
        }
    }
    void *frames = e->frames;
    if (!reserve(&frames, &e->frame_capacity, e->frame_count + count, sizeof *e->frames)) return false;
    e->frames = frames;
    origin->frame_first = e->frame_count;
    if (count > 0) memcpy(e->frames + e->frame_count, writers->stack + 1, count * sizeof *e->frames);
    e->frame_count += count;
    return true;
}

const char *emitter_line(struct emitter *e, const char *text, size_t length, int level, const struct writers *writers) {
    struct line_origin origin = {.file = writers->stack[0].file, .line = writers->stack[0].line};
    size_t indent = length > 0 ? (size_t)level * 4 : 0;
    if (e->length + indent + length > EMIT_MAX_BYTES) return "the PTX grows past 32 MiB";
    void *origins = e->origins;
    bool room = reserve_text(e, indent + length + 2) && keep_frames(e, writers, &origin) &&
                reserve(&origins, &e->origin_capacity, (size_t)e->lines + 1, sizeof *e->origins);
    e->origins = origins;
    if (!room) return "no memory for the PTX";
    memset(e->text + e->length, ' ', indent);
    if (length > 0) memcpy(e->text + e->length + indent, text, length);
    e->length += indent + length;
    e->text[e->length++] = '\n';
    e->text[e->length] = '\0';
    e->origins[e->lines++] = origin;
    return NULL;
}

const char *emitter_copy(struct emitter *e, const char *text, size_t length, const struct emitter *from,
                         uint32_t number) {
    const struct line_origin *origin = &from->origins[number];
    struct writers writers = {.count = origin->frame_count + 1};
    writers.stack[0] = (struct line_frame){origin->file, origin->line};
    if (origin->frame_count > 0)
        memcpy(writers.stack + 1, from->frames + origin->frame_first, origin->frame_count * sizeof *from->frames);
    return emitter_line(e, text, length, 0, &writers);
}

const char *emitter_append(struct emitter *e, const struct emitter *from) {
    const char *at = from->text, *wrong = NULL;
    for (uint32_t i = 0; i < from->lines && wrong == NULL; i++) {
        size_t length = strcspn(at, "\n");
        wrong = emitter_copy(e, at, length, from, i);
        at += length + 1;
    }
    return wrong;
}

void emitter_free(struct emitter *e) {
    free(e->text);
    free(e->origins);
    free(e->frames);
    memset(e, 0, sizeof *e);
}
