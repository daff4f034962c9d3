/* test_box_multicast.c - publish=multicast boxes against the fake driver: one object, every rank's memory bound to it,
 * everything given back. */
#include "tests/fake_open.h"

#include "runtime/box_state.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct fake_api fake;
static dcpk_error error;
static dcpk_device *devices[2];
static const dcpk_box_shape shape = {
    .size = sizeof shape, .dcp = 2, .heads = 2, .cap = 64, .publish = DCPK_PUBLISH_MULTICAST};

static dcpk_device *open_device(int32_t ordinal, int32_t multicast) {
    dcpk_device *device = NULL;
    dcpk_device_options options = {.size = sizeof options,
                                   .kind = "cuda",
                                   .library = fake_driver_path(),
                                   .ordinal = ordinal,
                                   .pdl = -1,
                                   .multicast = multicast};
    ck_assert_msg(dcpk_device_open(&options, &device, &error) == DCPK_OK, "%s", error.text);
    return device;
}

static void setup(void) {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    unsetenv("DCPK_MULTICAST");
    fake = fake_load();
    dcpk_error_init(&error);
    fake.state->multicast = 1;
    for (int r = 0; r < 2; r++)
        devices[r] = open_device(r, 1);
}

static void teardown(void) {
    for (int r = 0; r < 2; r++)
        dcpk_device_close(devices[r]);
    fake.state->multicast = 0;
    ck_assert_int_eq(fake.outstanding(), 0);
}

static void assert_text(const char *part) {
    ck_assert_msg(strstr(error.text, part) != NULL, "\"%s\" is not in \"%s\"", part, error.text);
}

static dcpk_status make(dcpk_box **boxes) {
    boxes[0] = boxes[1] = NULL;
    dcpk_status status = DCPK_OK;
    for (int r = 0; r < 2 && status == DCPK_OK; r++)
        status = dcpk_box_create(devices[r], &shape, r, &boxes[r], &error);
    return status;
}

static void destroy(dcpk_box **boxes) {
    for (int r = 0; r < 2; r++)
        ck_assert_msg(dcpk_box_destroy(boxes[r], &error) == DCPK_OK, "%s", error.text);
}

START_TEST(ranks_share_one_object_and_one_address) {
    dcpk_box *boxes[2];
    ck_assert_msg(make(boxes) == DCPK_OK, "%s", error.text);
    ck_assert_int_eq(fake.state->memory, 0); /* no plain memory: it could not be bound */
    ck_assert_msg(dcpk_box_connect(boxes, 2, &error) == DCPK_OK, "%s", error.text);
    ck_assert_int_eq(fake_count(fake.state, "cuMulticastCreate"), 1);
    ck_assert_int_eq(fake_count(fake.state, "cuMulticastAddDevice"), 2);
    ck_assert_int_eq(fake.state->bindings, 2);
    ck_assert_uint_ne(boxes[0]->values.q_multicast, 0);
    ck_assert_uint_eq(boxes[0]->values.q_multicast, boxes[1]->values.q_multicast);
    ck_assert_uint_eq(boxes[0]->values.q_multicast % 256, 0);
    ck_assert_uint_ne(boxes[0]->values.q_multicast, boxes[0]->values.q_box);
    destroy(boxes);
    ck_assert_int_eq(fake.state->bindings, 0);
    ck_assert_int_eq(fake.state->mappings, 0);
}
END_TEST

START_TEST(multicast_needs_a_device_that_has_it_and_was_allowed_it) {
    dcpk_box *box = NULL;
    dcpk_device *device = open_device(0, -1); /* hardware: off unless asked for */
    ck_assert_int_eq(dcpk_box_create(device, &shape, 0, &box, &error), DCPK_E_MULTICAST);
    assert_text("DCPK_MULTICAST=1");
    dcpk_device_close(device);
    setenv("DCPK_MULTICAST", "1", 1);
    device = open_device(0, -1);
    ck_assert_int_eq(dcpk_box_create(device, &shape, 0, &box, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_box_destroy(box, &error), DCPK_OK);
    dcpk_device_close(device);
    fake.state->multicast = 0;
    device = open_device(0, 1);
    ck_assert_int_eq(dcpk_box_create(device, &shape, 0, &box, &error), DCPK_E_MULTICAST);
    assert_text("has no multicast objects");
    dcpk_device_close(device);
}
END_TEST

START_TEST(ranks_on_one_device_are_refused) {
    dcpk_box *boxes[2] = {NULL, NULL};
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(dcpk_box_create(devices[0], &shape, r, &boxes[r], &error), DCPK_OK);
    ck_assert_int_eq(dcpk_box_connect(boxes, 2, &error), DCPK_E_MULTICAST);
    assert_text("ranks 0 and 1 share device 0");
    destroy(boxes);
}
END_TEST

START_TEST(ranks_of_other_processes_are_refused) {
    dcpk_box *boxes[2];
    ck_assert_int_eq(make(boxes), DCPK_OK);
    uint8_t digests[2][DCPK_DIGEST_BYTES];
    uint64_t peers[2];
    for (int r = 0; r < 2; r++) {
        ck_assert_int_eq(dcpk_box_digest(boxes[r], digests[r], &error), DCPK_OK);
        peers[r] = dcpk_box_base(boxes[r]);
    }
    ck_assert_int_eq(dcpk_box_attach(boxes[0], peers, digests[0], &error), DCPK_E_MULTICAST);
    assert_text("use publish=peer");
    destroy(boxes);
}
END_TEST

START_TEST(any_failing_driver_call_leaves_nothing_behind) {
    long failures = 0;
    for (long n = 1;; n++) {
        long before = fake.outstanding();
        dcpk_box *boxes[2];
        fake.reset();
        fake.state->fail_at = n;
        dcpk_status status = make(boxes);
        if (status == DCPK_OK) status = dcpk_box_connect(boxes, 2, &error);
        bool used = fake.state->fail_at == 0;
        fake.state->fail_at = 0;
        if (status != DCPK_OK) {
            failures++;
            ck_assert_int_eq(status, DCPK_E_DRIVER);
            ck_assert_msg(strstr(error.text, ": cu") != NULL, "no call is named: %s", error.text);
        }
        cu_context popped;
        if (used && strcmp(fake.state->call[n - 1], "cuCtxPopCurrent_v2") == 0) devices[0]->driver.ctx_pop(&popped);
        destroy(boxes);
        ck_assert_msg(fake.outstanding() == before, "call %ld: %ld before, %ld left", n, before, fake.outstanding());
        if (!used) break;
    }
    ck_assert_int_gt(failures, 50);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("box_multicast");
    TCase *tests = tcase_create("multicast");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, ranks_share_one_object_and_one_address);
    tcase_add_test(tests, multicast_needs_a_device_that_has_it_and_was_allowed_it);
    tcase_add_test(tests, ranks_on_one_device_are_refused);
    tcase_add_test(tests, ranks_of_other_processes_are_refused);
    tcase_add_test(tests, any_failing_driver_call_leaves_nothing_behind);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
