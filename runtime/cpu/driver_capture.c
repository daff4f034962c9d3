/* driver_capture.c - stream capture: which streams capture into which graph, and what that forbids other calls.
 *
 * The rules are those that the driver's documentation states (cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode,
 * cuStreamIsCapturing, and "prohibited and unhandled operations" of the programming guide):
 * - Nothing that waits for or asks about a capturing stream, its device, or an event recorded in a capture: in any
 * mode, from any thread. UNSUPPORTED or CAPTURED_EVENT.
 * - No potentially unsafe call (one that the capture does not see but may depend on: memory given or taken, waits and
 *   questions elsewhere, synchronous copies, new streams, unloading) while this thread captures, or in global mode
 * while another does in global mode; relaxed captures, and threads in relaxed mode, are free of that. UNSUPPORTED.
 * - Nothing in the legacy stream while a blocking stream of the device captures. IMPLICIT.
 * - No dependency on work outside, no merging of two captures, no fork that is not joined. ISOLATION, MERGE, UNJOINED.
 * Each of these makes the captures at fault invalid: work for their streams gives INVALIDATED, so does the end, which
 * is still due. Loading code is allowed, as since CUDA 12.3. Where the documents are silent (the wrong stream or thread
 * at the end), the capture is invalid, too; a stream that is destroyed leaves its capture, the first one ends it. */
#include "runtime/cpu/driver_graph.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local int thread_mode; /* DRIVER_CAPTURE_GLOBAL */

uint64_t this_thread(struct world *world) {
    static _Thread_local uint64_t life, number;
    if (!number || life != world->life) number = ++world->thread_serial;
    life = world->life;
    return number;
}

/* ---- frontiers ------------------------------------------------------------------------------------- */
bool frontier_copy(struct frontier *to, const struct frontier *from) {
    *to = (struct frontier){0};
    return frontier_add(to, from);
}

static bool holds(const struct frontier *frontier, const struct graph_node *node) {
    for (unsigned i = 0; i < frontier->count; i++)
        if (frontier->nodes[i] == node) return true;
    return false;
}

bool frontier_add(struct frontier *to, const struct frontier *from) {
    if (from->count == 0) return true;
    struct graph_node **more = realloc(to->nodes, (to->count + from->count) * sizeof(struct graph_node *));
    if (!more) return false;
    to->nodes = more;
    for (unsigned i = 0; i < from->count; i++)
        if (!holds(to, from->nodes[i])) to->nodes[to->count++] = from->nodes[i];
    to->own = false;
    return true;
}

/* ---- the life of a capture ------------------------------------------------------------------------- */
struct participant *capture_part(const struct stream *stream) {
    struct participant *part = stream->capture ? stream->capture->participants : NULL;
    while (part && part->stream != stream)
        part = part->next;
    return part;
}

void capture_invalidate(struct capture *capture) {
    if (capture->state == CAPTURE_ACTIVE) capture->state = CAPTURE_INVALIDATED;
}

void capture_leave(struct capture *capture) {
    if (--capture->users == 0) free(capture);
}

static void free_part(struct participant *part) {
    free(part->frontier.nodes);
    free(part);
}

struct participant *capture_join(struct call *call, struct capture *capture, struct stream *stream,
                                 const struct frontier *from) {
    struct participant *part = calloc(1, sizeof *part);
    if (!part || !frontier_copy(&part->frontier, from)) {
        free(part);
        call->result = R_CUDA_ERROR_OUT_OF_MEMORY;
        return NULL;
    }
    part->stream = stream;
    part->chain = capture->graph->chains++;
    struct participant **end = &capture->participants;
    while (*end)
        end = &(*end)->next;
    *end = part;
    stream->capture = capture;
    return part;
}

/* Its streams are as others from here on. The graph stays. */
static void dissolve(struct world *world, struct capture *capture) {
    struct capture **link = &world->captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    while (capture->participants) {
        struct participant *part = capture->participants;
        capture->participants = part->next;
        part->stream->capture = NULL;
        free_part(part);
    }
    capture->state = CAPTURE_OVER;
    capture->graph->capturing = false;
    capture_leave(capture);
}

void captures_forget(struct world *world) {
    while (world->captures) {
        struct capture *capture = world->captures;
        world->captures = capture->next;
        while (capture->participants) {
            struct participant *part = capture->participants;
            capture->participants = part->next;
            free_part(part);
        }
        capture_leave(capture);
    }
}

void capture_stream_goes(struct world *world, struct stream *stream) {
    struct capture *capture = stream->capture;
    if (!capture) return;
    if (capture->participants->stream == stream) {
        struct graph *graph = capture->graph;
        dissolve(world, capture);
        graph_leave(world, graph);
        return;
    }
    struct participant **link = &capture->participants;
    while ((*link)->stream != stream)
        link = &(*link)->next;
    struct participant *part = *link;
    *link = part->next;
    stream->capture = NULL;
    free_part(part);
}

