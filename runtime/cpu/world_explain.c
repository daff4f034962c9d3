/* world_explain.c - words about an address: which allocation it is in, or how far from which one, and why an access to
 * it is not allowed.
 *
 * Called when something has already gone wrong: may be slow, changes nothing. */
#include "runtime/cpu/world.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add_owner(const struct mapping *mapping, char *text, size_t capacity) {
    if (mapping->multicast)
        text_add(text, capacity, " of a multicast object");
    else if (mapping->backing->owner == HOST_MEMORY)
        text_add(text, capacity, " of the host");
    else
        text_add(text, capacity, " of device %d", mapping->backing->owner);
}

static void add_range(const struct mapping *mapping, char *text, size_t capacity) {
    text_add(text, capacity, "%sallocation #%" PRIu64, mapping->live ? "" : "freed ", mapping->serial);
    if (mapping->name[0]) text_add(text, capacity, " (variable %s)", mapping->name);
    text_add(text, capacity, " [0x%" PRIx64 ", +%" PRIu64 ")", mapping->start, mapping->bytes);
    add_owner(mapping, text, capacity);
}

void memory_name(const struct mapping *mapping, uint64_t address, char *text, size_t capacity) {
    text_add(text, capacity, "offset %" PRIu64 " of ", address - mapping->start);
    add_range(mapping, text, capacity);
}

/* The mapping whose nearer end is closest; live ones win ties. Backing that no device reaches by address is left out.
 */
static const struct mapping *nearest(const struct world *world, uint64_t address, uint64_t *distance, bool *before) {
    const struct mapping *best = NULL;
    *distance = UINT64_MAX;
    for (size_t i = 0; i < world->arena.count; i++) {
        const struct mapping *m = world->arena.all[i];
        if (m->bytes == 0 || (!m->multicast && !m->backing) || (m->live && !m->readable && !m->multicast)) continue;
        bool below = address < m->start;
        uint64_t end = m->start + m->bytes;
        uint64_t away = below ? m->start - address : address >= end ? address - end : 0;
        if (away > *distance || (away == *distance && best && best->live)) continue;
        best = m;
        *distance = away;
        *before = below;
    }
    return best;
}

static void explain_outside(const struct world *world, uint64_t address, uint64_t bytes, char *text, size_t capacity) {
    uint64_t distance;
    bool before = false;
    const struct mapping *m = nearest(world, address, &distance, &before);
    text_add(text, capacity, "address 0x%" PRIx64 " ", address);
    if (!m) {
        text_add(text, capacity, "is in no allocation (there is none)");
        return;
    }
    if (distance == 0 && address - m->start < m->bytes)
        text_add(text, capacity, "(%" PRIu64 " bytes) reaches %" PRIu64 " bytes past the end of ", bytes,
                 address + bytes - (m->start + m->bytes));
    else
        text_add(text, capacity, "is %" PRIu64 " bytes %s ", distance, before ? "before" : "past the end of");
    add_range(m, text, capacity);
}

static void explain_access(const struct mapping *m, int device, bool write, char *text, size_t capacity) {
    if (m->follows_peers)
        text_add(text, capacity, ": device %d has no peer access to it (cuCtxEnablePeerAccess was not called)", device);
    else if (m->memory)
        text_add(text, capacity, ": device %d may not %s it (cuMemSetAccess does not say so)", device,
                 write ? "write" : "read");
    else
        text_add(text, capacity, ": it is constant, kernels may not write it");
}

void memory_explain(const struct world *world, uint64_t address, uint64_t bytes, int device, bool write, char *text,
                    size_t capacity) {
    const struct mapping *m = memory_at(world, address);
    if (!m || address - m->start >= m->bytes || (m->live && bytes > m->bytes - (address - m->start))) {
        explain_outside(world, address, bytes, text, capacity);
        return;
    }
    text_add(text, capacity, "address 0x%" PRIx64 " is ", address);
    memory_name(m, address, text, capacity);
    uint32_t mask = write ? m->writable : m->readable;
    if (!m->live)
        text_add(text, capacity, ": use after free");
    else if (m->multicast && !write)
        text_add(text, capacity, ": a multicast address cannot be loaded from, load from the memory bound to it");
    else if (device >= 0 && !(mask >> device & 1))
        explain_access(m, device, write, text, capacity);
}
