/* value.c - the tail of an MLA layer, dcp_value, on one rank, with kernels of the pack that CMake made.
 *
 * Row r holds the number r + 1 in every column; element (i, c) of each head's W_UV is 1 where c mod 128 = i, so the
 * product is 4 (r + 1); gates are 0, and sigmoid(0) = 1/2: every output is 2 (r + 1). */
#include <dcpk/dcpk.h>

#include <stdio.h>

#ifndef KERNELS /* CMakeLists.txt says which pack */
#define KERNELS "kernels.dcpk"
#endif

enum { HEADS = 12, ROWS = 4, LATENT = 512, HEAD = 128 };

static const uint16_t number[ROWS] = {0x3F80, 0x4000, 0x4040, 0x4080}; /* 1 2 3 4 as BF16 */
static const uint16_t twice[ROWS] = {0x4000, 0x4080, 0x40C0, 0x4100};  /* 2 4 6 8 */
static uint16_t rows[ROWS][HEADS][LATENT], weight[HEADS][2 * HEAD][LATENT];
static uint16_t gate[ROWS][HEADS][HEAD], output[ROWS][HEADS][HEAD];
static float lse[ROWS][HEADS];
static int32_t lengths[ROWS] = {1, 1, 1, 1};

static dcpk_status put(dcpk_device *device, uint64_t *address, const void *data, size_t bytes, dcpk_error *error) {
    dcpk_status status = dcpk_mem_alloc(device, bytes, address, error);
    return status == DCPK_OK ? dcpk_mem_write(device, *address, data, bytes, error) : status;
}

static dcpk_status load(dcpk_device *device, dcpk_kernel **kernel, dcpk_error *error) {
    dcpk_packs_options file = {.size = sizeof file, .path = KERNELS, .trusted_uid = -1};
    dcpk_packs *packs = NULL;
    dcpk_provider provider = {.size = sizeof provider};
    dcpk_spec spec;
    dcpk_status status = dcpk_packs_open(&file, &packs, error);
    if (status == DCPK_OK) status = dcpk_packs_provider(packs, &provider, error);
    if (status == DCPK_OK) status = dcpk_spec_parse(&spec, "dcp_value heads=12 batch=4 gate=1", error);
    if (status == DCPK_OK) status = dcpk_spec_resolve(&spec, error);
    if (status == DCPK_OK) status = dcpk_kernel_warm(device, &provider, &spec, 1, NULL, kernel, error);
    dcpk_packs_close(packs);
    return status;
}

static dcpk_status run(dcpk_device *device, const dcpk_kernel *kernel, dcpk_error *error) {
    dcpk_args args = {.size = sizeof args, .pitch = HEADS * HEAD};
    void *stream = NULL;
    dcpk_status status = put(device, &args.rows, rows, sizeof rows, error);
    if (status == DCPK_OK) status = put(device, &args.rows_lse, lse, sizeof lse, error);
    if (status == DCPK_OK) status = put(device, &args.lens, lengths, sizeof lengths, error);
    if (status == DCPK_OK) status = put(device, &args.totals, lengths, sizeof lengths, error);
    if (status == DCPK_OK) status = put(device, &args.kv_b, weight, sizeof weight, error);
    if (status == DCPK_OK) status = put(device, &args.gate, gate, sizeof gate, error);
    if (status == DCPK_OK) status = put(device, &args.output, output, sizeof output, error);
    if (status == DCPK_OK) status = dcpk_stream_create(device, &stream, error);
    if (status == DCPK_OK) status = dcpk_kernel_launch(kernel, 0, &args, NULL, stream, 0, error);
    if (status == DCPK_OK) status = dcpk_stream_sync(device, stream, error);
    if (status == DCPK_OK) status = dcpk_mem_read(device, output, args.output, sizeof output, error);
    dcpk_stream_destroy(device, stream, NULL);
    const uint64_t held[] = {args.rows, args.rows_lse, args.lens, args.totals, args.kv_b, args.gate, args.output};
    for (size_t i = 0; i < sizeof held / sizeof held[0]; i++)
        if (held[i] != 0) dcpk_mem_free(device, held[i], NULL);
    return status;
}

int main(void) {
    for (int h = 0; h < HEADS; h++) {
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < LATENT; c++)
                rows[r][h][c] = number[r];
        for (int c = 0; c < LATENT; c++)
            weight[h][HEAD + c % HEAD][c] = number[0];
    }
    dcpk_error error;
    dcpk_error_init(&error);
    dcpk_device *device = NULL;
    dcpk_kernel *kernel = NULL;
    dcpk_status status = dcpk_device_open(NULL, &device, &error);
    if (status == DCPK_OK) status = load(device, &kernel, &error);
    if (status == DCPK_OK) status = run(device, kernel, &error);
    int wrong = 0;
    for (int r = 0; r < ROWS; r++)
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < HEAD; i++)
                wrong += output[r][h][i] != twice[r];
    if (status == DCPK_OK)
        printf("%d values, %d wrong\n", ROWS * HEADS * HEAD, wrong);
    else
        fprintf(stderr, "value: %s\n", error.text);
    dcpk_kernel_free(kernel, NULL);
    dcpk_device_close(device);
    return status != DCPK_OK || wrong != 0;
}
