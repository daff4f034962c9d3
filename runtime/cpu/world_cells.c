/* world_cells.c - life of the cells of global memory: made for memory that kernels write, filled as stores land,
 * emptied where the host writes. May not know who is behind whom. */
#include "runtime/cpu/world_cells.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static uint64_t cells_bytes(const struct backing *backing) {
    return (backing->bytes / WORD + 2) * sizeof(struct cell);
}

/* Memory of the host is written by the host unseen. */
static bool have_cells(struct backing *backing) {
    if (backing->cells || backing->owner == HOST_MEMORY) return backing->cells != NULL;
    void *at =
        mmap(NULL, cells_bytes(backing), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return false;
    backing->touched = calloc(backing->bytes / BLOCK + 1, 1);
    if (backing->touched)
        backing->cells = at;
    else
        munmap(at, cells_bytes(backing));
    return backing->cells != NULL;
}

void cells_end(struct backing *backing) {
    early_end(backing);
    if (backing->cells) munmap(backing->cells, cells_bytes(backing));
    free(backing->touched);
    backing->cells = NULL;
    backing->touched = NULL;
}

void order_clear(const struct backing *backing, const uint8_t *at, uint64_t bytes) {
    enum { PAGE = 4096 };
    if (!backing->cells || !bytes) return;
    uint8_t *first = (uint8_t *)cell_at(backing, at), *end = (uint8_t *)(cell_at(backing, at + bytes - 1) + 1);
    uint8_t *page = first + (PAGE - (uintptr_t)first % PAGE) % PAGE, *last = end - (uintptr_t)end % PAGE;
    if (last > page && madvise(page, (size_t)(last - page), MADV_DONTNEED) == 0) {
        memset(first, 0, (size_t)(page - first));
        memset(last, 0, (size_t)(end - last));
    } else {
        memset(first, 0, (size_t)(end - first));
    }
}

/* The weak store that will lie behind a strong one: what stands at `word` is still its. */
static struct weak weak_of(const struct cell *cell, const uint8_t *word) {
    const struct stamp *s = &cell->stamp;
    uint8_t old[WORD], changed = 0;
    if (!s->time || s->strong) return cell->weak;
    memcpy(old, &cell->old, WORD);
    for (unsigned b = 0; b < WORD; b++)
        if (old[b] != word[b]) changed |= (uint8_t)(1u << b);
    return (struct weak){s->time, s->grid, s->cluster, s->pc, s->thread, s->device, changed & cell->bytes};
}

void cell_put(struct backing *backing, const uint8_t *word, const struct stamp *stamp, uint8_t bytes) {
    if (!have_cells(backing)) return;
    backing->touched[(uint64_t)(word < backing->memory ? 0 : word - backing->memory) / BLOCK] = 1;
    struct cell *cell = cell_at(backing, word);
    const struct stamp *last = &cell->stamp;
    if (last->cluster == stamp->cluster && last->thread / WARP == stamp->thread / WARP && last->strong == stamp->strong)
        bytes |= cell->bytes;
    struct weak weak = stamp->strong ? weak_of(cell, word) : (struct weak){0};
    *cell = (struct cell){.stamp = *stamp, .before = cell->stamp, .weak = weak, .bytes = bytes};
    memcpy(&cell->old, word, WORD);
}

void order_put_all(struct backing *backing, const uint8_t *at, unsigned bytes, const struct stamp *stamp) {
    for (const uint8_t *word = word_of(at); word < at + bytes; word += WORD)
        cell_put(backing, word, stamp, bytes_in(word, at, bytes));
}
