/* box_group.c - what the boxes of one process's ranks share: every rank's record and device, kept until the last of
 * them goes. May call the driver to free records. Must not touch boxes' memory. */
#include "runtime/box_state.h"

#include <stdlib.h>

bool dcpk_box_group_make(dcpk_box *const *boxes, int32_t count) {
    struct box_group *group = count > 0 ? calloc(1, sizeof *group) : NULL;
    if (group == NULL) return false;
    if (pthread_mutex_init(&group->lock, NULL) != 0) {
        free(group);
        return false;
    }
    group->refs = (uint32_t)count;
    group->count = count;
    for (int32_t r = 0; r < count; r++) {
        group->box[r] = boxes[r];
        group->device[r] = boxes[r]->device;
        group->record[r] = boxes[r]->record;
        dcpk_device_ref(group->device[r]);
    }
    for (int32_t r = 0; r < count; r++)
        atomic_store_explicit(&boxes[r]->group, group, memory_order_release);
    return true;
}

static cu_result free_record(const dcpk_device *device, struct box_record *record) {
    if (record->host == NULL) return DRIVER_OK;
    bool pushed;
    dcpk_error why;
    dcpk_error_init(&why);
    cu_result result = DRIVER_INVALID_CONTEXT;
    if (dcpk_device_enter(device, &pushed, &why) == DCPK_OK) {
        result = CALL(&device->driver, mem_host_free, (record->host));
        dcpk_device_leave(device, pushed);
    } else if (why.driver_result != DRIVER_OK)
        result = why.driver_result;
    if (result != DRIVER_OK && !dcpk_driver_lost(result)) return result;
    record->host = NULL;
    return DRIVER_OK;
}

/* The box's own record last: as long as anything fails, its status can be read. */
cu_result dcpk_box_records_free(dcpk_box *box, struct box_group *group) {
    cu_result result = DRIVER_OK;
    if (group == NULL) return free_record(box->device, &box->record);
    if (group->refs > 1) return DRIVER_OK;
    for (int32_t r = 0; result == DRIVER_OK && r < group->count; r++)
        if (r != box->rank) result = free_record(group->device[r], &group->record[r]);
    return result == DRIVER_OK ? free_record(box->device, &group->record[box->rank]) : result;
}

void dcpk_box_group_free(struct box_group *group) {
    for (int32_t r = 0; r < group->count; r++)
        dcpk_device_close(group->device[r]);
    pthread_mutex_destroy(&group->lock);
    free(group);
}
