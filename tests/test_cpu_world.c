/* test_cpu_world.c - the CPU device as a driver: memory, libraries, launches, streams, events, misuse. */
#include "tests/cpu_world.h"

#include <sys/mman.h>

#include "runtime/image_find.h"

#define KERNEL(name) ".visible .entry " name "(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n"
#define LOADS                                                                                                          \
    ".reg .b64 %a, %b, %c, %d; .reg .b32 %t, %v, %w; .reg .pred %p; ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; "      \
    "ld.param.u64 %c, [c]; ld.param.u64 %d, [d];\n"

static const char basics[] = PTX_HEAD
    /* a[i] = 3 i + b, i the global thread number */
    KERNEL("affine") "{" LOADS ".reg .b64 %o; .reg .b32 %n, %x;\n"
                     "mov.u32 %t, %tid.x; mov.u32 %n, %ntid.x; mov.u32 %x, %ctaid.x; mad.lo.u32 %t, %x, %n, %t;\n"
                     "mul.wide.u32 %o, %t, 4; add.u64 %a, %a, %o; mul.lo.u32 %v, %t, 3; cvt.u32.u64 %w, %b; add.u32 "
                     "%v, %v, %w;\n"
                     "st.global.u32 [%a], %v; ret; }\n"
    /* [a] = 1 */
    KERNEL("poke") "{" LOADS "st.global.u32 [%a], 1; ret; }\n"
    /* [b] = [a] + 1 */
    KERNEL("copy_plus_one") "{" LOADS "ld.global.u32 %v, [%a]; add.u32 %v, %v, 1; st.global.u32 [%b], %v; ret; }\n"
    /* [a] = b after c turns */
    KERNEL("slow") "{" LOADS "cvt.u32.u64 %t, %c; cvt.u32.u64 %v, %b;\n"
                   "again: sub.u32 %t, %t, 1; setp.ne.u32 %p, %t, 0; @%p bra again;\n"
                   "st.global.u32 [%a], %v; ret; }\n" KERNEL(
                       "fixed") ".reqntid 64\n{" LOADS
                                ".shared .align 4 .b8 room[1024]; st.global.u32 [%a], 4; ret; }\n";

START_TEST(a_kernel_writes_what_it_computes) {
    machine_with(fair(2, 4));
    cu_ptr out = words(1000, 0);
    launch(function_of_text(basics, "affine"), 10, 100, NULL, false, out, 7, 0, 0);
    uint32_t back[1000];
    OK(cpu_copy_to_host(back, out, sizeof back));
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert_uint_eq(back[i], 3 * i + 7);
    ck_assert_uint_eq(counters_now().launches, 1);
    ck_assert_uint_ge(counters_now().thread_instructions, 1000 * 10);
}
END_TEST

START_TEST(fresh_memory_is_poison_not_zero) {
    machine_with(fair(1, 1));
    cu_ptr address = 0;
    OK(cpu_mem_alloc(&address, 4096));
    ck_assert_uint_eq(word_at(address + 4092), 0xCBCBCBCB);
}
END_TEST

START_TEST(copies_and_fills_reach_exactly_their_bytes) {
    machine_with(fair(1, 1));
    cu_ptr address = words(64, 0x11111111), other = words(64, 0);
    OK(cpu_fill32(address + 4, 0x22222222, 2));
    OK(cpu_fill8(address + 13, 0x33, 2));
    OK(cpu_copy_on_device(other + 8, address, 16));
    const uint32_t expected[] = {0, 0, 0x11111111, 0x22222222, 0x22222222, 0x11333311, 0};
    for (unsigned i = 0; i < 7; i++)
        ck_assert_uint_eq(word_at(other + 4 * i), expected[i]);
    GIVES(1, cpu_fill32(address + 253, 0, 1));        /* misaligned */
    GIVES(1, cpu_fill32(address, 0, 65));             /* one word too many */
    GIVES(1, cpu_copy_to_host(&other, address, 257)); /* one byte too many */
    OK(cpu_copy_to_host(&other, address, 0));
}
END_TEST

