/* world_view.c - views: sets of stores, and joining them. Small sorted arrays; one that grows large says "the whole
 * grid" where it named clusters. May know nothing of the machine. */
#include "runtime/cpu/world_order.h"

#include <stdlib.h>
#include <string.h>

enum { CLUSTERS_OF_A_GRID = 8, MOST = 4096 };
#define DEVICE_KEY (UINT64_C(1) << 63)

uint64_t key_stream(int device, int stream) {
    return DEVICE_KEY | (uint64_t)(unsigned)device << 32 | (uint32_t)stream;
}

uint64_t key_observed(int device) {
    return DEVICE_KEY | UINT64_C(1) << 62 | (uint64_t)(unsigned)device;
}

uint64_t key_cluster(uint32_t grid, uint32_t cluster) {
    return (uint64_t)grid << 32 | cluster;
}

void view_free(struct view *view) {
    free(view->at);
    *view = (struct view){0};
}

/* The first entry whose key is not below. */
static unsigned place(const struct view *view, uint64_t key) {
    unsigned low = 0, high = view->count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (view->at[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool view_knows(const struct view *view, uint64_t key, uint64_t time) {
    if (view->all) return true;
    if (!view->count) return false;
    unsigned i = place(view, key);
    return i < view->count && view->at[i].key == key && view->at[i].until >= time;
}

static bool make_room(struct view *view) {
    if (view->count < view->capacity) return true;
    unsigned capacity = view->capacity ? view->capacity * 2 : 8;
    struct known *at = capacity > MOST ? NULL : realloc(view->at, capacity * sizeof *at);
    if (!at) {
        view->all = true;
        return false;
    }
    view->at = at;
    view->capacity = capacity;
    return true;
}

/* Clusters of a grid in entries [first, end) become the grid. */
static void collapse(struct view *view, unsigned first, unsigned end) {
    struct known *grid = &view->at[first];
    for (unsigned i = first; i < end; i++)
        if (view->at[i].until > grid->until) grid->until = view->at[i].until;
    grid->key = grid->key >> 32 << 32;
    memmove(grid + 1, &view->at[end], (view->count - end) * sizeof *grid);
    view->count -= end - first - 1;
}

void view_learn(struct view *view, uint64_t key, uint64_t until) {
    if (view->all) return;
    unsigned i = place(view, key);
    if (i < view->count && view->at[i].key == key) {
        if (view->at[i].until < until) view->at[i].until = until;
        return;
    }
    if (!(key & DEVICE_KEY) && (uint32_t)key && view_knows(view, key >> 32 << 32, until)) return;
    if (!make_room(view)) return;
    memmove(&view->at[i + 1], &view->at[i], (view->count - i) * sizeof *view->at);
    view->at[i] = (struct known){key, until};
    view->count++;
    if (key & DEVICE_KEY) return;
    unsigned first = place(view, key >> 32 << 32), end = place(view, ((key >> 32) + 1) << 32);
    if (end - first > CLUSTERS_OF_A_GRID) collapse(view, first, end);
}

void view_join(struct view *view, const struct view *other) {
    view->all |= other->all;
    for (unsigned i = 0; i < other->count && !view->all; i++)
        view_learn(view, other->at[i].key, other->at[i].until);
}
