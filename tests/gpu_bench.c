/* gpu_bench.c - see gpu_bench.h. */
#include <tests/gpu_bench.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEASURES = 7 };

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
    exit(1);
}

void gpu_must(dcpk_status status, const dcpk_error *error, const char *what) {
    if (status != DCPK_OK) {
        fail(what, error->text);
    }
}

static void must_call(int code, const char *what) {
    char text[64];
    snprintf(text, sizeof text, "driver error %d", code);
    if (code != 0) {
        fail(what, text);
    }
}

static void find_calls(struct gpu *gpu) {
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
        found[i] = dcpk_device_symbol(gpu->device, names[i]);
        if (!found[i]) {
            fail(names[i], "the driver has none");
        }
    }
    _Static_assert(sizeof gpu->calls == sizeof found, "one function a name");
    memcpy(&gpu->calls, found, sizeof gpu->calls);
}

void gpu_open(struct gpu *gpu, const char *device) {
    dcpk_error error;
    void *context = NULL;
    dcpk_error_init(&error);
    memset(gpu, 0, sizeof *gpu);
    dcpk_device_options options = {.size = sizeof options, .kind = device, .pdl = 1, .multicast = 0};
    dcpk_gen_options gen = {.size = sizeof gen, .template_path = "templates:templates/checks:tests/templates"};
    if (dcpk_device_open(&options, &gpu->device, &error) != DCPK_OK) {
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, error.text);
        exit(3); /* nothing to measure */
    }
    gpu->info.size = sizeof gpu->info;
    gpu_must(dcpk_device_get_info(gpu->device, &gpu->info, &error), &error, "device");
    gpu_must(dcpk_stream_create(gpu->device, &gpu->stream, &error), &error, "stream");
    gpu_must(dcpk_gen_open(&gen, &gpu->gen, &error), &error, "generator");
    find_calls(gpu);
    must_call(gpu->calls.stream_context(gpu->stream, &context), "cuStreamGetCtx");
    must_call(gpu->calls.push(context), "cuCtxPushCurrent");
    must_call(gpu->calls.event_create(&gpu->from, 0), "cuEventCreate");
    must_call(gpu->calls.event_create(&gpu->to, 0), "cuEventCreate");
}

void gpu_close(struct gpu *gpu) {
    dcpk_stream_destroy(gpu->device, gpu->stream, NULL);
    dcpk_gen_close(gpu->gen);
    dcpk_device_close(gpu->device);
}

dcpk_kernel *gpu_kernel(struct gpu *gpu, const char *text) {
    dcpk_error error;
    dcpk_spec spec;
    dcpk_image *image = NULL;
    dcpk_kernel *kernel = NULL;
    dcpk_error_init(&error);
    gpu_must(dcpk_spec_parse(&spec, text, &error), &error, text);
    gpu_must(dcpk_spec_resolve(&spec, &error), &error, text);
    gpu_must(dcpk_gen_build(gpu->gen, &spec, &image, NULL, &error), &error, text);
    gpu_must(dcpk_kernel_load(gpu->device, image, gpu->stream, &kernel, &error), &error, text);
    dcpk_image_free(image);
    return kernel;
}

uint64_t gpu_memory(struct gpu *gpu, uint64_t size, const void *bytes, uint64_t count) {
    dcpk_error error;
    uint64_t address = 0;
    dcpk_error_init(&error);
    gpu_must(dcpk_mem_alloc(gpu->device, size, &address, &error), &error, "memory");
    for (uint64_t at = 0; bytes && at < size; at += count) {
        uint64_t part = size - at < count ? size - at : count;
        gpu_must(dcpk_mem_write(gpu->device, address + at, bytes, part, &error), &error, "memory");
    }
    return address;
}

void gpu_free(struct gpu *gpu, uint64_t address) {
    if (address) {
        dcpk_mem_free(gpu->device, address, NULL);
    }
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Milliseconds of so many launches of the graph. */
static double measure(struct gpu *gpu, void *exec, int launches) {
    float ms = 0;
    dcpk_error error;
    dcpk_error_init(&error);
    must_call(gpu->calls.event_record(gpu->from, gpu->stream), "cuEventRecord");
    for (int i = 0; i < launches; i++) {
        must_call(gpu->calls.launch(exec, gpu->stream), "cuGraphLaunch");
    }
    must_call(gpu->calls.event_record(gpu->to, gpu->stream), "cuEventRecord");
    gpu_must(dcpk_stream_sync(gpu->device, gpu->stream, &error), &error, "replay");
    must_call(gpu->calls.event_time(&ms, gpu->from, gpu->to), "cuEventElapsedTime");
    return (double)ms;
}

double gpu_time(struct gpu *gpu, gpu_launch *launch, void *self, int calls) {
    void *graph = NULL, *exec = NULL;
    double us[MEASURES];
    must_call(gpu->calls.begin(gpu->stream, 2), "cuStreamBeginCapture");
    for (int i = 0; i < calls; i++) {
        launch(self, i);
    }
    must_call(gpu->calls.end(gpu->stream, &graph), "cuStreamEndCapture");
    must_call(gpu->calls.instantiate(&exec, graph, 0), "cuGraphInstantiate");
    measure(gpu, exec, 1);
    double once = measure(gpu, exec, 1);
    int launches = once > 20 ? 1 : (int)(20 / (once > 0.001 ? once : 0.001)) + 1;
    for (int i = 0; i < MEASURES; i++) {
        us[i] = 1e3 * measure(gpu, exec, launches) / launches / calls;
    }
    qsort(us, MEASURES, sizeof *us, ascending);
    gpu->calls.exec_destroy(exec);
    gpu->calls.graph_destroy(graph);
    return us[MEASURES / 2];
}
