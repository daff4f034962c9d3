/* world_order.c - what the warps and grids of the adversary's runs know of each other's stores: launches, ends, waits,
 * barriers, fences. See world_order.h.
 *
 * What a kernel knows as it begins: all that its stream has completed, and what events told that, unless it was
 * launched with the PDL attribute behind a kernel: then what that one knew, whether or not it happens to have ended;
 * griddepcontrol.wait adds the rest. And what the host had waited for when it launched it. What merely happens to have
 * ended is not known. May not step warps nor touch memory. */
#include "runtime/cpu/world.h"

#include <stdlib.h>
#include <string.h>

void order_begin(struct world *world) {
    const dcpkcpu_options *o = &world->options;
    bool on = o->store_tracking == DCPKCPU_TRACKING_ON ||
              (o->store_tracking == DCPKCPU_TRACKING_AUTO && o->schedule == DCPKCPU_RANDOM);
    world->order = (struct causality){.on = on, .message_count = 1};
}

void order_end(struct world *world) {
    struct causality *order = &world->order;
    for (uint32_t i = 1; order->messages && i < order->message_count; i++)
        view_free(&order->messages[i]);
    free(order->messages);
    free(order->grids);
    view_free(&order->sc);
    view_free(&order->host);
    for (int d = 0; d < MAX_DEVICES; d++) {
        view_free(&world->devices[d].order_gone);
        view_free(&world->devices[d].order_sc);
    }
    *order = (struct causality){0};
}

/* ---- messages --------------------------------------------------------------------------------------- */
static const struct view *message_view(const struct causality *order, uint32_t message) {
    static const struct view nothing = {0};
    return message ? &order->messages[message] : &nothing;
}

/* Leaves out grids that are among their stream's completed ones. */
static void prune(const struct causality *order, struct view *view) {
    unsigned kept = 0;
    for (unsigned i = 0; i < view->count; i++) {
        uint64_t key = view->at[i].key, grid = key >> 32;
        const struct grid_order *g = key >> 63 || grid >= order->grid_capacity ? NULL : &order->grids[grid];
        if (!g || !g->completed || !view_knows(view, g->timeline, g->completed)) view->at[kept++] = view->at[i];
    }
    view->count = kept;
}

/* Takes the view over. Out of memory: NO_MESSAGE, and all is known from here on. */
static uint32_t message_make(struct causality *order, struct view *view) {
    prune(order, view);
    if (order->message_count >= order->message_capacity) {
        uint32_t capacity = order->message_capacity ? order->message_capacity * 2 : 256;
        struct view *messages = realloc(order->messages, capacity * sizeof *messages);
        if (!messages) {
            view_free(view);
            order->on = false;
            return NO_MESSAGE;
        }
        order->messages = messages;
        order->message_capacity = capacity;
    }
    order->messages[order->message_count] = *view;
    return order->message_count++;
}

/* What lies behind work that starts now in the stream: what has completed there, and what it orders with. */
static void learn_stream(struct view *view, const struct stream *stream) {
    const struct stream *first = stream->device->streams;
    view_join(view, &stream->order_view);
    if (stream != first && stream->blocking) view_join(view, &first->order_view);
    if (stream == first) view_join(view, &stream->device->order_gone);
    for (const struct stream *s = first->next; stream == first && s; s = s->next)
        if (s->blocking) view_join(view, &s->order_view);
}

/* Of a graph all nodes that happen to be done count, whatever its edges say. */
static void learn_before(struct view *view, const struct op *op) {
    if (graph_is_node(op))
        view_join(view, &op->run->order);
    else
        learn_stream(view, op->stream);
}

static struct view *view_of(const struct op *op) {
    return graph_is_node(op) ? &op->run->order : &op->stream->order_view;
}

/* ---- grids ------------------------------------------------------------------------------------------ */
static struct grid_order *grid_of(struct causality *order, uint64_t id) {
    if (id >= order->grid_capacity) {
        uint64_t capacity = order->grid_capacity ? order->grid_capacity * 2 : 256;
        struct grid_order *grids = realloc(order->grids, capacity * sizeof *grids);
        if (!grids) {
            order->on = false;
            return NULL;
        }
        memset(grids + order->grid_capacity, 0, (capacity - order->grid_capacity) * sizeof *grids);
        order->grids = grids;
        order->grid_capacity = capacity;
    }
    return &order->grids[id];
}

void order_known(const struct world *world, const struct op *op, struct view *view) {
    learn_before(view, op);
    view_join(view, &world->order.host);
}

