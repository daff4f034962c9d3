/* layer_graph.c - steps of a layer run captured into graphs and replayed.
 * May call: include/dcpk and the driver's graph functions by name. Must not: look at results. */
#include <tools/layer_run_inside.h>

#include <tools/tool_error.h>

#include <stdlib.h>
#include <string.h>

/* The driver's functions that dcpk does not wrap: it launches into streams and never captures itself. */
struct graph_calls {
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*instantiate)(void **exec, void *graph, unsigned long long flags);
    int (*launch)(void *exec, void *stream);
    int (*exec_destroy)(void *exec);
    int (*graph_destroy)(void *graph);
    int (*stream_context)(void *stream, void **context);
    int (*push)(void *context);
    int (*pop)(void **context);
};

static bool find_calls(const dcpk_device *device, struct graph_calls *calls) {
    static const char *const names[] = {"cuStreamBeginCapture_v2", "cuStreamEndCapture",  "cuGraphInstantiateWithFlags",
                                        "cuGraphLaunch",           "cuGraphExecDestroy",  "cuGraphDestroy",
                                        "cuStreamGetCtx",          "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"};
    void *found[sizeof names / sizeof *names];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        found[i] = dcpk_device_symbol(device, names[i]);
        if (!found[i]) {
            return false;
        }
    }
    _Static_assert(sizeof *calls == sizeof found, "one function a name");
    memcpy(calls, found, sizeof *calls);
    return true;
}

static dcpk_status refuse(const char *what, int code, dcpk_error *error) {
    return code == 0     ? DCPK_OK
           : code == 801 ? tool_fail(error, DCPK_E_NOT_FOUND, "this driver has no graphs (%s: 801)", what)
                         : tool_fail(error, DCPK_E_DRIVER, "%s: driver error %d", what, code);
}

/* Graph calls want the stream's context to be current; dcpk leaves the thread's as it was. */
static dcpk_status enter(const struct graph_calls *calls, void *stream, dcpk_error *error) {
    void *context = NULL;
    dcpk_status status = refuse("cuStreamGetCtx", calls->stream_context(stream, &context), error);
    return status == DCPK_OK ? refuse("cuCtxPushCurrent", calls->push(context), error) : status;
}

static void leave(const struct graph_calls *calls) {
    void *context;
    calls->pop(&context);
}

/* The steps on one rank, or on all of them in one stream. */
static dcpk_status launch_steps(struct layer_run *run, int32_t first, int32_t count, int32_t r, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (int32_t s = first; s < first + count && status == DCPK_OK; s++) {
        status =
            run->options.phased ? layer_launch_in_one_stream(run, s, error) : layer_launch_rank(run, s, r, NULL, error);
    }
    return status;
}

/* A capture that was begun is ended, whatever happens in it. */
static dcpk_status capture(struct layer_run *run, const struct graph_calls *calls, int32_t first, int32_t count,
                           int32_t r, void **exec, dcpk_error *error) {
    enum { RELAXED = 2 };
    void *stream = run->group.rank[r].stream, *graph = NULL;
    uint32_t opened[LAYER_MAX_RANKS] = {0};
    for (int32_t i = 0; i < run->group.dcp; i++) {
        opened[i] = run->rank[i].opened;
    }
    dcpk_status status = enter(calls, stream, error);
    if (status != DCPK_OK) {
        return status;
    }
    status = refuse("cuStreamBeginCapture", calls->begin(stream, RELAXED), error);
    if (status != DCPK_OK) {
        leave(calls);
        return status;
    }
    status = launch_steps(run, first, count, r, error);
    int ended = calls->end(stream, &graph);
    for (int32_t i = 0; i < run->group.dcp; i++) {
        run->rank[i].opened = opened[i]; /* nothing has run yet */
    }
    if (status == DCPK_OK) {
        status = refuse("cuStreamEndCapture", ended, error);
    }
    if (status == DCPK_OK) {
        status = refuse("cuGraphInstantiate", calls->instantiate(exec, graph, 0), error);
    }
    if (graph) {
        calls->graph_destroy(graph);
    }
    leave(calls);
    return status;
}

