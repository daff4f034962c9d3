/* driver_stream.c - streams and events as the caller sees them. NULL and the legacy handle are the default stream of
 * the current context's device; the per-thread handle is a blocking stream that each thread of the host has on each
 * device, from its first use on. What captures forbid and take is driver_capture.c's. */
#include "runtime/cpu/driver.h"

#include <stdlib.h>

enum { QUERY_ROUNDS = 64, LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 };

/* It stays with the device: a thread that ends leaves it behind, idle. */
static struct stream *per_thread_stream(struct call *call) {
    uint64_t thread = this_thread(call->world);
    struct stream *stream = call->device->streams;
    while (stream && stream->thread != thread)
        stream = stream->next;
    if (!stream) stream = stream_create(call->device, LEAST_PRIORITY, true);
    if (stream)
        stream->thread = thread;
    else
        call->result = R_CUDA_ERROR_OUT_OF_MEMORY;
    return stream;
}

struct stream *stream_of(struct call *call, cu_stream handle) {
    if (!handle || handle == (cu_stream)(uintptr_t)1) return call->device->streams;
    if (handle == (cu_stream)(uintptr_t)2) return per_thread_stream(call);
    if (handle_is(call->world, handle, HANDLE_STREAM)) return handle;
    call->result = R_CUDA_ERROR_INVALID_HANDLE;
    return NULL;
}

cu_result cpu_stream_create_priority(cu_stream *stream, unsigned flags, int priority) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT) || !capture_allows_unsafe(&call)) return call_end(&call);
    if (!stream || flags & ~(unsigned)DRIVER_STREAM_NON_BLOCKING) {
        call.result = R_CUDA_ERROR_INVALID_VALUE;
        return call_end(&call);
    }
    if (priority > LEAST_PRIORITY) priority = LEAST_PRIORITY;
    if (priority < GREATEST_PRIORITY) priority = GREATEST_PRIORITY;
    struct stream *made = stream_create(call.device, priority, !(flags & DRIVER_STREAM_NON_BLOCKING));
    if (!made || handle_add(call.world, made, HANDLE_STREAM)) {
        if (made) stream_destroy(made);
        call.result = R_CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        *stream = made;
    }
    return call_end(&call);
}

cu_result cpu_stream_create(cu_stream *stream, unsigned flags) {
    return cpu_stream_create_priority(stream, flags, LEAST_PRIORITY);
}

/* Its work goes on; the stream goes with the last of it. */
cu_result cpu_stream_destroy(cu_stream stream) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    if (!handle_is(call.world, stream, HANDLE_STREAM)) {
        call.result = R_CUDA_ERROR_INVALID_HANDLE;
        return call_end(&call);
    }
    handle_remove(call.world, stream);
    capture_stream_goes(call.world, stream);
    if (stream_idle(stream))
        stream_destroy(stream);
    else
        ((struct stream *)stream)->doomed = true;
    return call_end(&call);
}

cu_result cpu_stream_synchronize(cu_stream stream) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    const struct stream *which = stream_of(&call, stream);
    if (!which || !capture_allows_wait(&call, which)) return call_end(&call);
    struct work work = stream_work(which);
    call_run(&call, work_done, &work);
    return call_end(&call);
}

static void query(struct call *call, run_done *done, const void *what) {
    enum run_end end = world_run(call->world, done, what, QUERY_ROUNDS);
    if (end == RUN_FAULT)
        call->result = call->world->fault.code;
    else if (end != RUN_DONE)
        call->result = R_CUDA_ERROR_NOT_READY;
}

cu_result cpu_stream_query(cu_stream stream) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    const struct stream *which = stream_of(&call, stream);
    if (!which || !capture_allows_wait(&call, which)) return call_end(&call);
    struct work work = stream_work(which);
    query(&call, work_done, &work);
    return call_end(&call);
}

/* ---- events ---------------------------------------------------------------------------------------- */
static struct event *event_of(struct call *call, cu_event handle) {
    if (handle_is(call->world, handle, HANDLE_EVENT)) return handle;
    call->result = R_CUDA_ERROR_INVALID_HANDLE;
    return NULL;
}

cu_result cpu_event_create(cu_event *event, unsigned flags) {
    enum { BLOCKING_SYNC = 1, DISABLE_TIMING = 2 };
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    if (!event || flags & ~(unsigned)(BLOCKING_SYNC | DISABLE_TIMING)) {
        call.result = R_CUDA_ERROR_INVALID_VALUE;
        return call_end(&call);
    }
    struct event *made = calloc(1, sizeof *made);
    if (!made || handle_add(call.world, made, HANDLE_EVENT)) {
        free(made);
        call.result = R_CUDA_ERROR_OUT_OF_MEMORY;
        return call_end(&call);
    }
    made->no_timing = (flags & DISABLE_TIMING) != 0;
    made->device = call.device->ordinal;
    *event = made;
    return call_end(&call);
}

