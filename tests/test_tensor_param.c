/* test_tensor_param.c - tensor maps as parameters of kernels, from template to result: `map` in kernel{}, in the image,
 * in dcpk_kernel_launch_raw. On the CPU device, or with DCPK_TEST_DEVICE=cuda on hardware. */
#include "tests/exchange.h"

#include "runtime/device.h"
#include "runtime/kernel.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { ROW = 128, ROWS = 64, BYTES = ROW * ROWS };

static dcpk_error error;
static dcpk_gen *gen;
static dcpk_device *device;

static void setup(void) {
    const char *kind = getenv("DCPK_TEST_DEVICE");
    dcpk_device_options options = {
        .size = sizeof options, .kind = kind != NULL ? kind : "cpu", .pdl = -1, .multicast = -1};
    dcpk_error_init(&error);
    gen = exchange_gen(NULL);
    MUST(dcpk_device_open(&options, &device, &error));
}

static void teardown(void) {
    dcpk_device_close(device);
    dcpk_gen_close(gen);
}

static dcpk_kernel *load(void *stream) {
    dcpk_spec spec;
    dcpk_image *image = NULL;
    dcpk_kernel *kernel = NULL;
    dcpk_spec_init(&spec, "map_tile");
    spec.heads = spec.batch = spec.dcp = 1;
    MUST(dcpk_spec_resolve(&spec, &error));
    MUST(dcpk_gen_build(gen, &spec, &image, NULL, &error));
    MUST(dcpk_kernel_load(device, image, stream, &kernel, &error));
    dcpk_image_free(image);
    return kernel;
}

/* Rows of 128 bytes from `address` on, in boxes of 128 bytes by box_rows. */
static cu_tensor_map map_of(uint64_t address, uint64_t rows, uint32_t box_rows) {
    cu_tensor_map map;
    const unsigned long long dims[] = {ROW, rows}, strides[] = {ROW};
    const unsigned box[] = {ROW, box_rows}, steps[] = {1, 1};
    bool pushed;
    MUST(dcpk_device_enter(device, &pushed, &error));
    cu_result result = CALL(&device->driver, tensor_map,
                            (&map, DRIVER_MAP_U8, 2, (void *)(uintptr_t)address, dims, strides, box, steps, 0,
                             DRIVER_SWIZZLE_128, DRIVER_PROMOTION_128, 0));
    dcpk_device_leave(device, pushed);
    ck_assert_int_eq(result, DRIVER_OK);
    return map;
}

START_TEST(a_tile_goes_through_a_pair_of_ctas_by_tensor_maps) {
    static uint8_t in[BYTES], out[3 * BYTES];
    void *stream;
    uint64_t from, to;
    for (int i = 0; i < BYTES; i++)
        in[i] = (uint8_t)(i * 7 + i / 256);
    MUST(dcpk_stream_create(device, &stream, &error));
    MUST(dcpk_mem_alloc(device, BYTES, &from, &error));
    MUST(dcpk_mem_alloc(device, sizeof out, &to, &error));
    MUST(dcpk_mem_write(device, from, in, BYTES, &error));
    MUST(dcpk_mem_fill32(device, to, 0xABABABABu, sizeof out / 4, &error));
    dcpk_kernel *kernel = load(stream);
    cu_tensor_map maps[2] = {map_of(from, ROWS, ROWS / 2), map_of(to, 2 * ROWS, ROWS)};
    void *params[] = {&maps[0], &maps[1]};
    MUST(dcpk_kernel_launch_raw(kernel, 0, params, stream, 0, &error));
    memset(maps, 0, sizeof maps); /* the launch has its copy */
    MUST(dcpk_stream_sync(device, stream, &error));
    MUST(dcpk_mem_read(device, out, to, sizeof out, &error));
    ck_assert_mem_eq(out, in, BYTES);
    ck_assert_mem_eq(out + BYTES, in, BYTES);
    for (int i = 2 * BYTES; i < 3 * BYTES; i++)
        ck_assert_uint_eq(out[i], 0xAB);
    MUST(dcpk_kernel_free(kernel, &error));
    MUST(dcpk_mem_free(device, from, &error));
    MUST(dcpk_mem_free(device, to, &error));
    MUST(dcpk_stream_destroy(device, stream, &error));
}
END_TEST

START_TEST(the_image_says_which_parameters_are_maps) {
    void *stream;
    dcpk_entry_info info = {.size = sizeof info};
    MUST(dcpk_stream_create(device, &stream, &error));
    dcpk_kernel *kernel = load(stream);
    MUST(dcpk_image_entry(dcpk_kernel_image(kernel), 0, &info, &error));
    ck_assert_uint_eq(info.param_count, 2);
    ck_assert_str_eq(info.params[0].type, "map");
    ck_assert_str_eq(info.params[1].name, "to");
    ck_assert_uint_eq(info.cluster[0], 2);
    size_t length;
    ck_assert_ptr_nonnull(
        strstr(dcpk_image_ptx(dcpk_kernel_image(kernel), &length), ".param .align 64 .b8 param_from[128],\n"));
    MUST(dcpk_kernel_free(kernel, &error));
    MUST(dcpk_stream_destroy(device, stream, &error));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("tensor_param");
    TCase *tests = tcase_create("maps");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_tile_goes_through_a_pair_of_ctas_by_tensor_maps);
    tcase_add_test(tests, the_image_says_which_parameters_are_maps);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
