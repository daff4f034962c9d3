/* driver_context.c - primary contexts, the thread's stack of current ones, peer access.
 *
 * A device has one context, its primary one; its handle is the device's address. The stack is the thread's own, as the
 * driver API has it; entries of an earlier life of the machine count as none. */
#include "runtime/cpu/driver.h"

enum { STACK_DEPTH = 32 };

static _Thread_local struct {
    uint64_t life;
    int depth;
    struct device *entries[STACK_DEPTH];
} stack;

static void refresh(const struct world *world) {
    if (stack.life == world->life) return;
    stack.life = world->life;
    stack.depth = 0;
}

struct device *context_device(struct world *world, cu_context context) {
    for (int d = 0; d < world->device_count; d++)
        if (context == &world->devices[d] && world->devices[d].retained) return &world->devices[d];
    return NULL;
}

struct device *context_current(struct world *world) {
    refresh(world);
    return stack.depth ? context_device(world, stack.entries[stack.depth - 1]) : NULL;
}

cu_result cpu_primary_retain(cu_context *context, cu_device device) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    if (!context)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (device < 0 || device >= call.world->device_count)
        call.result = R_CUDA_ERROR_INVALID_DEVICE;
    if (call.result) return call_end(&call);
    call.world->devices[device].retained++;
    *context = &call.world->devices[device];
    return call_end(&call);
}

/* Unlike hardware's, a context that nobody retains keeps its memory until it is retained again or the machine is reset.
 */
cu_result cpu_primary_release(cu_device device) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    if (device < 0 || device >= call.world->device_count)
        call.result = R_CUDA_ERROR_INVALID_DEVICE;
    else if (!call.world->devices[device].retained)
        call.result = R_CUDA_ERROR_INVALID_CONTEXT;
    else
        call.world->devices[device].retained--;
    return call_end(&call);
}

cu_result cpu_ctx_get_current(cu_context *context) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    if (context)
        *context = context_current(call.world);
    else
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    return call_end(&call);
}

cu_result cpu_ctx_set_current(cu_context context) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    refresh(call.world);
    if (!context) {
        if (stack.depth) stack.depth--;
        return call_end(&call);
    }
    struct device *device = context_device(call.world, context);
    if (!device)
        call.result = R_CUDA_ERROR_INVALID_CONTEXT;
    else if (stack.depth)
        stack.entries[stack.depth - 1] = device;
    else
        stack.entries[stack.depth++] = device;
    return call_end(&call);
}

cu_result cpu_ctx_push(cu_context context) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    refresh(call.world);
    struct device *device = context_device(call.world, context);
    if (!device)
        call.result = R_CUDA_ERROR_INVALID_CONTEXT;
    else if (stack.depth == STACK_DEPTH)
        call.result = R_CUDA_ERROR_OUT_OF_MEMORY;
    else
        stack.entries[stack.depth++] = device;
    return call_end(&call);
}

cu_result cpu_ctx_pop(cu_context *context) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    refresh(call.world);
    if (!stack.depth) {
        call.result = R_CUDA_ERROR_INVALID_CONTEXT;
        return call_end(&call);
    }
    stack.depth--;
    if (context) *context = stack.entries[stack.depth];
    return call_end(&call);
}

cu_result cpu_ctx_get_device(cu_device *device) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    if (device)
        *device = call.device->ordinal;
    else
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    return call_end(&call);
}

cu_result cpu_ctx_synchronize(void) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    if (!capture_allows_device(&call, call.device)) return call_end(&call);
    struct work work = device_work(call.device);
    call_run(&call, work_done, &work);
    return call_end(&call);
}

/* Numerically lower is more urgent. */
cu_result cpu_ctx_priority_range(int *least, int *greatest) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return call_end(&call);
}

static cu_result change_peer(cu_context peer, bool enable) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    struct device *other = context_device(call.world, peer);
    if (!other)
        call.result = R_CUDA_ERROR_INVALID_CONTEXT;
    else if (other == call.device)
        call.result = R_CUDA_ERROR_INVALID_DEVICE;
    if (call.result) return call_end(&call);
    bool enabled = call.device->peers >> other->ordinal & 1;
    if (enable && enabled)
        call.result = R_CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    else if (!enable && !enabled)
        call.result = R_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    else
        memory_enable_peer(call.world, call.device->ordinal, other->ordinal, enable);
    return call_end(&call);
}

cu_result cpu_ctx_enable_peer(cu_context peer, unsigned flags) {
    return flags ? R_CUDA_ERROR_INVALID_VALUE : change_peer(peer, true);
}

cu_result cpu_ctx_disable_peer(cu_context peer) {
    return change_peer(peer, false);
}
