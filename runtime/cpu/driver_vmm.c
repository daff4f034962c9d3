/* driver_vmm.c - memory by handles (cuMemCreate, cuMemMap) and multicast objects.
 *
 * Handles, mappings and bindings each hold their memory; the bytes go with the last of them. Unmapping and releasing
 * do not wait for devices, as in the driver. Everything is in units of 2 MiB. */
#include "runtime/cpu/driver.h"

#include <stdlib.h>
#include <string.h>

#define UNIT ((uint64_t)1 << 21)

static cu_result give_unit(size_t *bytes, bool good) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    if (good && bytes)
        *bytes = UNIT;
    else
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    return call_end(&call);
}

cu_result cpu_vmm_granularity(size_t *bytes, const cu_mem_properties *properties, int option) {
    return give_unit(bytes, properties && (option == 0 || option == 1));
}

cu_result cpu_multicast_granularity(size_t *bytes, const cu_multicast_properties *properties, int option) {
    return give_unit(bytes, properties && (option == 0 || option == 1));
}

void memory_drop(struct world *world, struct memory *memory) {
    if (--memory->users) return;
    if (memory->backing) backing_free(world, memory->backing);
    if (memory->multicast) {
        for (unsigned i = 0; i < memory->multicast->part_count; i++)
            memory_drop(world, memory->multicast->parts[i].memory);
        free(memory->multicast->parts);
    }
    handle_remove(world, memory);
    free(memory->multicast);
    free(memory);
}

struct memory *memory_of(struct call *call, cu_mem handle) {
    struct memory *memory = (struct memory *)(uintptr_t)handle;
    if (handle_is(call->world, memory, HANDLE_MEMORY) && !memory->released) return memory;
    call->result = R_CUDA_ERROR_INVALID_VALUE;
    return NULL;
}

struct memory *memory_add(struct call *call, const struct memory *draft) {
    struct memory *memory = calloc(1, sizeof *memory);
    if (!memory || handle_add(call->world, memory, HANDLE_MEMORY)) {
        free(memory);
        call->result = R_CUDA_ERROR_OUT_OF_MEMORY;
        return NULL;
    }
    *memory = *draft;
    memory->users = 1;
    return memory;
}

cu_result cpu_vmm_create(cu_mem *handle, size_t bytes, const cu_mem_properties *p, unsigned long long flags) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT) || !capture_allows_unsafe(&call)) return call_end(&call);
    if (!handle || !p || bytes == 0 || bytes % UNIT || flags || p->type != DRIVER_MEM_PINNED ||
        p->location.type != DRIVER_MEM_ON_DEVICE)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (p->location.id < 0 || p->location.id >= call.world->device_count)
        call.result = R_CUDA_ERROR_INVALID_DEVICE;
    else if (p->handle_types)
        call.result = R_CUDA_ERROR_NOT_SUPPORTED; /* no sharing between processes */
    if (call.result) return call_end(&call);
    struct memory draft = {.bytes = bytes, .backing = backing_create(call.world, p->location.id, bytes)};
    struct memory *memory = draft.backing ? memory_add(&call, &draft) : NULL;
    if (memory)
        *handle = (cu_mem)(uintptr_t)memory;
    else
        call.result = R_CUDA_ERROR_OUT_OF_MEMORY;
    if (!memory && draft.backing) backing_free(call.world, draft.backing);
    return call_end(&call);
}

cu_result cpu_vmm_release(cu_mem handle) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT) || !capture_allows_unsafe(&call)) return call_end(&call);
    struct memory *memory = memory_of(&call, handle);
    if (!memory) return call_end(&call);
    memory->released = true;
    memory_drop(call.world, memory);
    return call_end(&call);
}

/* ---- addresses ------------------------------------------------------------------------------------- */
cu_result cpu_vmm_reserve(cu_ptr *address, size_t bytes, size_t alignment, cu_ptr hint, unsigned long long flags) {
    (void)hint;
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    struct world *world = call.world;
    if (!address || bytes == 0 || bytes % UNIT || flags || (alignment & (alignment - 1))) {
        call.result = R_CUDA_ERROR_INVALID_VALUE;
        return call_end(&call);
    }
    uint64_t start = memory_reserve(world, bytes, alignment > UNIT ? alignment : UNIT);
    struct reservation *list =
        start ? realloc(world->reservations, (world->reservation_count + 1) * sizeof *list) : NULL;
    if (!list) {
        call.result = R_CUDA_ERROR_OUT_OF_MEMORY;
        return call_end(&call);
    }
    world->reservations = list;
    list[world->reservation_count++] = (struct reservation){.start = start, .bytes = bytes};
    *address = start;
    return call_end(&call);
}

