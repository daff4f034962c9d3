/* world_stream.c - the order of work: streams of operations, the edges between them, programmatic dependent launch.
 *
 * Operations of a stream run in order, each after all before it is complete. A kernel with the PDL attribute whose
 * direct predecessor is a kernel may start when every CTA of that has started and has triggered or ended; its
 * griddepcontrol.wait ends when that predecessor is complete and its stores have landed, whatever older kernels still
 * do. The default stream of a device orders with its blocking streams, both ways. The nodes of a launched graph lie in
 * streams of their own, where its edges alone order them (world_graph.c). May not step warps. */
#include "runtime/cpu/world.h"

#include <stdlib.h>
#include <string.h>

struct stream *stream_create(struct device *device, int priority, bool blocking) {
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream) return NULL;
    stream->device = device;
    stream->priority = priority;
    stream->blocking = blocking;
    struct stream **end = &device->streams;
    while (*end)
        end = &(*end)->next;
    stream->number = device->streams_created++;
    *end = stream;
    return stream;
}

void event_leave(struct event *event) {
    event->users--;
    if (event->destroyed && event->users == 0) free(event);
}

static void free_op(struct op *op) {
    if (op->run) graph_run_leave(op->stream->device->world, op->run);
    if (op->event) event_leave(op->event);
    grid_free(op->launch);
    free(op->staged);
    free(op);
}

void stream_destroy(struct stream *stream) {
    struct stream **link = &stream->device->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    while (stream->first) {
        struct op *op = stream->first;
        stream->first = op->next;
        free_op(op);
    }
    order_stream_ends(stream);
    free(stream);
}

struct op *stream_op(struct stream *stream, enum op_kind kind) {
    struct op *op = calloc(1, sizeof *op);
    if (!op) return NULL;
    op->kind = kind;
    op->serial = ++stream->device->op_serial;
    op->stream = stream;
    op->previous = stream->last;
    if (stream->last)
        stream->last->next = op;
    else
        stream->first = op;
    stream->last = op;
    if (!stream->cursor) stream->cursor = op;
    stream->device->world->dirty = true;
    return op;
}

bool stream_idle(const struct stream *stream) {
    return stream->first == NULL;
}

struct work stream_work(const struct stream *stream) {
    return (struct work){.device = stream->device, .stream = stream->number, .serial = stream->device->op_serial};
}

struct work device_work(const struct device *device) {
    return (struct work){.device = device, .stream = -1, .serial = device->op_serial};
}

/* Who asks, and finds it so, has waited. */
bool work_done(const void *what) {
    const struct work *work = what;
    for (const struct stream *s = work->device->streams; s; s = s->next)
        if ((work->stream < 0 || s->number == work->stream) && s->first && s->first->serial <= work->serial)
            return false;
    order_host_waits(work->device, work->stream);
    return true;
}

/* ---- what may start -------------------------------------------------------------------------------- */
static const char *default_stream_obstacle(const struct stream *stream, const struct op *op) {
    const struct stream *first = stream->device->streams;
    if (stream != first) {
        bool waits = stream->blocking && first->first && first->first->serial < op->serial;
        return waits ? "earlier work of the default stream" : NULL;
    }
    for (const struct stream *s = first->next; s; s = s->next)
        if (s->blocking && s->first && s->first->serial < op->serial) return "earlier work of another blocking stream";
    return NULL;
}

static const char *predecessor_obstacle(const struct op *op) {
    if (op == op->stream->first) return NULL;
    if (graph_is_node(op) && !op->programmatic) return NULL; /* its edges say it all */
    if (!op->programmatic || op->previous->kind != OP_KERNEL || op->not_before == UINT64_MAX)
        return "what is before it in the stream to complete";
    const struct op *previous = op->previous;
    const struct grid *grid = &previous->launch->grid;
    if (previous->state == OP_DONE) return NULL;
    if (previous->state == OP_QUEUED) return "the kernel before it to start";
    if (grid->ctas_started < grid->ctas_total) return "all CTAs of the kernel before it to start";
    if (grid->ctas_triggered < grid->ctas_total)
        return "all CTAs of the kernel before it to launch their dependents or end";
    return NULL;
}

const char *stream_obstacle(const struct stream *stream) {
    const struct op *op = stream->cursor;
    if (!op) return NULL;
    const char *why = default_stream_obstacle(stream, op);
    if (!why) why = predecessor_obstacle(op);
    if (!why && op->run) why = graph_obstacle(op);
    if (!why && op->kind == OP_WAIT && op->event->reached < op->generation) why = "an event that was not reached";
    if (!why && op->kind == OP_KERNEL && stream->device->started_count >= DEVICE_GRIDS)
        why = "one of the device's 128 grids to end";
    return why;
}

