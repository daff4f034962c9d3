/* gpu_bench.h - timing on hardware: calls captured into one graph, the graph replayed, medians of events.
 * Uses include/dcpk and the driver's functions by name. Not for the CPU device: it has no time to measure. */
#ifndef TESTS_GPU_BENCH_H
#define TESTS_GPU_BENCH_H

#include <dcpk/gen.h>
#include <dcpk/runtime.h>
#include <stdbool.h>

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

struct gpu {
    dcpk_device *device;
    dcpk_device_info info;
    void *stream, *from, *to; /* a stream, two events */
    dcpk_gen *gen;
    struct gpu_calls calls;
};

/* The device's context stays the thread's. Ends the program with a message when there is none. */
void gpu_open(struct gpu *gpu, const char *device);
void gpu_close(struct gpu *gpu);
/* The kernel of a spec's text, loaded. */
dcpk_kernel *gpu_kernel(struct gpu *gpu, const char *spec);
/* Device memory; filled from host bytes, over and over, when `bytes` is not NULL. */
uint64_t gpu_memory(struct gpu *gpu, uint64_t size, const void *bytes, uint64_t count);
void gpu_free(struct gpu *gpu, uint64_t address);
/* Ends the program when status is not OK. */
void gpu_must(dcpk_status status, const dcpk_error *error, const char *what);

/* launch(self, i): the i-th call into gpu->stream. */
typedef void gpu_launch(void *self, int i);
/* Microseconds a call: `calls` of them in a graph, replayed until at least 20 ms are measured, median of 7 measures. */
double gpu_time(struct gpu *gpu, gpu_launch *launch, void *self, int calls);

#endif
