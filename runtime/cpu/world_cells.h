/* world_cells.h - the words of global memory whose last stores are known: finding a word's cell. For world_race.c and
 * world_cells.c alone, which owns the cells. */
#ifndef DCPK_CPU_WORLD_CELLS_H
#define DCPK_CPU_WORLD_CELLS_H

#include "runtime/cpu/world.h"

enum { WORD = 4, BLOCK = 256 };

static inline uint64_t first_word(const struct backing *backing) {
    return (uint64_t)(uintptr_t)backing->memory / WORD;
}

static inline struct cell *cell_at(const struct backing *backing, const uint8_t *at) {
    return &backing->cells[(uint64_t)(uintptr_t)at / WORD - first_word(backing)];
}

static inline bool is_touched(const struct backing *backing, const uint8_t *at) {
    return backing->cells && backing->touched[(uint64_t)(at - backing->memory) / BLOCK];
}

static inline const uint8_t *word_of(const uint8_t *at) {
    return at - (uintptr_t)at % WORD;
}

static inline uint8_t bytes_in(const uint8_t *word, const uint8_t *at, unsigned bytes) {
    uint8_t mask = 0;
    for (unsigned b = 0; b < WORD; b++)
        if (word + b >= at && word + b < at + bytes) mask |= (uint8_t)(1u << b);
    return mask;
}

/* A store lands: bytes, a mask, of the aligned word at `word`, which still holds what was there before. */
void cell_put(struct backing *backing, const uint8_t *word, const struct stamp *stamp, uint8_t bytes);

#endif
