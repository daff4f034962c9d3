/* memory.c - the images of this process. Owns one reference on each; bounded in number and bytes. */
#include "gen/memory.h"

#include <stdlib.h>
#include <string.h>

dcpk_image *memory_find(struct memory *memory, const struct key *direct, bool *cached) {
    for (size_t i = 0; i < memory->count; i++) {
        struct memory_row *row = &memory->rows[i];
        if (strcmp(row->key.hex, direct->hex) != 0 || row->key.length != direct->length ||
            memcmp(row->key.text, direct->text, direct->length) != 0)
            continue;
        row->used = ++memory->clock;
        *cached = row->cached;
        dcpk_image_ref(row->image);
        return row->image;
    }
    return NULL;
}

static size_t bytes_of(const struct memory_row *row) {
    size_t length = 0;
    dcpk_image_bytes(row->image, &length);
    return length + row->key.length;
}

static void drop(struct memory *memory, size_t index) {
    struct memory_row *row = &memory->rows[index];
    memory->bytes -= bytes_of(row);
    key_free(&row->key);
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

void memory_add(struct memory *memory, const struct key *direct, dcpk_image *image, bool cached) {
    if (!memory->rows) memory->rows = calloc(MEMORY_IMAGES, sizeof *memory->rows);
    char *text = memory->rows ? strdup(direct->text) : NULL;
    if (!text) return;
    struct memory_row row = {.key = *direct, .image = image, .cached = cached, .used = ++memory->clock};
    row.key.text = text;
    dcpk_image_ref(image);
    while (memory->count > 0 && (memory->count >= MEMORY_IMAGES || memory->bytes + bytes_of(&row) > MEMORY_BYTES))
        drop_oldest(memory);
    memory->rows[memory->count++] = row;
    memory->bytes += bytes_of(&row);
}

void memory_free(struct memory *memory) {
    while (memory->count > 0)
        drop(memory, memory->count - 1);
    free(memory->rows);
    *memory = (struct memory){0};
}
