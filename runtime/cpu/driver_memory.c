/* driver_memory.c - cuMemAlloc and friends: plain device memory, pinned host memory, registered host memory.
 *
 * Freeing waits for the memory's device, as the driver does; when only stalled work keeps it busy the answer is
 * NOT_READY and nothing is freed. */
#include "runtime/cpu/driver.h"

cu_result cpu_mem_alloc(cu_ptr *address, size_t bytes) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT) || !capture_allows_unsafe(&call)) return call_end(&call);
    if (!address || bytes == 0) {
        call.result = R_CUDA_ERROR_INVALID_VALUE;
        return call_end(&call);
    }
    const struct mapping *mapping = memory_alloc(call.world, call.device->ordinal, bytes);
    if (mapping)
        *address = mapping->start;
    else
        call.result = R_CUDA_ERROR_OUT_OF_MEMORY;
    return call_end(&call);
}

/* The live allocation of this kind that begins at the address. */
static struct mapping *allocation_at(struct call *call, uint64_t address, bool host) {
    struct mapping *mapping = memory_range(call->world, address, 1);
    if (mapping && mapping->start == address && mapping->owns_backing && mapping->readable &&
        (mapping->backing->owner == HOST_MEMORY) == host)
        return mapping;
    call->result = R_CUDA_ERROR_INVALID_VALUE;
    return NULL;
}

static void wait_for(struct call *call, const struct device *device) {
    struct work work = device_work(device);
    call_run(call, work_done, &work);
}

cu_result cpu_mem_free(cu_ptr address) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT) || !capture_allows_unsafe(&call)) return call_end(&call);
    const struct mapping *mapping = allocation_at(&call, address, false);
    if (mapping) wait_for(&call, &call.world->devices[mapping->backing->owner]);
    struct mapping *still = call.result ? NULL : allocation_at(&call, address, false);
    if (still) memory_free(call.world, still);
    return call_end(&call);
}

cu_result cpu_mem_host_alloc(void **host, size_t bytes, unsigned flags) {
    enum { KNOWN_FLAGS = 7 }; /* portable, mapped, write-combined: all the same here */
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT) || !capture_allows_unsafe(&call)) return call_end(&call);
    if (!host || bytes == 0 || flags & ~(unsigned)KNOWN_FLAGS) {
        call.result = R_CUDA_ERROR_INVALID_VALUE;
        return call_end(&call);
    }
    const struct mapping *mapping = memory_alloc(call.world, HOST_MEMORY, bytes);
    if (mapping)
        *host = mapping->home;
    else
        call.result = R_CUDA_ERROR_OUT_OF_MEMORY;
    return call_end(&call);
}

cu_result cpu_mem_host_free(void *host) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT) || !capture_allows_unsafe(&call)) return call_end(&call);
    const struct mapping *mapping = allocation_at(&call, (uint64_t)(uintptr_t)host, true);
    if (mapping && memory_is_foreign(call.world, mapping)) {
        mapping = NULL;
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    }
    if (mapping) wait_for(&call, call.device);
    struct mapping *still = call.result ? NULL : allocation_at(&call, (uint64_t)(uintptr_t)host, true);
    if (still) memory_free(call.world, still);
    return call_end(&call);
}

cu_result cpu_mem_host_register(void *host, size_t bytes, unsigned flags) {
    enum { KNOWN_FLAGS = 3 };
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT) || !capture_allows_unsafe(&call)) return call_end(&call);
    if (!host || bytes == 0 || flags & ~(unsigned)KNOWN_FLAGS)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (memory_at(call.world, (uint64_t)(uintptr_t)host))
        call.result = R_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else if (!memory_register(call.world, host, bytes))
        call.result = R_CUDA_ERROR_OUT_OF_MEMORY;
    return call_end(&call);
}

static struct mapping *registered_at(struct call *call, void *host) {
    struct mapping *mapping = memory_at(call->world, (uint64_t)(uintptr_t)host);
    if (mapping && memory_is_foreign(call->world, mapping) && mapping->home == host) return mapping;
    call->result = R_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    return NULL;
}

cu_result cpu_mem_host_unregister(void *host) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT) || !capture_allows_unsafe(&call)) return call_end(&call);
    if (registered_at(&call, host)) wait_for(&call, call.device);
    struct mapping *mapping = call.result ? NULL : registered_at(&call, host);
    if (mapping) memory_unregister(call.world, mapping);
    return call_end(&call);
}

cu_result cpu_mem_host_address(cu_ptr *address, void *host, unsigned flags) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    const struct mapping *mapping = memory_range(call.world, (uint64_t)(uintptr_t)host, 1);
    if (!address || flags || !mapping || !mapping->backing || mapping->backing->owner != HOST_MEMORY)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else
        *address = (uint64_t)(uintptr_t)host;
    return call_end(&call);
}

cu_result cpu_mem_info(size_t *free_bytes, size_t *total) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    if (free_bytes) *free_bytes = call.world->arena.bytes_limit - call.world->arena.bytes_live;
    if (total) *total = call.world->arena.bytes_limit;
    return call_end(&call);
}
