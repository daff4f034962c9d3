/* box_multicast.c - publish=multicast: a box's memory as a virtual-memory object, and the one multicast object that the
 * boxes of all ranks are bound to. All virtual-memory and multicast calls of the project's runtime are here. Each rank
 * must have a device of its own; ranks of other processes are not served. */
#include "runtime/box_state.h"
#include "runtime/error.h"

#include <stdlib.h>
#include <string.h>

static cu_mem_properties properties_of(const dcpk_device *device) {
    cu_mem_properties properties;
    memset(&properties, 0, sizeof properties);
    properties.type = DRIVER_MEM_PINNED;
    properties.location.type = DRIVER_MEM_ON_DEVICE;
    properties.location.id = device->handle;
    return properties;
}

/* Raises *bytes to what a mapping's size must be a multiple of: for the memory, and for binding it. */
static dcpk_status granularity(const dcpk_box *box, uint64_t *bytes, dcpk_error *error) {
    const struct dcpk_driver *driver = &box->device->driver;
    cu_mem_properties memory = properties_of(box->device);
    cu_multicast_properties multicast = {.devices = (unsigned)box->shape.dcp, .bytes = box->layout.bytes};
    size_t own = 0, bound = 0;
    cu_result result = CALL(driver, vmm_granularity, (&own, &memory, DRIVER_MEM_GRANULARITY_MINIMUM));
    if (result != DRIVER_OK) return FAILED(driver, vmm_granularity, result, error, "box of rank %d", box->rank);
    result = CALL(driver, multicast_granularity, (&bound, &multicast, DRIVER_MEM_GRANULARITY_MINIMUM));
    if (result != DRIVER_OK) return FAILED(driver, multicast_granularity, result, error, "box of rank %d", box->rank);
    if (own > *bytes) *bytes = own;
    if (bound > *bytes) *bytes = bound;
    return DCPK_OK;
}

static dcpk_status open_to(const struct dcpk_driver *driver, uint64_t address, uint64_t bytes, dcpk_box *const *boxes,
                           int32_t count, dcpk_error *error) {
    cu_mem_access access[BOX_MAX_RANKS];
    memset(access, 0, sizeof access);
    for (int32_t r = 0; r < count; r++) {
        access[r].location.type = DRIVER_MEM_ON_DEVICE;
        access[r].location.id = boxes[r]->device->handle;
        access[r].flags = DRIVER_MEM_READ_WRITE;
    }
    cu_result result = CALL(driver, vmm_set_access, (address, bytes, access, (size_t)count));
    if (result == DRIVER_OK) return DCPK_OK;
    return FAILED(driver, vmm_set_access, result, error, "box of rank %d", boxes[0]->rank);
}

/* Reserves addresses and maps the object there; *address stays 0 on failure. */
static dcpk_status map(const dcpk_box *box, cu_mem object, uint64_t bytes, uint64_t *address, dcpk_error *error) {
    const struct dcpk_driver *driver = &box->device->driver;
    cu_ptr reserved = 0;
    *address = 0;
    cu_result result = CALL(driver, vmm_reserve, (&reserved, bytes, 0, 0, 0));
    if (result != DRIVER_OK) return FAILED(driver, vmm_reserve, result, error, "box of rank %d", box->rank);
    result = CALL(driver, vmm_map, (reserved, bytes, 0, object, 0));
    if (result != DRIVER_OK) {
        (void)CALL(driver, vmm_free, (reserved, bytes));
        return FAILED(driver, vmm_map, result, error, "box of rank %d", box->rank);
    }
    *address = reserved;
    return DCPK_OK;
}

static void unmap(const struct dcpk_driver *driver, uint64_t address, uint64_t bytes) {
    if (address == 0) return;
    (void)CALL(driver, vmm_unmap, (address, bytes));
    (void)CALL(driver, vmm_free, (address, bytes));
}

