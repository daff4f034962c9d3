/* gpu_anchors.c - two figures of the reference machine (tools/floor.h) taken anew: where both agree within 5%, the
 * others of this run compare with tables that were taken there. */
#include <tests/gpu_bench.h>

#include <tools/floor.h>

#include <math.h>
#include <stdio.h>

struct raw {
    struct gpu *gpu;
    dcpk_kernel *kernel;
    uint64_t values[3];
    uint64_t step; /* added to values[0] from call to call */
    int wrap;
};

static void launch_raw(void *self, int i) {
    struct raw *raw = self;
    dcpk_error error;
    dcpk_error_init(&error);
    uint64_t first = raw->values[0] + raw->step * (uint64_t)(raw->wrap ? i % raw->wrap : 0);
    void *params[] = {&first, &raw->values[1], &raw->values[2]};
    gpu_must(dcpk_kernel_launch_raw(raw->kernel, 0, params, raw->gpu->stream, 0, &error), &error, "launch");
}

static bool show_anchor(const char *what, double value, double anchor, const char *unit) {
    double off = value / anchor - 1;
    bool fine = fabs(off) <= 0.05;
    printf("anchor  %-44s %9.3f %-5s anchor %9.3f  %+5.1f%%  %s\n", what, value, unit, anchor, 1e2 * off,
           fine ? "reproduced" : "NOT reproduced: no figure below compares with the anchors' tables");
    return fine;
}

bool gpu_anchors(struct gpu *gpu, const void *pool, uint64_t pool_bytes, double *read_gbs) {
    struct raw read = {.gpu = gpu, .kernel = gpu_kernel(gpu, "bench_read sms=528")};
    uint64_t bytes = (uint64_t)4 << 30;
    read.values[0] = gpu_memory(gpu, bytes, pool, pool_bytes);
    read.values[1] = bytes;
    read.values[2] = gpu_memory(gpu, 256, NULL, 0);
    *read_gbs = (double)bytes / gpu_time(gpu, launch_raw, &read, 4) / 1e3;
    bool fine = show_anchor("read, plain loads, 4 GiB, 528 CTAs", *read_gbs, FLOOR_READ_GBS, "GB/s");
    gpu_free(gpu, read.values[0]);
    struct raw node = {.gpu = gpu, .kernel = gpu_kernel(gpu, "bench_node sms=132")};
    node.values[0] = node.values[1] = gpu_memory(gpu, 4096, pool, 4096);
    double us = gpu_time(gpu, launch_raw, &node, 200);
    return show_anchor("dependent node under PDL, 132 CTAs of 512", us, FLOOR_NODE_US, "us") && fine;
}
