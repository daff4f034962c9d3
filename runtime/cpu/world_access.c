/* world_access.c - what a global load, store, atomic, fence or barrier of a kernel does to memory. The hot path.
 *
 * Model. Fairly, memory of the warp's own device is read and written at once, in program order. Stores to memory of
 * another device, of the host, and through multicast addresses may be late (world_wire.c) when the adversary runs or a
 * test holds them; under the adversary those of some grids to their own device, too. A CTA's own loads see its late
 * stores except those made through a multicast address. Loads are never late, but a strong one may get what a store
 * replaced that it is not ordered behind (world_race.c). A fence or release at cluster scope or wider lands what is
 * ordered before it: the thread's own stores, and those of its warp or CTA that a barrier has ordered. Atomics act at
 * once on memory, after the CTA's own late stores there. */
#include "runtime/cpu/world.h"

#include <string.h>

#include "runtime/cpu/bits.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)

static inline struct resident *resident_of(const struct warp *warp) {
    return (struct resident *)(void *)warp->cta;
}

static inline struct mapping *look_up(const struct world *world, uint64_t address) {
    uint64_t granule = (address - (uint64_t)(uintptr_t)world->arena.base) >> GRANULE_SHIFT;
    if (LIKELY(granule < world->arena.granules)) return world->arena.at[granule];
    return memory_at(world, address);
}

/* Dead mappings never pass: their masks are cleared with their life. */
static inline bool inside(const struct mapping *m, uint64_t address, unsigned bytes) {
    uint64_t offset = address - m->start;
    return offset < m->bytes && bytes <= m->bytes - offset;
}

static bool refuse(const struct world *world, const struct warp *warp, uint64_t address, unsigned bytes, bool write,
                   struct fault *fault) {
    fault->code = RESULT_ILLEGAL_ADDRESS;
    fault->text[0] = 0;
    memory_explain(world, address, bytes, warp->cta->grid->device->ordinal, write, fault->text, sizeof fault->text);
    return false;
}

/* The sizes that kernels use become single moves. */
static inline void move(void *to, const void *from, unsigned bytes) {
    switch (bytes) {
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    case 16:
        memcpy(to, from, 16);
        break;
    default:
        memcpy(to, from, bytes);
    }
}

static inline bool same(const void *a, const void *b, unsigned bytes) {
    switch (bytes) {
    case 4:
        return memcmp(a, b, 4) == 0;
    case 8:
        return memcmp(a, b, 8) == 0;
    case 16:
        return memcmp(a, b, 16) == 0;
    default:
        return memcmp(a, b, bytes) == 0;
    }
}

bool world_load(struct world *world, struct warp *warp, unsigned thread, uint64_t address, void *to, unsigned bytes,
                enum order order, enum scope scope, struct fault *fault) {
    (void)thread;
    const struct mapping *m = look_up(world, address);
    unsigned device = (unsigned)warp->cta->grid->device->ordinal;
    if (!LIKELY(m && inside(m, address, bytes) && m->readable >> device & 1))
        return refuse(world, warp, address, bytes, false, fault);
    const uint8_t *at = m->home + (address - m->start);
    if (!LIKELY(!world->order.on) && order != ORDER_WEAK && m->backing->pending && resident_of(warp)->pending)
        wire_land_bytes(world, resident_of(warp), at, bytes); /* so that it is told by whom they are */
    move(to, at, bytes);
    if (m->backing->pending && resident_of(warp)->pending) wire_overlay(world, resident_of(warp), at, to, bytes);
    if (order != ORDER_WEAK) resident_of(warp)->watches[warp->index].address = address;
    return LIKELY(!world->order.on) || order_load(world, warp, m, at, to, bytes, order, scope, fault);
}

