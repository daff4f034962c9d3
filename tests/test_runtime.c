/* test_runtime.c - loading, against the fake driver: everything at load time, nothing in a capture, refusals that say
 * what to do. */
#include "tests/fake_open.h"
#include "tests/stand_in.h"

#include "runtime/device.h"
#include "runtime/kernel.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct fake_api fake;
static dcpk_error error;

static void setup(void) {
    unsetenv("DCPK_DEVICE");
    unsetenv("DCPK_PDL");
    unsetenv("DCPK_MULTICAST");
    unsetenv("CUDA_LAUNCH_BLOCKING");
    fake = fake_load();
    dcpk_error_init(&error);
}

static void assert_text(const char *part) {
    ck_assert_msg(strstr(error.text, part) != NULL, "\"%s\" is not in \"%s\"", part, error.text);
}

START_TEST(load_during_capture_is_refused_before_any_other_driver_call) {
    dcpk_device *device = fake_device(0);
    dcpk_image *image = fake_norm_image();
    int stream;
    for (int i = 0; i < 2; i++) { /* a capturing stream; the legacy stream beside a capture */
        fake.reset();
        fake.state->capturing = DRIVER_CAPTURE_ACTIVE;
        dcpk_kernel *kernel = NULL;
        ck_assert_int_eq(dcpk_kernel_load(device, image, i == 0 ? &stream : NULL, &kernel, &error), DCPK_E_CAPTURING);
        ck_assert_ptr_null(kernel);
        ck_assert_int_eq(fake.state->calls, 1);
        ck_assert_str_eq(fake.state->call[0], "cuStreamIsCapturing");
    }
    fake.reset();
    dcpk_image_free(image);
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

START_TEST(question_about_a_stream_is_repeated_with_a_context_current) {
    dcpk_device *device = fake_device(0);
    dcpk_image *image = fake_norm_image();
    dcpk_kernel *kernel = NULL;
    int stream;
    for (int capturing = 0; capturing <= 1; capturing++) {
        fake.reset();
        fake.state->fail_at = 1;
        fake.state->fail_with = DRIVER_INVALID_CONTEXT;
        fake.state->capturing = capturing;
        dcpk_status status = dcpk_kernel_load(device, image, &stream, &kernel, &error);
        ck_assert_int_eq(status, capturing ? DCPK_E_CAPTURING : DCPK_OK);
        ck_assert_int_eq(fake_count(fake.state, "cuStreamIsCapturing"), 2);
        ck_assert_int_eq(fake_count(fake.state, "cuLibraryLoadData"), !capturing);
        ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    }
    dcpk_image_free(image);
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

START_TEST(load_makes_the_function_ready_at_load_time) {
    dcpk_device *device = fake_device(0);
    dcpk_kernel *kernel = fake_load_kernel(device, fake_norm_image());
    ck_assert_int_eq(fake_count(fake.state, "cuLibraryLoadData"), 1);
    ck_assert_int_eq(fake_count(fake.state, "cuKernelGetFunction"), 1);
    ck_assert_int_eq(fake_count(fake.state, "cuFuncLoad"), 1);
    ck_assert_int_eq(fake_count(fake.state, "cuFuncSetAttribute"), 0);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

START_TEST(kernel_outlives_the_device_handle) {
    dcpk_device *device = fake_device(0);
    dcpk_kernel *kernel = fake_load_kernel(device, fake_norm_image());
    dcpk_device_close(device);
    dcpk_args args = fake_norm_args();
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_OK);
    ck_assert_int_gt(fake.outstanding(), 0);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

START_TEST(shared_memory_above_48_kib_is_asked_for) {
    dcpk_device *device = fake_device(0);
    dcpk_entry_info entry = stand_in_entry("dcpk_query_norm", FAKE_NORM_PARAMS);
    entry.static_shared = 1024;
    entry.dynamic_shared = 48 * 1024 - 1024;
    dcpk_kernel *kernel = fake_load_kernel(device, stand_in_image(FAKE_NORM_SPEC, &entry, 1));
    ck_assert_int_eq(fake_count(fake.state, "cuFuncSetAttribute"), 0);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    entry.dynamic_shared += 16;
    kernel = fake_load_kernel(device, stand_in_image(FAKE_NORM_SPEC, &entry, 1));
    ck_assert_int_eq(fake.state->func_attribute, DRIVER_FUNC_MAX_DYNAMIC_SHARED);
    ck_assert_int_eq(fake.state->func_attribute_value, 48 * 1024 - 1024 + 16);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
}
END_TEST

START_TEST(refused_code_brings_the_drivers_own_log) {
    dcpk_device *device = fake_device(0);
    dcpk_image *image = fake_norm_image();
    dcpk_kernel *kernel = NULL;
    strcpy(fake.state->fail_symbol, "cuLibraryLoadData");
    fake.state->fail_with = DRIVER_INVALID_PTX;
    fake.state->jit_log = "line 12: unknown instruction frobnicate";
    ck_assert_int_eq(dcpk_kernel_load(device, image, NULL, &kernel, &error), DCPK_E_DRIVER);
    assert_text("query_norm");
    assert_text("cuLibraryLoadData");
    assert_text("\nline 12: unknown instruction frobnicate");
    ck_assert_int_eq(error.driver_result, DRIVER_INVALID_PTX);
    dcpk_image_free(image);
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

START_TEST(entry_point_that_the_driver_lacks_is_named) {
    dcpk_device *device = fake_device(0);
    dcpk_image *image = fake_norm_image();
    dcpk_kernel *kernel = NULL;
    device->driver.func_load = NULL;
    ck_assert_int_eq(dcpk_kernel_load(device, image, NULL, &kernel, &error), DCPK_E_DRIVER);
    assert_text("this driver has no cuFuncLoad");
    dcpk_image_free(image);
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

START_TEST(cubin_for_another_device_is_refused_with_the_archs_that_fit) {
    fake.state->major = 10;
    dcpk_device *device = fake_device(0);
    fake.state->major = 9;
    dcpk_image *image = fake_norm_image();
    dcpk_kernel *kernel = NULL;
    ck_assert_int_eq(dcpk_kernel_load(device, image, NULL, &kernel, &error), DCPK_E_ARCH);
    assert_text("sm_90a");
    assert_text("is 10.0");
    assert_text("sm_100a");
    dcpk_image_free(image);
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

static dcpk_status load_value(const char *spec, uint32_t ctas, int resident, dcpk_device *device) {
    dcpk_entry_info entry = stand_in_entry("dcpk_dcp_value", "rows rows_lse lens totals kv_b output");
    entry.grid[0] = ctas;
    entry.block[0] = 512;
    entry.resident = (uint32_t)resident;
    dcpk_image *image = stand_in_image(spec, &entry, 1);
    dcpk_kernel *kernel = NULL;
    dcpk_status status = dcpk_kernel_load(device, image, NULL, &kernel, &error);
    dcpk_image_free(image);
    if (kernel != NULL) ck_assert_int_eq(dcpk_kernel_free(kernel, NULL), DCPK_OK);
    return status;
}

START_TEST(polling_grid_that_does_not_fit_is_refused_with_the_spec_that_does) {
    dcpk_device *device = fake_device(0);
    const char spec[] = "dcp_value heads=12 dcp=2 batch=17 reserve=4 split=0";
    ck_assert_int_eq(load_value(spec, 128, 1, device), DCPK_OK); /* 1 CTA on each of 132 - 4 */
    ck_assert_int_eq(load_value(spec, 129, 1, device), DCPK_E_RESIDENCY);
    assert_text("129 CTAs");
    assert_text("holds 128");
    assert_text("use dcp_value ");
    assert_text("split=1");
    ck_assert_int_eq(load_value(spec, 129, 0, device), DCPK_OK); /* waits for nobody of its own kind */
    fake.state->occupancy = 2;
    ck_assert_int_eq(load_value(spec, 256, 1, device), DCPK_OK);
    fake.state->occupancy = 0;
    ck_assert_int_eq(load_value(spec, 1, 1, device), DCPK_E_RESIDENCY);
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

START_TEST(polling_grid_of_clusters_is_measured_in_clusters) {
    dcpk_device *device = fake_device(0);
    dcpk_entry_info entry = stand_in_entry("dcpk_dcp_value", "rows rows_lse lens totals kv_b output");
    entry.resident = 1;
    entry.grid[0] = 132;
    entry.cluster[0] = 2;
    dcpk_image *image = stand_in_image("dcp_value heads=2 dcp=2 batch=4", &entry, 1);
    dcpk_kernel *kernel = NULL;
    ck_assert_int_eq(dcpk_kernel_load(device, image, NULL, &kernel, &error), DCPK_OK);
    ck_assert_int_eq(fake_count(fake.state, "cuOccupancyMaxActiveClusters"), 1);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_image_free(image);
    dcpk_device_close(device);
}
END_TEST

START_TEST(unwatched_kernels_load_only_when_asked_for) {
    dcpk_entry_info entry = stand_in_entry("dcpk_query_push", "query");
    dcpk_image *image = stand_in_image("query_push heads=2 dcp=2 batch=4 watchdog=0", &entry, 1);
    dcpk_kernel *kernel = NULL;
    dcpk_device *device = fake_device(0);
    ck_assert_int_eq(dcpk_kernel_load(device, image, NULL, &kernel, &error), DCPK_E_SPEC);
    assert_text("allow_unwatched");
    dcpk_device_close(device);
    dcpk_device_options options = {.size = sizeof options,
                                   .kind = "cuda",
                                   .library = fake_driver_path(),
                                   .pdl = -1,
                                   .multicast = -1,
                                   .allow_unwatched = 1};
    ck_assert_int_eq(dcpk_device_open(&options, &device, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_kernel_load(device, image, NULL, &kernel, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_image_free(image);
    dcpk_device_close(device);
}
END_TEST

START_TEST(multicast_kernels_need_a_device_that_was_allowed_it) {
    dcpk_entry_info entry = stand_in_entry("dcpk_query_push", "query q_multicast");
    dcpk_image *image = stand_in_image("query_push heads=2 dcp=2 batch=4 publish=multicast", &entry, 1);
    dcpk_kernel *kernel = NULL;
    for (int supported = 0; supported <= 1; supported++)
        for (int allowed = 0; allowed <= 1; allowed++) {
            fake.state->multicast = supported;
            dcpk_device_options options = {.size = sizeof options,
                                           .kind = "cuda",
                                           .library = fake_driver_path(),
                                           .pdl = -1,
                                           .multicast = allowed ? 1 : -1};
            dcpk_device *device = NULL;
            ck_assert_int_eq(dcpk_device_open(&options, &device, &error), DCPK_OK);
            dcpk_status status = dcpk_kernel_load(device, image, NULL, &kernel, &error);
            ck_assert_int_eq(status, supported && allowed ? DCPK_OK : DCPK_E_MULTICAST);
            if (status != DCPK_OK) assert_text(supported ? "DCPK_MULTICAST=1" : "has no multicast objects");
            ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
            dcpk_device_close(device);
        }
    fake.state->multicast = 0;
    dcpk_image_free(image);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("runtime");
    TCase *tests = tcase_create("load");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, load_during_capture_is_refused_before_any_other_driver_call);
    tcase_add_test(tests, question_about_a_stream_is_repeated_with_a_context_current);
    tcase_add_test(tests, load_makes_the_function_ready_at_load_time);
    tcase_add_test(tests, kernel_outlives_the_device_handle);
    tcase_add_test(tests, shared_memory_above_48_kib_is_asked_for);
    tcase_add_test(tests, refused_code_brings_the_drivers_own_log);
    tcase_add_test(tests, entry_point_that_the_driver_lacks_is_named);
    tcase_add_test(tests, cubin_for_another_device_is_refused_with_the_archs_that_fit);
    tcase_add_test(tests, polling_grid_that_does_not_fit_is_refused_with_the_spec_that_does);
    tcase_add_test(tests, polling_grid_of_clusters_is_measured_in_clusters);
    tcase_add_test(tests, unwatched_kernels_load_only_when_asked_for);
    tcase_add_test(tests, multicast_kernels_need_a_device_that_was_allowed_it);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
