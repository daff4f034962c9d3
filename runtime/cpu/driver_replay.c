/* driver_replay.c - executable graphs: what a launch needs, worked out once; launches, each with copies of the nodes.
 *
 * Child graphs are flattened: their first nodes need what the child node needs, the child node (an OP_EMPTY) needs all
 * of theirs. A chain of the executable is a stream of a capture; a launch makes a stream for each and fills it, and
 * world_graph.c lets the nodes start. */
#include "runtime/cpu/driver_graph.h"

#include <stdlib.h>
#include <string.h>

enum { AUTO_FREE = 1, UPLOAD = 2, DEVICE_LAUNCH = 4, NODE_PRIORITY = 8 };
enum { INSTANTIATED = 0, NOT_INSTANTIATED = 1 }; /* CUgraphInstantiateResult */

struct step { /* a node of the flattened graph */
    const struct graph_node *node;
    unsigned chain;
};

struct executable {
    struct graph_plan plan; /* is first */
    struct graph *graph;
    unsigned long long flags;
    bool destroyed;
    struct step *steps;
    unsigned chains, chain_capacity; /* capacity: of steps */
    unsigned *needs, *need_end;
    unsigned need_count, need_capacity;
};

/* ---- flattening ------------------------------------------------------------------------------------ */
static unsigned count_steps(const struct graph *graph) {
    unsigned count = 0;
    for (unsigned n = 0; n < graph->count; n++)
        count += 1 + (graph->nodes[n]->child ? count_steps(graph->nodes[n]->child) : 0);
    return count;
}

static bool add_need(struct executable *exec, unsigned need) {
    if (exec->need_count == exec->need_capacity) {
        unsigned capacity = exec->need_capacity ? exec->need_capacity * 2 : 32;
        unsigned *more = realloc(exec->needs, capacity * sizeof *more);
        if (!more) return false;
        exec->needs = more;
        exec->need_capacity = capacity;
    }
    exec->needs[exec->need_count++] = need;
    return true;
}

struct needs { /* numbers of steps; of the needs array, so that they may move */
    unsigned first, count;
};

static bool flatten(struct executable *exec, const struct graph *graph, struct needs from);

static bool add_step(struct executable *exec, const struct graph_node *node, unsigned chain) {
    unsigned number = exec->plan.count++;
    exec->steps[number] = (struct step){.node = node, .chain = chain};
    exec->need_end[number] = exec->need_count;
    return true;
}

/* The needs of a node in a graph whose nodes have the numbers `at`, and whose first ones need `from`. */
static bool add_needs(struct executable *exec, const struct graph_node *node, const unsigned *at, struct needs from) {
    for (unsigned i = 0; i < node->need_count; i++)
        if (!add_need(exec, at[node->needs[i]->index])) return false;
    for (unsigned i = 0; node->need_count == 0 && i < from.count; i++)
        if (!add_need(exec, exec->needs[from.first + i])) return false;
    return true;
}

/* The child's steps, and then the node that ends them: it needs them all. */
static bool add_child(struct executable *exec, const struct graph_node *node, const unsigned *at, struct needs from,
                      unsigned chain) {
    struct needs entry = {.first = exec->need_count};
    if (!add_needs(exec, node, at, from)) return false;
    entry.count = exec->need_count - entry.first;
    unsigned first = exec->plan.count;
    /* The entry's needs lie before those of the child's first step: they become its own, which it has anyway. */
    if (!flatten(exec, node->child, entry)) return false;
    for (unsigned n = first; n < exec->plan.count; n++)
        if (!add_need(exec, n)) return false;
    return add_step(exec, node, chain);
}

static bool flatten(struct executable *exec, const struct graph *graph, struct needs from) {
    unsigned *at = calloc(graph->count ? graph->count : 1, sizeof *at), base = exec->chains;
    if (!at) return false;
    exec->chains += graph->chains;
    bool good = true;
    for (unsigned n = 0; good && n < graph->count; n++) {
        const struct graph_node *node = graph->nodes[n];
        good = node->child ? add_child(exec, node, at, from, base + node->chain)
                           : add_needs(exec, node, at, from) && add_step(exec, node, base + node->chain);
        at[n] = exec->plan.count - 1;
    }
    free(at);
    return good;
}

/* ---- executables ----------------------------------------------------------------------------------- */
static void free_executable(struct world *world, struct executable *exec) {
    handle_remove(world, exec);
    view_free(&exec->plan.order);
    free(exec->steps);
    free(exec->needs);
    free(exec->need_end);
    free(exec);
}

