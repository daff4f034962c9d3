/* fake_memory.c - the memory of libfakecuda.so: blocks of the host's, counted; virtual memory and multicast objects
 * that hold nothing but what their callers must keep in order. */
#include "tests/drivers/fake_inside.h"

#include <stdlib.h>
#include <string.h>

struct allocation { /* before each block of memory: freeing checks it */
    uint64_t magic;
};

/* ---- memory ---- */
void *fake_take(size_t bytes) {
    char *block = aligned_alloc(256, (bytes + 511) / 256 * 256);
    if (block == NULL) return NULL;
    ((struct allocation *)(void *)block)->magic = 0xDC9CDC9Cu;
    return block + 256;
}
bool fake_give_back(void *memory) {
    char *block = (char *)memory - 256;
    if (((struct allocation *)(void *)block)->magic != 0xDC9CDC9Cu) return false;
    ((struct allocation *)(void *)block)->magic = 0;
    free(block);
    return true;
}
static void *at(cu_ptr address) {
    return (void *)(uintptr_t)address;
}
ENTRY(cuMemAlloc_v2, cu_ptr *address, size_t bytes) {
    BEGIN;
    if (fake_depth() == 0) return DRIVER_INVALID_CONTEXT;
    void *memory = fake_take(bytes);
    if (memory == NULL) return DRIVER_OUT_OF_MEMORY;
    *address = (cu_ptr)(uintptr_t)memory;
    fake_driver()->memory++;
    return DRIVER_OK;
}
ENTRY(cuMemFree_v2, cu_ptr address) {
    BEGIN;
    if (fake_depth() == 0 || !fake_give_back(at(address))) return DRIVER_INVALID_VALUE;
    fake_driver()->memory--;
    return DRIVER_OK;
}
ENTRY(cuMemHostAlloc, void **host, size_t bytes, unsigned flags) {
    BEGIN;
    if (fake_depth() == 0 || flags != (DRIVER_HOST_PORTABLE | DRIVER_HOST_MAPPED)) return DRIVER_INVALID_VALUE;
    *host = fake_take(bytes);
    if (*host == NULL) return DRIVER_OUT_OF_MEMORY;
    fake_driver()->host++;
    return DRIVER_OK;
}
ENTRY(cuMemFreeHost, void *host) {
    BEGIN;
    if (!fake_give_back(host)) return DRIVER_INVALID_VALUE;
    fake_driver()->host--;
    return DRIVER_OK;
}
ENTRY(cuMemHostGetDevicePointer_v2, cu_ptr *address, void *host, unsigned flags) {
    BEGIN;
    if (flags != 0) return DRIVER_INVALID_VALUE;
    *address = (cu_ptr)(uintptr_t)host;
    return DRIVER_OK;
}
ENTRY(cuMemcpyHtoDAsync_v2, cu_ptr to, const void *from, size_t bytes, cu_stream stream) {
    BEGIN;
    (void)stream;
    memcpy(at(to), from, bytes);
    return DRIVER_OK;
}
ENTRY(cuMemcpyDtoHAsync_v2, void *to, cu_ptr from, size_t bytes, cu_stream stream) {
    BEGIN;
    (void)stream;
    memcpy(to, at(from), bytes);
    return DRIVER_OK;
}
ENTRY(cuMemsetD32Async, cu_ptr to, unsigned value, size_t words, cu_stream stream) {
    BEGIN;
    (void)stream;
    for (size_t i = 0; i < words; i++)
        memcpy((char *)at(to) + 4 * i, &value, 4);
    return DRIVER_OK;
}