START_TEST(a_pageable_source_is_read_during_the_call_a_pinned_one_when_the_stream_comes_to_it) {
    machine_with(fair(1, 1));
    cu_stream stream = new_stream();
    cu_ptr first = words(1, 0), second = words(1, 0);
    uint32_t pageable = 5, *pinned = NULL;
    OK(cpu_mem_host_alloc((void **)&pinned, 4, 0));
    *pinned = 5;
    OK(cpu_copy_to_device_async(first, &pageable, 4, stream));
    OK(cpu_copy_to_device_async(second, pinned, 4, stream));
    pageable = *pinned = 6;
    OK(cpu_stream_synchronize(stream));
    ck_assert_uint_eq(word_at(first), 5);
    ck_assert_uint_eq(word_at(second), 6);
}
END_TEST

/* The report must hold every one of the NULL-terminated parts. */
START_TEST(out_of_bounds_names_distance_and_allocation) {
    machine_with(fair(2, 2));
    on(1);
    cu_ptr address = words(25, 0);
    launch(function_of_text(basics, "poke"), 1, 1, NULL, false, address + 116, 0, 0, 0);
    GIVES(700, cpu_ctx_synchronize());
    char range[64];
    snprintf(range, sizeof range, "[0x%llx, +100)", address);
    report_says(
        (const char *[]){"poke", "16 bytes past the end", range, "device 1", "st.global.u32", "thread (0,0,0)", NULL});
}
END_TEST

START_TEST(an_access_across_the_end_is_out_of_bounds) {
    machine_with(fair(1, 1));
    cu_ptr address = 0;
    OK(cpu_mem_alloc(&address, 102));
    launch(function_of_text(basics, "poke"), 1, 1, NULL, false, address + 100, 0, 0, 0);
    GIVES(700, cpu_ctx_synchronize());
    report_says((const char *[]){"reaches 2 bytes past the end", NULL});
}
END_TEST

START_TEST(use_after_free_is_named) {
    machine_with(fair(1, 1));
    cu_ptr address = words(4, 0), other = words(4, 0);
    OK(cpu_mem_free(address));
    OK(cpu_mem_free(other));
    GIVES(1, cpu_mem_free(address));
    launch(function_of_text(basics, "poke"), 1, 1, NULL, false, address + 4, 0, 0, 0);
    GIVES(700, cpu_ctx_synchronize());
    report_says((const char *[]){"use after free", "offset 4 of freed allocation", NULL});
}
END_TEST

START_TEST(peer_memory_needs_peer_access) {
    machine_with(fair(2, 1));
    on(1);
    cu_ptr far = words(4, 41);
    on(0);
    cu_ptr near = words(4, 0);
    cu_function function = function_of_text(basics, "copy_plus_one");
    OK(cpu_ctx_enable_peer(contexts[1], 0));
    GIVES(704, cpu_ctx_enable_peer(contexts[1], 0));
    launch(function, 1, 1, NULL, false, far, near, 0, 0);
    ck_assert_uint_eq(word_at(near), 42);
    launch(function, 1, 1, NULL, false, near, far, 0, 0);
    OK(cpu_ctx_synchronize());
    ck_assert_uint_eq(word_at(far), 43);
    ck_assert_uint_eq(counters_now().peer_stores, 1);
    OK(cpu_ctx_disable_peer(contexts[1]));
    launch(function, 1, 1, NULL, false, far, near, 0, 0);
    GIVES(700, cpu_ctx_synchronize());
    report_says((const char *[]){"no peer access", "device 0", "cuCtxEnablePeerAccess", NULL});
}
END_TEST

