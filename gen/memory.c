/* memory.c - the images of this process. Owns one reference on each; bounded in number and bytes. */
#include "gen/memory.h"

#include <stdlib.h>
#include <string.h>

static struct memory_row *row_of(struct memory *memory, const char *spec) {
    for (size_t i = 0; i < memory->count; i++)
        if (strcmp(memory->rows[i].spec, spec) == 0) return &memory->rows[i];
    return NULL;
}

dcpk_image *memory_find(struct memory *memory, const char *spec, bool *cached) {
    struct memory_row *row = row_of(memory, spec);
    if (!row) return NULL;
    row->used = ++memory->clock;
    if (cached) *cached = row->cached;
    dcpk_image_ref(row->image);
    return row->image;
}

static void drop(struct memory *memory, size_t index) {
    struct memory_row *row = &memory->rows[index];
    memory->bytes -= row->bytes;
    free(row->spec);
    dcpk_image_free(row->image);
    memory->count--;
    memmove(row, row + 1, (memory->count - index) * sizeof *row);
}

static void drop_oldest(struct memory *memory) {
    size_t oldest = 0;
    for (size_t i = 1; i < memory->count; i++)
        if (memory->rows[i].used < memory->rows[oldest].used) oldest = i;
    drop(memory, oldest);
}

void memory_add(struct memory *memory, const char *spec, dcpk_image *image, bool cached) {
    struct memory_row *old = row_of(memory, spec);
    if (old) drop(memory, (size_t)(old - memory->rows));
    if (!memory->rows) memory->rows = calloc(MEMORY_IMAGES, sizeof *memory->rows);
    char *text = memory->rows ? strdup(spec) : NULL;
    if (!text) return;
    struct memory_row row = {.spec = text, .image = image, .cached = cached, .used = ++memory->clock};
    dcpk_image_bytes(image, &row.bytes);
    row.bytes += strlen(spec);
    dcpk_image_ref(image);
    while (memory->count > 0 && (memory->count >= MEMORY_IMAGES || memory->bytes + row.bytes > MEMORY_BYTES))
        drop_oldest(memory);
    memory->rows[memory->count++] = row;
    memory->bytes += row.bytes;
}

void memory_free(struct memory *memory) {
    while (memory->count > 0)
        drop(memory, memory->count - 1);
    free(memory->rows);
    *memory = (struct memory){0};
}