void order_enqueue(struct world *world, struct launch *launch) {
    struct causality *order = &world->order;
    if (!order->on) return;
    struct grid_order *grid = grid_of(order, launch->grid.id);
    if (grid) *grid = (struct grid_order){.fn = launch->grid.fn, .device = launch->grid.device->ordinal};
    struct view view = {0};
    view_join(&view, &order->host);
    launch->order.host = message_make(order, &view);
}

/* What lies behind the wait for a kernel. */
static uint32_t behind(struct causality *order, const struct op *op, uint32_t before, uint32_t grid,
                       const struct view *end, bool waited) {
    struct view view = {0};
    view_join(&view, message_view(order, before));
    view_join(&view, end);
    if (waited)
        learn_before(&view, op);
    else
        view_learn(&view, key_cluster(grid, 0), UINT64_MAX);
    return message_make(order, &view);
}

void order_start(struct world *world, struct op *op) {
    struct causality *order = &world->order;
    struct launch *launch = op->launch;
    struct stream *stream = op->stream;
    if (!order->on) return;
    launch->order.own_late = world_chance(world, 4);
    struct view view = {0};
    view_join(&view, message_view(order, launch->order.host));
    if (op->programmatic && stream->order_grid) {
        launch->order.dependent = true;
        view_join(&view, message_view(order, stream->order_before));
        launch->order.before = launch->order.after = message_make(order, &view);
        if (stream->order_done)
            launch->order.after = behind(order, op, launch->order.before, stream->order_grid,
                                         message_view(order, stream->order_end), stream->order_waited);
    } else {
        learn_before(&view, op);
        launch->order.before = launch->order.after = message_make(order, &view);
        launch->order.waited = true;
    }
    stream->order_before = launch->order.before;
    stream->order_grid = (uint32_t)launch->grid.id;
    stream->order_done = false;
}

void order_start_other(struct world *world, struct op *op) {
    if (!world->order.on) return;
    op->stream->order_grid = 0;
    if (op->kind != OP_GRAPH) return;
    learn_stream(&op->run->order, op->stream);
    view_join(&op->run->order, &op->run->plan->order); /* its launches run one after the other */
}

void order_predecessor_done(struct world *world, const struct op *before, struct launch *launch) {
    if (!world->order.on || before->kind != OP_KERNEL) return;
    const struct launch *first = before->launch;
    launch->order.after = behind(&world->order, before, launch->order.before, (uint32_t)first->grid.id,
                                 &first->order.end, first->order.waited);
}

/* The grid is the next that has completed in the stream. */
static void join_timeline(struct stream *stream, struct grid_order *grid) {
    grid->timeline = key_stream(stream->device->ordinal, stream->number);
    grid->completed = ++stream->order_completed;
    view_learn(&stream->order_view, grid->timeline, grid->completed);
}

/* Its grids are its stream's from here on. */
void order_graph_done(struct world *world, struct graph_run *run) {
    struct causality *order = &world->order;
    struct stream *stream = run->op->stream;
    if (!order->on) return;
    for (unsigned i = 0; i < run->order.count; i++) {
        uint64_t key = run->order.at[i].key, grid = key >> 32;
        bool whole = !(key >> 63) && !(uint32_t)key && run->order.at[i].until == UINT64_MAX;
        if (whole && grid < order->grid_capacity && !order->grids[grid].completed)
            join_timeline(stream, &order->grids[grid]);
    }
    view_join(&stream->order_view, &run->order);
    prune(order, &stream->order_view);
    view_join(&run->plan->order, &stream->order_view);
    prune(order, &run->plan->order);
}

void order_stream_ends(struct stream *stream) {
    if (stream->device->world->order.on) view_join(&stream->device->order_gone, &stream->order_view);
    view_free(&stream->order_view);
}

void order_host_waits(const struct device *device, int stream) {
    struct causality *order = &device->world->order;
    if (!order->on) return;
    for (const struct stream *s = device->streams; s; s = s->next)
        if (stream < 0 || s->number == stream) learn_stream(&order->host, s);
    view_join(&order->host, &device->order_gone);
    prune(order, &order->host);
}

void order_host_hears(struct world *world, uint32_t message) {
    if (world->order.on) view_join(&world->order.host, message_view(&world->order, message));
}