START_TEST(pinned_host_memory_is_open_to_every_device) {
    machine_with(fair(3, 1));
    uint32_t *host = NULL;
    OK(cpu_mem_host_alloc((void **)&host, 64, DRIVER_HOST_PORTABLE | DRIVER_HOST_MAPPED));
    cu_ptr address = 0;
    OK(cpu_mem_host_address(&address, host, 0));
    host[0] = 9;
    on(2);
    launch(function_of_text(basics, "copy_plus_one"), 1, 1, NULL, false, address, address + 4, 0, 0);
    OK(cpu_ctx_synchronize());
    ck_assert_uint_eq(host[1], 10);
    OK(cpu_mem_host_free(host));
    uint32_t own = 77;
    OK(cpu_mem_host_register(&own, sizeof own, 0));
    cu_ptr out = words(1, 0);
    launch(function_of_text(basics, "copy_plus_one"), 1, 1, NULL, false, (uint64_t)(uintptr_t)&own, out, 0, 0);
    ck_assert_uint_eq(word_at(out), 78);
    OK(cpu_mem_host_unregister(&own));
    GIVES(713, cpu_mem_host_unregister(&own));
}
END_TEST

START_TEST(an_error_is_sticky_until_the_machine_is_configured_anew) {
    machine_with(fair(1, 1));
    launch(function_of_text(basics, "poke"), 1, 1, NULL, false, 4096, 0, 0, 0);
    cu_ptr address = 0;
    const char *text = NULL;
    GIVES(700, cpu_ctx_synchronize());
    GIVES(700, cpu_mem_alloc(&address, 16));
    GIVES(700, cpu_ctx_synchronize());
    OK(cpu_error_string(700, &text));
    ck_assert_str_eq(text, dcpkcpu_report());
    ck_assert_ptr_nonnull(strstr(text, "poke"));
    machine_with(fair(1, 1));
    ck_assert_str_eq(dcpkcpu_report(), "");
    OK(cpu_error_string(700, &text));
    ck_assert_ptr_null(strstr(text, "poke"));
    OK(cpu_mem_alloc(&address, 16));
}
END_TEST

START_TEST(a_context_of_an_earlier_life_is_none) {
    machine_with(fair(1, 1));
    dcpkcpu_options options = fair(1, 1);
    options.size = sizeof options;
    cu_ptr address = 0;
    ck_assert_int_eq(dcpkcpu_configure(&options), 0);
    GIVES(3, cpu_mem_alloc(&address, 16));
    OK(cpu_init(0));
    GIVES(201, cpu_mem_alloc(&address, 16));
    options.devices = 33;
    ck_assert_int_eq(dcpkcpu_configure(&options), -1);
}
END_TEST

START_TEST(the_environment_stands_in_where_nothing_was_configured) {
    ck_assert_int_eq(dcpkcpu_configure(NULL), 0);
    setenv("DCPK_CPU_DEVICES", "3", 1);
    setenv("DCPK_CPU_SMS", "17", 1);
    int count = 0, sms = 0;
    OK(cpu_init(0));
    OK(cpu_device_count(&count));
    OK(cpu_device_attribute(&sms, DRIVER_ATTR_MULTIPROCESSORS, 2));
    ck_assert_int_eq(count, 3);
    ck_assert_int_eq(sms, 17);
    ck_assert_int_eq(dcpkcpu_configure(NULL), 0);
    setenv("DCPK_CPU_DEVICES", "3x", 1);
    GIVES(1, cpu_init(0));
}
END_TEST

