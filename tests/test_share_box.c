/* test_share_box.c - shares of a device (green contexts) against the fake driver: what must be resident in one, layers
 * of its size, and boxes of ranks that share a device. */
#include "tests/share_open.h"

#include "runtime/box_state.h"
#include "runtime/kernel.h"

#include <dcpk/layer.h>

/* ---- residency ---- */

static dcpk_status load_value(dcpk_device *device, uint32_t ctas, uint32_t cluster) {
    dcpk_entry_info entry = stand_in_entry("dcpk_dcp_value", "rows rows_lse lens totals kv_b output");
    entry.grid[0] = ctas;
    entry.cluster[0] = cluster;
    entry.block[0] = 512;
    entry.resident = 1;
    dcpk_image *image = stand_in_image("dcp_value heads=12 dcp=2 batch=17 reserve=4 split=0", &entry, 1);
    dcpk_kernel *kernel = NULL;
    dcpk_status status = dcpk_kernel_load(device, image, NULL, &kernel, &error);
    dcpk_image_free(image);
    if (kernel != NULL) MUST(dcpk_kernel_free(kernel, &error));
    return status;
}

START_TEST(polling_grid_must_fit_the_share) {
    dcpk_device *device = open_share(2, 4);
    MUST(load_value(device, 28, 1)); /* 32 - 4 */
    ck_assert_int_eq(load_value(device, 29, 1), DCPK_E_RESIDENCY);
    assert_text("device 0, share 2 of 4 (32 multiprocessors, 4 reserved) holds 28");
    assert_text("sms=32");
    assert_text("split=1");
    fake.state->occupancy = 2;
    MUST(load_value(device, 56, 1));
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

/* The driver counts clusters of the whole device; of a share only that 8 multiprocessors sit together is sure. */
START_TEST(clusters_of_a_share_are_counted_in_its_parts_of_8) {
    dcpk_device *device = open_share(0, 4);
    MUST(load_value(device, 24, 8)); /* 28 free: 3 parts of 8 with one cluster each */
    ck_assert_int_eq(load_value(device, 32, 8), DCPK_E_RESIDENCY);
    MUST(load_value(device, 18, 3)); /* two of 3 in each part */
    ck_assert_int_eq(load_value(device, 21, 3), DCPK_E_RESIDENCY);
    ck_assert_int_eq(fake_count(fake.state, "cuOccupancyMaxActiveClusters"), 0);
    dcpk_device_close(device);
}
END_TEST

static dcpk_status note_spec(void *self, const dcpk_spec *spec, dcpk_image **out, dcpk_error *error_out) {
    (void)out, (void)error_out;
    *(dcpk_spec *)self = *spec;
    return DCPK_E_NOT_FOUND;
}

START_TEST(layer_of_a_share_asks_for_kernels_of_its_size) {
    dcpk_spec base, asked;
    dcpk_provider provider = {.size = sizeof provider, .self = &asked, .get = note_spec};
    MUST(dcpk_spec_parse(&base, "layer heads=2 dcp=1 batch=4", &error));
    dcpk_layer_options options = {
        .size = sizeof options, .provider = &provider, .base = &base, .form = DCPK_LAYER_FUSED};
    dcpk_layer *layer = NULL;
    const struct { int32_t count, given, asked; } cases[] = {{8, DCPK_UNSET, 16}, {8, 12, 12}, {1, DCPK_UNSET, 132}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dcpk_device *device = open_share(0, cases[i].count);
        base.sms = cases[i].given;
        ck_assert_int_eq(dcpk_layer_open(device, NULL, &options, &layer, &error), DCPK_E_NOT_FOUND);
        ck_assert_int_eq(asked.sms, cases[i].asked);
        dcpk_device_close(device);
    }
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

static dcpk_status make_value(void *self, const dcpk_spec *spec, dcpk_image **out, dcpk_error *error_out) {
    (void)self, (void)error_out;
    char text[512];
    dcpk_spec_format(spec, text, sizeof text);
    dcpk_entry_info entry = stand_in_entry("dcpk_dcp_value", "rows output");
    *out = stand_in_image(text, &entry, 1);
    return DCPK_OK;
}

static dcpk_status count_decode(void *self, const dcpk_args *args, dcpk_box *box, void *stream, uint32_t flags,
                                dcpk_error *error_out) {
    (void)args, (void)box, (void)stream, (void)flags, (void)error_out;
    ++*(int *)self;
    return DCPK_OK;
}

START_TEST(layer_step_refuses_a_foreign_stream_before_it_calls_the_decode) {
    int decodes = 0;
    dcpk_spec base;
    dcpk_provider provider = {.size = sizeof provider, .get = make_value};
    MUST(dcpk_spec_parse(&base, "layer heads=2 dcp=1 batch=4", &error));
    dcpk_layer_options options = {.size = sizeof options,
                                  .provider = &provider,
                                  .base = &base,
                                  .decode = count_decode,
                                  .decode_self = &decodes,
                                  .form = DCPK_LAYER_PUSH};
    dcpk_device *device = open_share(0, 2);
    dcpk_layer *layer = NULL;
    void *stream = NULL;
    dcpk_args args = {.size = sizeof args, .rows = 0x10000, .output = 0x20000};
    MUST(dcpk_stream_create(device, &stream, &error));
    MUST(dcpk_layer_open(device, NULL, &options, &layer, &error));
    ck_assert_int_eq(dcpk_layer_step(layer, &args, NULL, 0, &error), DCPK_E_ARG);
    assert_text("dcpk_layer_step: loaded on device 0, share 0 of 2, but the stream is NULL");
    ck_assert_int_eq(decodes, 0);
    MUST(dcpk_layer_step(layer, &args, stream, 0, &error));
    ck_assert_int_eq(decodes, 1);
    ck_assert_int_eq(fake.state->launches, 1);
    MUST(dcpk_layer_close(layer, &error));
    MUST(dcpk_stream_destroy(device, stream, &error));
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

/* ---- boxes ---- */

static dcpk_box *make_box(dcpk_device *device, int32_t rank, int32_t dcp, int32_t ordered) {
    dcpk_box_shape shape = {.size = sizeof shape, .dcp = dcp, .heads = 2, .cap = 64, .event_ordered = ordered};
    dcpk_box *box = NULL;
    MUST(dcpk_box_create(device, &shape, rank, &box, &error));
    return box;
}

static long warnings;
static void count_warning(void *self, int level, const char *text) {
    (void)self, (void)level, (void)text;
    warnings++;
}

START_TEST(ranks_on_shares_of_one_device_reach_each_other_without_peer_access) {
    enum { RANKS = 4 };
    dcpk_device *device[RANKS];
    dcpk_box *box[RANKS];
    for (int r = 0; r < RANKS; r++) {
        device[r] = open_share(r, RANKS);
        device[r]->log = count_warning;
        box[r] = make_box(device[r], r, RANKS, 0);
    }
    warnings = 0;
    MUST(dcpk_box_connect(box, RANKS, &error));
    ck_assert_int_eq(warnings, 0);
    ck_assert_int_eq(fake_count(fake.state, "cuCtxEnablePeerAccess"), 0);
    ck_assert_int_eq(fake_count(fake.state, "cuDeviceCanAccessPeer"), 0);
    for (int r = 0; r < RANKS; r++)
        for (int s = 0; s < RANKS; s++) { /* the control table holds everybody's base as it is */
            uint64_t base;
            memcpy(&base, (const void *)(uintptr_t)(box[r]->values.tables + 8 * (uint64_t)s), sizeof base);
            ck_assert_uint_eq(base, dcpk_box_base(box[s]));
        }
    for (int r = 0; r < RANKS; r++)
        MUST(dcpk_box_destroy(box[r], &error));
    for (int r = 0; r < RANKS; r++)
        dcpk_device_close(device[r]);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

/* Shares of several devices: peer access between the devices, as ever. */
START_TEST(ranks_on_shares_of_two_devices_get_peer_access_between_them) {
    enum { RANKS = 4 };
    dcpk_device *device[RANKS];
    dcpk_box *box[RANKS];
    for (int r = 0; r < RANKS; r++) {
        MUST(open_on(r % 2, r / 2, 2, &device[r]));
        box[r] = make_box(device[r], r, RANKS, 0);
    }
    MUST(dcpk_box_connect(box, RANKS, &error));
    ck_assert_int_eq(fake_count(fake.state, "cuCtxEnablePeerAccess"), 8); /* of 12 pairs, 4 are on one device */
    for (int r = 0; r < RANKS; r++)
        MUST(dcpk_box_destroy(box[r], &error));
    for (int r = 0; r < RANKS; r++)
        dcpk_device_close(device[r]);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

static const struct pairing {
    int32_t index[2], count[2], ordered;
    const char *says; /* NULL: accepted */
} pairings[] = {
    {{0, 1}, {2, 2}, 0, NULL},
    {{1, 0}, {2, 2}, 0, NULL},
    {{1, 1}, {2, 2}, 0, "rank 0 is on device 0, share 1 of 2, rank 1 on device 0, share 1 of 2"},
    {{0, 1}, {2, 4}, 0, "share_count"},
    {{0, 1}, {1, 2}, 0, "rank 0 is on device 0, rank 1 on device 0, share 1 of 2"},
    {{1, 1}, {2, 2}, 1, NULL}, /* nobody polls for what cannot come */
};
enum { PAIRINGS = sizeof pairings / sizeof pairings[0] };

START_TEST(shares_that_overlap_are_not_connected) {
    const struct pairing *p = &pairings[_i];
    dcpk_device *device[2];
    dcpk_box *box[2];
    for (int r = 0; r < 2; r++) {
        device[r] = open_share(p->count[r] > 1 ? p->index[r] : 0, p->count[r]);
        box[r] = make_box(device[r], r, 2, p->ordered);
    }
    ck_assert_int_eq(dcpk_box_connect(box, 2, &error), p->says != NULL ? DCPK_E_ARG : DCPK_OK);
    if (p->says != NULL) assert_text(p->says);
    for (int r = 0; r < 2; r++)
        MUST(dcpk_box_destroy(box[r], &error));
    for (int r = 0; r < 2; r++)
        dcpk_device_close(device[r]);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

START_TEST(box_of_one_share_is_not_used_from_another) {
    dcpk_device *device[2];
    dcpk_box *box[2];
    for (int r = 0; r < 2; r++) {
        device[r] = open_share(r, 2);
        box[r] = make_box(device[r], r, 2, 0);
    }
    MUST(dcpk_box_connect(box, 2, &error));
    dcpk_entry_info entry = stand_in_entry("dcpk_query_wait", "q_box");
    dcpk_kernel *kernel = fake_load_kernel(device[0], stand_in_image("query_wait heads=2 dcp=2 batch=4", &entry, 1));
    void *stream = NULL;
    MUST(dcpk_stream_create(device[0], &stream, &error));
    dcpk_args args = {.size = sizeof args};
    MUST(dcpk_kernel_launch(kernel, 0, &args, box[0], stream, 0, &error));
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, box[1], stream, 0, &error), DCPK_E_ARG);
    assert_text("the box is on device 0, share 1 of 2, the kernel on device 0, share 0 of 2");
    MUST(dcpk_stream_destroy(device[0], stream, &error));
    MUST(dcpk_kernel_free(kernel, &error));
    for (int r = 0; r < 2; r++)
        MUST(dcpk_box_destroy(box[r], &error));
    for (int r = 0; r < 2; r++)
        dcpk_device_close(device[r]);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

START_TEST(share_has_no_multicast) {
    fake.state->multicast = 1;
    dcpk_device *whole = open_share(0, 1), *share = open_share(0, 2);
    ck_assert_int_eq(info_of(whole).multicast, 1);
    ck_assert_int_eq(info_of(share).multicast, 0);
    dcpk_box_shape shape = {.size = sizeof shape, .dcp = 2, .heads = 2, .cap = 64, .publish = DCPK_PUBLISH_MULTICAST};
    dcpk_box *box = NULL;
    ck_assert_int_eq(dcpk_box_create(share, &shape, 0, &box, &error), DCPK_E_MULTICAST);
    assert_text("is a share of its device");
    fake.state->multicast = 0;
    dcpk_device_close(whole);
    dcpk_device_close(share);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("share box");
    TCase *tests = tcase_create("share box");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, polling_grid_must_fit_the_share);
    tcase_add_test(tests, clusters_of_a_share_are_counted_in_its_parts_of_8);
    tcase_add_test(tests, layer_of_a_share_asks_for_kernels_of_its_size);
    tcase_add_test(tests, layer_step_refuses_a_foreign_stream_before_it_calls_the_decode);
    tcase_add_test(tests, ranks_on_shares_of_one_device_reach_each_other_without_peer_access);
    tcase_add_test(tests, ranks_on_shares_of_two_devices_get_peer_access_between_them);
    tcase_add_loop_test(tests, shares_that_overlap_are_not_connected, 0, PAIRINGS);
    tcase_add_test(tests, box_of_one_share_is_not_used_from_another);
    tcase_add_test(tests, share_has_no_multicast);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
