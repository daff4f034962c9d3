/* test_share.c - shares of a device (green contexts) against the fake driver: how many multiprocessors a share has,
 * which calls are made in which order, which streams it takes, and that nothing is left when any call fails. */
#include "tests/share_open.h"

#include "runtime/kernel.h"

static const struct fake_green *green_of(const dcpk_device *device) {
    return device->green;
}

/* ---- how a device is divided ---- */

static const struct division {
    int sms, count, chunks, each; /* each 0: refused */
    const char *says;
} divisions[] = {
    {132, 2, 0, 64, NULL}, /* half is 66, and parts are multiples of 8; 4 idle */
    {132, 3, 0, 40, NULL}, /* 44 */
    {132, 4, 0, 32, NULL}, /* 33 */
    {132, 8, 0, 16, NULL}, /* 16.5 */
    {132, 8, 15, 8, NULL}, /* a chip of which only 15 parts of 8 sit together: two for each of eight is one too many */
    {132, 16, 0, 8, NULL}, {132, 16, 15, 0, "at most 15 shares"}, {132, 17, 0, 0, "multiples of 8: at most 16 shares"},
    {144, 2, 0, 72, NULL}, {8, 2, 0, 0, "has 8 multiprocessors"},
};
enum { DIVISIONS = sizeof divisions / sizeof divisions[0] };

/* old: a driver that rounds, but does not say what to. */
static void check_division(const struct division *d, int old) {
    dcpk_device *device[32] = {NULL};
    bool taken[256] = {false};
    fake.state->sms = d->sms;
    fake.state->chunks = d->chunks;
    fake.state->old_resources = old;
    for (int i = 0; i < d->count && d->each > 0; i++) {
        device[i] = open_share(i, d->count);
        dcpk_device_info info = info_of(device[i]);
        ck_assert_int_eq(info.sms, d->each);
        ck_assert_int_eq(info.device_sms, d->sms);
        ck_assert_int_eq(info.share_index, i);
        ck_assert_int_eq(info.share_count, d->count);
        for (unsigned sm = green_of(device[i])->from; sm < green_of(device[i])->from + green_of(device[i])->sms; sm++) {
            ck_assert_uint_lt(sm, (unsigned)d->sms);
            ck_assert_msg(!taken[sm], "%d of %d: multiprocessor %u is another share's, too", i, d->count, sm);
            taken[sm] = true;
        }
    }
    if (d->each == 0) {
        ck_assert_int_eq(open_on(0, 0, d->count, &device[0]), DCPK_E_ARG);
        if (!old || strstr(d->says, "multiples") == NULL) assert_text(d->says);
        assert_text("share_count is");
    }
    for (int i = 0; i < d->count; i++)
        dcpk_device_close(device[i]);
    ck_assert_int_eq(fake.outstanding(), 0);
}

START_TEST(shares_are_equal_apart_and_rounded_down) {
    int sms = fake.state->sms;
    check_division(&divisions[_i], 0);
    fake.state->sms = sms;
}
END_TEST

START_TEST(driver_that_does_not_say_what_it_rounds_to_gives_the_same_shares) {
    int sms = fake.state->sms;
    check_division(&divisions[_i], 1);
    fake.state->sms = sms;
}
END_TEST

START_TEST(whole_device_says_so_and_asks_for_no_green_context) {
    for (int count = 0; count <= 1; count++) {
        dcpk_device *device = open_share(0, count);
        dcpk_device_info info = info_of(device);
        ck_assert_int_eq(info.sms, 132);
        ck_assert_int_eq(info.device_sms, 132);
        ck_assert_int_eq(info.share_index, 0);
        ck_assert_int_eq(info.share_count, 1);
        ck_assert_ptr_null(device->green);
        ck_assert_int_eq(fake_count(fake.state, "cuDeviceGetDevResource"), 0);
        ck_assert_int_eq(fake_count(fake.state, "cuStreamCreate"), 1 + count);
        dcpk_device_close(device);
    }
    dcpk_device_options options = {
        .size = offsetof(dcpk_device_options, share_index), /* a caller from before there were shares */
        .kind = "cuda",
        .library = fake_driver_path(),
        .pdl = -1,
        .multicast = -1,
        .share_index = 7,
        .share_count = 99};
    dcpk_device *device = NULL;
    MUST(dcpk_device_open(&options, &device, &error));
    ck_assert_int_eq(info_of(device).share_count, 1);
    dcpk_device_close(device);
}
END_TEST

