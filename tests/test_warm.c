/* test_warm.c - what an engine does before it captures: the specs that a layer needs, known without a device and the
 * same that opening it asks for; many kernels loaded at once, or none. On the fake driver, with stand-ins. */
#include "tests/layer_steps.h"

#include "runtime/driver_types.h"

/* ---- dcpk_layer_specs ---------------------------------------------------------------------------- */
static const struct {
    const char *keys, *kernels; /* of the plan, in launch order */
    int32_t form;
    bool own_decode;
} layers[] = {
    {"heads=2 dcp=2 batch=4", "query_push query_wait mla_decode dcp_value", DCPK_LAYER_PUSH, false},
    {"heads=2 dcp=2 batch=4", "query_push query_wait dcp_value", DCPK_LAYER_PUSH, true},
    {"heads=2 dcp=2 batch=4", "mla_query mla_decode dcp_value", DCPK_LAYER_FUSED, false},
    {"heads=2 dcp=2 batch=4 poll=0", "mla_query query_wait mla_decode dcp_value", DCPK_LAYER_FUSED, false},
    {"heads=2 dcp=2 batch=4 poll=0", "mla_query query_wait dcp_value", DCPK_LAYER_FUSED, true},
    {"heads=2 dcp=2 batch=40 sms=5", "mla_query query_wait mla_decode dcp_value", DCPK_LAYER_FUSED, false},
    {"heads=2 dcp=2 batch=40 sms=6", "mla_query mla_decode dcp_value", DCPK_LAYER_FUSED, false},
    {"heads=2 batch=4", "mla_decode dcp_value", DCPK_LAYER_PUSH, false},
    {"heads=2 batch=4", "dcp_value", DCPK_LAYER_PUSH, true},
    {"heads=2 batch=4", "mla_query mla_decode dcp_value", DCPK_LAYER_FUSED, false},
};

static dcpk_layer_options options_of(int32_t form, bool own_decode) {
    return (dcpk_layer_options){
        .size = sizeof(dcpk_layer_options), .base = &base, .decode = own_decode ? decode : NULL, .form = form};
}

START_TEST(layer_specs_are_what_opening_the_layer_asks_its_provider_for) {
    dcpk_layer *layer = NULL;
    dcpk_spec specs[DCPK_LAYER_MAX_SPECS];
    uint32_t count = 0;
    connect_pair();
    bool boxed = strstr(layers[_i].keys, "dcp=2") != NULL, own = layers[_i].own_decode;
    dcpk_status status =
        open_form(layers[_i].keys, boxed ? boxes[0] : NULL, layers[_i].form, own ? decode : NULL, &layer);
    ck_assert_msg(status == DCPK_OK, "%s", error.text);
    dcpk_layer_options options = options_of(layers[_i].form, own);
    ck_assert_int_eq(dcpk_layer_specs(&options, specs, DCPK_LAYER_MAX_SPECS, &count, &error), DCPK_OK);
    ck_assert_int_eq((int)count, maker.count);
    char kernels[256] = "";
    for (uint32_t i = 0; i < count; i++) {
        char text[512];
        dcpk_spec_format(&specs[i], text, sizeof text);
        ck_assert_str_eq(text, maker.asked[i]);
        snprintf(kernels + strlen(kernels), sizeof kernels - strlen(kernels), "%s%s", i > 0 ? " " : "",
                 specs[i].kernel);
    }
    ck_assert_str_eq(kernels, layers[_i].kernels);
    close_layer(layer);
}
END_TEST

