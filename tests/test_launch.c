/* test_launch.c - launching, against the fake driver: parameters, attributes, refusals, and what a launch may not do.
 */
#include "tests/fake_open.h"
#include "tests/stand_in.h"

#include "runtime/device.h"
#include "runtime/kernel.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

/* Calls of the environment and the heap made by the code under test: these definitions stand in front of libc's. */
static _Atomic long getenv_calls;
char *getenv(const char *name) {
    if (strncmp(name, "CK_", 3) != 0) getenv_calls++; /* Check reads its own for every assertion */
    size_t length = strlen(name);
    for (char **row = environ; row != NULL && *row != NULL; row++)
        if (strncmp(*row, name, length) == 0 && (*row)[length] == '=') return *row + length + 1;
    return NULL;
}

#if !defined(__SANITIZE_ADDRESS__)
static _Atomic long malloc_calls;
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *malloc(size_t bytes) {
    malloc_calls++;
    return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
    malloc_calls++;
    return __libc_calloc(count, bytes);
}
#else
static long malloc_calls; /* the sanitizer owns the heap: nothing is counted */
#endif

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

/* ---- launching ---- */

START_TEST(launch_passes_every_argument_by_name) {
    dcpk_device *device = fake_device(0);
    dcpk_kernel *kernel = fake_load_kernel(device, fake_norm_image());
    dcpk_args args = fake_norm_args();
    static const unsigned bytes[] = {8, 8, 8, 4, 4};
    memcpy(fake.state->param_bytes, bytes, sizeof bytes);
    fake.state->param_count = 5;
    int stream;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, &stream, 0, &error), DCPK_OK);
    const struct fake_launch *last = &fake.state->last;
    float eps = 1e-5f;
    uint32_t eps_bits;
    memcpy(&eps_bits, &eps, 4);
    ck_assert_uint_eq(last->param[0], 0x10000);
    ck_assert_uint_eq(last->param[1], 0x20000);
    ck_assert_uint_eq(last->param[2], 0x30000);
    ck_assert_uint_eq(last->param[3], 3648);
    ck_assert_uint_eq(last->param[4], eps_bits);
    ck_assert_uint_eq(last->grid[0], 4);
    ck_assert_uint_eq(last->block[0], 256);
    ck_assert_ptr_eq(last->stream, &stream);
    ck_assert_str_eq(last->function, "dcpk_query_norm");
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
}
END_TEST

static struct {
    uint32_t flags;
    int pdl;
} const pdl_cases[] = {
    {0, 1},
    {DCPK_LAUNCH_NO_PDL, 0},
    {DCPK_LAUNCH_FRESH_WEIGHTS, 0},
    {DCPK_LAUNCH_FIRST, 0},
    {DCPK_LAUNCH_FIRST | DCPK_LAUNCH_CHAIN_WAITS, 1},
    {DCPK_LAUNCH_CHAIN_WAITS, 1},
    {DCPK_LAUNCH_FIRST | DCPK_LAUNCH_CHAIN_WAITS | DCPK_LAUNCH_FRESH_WEIGHTS, 0},
    {DCPK_LAUNCH_CHAIN_WAITS | DCPK_LAUNCH_NO_PDL, 0},
};

START_TEST(pdl_attribute_is_set_by_flags_alone) {
    dcpk_device *device = fake_device(0);
    dcpk_kernel *kernel = fake_load_kernel(device, fake_norm_image());
    dcpk_args args = fake_norm_args();
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, pdl_cases[_i].flags, &error), DCPK_OK);
    ck_assert_uint_eq(fake.state->last.attributes, (unsigned)pdl_cases[_i].pdl);
    ck_assert_int_eq(fake.state->last.pdl, pdl_cases[_i].pdl);
    if (pdl_cases[_i].pdl) ck_assert_int_eq(fake.state->last.attribute[0], DRIVER_LAUNCH_PDL);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
}
END_TEST

