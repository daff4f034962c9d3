/* box.c - a box's beginning: memory and pinned record at creation, peers at attach; what callers may ask of it. May use
 * device, memory and the other box files. Must not launch kernels. */
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
        enum dcpk_driver_call call;
        if (status != DCPK_OK) (void)dcpk_box_give_back(box, NULL, &call);
        dcpk_device_leave(device, pushed);
    }
    if (status != DCPK_OK) {
        dcpk_box_forget(box);
        return status;
    }
    set_values(box);
    *out = box;
    return DCPK_OK;
}

/* Two ranks' mailboxes in one place would each take the other's words for theirs. */
static dcpk_status check_apart(const dcpk_box *box, const uint64_t *peers, dcpk_error *error) {
    uint64_t bytes = box->layout.shared_bytes;
    for (int32_t r = 1; r < box->shape.dcp; r++)
        for (int32_t s = 0; s < r; s++) {
            uint64_t apart = peers[r] > peers[s] ? peers[r] - peers[s] : peers[s] - peers[r];
            if (apart >= bytes) continue;
            return dcpk_error_set(error, DCPK_E_ARG,
                                  "dcpk_box_attach: peers[%d] = 0x%llx and peers[%d] = 0x%llx overlap: ranks %d and %d "
                                  "need a box of %llu bytes each",
                                  s, (unsigned long long)peers[s], r, (unsigned long long)peers[r], s, r,
                                  (unsigned long long)bytes);
        }
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
    dcpk_status status = check_apart(box, peers, error);
    if (status != DCPK_OK) return status;
    status = dcpk_box_upload(box, peers, error);
    box->attached = status == DCPK_OK;
    return status;
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