/* One stream serves the ranks of a phased run: they must share its device. */
static dcpk_status check_one_device(const struct layer_run *run, dcpk_error *error) {
    dcpk_device_info first = {.size = sizeof first}, info = {.size = sizeof info};
    dcpk_status status = dcpk_device_get_info(run->group.rank[0].device, &first, error);
    for (int32_t r = 1; run->options.phased && r < run->group.dcp && status == DCPK_OK; r++) {
        status = dcpk_device_get_info(run->group.rank[r].device, &info, error);
        if (status == DCPK_OK && info.ordinal != first.ordinal) {
            status = tool_fail(error, DCPK_E_ARG,
                               "ranks %d and 0 are on devices %d and %d: an event-ordered run is captured into one "
                               "stream, so %s",
                               r, info.ordinal, first.ordinal,
                               strcmp(info.kind, "cpu") == 0 ? "not on the CPU device, which has a device for each rank"
                                                             : "name one device");
        }
    }
    return status;
}

/* ---- graphs that stay ---------------------------------------------------------------------------- */

struct layer_graph {
    struct layer_run *run;
    struct graph_calls calls;
    int32_t count, graphs; /* steps; a graph a rank, or one for all */
    void *execs[LAYER_MAX_RANKS];
};

dcpk_status layer_graph_open(struct layer_run *run, int32_t first, int32_t count, struct layer_graph **out,
                             dcpk_error *error) {
    struct graph_calls calls;
    if (!find_calls(run->group.rank[0].device, &calls)) {
        return tool_fail(error, DCPK_E_NOT_FOUND, "this driver has no graphs");
    }
    struct layer_graph *graph = calloc(1, sizeof *graph);
    if (!graph) {
        return tool_fail(error, DCPK_E_NOMEM, "no memory for a layer's graphs");
    }
    graph->calls = calls;
    graph->run = run;
    graph->count = count;
    graph->graphs = run->options.phased ? 1 : run->group.dcp;
    dcpk_status status = check_one_device(run, error);
    if (status == DCPK_OK) {
        status = rank_group_sync(&run->group, error);
    }
    for (int32_t r = 0; r < graph->graphs && status == DCPK_OK; r++) {
        status = capture(run, &graph->calls, first, count, r, &graph->execs[r], error);
    }
    if (status != DCPK_OK) {
        layer_graph_close(graph);
        return status;
    }
    *out = graph;
    return DCPK_OK;
}

dcpk_status layer_graph_launch(struct layer_graph *graph, dcpk_error *error) {
    struct layer_run *run = graph->run;
    dcpk_status status = DCPK_OK;
    for (int32_t r = 0; r < graph->graphs && status == DCPK_OK; r++) {
        status = enter(&graph->calls, run->group.rank[r].stream, error);
        if (status == DCPK_OK) {
            int code = graph->calls.launch(graph->execs[r], run->group.rank[r].stream);
            status = refuse("cuGraphLaunch", code, error);
            leave(&graph->calls);
        }
    }
    for (int32_t r = 0; r < run->group.dcp; r++) {
        run->rank[r].opened += (uint32_t)graph->count;
    }
    return status;
}

void layer_graph_close(struct layer_graph *graph) {
    for (int32_t r = 0; graph && r < graph->graphs; r++) {
        if (graph->execs[r]) {
            graph->calls.exec_destroy(graph->execs[r]);
        }
    }
    free(graph);
}

dcpk_status layer_run_graph(struct layer_run *run, int32_t first, int32_t count, int32_t times, dcpk_error *error) {
    struct layer_graph *graph = NULL;
    dcpk_status status = layer_graph_open(run, first, count, &graph, error);
    for (int32_t t = 0; graph && t < times && status == DCPK_OK; t++) {
        status = layer_graph_launch(graph, error);
        if (status == DCPK_OK && t % 64 == 63) {
            status = rank_group_sync(&run->group, error);
        }
    }
    if (status == DCPK_OK) {
        status = rank_group_sync(&run->group, error);
    }
    layer_graph_close(graph);
    return status;
}
