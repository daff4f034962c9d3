/* driver_graph.c - graphs and their nodes: made by captures, looked at by the caller, gone with their last user.
 *
 * A graph does not change once its capture has ended. May not launch anything (driver_replay.c). */
#include "runtime/cpu/driver_graph.h"

#include <stdlib.h>
#include <string.h>

struct graph *graph_make(struct world *world) {
    struct graph *graph = calloc(1, sizeof *graph);
    if (!graph || handle_add(world, graph, HANDLE_GRAPH)) {
        free(graph);
        return NULL;
    }
    graph->users = 1;
    return graph;
}

static void free_node(struct world *world, struct graph_node *node, bool all_goes) {
    handle_remove(world, node);
    if (node->event) event_leave(node->event);
    if (node->child && !all_goes) graph_leave(world, node->child);
    grid_free(node->launch);
    free(node->needs);
    free(node);
}

static void free_graph(struct world *world, struct graph *graph, bool all_goes) {
    handle_remove(world, graph);
    while (graph->count)
        free_node(world, graph->nodes[--graph->count], all_goes);
    for (unsigned i = 0; i < graph->object_count && !all_goes; i++)
        objects_release(world, graph->objects[i].object, graph->objects[i].references);
    free(graph->objects);
    free(graph->nodes);
    free(graph);
}

void graph_leave(struct world *world, struct graph *graph) {
    if (--graph->users == 0) free_graph(world, graph, false);
}

void graphs_forget(struct world *world) {
    const void *graph;
    for (size_t at = 0; (graph = handle_any(world, HANDLE_GRAPH, &at)) != NULL;)
        free_graph(world, (struct graph *)(uintptr_t)graph, true);
}

static bool grow(struct graph *graph) {
    unsigned capacity = graph->capacity ? graph->capacity * 2 : 16;
    struct graph_node **more = realloc(graph->nodes, capacity * sizeof(struct graph_node *));
    if (!more) return false;
    graph->nodes = more;
    graph->capacity = capacity;
    return true;
}

struct graph_node *graph_add(struct world *world, struct graph *graph, enum op_kind kind,
                             const struct frontier *needs) {
    if (graph->count == graph->capacity && !grow(graph)) return NULL;
    struct graph_node *node = calloc(1, sizeof *node);
    if (!node) return NULL;
    node->needs = calloc(needs->count ? needs->count : 1, sizeof(struct graph_node *));
    if (!node->needs || handle_add(world, node, HANDLE_NODE)) {
        free(node->needs);
        free(node);
        return NULL;
    }
    for (unsigned i = 0; i < needs->count; i++)
        node->needs[i] = needs->nodes[i];
    node->need_count = needs->count;
    node->kind = kind;
    node->graph = graph;
    node->index = graph->count;
    graph->nodes[graph->count++] = node;
    return node;
}

/* ---- nodes of a capture ---------------------------------------------------------------------------- */
void capture_kernel(struct call *call, struct stream *stream, struct launch *launch, const struct library *library,
                    bool programmatic) {
    struct graph_node *node = capture_node(call, stream, OP_KERNEL);
    if (!node) {
        grid_free(launch);
        return;
    }
    node->programmatic &= programmatic;
    node->launch = launch;
    node->library = library;
    node->library_serial = library->serial;
}

/* A pageable source is read, and a pageable destination written, whenever the node runs. */
void capture_transfer(struct call *call, struct stream *stream, const struct transfer *transfer) {
    struct graph_node *node = capture_node(call, stream, transfer->from.at ? OP_COPY : OP_FILL);
    if (!node) return;
    node->programmatic = false;
    node->transfer = *transfer;
}

struct graph *graph_of(struct call *call, cu_graph handle) {
    if (handle_is(call->world, handle, HANDLE_GRAPH)) {
        struct graph *graph = handle;
        if (!graph->destroyed) return graph;
    }
    call->result = R_CUDA_ERROR_INVALID_VALUE;
    return NULL;
}

/* ---- for the caller -------------------------------------------------------------------------------- */
cu_result cpu_graph_destroy(cu_graph handle) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    struct graph *graph = graph_of(&call, handle);
    if (graph && graph->capturing) {
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    } else if (graph) {
        graph->destroyed = true;
        graph_leave(call.world, graph);
    }
    return call_end(&call);
}

cu_result cpu_graph_nodes(cu_graph handle, cu_graph_node *nodes, size_t *count) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    const struct graph *graph = graph_of(&call, handle);
    if (!graph) return call_end(&call);
    if (!count) {
        call.result = R_CUDA_ERROR_INVALID_VALUE;
        return call_end(&call);
    }
    for (size_t i = 0; nodes && i < *count; i++)
        nodes[i] = i < graph->count ? graph->nodes[i] : NULL;
    if (!nodes || *count > graph->count) *count = graph->count;
    return call_end(&call);
}

static cu_edge edge_data(const struct graph_node *node) {
    cu_edge edge;
    memset(&edge, 0, sizeof edge);
    if (node->programmatic) edge.from_port = edge.type = DRIVER_EDGE_PROGRAMMATIC;
    return edge;
}

static size_t write_edges(const struct graph *graph, cu_graph_node *from, cu_graph_node *to, cu_edge *data,
                          size_t room) {
    size_t count = 0;
    for (unsigned n = 0; n < graph->count; n++)
        for (unsigned i = 0; i < graph->nodes[n]->need_count; i++, count++) {
            if (count >= room) continue;
            from[count] = graph->nodes[n]->needs[i];
            to[count] = graph->nodes[n];
            if (data) data[count] = edge_data(graph->nodes[n]);
        }
    for (size_t i = count; i < room; i++)
        from[i] = to[i] = NULL;
    return count;
}

static bool any_programmatic(const struct graph *graph) {
    for (unsigned n = 0; n < graph->count; n++)
        if (graph->nodes[n]->programmatic) return true;
    return false;
}

cu_result cpu_graph_edges(cu_graph handle, cu_graph_node *from, cu_graph_node *to, cu_edge *data, size_t *count) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    const struct graph *graph = graph_of(&call, handle);
    if (!graph) return call_end(&call);
    if (!count || !from != !to || (data && !from)) {
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    } else if (from && !data && any_programmatic(graph)) {
        call.result = R_CUDA_ERROR_LOSSY_QUERY;
    } else {
        size_t room = from ? *count : 0, all = write_edges(graph, from, to, data, room);
        if (!from || room > all) *count = all;
    }
    return call_end(&call);
}

cu_result cpu_graph_node_type(cu_graph_node node, int *type) {
    static const int types[] = {
        [OP_KERNEL] = 0, [OP_COPY] = 1, [OP_FILL] = 2, [OP_GRAPH] = 4, [OP_WAIT] = 6, [OP_RECORD] = 7};
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    if (type && handle_is(call.world, node, HANDLE_NODE))
        *type = types[((const struct graph_node *)node)->kind];
    else
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    return call_end(&call);
}
