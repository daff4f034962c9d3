/* box_connect.c - the ranks of one process: peer access, comparison, tables, arming, all in one call.
 * Leaves every box as it was when anything fails. */
#include "runtime/box_state.h"
#include "runtime/error.h"

#include <string.h>

enum { CONNECTIONS = 32 };

/* Launches that block, or streams that share a hardware queue, let one rank's poll wait in front of what it waits for.
 */
static dcpk_status check_process(dcpk_box *const *boxes, int32_t count, dcpk_error *error) {
    for (int32_t r = 0; r < count; r++) {
        const dcpk_device *device = boxes[r]->device;
        if (boxes[r]->shape.event_ordered) continue;
        if (device->blocking)
            return dcpk_error_set(error, DCPK_E_BLOCKING_LAUNCH,
                                  "dcpk_box_connect: CUDA_LAUNCH_BLOCKING was set when rank %d's device was opened: "
                                  "ranks of one process would deadlock; unset it, or use event_ordered boxes",
                                  r);
        if (strcmp(device->info.kind, "cuda") == 0 && device->connections != CONNECTIONS)
            return dcpk_error_set(
                error, DCPK_E_ARG,
                "dcpk_box_connect: ranks of one process need CUDA_DEVICE_MAX_CONNECTIONS=%d before the "
                "driver starts (it was %d when rank %d's device was opened): streams that share a "
                "hardware queue deadlock",
                CONNECTIONS, device->connections, r);
    }
    return DCPK_OK;
}

/* Ranks on one device: two shares of one division, or nobody knows whose multiprocessors a polling grid sits on. */
static dcpk_status check_shares(dcpk_box *const *boxes, int32_t count, dcpk_error *error) {
    char one[DEVICE_LABEL], other[DEVICE_LABEL];
    for (int32_t r = 1; r < count; r++)
        for (int32_t s = 0; s < r; s++) {
            const dcpk_device *a = boxes[s]->device, *b = boxes[r]->device;
            if (a->handle != b->handle || (a->green == NULL && b->green == NULL) || boxes[r]->shape.event_ordered)
                continue;
            if (a->info.share_count == b->info.share_count && a->info.share_index != b->info.share_index) continue;
            return dcpk_error_set(
                error, DCPK_E_ARG,
                "dcpk_box_connect: rank %d is on %s, rank %d on %s: give ranks of one device the same "
                "share_count and a share_index each",
                s, dcpk_device_label(a, one), r, dcpk_device_label(b, other));
        }
    return DCPK_OK;
}

static dcpk_status check_boxes(dcpk_box *const *boxes, int32_t count, dcpk_error *error) {
    if (boxes == NULL || count < 2 || count > BOX_MAX_RANKS)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_connect: count is %d: 2..%d boxes", count, BOX_MAX_RANKS);
    for (int32_t r = 0; r < count; r++) {
        if (boxes[r] == NULL) return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_connect: boxes[%d] is NULL", r);
        if (boxes[r]->rank != r)
            return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_connect: boxes[%d] is that of rank %d: order by rank", r,
                                  boxes[r]->rank);
        if (atomic_load(&boxes[r]->lost)) return dcpk_box_dead_error(boxes[r], "dcpk_box_connect", error);
        if (boxes[r]->attached)
            return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_connect: rank %d's box has its peers already", r);
    }
    for (int32_t r = 1; r < count; r++) {
        uint8_t digest[DCPK_DIGEST_BYTES];
        dcpk_box_digest_pack(boxes[r], digest);
        dcpk_status status = dcpk_box_digest_compare(boxes[0], r, digest, error);
        if (status != DCPK_OK) return status;
    }
    if (boxes[0]->shape.dcp != count)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_connect: %d boxes, but they were made for dcp=%d", count,
                              boxes[0]->shape.dcp);
    dcpk_status status = check_shares(boxes, count, error);
    return status == DCPK_OK ? check_process(boxes, count, error) : status;
}

/* Lets `from` reach `to`'s memory. */
static dcpk_status enable(const dcpk_box *from, const dcpk_box *to, dcpk_error *error) {
    const struct dcpk_driver *driver = &from->device->driver;
    if (from->device->handle == to->device->handle) return DCPK_OK;
    int can = 0;
    cu_result result = CALL(driver, device_can_peer, (&can, from->device->handle, to->device->handle));
    if (result != DRIVER_OK)
        return FAILED(driver, device_can_peer, result, error, "ranks %d and %d", from->rank, to->rank);
    if (!can)
        return dcpk_error_set(
            error, DCPK_E_DRIVER,
            "dcpk_box_connect: device %d (rank %d) cannot reach the memory of device %d (rank %d): no "
            "peer access between them",
            from->device->info.ordinal, from->rank, to->device->info.ordinal, to->rank);
    bool pushed;
    dcpk_status status = dcpk_device_enter(from->device, &pushed, error);
    if (status != DCPK_OK) return status;
    result = CALL(driver, ctx_enable_peer, (to->device->context, 0));
    if (result != DRIVER_OK && result != DRIVER_PEER_ACCESS_ALREADY_ENABLED)
        status = FAILED(driver, ctx_enable_peer, result, error, "from rank %d to rank %d", from->rank, to->rank);
    dcpk_device_leave(from->device, pushed);
    return status;
}

static void warn_shared(dcpk_box *const *boxes, int32_t count) {
    for (int32_t r = 1; r < count; r++)
        for (int32_t s = 0; s < r; s++) {
            const dcpk_device *device = boxes[r]->device;
            if (boxes[s]->device->context != device->context || device->green != NULL ||
                boxes[r]->shape.event_ordered || device->log == NULL)
                continue;
            device->log(device->log_self, DCPK_LOG_WARNING,
                        "ranks of a box share one context: one rank's polling grid can starve another's producer; give "
                        "each a share of the device, or make the box event_ordered");
            return;
        }
}

dcpk_status dcpk_box_connect(dcpk_box *const *boxes, int32_t count, dcpk_error *error) {
    dcpk_status status = check_boxes(boxes, count, error);
    if (status != DCPK_OK) return status;
    uint64_t peers[BOX_MAX_RANKS];
    warn_shared(boxes, count);
    for (int32_t r = 0; r < count; r++)
        peers[r] = boxes[r]->base;
    for (int32_t r = 0; r < count; r++)
        for (int32_t s = 0; s < count; s++)
            if (r != s && (status = enable(boxes[r], boxes[s], error)) != DCPK_OK) return status;
    if (boxes[0]->shape.publish == DCPK_PUBLISH_MULTICAST) status = dcpk_box_multicast_join(boxes, count, error);
    for (int32_t r = 0; status == DCPK_OK && r < count; r++)
        status = dcpk_box_upload(boxes[r], peers, error);
    for (int32_t r = 0; status == DCPK_OK && r < count; r++)
        status = dcpk_box_fill(boxes[r], error);
    if (status == DCPK_OK && !dcpk_box_group_make(boxes, count))
        status = dcpk_error_set(error, DCPK_E_NOMEM, "dcpk_box_connect: out of memory");
    for (int32_t r = 0; r < count; r++) {
        boxes[r]->attached = status == DCPK_OK;
        if (status != DCPK_OK) {
            boxes[r]->armed = false;
            dcpk_box_multicast_leave(boxes[r]);
        }
    }
    return status;
}