struct graph_node *capture_node(struct call *call, struct stream *stream, enum op_kind kind) {
    struct participant *part = capture_part(stream);
    struct frontier now = {.nodes = malloc(sizeof(struct graph_node *)), .count = 1, .own = true};
    struct graph_node *node = now.nodes ? graph_add(call->world, stream->capture->graph, kind, &part->frontier) : NULL;
    if (!node) {
        free(now.nodes);
        capture_invalidate(stream->capture);
        call->result = R_CUDA_ERROR_OUT_OF_MEMORY;
        return NULL;
    }
    const struct graph_node *before = part->frontier.own ? part->frontier.nodes[0] : NULL;
    node->programmatic = before && before->kind == OP_KERNEL; /* may be: if its launch says so, too */
    node->chain = part->chain;
    node->device = stream->device;
    node->priority = stream->priority;
    now.nodes[0] = node;
    free(part->frontier.nodes);
    part->frontier = now;
    return node;
}

/* ---- what a capture forbids ------------------------------------------------------------------------ */
static bool refuse(struct call *call, int result) {
    call->result = result;
    return false;
}

static bool unsafe_for(const struct capture *capture, uint64_t thread) {
    if (capture->state != CAPTURE_ACTIVE || thread_mode == DRIVER_CAPTURE_RELAXED) return false;
    if (capture->thread == thread) return capture->mode != DRIVER_CAPTURE_RELAXED;
    return thread_mode == DRIVER_CAPTURE_GLOBAL && capture->mode == DRIVER_CAPTURE_GLOBAL;
}