static void drop(struct world *world, void *owner) {
    struct executable *exec = owner;
    struct graph *graph = exec->graph;
    free_executable(world, exec);
    graph_leave(world, graph);
}

void executables_forget(struct world *world) {
    const void *exec;
    for (size_t at = 0; (exec = handle_any(world, HANDLE_EXEC, &at)) != NULL;)
        free_executable(world, (struct executable *)(uintptr_t)exec);
}

static struct executable *make_executable(struct world *world, struct graph *graph, unsigned long long flags) {
    unsigned steps = count_steps(graph);
    struct executable *exec = calloc(1, sizeof *exec);
    if (!exec) return NULL;
    exec->steps = calloc(steps ? steps : 1, sizeof *exec->steps);
    exec->need_end = calloc(steps ? steps : 1, sizeof *exec->need_end);
    if (!exec->steps || !exec->need_end || !flatten(exec, graph, (struct needs){0}) ||
        handle_add(world, exec, HANDLE_EXEC)) {
        free_executable(world, exec);
        return NULL;
    }
    exec->plan.needs = exec->needs;
    exec->plan.need_end = exec->need_end;
    exec->plan.users = 1;
    exec->plan.owner = exec;
    exec->plan.drop = drop;
    exec->graph = graph;
    exec->flags = flags;
    graph->users++;
    return exec;
}

static struct executable *exec_of(struct call *call, cu_graph_exec handle) {
    if (handle_is(call->world, handle, HANDLE_EXEC)) {
        struct executable *exec = handle;
        if (!exec->destroyed) return exec;
    }
    call->result = R_CUDA_ERROR_INVALID_VALUE;
    return NULL;
}

static void instantiate(struct call *call, cu_graph_exec *out, cu_graph handle, unsigned long long flags) {
    struct graph *graph = out ? graph_of(call, handle) : NULL;
    if (!out || (graph && graph->capturing) || flags & ~(unsigned long long)(AUTO_FREE | DEVICE_LAUNCH | NODE_PRIORITY))
        call->result = R_CUDA_ERROR_INVALID_VALUE;
    else if (flags & DEVICE_LAUNCH)
        call->result = R_CUDA_ERROR_NOT_SUPPORTED;
    if (call->result || !graph) return;
    struct executable *exec = make_executable(call->world, graph, flags);
    if (exec)
        *out = exec;
    else
        call->result = R_CUDA_ERROR_OUT_OF_MEMORY;
}

cu_result cpu_graph_instantiate(cu_graph_exec *exec, cu_graph graph, unsigned long long flags) {
    struct call call;
    if (call_begin(&call, NEEDS_CONTEXT)) instantiate(&call, exec, graph, flags);
    return call_end(&call);
}

/* Uploading is nothing here. */
cu_result cpu_graph_instantiate_as(cu_graph_exec *exec, cu_graph graph, cu_instantiate *how) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    if (!how) {
        call.result = R_CUDA_ERROR_INVALID_VALUE;
        return call_end(&call);
    }
    if (!(how->flags & UPLOAD) || stream_of(&call, how->upload))
        instantiate(&call, exec, graph, how->flags & ~(unsigned long long)UPLOAD);
    how->wrong_node = NULL;
    how->result = call.result ? NOT_INSTANTIATED : INSTANTIATED;
    return call_end(&call);
}

cu_result cpu_graph_exec_flags(cu_graph_exec handle, unsigned long long *flags) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    const struct executable *exec = exec_of(&call, handle);
    if (exec && flags)
        *flags = exec->flags;
    else
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    return call_end(&call);
}

/* Launches that are under way go on. */
cu_result cpu_graph_exec_destroy(cu_graph_exec handle) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    struct executable *exec = exec_of(&call, handle);
    if (exec) {
        exec->destroyed = true;
        graph_plan_leave(call.world, &exec->plan);
    }
    return call_end(&call);
}

/* ---- launches -------------------------------------------------------------------------------------- */
static struct launch *copy_launch(struct world *world, const struct launch *draft) {
    struct launch *launch = malloc(sizeof *launch);
    if (!launch) return NULL;
    unsigned bytes = draft->grid.fn->param_bytes;
    *launch = *draft;
    launch->grid.world_data = launch;
    launch->grid.params = malloc(bytes ? bytes : 1);
    if (!launch->grid.params) {
        free(launch);
        return NULL;
    }
    memcpy(launch->grid.params, draft->grid.params, bytes);
    launch->grid.id = ++world->grid_serial;
    return launch;
}