void order_complete(struct world *world, struct launch *launch) {
    struct causality *order = &world->order;
    struct stream *stream = launch->op->stream;
    if (!order->on) return;
    struct grid_order *grid = grid_of(order, launch->grid.id);
    if (!grid) return;
    if (launch->order.waited) view_join(&launch->order.end, message_view(order, launch->order.after));
    struct view *view = view_of(launch->op);
    if (graph_is_node(launch->op))
        view_learn(view, key_cluster((uint32_t)launch->grid.id, 0), UINT64_MAX);
    else
        join_timeline(stream, grid);
    view_join(view, &launch->order.end);
    view_learn(view, key_observed(launch->grid.device->ordinal), order->time);
    prune(order, view);
    if (stream->order_grid != launch->grid.id) return;
    struct view end = {0};
    view_join(&end, &launch->order.end);
    stream->order_end = message_make(order, &end);
    stream->order_waited = launch->order.waited;
    stream->order_done = true;
}

void order_forget(struct world *world, const struct ptx_function *fn) {
    struct causality *order = &world->order;
    for (uint64_t i = 0; i < order->grid_capacity; i++)
        if (order->grids[i].fn == fn) order->grids[i].fn = NULL;
}

uint32_t order_record(struct world *world, const struct op *op) {
    struct view view = {0};
    if (!world->order.on) return NO_MESSAGE;
    learn_before(&view, op);
    return message_make(&world->order, &view);
}

void order_receive(struct world *world, struct op *op, uint32_t message) {
    if (world->order.on) view_join(view_of(op), message_view(&world->order, message));
}

/* ---- CTAs and warps --------------------------------------------------------------------------------- */
bool order_resident(struct world *world, struct resident *resident, const struct resident *first) {
    struct causality *order = &world->order;
    if (!order->on) return true;
    resident->warp_orders = calloc(resident->launch->warps, sizeof *resident->warp_orders);
    size_t bytes = sizeof(struct cluster_order) + (resident->launch->cluster_ctas + 1) * sizeof(struct view);
    resident->cluster_order = first && first != resident ? first->cluster_order : calloc(1, bytes);
    if (!resident->warp_orders || !resident->cluster_order) return false;
    if (!resident->cluster_order->users++) resident->cluster_order->uid = ++order->clusters;
    return true;
}

void order_resident_free(struct resident *resident) {
    struct cluster_order *cluster = resident->cluster_order;
    for (unsigned w = 0; resident->warp_orders && w < resident->launch->warps; w++) {
        view_free(&resident->warp_orders[w].known);
        for (enum scope s = SCOPE_CTA; s <= SCOPE_SYS; s++)
            view_free(&resident->warp_orders[w].pending[s]);
    }
    unsigned ctas = resident->launch->cluster_ctas;
    free(resident->warp_orders);
    resident->warp_orders = NULL;
    resident->cluster_order = NULL;
    if (!cluster || --cluster->users) return;
    view_free(&cluster->view);
    for (unsigned i = 0; i <= ctas; i++)
        view_free(&cluster->sc[i]);
    free(cluster);
}

void order_cta_ends(struct world *world, struct resident *resident) {
    if (!world->order.on || !resident->warp_orders) return;
    struct view *end = &resident->launch->order.end;
    for (unsigned w = 0; w < resident->launch->warps; w++)
        view_join(end, &resident->warp_orders[w].known);
    view_join(end, &resident->cluster_order->view);
}

static struct resident *resident_of(const struct warp *warp) {
    return (struct resident *)(void *)warp->cta;
}

void order_wait(struct world *world, struct warp *warp) {
    struct resident *resident = resident_of(warp);
    if (!world->order.on || !resident->warp_orders) return;
    resident->warp_orders[warp->index].waited = true;
    resident->launch->order.waited = true;
}

void order_barrier(struct world *world, struct warp *warp, bool whole_cta) {
    struct resident *resident = resident_of(warp);
    if (!world->order.on || !whole_cta || !resident->warp_orders) return;
    struct cluster_order *cluster = resident->cluster_order;
    bool waited = false;
    cluster->synced = ++world->order.time;
    for (unsigned w = 0; w < resident->launch->warps; w++) {
        struct warp_order *order = &resident->warp_orders[w];
        waited |= order->waited;
        view_join(&cluster->view, &order->known);
        order->known.count = 0;
    }
    for (unsigned w = 0; w < resident->launch->warps; w++)
        resident->warp_orders[w].waited = waited;
}

const struct view *order_base(const struct world *world, const struct resident *resident, int warp) {
    const struct launch_order *launch = &resident->launch->order;
    bool waited = warp != NO_WARP && resident->warp_orders[warp].waited;
    return message_view(&world->order, waited ? launch->after : launch->before);
}

