/* memory.h - the images that this generator has made or read: one in memory a direct key, the oldest dropped first. */
#ifndef DCPK_GEN_MEMORY_H
#define DCPK_GEN_MEMORY_H

#include "gen/key.h"

#include <stdbool.h>

enum { MEMORY_IMAGES = 1024, MEMORY_BYTES = 256 << 20 };

struct memory_row {
    struct key key;
    dcpk_image *image;
    bool cached;   /* the cache folder held it when it was added */
    uint64_t used; /* counts lookups: the lowest is the oldest */
};

struct memory {
    struct memory_row *rows;
    size_t count, bytes;
    uint64_t clock;
};

/* One reference, the caller's; NULL when there is none. Texts are compared, not only hashes. */
dcpk_image *memory_find(struct memory *memory, const struct key *direct, bool *cached);
/* Takes a reference of its own and copies the key. Silently keeps nothing when memory is out. */
void memory_add(struct memory *memory, const struct key *direct, dcpk_image *image, bool cached);
void memory_free(struct memory *memory);

#endif
