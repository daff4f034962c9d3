/* driver_capture_event.c - events in captures: forks, joins, and what may not be asked of an event that was captured.
 *
 * Recorded in a capturing stream an event stands for what that stream has captured so far (struct mark), until it is
 * recorded elsewhere. A stream that waits for it joins the capture. Eager records and waits: driver_stream.c. */
#include "runtime/cpu/driver_graph.h"

#include <stdlib.h>

void mark_drop(struct event *event) {
    if (!event->mark) return;
    capture_leave(event->mark->capture);
    free(event->mark->frontier.nodes);
    free(event->mark);
    event->mark = NULL;
}

bool capture_allows_event(struct call *call, const struct event *event) {
    if (!event->mark) return event->recorded == 0 || capture_allows_unsafe(call);
    capture_invalidate(event->mark->capture);
    call->result = R_CUDA_ERROR_CAPTURED_EVENT;
    return false;
}

void capture_record(struct call *call, struct stream *stream, struct event *event) {
    struct mark *mark = calloc(1, sizeof *mark);
    if (!mark || !frontier_copy(&mark->frontier, &capture_part(stream)->frontier)) {
        free(mark);
        capture_invalidate(stream->capture);
        call->result = R_CUDA_ERROR_OUT_OF_MEMORY;
        return;
    }
    mark_drop(event);
    mark->capture = stream->capture;
    mark->capture->users++;
    event->mark = mark;
}

void capture_external(struct call *call, struct stream *stream, struct event *event, enum op_kind kind) {
    struct graph_node *node = capture_node(call, stream, kind);
    if (!node) return;
    node->programmatic = false;
    node->event = event;
    event->users++;
}

static void violate(struct call *call, struct capture *capture, int result) {
    capture_invalidate(capture);
    call->result = result;
}

/* A capturing stream waits for an event that is not external. */
void capture_wait(struct call *call, struct stream *stream, const struct event *event) {
    const struct mark *mark = event->mark;
    if (!mark && event->recorded) violate(call, stream->capture, R_CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    if (!mark) return; /* never recorded: no wait */
    if (mark->capture != stream->capture) {
        capture_invalidate(mark->capture);
        violate(call, stream->capture, R_CUDA_ERROR_STREAM_CAPTURE_MERGE);
    } else if (!frontier_add(&capture_part(stream)->frontier, &mark->frontier)) {
        violate(call, stream->capture, R_CUDA_ERROR_OUT_OF_MEMORY);
    }
}

/* A stream that does not capture waits for an event that was captured. */
void capture_fork(struct call *call, struct stream *stream, const struct event *event) {
    const struct mark *mark = event->mark;
    if (mark->capture->state != CAPTURE_ACTIVE)
        call->result = R_CUDA_ERROR_INVALID_VALUE;
    else if (stream == stream->device->streams)
        violate(call, mark->capture, R_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    else if (!capture_join(call, mark->capture, stream, &mark->frontier))
        capture_invalidate(mark->capture);
}