START_TEST(kernel_that_never_waits_is_never_launched_with_pdl) {
    dcpk_device *device = fake_device(0);
    dcpk_entry_info entry = stand_in_entry("dcpk_query_norm", FAKE_NORM_PARAMS);
    entry.waits = 0;
    dcpk_kernel *kernel = fake_load_kernel(device, stand_in_image(FAKE_NORM_SPEC, &entry, 1));
    dcpk_args args = fake_norm_args();
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, DCPK_LAUNCH_CHAIN_WAITS, &error), DCPK_OK);
    ck_assert_uint_eq(fake.state->last.attributes, 0);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
}
END_TEST

START_TEST(dcpk_pdl_0_launches_every_kernel_plainly) {
    setenv("DCPK_PDL", "0", 1);
    dcpk_device *device = fake_device(0);
    dcpk_kernel *kernel = fake_load_kernel(device, fake_norm_image());
    dcpk_args args = fake_norm_args();
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, DCPK_LAUNCH_CHAIN_WAITS, &error), DCPK_OK);
    ck_assert_uint_eq(fake.state->last.attributes, 0);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
}
END_TEST

START_TEST(launch_attribute_that_the_driver_rejects_is_named) {
    dcpk_device *device = fake_device(0);
    dcpk_kernel *kernel = fake_load_kernel(device, fake_norm_image());
    dcpk_args args = fake_norm_args();
    fake.state->reject_attribute = DRIVER_LAUNCH_PDL;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_E_DRIVER);
    assert_text("query_norm arch=sm_90a heads=2 batch=4");
    assert_text("cuLaunchKernelEx");
    assert_text("launch attribute programmatic stream serialization (DCPK_PDL=0 leaves it out)");
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, DCPK_LAUNCH_NO_PDL, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
}
END_TEST

START_TEST(clusters_are_launched_with_their_attribute) {
    dcpk_device *device = fake_device(0);
    dcpk_entry_info entry = stand_in_entry("dcpk_query_norm", FAKE_NORM_PARAMS);
    entry.grid[0] = 8;
    entry.cluster[0] = 2;
    dcpk_kernel *kernel = fake_load_kernel(device, stand_in_image(FAKE_NORM_SPEC, &entry, 1));
    dcpk_args args = fake_norm_args();
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_OK);
    ck_assert_uint_eq(fake.state->last.attributes, 2);
    ck_assert_uint_eq(fake.state->last.cluster[0], 2);
    ck_assert_uint_eq(fake.state->last.cluster[1], 1);
    ck_assert_int_eq(fake.state->last.pdl, 1);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
}
END_TEST

/* The whole list of what a launch may ask of a driver. */
static bool allowed(const char *call) {
    static const char *const calls[] = {"cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2",
                                        "cuStreamGetCaptureInfo_v2", "cuLaunchKernelEx"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (strcmp(calls[i], call) == 0) return true;
    return false;
}

START_TEST(launch_allocates_nothing_and_asks_the_driver_only_to_launch) {
    dcpk_device *device = fake_device(0);
    dcpk_kernel *kernel = fake_load_kernel(device, fake_norm_image());
    dcpk_args args = fake_norm_args();
    int stream;
    fake.reset();
    long before = malloc_calls;
    for (int i = 0; i < 1000; i++)
        if (dcpk_kernel_launch(kernel, 0, &args, NULL, &stream, 0, &error) != DCPK_OK) ck_abort_msg("%s", error.text);
    ck_assert_int_eq(malloc_calls, before);
    ck_assert_int_eq(fake.state->launches, 1000);
    for (long i = 0; i < fake.state->calls; i++)
        ck_assert_msg(allowed(fake.state->call[i]), "a launch called %s", fake.state->call[i]);
    fake.reset();
    device->driver.ctx_push(device->context); /* with the context current, as in an engine */
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, &stream, 0, &error), DCPK_OK);
    ck_assert_int_eq(fake_count(fake.state, "cuCtxPushCurrent_v2"), 1); /* the test's own */
    ck_assert_int_eq(fake_count(fake.state, "cuCtxPopCurrent_v2"), 0);
    cu_context popped;
    device->driver.ctx_pop(&popped);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
}
END_TEST

