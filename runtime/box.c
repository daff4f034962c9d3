/* box.c - a box's life: memory and pinned record at creation, peers at connect or attach, everything back at
 * destruction. May use device, memory and the other box files. Must not launch kernels. */
#include "runtime/box_state.h"
#include "runtime/error.h"

#include <stdlib.h>
#include <string.h>

enum { RECORD_BYTES = BOX_RECORD_WORDS * sizeof(uint32_t) };

static dcpk_status make_record(dcpk_box *box, dcpk_error *error) {
    const struct dcpk_driver *driver = &box->device->driver;
    void *host = NULL;
    cu_ptr address = 0;
    cu_result result = CALL(driver, mem_host_alloc, (&host, RECORD_BYTES, DRIVER_HOST_PORTABLE | DRIVER_HOST_MAPPED));
    if (result != DRIVER_OK) return FAILED(driver, mem_host_alloc, result, error, "box of rank %d", box->rank);
    memset(host, 0, RECORD_BYTES);
    box->record.host = host;
    result = CALL(driver, mem_host_address, (&address, host, 0));
    if (result != DRIVER_OK) return FAILED(driver, mem_host_address, result, error, "box of rank %d", box->rank);
    box->record.address = address;
    return DCPK_OK;
}

static dcpk_status make_memory(dcpk_box *box, dcpk_error *error) {
    if (box->shape.publish == DCPK_PUBLISH_MULTICAST) return dcpk_box_vmm_alloc(box, error);
    const struct dcpk_driver *driver = &box->device->driver;
    cu_ptr base = 0;
    cu_result result = CALL(driver, mem_alloc, (&base, box->layout.bytes));
    if (result != DRIVER_OK)
        return FAILED(driver, mem_alloc, result, error, "box of rank %d: %llu bytes", box->rank,
                      (unsigned long long)box->layout.bytes);
    box->base = base;
    return DCPK_OK;
}

static void set_values(dcpk_box *box) {
    const dcpk_box_layout *layout = &box->layout;
    box->values.control = box->base + layout->control;
    box->values.q_box = box->base + layout->q;
    box->values.partial = box->base + layout->partial;
    box->values.lse = box->base + layout->lse;
    box->values.ledger = box->base + layout->ledger;
    box->values.tables = box->base + layout->tables;
    box->values.rank = (uint32_t)box->rank;
}

/* Frees a pinned record; its device's context current. */
static cu_result free_record(const dcpk_device *device, struct box_record *record) {
    cu_result result = DRIVER_OK;
    if (record->host != NULL) result = CALL(&device->driver, mem_host_free, (record->host));
    record->host = NULL;
    return result;
}

/* The last box of a group gives back every rank's record. */
static void leave_group(struct box_group *group) {
    if (atomic_fetch_sub_explicit(&group->refs, 1, memory_order_acq_rel) != 1) return;
    for (int32_t r = 0; r < group->count; r++) {
        bool pushed;
        if (dcpk_device_enter(group->device[r], &pushed, NULL) == DCPK_OK) {
            (void)free_record(group->device[r], &group->record[r]);
            dcpk_device_leave(group->device[r], pushed);
        }
        dcpk_device_close(group->device[r]);
    }
    free(group);
}

/* Gives everything back; the first driver error is kept in *error. */
static dcpk_status release(dcpk_box *box, dcpk_error *error) {
    const struct dcpk_driver *driver = &box->device->driver;
    bool pushed;
    dcpk_status status = dcpk_device_enter(box->device, &pushed, error);
    if (status == DCPK_OK) {
        cu_result result = DRIVER_OK;
        if (box->mapped_bytes != 0)
            dcpk_box_vmm_free(box);
        else if (box->base != 0)
            result = CALL(driver, mem_free, (box->base));
        if (result != DRIVER_OK) status = FAILED(driver, mem_free, result, error, "box of rank %d", box->rank);
        if (atomic_load(&box->group) == NULL) {
            result = free_record(box->device, &box->record);
            if (result != DRIVER_OK && status == DCPK_OK)
                status = FAILED(driver, mem_host_free, result, error, "box of rank %d", box->rank);
        }
        dcpk_device_leave(box->device, pushed);
    }
    struct box_group *group = atomic_load(&box->group);
    if (group != NULL) leave_group(group);
    dcpk_device_close(box->device);
    free(box->hold);
    free(box);
    return status;
}

