/* gpu_bench.h - what the programs that need hardware share: a device with its generator, kernels, memory, and time as
 * tools/gpu_time.h takes it, which the CPU device has none of. */
#ifndef TESTS_GPU_BENCH_H
#define TESTS_GPU_BENCH_H

#include <dcpk/gen.h>
#include <stdbool.h>
#include <tools/gpu_time.h>

struct gpu {
    dcpk_device *device;
    dcpk_device_info info;
    void *stream;
    dcpk_gen *gen;
    struct gpu_timer timer;
};

/* The device's context stays the thread's. Ends the program with a message when there is none, or when multicast is not
 * switched off (no_multicast.h). */
void gpu_open(struct gpu *gpu, const char *device);
/* Without what measures time: no timer, gpu_time is not for it; the CPU device will do. */
void gpu_open_untimed(struct gpu *gpu, const char *device);
void gpu_close(struct gpu *gpu);
/* The kernel of a spec's text, loaded. */
dcpk_kernel *gpu_kernel(struct gpu *gpu, const char *spec);
/* Device memory; filled from host bytes, over and over, when `bytes` is not NULL. */
uint64_t gpu_memory(struct gpu *gpu, uint64_t size, const void *bytes, uint64_t count);
void gpu_free(struct gpu *gpu, uint64_t address);
/* Ends the program when status is not OK. */
void gpu_must(dcpk_status status, const dcpk_error *error, const char *what);

/* gpu_anchors.c: prints both, true when both are reproduced; read_gbs: as measured here. */
bool gpu_anchors(struct gpu *gpu, const void *pool, uint64_t pool_bytes, double *read_gbs);

/* launch(self, i): the i-th call into gpu->stream. */
typedef void gpu_launch(void *self, int i);
/* As gpu_timer_measure. */
double gpu_time(struct gpu *gpu, gpu_launch *launch, void *self, int calls);

#endif