START_TEST(bad_arguments_are_refused_by_name_before_any_driver_call) {
    dcpk_device *device = fake_device(0);
    dcpk_kernel *kernel = fake_load_kernel(device, fake_norm_image());
    fake.reset();
    dcpk_args args = fake_norm_args();
    args.q_a_norm = 0;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_E_ARG);
    assert_text("query_norm arch=sm_90a heads=2 batch=4");
    assert_text("(dcpk_query_norm): argument q_a_norm is 0");
    args = fake_norm_args();
    args.qkv += 8;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_E_ARG);
    assert_text("argument qkv = 0x10008 is no multiple of 16 bytes");
    args = fake_norm_args();
    args.pitch = 3650;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_E_ARG);
    assert_text("argument pitch = 3650 is no multiple of 8");
    args.pitch = 1528;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_E_ARG);
    assert_text("argument pitch = 1528 is less than a row's 1536 elements");
    args = fake_norm_args();
    args.eps = -1;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_E_ARG);
    assert_text("argument eps");
    args = fake_norm_args();
    args.size = (uint32_t)offsetof(dcpk_args, eps);
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_E_ARG);
    assert_text("argument eps is missing");
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, NULL, NULL, NULL, 0, &error), DCPK_E_ARG);
    args = fake_norm_args();
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 1, &args, NULL, NULL, 0, &error), DCPK_E_ARG);
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 64, &error), DCPK_E_ARG);
    ck_assert_int_eq(dcpk_kernel_launch(NULL, 0, &args, NULL, NULL, 0, &error), DCPK_E_ARG);
    ck_assert_int_eq(fake.state->calls, 0);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
}
END_TEST

START_TEST(gate_and_pitch_may_be_missing_only_without_gate) {
    dcpk_device *device = fake_device(0);
    dcpk_entry_info entry = stand_in_entry("dcpk_dcp_value", "rows rows_lse lens totals kv_b output gate pitch");
    dcpk_args args = {.size = sizeof args,
                      .rows = 0x1000,
                      .rows_lse = 0x2000,
                      .lens = 0x3000,
                      .totals = 0x4000,
                      .kv_b = 0x5000,
                      .output = 0x6000};
    dcpk_kernel *kernel = fake_load_kernel(device, stand_in_image("dcp_value heads=2 dcp=1 batch=4 gate=0", &entry, 1));
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_OK);
    args.rows = 0;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_E_ARG);
    assert_text("argument rows is 0 and there is no box to hold it");
    args.rows = 0x1000;
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    kernel = fake_load_kernel(device, stand_in_image("dcp_value heads=2 dcp=1 batch=4 gate=1", &entry, 1));
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_E_ARG);
    assert_text("argument gate is 0");
    args.gate = 0x7000;
    args.pitch = 248;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_E_ARG);
    assert_text("less than a row's 256 elements");
    args.pitch = 256;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
}
END_TEST

START_TEST(pitch_that_kernels_cannot_count_in_32_bits_is_refused) {
    dcpk_device *device = fake_device(0);
    dcpk_kernel *kernel = fake_load_kernel(device, fake_norm_image()); /* batch=4 */
    dcpk_args args = fake_norm_args();
    args.pitch = 1u << 29;
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_OK);
    const uint32_t wide[] = {(1u << 29) + 8, 1u << 30, 0xFFFFFFF8u};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        args.pitch = wide[i];
        ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_E_ARG);
        assert_text("pitch * batch must be at most 2147483648 elements");
        assert_text("pitch at most 536870912");
    }
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
}
END_TEST

