/* gpu_bench.c - see gpu_bench.h. */
#include <tests/gpu_bench.h>

#include <tests/no_multicast.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
    exit(1);
}

void gpu_must(dcpk_status status, const dcpk_error *error, const char *what) {
    if (status != DCPK_OK) {
        fail(what, error->text);
    }
}

void gpu_open_untimed(struct gpu *gpu, const char *device) {
    dcpk_error error;
    no_multicast_or_exit(device);
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
}

void gpu_open(struct gpu *gpu, const char *device) {
    dcpk_error error;
    dcpk_error_init(&error);
    gpu_open_untimed(gpu, device);
    gpu_must(gpu_timer_open(&gpu->timer, gpu->device, gpu->stream, &error), &error, "graphs and events");
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

struct call {
    gpu_launch *launch;
    void *self;
};

static dcpk_status call_once(void *self, int i, dcpk_error *error) {
    struct call *call = self;
    (void)error; /* the launch ends the program itself */
    call->launch(call->self, i);
    return DCPK_OK;
}

double gpu_time(struct gpu *gpu, gpu_launch *launch, void *self, int calls) {
    dcpk_error error;
    double us = 0;
    struct call call = {launch, self};
    dcpk_error_init(&error);
    gpu_must(gpu_timer_measure(&gpu->timer, call_once, &call, calls, &us, &error), &error, "timing");
    return us;
}