bool capture_allows_unsafe(struct call *call) {
    uint64_t thread = this_thread(call->world);
    for (struct capture *c = call->world->captures; c; c = c->next)
        if (unsafe_for(c, thread)) {
            capture_invalidate(c);
            call->result = R_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return !call->result;
}

/* The first blocking stream of the device that captures. */
static struct stream *blocking_capture(const struct device *device) {
    for (struct stream *s = device->streams; s; s = s->next)
        if (s->blocking && s->capture) return s;
    return NULL;
}

bool capture_allows_legacy(struct call *call, const struct device *device) {
    for (struct stream *s = device->streams; s; s = s->next) {
        if (!s->blocking || !s->capture) continue;
        capture_invalidate(s->capture);
        call->result = R_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    return !call->result;
}

enum taking capture_takes(struct call *call, struct stream *stream) {
    if (stream == stream->device->streams && !capture_allows_legacy(call, stream->device)) return TAKES_NOTHING;
    if (!stream->capture) return TAKES_WORK;
    if (stream->capture->state == CAPTURE_ACTIVE) return TAKES_NODES;
    call->result = R_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    return TAKES_NOTHING;
}

bool capture_allows_wait(struct call *call, const struct stream *stream) {
    if (stream == stream->device->streams && !capture_allows_legacy(call, stream->device)) return false;
    if (!stream->capture) return capture_allows_unsafe(call);
    if (stream->capture->state == CAPTURE_INVALIDATED) return refuse(call, R_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    capture_invalidate(stream->capture);
    return refuse(call, R_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

bool capture_allows_device(struct call *call, const struct device *device) {
    for (struct stream *s = device->streams; s; s = s->next) {
        if (!s->capture || s->capture->state != CAPTURE_ACTIVE) continue;
        capture_invalidate(s->capture);
        call->result = R_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return !call->result;
}

/* ---- for the caller -------------------------------------------------------------------------------- */
static bool known_mode(int mode) {
    return mode == DRIVER_CAPTURE_GLOBAL || mode == DRIVER_CAPTURE_THREAD_LOCAL || mode == DRIVER_CAPTURE_RELAXED;
}

cu_result cpu_thread_capture_mode(int *mode) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    if (mode && known_mode(*mode)) {
        int before = thread_mode;
        thread_mode = *mode;
        *mode = before;
    } else {
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    }
    return call_end(&call);
}

static void begin(struct call *call, struct stream *stream, int mode) {
    struct capture *capture = calloc(1, sizeof *capture);
    struct graph *graph = capture ? graph_make(call->world) : NULL;
    if (!graph) {
        free(capture);
        call->result = R_CUDA_ERROR_OUT_OF_MEMORY;
        return;
    }
    graph->capturing = true;
    *capture = (struct capture){.id = ++call->world->capture_serial,
                                .thread = this_thread(call->world),
                                .mode = mode,
                                .users = 1,
                                .graph = graph,
                                .next = call->world->captures};
    call->world->captures = capture;
    if (capture_join(call, capture, stream, &(struct frontier){0})) return;
    dissolve(call->world, capture);
    graph_leave(call->world, graph);
}

cu_result cpu_stream_begin_capture(cu_stream stream, int mode) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    struct stream *which = stream_of(&call, stream);
    if (!which) return call_end(&call);
    if (!known_mode(mode))
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (which == which->device->streams)
        call.result = R_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    else if (which->capture)
        call.result = R_CUDA_ERROR_ILLEGAL_STATE;
    else
        begin(&call, which, mode);
    return call_end(&call);
}

/* Whether every node is, or comes before, one that the first stream has reached. */
static bool is_joined(const struct capture *capture, bool *reached) {
    const struct frontier *end = &capture->participants->frontier;
    const struct graph *graph = capture->graph;
    for (unsigned i = 0; i < end->count; i++)
        reached[end->nodes[i]->index] = true;
    bool all = true;
    for (unsigned n = graph->count; n-- > 0;) {
        const struct graph_node *node = graph->nodes[n];
        for (unsigned i = 0; reached[n] && i < node->need_count; i++)
            reached[node->needs[i]->index] = true;
        all &= reached[n];
    }
    return all;
}

static void end(struct call *call, struct capture *capture, cu_graph *out) {
    struct graph *graph = capture->graph;
    bool *reached = calloc(graph->count ? graph->count : 1, sizeof *reached);
    if (capture->state == CAPTURE_INVALIDATED)
        call->result = R_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!reached)
        call->result = R_CUDA_ERROR_OUT_OF_MEMORY;
    else if (!is_joined(capture, reached))
        call->result = R_CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    free(reached);
    dissolve(call->world, capture);
    if (call->result)
        graph_leave(call->world, graph);
    else
        *out = graph;
}

cu_result cpu_stream_end_capture(cu_stream stream, cu_graph *graph) {
    struct call call;
    if (graph) *graph = NULL;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    const struct stream *which = stream_of(&call, stream);
    struct capture *capture = which ? which->capture : NULL;
    if (which && !capture) call.result = R_CUDA_ERROR_ILLEGAL_STATE;
    if (!capture) return call_end(&call);
    if (!graph)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (capture->participants->stream != which)
        call.result = R_CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    else if (capture->mode != DRIVER_CAPTURE_RELAXED && capture->thread != this_thread(call.world))
        call.result = R_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (call.result)
        capture_invalidate(capture);
    else
        end(&call, capture, graph);
    return call_end(&call);
}

static int status_of(const struct stream *stream) {
    if (!stream->capture) return DRIVER_CAPTURE_NONE;
    return stream->capture->state == CAPTURE_ACTIVE ? DRIVER_CAPTURE_ACTIVE : DRIVER_CAPTURE_INVALIDATED;
}

/* The stream that is asked about. Nothing is made invalid: asking is allowed. */
static struct stream *ask(struct call *call, cu_stream handle, const int *status) {
    if (!status) call->result = R_CUDA_ERROR_INVALID_VALUE;
    struct stream *stream = status ? stream_of(call, handle) : NULL;
    if (!stream || stream != stream->device->streams || !blocking_capture(stream->device)) return stream;
    call->result = R_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return NULL;
}

cu_result cpu_stream_is_capturing(cu_stream stream, int *status) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    const struct stream *which = ask(&call, stream, status);
    if (which) *status = status_of(which);
    return call_end(&call);
}

/* Edges that are to come are of the default type: which one is programmatic the next launch says. */
cu_result cpu_stream_capture_edges(cu_stream stream, int *status, unsigned long long *id, cu_graph *graph,
                                   const void **dependencies, const cu_edge **edges, size_t *count) {
    if (id) *id = 0;
    if (graph) *graph = NULL;
    if (dependencies) *dependencies = NULL;
    if (edges) *edges = NULL;
    if (count) *count = 0;
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    const struct stream *which = ask(&call, stream, status);
    if (!which) return call_end(&call);
    *status = status_of(which);
    const struct participant *part = *status == DRIVER_CAPTURE_ACTIVE ? capture_part(which) : NULL;
    if (edges && !dependencies) call.result = R_CUDA_ERROR_INVALID_VALUE;
    if (!part || call.result) return call_end(&call);
    if (id) *id = which->capture->id;
    if (graph) *graph = which->capture->graph;
    if (dependencies) *dependencies = part->frontier.nodes;
    if (count) *count = part->frontier.count;
    return call_end(&call);
}

cu_result cpu_stream_capture_info(cu_stream stream, int *status, unsigned long long *id, cu_graph *graph,
                                  const void **dependencies, size_t *count) {
    return cpu_stream_capture_edges(stream, status, id, graph, dependencies, NULL, count);
}

/* Of a stream with a handle of its own whatever is current; the default stream is that of the current context. */
cu_result cpu_stream_context(cu_stream stream, cu_context *context) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    if (!context)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (handle_is(call.world, stream, HANDLE_STREAM))
        *context = ((const struct stream *)stream)->device;
    else if ((call.device = context_current(call.world)) == NULL)
        call.result = R_CUDA_ERROR_INVALID_CONTEXT;
    else if (stream_of(&call, stream))
        *context = call.device;
    return call_end(&call);
}
