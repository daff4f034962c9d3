/* world_plain.c - global memory where a warp's loads and stores are moves of bytes and nothing else, so that the exec
 * half does those of 32 threads at once. Whatever the world keeps of single accesses (the order of stores under the
 * adversary) must say no here first. Reads mappings; changes nothing. */
#include "runtime/cpu/world.h"

bool world_plain(const struct world *world, const struct warp *warp, uint64_t address, uint64_t bytes, bool write,
                 struct plain *plain) {
    if (world->order.on || world->options.schedule == DCPKCPU_RANDOM) return false; /* who wrote what; what is late */
    const struct mapping *m = memory_at(world, address);
    int device = warp->cta->grid->device->ordinal;
    if (!m || m->multicast || !((write ? m->writable : m->readable) >> device & 1)) return false;
    const struct backing *backing = m->backing;
    uint64_t offset = address - m->start;
    if (offset >= m->bytes || bytes > m->bytes - offset || backing->pending) return false;
    if (write && (backing->owner != device || backing->input)) return false;
    plain->at = m->home + offset;
    plain->written = backing->written;
    plain->first = (uint64_t)(plain->at - backing->memory);
    return true;
}
