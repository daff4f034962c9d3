/* pack_layer: an engine that has the runtime and packs, and nothing else: linked with libdcpk.so alone. On the CPU
 * device, from the packs of $DCPK_AOT_PATH, made for heads=2, dcp=1,2, batch=2: warms up every kernel of both forms,
 * opens the layers that need no box, and runs query_norm on numbers whose result is plain. Exit 0 and "right" when all
 * of it holds, else 1 and what does not. */
#include <dcpk/dcpk.h>
#include <dcpk/pack.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1536, PITCH = 2112, BATCH = 2 };

static dcpk_error error;

static void fail(const char *what) {
    fprintf(stderr, "pack_layer: %s: %s\n", what, error.text);
    exit(1);
}

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) != DCPK_OK) fail(#call);                                                                            \
    } while (0)

static void warm_up(dcpk_device *device, const dcpk_provider *provider, const char *keys, int32_t form) {
    dcpk_spec base, specs[DCPK_LAYER_MAX_SPECS];
    dcpk_kernel *kernels[DCPK_LAYER_MAX_SPECS];
    uint32_t count = 0;
    MUST(dcpk_spec_parse(&base, keys, &error));
    dcpk_layer_options options = {.size = sizeof options, .base = &base, .form = form, .provider = provider};
    MUST(dcpk_layer_specs(&options, specs, DCPK_LAYER_MAX_SPECS, &count, &error));
    MUST(dcpk_kernel_warm(device, provider, specs, count, NULL, kernels, &error));
    for (uint32_t i = 0; i < count; i++)
        MUST(dcpk_kernel_free(kernels[i], &error));
    if (base.dcp > 1) return;
    dcpk_layer *layer = NULL;
    MUST(dcpk_layer_open(device, NULL, &options, &layer, &error));
    MUST(dcpk_layer_close(layer, &error));
}

/* bfloat16 bits of 2, 3 and the result: rows of equal numbers have root mean square 2, so 2 / 2 * gamma 3 = 3. */
static void run_norm(dcpk_device *device, const dcpk_provider *provider) {
    static uint16_t qkv[BATCH * PITCH], gamma[WIDTH], out[BATCH * WIDTH];
    dcpk_spec spec;
    dcpk_kernel *kernel = NULL;
    dcpk_args args = {.size = sizeof args, .pitch = PITCH, .eps = 1e-6f};
    for (int i = 0; i < BATCH * PITCH; i++)
        qkv[i] = 0x4000;
    for (int i = 0; i < WIDTH; i++)
        gamma[i] = 0x4040;
    MUST(dcpk_spec_parse(&spec, "query_norm heads=2 batch=2", &error));
    MUST(dcpk_spec_resolve(&spec, &error));
    MUST(dcpk_kernel_warm(device, provider, &spec, 1, NULL, &kernel, &error));
    MUST(dcpk_mem_alloc(device, sizeof qkv, &args.qkv, &error));
    MUST(dcpk_mem_alloc(device, sizeof gamma, &args.q_a_norm, &error));
    MUST(dcpk_mem_alloc(device, sizeof out, &args.qc, &error));
    MUST(dcpk_mem_write(device, args.qkv, qkv, sizeof qkv, &error));
    MUST(dcpk_mem_write(device, args.q_a_norm, gamma, sizeof gamma, &error));
    MUST(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, DCPK_LAUNCH_FIRST, &error));
    MUST(dcpk_device_sync(device, &error));
    MUST(dcpk_mem_read(device, out, args.qc, sizeof out, &error));
    for (int i = 0; i < BATCH * WIDTH; i++)
        if (out[i] != 0x4040) {
            snprintf(error.text, sizeof error.text, "element %d is %04x", i, out[i]);
            fail("query_norm");
        }
    MUST(dcpk_mem_free(device, args.qkv, &error));
    MUST(dcpk_mem_free(device, args.q_a_norm, &error));
    MUST(dcpk_mem_free(device, args.qc, &error));
    MUST(dcpk_kernel_free(kernel, &error));
}

int main(void) {
    dcpk_device_options options = {.size = sizeof options, .kind = "cpu", .pdl = -1, .multicast = -1};
    dcpk_device *device = NULL;
    dcpk_packs *packs = NULL;
    dcpk_provider provider;
    dcpk_error_init(&error);
    MUST(dcpk_packs_open(NULL, &packs, &error));
    MUST(dcpk_packs_provider(packs, &provider, &error));
    MUST(dcpk_device_open(&options, &device, &error));
    for (int32_t form = DCPK_LAYER_PUSH; form <= DCPK_LAYER_FUSED; form++) {
        warm_up(device, &provider, "layer heads=2 batch=2", form);
        warm_up(device, &provider, "layer heads=2 dcp=2 batch=2", form);
    }
    run_norm(device, &provider);
    dcpk_packs_close(packs);
    dcpk_device_close(device);
    puts("right");
    return 0;
}
