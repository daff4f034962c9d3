/* box_destroy.c - a box's end. Its memory is what every rank stores into: it goes only when no graph, no use and no
 * device of any connected rank can still do so. A step that the driver refuses leaves the box to be destroyed again.
 * Must not launch kernels. */
#include "runtime/box_state.h"
#include "runtime/error.h"

#include <stdlib.h>

/* Uses launched here and still running: the device's counter is behind what was launched. Graph replays only add to the
 * counter, so this never sees a use that is not there. After an abort counters stand still: the device's drain says. */
struct box_now dcpk_box_look(dcpk_box *box) {
    struct box_now now = {false, 0};
    uint32_t words[3] = {0, 0, 0}; /* next, current, abort */
    if (!box->armed || box->base == 0) return now;
    now.abort = __atomic_load_n(&box->record.host[0], __ATOMIC_ACQUIRE);
    if (now.abort != 0) return now;
    uint64_t opened = atomic_load(&box->opened), closed = atomic_load(&box->closed);
    if (dcpk_mem_read(box->device, words, box->values.control, sizeof words, NULL) != DCPK_OK) return now;
    now.abort = words[2];
    uint32_t begun = words[1] + 1; /* current is 0xFFFFFFFF before the first use */
    now.busy = now.abort == 0 && ((opened > 0 && (int32_t)((uint32_t)opened - begun) > 0) ||
                                  (closed > 0 && (int32_t)((uint32_t)closed - words[0]) > 0));
    return now;
}

/* of: the box itself, or that of a rank whose kernels store into it. */
static dcpk_status check_unused(const dcpk_box *box, dcpk_box *of, dcpk_error *error) {
    uint32_t held = dcpk_hold_count(of->hold);
    const char *graphs = held == 1 ? "" : "s", *live = held == 1 ? "s" : "";
    if (held > 0 && of == box)
        return dcpk_error_set(error, DCPK_E_BOX_BUSY, "box of rank %d: %u graph%s that captured a use still live%s",
                              box->rank, held, graphs, live);
    if (held > 0)
        return dcpk_error_set(error, DCPK_E_BOX_BUSY,
                              "box of rank %d: %u graph%s that captured a use of rank %d still live%s and would write "
                              "here",
                              box->rank, held, graphs, of->rank, live);
    if (!dcpk_box_look(of).busy) return DCPK_OK;
    if (of == box)
        return dcpk_error_set(error, DCPK_E_BOX_BUSY,
                              "box of rank %d: uses are in flight: synchronise its streams on every rank first",
                              box->rank);
    return dcpk_error_set(error, DCPK_E_BOX_BUSY,
                          "box of rank %d: rank %d's kernels may still write here: its uses are in flight: synchronise "
                          "its streams on every rank first",
                          box->rank, of->rank);
}

/* What no counter can see (a wait or a copy that is still queued, a store after an abort) ends before memory goes. A
 * context that is lost runs nothing any more. */
static dcpk_status drain(const dcpk_box *box, dcpk_device *device, int32_t rank, dcpk_error *error) {
    dcpk_error why;
    dcpk_error_init(&why);
    dcpk_status status = dcpk_device_sync(device, &why);
    if (status == DCPK_OK || dcpk_driver_lost(why.driver_result)) return DCPK_OK;
    if (why.driver_result == DRIVER_NOT_READY) status = DCPK_E_BOX_BUSY;
    if (rank == box->rank)
        dcpk_error_set(error, status, "box of rank %d: its device does not drain: %s", box->rank, why.text);
    else
        dcpk_error_set(error, status,
                       "box of rank %d: rank %d's kernels may still write here: its device does not drain: %s",
                       box->rank, rank, why.text);
    if (error != NULL && error->size >= sizeof *error) error->driver_result = why.driver_result;
    return status;
}

static dcpk_status check_quiet(dcpk_box *box, const struct box_group *group, dcpk_error *error) {
    int32_t peers = group != NULL ? group->count : 0;
    dcpk_status status = check_unused(box, box, error);
    for (int32_t r = 0; status == DCPK_OK && r < peers; r++)
        if (group->box[r] != NULL && r != box->rank) status = check_unused(box, group->box[r], error);
    if (status == DCPK_OK) status = drain(box, box->device, box->rank, error);
    for (int32_t r = 0; status == DCPK_OK && r < peers; r++)
        if (r != box->rank) status = drain(box, group->device[r], r, error);
    return status;
}

/* From here on no rank launches into the memory that goes. */
static void abandon(dcpk_box *box, const struct box_group *group) {
    int32_t peers = group != NULL ? group->count : 0, none;
    for (int32_t r = 0; r < peers; r++) {
        none = 0;
        if (group->box[r] != NULL) atomic_compare_exchange_strong(&group->box[r]->lost, &none, box->rank + 1);
    }
    none = 0;
    atomic_compare_exchange_strong(&box->lost, &none, box->rank + 1);
}

cu_result dcpk_box_give_back(dcpk_box *box, struct box_group *group, enum dcpk_driver_call *call) {
    cu_result result = DRIVER_OK;
    if (box->mapped_bytes != 0) {
        result = dcpk_box_vmm_free(box, call);
        if (result != DRIVER_OK) return result;
    } else if (box->base != 0) {
        *call = DRIVER_CALL_mem_free;
        result = CALL(&box->device->driver, mem_free, (box->base));
        if (result != DRIVER_OK && !dcpk_driver_lost(result)) return result;
        box->base = 0;
    }
    *call = DRIVER_CALL_mem_host_free;
    return dcpk_box_records_free(box, group);
}

void dcpk_box_forget(dcpk_box *box) {
    dcpk_device_close(box->device);
    free(box->hold);
    free(box);
}

static dcpk_status give_back_in_context(dcpk_box *box, struct box_group *group, dcpk_error *error) {
    enum dcpk_driver_call call;
    bool pushed;
    dcpk_error why;
    dcpk_error_init(&why);
    dcpk_status status = dcpk_device_enter(box->device, &pushed, &why);
    if (status != DCPK_OK && !dcpk_driver_lost(why.driver_result))
        return dcpk_error_set(error, status, "box of rank %d: %s", box->rank, why.text);
    abandon(box, group);
    if (status != DCPK_OK) return DCPK_OK;
    cu_result result = dcpk_box_give_back(box, group, &call);
    if (result != DRIVER_OK) {
        status = dcpk_driver_error(&box->device->driver, error, result, call, "box of rank %d", box->rank);
        status = dcpk_driver_kept(result, status, error);
    }
    dcpk_device_leave(box->device, pushed);
    return status;
}

dcpk_status dcpk_box_destroy(dcpk_box *box, dcpk_error *error) {
    if (box == NULL) return DCPK_OK;
    struct box_group *group = atomic_load(&box->group);
    bool last = false;
    if (group != NULL) pthread_mutex_lock(&group->lock);
    dcpk_status status = check_quiet(box, group, error);
    if (status == DCPK_OK) status = give_back_in_context(box, group, error);
    if (group != NULL) {
        if (status == DCPK_OK) {
            group->box[box->rank] = NULL;
            last = --group->refs == 0;
        }
        pthread_mutex_unlock(&group->lock);
    }
    if (status != DCPK_OK) return status;
    if (last) dcpk_box_group_free(group);
    dcpk_box_forget(box);
    return DCPK_OK;
}