START_TEST(kernels_of_a_box_are_not_launched_raw) {
    dcpk_device *device = fake_device(0);
    dcpk_entry_info entry = stand_in_entry("dcpk_query_push", "query control q_box");
    dcpk_kernel *kernel = fake_load_kernel(device, stand_in_image("query_push heads=2 dcp=2 batch=4", &entry, 1));
    uint64_t value[3] = {0x1000, 0x2000, 0x3000};
    void *params[] = {&value[0], &value[1], &value[2]};
    ck_assert_int_eq(dcpk_kernel_launch_raw(kernel, 0, params, NULL, 0, &error), DCPK_E_ARG);
    assert_text("(dcpk_query_push): its parameters are a box's and args.def's: dcpk_kernel_launch fills them");
    ck_assert_int_eq(fake.state->launches, 0);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    entry = stand_in_entry("dcpk_mine", "seen:u64 control q_box"); /* nothing else can launch it */
    kernel = fake_load_kernel(device, stand_in_image("mine heads=2 dcp=2 batch=4", &entry, 1));
    ck_assert_int_eq(dcpk_kernel_launch_raw(kernel, 0, params, NULL, 0, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
}
END_TEST

START_TEST(kernel_that_the_driver_keeps_is_kept) {
    static const struct {
        int result;
        dcpk_status status;
    } kept[] = {{DRIVER_NOT_READY, DCPK_E_BOX_BUSY}, {DRIVER_INVALID_VALUE, DCPK_E_DRIVER}};
    dcpk_device *device = fake_device(0);
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        dcpk_kernel *kernel = fake_load_kernel(device, fake_norm_image());
        dcpk_args args = fake_norm_args();
        strcpy(fake.state->fail_symbol, "cuLibraryUnload");
        fake.state->fail_with = kept[i].result;
        for (int twice = 0; twice < 2; twice++) {
            ck_assert_int_eq(dcpk_kernel_free(kernel, &error), kept[i].status);
            ck_assert_int_eq(error.code, kept[i].status);
            ck_assert_int_eq(error.driver_result, kept[i].result);
            assert_text("cuLibraryUnload");
        }
        fake.state->fail_symbol[0] = '\0';
        ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_OK); /* it is whole */
        ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    }
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

static void *volatile buried; /* the library, lost with its context */

START_TEST(lost_context_keeps_no_kernel) {
    dcpk_device *device = fake_device(0);
    dcpk_kernel *kernel = fake_load_kernel(device, fake_norm_image());
    buried = kernel->library;
    strcpy(fake.state->fail_symbol, "cuLibraryUnload");
    fake.state->fail_with = DRIVER_ILLEGAL_ADDRESS;
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    fake.state->fail_symbol[0] = '\0';
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 1);
}
END_TEST

START_TEST(kernels_of_the_users_own_take_raw_parameters) {
    dcpk_device *device = fake_device(0);
    dcpk_entry_info entry = stand_in_entry("dcpk_mine", "seen:u64 rows");
    dcpk_kernel *kernel = fake_load_kernel(device, stand_in_image("mine heads=2 batch=4 dcp=1", &entry, 1));
    dcpk_args args = {.size = sizeof args, .rows = 0x1000};
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_E_ARG);
    assert_text("parameter seen is in neither args.def nor box.def: use dcpk_kernel_launch_raw");
    uint64_t seen = 77, rows = 88;
    void *params[] = {&seen, &rows};
    fake.state->param_count = 2;
    fake.state->param_bytes[0] = fake.state->param_bytes[1] = 8;
    ck_assert_int_eq(dcpk_kernel_launch_raw(kernel, 0, params, NULL, 0, &error), DCPK_OK);
    ck_assert_uint_eq(fake.state->last.param[0], 77);
    ck_assert_uint_eq(fake.state->last.param[1], 88);
    params[1] = NULL;
    ck_assert_int_eq(dcpk_kernel_launch_raw(kernel, 0, params, NULL, 0, &error), DCPK_E_ARG);
    assert_text("parameter 1, rows, is NULL");
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
}
END_TEST

START_TEST(parameter_of_another_type_than_its_name_says_is_refused_at_load) {
    dcpk_device *device = fake_device(0);
    dcpk_entry_info entry = stand_in_entry("dcpk_mine", "rows:u32");
    dcpk_image *image = stand_in_image("mine heads=2 batch=4 dcp=1", &entry, 1);
    dcpk_kernel *kernel = NULL;
    ck_assert_int_eq(dcpk_kernel_load(device, image, NULL, &kernel, &error), DCPK_E_BAD_CUBIN);
    assert_text("parameter rows of dcpk_mine is u32, but it is u64 in args.def");
    dcpk_image_free(image);
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

START_TEST(kernel_captured_in_a_graph_is_not_unloaded_under_it) {
    dcpk_device *device = fake_device(0);
    dcpk_kernel *kernel = fake_load_kernel(device, fake_norm_image());
    dcpk_args args = fake_norm_args();
    int stream;
    fake.state->capturing = DRIVER_CAPTURE_ACTIVE;
    fake.state->capture_id = 9;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, &stream, 0, &error), DCPK_OK);
    ck_assert_int_eq(fake_count(fake.state, "cuUserObjectCreate"), 1); /* once a capture */
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_E_BOX_BUSY);
    assert_text("1 graph that captured it still lives");
    ck_assert_int_eq(fake.state->libraries, 1);
    fake.state->capturing = 0;
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_E_BOX_BUSY);
    fake.drop_graph();
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

