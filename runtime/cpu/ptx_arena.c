/* ptx_arena.c - the memory of one module: taken piece by piece, freed at once.
 * Owns blocks from malloc; may be called by ptx_*.c only. */
#include <stdlib.h>
#include <string.h>
#include <runtime/cpu/ptx.h>

struct arena_block {
    struct arena_block *next;
    size_t size;
    _Alignas(64) unsigned char bytes[];
};

enum { BLOCK = 1 << 16 };

void *arena_take(struct arena *arena, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    struct arena_block *block = arena->blocks;
    if (block && block->size - arena->used >= bytes) {
        void *at = block->bytes + arena->used;
        arena->used += bytes;
        return at;
    }
    size_t size = bytes > BLOCK / 4 ? bytes : BLOCK;
    struct arena_block *fresh = aligned_alloc(64, (sizeof *fresh + size + 63) & ~(size_t)63);
    if (!fresh) return NULL;
    memset(fresh, 0, sizeof *fresh + size);
    fresh->size = size;
    if (block && size == bytes) { /* a big piece of its own, behind the block in use */
        fresh->next = block->next;
        block->next = fresh;
        return fresh->bytes;
    }
    fresh->next = block;
    arena->blocks = fresh;
    arena->used = bytes;
    return fresh->bytes;
}

void arena_free(struct arena *arena) {
    for (struct arena_block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    arena->blocks = NULL;
}
