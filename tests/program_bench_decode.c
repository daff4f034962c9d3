/* program_bench_decode.c - part of `make bench-gpu`: mla_decode (pv=fp8) beside a public kernel, shape by shape.
 *
 * Reads a table of the peer's times (docs/peers_h200.csv) and measures the same shapes: graph replay, inputs that
 * rotate beyond the L2, reducer and planning included. Target: 1.06 t0 + 2.5 us, t0 = max(2 us + KV bytes / 4.65 TB/s,
 * flops / 900 TFLOP/s). The two anchors of tests/gpu_anchors.c come first. Options: --device KIND, --peers FILE, --only
 * TEXT (rows whose "heads,q,requests,context" begin so). Exit 1 where an anchor is not reproduced. */
#include <tests/gpu_bench.h>

#include <tools/kernel_time.h>
#include <tools/numbers.h>

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL = 64 << 20, MOST_REQUESTS = 512, MOST_SHAPES = 1024, SHORTEST = 4 /* calls of a graph */ };

struct shape {
    int heads, q, requests, context;
    double fp8, bf16; /* of the peer, 0: unknown */
};

struct tally {
    int shapes, on_target, slower_fp8, slower_bf16, compared;
    double logs; /* of ratios to the peer's FP8 kernel */
};

static struct gpu gpu;

static int read_shapes(const char *path, const char *only, struct shape *shapes) {
    char line[256];
    int count = 0;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fprintf(stderr, "bench_decode: cannot open %s\n", path);
        exit(2);
    }
    while (count < MOST_SHAPES && fgets(line, sizeof line, file) != NULL) {
        struct shape s = {0};
        if (only != NULL && strncmp(line, only, strlen(only)) != 0) continue;
        int fields = sscanf(line, "%d,%d,%d,%d,%lf,%lf", &s.heads, &s.q, &s.requests, &s.context, &s.fp8, &s.bf16);
        if (fields >= 5 && s.requests <= MOST_REQUESTS) shapes[count++] = s;
    }
    fclose(file);
    return count;
}

static double measure(const struct shape *shape) {
    char text[128];
    int32_t lens[MOST_REQUESTS];
    struct kernel_inputs *inputs;
    dcpk_error error;
    dcpk_error_init(&error);
    snprintf(text, sizeof text, "mla_decode pv=fp8 heads=%d q=%d batch=%d", shape->heads, shape->q,
             shape->requests * shape->q);
    for (int r = 0; r < shape->requests; r++)
        lens[r] = shape->context;
    dcpk_kernel *kernel = gpu_kernel(&gpu, text);
    struct kernel_wish wish = {
        .device = gpu.device, .stream = gpu.stream, .kernel = kernel, .lens = lens, .totals = lens};
    gpu_must(kernel_inputs_open(&wish, &inputs, &error), &error, text);
    double us = 0;
    int calls = kernel_inputs_calls(inputs), rounds = (SHORTEST + calls - 1) / calls;
    gpu_must(gpu_timer_bursts(&gpu.timer, kernel_inputs_launch, inputs, calls * rounds, &us, &error), &error, text);
    kernel_inputs_close(inputs);
    dcpk_kernel_free(kernel, NULL);
    return us;
}

static void show(const struct shape *s, double us, struct tally *tally) {
    double bytes = 576.0 * s->requests * s->context, flops = 2.0 * 1088 * s->requests * s->context * s->heads * s->q;
    double t0 = fmax(2 + bytes / 4.65e6, flops / 900e6), target = 1.06 * t0 + 2.5;
    const char *verdict = us <= target ? "on target" : us <= s->fp8 ? "" : "SLOWER";
    printf("%3d %d %3d %6d %9.2f us %8.2f target x%5.2f  %5.2f TB/s %6.0f TFLOP/s  fp8 %8.2f x%5.2f  bf16 %8.2f x%5.2f "
           " %s\n",
           s->heads, s->q, s->requests, s->context, us, target, us / target, bytes / us / 1e6, flops / us / 1e6, s->fp8,
           s->fp8 / us, s->bf16, s->bf16 / us, verdict);
    fflush(stdout);
    tally->shapes++;
    tally->on_target += us <= target;
    tally->slower_fp8 += s->fp8 > 0 && us > s->fp8;
    tally->slower_bf16 += s->bf16 > 0 && us > s->bf16;
    if (s->fp8 > 0) {
        tally->compared++;
        tally->logs += log(s->fp8 / us);
    }
}

int main(int argc, char **argv) {
    static const struct option longs[] = {{"device", required_argument, NULL, 'd'},
                                          {"peers", required_argument, NULL, 'p'},
                                          {"only", required_argument, NULL, 'o'},
                                          {NULL, 0, NULL, 0}};
    const char *device = "cuda", *peers = "docs/peers_h200.csv", *only = NULL;
    for (int c; (c = getopt_long(argc, argv, "d:p:o:", longs, NULL)) != -1;) {
        if (c == '?') {
            fprintf(stderr, "usage: bench_decode [--device KIND] [--peers FILE] [--only TEXT]\n");
            return 2;
        }
        device = c == 'd' ? optarg : device;
        peers = c == 'p' ? optarg : peers;
        only = c == 'o' ? optarg : only;
    }
    static struct shape shapes[MOST_SHAPES];
    struct tally tally = {0};
    struct random random;
    double read_gbs;
    int count = read_shapes(peers, only, shapes);
    uint64_t *pool = malloc(POOL);
    if (pool == NULL) return 1;
    random_seed(&random, 1);
    for (size_t i = 0; i < POOL / sizeof *pool; i++)
        pool[i] = (random_next(&random) & 0x8787878787878787) | 0x2828282828282828; /* e4m3 of usual size */
    gpu_open(&gpu, device);
    printf("bench-decode: %s, %d shapes of %s\n", gpu.info.name, count, peers);
    bool fine = gpu_anchors(&gpu, pool, POOL, &read_gbs);
    for (int i = 0; i < count; i++)
        show(&shapes[i], measure(&shapes[i]), &tally);
    gpu_close(&gpu);
    free(pool);
    printf("bench-decode: %d of %d on target; %d slower than the FP8 peer, %d than the BF16 peer; geometric mean %.3f "
           "times the FP8 "
           "peer's speed\n",
           tally.on_target, tally.shapes, tally.slower_fp8, tally.slower_bf16,
           tally.compared > 0 ? exp(tally.logs / tally.compared) : 0.0);
    return fine ? 0 : 1;
}