dcpk_status dcpk_box_vmm_alloc(dcpk_box *box, dcpk_error *error) {
    const struct dcpk_driver *driver = &box->device->driver;
    if (!box->device->info.multicast)
        return dcpk_error_set(error, DCPK_E_MULTICAST, "box of rank %d: publish=multicast, but device %d (%s) %s",
                              box->rank, box->device->info.ordinal, box->device->info.name,
                              dcpk_multicast_reason(box->device));
    uint64_t unit = 1;
    dcpk_status status = granularity(box, &unit, error);
    if (status != DCPK_OK) return status;
    uint64_t bytes = (box->layout.bytes + unit - 1) / unit * unit;
    cu_mem_properties properties = properties_of(box->device);
    cu_result result = CALL(driver, vmm_create, (&box->memory, bytes, &properties, 0));
    if (result != DRIVER_OK)
        return FAILED(driver, vmm_create, result, error, "box of rank %d: %llu bytes", box->rank,
                      (unsigned long long)bytes);
    box->mapped_bytes = bytes;
    status = map(box, box->memory, bytes, &box->base, error);
    box->mapped = status == DCPK_OK;
    return status == DCPK_OK ? open_to(driver, box->base, bytes, &box, 1, error) : status;
}

/* Gives up one reference; the last one unmaps and releases the multicast object, as far as the driver lets it. */
static void drop(struct box_multicast *shared) {
    if (atomic_fetch_sub(&shared->refs, 1) != 1) return;
    bool pushed;
    if (dcpk_device_enter(shared->device, &pushed, NULL) == DCPK_OK) {
        unmap(&shared->device->driver, shared->address, shared->bytes);
        if (shared->object != 0) (void)CALL(&shared->device->driver, vmm_release, (shared->object));
        dcpk_device_leave(shared->device, pushed);
    }
    dcpk_device_close(shared->device);
    free(shared);
}

static cu_result unbind(const dcpk_box *box) {
    const struct box_multicast *shared = box->multicast;
    if (shared == NULL) return DRIVER_OK;
    return CALL(&box->device->driver, multicast_unbind, (shared->object, box->device->handle, 0, shared->bytes));
}

static void leave(dcpk_box *box) {
    struct box_multicast *shared = box->multicast;
    box->multicast = NULL;
    box->values.q_multicast = 0;
    if (shared != NULL) drop(shared);
}

void dcpk_box_multicast_leave(dcpk_box *box) {
    (void)unbind(box);
    leave(box);
}

static bool keeps(cu_result result, enum dcpk_driver_call which, enum dcpk_driver_call *call) {
    *call = which;
    return result != DRIVER_OK && !dcpk_driver_lost(result);
}

cu_result dcpk_box_vmm_free(dcpk_box *box, enum dcpk_driver_call *call) {
    const struct dcpk_driver *driver = &box->device->driver;
    cu_result result = unbind(box);
    if (keeps(result, DRIVER_CALL_multicast_unbind, call)) return result;
    leave(box);
    if (box->mapped) result = CALL(driver, vmm_unmap, (box->base, box->mapped_bytes));
    if (keeps(result, DRIVER_CALL_vmm_unmap, call)) return result;
    box->mapped = false;
    if (box->base != 0) result = CALL(driver, vmm_free, (box->base, box->mapped_bytes));
    if (keeps(result, DRIVER_CALL_vmm_free, call)) return result;
    box->base = 0;
    if (box->mapped_bytes != 0) result = CALL(driver, vmm_release, (box->memory));
    if (keeps(result, DRIVER_CALL_vmm_release, call)) return result;
    box->mapped_bytes = 0;
    return DRIVER_OK;
}

static dcpk_status check_devices(dcpk_box *const *boxes, int32_t count, dcpk_error *error) {
    for (int32_t r = 0; r < count; r++) {
        if (boxes[r]->mapped_bytes != boxes[0]->mapped_bytes)
            return dcpk_error_set(error, DCPK_E_MULTICAST, "rank %d's device maps %llu bytes a box, rank 0's %llu", r,
                                  (unsigned long long)boxes[r]->mapped_bytes,
                                  (unsigned long long)boxes[0]->mapped_bytes);
        for (int32_t s = 0; s < r; s++)
            if (boxes[r]->device->handle == boxes[s]->device->handle)
                return dcpk_error_set(error, DCPK_E_MULTICAST,
                                      "ranks %d and %d share device %d: publish=multicast needs a device a rank; use "
                                      "publish=peer",
                                      s, r, boxes[r]->device->info.ordinal);
    }
    return DCPK_OK;
}