/* The adversary starts an op late as often as early; an early dependent also only when it no longer is one. */
static bool is_delayed(struct world *world, struct op *op) {
    if (world->options.schedule != DCPKCPU_RANDOM || op->kind != OP_KERNEL) return false;
    if (!op->delay_drawn) {
        op->delay_drawn = true;
        uint32_t kind = world_below(world, 4);
        if (kind == 1) op->not_before = world->round + world_below(world, 300);
        if (kind == 2 && op != op->stream->first && op->previous->state != OP_DONE) op->not_before = UINT64_MAX;
    }
    if (op->not_before == UINT64_MAX) return op != op->stream->first;
    if (op->not_before > world->round) world->delayed = true;
    return op->not_before > world->round;
}

/* ---- doing it -------------------------------------------------------------------------------------- */
static void fill(const struct op *op) {
    if (op->width == 1) {
        memset(op->to.at, (int)(op->value & 0xFF), op->bytes);
        return;
    }
    for (uint64_t i = 0; i < op->bytes; i += op->width)
        memcpy(op->to.at + i, &op->value, op->width);
}

static void touch_memory(struct world *world, struct op *op) {
    if ((op->to.backing && !op->to.backing->live) || (op->from.backing && !op->from.backing->live)) {
        world_fail_text(world, RESULT_ILLEGAL_ADDRESS,
                        "a copy or fill in a stream reached memory that was freed meanwhile");
        return;
    }
    if (world->order.on) {
        order_transfer(world, op, false);
        order_transfer(world, op, true);
    }
    if (op->to.backing) written_copy(op->to.backing, op->to.at, op->from.backing, op->from.at, op->bytes);
    if (op->to.backing) order_clear(op->to.backing, op->to.at, op->bytes);
    if (op->kind == OP_FILL)
        fill(op);
    else
        memmove(op->to.at, op->from.at, op->bytes);
}

static void start(struct world *world, struct op *op) {
    op->stream->cursor = op->next;
    op->state = OP_STARTED;
    world_progressed(world);
    if (op->kind == OP_KERNEL) {
        op->launch->grid.predecessor_done = op == op->stream->first || op->previous->state == OP_DONE;
        order_start(world, op);
        grid_start(world, op->launch);
        return;
    }
    order_start_other(world, op);
    if (op->kind == OP_COPY || op->kind == OP_FILL) touch_memory(world, op);
    if (op->kind == OP_RECORD && op->event->reached < op->generation) {
        op->event->reached = op->generation;
        op->event->time = world->time;
        op->event->message = order_record(world, op);
    }
    if (op->kind == OP_WAIT) order_receive(world, op, op->event->message);
    if (op->kind == OP_GRAPH)
        graph_run_begin(world, op->run); /* done with its last node */
    else
        stream_op_done(world, op);
}

void stream_op_done(struct world *world, struct op *op) {
    op->state = OP_DONE;
    if (op->next && op->next->state == OP_STARTED) {
        op->next->launch->grid.predecessor_done = true;
        order_predecessor_done(world, op, op->next->launch);
    }
    world->dirty = true;
    if (graph_is_node(op)) graph_node_done(world, op);
}

static bool drop_done(struct stream *stream) {
    bool any = false;
    while (stream->first && stream->first->state == OP_DONE) {
        struct op *op = stream->first;
        stream->first = op->next;
        if (op->next)
            op->next->previous = NULL;
        else
            stream->last = NULL;
        free_op(op);
        any = true;
    }
    return any;
}

static bool progress_stream(struct world *world, struct stream *stream) {
    bool any = drop_done(stream); /* another stream may have waited for that */
    while (stream->cursor && !stream_obstacle(stream) && !is_delayed(world, stream->cursor) && !world->faulted) {
        start(world, stream->cursor);
        drop_done(stream);
        any = true;
    }
    return any;
}

static void progress_device(struct world *world, struct device *device, bool *any) {
    for (struct stream *s = device->streams, *next; s; s = next) {
        next = s->next;
        *any |= progress_stream(world, s);
        if (s->doomed && stream_idle(s)) stream_destroy(s);
    }
    grid_place(world, device);
}

void streams_progress(struct world *world) {
    bool any = world->dirty || world->delayed;
    if (!any)
        for (int d = 0; d < world->device_count; d++)
            grid_place(world, &world->devices[d]);
    while ((any || world->dirty) && !world->faulted) { /* ends: every turn starts or drops an op, or places a CTA */
        any = world->dirty = world->delayed = false;
        for (int d = 0; d < world->device_count; d++)
            progress_device(world, &world->devices[d], &any);
    }
}
