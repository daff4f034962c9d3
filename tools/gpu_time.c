/* gpu_time.c - see gpu_time.h. */
#include <tools/gpu_time.h>

#include <tools/tool_error.h>

#include <stdlib.h>
#include <string.h>

enum { MEASURES = 7, RELAXED = 2 };

static dcpk_status called(int code, const char *what, dcpk_error *error) {
    return code == 0 ? DCPK_OK : tool_fail(error, DCPK_E_DRIVER, "%s: driver error %d", what, code);
}

static dcpk_status find_calls(struct gpu_timer *timer, dcpk_error *error) {
    static const char *const names[] = {"cuStreamGetCtx",
                                        "cuCtxPushCurrent_v2",
                                        "cuStreamBeginCapture_v2",
                                        "cuStreamEndCapture",
                                        "cuGraphInstantiateWithFlags",
                                        "cuGraphLaunch",
                                        "cuGraphExecDestroy",
                                        "cuGraphDestroy",
                                        "cuEventCreate",
                                        "cuEventRecord",
                                        "cuEventElapsedTime",
                                        "cuDriverGetVersion"};
    void *found[sizeof names / sizeof *names];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        found[i] = dcpk_device_symbol(timer->device, names[i]);
        if (!found[i]) {
            return tool_fail(error, DCPK_E_NOT_FOUND, "%s: the driver has none", names[i]);
        }
    }
    _Static_assert(sizeof timer->calls == sizeof found, "one function a name");
    memcpy(&timer->calls, found, sizeof timer->calls);
    return DCPK_OK;
}

dcpk_status gpu_timer_open(struct gpu_timer *timer, dcpk_device *device, void *stream, dcpk_error *error) {
    void *context = NULL;
    *timer = (struct gpu_timer){.device = device, .stream = stream};
    dcpk_status status = find_calls(timer, error);
    if (status == DCPK_OK) {
        status = called(timer->calls.stream_context(stream, &context), "cuStreamGetCtx", error);
    }
    if (status == DCPK_OK) {
        status = called(timer->calls.push(context), "cuCtxPushCurrent", error);
    }
    if (status == DCPK_OK) {
        status = called(timer->calls.event_create(&timer->from, 0), "cuEventCreate", error);
    }
    return status == DCPK_OK ? called(timer->calls.event_create(&timer->to, 0), "cuEventCreate", error) : status;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Milliseconds of so many launches of the graph. */
static dcpk_status measure(struct gpu_timer *timer, void *exec, int launches, double *ms, dcpk_error *error) {
    float elapsed = 0;
    dcpk_status status = called(timer->calls.event_record(timer->from, timer->stream), "cuEventRecord", error);
    for (int i = 0; i < launches && status == DCPK_OK; i++) {
        status = called(timer->calls.launch(exec, timer->stream), "cuGraphLaunch", error);
    }
    if (status == DCPK_OK) {
        status = called(timer->calls.event_record(timer->to, timer->stream), "cuEventRecord", error);
    }
    if (status == DCPK_OK) {
        status = dcpk_stream_sync(timer->device, timer->stream, error);
    }
    if (status == DCPK_OK) {
        status = called(timer->calls.event_time(&elapsed, timer->from, timer->to), "cuEventElapsedTime", error);
    }
    *ms = (double)elapsed;
    return status;
}

/* A capture that was begun is ended, whatever happens in it. */
static dcpk_status capture(struct gpu_timer *timer, gpu_timed *launch, void *self, int calls, void **exec,
                           dcpk_error *error) {
    void *graph = NULL;
    dcpk_status status = called(timer->calls.begin(timer->stream, RELAXED), "cuStreamBeginCapture", error);
    if (status != DCPK_OK) {
        return status;
    }
    for (int i = 0; i < calls && status == DCPK_OK; i++) {
        status = launch(self, i, error);
    }
    int ended = timer->calls.end(timer->stream, &graph);
    if (status == DCPK_OK) {
        status = called(ended, "cuStreamEndCapture", error);
    }
    if (status == DCPK_OK) {
        status = called(timer->calls.instantiate(exec, graph, 0), "cuGraphInstantiate", error);
    }
    if (graph) {
        timer->calls.graph_destroy(graph);
    }
    return status;
}

static dcpk_status replay(struct gpu_timer *timer, gpu_timed *launch, void *self, int calls, double least_ms,
                          double *us, dcpk_error *error) {
    void *exec = NULL;
    double each[MEASURES], once = 0;
    dcpk_status status = capture(timer, launch, self, calls, &exec, error);
    for (int warm = 0; warm < 2 && status == DCPK_OK; warm++) {
        status = measure(timer, exec, 1, &once, error);
    }
    int launches = once >= least_ms ? 1 : (int)(least_ms / (once > 0.001 ? once : 0.001)) + 1;
    for (int i = 0; i < MEASURES && status == DCPK_OK; i++) {
        status = measure(timer, exec, launches, &each[i], error);
        each[i] = 1e3 * each[i] / launches / calls;
    }
    if (exec) {
        timer->calls.exec_destroy(exec);
    }
    if (status == DCPK_OK) {
        qsort(each, MEASURES, sizeof *each, ascending);
        *us = each[MEASURES / 2];
    }
    return status;
}

dcpk_status gpu_timer_measure(struct gpu_timer *timer, gpu_timed *launch, void *self, int calls, double *us,
                              dcpk_error *error) {
    return replay(timer, launch, self, calls, 20, us, error);
}

dcpk_status gpu_timer_bursts(struct gpu_timer *timer, gpu_timed *launch, void *self, int calls, double *us,
                             dcpk_error *error) {
    return replay(timer, launch, self, calls, 0, us, error);
}
