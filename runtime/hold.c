/* hold.c - ties kernels and boxes to the graphs that captured them (cuUserObject). May call the driver; the driver's
 * thread calls dropped(), which must not call anything. */
#include "runtime/hold.h"
#include "runtime/error.h"

void dcpk_capture_of(const struct dcpk_driver *driver, void *stream, struct capture *capture) {
    int status = DRIVER_CAPTURE_NONE;
    unsigned long long id = 0;
    capture->active = false;
    capture->graph = NULL;
    if (stream == NULL || driver->stream_capture_info == NULL) return;
    if (driver->stream_capture_info(stream, &status, &id, &capture->graph, NULL, NULL) != DRIVER_OK) return;
    capture->active = status == DRIVER_CAPTURE_ACTIVE;
    capture->id = id;
}

static void dropped(void *self) {
    struct capture_hold *hold = self;
    atomic_fetch_sub_explicit(&hold->held, 1, memory_order_release);
}

dcpk_status dcpk_hold_take(struct capture_hold *hold, const struct dcpk_driver *driver, const struct capture *capture,
                           const char *what, dcpk_error *error) {
    if (!capture->active || capture->graph == NULL || driver->user_object_create == NULL ||
        driver->graph_retain_object == NULL)
        return DCPK_OK;
    if (atomic_load_explicit(&hold->capture, memory_order_relaxed) == capture->id) return DCPK_OK;
    cu_user_object object = NULL;
    atomic_fetch_add_explicit(&hold->held, 1, memory_order_relaxed);
    cu_result result = driver->user_object_create(&object, hold, dropped, 1, DRIVER_USER_OBJECT_NO_SYNC);
    if (result != DRIVER_OK) {
        dropped(hold);
        return FAILED(driver, user_object_create, result, error, "%s, captured", what);
    }
    result = driver->graph_retain_object(capture->graph, object, 1, DRIVER_GRAPH_OBJECT_MOVE);
    if (result != DRIVER_OK) {
        (void)CALL(driver, user_object_release, (object, 1)); /* calls dropped */
        return FAILED(driver, graph_retain_object, result, error, "%s, captured", what);
    }
    atomic_store_explicit(&hold->capture, capture->id, memory_order_relaxed);
    return DCPK_OK;
}