/* fence.sc: behind all those before it whose scope and its own hold both threads. */
static void fence_sc(struct world *world, struct resident *resident, struct warp_order *warp, unsigned index,
                     enum scope scope) {
    struct cluster_order *cluster = resident->cluster_order;
    struct device *device = resident->launch->grid.device;
    struct view *all[] = {NULL, &cluster->sc[resident->cta.rank + 1], &cluster->sc[0], &device->order_sc,
                          &world->order.sc};
    for (enum scope s = SCOPE_CTA; s <= scope; s++)
        view_join(&warp->known, all[s]);
    for (enum scope s = SCOPE_CTA; s <= scope; s++) {
        view_join(all[s], &warp->known);
        view_join(all[s], &cluster->view);
        view_join(all[s], order_base(world, resident, (int)index));
        view_learn(all[s], key_cluster((uint32_t)resident->launch->grid.id, cluster->uid), world->order.time);
        view_learn(all[s], key_observed(device->ordinal), world->order.time);
        prune(&world->order, all[s]);
    }
}

/* A fence orders towards those threads alone that its scope holds. */
void order_fence(struct world *world, struct warp *warp, enum order order, enum scope scope) {
    struct resident *resident = resident_of(warp);
    if (!world->order.on || !resident->warp_orders) return;
    struct warp_order *own = &resident->warp_orders[warp->index];
    uint64_t now = ++world->order.time;
    if (scope == SCOPE_NONE) scope = SCOPE_GPU;
    if (scope < SCOPE_GPU && own->fence[SCOPE_GPU]) (void)order_message(world, resident, warp->index, true);
    for (enum scope s = SCOPE_CTA; s <= scope && order != ORDER_RELEASE; s++) {
        view_join(&own->known, &own->pending[s]);
        own->pending[s].count = 0;
    }
    if (order < ORDER_RELEASE) return;
    if (order == ORDER_SC) fence_sc(world, resident, own, warp->index, scope);
    for (enum scope s = SCOPE_CTA; s <= scope; s++)
        own->fence[s] = now;
    own->near = NO_MESSAGE;
    if (scope >= SCOPE_GPU) own->message = NO_MESSAGE;
}

uint32_t order_message(struct world *world, const struct resident *resident, unsigned warp, bool far) {
    struct warp_order *own = &resident->warp_orders[warp];
    const struct view *cluster = &resident->cluster_order->view;
    uint32_t *message = far ? &own->message : &own->near;
    if (*message != NO_MESSAGE) return *message;
    if (!own->known.count && !cluster->count)
        return own->waited ? resident->launch->order.after : resident->launch->order.before;
    struct view view = {0};
    view_join(&view, order_base(world, resident, (int)warp));
    view_join(&view, cluster);
    view_join(&view, &own->known);
    return *message = message_make(&world->order, &view);
}

static void learn(const struct causality *order, struct view *view, const struct stamp *stamp, uint32_t said,
                  uint64_t until) {
    if (until) {
        view_learn(view, key_cluster(stamp->grid, stamp->cluster), until);
        view_learn(view, key_observed(stamp->device), until);
    }
    view_join(view, message_view(order, said));
}

uint32_t order_join(struct world *world, uint32_t message, const struct stamp *stamp, uint32_t said, uint64_t until) {
    struct view view = {0};
    view_join(&view, message_view(&world->order, message));
    learn(&world->order, &view, stamp, said, until);
    return message_make(&world->order, &view);
}

void order_learn(struct world *world, struct view *view, const struct stamp *stamp, uint32_t said, uint64_t until) {
    if (until && view_knows(view, key_observed(stamp->device), until) &&
        (view_knows(view, key_cluster(stamp->grid, stamp->cluster), until) ||
         view_knows(view, key_cluster(stamp->grid, 0), until)))
        return;
    learn(&world->order, view, stamp, said, until);
}

bool order_covers(const struct causality *order, const struct view *view, const struct cell *cell) {
    if (!view->count && !view->all) return false;
    const struct stamp *stamp = &cell->stamp;
    const struct grid_order *grid = &order->grids[stamp->grid];
    if ((grid->completed && view_knows(view, grid->timeline, grid->completed)) ||
        view_knows(view, key_cluster(stamp->grid, 0), stamp->time) ||
        view_knows(view, key_cluster(stamp->grid, stamp->cluster), stamp->time))
        return true;
    for (uint32_t seen = cell->seen; seen; seen &= seen - 1)
        if (view_knows(view, key_observed(__builtin_ctz(seen)), cell->seen_time)) return true;
    return false;
}

bool order_is_early(const struct warp *warp) {
    const struct resident *resident = resident_of(warp);
    return resident->launch->order.dependent && resident->warp_orders && !resident->warp_orders[warp->index].waited;
}
