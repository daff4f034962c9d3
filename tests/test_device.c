/* test_device.c - devices and memory, against the fake driver: which driver calls are made, and what a caller is told
 * when one of them fails. */
#include "tests/fake_open.h"
#include "tests/stand_in.h"

#include "runtime/device.h"
#include "runtime/kernel.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

/* Counts readings of the environment: this definition stands in front of libc's. */
static _Atomic long getenv_calls;
char *getenv(const char *name) {
    if (strncmp(name, "CK_", 3) != 0) getenv_calls++; /* Check reads its own for every assertion */
    size_t length = strlen(name);
    for (char **row = environ; row != NULL && *row != NULL; row++)
        if (strncmp(*row, name, length) == 0 && (*row)[length] == '=') return *row + length + 1;
    return NULL;
}

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

static dcpk_status open_with(const char *kind, int32_t ordinal, int32_t pdl, dcpk_device **device) {
    dcpk_device_options options = {.size = sizeof options,
                                   .kind = kind,
                                   .library = fake_driver_path(),
                                   .ordinal = ordinal,
                                   .pdl = pdl,
                                   .multicast = -1};
    return dcpk_device_open(&options, device, &error);
}

START_TEST(device_info_is_what_the_driver_says) {
    fake.state->sms = 78;
    dcpk_device *device = fake_device(3);
    dcpk_device_info info = {.size = sizeof info};
    ck_assert_int_eq(dcpk_device_get_info(device, &info, &error), DCPK_OK);
    ck_assert_str_eq(info.kind, "cuda");
    ck_assert_str_eq(info.name, "Fake 3");
    ck_assert_int_eq(info.ordinal, 3);
    ck_assert_int_eq(info.count, 8);
    ck_assert_int_eq(info.major, 9);
    ck_assert_int_eq(info.sms, 78);
    ck_assert_int_eq(info.driver_version, 13000);
    ck_assert_int_eq(info.multicast, 0);
    dcpk_device_close(device);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

START_TEST(short_info_struct_gets_only_what_fits) {
    dcpk_device *device = fake_device(0);
    struct {
        dcpk_device_info info;
    } wide;
    memset(&wide, 0x5A, sizeof wide);
    wide.info.size = (uint32_t)offsetof(dcpk_device_info, ordinal);
    ck_assert_int_eq(dcpk_device_get_info(device, &wide.info, &error), DCPK_OK);
    ck_assert_str_eq(wide.info.kind, "cuda");
    ck_assert_int_eq(wide.info.ordinal, 0x5A5A5A5A);
    ck_assert_uint_eq(wide.info.size, offsetof(dcpk_device_info, ordinal));
    dcpk_device_close(device);
}
END_TEST

START_TEST(callers_current_context_is_used_when_it_is_the_devices) {
    dcpk_device *first = fake_device(2);
    ck_assert_int_eq(fake.state->retains, 1);
    ck_assert_int_eq(first->driver.ctx_push(first->context), DRIVER_OK);
    dcpk_device *second = fake_device(2), *other = fake_device(1);
    ck_assert_ptr_eq(second->context, first->context);
    ck_assert(!second->retained);
    ck_assert(other->retained);
    ck_assert_int_eq(fake.state->retains, 2);
    dcpk_device_close(second);
    dcpk_device_close(other);
    cu_context popped;
    first->driver.ctx_pop(&popped);
    dcpk_device_close(first);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

START_TEST(calls_leave_the_callers_context_current) {
    dcpk_device *zero = fake_device(0), *one = fake_device(1);
    ck_assert_int_eq(zero->driver.ctx_push(zero->context), DRIVER_OK);
    uint64_t address = 0;
    ck_assert_int_eq(dcpk_mem_alloc(one, 100, &address, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_device_sync(one, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_mem_free(one, address, &error), DCPK_OK);
    cu_context current = NULL;
    zero->driver.ctx_get_current(&current);
    ck_assert_ptr_eq(current, zero->context);
    zero->driver.ctx_pop(&current);
    zero->driver.ctx_get_current(&current);
    ck_assert_ptr_null(current);
    dcpk_device_close(zero);
    dcpk_device_close(one);
    ck_assert_int_eq(fake.outstanding(), 0);
}
END_TEST

START_TEST(device_list_of_the_environment_renumbers_devices) {
    setenv("DCPK_DEVICE", "cuda:5,2", 1);
    dcpk_device *device = NULL;
    ck_assert_int_eq(open_with(NULL, 1, -1, &device), DCPK_OK);
    ck_assert_int_eq(device->handle, 2);
    ck_assert_int_eq(device->info.count, 2);
    dcpk_device_close(device);
    ck_assert_int_eq(open_with(NULL, 2, -1, &device), DCPK_E_ARG);
    assert_text("ordinal 2");
    ck_assert_ptr_null(device);
    setenv("DCPK_DEVICE", "cuda:9", 1);
    ck_assert_int_eq(open_with(NULL, 0, -1, &device), DCPK_E_ARG);
    assert_text("device 9: this driver has 8");
    setenv("DCPK_DEVICE", "gpu", 1);
    ck_assert_int_eq(open_with(NULL, 0, -1, &device), DCPK_E_ARG);
    assert_text("DCPK_DEVICE=gpu: auto, cpu or cuda");
    setenv("DCPK_DEVICE", "cuda:", 1);
    ck_assert_int_eq(open_with(NULL, 0, -1, &device), DCPK_E_ARG);
    setenv("DCPK_DEVICE", "cuda:1,", 1);
    ck_assert_int_eq(open_with(NULL, 0, -1, &device), DCPK_E_ARG);
    setenv("DCPK_DEVICE", "", 1); /* empty means unset */
    ck_assert_int_eq(open_with("cuda", 0, -1, &device), DCPK_OK);
    dcpk_device_close(device);
}
END_TEST

START_TEST(bad_environment_values_are_named) {
    dcpk_device *device = NULL;
    setenv("DCPK_PDL", "yes", 1);
    ck_assert_int_eq(open_with("cuda", 0, -1, &device), DCPK_E_ARG);
    assert_text("DCPK_PDL=yes");
    ck_assert_int_eq(open_with("cuda", 0, 1, &device), DCPK_OK); /* the option wins, the variable is not asked */
    dcpk_device_close(device);
}
END_TEST

START_TEST(environment_is_read_while_opening_and_never_again) {
    long before = getenv_calls;
    dcpk_device *device = fake_device(0);
    ck_assert_int_gt(getenv_calls, before);
    before = getenv_calls;
    dcpk_kernel *kernel = fake_load_kernel(device, fake_norm_image());
    dcpk_args args = fake_norm_args();
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error), DCPK_OK);
    uint64_t address;
    ck_assert_int_eq(dcpk_mem_alloc(device, 4, &address, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_mem_free(device, address, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
    dcpk_device_close(device);
    ck_assert_int_eq(getenv_calls, before);
}
END_TEST

START_TEST(every_variable_the_runtime_reads_is_documented) {
    static const char *const read[] = {
#define V(field, name, values, doc) name,
#include "runtime/environment.def"
#undef V
    };
    static const char *const documented[] = {
#define V(name, dflt, reader, meaning) #name,
#include <dcpk/environment.def>
#undef V
    };
    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++) {
        int found = 0;
        for (size_t j = 0; j < sizeof documented / sizeof documented[0]; j++)
            found |= strcmp(read[i], documented[j]) == 0;
        ck_assert_msg(found, "%s is read but not in include/dcpk/environment.def", read[i]);
    }
}
END_TEST

/* Opens and uses memory with the n-th driver call failing, for every n. */
START_TEST(any_failing_driver_call_leaves_nothing_behind) {
    long n = 1, failures = 0;
    for (;; n++) {
        fake.reset();
        fake.state->fail_at = n;
        dcpk_device *device = NULL;
        dcpk_kernel *kernel = NULL;
        dcpk_image *image = fake_norm_image();
        uint64_t address = 0;
        char word[4] = {0};
        dcpk_args args = fake_norm_args();
        dcpk_status status = open_with("cuda", 0, -1, &device);
        if (status == DCPK_OK) status = dcpk_mem_alloc(device, 4096, &address, &error);
        if (status == DCPK_OK) status = dcpk_mem_write(device, address, word, 4, &error);
        if (status == DCPK_OK) status = dcpk_mem_fill32(device, address, 7, 4, &error);
        if (status == DCPK_OK) status = dcpk_mem_read(device, word, address, 4, &error);
        if (status == DCPK_OK) status = dcpk_kernel_load(device, image, NULL, &kernel, &error);
        if (status == DCPK_OK) status = dcpk_kernel_launch(kernel, 0, &args, NULL, NULL, 0, &error);
        bool left = fake.state->fail_at == 0; /* the failure was used up */
        if (status != DCPK_OK) {
            failures++;
            ck_assert_int_eq(status, DCPK_E_DRIVER);
            ck_assert_msg(strstr(error.text, ": cu") != NULL, "no call is named: %s", error.text);
            ck_assert_int_eq(error.driver_result, DRIVER_INVALID_VALUE);
            if (address != 0) ck_assert_ptr_null(kernel == NULL ? NULL : strstr(error.text, "cuLibrary"));
        }
        fake.state->fail_at = 0;
        if (left && strcmp(fake.state->call[n - 1], "cuCtxPopCurrent_v2") == 0) { /* nobody can undo a failed undo */
            cu_context popped;
            ck_assert_int_eq(device->driver.ctx_pop(&popped), DRIVER_OK);
        }
        ck_assert_int_eq(dcpk_kernel_free(kernel, &error), DCPK_OK);
        if (device != NULL) ck_assert_int_eq(dcpk_mem_free(device, address, &error), DCPK_OK);
        dcpk_device_close(device);
        dcpk_image_free(image);
        ck_assert_msg(fake.outstanding() == 0, "call %ld: %ld left, %s", n, fake.outstanding(), error.text);
        if (!left) break;
    }
    ck_assert_int_gt(failures, 30);
}
END_TEST

START_TEST(refusal_by_the_driver_names_call_result_and_reason) {
    dcpk_device *device = fake_device(0);
    strcpy(fake.state->fail_symbol, "cuMemAlloc_v2");
    fake.state->fail_with = DRIVER_OUT_OF_MEMORY;
    uint64_t address = 1;
    ck_assert_int_eq(dcpk_mem_alloc(device, 4096, &address, &error), DCPK_E_DRIVER);
    ck_assert_str_eq(error.text, "device 0: 4096 bytes: cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY: out of memory");
    ck_assert_uint_eq(address, 0);
    dcpk_device_close(device);
}
END_TEST

START_TEST(memory_calls_move_the_bytes_they_say) {
    dcpk_device *device = fake_device(0);
    uint64_t address = 0, nothing = 1;
    uint32_t words[4] = {1, 2, 3, 4}, back[4] = {0};
    ck_assert_int_eq(dcpk_mem_alloc(device, sizeof words, &address, &error), DCPK_OK);
    ck_assert_uint_eq(address % 256, 0);
    ck_assert_int_eq(dcpk_mem_write(device, address, words, sizeof words, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_mem_fill32(device, address + 4, 0x80000000u, 2, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_mem_read(device, back, address, sizeof back, &error), DCPK_OK);
    ck_assert_uint_eq(back[0], 1);
    ck_assert_uint_eq(back[1], 0x80000000u);
    ck_assert_uint_eq(back[2], 0x80000000u);
    ck_assert_uint_eq(back[3], 4);
    ck_assert_int_eq(dcpk_mem_alloc(device, 0, &nothing, &error), DCPK_E_ARG);
    ck_assert_int_eq(dcpk_mem_fill32(device, 6, 0, 1, &error), DCPK_E_ARG);
    ck_assert_int_eq(dcpk_mem_write(device, 0, words, 4, &error), DCPK_E_ARG);
    ck_assert_uint_eq(nothing, 0);
    ck_assert_int_eq(dcpk_mem_free(device, address, &error), DCPK_OK);
    dcpk_device_close(device);
}
END_TEST

START_TEST(options_without_size_are_refused) {
    dcpk_device_options options = {.size = 0, .kind = "cuda"};
    dcpk_device *device = NULL;
    ck_assert_int_eq(dcpk_device_open(&options, &device, &error), DCPK_E_ARG);
    assert_text("set it to its sizeof");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("device");
    TCase *tests = tcase_create("device");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, device_info_is_what_the_driver_says);
    tcase_add_test(tests, short_info_struct_gets_only_what_fits);
    tcase_add_test(tests, callers_current_context_is_used_when_it_is_the_devices);
    tcase_add_test(tests, calls_leave_the_callers_context_current);
    tcase_add_test(tests, device_list_of_the_environment_renumbers_devices);
    tcase_add_test(tests, bad_environment_values_are_named);
    tcase_add_test(tests, environment_is_read_while_opening_and_never_again);
    tcase_add_test(tests, every_variable_the_runtime_reads_is_documented);
    tcase_add_test(tests, any_failing_driver_call_leaves_nothing_behind);
    tcase_add_test(tests, refusal_by_the_driver_names_call_result_and_reason);
    tcase_add_test(tests, memory_calls_move_the_bytes_they_say);
    tcase_add_test(tests, options_without_size_are_refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
