/* box_rearm.c - a dead box alive again, under barriers of all ranks: no word and no abort store of the old life may
 * land after a refill, so every rank drains before any rank refills, and every rank has refilled before any launches.
 */
#include "runtime/box_state.h"
#include "runtime/error.h"

static dcpk_status lose(dcpk_box *box, int which, dcpk_error *error) {
    atomic_store(&box->lost, BOX_LOST_REARM);
    return dcpk_error_set(error, DCPK_E_BOX_DEAD,
                          "re-arm of rank %d's box: not every rank came to barrier %d: the box must be built anew, in "
                          "fresh memory, on every rank",
                          box->rank, which);
}

static dcpk_status check(const dcpk_box *box, dcpk_error *error) {
    if (box == NULL) return dcpk_error_set(error, DCPK_E_ARG, "re-arm: box is NULL");
    if (atomic_load(&box->lost)) return dcpk_box_dead_error(box, "re-arm", error);
    if (box->attached) return DCPK_OK;
    return dcpk_error_set(error, DCPK_E_ARG, "re-arm: rank %d's box knows no peers yet", box->rank);
}

/* Waits until nothing of the old life runs on this rank. Kernels that do not leave keep it from barrier 1. */
static dcpk_status drain(dcpk_box *box, dcpk_error *error) {
    dcpk_error why;
    dcpk_error_init(&why);
    dcpk_status status = dcpk_device_sync(box->device, &why); /* its kernels leave by the abort word */
    if (status == DCPK_OK) return status;
    atomic_store(&box->lost, BOX_LOST_REARM);
    if (why.driver_result == DRIVER_NOT_READY) status = DCPK_E_BOX_DEAD;
    dcpk_error_set(error, status, "re-arm of rank %d's box: its device does not drain: %s", box->rank, why.text);
    if (error != NULL && error->size >= sizeof *error) error->driver_result = why.driver_result;
    return status;
}

dcpk_status dcpk_box_rearm(dcpk_box *box, int (*barrier)(void *self), void *self, dcpk_error *error) {
    dcpk_status status = check(box, error);
    if (status != DCPK_OK) return status;
    if (barrier == NULL) return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_rearm: barrier is NULL");
    status = drain(box, error);
    if (status != DCPK_OK) return status;
    if (barrier(self) != 0) return lose(box, 1, error);
    status = dcpk_box_fill(box, error);
    if (status != DCPK_OK) {
        atomic_store(&box->lost, BOX_LOST_REARM);
        return status;
    }
    return barrier(self) != 0 ? lose(box, 2, error) : DCPK_OK;
}

static void lose_all(dcpk_box *const *boxes, int32_t count) {
    for (int32_t r = 0; r < count; r++)
        atomic_store(&boxes[r]->lost, BOX_LOST_REARM);
}

dcpk_status dcpk_box_rearm_all(dcpk_box *const *boxes, int32_t count, const int32_t *joined, dcpk_error *error) {
    if (boxes == NULL || count < 1)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_box_rearm_all: count is %d: all ranks' boxes", count);
    for (int32_t r = 0; r < count; r++) {
        dcpk_status status = check(boxes[r], error);
        if (status != DCPK_OK) return status;
        if (boxes[r]->rank != r || boxes[r]->shape.dcp != count)
            return dcpk_error_set(error, DCPK_E_ARG,
                                  "dcpk_box_rearm_all: boxes[%d] of %d is rank %d of dcp=%d: give all ranks in order",
                                  r, count, boxes[r]->rank, boxes[r]->shape.dcp);
    }
    for (int32_t r = 0; joined != NULL && r < count; r++)
        if (!joined[r]) {
            lose_all(boxes, count);
            return dcpk_error_set(
                error, DCPK_E_BOX_DEAD,
                "dcpk_box_rearm_all: rank %d did not join: nothing was refilled, the box must be built "
                "anew, in fresh memory, on every rank",
                r);
        }
    dcpk_status status = DCPK_OK;
    for (int32_t r = 0; status == DCPK_OK && r < count; r++)
        status = drain(boxes[r], error);
    for (int32_t r = 0; status == DCPK_OK && r < count; r++)
        status = dcpk_box_fill(boxes[r], error);
    if (status != DCPK_OK) lose_all(boxes, count);
    return status;
}