static dcpk_status create_object(struct box_multicast *shared, dcpk_box *const *boxes, int32_t count,
                                 dcpk_error *error) {
    const struct dcpk_driver *driver = &boxes[0]->device->driver;
    cu_multicast_properties properties = {.devices = (unsigned)count, .bytes = shared->bytes};
    cu_result result = CALL(driver, multicast_create, (&shared->object, &properties));
    if (result != DRIVER_OK) {
        shared->object = 0;
        return FAILED(driver, multicast_create, result, error, "%d devices", count);
    }
    for (int32_t r = 0; r < count; r++) {
        result = CALL(driver, multicast_add, (shared->object, boxes[r]->device->handle));
        if (result != DRIVER_OK) return FAILED(driver, multicast_add, result, error, "device of rank %d", r);
    }
    return DCPK_OK;
}

/* Binds every rank's memory; each bound box owns a reference. */
static dcpk_status bind(struct box_multicast *shared, dcpk_box *const *boxes, int32_t count, dcpk_error *error) {
    for (int32_t r = 0; r < count; r++) {
        const struct dcpk_driver *driver = &boxes[r]->device->driver;
        cu_result result = CALL(driver, multicast_bind, (shared->object, 0, boxes[r]->memory, 0, shared->bytes, 0));
        if (result != DRIVER_OK) return FAILED(driver, multicast_bind, result, error, "memory of rank %d", r);
        boxes[r]->multicast = shared;
        atomic_fetch_add(&shared->refs, 1);
    }
    return DCPK_OK;
}

static dcpk_status join(struct box_multicast *shared, dcpk_box *const *boxes, int32_t count, dcpk_error *error) {
    const struct dcpk_driver *driver = &boxes[0]->device->driver;
    dcpk_status status = DCPK_OK;
    for (int32_t r = 0; status == DCPK_OK && r < count; r++)
        status = open_to(driver, boxes[r]->base, boxes[r]->mapped_bytes, boxes, count, error);
    if (status == DCPK_OK) status = create_object(shared, boxes, count, error);
    if (status == DCPK_OK) status = bind(shared, boxes, count, error);
    if (status == DCPK_OK) status = map(boxes[0], shared->object, shared->bytes, &shared->address, error);
    if (status == DCPK_OK) status = open_to(driver, shared->address, shared->bytes, boxes, count, error);
    for (int32_t r = 0; status == DCPK_OK && r < count; r++)
        boxes[r]->values.q_multicast = shared->address + boxes[r]->layout.q;
    return status;
}

dcpk_status dcpk_box_multicast_join(dcpk_box *const *boxes, int32_t count, dcpk_error *error) {
    dcpk_status status = check_devices(boxes, count, error);
    if (status != DCPK_OK) return status;
    struct box_multicast *shared = calloc(1, sizeof *shared);
    if (shared == NULL) return dcpk_error_set(error, DCPK_E_NOMEM, "dcpk_box_connect: out of memory");
    shared->bytes = boxes[0]->mapped_bytes;
    shared->device = boxes[0]->device;
    shared->refs = 1; /* this call's own */
    dcpk_device_ref(shared->device);
    bool pushed;
    status = dcpk_device_enter(shared->device, &pushed, error);
    if (status == DCPK_OK) {
        status = join(shared, boxes, count, error);
        dcpk_device_leave(shared->device, pushed);
    }
    for (int32_t r = 0; status != DCPK_OK && r < count; r++)
        dcpk_box_multicast_leave(boxes[r]);
    drop(shared);
    return status;
}