START_TEST(layer_specs_need_room_a_base_and_a_form_and_keep_the_rules) {
    dcpk_spec specs[DCPK_LAYER_MAX_SPECS];
    uint32_t count = 77;
    ck_assert_int_eq(dcpk_spec_parse(&base, "layer heads=2 dcp=2 batch=4 poll=0", &error), DCPK_OK);
    dcpk_layer_options options = options_of(DCPK_LAYER_FUSED, false);
    ck_assert_int_eq(dcpk_layer_specs(&options, specs, 3, &count, &error), DCPK_E_ARG);
    assert_text("has 4 kernels, capacity is 3");
    ck_assert_uint_eq(count, 0);
    ck_assert_int_eq(dcpk_layer_specs(&options, specs, 4, &count, &error), DCPK_OK);
    ck_assert_uint_eq(count, 4);
    ck_assert_int_eq(dcpk_layer_specs(&options, NULL, 4, &count, &error), DCPK_E_ARG);
    ck_assert_int_eq(dcpk_layer_specs(NULL, specs, 4, &count, &error), DCPK_E_ARG);
    options.form = 5;
    ck_assert_int_eq(dcpk_layer_specs(&options, specs, 4, &count, &error), DCPK_E_ARG);
    assert_text("dcpk_layer_specs: form=5 is neither");
    options.base = NULL;
    ck_assert_int_eq(dcpk_layer_specs(&options, specs, 4, &count, &error), DCPK_E_ARG);
    assert_text("base is missing");
    ck_assert_int_eq(dcpk_spec_parse(&base, "layer heads=2 dcp=2 batch=5 q=2", &error), DCPK_OK);
    options = options_of(DCPK_LAYER_PUSH, false);
    ck_assert_int_eq(dcpk_layer_specs(&options, specs, 4, &count, &error), DCPK_E_SPEC);
    assert_text("q must divide batch");
    ck_assert_uint_eq(count, 0);
}
END_TEST

/* ---- dcpk_kernel_warm ---------------------------------------------------------------------------- */
static struct {
    uint32_t calls, count;
    long gets_before; /* of the maker, when prepare was called */
    dcpk_status answer;
} prepared;

static dcpk_status prepare(void *self, const dcpk_spec *specs, uint32_t count, dcpk_error *error_out) {
    (void)error_out;
    ck_assert_ptr_nonnull(specs);
    prepared.calls++;
    prepared.count = count;
    prepared.gets_before = ((struct maker *)self)->count;
    return prepared.answer;
}

static dcpk_provider provider_of_maker(void) {
    memset(&maker, 0, sizeof maker);
    memset(&prepared, 0, sizeof prepared);
    return (dcpk_provider){.size = sizeof(dcpk_provider), .self = &maker, .get = make, .prepare = prepare};
}

static uint32_t four_specs(dcpk_spec specs[DCPK_LAYER_MAX_SPECS]) {
    uint32_t count = 0;
    ck_assert_int_eq(dcpk_spec_parse(&base, "layer heads=2 dcp=2 batch=4 poll=0", &error), DCPK_OK);
    dcpk_layer_options options = options_of(DCPK_LAYER_FUSED, false);
    ck_assert_int_eq(dcpk_layer_specs(&options, specs, DCPK_LAYER_MAX_SPECS, &count, &error), DCPK_OK);
    ck_assert_uint_eq(count, 4);
    return count;
}

START_TEST(warm_up_prepares_once_then_loads_every_spec_in_order) {
    dcpk_spec specs[DCPK_LAYER_MAX_SPECS];
    dcpk_kernel *kernels[DCPK_LAYER_MAX_SPECS];
    uint32_t count = four_specs(specs);
    dcpk_provider provider = provider_of_maker();
    ck_assert_msg(dcpk_kernel_warm(devices[0], &provider, specs, count, NULL, kernels, &error) == DCPK_OK, "%s",
                  error.text);
    ck_assert_uint_eq(prepared.calls, 1);
    ck_assert_uint_eq(prepared.count, count);
    ck_assert_int_eq(prepared.gets_before, 0);
    ck_assert_int_eq(maker.count, (int)count);
    ck_assert_int_eq(fake.state->libraries, (long)count);
    for (uint32_t i = 0; i < count; i++) {
        dcpk_spec of;
        ck_assert_int_eq(dcpk_image_spec(dcpk_kernel_image(kernels[i]), &of, &error), DCPK_OK);
        ck_assert_str_eq(of.kernel, specs[i].kernel);
        ck_assert_int_eq(dcpk_kernel_free(kernels[i], &error), DCPK_OK);
    }
}
END_TEST

