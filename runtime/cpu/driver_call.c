/* driver_call.c - the frame of every cu* call: the mutex, what a call needs, the sticky error, running the devices.
 *
 * After a fault every call that needs an initialised machine gives the fault's code. */
#include "runtime/cpu/driver.h"

bool call_begin(struct call *call, enum call_needs needs) {
    struct world *world = host_enter();
    *call = (struct call){.world = world};
    if (needs == NEEDS_NOTHING) return true;
    if (object_owner_runs())
        call->result = R_CUDA_ERROR_NOT_PERMITTED;
    else if (!world->alive)
        call->result = R_CUDA_ERROR_NOT_INITIALIZED;
    else if (world->faulted)
        call->result = world->fault.code;
    if (call->result || needs == NEEDS_INIT) return !call->result;
    call->device = context_current(world);
    if (!call->device) call->result = R_CUDA_ERROR_INVALID_CONTEXT;
    return call->device != NULL;
}

cu_result call_end(struct call *call) {
    cu_result result = call->result;
    struct user_object *dropped = call->world->dropped;
    call->world->dropped = NULL;
    host_leave(call->world);
    objects_tell(dropped);
    return result;
}

void call_run(struct call *call, run_done *done, const void *what) {
    switch (world_run(call->world, done, what, RUN_TO_THE_END)) {
    case RUN_DONE:
        return;
    case RUN_FAULT:
        call->result = call->world->fault.code;
        return;
    case RUN_STALLED:
    case RUN_SLICE_OVER:
        call->result = R_CUDA_ERROR_NOT_READY;
        return;
    case RUN_RESET:
        call->result = R_CUDA_ERROR_CONTEXT_IS_DESTROYED;
        return;
    }
}
