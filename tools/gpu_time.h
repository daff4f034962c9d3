/* gpu_time.h - timing on hardware: calls captured into one graph, the graph replayed, medians of events.
 * Uses include/dcpk and the driver's functions by name. Not for the CPU device: it has no time to measure. */
#ifndef TOOLS_GPU_TIME_H
#define TOOLS_GPU_TIME_H

#include <dcpk/runtime.h>

struct gpu_calls {
    int (*stream_context)(void *stream, void **context);
    int (*push)(void *context);
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*instantiate)(void **exec, void *graph, unsigned long long flags);
    int (*launch)(void *exec, void *stream);
    int (*exec_destroy)(void *exec);
    int (*graph_destroy)(void *graph);
    int (*event_create)(void **event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_time)(float *ms, void *from, void *to);
    int (*driver_version)(int *version);
};

struct gpu_timer {
    dcpk_device *device;
    void *stream, *from, *to; /* the caller's stream, two events */
    struct gpu_calls calls;
};

/* The stream's context stays the thread's current one from here on; the events live as long as it does. NOT_FOUND where
 * the driver has no graphs or events. */
dcpk_status gpu_timer_open(struct gpu_timer *timer, dcpk_device *device, void *stream, dcpk_error *error);

/* launch(self, i): the i-th call into the timer's stream. */
typedef dcpk_status gpu_timed(void *self, int i, dcpk_error *error);
/* Microseconds a call: `calls` of them in a graph, replayed until at least 20 ms are measured, median of 7 measures. */
dcpk_status gpu_timer_measure(struct gpu_timer *timer, gpu_timed *launch, void *self, int calls, double *us,
                              dcpk_error *error);

/* The same in short bursts with the machine at rest between them, as tables of peers are taken: a graph launch at a
 * time. */
dcpk_status gpu_timer_bursts(struct gpu_timer *timer, gpu_timed *launch, void *self, int calls, double *us,
                             dcpk_error *error);

#endif