START_TEST(numbers_out_of_range_are_refused) {
    dcpk_device *device = NULL;
    ck_assert_int_eq(open_on(0, 0, -1, &device), DCPK_E_ARG);
    assert_text("share_count is -1: 0..32");
    ck_assert_int_eq(open_on(0, 0, 33, &device), DCPK_E_ARG);
    ck_assert_int_eq(open_on(0, 2, 2, &device), DCPK_E_ARG);
    assert_text("share_index is 2: 0..1");
    ck_assert_int_eq(open_on(0, -1, 2, &device), DCPK_E_ARG);
    ck_assert_int_eq(open_on(0, 1, 0, &device), DCPK_E_ARG);
    assert_text("share_index is 1: 0..0");
    ck_assert_ptr_null(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

START_TEST(cpu_device_has_no_shares) {
    dcpk_device_options options = {
        .size = sizeof options, .kind = "cpu", .pdl = -1, .multicast = -1, .share_index = 1, .share_count = 4};
    dcpk_device *device = NULL;
    ck_assert_int_eq(dcpk_device_open(&options, &device, &error), DCPK_E_ARG);
    assert_text("the CPU device has a device for each rank: open ordinals 0..3");
    ck_assert_ptr_null(device);
}
END_TEST

START_TEST(driver_without_green_contexts_is_named_with_the_version_that_has_them) {
    dcpk_device *device = open_share(0, 1);
    device->info.driver_version = 12040;
    device->driver.green_stream = NULL;
    ck_assert_int_eq(dcpk_share_take(device, 0, 2, &error), DCPK_E_DRIVER);
    assert_text("need a driver of CUDA 12.5; this one (12.4) has no cuGreenCtxStreamCreate");
    ck_assert_ptr_null(device->green);
    device->driver.device_resource = NULL;
    ck_assert_int_eq(dcpk_share_take(device, 0, 2, &error), DCPK_E_DRIVER);
    assert_text("cuDeviceGetDevResource");
    ck_assert_int_eq(info_of(device).share_count, 1);
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

/* ---- calls ---- */

/* The record from `at` on begins with these names. */
static void assert_calls(long at, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_lt(at + (long)i, fake.state->calls);
        ck_assert_str_eq(fake.state->call[at + (long)i], names[i]);
    }
}

static long first_call(const char *name) {
    for (long i = 0; i < fake.state->calls; i++)
        if (strcmp(fake.state->call[i], name) == 0) return i;
    ck_abort_msg("%s was not called", name);
}

START_TEST(share_is_opened_and_closed_in_the_drivers_order) {
    static const char *const opens[] = {
        "cuDevicePrimaryCtxRetain",  "cuDeviceGetDevResource", "cuDevSmResourceSplitByCount",
        "cuDevResourceGenerateDesc", "cuGreenCtxCreate",       "cuGreenCtxGetDevResource",
        "cuCtxGetCurrent",           "cuCtxPushCurrent_v2",    "cuGreenCtxStreamCreate",
        "cuCtxPopCurrent_v2"};
    static const char *const closes[] = {"cuStreamDestroy_v2", "cuCtxPopCurrent_v2", "cuGreenCtxDestroy",
                                         "cuDevicePrimaryCtxRelease_v2"};
    dcpk_device *device = open_share(1, 4);
    assert_calls(first_call(opens[0]), opens, sizeof opens / sizeof opens[0]);
    ck_assert_int_eq(fake_count(fake.state, "cuStreamCreate"), 0);
    ck_assert_int_eq(fake.state->greens, 1);
    dcpk_device_close(device);
    assert_calls(first_call(closes[0]), closes, sizeof closes / sizeof closes[0]);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

/* A context that the caller made by itself holds no green contexts: the primary one is taken, whatever is current. */
START_TEST(share_lives_in_the_primary_context_and_leaves_the_callers_current) {
    dcpk_device *whole = open_share(0, 1);
    ck_assert_int_eq(whole->driver.ctx_push(whole->context), DRIVER_OK);
    dcpk_device *share = open_share(0, 2);
    ck_assert(share->retained);
    ck_assert_ptr_eq(share->context, whole->context);
    void *stream = NULL;
    MUST(dcpk_stream_create(share, &stream, &error));
    MUST(dcpk_device_sync(share, &error));
    MUST(dcpk_stream_destroy(share, stream, &error));
    cu_context current = NULL;
    whole->driver.ctx_get_current(&current);
    ck_assert_ptr_eq(current, whole->context);
    whole->driver.ctx_pop(&current);
    dcpk_device_close(share);
    dcpk_device_close(whole);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

/* Kernels keep the share alive: it is destroyed after the last of them, and never before its streams. */
START_TEST(share_lives_as_long_as_its_kernels) {
    dcpk_device *device = open_share(0, 2);
    dcpk_kernel *kernel = fake_load_kernel(device, fake_norm_image());
    dcpk_device_close(device);
    ck_assert_int_eq(fake.state->greens, 1);
    MUST(dcpk_kernel_free(kernel, &error));
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

START_TEST(any_failing_driver_call_leaves_nothing_behind) {
    long failures = 0;
    for (long n = 1;; n++) {
        fake.reset();
        fake.state->fail_at = n;
        dcpk_device *device = NULL;
        dcpk_kernel *kernel = NULL;
        dcpk_image *image = fake_norm_image();
        void *stream = NULL;
        dcpk_args args = fake_norm_args();
        dcpk_status status = open_on(0, 1, 4, &device);
        if (status == DCPK_OK) status = dcpk_stream_create(device, &stream, &error);
        if (status == DCPK_OK) status = dcpk_kernel_load(device, image, stream, &kernel, &error);
        if (status == DCPK_OK) status = dcpk_kernel_launch(kernel, 0, &args, NULL, stream, 0, &error);
        bool used = fake.state->fail_at == 0;
        if (status != DCPK_OK) {
            failures++;
            ck_assert_int_eq(status, DCPK_E_DRIVER);
            ck_assert_msg(strstr(error.text, ": cu") != NULL, "no call is named: %s", error.text);
        }
        fake.state->fail_at = 0;
        if (used && strcmp(fake.state->call[n - 1], "cuCtxPopCurrent_v2") == 0) {
            cu_context popped;
            ck_assert_int_eq(device->driver.ctx_pop(&popped), DRIVER_OK);
        }
        MUST(dcpk_kernel_free(kernel, &error));
        if (device != NULL) MUST(dcpk_stream_destroy(device, stream, &error));
        dcpk_device_close(device);
        dcpk_image_free(image);
        ck_assert_msg(fake.outstanding() == 0, "call %ld: %ld left, %s", n, fake.outstanding(), error.text);
        if (!used) break;
    }
    ck_assert_int_gt(failures, 20);
}
END_TEST

START_TEST(refusal_names_the_share) {
    dcpk_device *device = NULL;
    strcpy(fake.state->fail_symbol, "cuGreenCtxCreate");
    fake.state->fail_with = DRIVER_OUT_OF_MEMORY;
    ck_assert_int_eq(open_on(0, 1, 4, &device), DCPK_E_DRIVER);
    ck_assert_str_eq(error.text, "device 0, share 1 of 4: cuGreenCtxCreate: CUDA_ERROR_OUT_OF_MEMORY: out of memory");
}
END_TEST

/* ---- launches ---- */

START_TEST(kernels_go_into_streams_of_their_own_share_alone) {
    dcpk_device *one = open_share(0, 2), *other = open_share(1, 2), *whole = open_share(0, 1);
    dcpk_kernel *kernel = fake_load_kernel(one, fake_norm_image());
    dcpk_args args = fake_norm_args();
    void *own = NULL, *others = NULL, *wide = NULL;
    MUST(dcpk_stream_create(one, &own, &error));
    MUST(dcpk_stream_create(other, &others, &error));
    MUST(dcpk_stream_create(whole, &wide, &error));
    MUST(dcpk_kernel_launch(kernel, 0, &args, NULL, own, 0, &error));
    ck_assert_ptr_eq(fake.state->last.stream, own);
    ck_assert_int_eq(fake.state->last.pdl, 1); /* as on a device of its own */
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, others, 0, &error), DCPK_E_ARG);
    assert_text("loaded on device 0, share 0 of 2, but the stream is that of another green context");
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, wide, 0, &error), DCPK_E_ARG);
    assert_text("has the whole device");
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_E_ARG);
    assert_text("the stream is NULL, which has the whole device: use one of dcpk_stream_create");
    fake.state->capturing = DRIVER_CAPTURE_ACTIVE;
    fake.state->capture_id = 3;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, others, 0, &error), DCPK_E_ARG);
    ck_assert_int_eq(fake.state->objects, 0); /* refused before anything is tied to the graph */
    fake.state->capturing = 0;
    ck_assert_int_eq(fake.state->launches, 1);
    dcpk_kernel *free_kernel = fake_load_kernel(whole, fake_norm_image());
    long asked = fake_count(fake.state, "cuStreamGetGreenCtx");
    MUST(dcpk_kernel_launch(free_kernel, 0, &args, NULL, own, 0, &error)); /* the caller's own affair */
    ck_assert_int_eq(fake_count(fake.state, "cuStreamGetGreenCtx"), asked);
    MUST(dcpk_kernel_free(free_kernel, &error));
    MUST(dcpk_kernel_free(kernel, &error));
    MUST(dcpk_stream_destroy(one, own, &error));
    MUST(dcpk_stream_destroy(other, others, &error));
    MUST(dcpk_stream_destroy(whole, wide, &error));
    dcpk_device_close(one);
    dcpk_device_close(other);
    dcpk_device_close(whole);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("share");
    TCase *tests = tcase_create("share");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_loop_test(tests, shares_are_equal_apart_and_rounded_down, 0, DIVISIONS);
    tcase_add_loop_test(tests, driver_that_does_not_say_what_it_rounds_to_gives_the_same_shares, 0, DIVISIONS);
    tcase_add_test(tests, whole_device_says_so_and_asks_for_no_green_context);
    tcase_add_test(tests, numbers_out_of_range_are_refused);
    tcase_add_test(tests, cpu_device_has_no_shares);
    tcase_add_test(tests, driver_without_green_contexts_is_named_with_the_version_that_has_them);
    tcase_add_test(tests, share_is_opened_and_closed_in_the_drivers_order);
    tcase_add_test(tests, share_lives_in_the_primary_context_and_leaves_the_callers_current);
    tcase_add_test(tests, share_lives_as_long_as_its_kernels);
    tcase_add_test(tests, any_failing_driver_call_leaves_nothing_behind);
    tcase_add_test(tests, refusal_names_the_share);
    tcase_add_test(tests, kernels_go_into_streams_of_their_own_share_alone);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