/* False: out of memory. */
static bool fill_op(struct call *call, struct op *op, const struct executable *exec, const struct graph_node *node,
                    const struct stream *launched_in) {
    if (node->kind == OP_KERNEL) {
        op->launch = copy_launch(call->world, node->launch);
        if (!op->launch) return false;
        op->launch->op = op;
        order_enqueue(call->world, op->launch);
        op->launch->priority = exec->flags & NODE_PRIORITY ? node->launch->priority : launched_in->priority;
        op->programmatic = node->programmatic;
        call->world->counters.launches++;
        call->world->counters.pdl_launches += node->programmatic;
    } else if (node->kind == OP_COPY || node->kind == OP_FILL) {
        transfer_to_op(op, &node->transfer);
    } else if (node->event) {
        op->event = node->event;
        op->event->users++;
        op->generation = node->kind == OP_RECORD ? ++op->event->recorded : op->event->recorded;
    }
    return true;
}

static bool add_node(struct call *call, struct executable *exec, struct graph_run *run, unsigned number,
                     struct stream **chains, const struct stream *launched_in) {
    const struct step *step = &exec->steps[number];
    struct stream **stream = &chains[step->chain];
    if (!*stream) *stream = stream_create(step->node->device, step->node->priority, false);
    if (!*stream) return false;
    (*stream)->doomed = true;
    struct op *op = stream_op(*stream, step->node->child ? OP_EMPTY : step->node->kind);
    if (!op) return false;
    graph_run_add(run, op, number);
    return fill_op(call, op, exec, step->node, launched_in);
}

static void launch(struct call *call, struct executable *exec, struct stream *stream) {
    struct graph_run *run = graph_run_make(&exec->plan);
    struct stream **chains = run ? calloc(exec->chains ? exec->chains : 1, sizeof(struct stream *)) : NULL;
    bool good = chains != NULL;
    for (unsigned n = 0; good && n < exec->plan.count; n++)
        good = add_node(call, exec, run, n, chains, stream);
    struct op *op = good ? stream_op(stream, OP_GRAPH) : NULL;
    if (op)
        graph_run_launch(run, op);
    else
        call->result = R_CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned c = 0; !op && chains && c < exec->chains; c++)
        if (chains[c]) stream_destroy(chains[c]);
    free(chains);
    if (run) graph_run_leave(call->world, run);
}

/* A kernel whose library is gone would run code that is no longer there. */
static bool libraries_live(struct call *call, const struct executable *exec) {
    for (unsigned n = 0; n < exec->plan.count; n++) {
        const struct graph_node *node = exec->steps[n].node;
        if (node->kind != OP_KERNEL) continue;
        if (handle_is(call->world, node->library, HANDLE_LIBRARY) && node->library->serial == node->library_serial)
            continue;
        call->world->report[0] = 0;
        text_add(
            call->world->report, sizeof call->world->report,
            "cuGraphLaunch: node %u of the graph launches a kernel of a library that was unloaded since its capture",
            node->index);
        call->result = R_CUDA_ERROR_INVALID_HANDLE;
        return false;
    }
    return true;
}

static void capture_child(struct call *call, struct stream *stream, const struct executable *exec) {
    struct graph_node *node = capture_node(call, stream, OP_GRAPH);
    if (!node) return;
    node->programmatic = false;
    node->child = exec->graph;
    node->child->users++;
}

cu_result cpu_graph_launch(cu_graph_exec handle, cu_stream stream) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    struct executable *exec = exec_of(&call, handle);
    struct stream *on = exec ? stream_of(&call, stream) : NULL;
    if (!on || !libraries_live(&call, exec)) return call_end(&call);
    enum taking takes = capture_takes(&call, on);
    if (takes == TAKES_NODES)
        capture_child(&call, on, exec);
    else if (takes == TAKES_WORK)
        launch(&call, exec, on);
    return call_end(&call);
}

cu_result cpu_graph_upload(cu_graph_exec handle, cu_stream stream) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    const struct executable *exec = exec_of(&call, handle);
    struct stream *on = exec ? stream_of(&call, stream) : NULL;
    if (on && capture_takes(&call, on) == TAKES_NODES) { /* an upload is no node */
        capture_invalidate(on->capture);
        call.result = R_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return call_end(&call);
}