START_TEST(graph_that_refuses_the_tie_stops_the_launch_and_leaks_nothing) {
    dcpk_device *device = fake_device(0);
    dcpk_kernel *kernel = fake_load_kernel(device, fake_norm_image());
    dcpk_args args = fake_norm_args();
    int stream;
    fake.state->capturing = DRIVER_CAPTURE_ACTIVE;
    fake.state->capture_id = 9;
    strcpy(fake.state->fail_symbol, "cuGraphRetainUserObject");
    ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, &stream, 0, &error), DCPK_E_DRIVER);
    assert_text("cuGraphRetainUserObject");
    ck_assert_int_eq(fake.state->launches, 0);
    fake.state->capturing = 0;
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

struct racer {
    const dcpk_kernel *kernel;
    _Atomic int *stop;
    int failed;
};

static void *launch_many(void *self) {
    struct racer *racer = self;
    dcpk_args args = fake_norm_args();
    for (int i = 0; i < 2000; i++)
        if (dcpk_kernel_launch(racer->kernel, 0, &args, NULL, NULL, 0, NULL) != DCPK_OK) racer->failed++;
    return NULL;
}

START_TEST(launches_from_eight_threads_while_the_environment_changes) {
    dcpk_device *device = fake_device(0);
    dcpk_kernel *kernel = fake_load_kernel(device, fake_norm_image());
    pthread_t thread[8];
    struct racer racer[8];
    fake.reset();
    long before = getenv_calls;
    for (int i = 0; i < 8; i++) {
        racer[i] = (struct racer){.kernel = kernel};
        ck_assert_int_eq(pthread_create(&thread[i], NULL, launch_many, &racer[i]), 0);
    }
    for (int i = 0; i < 1000; i++)
        setenv("DCPK_PDL", i % 2 ? "0" : "1", 1);
    for (int i = 0; i < 8; i++) {
        pthread_join(thread[i], NULL);
        ck_assert_int_eq(racer[i].failed, 0);
    }
    ck_assert_int_eq(getenv_calls, before);
    ck_assert_int_eq(fake.state->launches, 16000);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("launch");
    TCase *tests = tcase_create("launch");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, launch_passes_every_argument_by_name);
    tcase_add_loop_test(tests, pdl_attribute_is_set_by_flags_alone, 0, (int)(sizeof pdl_cases / sizeof pdl_cases[0]));
    tcase_add_test(tests, kernel_that_never_waits_is_never_launched_with_pdl);
    tcase_add_test(tests, dcpk_pdl_0_launches_every_kernel_plainly);
    tcase_add_test(tests, launch_attribute_that_the_driver_rejects_is_named);
    tcase_add_test(tests, clusters_are_launched_with_their_attribute);
    tcase_add_test(tests, launch_allocates_nothing_and_asks_the_driver_only_to_launch);
    tcase_add_test(tests, bad_arguments_are_refused_by_name_before_any_driver_call);
    tcase_add_test(tests, gate_and_pitch_may_be_missing_only_without_gate);
    tcase_add_test(tests, pitch_that_kernels_cannot_count_in_32_bits_is_refused);
    tcase_add_test(tests, kernels_of_a_box_are_not_launched_raw);
    tcase_add_test(tests, kernel_that_the_driver_keeps_is_kept);
    tcase_add_test(tests, lost_context_keeps_no_kernel);
    tcase_add_test(tests, kernels_of_the_users_own_take_raw_parameters);
    tcase_add_test(tests, parameter_of_another_type_than_its_name_says_is_refused_at_load);
    tcase_add_test(tests, kernel_captured_in_a_graph_is_not_unloaded_under_it);
    tcase_add_test(tests, graph_that_refuses_the_tie_stops_the_launch_and_leaks_nothing);
    tcase_add_test(tests, launches_from_eight_threads_while_the_environment_changes);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