static bool anything_mapped(const struct world *world, uint64_t start, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += UNIT) {
        const struct mapping *mapping = memory_at(world, start + at);
        if (mapping && mapping->live) return true;
    }
    return false;
}

cu_result cpu_vmm_free(cu_ptr address, size_t bytes) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    struct world *world = call.world;
    call.result = R_CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < world->reservation_count; i++) {
        const struct reservation *r = &world->reservations[i];
        if (r->start != address || r->bytes != bytes || anything_mapped(world, address, bytes)) continue;
        world->reservations[i] = world->reservations[--world->reservation_count];
        call.result = R_CUDA_SUCCESS;
        break;
    }
    return call_end(&call);
}

static bool is_reserved(const struct world *world, uint64_t start, uint64_t bytes) {
    for (size_t i = 0; i < world->reservation_count; i++) {
        const struct reservation *r = &world->reservations[i];
        if (start >= r->start && start - r->start <= r->bytes && bytes <= r->bytes - (start - r->start)) return true;
    }
    return false;
}

cu_result cpu_vmm_map(cu_ptr address, size_t bytes, size_t offset, cu_mem handle, unsigned long long flags) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT) || !capture_allows_unsafe(&call)) return call_end(&call);
    struct memory *memory = memory_of(&call, handle);
    if (!memory) return call_end(&call);
    if (offset || flags || bytes == 0 || bytes % UNIT || address % UNIT || bytes > memory->bytes ||
        !is_reserved(call.world, address, bytes))
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (anything_mapped(call.world, address, bytes))
        call.result = R_CUDA_ERROR_ALREADY_MAPPED;
    if (call.result) return call_end(&call);
    struct mapping *mapping = memory_map(call.world, address, bytes, memory->backing, 0, memory->multicast);
    if (mapping) mapping->memory = memory;
    if (mapping)
        memory->users++;
    else
        call.result = R_CUDA_ERROR_OUT_OF_MEMORY;
    return call_end(&call);
}

/* The mapping made by cuMemMap that begins at `at` and ends no later than `end`. */
static struct mapping *mapped_at(struct call *call, uint64_t at, uint64_t end) {
    struct mapping *mapping = memory_at(call->world, at);
    if (mapping && mapping->live && mapping->memory && mapping->start == at && mapping->bytes <= end - at)
        return mapping;
    call->result = R_CUDA_ERROR_INVALID_VALUE;
    return NULL;
}

cu_result cpu_vmm_unmap(cu_ptr address, size_t bytes) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT) || !capture_allows_unsafe(&call)) return call_end(&call);
    struct mapping *mapping = NULL;
    for (uint64_t at = address; at < address + bytes && !call.result; at += mapping ? mapping->bytes : UNIT)
        mapping = mapped_at(&call, at, address + bytes);
    for (uint64_t at = address; at < address + bytes && !call.result; at += mapping->bytes) {
        mapping = memory_at(call.world, at);
        memory_unmap(call.world, mapping);
        memory_drop(call.world, mapping->memory);
    }
    return call_end(&call);
}

static void set_access(struct mapping *mapping, const cu_mem_access *access) {
    uint32_t bit = UINT32_C(1) << access->location.id;
    bool reads = (access->flags & 1) != 0, writes = (access->flags & 2) != 0;
    if (mapping->multicast) reads = false; /* nobody loads through it */
    mapping->readable = reads ? mapping->readable | bit : mapping->readable & ~bit;
    mapping->writable = writes ? mapping->writable | bit : mapping->writable & ~bit;
}

cu_result cpu_vmm_set_access(cu_ptr address, size_t bytes, const cu_mem_access *access, size_t count) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT) || !capture_allows_unsafe(&call)) return call_end(&call);
    if (!access || count == 0 || bytes == 0) call.result = R_CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && !call.result; i++) {
        const cu_mem_access *a = &access[i];
        if (a->location.type != DRIVER_MEM_ON_DEVICE || (a->flags != 0 && a->flags != 1 && a->flags != 3))
            call.result = R_CUDA_ERROR_INVALID_VALUE;
        else if (a->location.id < 0 || a->location.id >= call.world->device_count)
            call.result = R_CUDA_ERROR_INVALID_DEVICE;
    }
    struct mapping *mapping = NULL;
    for (uint64_t at = address; at < address + bytes && !call.result; at += mapping ? mapping->bytes : UNIT) {
        mapping = mapped_at(&call, at, address + bytes);
        for (size_t i = 0; mapping && i < count; i++)
            set_access(mapping, &access[i]);
    }
    return call_end(&call);
}