bool world_reach(struct world *world, struct warp *warp, uint64_t address, uint64_t bytes, bool write,
                 struct fault *fault) {
    const struct mapping *m = look_up(world, address);
    uint32_t mask = !m ? 0 : write ? m->writable : m->readable;
    if (m && address - m->start < m->bytes && bytes <= m->bytes - (address - m->start) &&
        mask >> warp->cta->grid->device->ordinal & 1)
        return true;
    fault->code = RESULT_ILLEGAL_ADDRESS;
    fault->text[0] = 0;
    memory_explain(world, address, bytes, warp->cta->grid->device->ordinal, write, fault->text, sizeof fault->text);
    return false;
}

static bool store_multicast(struct world *world, struct warp *warp, unsigned thread, const struct mapping *m,
                            uint64_t address, const uint8_t *from, unsigned bytes, enum order order, enum scope scope,
                            bool *changed, struct fault *fault) {
    struct stamp stamp = {0};
    if (world->order.on) stamp = order_stamp(world, warp, thread, order, scope);
    const struct device *device = warp->cta->grid->device;
    uint64_t offset = m->multicast_offset + (address - m->start);
    uint32_t reached = 0;
    world->counters.multicast_stores++;
    for (unsigned i = 0; i < m->multicast->part_count; i++) {
        const struct multicast_part *part = &m->multicast->parts[i];
        if (offset < part->offset || offset - part->offset + bytes > part->bytes) continue;
        reached |= UINT32_C(1) << part->device;
        uint8_t *at = part->backing->memory + part->backing_offset + (offset - part->offset);
        written_put(part->backing, at, bytes, true);
        if (world->order.on && !order_may_store(world, warp, part->backing, at, from, bytes, &stamp, fault))
            return false;
        if (world->late >> device->ordinal & 1) {
            if (!wire_send(world, resident_of(warp), thread, part->backing, at, from, bytes, true, &stamp, fault))
                return false;
        } else {
            if (world->order.on) order_put_all(part->backing, at, bytes, &stamp);
            memcpy(at, from, bytes);
        }
    }
    *changed = true;
    if (reached == m->multicast->devices) return true;
    fault->code = RESULT_ILLEGAL_ADDRESS;
    fault->text[0] = 0;
    text_add(fault->text, sizeof fault->text, "multicast ");
    memory_explain(world, address, bytes, device->ordinal, true, fault->text, sizeof fault->text);
    text_add(fault->text, sizeof fault->text, ": devices of mask 0x%x have no memory bound there",
             m->multicast->devices & ~reached);
    return false;
}

/* A store while it is kept who wrote what: it may be late to the own device, too, and come before what is there. */
static bool store_in_order(struct world *world, struct warp *warp, unsigned thread, const struct mapping *m,
                           uint8_t *at, const uint8_t *from, unsigned bytes, enum order order, enum scope scope,
                           bool *changed, struct fault *fault) {
    struct resident *resident = resident_of(warp);
    const struct device *device = warp->cta->grid->device;
    struct stamp stamp = order_stamp(world, warp, thread, order, scope);
    if (!order_may_store(world, warp, m->backing, at, from, bytes, &stamp, fault)) return false;
    bool own_words = m->backing->pending && resident->pending;
    if (m->backing->owner == device->ordinal && same(at, from, bytes) &&
        (!own_words || wire_has_only(world, resident, at, from, bytes))) { /* nobody could ever tell it from none */
        order_put_all(m->backing, at, bytes, &stamp);
        return true;
    }
    *changed = true;
    if (world->late >> device->ordinal & 1 &&
        (m->backing->owner != device->ordinal || resident->launch->order.own_late))
        return wire_send(world, resident, thread, m->backing, at, from, bytes, false, &stamp, fault);
    if (own_words) wire_land_bytes(world, resident, at, bytes);
    *changed = !same(at, from, bytes);
    if (order_is_first(world, warp, m->backing, at, from, bytes, &stamp)) return true;
    order_put_all(m->backing, at, bytes, &stamp);
    move(at, from, bytes);
    return true;
}

