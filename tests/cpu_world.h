/* cpu_world.h - what the suites of the whole CPU device share: its cu* symbols, set-up, kernels from PTX text.
 *
 * The suites link the device's objects and meet it through its exported symbols alone. */
#ifndef DCPK_TESTS_CPU_WORLD_H
#define DCPK_TESTS_CPU_WORLD_H

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <dcpk/cpu.h>
#include "runtime/driver_types.h"
#include "tests/run_suite.h"

#define D(field, symbol, parameters) cu_result cpu_##field parameters __asm__(symbol);
#include "runtime/driver.def"
#include "runtime/cpu/driver_extra.def"
#undef D

#define OK(call) ck_assert_msg((call) == 0, "%s: %s", #call, dcpkcpu_report())
#define GIVES(result, call) ck_assert_int_eq(call, result)

#define PTX_HEAD ".version 8.1\n.target sm_90\n.address_size 64\n"

static cu_context contexts[8];

/* A fresh machine; every device's context retained, device 0's current. */
static inline void machine_with(dcpkcpu_options options) {
    options.size = sizeof options;
    ck_assert_int_eq(dcpkcpu_configure(&options), 0);
    OK(cpu_init(0));
    int count = 0;
    OK(cpu_device_count(&count));
    for (int d = 0; d < count && d < 8; d++)
        OK(cpu_primary_retain(&contexts[d], d));
    OK(cpu_ctx_set_current(contexts[0]));
}

static inline dcpkcpu_options fair(int devices, int sms) {
    return (dcpkcpu_options){.devices = devices,
                             .sms = sms,
                             .major = 9,
                             .minor = 0,
                             .multicast = 1,
                             .schedule = DCPKCPU_FAIR,
                             .livelock_rounds = 200000};
}

static inline dcpkcpu_options adverse(int devices, int sms, uint64_t seed) {
    dcpkcpu_options options = fair(devices, sms);
    options.schedule = DCPKCPU_RANDOM;
    options.seed = seed;
    options.store_delay = 200;
    return options;
}

/* What a race leads to is the test's. */
static inline dcpkcpu_options adverse_with_races(int devices, int sms, uint64_t seed) {
    dcpkcpu_options options = adverse(devices, sms, seed);
    options.races_allowed = 1;
    return options;
}

static inline void on(int device) {
    OK(cpu_ctx_set_current(contexts[device]));
}

/* Access both ways between all of the first n devices. */
static inline void make_peers(int n) {
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            if (a != b) {
                on(a);
                OK(cpu_ctx_enable_peer(contexts[b], 0));
            }
    on(0);
}

static inline cu_library library_of_text(const char *ptx) {
    cu_library library = NULL;
    OK(cpu_library_load(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    return library;
}

/* For the current device. */
static inline cu_function function_of_text(const char *ptx, const char *name) {
    cu_kernel kernel = NULL;
    cu_function function = NULL;
    OK(cpu_library_get_kernel(&kernel, library_of_text(ptx), name));
    OK(cpu_kernel_get_function(&function, kernel));
    OK(cpu_func_load(function));
    return function;
}

/* The kernel on that device; device 0's context is current afterwards. */
static inline cu_function function_on(int device, const char *ptx, const char *name) {
    on(device);
    cu_function function = function_of_text(ptx, name);
    on(0);
    return function;
}

/* The device's last report has all of these, up to NULL, in it. */
static inline void report_says(const char *const *parts) {
    for (; *parts; parts++)
        ck_assert_msg(strstr(dcpkcpu_report(), *parts) != NULL, "no \"%s\" in: %s", *parts, dcpkcpu_report());
}

static inline cu_ptr words(size_t count, uint32_t value) {
    cu_ptr address = 0;
    OK(cpu_mem_alloc(&address, count * 4));
    OK(cpu_fill32(address, value, count));
    return address;
}

static inline uint32_t word_at(cu_ptr address) {
    uint32_t word = 0;
    OK(cpu_copy_to_host(&word, address, 4));
    return word;
}

static inline cu_stream new_stream(void) {
    cu_stream stream = NULL;
    OK(cpu_stream_create(&stream, DRIVER_STREAM_NON_BLOCKING));
    return stream;
}

static inline cu_result launch_with(cu_function function, unsigned grid, unsigned block, unsigned shared,
                                    cu_stream stream, bool pdl, void **parameters) {
    cu_launch_attribute attribute = {.id = DRIVER_LAUNCH_PDL};
    attribute.value.pdl = 1;
    cu_launch_config config = {.grid = {grid, 1, 1},
                               .block = {block, 1, 1},
                               .shared_bytes = shared,
                               .stream = stream,
                               .attributes = &attribute,
                               .attribute_count = pdl};
    return cpu_launch(&config, function, parameters, NULL);
}

/* Kernels here take up to four u64. */
static inline void launch(cu_function function, unsigned grid, unsigned block, cu_stream stream, bool pdl, uint64_t a,
                          uint64_t b, uint64_t c, uint64_t d) {
    void *parameters[] = {&a, &b, &c, &d};
    OK(launch_with(function, grid, block, 0, stream, pdl, parameters));
}

static inline dcpkcpu_counters counters_now(void) {
    dcpkcpu_counters counters = {.size = sizeof counters};
    ck_assert_int_eq(dcpkcpu_get_counters(&counters), 0);
    return counters;
}

/* How much longer work takes under a sanitizer. */
#ifdef __SANITIZE_ADDRESS__
enum { SLOWER = 10 };
#else
enum { SLOWER = 1 };
#endif

static inline double seconds_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
static inline double seconds_now(void) {
    return seconds_of(CLOCK_MONOTONIC);
}
/* Of this process, whatever else the machine does. */
static inline double processor_seconds(void) {
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

#endif