START_TEST(libraries_that_cannot_load_say_why) {
    machine_with(fair(1, 1));
    cu_library library = NULL;
    char log[2000] = "";
    int options[] = {DRIVER_JIT_ERROR_LOG, DRIVER_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    const char *bad = PTX_HEAD ".visible .entry bad()\n{\n frobnicate.u32 %r1, 5;\n ret;\n}\n";
    GIVES(218, cpu_library_load(&library, bad, options, values, 2, NULL, NULL, 0));
    ck_assert_ptr_nonnull(strstr(log, "frobnicate"));
    ck_assert_ptr_nonnull(strstr(log, "6")); /* the line */
    ck_assert_str_eq(log, dcpkcpu_report());
    static unsigned char elf[4096] = "\177ELF\2\1\1";
    GIVES(209, cpu_library_load(&library, elf, NULL, NULL, 0, NULL, NULL, 0));
    GIVES(200, cpu_library_load(&library, "\1\2\3\4", NULL, NULL, 0, NULL, NULL, 0));
    cu_kernel kernel = NULL;
    library = library_of_text(basics);
    GIVES(500, cpu_library_get_kernel(&kernel, library, "nobody"));
    OK(cpu_library_get_kernel(&kernel, library, "poke"));
    OK(cpu_library_unload(library));
    GIVES(400, cpu_library_unload(library));
    cu_function function = NULL;
    GIVES(400, cpu_kernel_get_function(&function, kernel));
}
END_TEST

/* An image by hand: an ELF header without sections, the parts of image_find.h, a line map with one file. */
static void put_bytes(unsigned char *to, const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        to[i] = ((const unsigned char *)from)[i];
}

static size_t hand_made_image(unsigned char *blob, const char *ptx, uint32_t template_line) {
    uint32_t lines = 1;
    for (const char *p = ptx; *p; p++)
        lines += *p == '\n';
    uint64_t at = 64 + IMAGE_HEADER_BYTES, map = (at + strlen(ptx) + 1 + 15) / 16 * 16,
             map_bytes = 8 + 8 * (uint64_t)lines + 8;
    uint64_t meta = (map + map_bytes + 15) / 16 * 16, preimage = meta + 16, total = preimage + 16 + IMAGE_FOOTER_BYTES;
    memset(blob, 0, total);
    put_bytes(blob, "\177ELF\2\1\1", 7);
    unsigned char *header = blob + 64;
    const uint32_t head[2] = {IMAGE_FORMAT, IMAGE_HEADER_BYTES};
    const uint64_t table[11] = {total, 0, 64, at, strlen(ptx), map, map_bytes, meta, 0, preimage, 0};
    put_bytes(header, IMAGE_MAGIC, 8);
    put_bytes(header + 8, head, 8);
    put_bytes(header + 16, table, sizeof table);
    put_bytes(blob + at, ptx, strlen(ptx));
    const uint32_t counts[2] = {lines, 1};
    put_bytes(blob + map, counts, 8);
    for (uint32_t i = 0; i < lines; i++) {
        const uint32_t row[2] = {0, template_line + i};
        put_bytes(blob + map + 8 + 8 * i, row, 8);
    }
    put_bytes(blob + map + 8 + 8 * (uint64_t)lines, "t.lua", 6);
    return total;
}

START_TEST(a_text_is_not_read_behind_its_nul) {
    static const struct {
        const char *text;
        cu_result result;
    } cases[] = {{"", 200},       {"P", 218},       {"P\xed", 218}, {"P\xed\x55", 218}, {"\177", 200}, {"\177E", 200},
                 {"\177EL", 200}, {"\177ELF", 200}, {" ", 218},     {"\t\n", 218},      {"//x", 218}};
    machine_with(fair(1, 1));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) { /* the last bytes of a page that nothing follows */
        cu_library library = NULL;
        size_t page = 4096, bytes = strlen(cases[i].text) + 1;
        char *at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert(at != MAP_FAILED && mprotect(at + page, page, PROT_NONE) == 0);
        memcpy(at + page - bytes, cases[i].text, bytes);
        GIVES(cases[i].result, cpu_library_load(&library, at + page - bytes, NULL, NULL, 0, NULL, NULL, 0));
        munmap(at, 2 * page);
    }
}
END_TEST