/* The memory checker: whether the bytes may be written; they are from here on. */
static bool note_write(const struct world *world, const struct mapping *m, const uint8_t *at, uint64_t address,
                       unsigned bytes, struct fault *fault) {
    struct backing *backing = m->backing;
    if (backing->input && !written_permit(world, backing, m, address, bytes, fault)) return false;
    bits_put(backing->written, (uint64_t)(at - backing->memory), bytes, true);
    return true;
}

bool world_store(struct world *world, struct warp *warp, unsigned thread, uint64_t address, const void *from,
                 unsigned bytes, enum order order, enum scope scope, bool *changed, struct fault *fault) {
    const struct mapping *m = look_up(world, address);
    const struct device *device = warp->cta->grid->device;
    if (!LIKELY(m && inside(m, address, bytes) && m->writable >> device->ordinal & 1))
        return refuse(world, warp, address, bytes, true, fault);
    if (order >= ORDER_RELEASE) world_fence(world, warp, thread, order, scope);
    if (m->multicast)
        return store_multicast(world, warp, thread, m, address, from, bytes, order, scope, changed, fault);
    uint8_t *at = m->home + (address - m->start);
    if (m->backing->written && !note_write(world, m, at, address, bytes, fault)) return false;
    world->counters.peer_stores += m->backing->owner != device->ordinal && m->backing->owner != HOST_MEMORY;
    if (!LIKELY(!world->order.on))
        return store_in_order(world, warp, thread, m, at, from, bytes, order, scope, changed, fault);
    if (m->backing->owner != device->ordinal && world->late >> device->ordinal & 1) {
        *changed = true;
        return wire_send(world, resident_of(warp), thread, m->backing, at, from, bytes, false, NULL, fault);
    }
    if (same(at, from, bytes)) return true;
    *changed = true;
    move(at, from, bytes);
    return true;
}

void *world_atomic(struct world *world, struct warp *warp, unsigned thread, uint64_t address, unsigned bytes,
                   enum order order, enum scope scope, struct fault *fault) {
    const struct mapping *m = look_up(world, address);
    unsigned device = (unsigned)warp->cta->grid->device->ordinal;
    if (!LIKELY(m && inside(m, address, bytes) && (m->writable & m->readable) >> device & 1)) {
        refuse(world, warp, address, bytes, !(m && m->multicast), fault);
        return NULL;
    }
    uint8_t *at = m->home + (address - m->start);
    if (m->backing->written && !note_write(world, m, at, address, bytes, fault)) return NULL;
    if (m->backing->pending && resident_of(warp)->pending) wire_land_bytes(world, resident_of(warp), at, bytes);
    resident_of(warp)->watches[warp->index].address = address;
    if (world->order.on && !order_atomic(world, warp, thread, m->backing, at, bytes, order, scope, fault)) return NULL;
    return at;
}

void world_fence(struct world *world, struct warp *warp, unsigned thread, enum order order, enum scope scope) {
    struct resident *source = resident_of(warp);
    warp->told = true;
    if (source->pending && order >= ORDER_RELEASE && scope >= SCOPE_CLUSTER) wire_land_ordered(world, source, thread);
    if (world->order.on) order_fence(world, warp, order, scope);
}

void world_barrier(struct world *world, struct warp *warp, bool whole_cta) {
    struct resident *source = resident_of(warp);
    warp->told = true;
    if (world->order.on) order_barrier(world, warp, whole_cta);
    if (!source->pending) return;
    if (whole_cta && source->launch->cluster_ctas > 1)
        wire_land_all(world, source);
    else
        wire_order(world, source, whole_cta ? -1 : (int)warp->index);
}

void world_waited(struct world *world, struct warp *warp) {
    if (world->order.on) order_wait(world, warp);
}

bool world_asks_early(const struct world *world, const struct warp *warp) {
    return world->order.on && order_is_early(warp);
}