START_TEST(warm_up_that_fails_names_the_spec_and_leaves_nothing_loaded) {
    dcpk_spec specs[DCPK_LAYER_MAX_SPECS];
    dcpk_kernel *kernels[DCPK_LAYER_MAX_SPECS];
    uint32_t count = four_specs(specs);
    for (int fail_at = 1; fail_at <= 4; fail_at++) {
        dcpk_provider provider = provider_of_maker();
        maker.fail_at = fail_at;
        memset(kernels, 0xAA, sizeof kernels);
        ck_assert_int_eq(dcpk_kernel_warm(devices[0], &provider, specs, count, NULL, kernels, &error),
                         DCPK_E_NOT_FOUND);
        ck_assert_int_eq(error.code, DCPK_E_NOT_FOUND);
        assert_text(maker.asked[fail_at - 1]);
        assert_text("no image of");
        for (uint32_t i = 0; i < count; i++)
            ck_assert_ptr_null(kernels[i]);
        ck_assert_int_eq(fake.state->libraries, 0);
    }
}
END_TEST

START_TEST(warm_up_whose_load_fails_leaves_nothing_loaded) {
    dcpk_spec specs[DCPK_LAYER_MAX_SPECS];
    dcpk_kernel *kernels[DCPK_LAYER_MAX_SPECS];
    uint32_t count = four_specs(specs);
    bool pushed;
    ck_assert_int_eq(dcpk_device_enter(devices[0], &pushed, &error), DCPK_OK); /* so that no load has to */
    for (long n = 1;; n++) {
        dcpk_provider provider = provider_of_maker();
        fake.reset();
        fake.state->fail_at = n;
        dcpk_error_init(&error);
        dcpk_status status = dcpk_kernel_warm(devices[0], &provider, specs, count, NULL, kernels, &error);
        fake.state->fail_at = 0;
        for (uint32_t i = 0; i < count; i++) {
            ck_assert_int_eq(kernels[i] == NULL, status != DCPK_OK);
            ck_assert_int_eq(dcpk_kernel_free(kernels[i], &error), DCPK_OK);
        }
        ck_assert_int_eq(fake.state->libraries, 0);
        if (status != DCPK_OK) assert_text("warm-up");
        if (status == DCPK_OK && fake.state->calls < n) break;
        ck_assert_int_lt(n, 500);
    }
    dcpk_device_leave(devices[0], pushed);
}
END_TEST

START_TEST(warm_up_during_a_capture_is_refused_before_anything_is_built) {
    dcpk_spec specs[DCPK_LAYER_MAX_SPECS];
    dcpk_kernel *kernels[DCPK_LAYER_MAX_SPECS];
    uint32_t count = four_specs(specs);
    int stream;
    dcpk_provider provider = provider_of_maker();
    fake.reset();
    fake.state->capturing = DRIVER_CAPTURE_ACTIVE;
    ck_assert_int_eq(dcpk_kernel_warm(devices[0], &provider, specs, count, &stream, kernels, &error), DCPK_E_CAPTURING);
    ck_assert_uint_eq(prepared.calls, 0);
    ck_assert_int_eq(maker.count, 0);
    ck_assert_int_eq(fake.state->calls, 1); /* the question whether the stream captures */
    ck_assert_ptr_null(kernels[0]);
}
END_TEST

START_TEST(warm_up_asks_every_spec_even_where_preparing_failed) {
    dcpk_spec specs[DCPK_LAYER_MAX_SPECS];
    dcpk_kernel *kernels[DCPK_LAYER_MAX_SPECS];
    uint32_t count = four_specs(specs);
    dcpk_provider provider = provider_of_maker();
    prepared.answer = DCPK_E_TOOLCHAIN;
    ck_assert_int_eq(dcpk_kernel_warm(devices[0], &provider, specs, count, NULL, kernels, &error), DCPK_OK);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_int_eq(dcpk_kernel_free(kernels[i], &error), DCPK_OK);
    /* A provider of the size before prepare has none. */
    provider = provider_of_maker();
    provider.size = offsetof(dcpk_provider, prepare);
    ck_assert_int_eq(dcpk_kernel_warm(devices[0], &provider, specs, 1, NULL, kernels, &error), DCPK_OK);
    ck_assert_uint_eq(prepared.calls, 0);
    ck_assert_int_eq(dcpk_kernel_free(kernels[0], &error), DCPK_OK);
}
END_TEST

/* A caller of the next version of the headers: its specs end in what this library does not know. */
struct later_spec {
    dcpk_spec spec;
    uint64_t more[3];
};