START_TEST(an_image_is_found_behind_its_cubin_and_faults_name_the_template_line) {
    machine_with(fair(1, 1));
    static unsigned char blob[16384];
    size_t bytes = hand_made_image(blob, basics, 501);
    ck_assert_uint_lt(bytes, sizeof blob);
    unsigned line = 501;
    for (const char *p = basics; p < strstr(basics, "st.global.u32 [%a], 1"); p++)
        line += *p == '\n';
    cu_library library = NULL;
    cu_kernel kernel = NULL;
    OK(cpu_library_load(&library, blob, NULL, NULL, 0, NULL, NULL, 0));
    memset(blob, 0, sizeof blob); /* the driver keeps its own copy */
    OK(cpu_library_get_kernel(&kernel, library, "poke"));
    launch(kernel, 1, 1, NULL, false, 64, 0, 0, 0); /* a kernel handle launches, too */
    GIVES(700, cpu_ctx_synchronize());
    char place[32];
    snprintf(place, sizeof place, "t.lua:%u", line);
    report_says((const char *[]){place, "poke", NULL});
}
END_TEST

START_TEST(launches_that_cannot_be_are_refused) {
    machine_with(fair(2, 2));
    cu_function poke = function_of_text(basics, "poke"), fixed = function_of_text(basics, "fixed");
    uint64_t a = words(4, 0), none = 0;
    void *parameters[] = {&a, &none, &none, &none};
    GIVES(1, launch_with(poke, 0, 32, 0, NULL, false, parameters));
    GIVES(1, launch_with(poke, 1, 0, 0, NULL, false, parameters));
    GIVES(1, launch_with(poke, 1, 1025, 0, NULL, false, parameters));
    GIVES(1, launch_with(poke, 1, 32, 0, NULL, false, NULL));
    GIVES(400, launch_with((cu_function)parameters, 1, 32, 0, NULL, false, parameters));
    GIVES(400, launch_with(poke, 1, 32, 0, (cu_stream)parameters, false, parameters));
    GIVES(1, launch_with(fixed, 1, 32, 0, NULL, false, parameters)); /* .reqntid 64 */
    OK(launch_with(fixed, 1, 64, 0, NULL, false, parameters));
    GIVES(1, launch_with(poke, 1, 32, 49153, NULL, false, parameters));
    GIVES(1, cpu_func_set_attribute(poke, DRIVER_FUNC_MAX_DYNAMIC_SHARED, 232449));
    OK(cpu_func_set_attribute(poke, DRIVER_FUNC_MAX_DYNAMIC_SHARED, 232448));
    OK(launch_with(poke, 1, 32, 232448, NULL, false, parameters));
    GIVES(1, cpu_func_set_attribute(fixed, DRIVER_FUNC_MAX_DYNAMIC_SHARED, 232448 - 1023));
    cu_launch_attribute attribute = {.id = 99};
    cu_launch_config config = {.grid = {3, 1, 1}, .block = {32, 1, 1}, .attributes = &attribute, .attribute_count = 1};
    GIVES(1, cpu_launch(&config, poke, parameters, NULL));
    attribute = (cu_launch_attribute){.id = DRIVER_LAUNCH_CLUSTER};
    attribute.value.cluster.x = 2;
    attribute.value.cluster.y = attribute.value.cluster.z = 1;
    GIVES(1, cpu_launch(&config, poke, parameters, NULL)); /* 3 is no multiple of 2 */
    config.grid[0] = attribute.value.cluster.x = 9;
    GIVES(912, cpu_launch(&config, poke, parameters, NULL));
    OK(cpu_func_set_attribute(poke, DRIVER_FUNC_NON_PORTABLE_CLUSTER, 1));
    OK(cpu_launch(&config, poke, parameters, NULL));
    on(1);
    cu_stream elsewhere = new_stream();
    on(0);
    GIVES(400, launch_with(poke, 1, 32, 0, elsewhere, false, parameters));
    OK(cpu_ctx_synchronize());
}
END_TEST

