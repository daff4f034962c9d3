/* hold.h - graphs that captured a use of something, so that freeing it early can be refused. Internal.
 * Each captured graph gets one user object; the driver calls back when the last graph and executable that own it are
 * gone. A driver without user objects (no graphs) holds nothing. */
#ifndef DCPK_RUNTIME_HOLD_H
#define DCPK_RUNTIME_HOLD_H

#include "runtime/driver.h"

#include <stdatomic.h>
#include <stdbool.h>

struct capture_hold {
    _Atomic uint64_t capture; /* id of the capture that was last given an object */
    _Atomic uint32_t held;    /* objects that graphs own */
};

struct capture { /* what a stream captures right now */
    bool active;
    uint64_t id;
    cu_graph graph;
};

/* One driver call, none on the legacy stream (it cannot capture) or where the driver cannot say. */
void dcpk_capture_of(const struct dcpk_driver *driver, void *stream, struct capture *capture);

/* Lets the graph under capture own the holder, once a capture. */
dcpk_status dcpk_hold_take(struct capture_hold *hold, const struct dcpk_driver *driver, const struct capture *capture,
                           const char *what, dcpk_error *error);

static inline uint32_t dcpk_hold_count(const struct capture_hold *hold) {
    return atomic_load_explicit(&hold->held, memory_order_acquire);
}

#endif