START_TEST(warm_up_takes_the_specs_of_a_caller_whose_struct_is_larger) {
    struct later_spec later_base = {0}, later[DCPK_LAYER_MAX_SPECS];
    dcpk_spec specs[DCPK_LAYER_MAX_SPECS];
    dcpk_kernel *kernels[DCPK_LAYER_MAX_SPECS];
    uint32_t count = four_specs(specs), again = 0;
    memset(later, 0xa5, sizeof later);
    later_base.spec = base;
    later_base.spec.size = sizeof later_base;
    dcpk_layer_options options = options_of(DCPK_LAYER_FUSED, false);
    options.base = &later_base.spec;
    ck_assert_int_eq(dcpk_layer_specs(&options, &later[0].spec, 5, &again, &error), DCPK_OK);
    ck_assert_uint_eq(again, count);
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_uint_eq(later[i].spec.size, sizeof later[i]);
        ck_assert(later[i].more[0] == 0 && later[i].more[2] == 0);
        later[i].spec.size = specs[i].size;
        ck_assert_int_eq(memcmp(&later[i].spec, &specs[i], sizeof specs[i]), 0);
        later[i].spec.size = sizeof later[i];
    }
    ck_assert_uint_eq(later[count].spec.size, 0xa5a5a5a5);
    dcpk_provider provider = provider_of_maker();
    ck_assert_msg(dcpk_kernel_warm(devices[0], &provider, &later[0].spec, count, NULL, kernels, &error) == DCPK_OK,
                  "%s", error.text);
    for (uint32_t i = 0; i < count; i++) {
        char text[512];
        dcpk_spec_format(&specs[i], text, sizeof text);
        ck_assert_str_eq(text, maker.asked[i]);
        ck_assert_int_eq(dcpk_kernel_free(kernels[i], &error), DCPK_OK);
    }
    static const uint32_t wrong[][2] = {{0, 8}, {1, sizeof(dcpk_spec)}, {3, 0}}; /* which spec, its size */
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        later[wrong[i][0]].spec.size = wrong[i][1];
        ck_assert_int_eq(dcpk_kernel_warm(devices[0], &provider, &later[0].spec, count, NULL, kernels, &error),
                         DCPK_E_ARG);
        assert_text("every specs[i].size must be the same");
        later[wrong[i][0]].spec.size = sizeof later[0];
    }
}
END_TEST

START_TEST(warm_up_of_nothing_is_fine_and_missing_arguments_are_not) {
    dcpk_spec specs[DCPK_LAYER_MAX_SPECS];
    dcpk_kernel *kernels[DCPK_LAYER_MAX_SPECS];
    four_specs(specs);
    dcpk_provider provider = provider_of_maker(), empty = {.size = sizeof empty};
    ck_assert_int_eq(dcpk_kernel_warm(devices[0], &provider, NULL, 0, NULL, NULL, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_kernel_warm(NULL, &provider, specs, 1, NULL, kernels, &error), DCPK_E_ARG);
    ck_assert_int_eq(dcpk_kernel_warm(devices[0], NULL, specs, 1, NULL, kernels, &error), DCPK_E_ARG);
    ck_assert_int_eq(dcpk_kernel_warm(devices[0], &empty, specs, 1, NULL, kernels, &error), DCPK_E_ARG);
    ck_assert_int_eq(dcpk_kernel_warm(devices[0], &provider, NULL, 1, NULL, kernels, &error), DCPK_E_ARG);
    ck_assert_int_eq(dcpk_kernel_warm(devices[0], &provider, specs, 1, NULL, NULL, &error), DCPK_E_ARG);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("warm");
    TCase *tests = tcase_create("warm");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, layer_specs_are_what_opening_the_layer_asks_its_provider_for, 0,
                        sizeof layers / sizeof layers[0]);
    tcase_add_test(tests, layer_specs_need_room_a_base_and_a_form_and_keep_the_rules);
    tcase_add_test(tests, warm_up_prepares_once_then_loads_every_spec_in_order);
    tcase_add_test(tests, warm_up_that_fails_names_the_spec_and_leaves_nothing_loaded);
    tcase_add_test(tests, warm_up_whose_load_fails_leaves_nothing_loaded);
    tcase_add_test(tests, warm_up_during_a_capture_is_refused_before_anything_is_built);
    tcase_add_test(tests, warm_up_asks_every_spec_even_where_preparing_failed);
    tcase_add_test(tests, warm_up_of_nothing_is_fine_and_missing_arguments_are_not);
    tcase_add_test(tests, warm_up_takes_the_specs_of_a_caller_whose_struct_is_larger);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