START_TEST(parameters_may_come_as_one_buffer) {
    machine_with(fair(1, 1));
    uint64_t buffer[4] = {words(4, 0), 0, 0, 0};
    size_t bytes = sizeof buffer;
    void *extra[] = {(void *)1, buffer, (void *)2, &bytes, NULL};
    cu_launch_config config = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
    cu_function poke = function_of_text(basics, "poke");
    OK(cpu_launch(&config, poke, NULL, extra));
    ck_assert_uint_eq(word_at(buffer[0]), 1);
    bytes = 24;
    GIVES(1, cpu_launch(&config, poke, NULL, extra));
}
END_TEST

START_TEST(occupancy_is_that_of_the_emulated_part) {
    machine_with(fair(1, 10));
    cu_function poke = function_of_text(basics, "poke"), fixed = function_of_text(basics, "fixed");
    int ctas = 0, value = 0;
    OK(cpu_func_set_attribute(poke, DRIVER_FUNC_MAX_DYNAMIC_SHARED, 232448));
    const struct {
        int threads, shared, ctas;
    } rows[] = {{1024, 0, 2}, {1024, 120000, 1}, {512, 0, 4},    {32, 0, 32},     {33, 0, 32},
                {96, 0, 21},  {64, 76800, 3},    {64, 76801, 2}, {64, 232448, 1}, {64, 232449, 0}};
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        OK(cpu_occupancy(&ctas, poke, rows[i].threads, (size_t)rows[i].shared));
        ck_assert_msg(ctas == rows[i].ctas, "%d threads, %d bytes: %d CTAs", rows[i].threads, rows[i].shared, ctas);
    }
    OK(cpu_occupancy(&ctas, fixed, 64, 48 * 1024 - 1024));
    ck_assert_int_eq(ctas, 4);
    OK(cpu_func_get_attribute(&value, 1, fixed));
    ck_assert_int_eq(value, 1024);
    GIVES(1, cpu_func_get_attribute(&value, 77, fixed));
    GIVES(1, cpu_device_attribute(&value, 9999, 0));
    GIVES(101, cpu_device_attribute(&value, 16, 1));
}
END_TEST

START_TEST(events_order_streams_of_different_devices) {
    machine_with(fair(2, 1));
    make_peers(2);
    cu_ptr at0 = words(4, 100);
    cu_function copy0 = function_of_text(basics, "copy_plus_one");
    cu_stream stream0 = new_stream();
    cu_event event = NULL, done = NULL;
    OK(cpu_event_create(&event, 0));
    OK(cpu_event_create(&done, 0));
    on(1);
    cu_stream stream1 = new_stream();
    cu_function copy1 = function_of_text(basics, "copy_plus_one");
    on(0);
    OK(cpu_event_record(event, stream0)); /* an old record counts no more */
    OK(cpu_stream_synchronize(stream0));
    launch(copy0, 1, 1, stream0, false, at0, at0 + 4, 0, 0);
    OK(cpu_event_record(event, stream0));
    launch(copy1, 1, 1, stream1, false, at0 + 4, at0 + 8, 0, 0); /* no edge: a race, sees 100 */
    on(1);
    OK(cpu_stream_wait_event(stream1, event, 0));
    launch(copy1, 1, 1, stream1, false, at0 + 4, at0 + 12, 0, 0);
    OK(cpu_stream_synchronize(stream1));
    ck_assert_uint_eq(word_at(at0 + 12), 102);
    OK(cpu_event_query(event));
    on(0);
    OK(cpu_event_record(done, stream0));
    OK(cpu_event_synchronize(done));
    float ms = -1;
    OK(cpu_event_elapsed(&ms, event, done));
    ck_assert(ms >= 0 && ms < 1);
    int status = -1;
    OK(cpu_stream_is_capturing(stream0, &status));
    ck_assert_int_eq(status, DRIVER_CAPTURE_NONE);
    OK(cpu_event_destroy(event));
    GIVES(400, cpu_event_query(event));
    OK(cpu_stream_destroy(stream0));
    GIVES(400, cpu_stream_query(stream0));
}
END_TEST

