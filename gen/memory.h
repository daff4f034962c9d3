/* memory.h - the images that this generator has made or read: one in memory a spec, the oldest dropped first. Within
 * one generator the toolchain and its options are fixed, so that a resolved spec's text names an image. */
#ifndef DCPK_GEN_MEMORY_H
#define DCPK_GEN_MEMORY_H

#include <dcpk/image.h>

#include <stdbool.h>

enum { MEMORY_IMAGES = 4096, MEMORY_BYTES = 256 << 20 };

struct memory_row {
    char *spec; /* canonical text of the resolved spec; owned */
    dcpk_image *image;
    size_t bytes;
    bool cached;   /* the cache folder held it when it was added */
    uint64_t used; /* counts lookups: the lowest is the oldest */
};

struct memory {
    struct memory_row *rows;
    size_t count, bytes;
    uint64_t clock;
};

/* One reference, the caller's; NULL when there is none. cached may be NULL. */
dcpk_image *memory_find(struct memory *memory, const char *spec, bool *cached);
/* Takes a reference of its own and copies the text; a spec that is there is replaced. Silently keeps nothing when
 * memory is out. */
void memory_add(struct memory *memory, const char *spec, dcpk_image *image, bool cached);
void memory_free(struct memory *memory);

#endif