/* ---- virtual memory, multicast ---- */
ENTRY(cuMemGetAllocationGranularity, size_t *bytes, const cu_mem_properties *properties, int option) {
    BEGIN;
    (void)properties, (void)option;
    *bytes = 65536;
    return DRIVER_OK;
}
ENTRY(cuMemCreate, cu_mem *handle, size_t bytes, const cu_mem_properties *properties, unsigned long long flags) {
    BEGIN;
    if (bytes % 65536 != 0 || properties->type != DRIVER_MEM_PINNED || flags != 0) return DRIVER_INVALID_VALUE;
    void *memory = fake_take(bytes);
    if (memory == NULL) return DRIVER_OUT_OF_MEMORY;
    *handle = (cu_mem)(uintptr_t)memory;
    fake_driver()->handles++;
    return DRIVER_OK;
}
ENTRY(cuMemRelease, cu_mem handle) {
    BEGIN;
    if (!fake_give_back(at(handle))) return DRIVER_INVALID_VALUE;
    fake_driver()->handles--;
    return DRIVER_OK;
}
ENTRY(cuMemAddressReserve, cu_ptr *address, size_t bytes, size_t alignment, cu_ptr hint, unsigned long long flags) {
    BEGIN;
    (void)alignment, (void)hint, (void)flags;
    void *memory = fake_take(bytes);
    if (memory == NULL) return DRIVER_OUT_OF_MEMORY;
    *address = (cu_ptr)(uintptr_t)memory;
    fake_driver()->reservations++;
    return DRIVER_OK;
}
ENTRY(cuMemAddressFree, cu_ptr address, size_t bytes) {
    BEGIN;
    (void)bytes;
    if (!fake_give_back(at(address))) return DRIVER_INVALID_VALUE;
    fake_driver()->reservations--;
    return DRIVER_OK;
}
ENTRY(cuMemMap, cu_ptr address, size_t bytes, size_t offset, cu_mem handle, unsigned long long flags) {
    BEGIN;
    if (address == 0 || bytes == 0 || offset != 0 || handle == 0 || flags != 0) return DRIVER_INVALID_VALUE;
    fake_driver()->mappings++;
    return DRIVER_OK;
}
ENTRY(cuMemUnmap, cu_ptr address, size_t bytes) {
    BEGIN;
    (void)address, (void)bytes;
    fake_driver()->mappings--;
    return DRIVER_OK;
}
ENTRY(cuMemSetAccess, cu_ptr address, size_t bytes, const cu_mem_access *access, size_t count) {
    BEGIN;
    if (address == 0 || bytes == 0 || count == 0 || access[0].flags != DRIVER_MEM_READ_WRITE)
        return DRIVER_INVALID_VALUE;
    return DRIVER_OK;
}
ENTRY(cuMulticastGetGranularity, size_t *bytes, const cu_multicast_properties *properties, int option) {
    BEGIN;
    (void)option;
    if (properties->devices < 2) return DRIVER_INVALID_VALUE;
    *bytes = 2 << 20;
    return DRIVER_OK;
}
ENTRY(cuMulticastCreate, cu_mem *handle, const cu_multicast_properties *properties) {
    BEGIN;
    if (properties->bytes % (2 << 20) != 0) return DRIVER_INVALID_VALUE;
    *handle = (cu_mem)(uintptr_t)fake_take(1);
    fake_driver()->handles++;
    return DRIVER_OK;
}
ENTRY(cuMulticastAddDevice, cu_mem handle, cu_device device) {
    BEGIN;
    (void)handle, (void)device;
    return DRIVER_OK;
}
ENTRY(cuMulticastBindMem, cu_mem handle, size_t offset, cu_mem memory, size_t memory_offset, size_t bytes,
      unsigned long long flags) {
    BEGIN;
    (void)memory_offset, (void)flags;
    if (handle == 0 || memory == 0 || offset != 0 || bytes % (2 << 20) != 0) return DRIVER_INVALID_VALUE;
    fake_driver()->bindings++;
    return DRIVER_OK;
}
ENTRY(cuMulticastUnbind, cu_mem handle, cu_device device, size_t offset, size_t bytes) {
    BEGIN;
    (void)handle, (void)device, (void)offset, (void)bytes;
    fake_driver()->bindings--;
    return DRIVER_OK;
}
