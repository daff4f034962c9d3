/* world_memory.c - device addresses: the arena they live in, mappings, and what to say about an address.
 *
 * Owns struct arena. One region of the process's address space is reserved; an allocation takes whole 64 KiB granules
 * of it, its bytes are exact, and a granule stays unused behind it. Fresh memory is poison (0xCB bytes), freed memory
 * loses its pages and its addresses are the last to be used again. Device addresses are host addresses, except where
 * cuMemMap shows memory elsewhere: there `home` says where the bytes are. May not know warps, streams or grids. */
#include "runtime/cpu/world.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRANULE ((uint64_t)1 << GRANULE_SHIFT)

static uint64_t granules_of(uint64_t bytes) {
    return (bytes + GRANULE - 1) >> GRANULE_SHIFT;
}

int arena_begin(struct arena *arena) {
    *arena = (struct arena){0};
    void *wanted = (void *)(uintptr_t)UINT64_C(0x300000000000); /* a hint: reports are easier to compare between runs */
    for (uint64_t bytes = UINT64_C(1) << 40; bytes >= UINT64_C(1) << 32; bytes /= 2) {
        void *base = mmap(wanted, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) continue;
        uint64_t count = bytes >> GRANULE_SHIFT;
        void *table = mmap(NULL, count * sizeof *arena->at, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (table == MAP_FAILED) {
            munmap(base, bytes);
            continue;
        }
        arena->base = base;
        arena->granules = count;
        arena->at = table;
        arena->used = 1; /* the lowest granule stays a guard */
        long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
        arena->bytes_limit = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 4 * 3 : UINT64_C(1) << 33;
        return 0;
    }
    return -1;
}

void arena_end(struct arena *arena) {
    for (size_t i = 0; i < arena->count; i++) {
        if (arena->all[i]->owns_backing) {
            written_end(arena->all[i]->backing);
            cells_end(arena->all[i]->backing);
            free(arena->all[i]->backing);
        }
        free(arena->all[i]);
    }
    free(arena->all);
    if (arena->base) munmap(arena->base, arena->granules << GRANULE_SHIFT);
    if (arena->at) munmap(arena->at, arena->granules * sizeof *arena->at);
    *arena = (struct arena){0};
}

/* First granule of a run of `count` free ones and a guard: fresh ones while there are any, then those of the oldest
 * dead mapping that is large enough. 0: none. */
static uint64_t take_granules(struct arena *arena, uint64_t count) {
    if (count == 0 || count >= arena->granules) return 0;
    if (arena->used + count + 1 <= arena->granules) {
        uint64_t first = arena->used;
        arena->used += count + 1;
        return first;
    }
    for (size_t i = 0; i < arena->count; i++) {
        struct mapping *old = arena->all[i];
        uint64_t first = (old->start - (uint64_t)(uintptr_t)arena->base) >> GRANULE_SHIFT;
        if (old->live || old->granules < count || arena->at[first] != old) continue;
        if (old->backing && old->backing->pending) continue;
        for (uint64_t g = 0; g < old->granules; g++)
            arena->at[first + g] = NULL;
        return first;
    }
    return 0;
}

static struct mapping *add_mapping(struct arena *arena) {
    if (arena->count == arena->capacity) {
        size_t capacity = arena->capacity ? arena->capacity * 2 : 64;
        struct mapping **all = realloc(arena->all, capacity * sizeof *all);
        if (!all) return NULL;
        arena->all = all;
        arena->capacity = capacity;
    }
    struct mapping *mapping = calloc(1, sizeof *mapping);
    if (!mapping) return NULL;
    arena->all[arena->count++] = mapping;
    mapping->serial = arena->count;
    return mapping;
}

static void show(struct arena *arena, struct mapping *mapping) {
    uint64_t first = (mapping->start - (uint64_t)(uintptr_t)arena->base) >> GRANULE_SHIFT;
    for (uint64_t g = 0; g < mapping->granules; g++)
        arena->at[first + g] = mapping;
}

static uint32_t devices_that_reach(const struct world *world, int owner) {
    if (owner == HOST_MEMORY) return UINT32_MAX;
    uint32_t mask = 0;
    for (int d = 0; d < world->device_count; d++)
        if (world->devices[d].peers >> owner & 1) mask |= UINT32_C(1) << d;
    return mask;
}

static struct mapping *carve(struct world *world, int owner, uint64_t bytes) {
    struct arena *arena = &world->arena;
    if (bytes == 0 || bytes > arena->bytes_limit || arena->bytes_live > arena->bytes_limit - bytes) return NULL;
    uint64_t first = take_granules(arena, granules_of(bytes));
    if (!first) return NULL;
    uint8_t *memory = arena->base + (first << GRANULE_SHIFT);
    struct backing *backing = calloc(1, sizeof *backing);
    struct mapping *mapping = backing ? add_mapping(arena) : NULL;
    if (!mapping || mprotect(memory, granules_of(bytes) << GRANULE_SHIFT, PROT_READ | PROT_WRITE)) {
        if (mapping) mapping->start = (uint64_t)(uintptr_t)memory; /* stays as a dead range */
        free(backing);
        return NULL;
    }
    memset(memory, POISON, bytes);
    *backing = (struct backing){.memory = memory, .bytes = bytes, .owner = owner, .live = true};
    written_begin(world, backing);
    mapping->start = (uint64_t)(uintptr_t)memory;
    mapping->bytes = bytes;
    mapping->granules = granules_of(bytes);
    mapping->backing = backing;
    mapping->owns_backing = true;
    mapping->home = memory;
    mapping->live = true;
    arena->bytes_live += bytes;
    if (owner >= 0) world->devices[owner].memory_used += bytes;
    show(arena, mapping);
    return mapping;
}

struct mapping *memory_alloc(struct world *world, int owner, uint64_t bytes) {
    struct mapping *mapping = carve(world, owner, bytes);
    if (!mapping) return NULL;
    mapping->follows_peers = owner != HOST_MEMORY;
    mapping->readable = mapping->writable = devices_that_reach(world, owner);
    return mapping;
}

static void drop_bytes(struct world *world, struct backing *backing) {
    uint64_t whole = granules_of(backing->bytes) << GRANULE_SHIFT;
    /* Mapping afresh rather than advising: the pages go, and reads by stray host code fault. */
    void *fresh =
        mmap(backing->memory, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (fresh == MAP_FAILED) mprotect(backing->memory, whole, PROT_NONE);
    backing->live = false;
    written_end(backing);
    cells_end(backing);
    world->arena.bytes_live -= backing->bytes;
    if (backing->owner >= 0) world->devices[backing->owner].memory_used -= backing->bytes;
}

void memory_free(struct world *world, struct mapping *mapping) {
    memory_unmap(world, mapping);
    drop_bytes(world, mapping->backing);
}

struct backing *backing_create(struct world *world, int owner, uint64_t bytes) {
    struct mapping *mapping = carve(world, owner, bytes); /* no device reaches it by this address */
    return mapping ? mapping->backing : NULL;
}

void backing_free(struct world *world, struct backing *backing) {
    struct mapping *mapping = memory_at(world, (uint64_t)(uintptr_t)backing->memory);
    if (mapping) memory_free(world, mapping);
}

uint64_t memory_reserve(struct world *world, uint64_t bytes, uint64_t alignment) {
    if (bytes > UINT64_C(1) << 48 || alignment > UINT64_C(1) << 40) return 0;
    if (alignment < GRANULE) alignment = GRANULE;
    uint64_t first = take_granules(&world->arena, granules_of(bytes + alignment));
    uint64_t start = (uint64_t)(uintptr_t)world->arena.base + (first << GRANULE_SHIFT);
    return first ? (start + alignment - 1) / alignment * alignment : 0;
}

struct mapping *memory_map(struct world *world, uint64_t start, uint64_t bytes, struct backing *backing,
                           uint64_t offset, struct multicast *multicast) {
    struct mapping *mapping = add_mapping(&world->arena);
    if (!mapping) return NULL;
    mapping->start = start;
    mapping->bytes = bytes;
    mapping->granules = granules_of(bytes);
    mapping->backing = backing;
    mapping->home = backing ? backing->memory + offset : NULL;
    mapping->multicast = multicast;
    mapping->multicast_offset = offset;
    mapping->live = true;
    show(&world->arena, mapping);
    return mapping;
}

void memory_unmap(struct world *world, struct mapping *mapping) {
    (void)world;
    mapping->live = false;
    mapping->readable = mapping->writable = 0;
}

struct mapping *memory_register(struct world *world, void *host, uint64_t bytes) {
    struct arena *arena = &world->arena;
    if (arena->foreign_count == sizeof arena->foreign / sizeof arena->foreign[0]) return NULL;
    struct backing *backing = calloc(1, sizeof *backing);
    struct mapping *mapping = backing ? add_mapping(arena) : NULL;
    if (!mapping) {
        free(backing);
        return NULL;
    }
    *backing = (struct backing){.memory = host, .bytes = bytes, .owner = HOST_MEMORY, .live = true};
    mapping->start = (uint64_t)(uintptr_t)host;
    mapping->bytes = bytes;
    mapping->backing = backing;
    mapping->owns_backing = true;
    mapping->home = host;
    mapping->live = true;
    mapping->readable = mapping->writable = UINT32_MAX;
    arena->foreign[arena->foreign_count++] = mapping;
    return mapping;
}

void memory_unregister(struct world *world, struct mapping *mapping) {
    struct arena *arena = &world->arena;
    for (unsigned i = 0; i < arena->foreign_count; i++)
        if (arena->foreign[i] == mapping) arena->foreign[i] = arena->foreign[--arena->foreign_count];
    memory_unmap(world, mapping);
    mapping->backing->live = false;
}

bool memory_is_foreign(const struct world *world, const struct mapping *mapping) {
    for (unsigned i = 0; i < world->arena.foreign_count; i++)
        if (world->arena.foreign[i] == mapping) return true;
    return false;
}

struct mapping *memory_at(const struct world *world, uint64_t address) {
    const struct arena *arena = &world->arena;
    uint64_t granule = (address - (uint64_t)(uintptr_t)arena->base) >> GRANULE_SHIFT;
    if (granule < arena->granules) return arena->at[granule];
    for (unsigned i = 0; i < arena->foreign_count; i++)
        if (address - arena->foreign[i]->start < arena->foreign[i]->bytes) return arena->foreign[i];
    return NULL;
}

struct mapping *memory_range(const struct world *world, uint64_t address, uint64_t bytes) {
    struct mapping *mapping = memory_at(world, address);
    if (!mapping || !mapping->live) return NULL;
    uint64_t offset = address - mapping->start;
    return offset <= mapping->bytes && bytes <= mapping->bytes - offset ? mapping : NULL;
}

void memory_enable_peer(struct world *world, int device, int peer, bool enable) {
    uint32_t bit = UINT32_C(1) << device, whose = UINT32_C(1) << peer;
    if (enable)
        world->devices[device].peers |= whose;
    else
        world->devices[device].peers &= ~whose;
    for (size_t i = 0; i < world->arena.count; i++) {
        struct mapping *mapping = world->arena.all[i];
        if (!mapping->live || !mapping->follows_peers || mapping->backing->owner != peer) continue;
        mapping->readable = enable ? mapping->readable | bit : mapping->readable & ~bit;
        mapping->writable = enable ? mapping->writable | bit : mapping->writable & ~bit;
    }
}