dcpk_status dcpk_box_create(dcpk_device *device, const dcpk_box_shape *shape, int32_t rank, dcpk_box **out,
                            dcpk_error *error) {
    if (device == NULL || out == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_create: %s is NULL", device ? "out" : "device");
    *out = NULL;
    dcpk_box_shape resolved;
    dcpk_status status = dcpk_box_shape_resolve(shape, &resolved, error);
    if (status != DCPK_OK) return status;
    if (rank < 0 || rank >= resolved.dcp)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_create: rank is %d: 0..%d", rank, resolved.dcp - 1);
    dcpk_box *box = calloc(1, sizeof *box);
    struct capture_hold *hold = calloc(1, sizeof *hold);
    if (box == NULL || hold == NULL) {
        free(box);
        free(hold);
        return dcpk_error_set(error, DCPK_E_NOMEM, "dcpk_box_create: out of memory");
    }
    box->device = device;
    box->shape = resolved;
    box->rank = rank;
    box->hold = hold;
    dcpk_device_ref(device);
    box->layout.size = (uint32_t)sizeof box->layout;
    status = dcpk_box_layout_of(&resolved, &box->layout, error);
    bool pushed;
    if (status == DCPK_OK) status = dcpk_device_enter(device, &pushed, error);
    if (status == DCPK_OK) {
        status = make_record(box, error);
        if (status == DCPK_OK) status = make_memory(box, error);
        dcpk_device_leave(device, pushed);
    }
    if (status != DCPK_OK) {
        release(box, NULL);
        return status;
    }
    set_values(box);
    *out = box;
    return DCPK_OK;
}

dcpk_status dcpk_box_attach(dcpk_box *box, const uint64_t *peers, const uint8_t *digests, dcpk_error *error) {
    if (box == NULL || peers == NULL || digests == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_attach: box, peers or digests is NULL");
    if (atomic_load(&box->lost)) return dcpk_box_dead_error(box, "dcpk_box_attach", error);
    if (box->attached)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_attach: rank %d's box is attached already", box->rank);
    if (box->shape.publish == DCPK_PUBLISH_MULTICAST)
        return dcpk_error_set(error, DCPK_E_MULTICAST,
                              "dcpk_box_attach: publish=multicast serves the ranks of one process (dcpk_box_connect); "
                              "use publish=peer");
    for (int32_t r = 0; r < box->shape.dcp; r++) {
        dcpk_status status = dcpk_box_digest_compare(box, r, digests + (size_t)r * DCPK_DIGEST_BYTES, error);
        if (status != DCPK_OK) return status;
        if (peers[r] == 0 || peers[r] % 256 != 0)
            return dcpk_error_set(error, DCPK_E_ARG,
                                  "dcpk_box_attach: peers[%d] = 0x%llx is no multiple of 256 above 0", r,
                                  (unsigned long long)peers[r]);
    }
    if (peers[box->rank] != box->base)
        return dcpk_error_set(error, DCPK_E_ARG,
                              "dcpk_box_attach: peers[%d] = 0x%llx, but this rank's box is at 0x%llx", box->rank,
                              (unsigned long long)peers[box->rank], (unsigned long long)box->base);
    dcpk_status status = dcpk_box_upload(box, peers, error);
    box->attached = status == DCPK_OK;
    return status;
}

/* A use launched here and still running: the device's counter is behind what was launched. Graph replays only add to
 * the counter, so this never sees a use that is not there. */
static bool in_flight(dcpk_box *box) {
    uint32_t words[2] = {0, 0}; /* next, current */
    if (!box->armed || dcpk_box_is_dead(box)) return false;
    uint64_t opened = atomic_load(&box->opened), closed = atomic_load(&box->closed);
    if (opened == 0 && closed == 0) return false;
    if (dcpk_mem_read(box->device, words, box->values.control, sizeof words, NULL) != DCPK_OK) return false;
    uint32_t begun = words[1] + 1; /* current is 0xFFFFFFFF before the first use */
    return (opened > 0 && (int32_t)((uint32_t)opened - begun) > 0) ||
           (closed > 0 && (int32_t)((uint32_t)closed - words[0]) > 0);
}

dcpk_status dcpk_box_destroy(dcpk_box *box, dcpk_error *error) {
    if (box == NULL) return DCPK_OK;
    uint32_t held = dcpk_hold_count(box->hold);
    if (held > 0)
        return dcpk_error_set(error, DCPK_E_BOX_BUSY, "box of rank %d: %u graph%s that captured a use still live%s",
                              box->rank, held, held == 1 ? "" : "s", held == 1 ? "s" : "");
    if (in_flight(box))
        return dcpk_error_set(error, DCPK_E_BOX_BUSY,
                              "box of rank %d: uses are in flight: synchronise its streams on every rank first",
                              box->rank);
    /* what the counter cannot see (a wait or a copy that is still queued) ends before the memory goes */
    dcpk_error why;
    dcpk_error_init(&why);
    dcpk_status drained = dcpk_device_sync(box->device, &why);
    if (drained != DCPK_OK && why.driver_result == DRIVER_NOT_READY)
        return dcpk_error_set(error, DCPK_E_BOX_BUSY, "box of rank %d: its device does not drain: %s", box->rank,
                              why.text);
    int32_t rank = box->rank;
    dcpk_status status = release(box, drained == DCPK_OK ? error : NULL);
    return drained != DCPK_OK ? dcpk_error_set(error, drained, "box of rank %d: %s", rank, why.text) : status;
}

uint64_t dcpk_box_base(const dcpk_box *box) {
    return box != NULL ? box->base : 0;
}

dcpk_device *dcpk_box_device(const dcpk_box *box) {
    return box != NULL ? box->device : NULL;
}

int32_t dcpk_box_rank(const dcpk_box *box) {
    return box != NULL ? box->rank : -1;
}

bool dcpk_box_group_make(dcpk_box *const *boxes, int32_t count) {
    struct box_group *group = count > 0 ? calloc(1, sizeof *group) : NULL;
    if (group == NULL) return false;
    group->refs = (uint32_t)count;
    group->count = count;
    for (int32_t r = 0; r < count; r++) {
        group->device[r] = boxes[r]->device;
        group->record[r] = boxes[r]->record;
        dcpk_device_ref(group->device[r]);
    }
    for (int32_t r = 0; r < count; r++)
        atomic_store_explicit(&boxes[r]->group, group, memory_order_release);
    return true;
}