cu_result cpu_event_destroy(cu_event event) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    struct event *which = event_of(&call, event);
    if (!which) return call_end(&call);
    handle_remove(call.world, which);
    mark_drop(which);
    which->destroyed = true;
    if (which->users == 0) free(which); /* else the last op that names it frees it */
    return call_end(&call);
}

static void add_event_op(struct call *call, struct stream *stream, struct event *event, enum op_kind kind) {
    struct op *op = stream_op(stream, kind);
    if (!op) {
        call->result = R_CUDA_ERROR_OUT_OF_MEMORY;
        return;
    }
    event->users++;
    op->event = event;
    op->generation = event->recorded;
}

cu_result cpu_event_record_flags(cu_event event, cu_stream stream, unsigned flags) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    struct event *which = event_of(&call, event);
    struct stream *on = which ? stream_of(&call, stream) : NULL;
    if (!on) return call_end(&call);
    bool external = flags == DRIVER_EVENT_EXTERNAL;
    enum taking takes = TAKES_NOTHING;
    if (on->device->ordinal != which->device)
        call.result = R_CUDA_ERROR_INVALID_HANDLE;
    else if (flags & ~(unsigned)DRIVER_EVENT_EXTERNAL || (external && !on->capture))
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else
        takes = capture_takes(&call, on);
    if (takes == TAKES_NODES && external) {
        capture_external(&call, on, which, OP_RECORD);
    } else if (takes == TAKES_NODES) {
        capture_record(&call, on, which);
    } else if (takes == TAKES_WORK) {
        mark_drop(which);
        which->recorded++;
        add_event_op(&call, on, which, OP_RECORD);
    }
    return call_end(&call);
}

cu_result cpu_event_record(cu_event event, cu_stream stream) {
    return cpu_event_record_flags(event, stream, 0);
}

/* Waits for the latest record call so far; an event never recorded is no wait. */
cu_result cpu_stream_wait_event(cu_stream stream, cu_event event, unsigned flags) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    struct event *which = event_of(&call, event);
    struct stream *on = which ? stream_of(&call, stream) : NULL;
    if (!on) return call_end(&call);
    bool external = flags == DRIVER_EVENT_EXTERNAL;
    enum taking takes = TAKES_NOTHING;
    if (flags & ~(unsigned)DRIVER_EVENT_EXTERNAL || (external && !on->capture))
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else
        takes = capture_takes(&call, on);
    if (takes == TAKES_NODES && external)
        capture_external(&call, on, which, OP_WAIT);
    else if (takes == TAKES_NODES)
        capture_wait(&call, on, which);
    else if (takes == TAKES_WORK && which->mark)
        capture_fork(&call, on, which);
    else if (takes == TAKES_WORK && which->recorded)
        add_event_op(&call, on, which, OP_WAIT);
    return call_end(&call);
}

static bool is_reached(const struct event *event) {
    return event->reached == event->recorded;
}

struct reaching { /* the record calls so far; destroying the event ends the wait */
    struct world *world;
    const struct event *event;
    uint64_t generation;
};

static bool event_reached(const void *what) {
    const struct reaching *reaching = what;
    if (!handle_is(reaching->world, reaching->event, HANDLE_EVENT)) return true;
    if (reaching->event->reached < reaching->generation) return false;
    order_host_hears(reaching->world, reaching->event->message);
    return true;
}

cu_result cpu_event_synchronize(cu_event event) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    const struct event *which = event_of(&call, event);
    if (!which || !capture_allows_event(&call, which)) return call_end(&call);
    struct reaching reaching = {.world = call.world, .event = which, .generation = which->recorded};
    call_run(&call, event_reached, &reaching);
    return call_end(&call);
}

cu_result cpu_event_query(cu_event event) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    const struct event *which = event_of(&call, event);
    if (!which || !capture_allows_event(&call, which)) return call_end(&call);
    struct reaching reaching = {.world = call.world, .event = which, .generation = which->recorded};
    query(&call, event_reached, &reaching);
    return call_end(&call);
}

cu_result cpu_event_elapsed(float *ms, cu_event start, cu_event end) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    const struct event *from = event_of(&call, start), *to = from ? event_of(&call, end) : NULL;
    if (!to) return call_end(&call);
    if (!ms)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (from->mark || to->mark)
        call.result = R_CUDA_ERROR_CAPTURED_EVENT;
    else if (!from->recorded || !to->recorded || from->no_timing || to->no_timing)
        call.result = R_CUDA_ERROR_INVALID_HANDLE;
    else if (!is_reached(from) || !is_reached(to))
        call.result = R_CUDA_ERROR_NOT_READY;
    else
        *ms = (float)((double)to->time - (double)from->time) / 1e6f;
    return call_end(&call);
}