START_TEST(the_default_stream_orders_with_blocking_streams) {
    for (uint64_t seed = 0; seed < 20; seed++) {
        machine_with(adverse(1, 4, seed));
        cu_stream first = NULL, second = NULL;
        OK(cpu_stream_create(&first, 0));
        OK(cpu_stream_create(&second, 0));
        cu_ptr at = words(3, 0);
        launch(function_of_text(basics, "slow"), 1, 32, first, false, at, 5, 300, 0);
        launch(function_of_text(basics, "copy_plus_one"), 1, 1, NULL, false, at, at + 4, 0, 0);
        launch(function_of_text(basics, "copy_plus_one"), 1, 1, second, false, at + 4, at + 8, 0, 0);
        OK(cpu_stream_synchronize(second));
        ck_assert_uint_eq(word_at(at + 8), 7);
    }
}
END_TEST

START_TEST(a_stream_destroyed_early_still_does_its_work) {
    machine_with(fair(1, 1));
    cu_stream stream = new_stream();
    cu_ptr at = words(1, 0);
    launch(function_of_text(basics, "slow"), 1, 32, stream, false, at, 5, 300, 0);
    OK(cpu_stream_destroy(stream));
    OK(cpu_ctx_synchronize());
    ck_assert_uint_eq(word_at(at), 5);
}
END_TEST

START_TEST(queries_make_progress) {
    machine_with(fair(1, 1));
    cu_stream stream = new_stream();
    cu_ptr at = words(1, 0);
    launch(function_of_text(basics, "slow"), 1, 32, stream, false, at, 5, 100000, 0);
    unsigned asked = 0;
    cu_result result;
    while ((result = cpu_stream_query(stream)) == 600 && asked < 10000)
        asked++;
    ck_assert_int_eq(result, 0);
    ck_assert_uint_gt(asked, 0);
    ck_assert_uint_eq(word_at(at), 5);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_world");
    TCase *tcase = tcase_create("driver");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_kernel_writes_what_it_computes);
    tcase_add_test(tcase, fresh_memory_is_poison_not_zero);
    tcase_add_test(tcase, copies_and_fills_reach_exactly_their_bytes);
    tcase_add_test(tcase, a_pageable_source_is_read_during_the_call_a_pinned_one_when_the_stream_comes_to_it);
    tcase_add_test(tcase, out_of_bounds_names_distance_and_allocation);
    tcase_add_test(tcase, an_access_across_the_end_is_out_of_bounds);
    tcase_add_test(tcase, use_after_free_is_named);
    tcase_add_test(tcase, peer_memory_needs_peer_access);
    tcase_add_test(tcase, pinned_host_memory_is_open_to_every_device);
    tcase_add_test(tcase, an_error_is_sticky_until_the_machine_is_configured_anew);
    tcase_add_test(tcase, a_context_of_an_earlier_life_is_none);
    tcase_add_test(tcase, the_environment_stands_in_where_nothing_was_configured);
    tcase_add_test(tcase, libraries_that_cannot_load_say_why);
    tcase_add_test(tcase, a_text_is_not_read_behind_its_nul);
    tcase_add_test(tcase, an_image_is_found_behind_its_cubin_and_faults_name_the_template_line);
    tcase_add_test(tcase, launches_that_cannot_be_are_refused);
    tcase_add_test(tcase, parameters_may_come_as_one_buffer);
    tcase_add_test(tcase, occupancy_is_that_of_the_emulated_part);
    tcase_add_test(tcase, events_order_streams_of_different_devices);
    tcase_add_test(tcase, the_default_stream_orders_with_blocking_streams);
    tcase_add_test(tcase, a_stream_destroyed_early_still_does_its_work);
    tcase_add_test(tcase, queries_make_progress);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
