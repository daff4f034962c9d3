/* driver_multicast.c - multicast objects: devices join, memory of each is bound, addresses mapped to the object store
 * to all of it (world_access.c). */
#include "runtime/cpu/driver.h"

#include <stdlib.h>

#define UNIT ((uint64_t)1 << 21)

cu_result cpu_multicast_create(cu_mem *handle, const cu_multicast_properties *p) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT) || !capture_allows_unsafe(&call)) return call_end(&call);
    if (!call.world->options.multicast || (p && p->handle_types))
        call.result = R_CUDA_ERROR_NOT_SUPPORTED;
    else if (!handle || !p || p->flags || p->devices < 1 || p->devices > (unsigned)call.world->device_count ||
             p->bytes == 0 || p->bytes % UNIT)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    if (call.result) return call_end(&call);
    struct multicast *multicast = calloc(1, sizeof *multicast);
    struct memory draft = {.bytes = p->bytes, .multicast = multicast};
    struct memory *memory = multicast ? memory_add(&call, &draft) : NULL;
    if (!memory) {
        free(multicast);
        call.result = R_CUDA_ERROR_OUT_OF_MEMORY;
        return call_end(&call);
    }
    multicast->bytes = p->bytes;
    multicast->devices_expected = p->devices;
    *handle = (cu_mem)(uintptr_t)memory;
    return call_end(&call);
}

static struct multicast *multicast_of(struct call *call, cu_mem handle) {
    struct memory *memory = memory_of(call, handle);
    if (memory && memory->multicast) return memory->multicast;
    call->result = R_CUDA_ERROR_INVALID_VALUE;
    return NULL;
}

static unsigned count_bits(uint32_t mask) {
    unsigned count = 0;
    for (; mask; mask &= mask - 1)
        count++;
    return count;
}

cu_result cpu_multicast_add(cu_mem handle, cu_device device) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT) || !capture_allows_unsafe(&call)) return call_end(&call);
    struct multicast *multicast = multicast_of(&call, handle);
    if (!multicast) return call_end(&call);
    if (device < 0 || device >= call.world->device_count)
        call.result = R_CUDA_ERROR_INVALID_DEVICE;
    else if (multicast->devices >> device & 1 || count_bits(multicast->devices) == multicast->devices_expected)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else
        multicast->devices |= UINT32_C(1) << device;
    return call_end(&call);
}

static bool is_bound(const struct multicast *multicast, int device, uint64_t offset, uint64_t bytes) {
    for (unsigned i = 0; i < multicast->part_count; i++) {
        const struct multicast_part *part = &multicast->parts[i];
        if (part->device == device && offset < part->offset + part->bytes && part->offset < offset + bytes) return true;
    }
    return false;
}

static struct multicast_part *add_part(struct multicast *multicast) {
    if (multicast->part_count == multicast->part_capacity) {
        unsigned capacity = multicast->part_capacity ? multicast->part_capacity * 2 : 8;
        struct multicast_part *parts = realloc(multicast->parts, capacity * sizeof *parts);
        if (!parts) return NULL;
        multicast->parts = parts;
        multicast->part_capacity = capacity;
    }
    return &multicast->parts[multicast->part_count++];
}

/* All devices must have joined: a store through the object reaches every one of them. */
cu_result cpu_multicast_bind(cu_mem handle, size_t offset, cu_mem source, size_t source_offset, size_t bytes,
                             unsigned long long flags) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT) || !capture_allows_unsafe(&call)) return call_end(&call);
    struct multicast *multicast = multicast_of(&call, handle);
    struct memory *memory = multicast ? memory_of(&call, source) : NULL;
    if (!memory) return call_end(&call);
    bool aligned = bytes && offset % UNIT == 0 && source_offset % UNIT == 0 && bytes % UNIT == 0;
    if (!memory->backing || flags || !aligned || offset > multicast->bytes || bytes > multicast->bytes - offset ||
        source_offset > memory->bytes || bytes > memory->bytes - source_offset)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (count_bits(multicast->devices) != multicast->devices_expected)
        call.result = R_CUDA_ERROR_ILLEGAL_STATE;
    else if (!(multicast->devices >> memory->backing->owner & 1))
        call.result = R_CUDA_ERROR_INVALID_DEVICE;
    else if (is_bound(multicast, memory->backing->owner, offset, bytes))
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    if (call.result) return call_end(&call);
    struct multicast_part *part = add_part(multicast);
    if (!part) {
        call.result = R_CUDA_ERROR_OUT_OF_MEMORY;
        return call_end(&call);
    }
    *part = (struct multicast_part){.backing = memory->backing,
                                    .memory = memory,
                                    .backing_offset = source_offset,
                                    .offset = offset,
                                    .bytes = bytes,
                                    .device = memory->backing->owner};
    memory->users++;
    return call_end(&call);
}

cu_result cpu_multicast_unbind(cu_mem handle, cu_device device, size_t offset, size_t bytes) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT) || !capture_allows_unsafe(&call)) return call_end(&call);
    struct multicast *multicast = multicast_of(&call, handle);
    if (!multicast) return call_end(&call);
    call.result = R_CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < multicast->part_count; i++) {
        struct multicast_part *part = &multicast->parts[i];
        if (part->device != device || part->offset != offset || part->bytes != bytes) continue;
        struct memory *memory = part->memory;
        *part = multicast->parts[--multicast->part_count];
        memory_drop(call.world, memory);
        call.result = R_CUDA_SUCCESS;
        break;
    }
    return call_end(&call);
}
