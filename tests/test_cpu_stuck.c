/* test_cpu_stuck.c - when nothing moves: deadlocks, livelocks and their reports, virtual time, stalls, held stores. */
#include "tests/cpu_world.h"

#define KERNEL(name) ".visible .entry " name "(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n"
#define LOADS                                                                                                          \
    "{ .reg .b64 %a, %b, %c, %d, %s, %n; .reg .b32 %t, %v, %w, %x; .reg .pred %p, %q;\n"                               \
    "ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c]; ld.param.u64 %d, [d]; mov.u32 %v, 0;\n"

static const char kernels[] = PTX_HEAD
    /* waits for [a] for ever, then [b] = 1 */
    KERNEL("poll") LOADS "again:\n"
                         "ld.relaxed.sys.global.u32 %v, [%a]; setp.eq.u32 %p, %v, 0; @%p bra again;\n"
                         "st.global.u32 [%b], 1; ret; }\n"
    /* waits for [a] at most c ns: [b] = 1 when it came, else 2 */
    KERNEL("poll_bounded") LOADS
    "mov.u64 %s, %globaltimer;\n"
    "again: ld.relaxed.sys.global.u32 %v, [%a]; setp.ne.u32 %p, %v, 0; mov.u32 %w, 1; @%p bra done;\n"
    "mov.u64 %n, %globaltimer; sub.u64 %n, %n, %s; setp.lt.u64 %p, %n, %c; @%p bra again; mov.u32 %w, 2;\n"
    "done: st.global.u32 [%b], %w; ret; }\n"
    /* every CTA waits until all have come */
    KERNEL("all_meet") LOADS
    "mov.u32 %t, %tid.x; mov.u32 %x, %nctaid.x; setp.ne.u32 %p, %t, 0; @%p bra again; red.relaxed.gpu.global.add.u32 "
    "[%a], 1;\n"
    "again: ld.relaxed.gpu.global.u32 %v, [%a]; setp.lt.u32 %p, %v, %x; @%p bra again; ret; }\n"
    /* two warps at two barriers of 64 threads */
    KERNEL("two_barriers") LOADS
    "mov.u32 %t, %tid.x; shr.u32 %t, %t, 5; add.u32 %t, %t, 1; mov.u32 %x, 64; bar.sync %t, %x; ret; }\n" KERNEL(
        "for_ever") LOADS "again: add.u32 %v, %v, 1; bra again; }\n" KERNEL("store") LOADS
    "cvt.u32.u64 %v, %b; st.global.u32 [%a], %v; ret; }\n"
    /* stores b to [a], fence, b to [c] */
    KERNEL("store_twice") LOADS
    "cvt.u32.u64 %v, %b; st.global.u32 [%a], %v; fence.acq_rel.sys; st.global.u32 [%c], %v; ret; }\n" KERNEL(
        "spin_shared") LOADS
    ".shared .align 4 .b32 other; .shared .align 4 .b32 flag[4]; st.volatile.shared.u32 [flag+8], 0;\n"
    "again: ld.volatile.shared.u32 %v, [flag+8];\n"
    "setp.eq.u32 %p, %v, 0; @%p bra again; ret; }\n" KERNEL("store_for_ever") LOADS
    "again: st.global.u32 [%a], 5;\n"
    "bra again; }\n" KERNEL("load_for_ever") LOADS
    "again: ld.global.u32 %v, [%a];\n"
    "setp.eq.u32 %p, %v, 0; @%p bra again; ret; }\n" KERNEL("count_for_ever") LOADS
    "again: add.u32 %v, %v, 1; st.global.u32 [%a], %v;\n"
    "bra again; }\n" KERNEL(
        /* stores the same again and again, c times, then something else */
        "store_often") LOADS "again: st.global.u32 [%a], 5; sub.u64 %c, %c, 1; setp.ne.u64 %p, %c, 0; @%p bra again;\n"
                             "st.global.u32 [%b], 6; ret; }\n" KERNEL("waits_stores") LOADS
    "griddepcontrol.wait; cvt.u32.u64 %v, %b; st.global.u32 [%a], %v; ret; }\n";

START_TEST(livelock_names_address_value_line_and_time) {
    machine_with(fair(2, 2));
    cu_ptr at = words(16, 0);
    launch(function_on(0, kernels, "poll"), 1, 1, NULL, false, at + 8, at, 0, 0);
    double begin = processor_seconds();
    GIVES(719, cpu_ctx_synchronize());
    ck_assert(processor_seconds() - begin < 5 * SLOWER);
    char address[32], range[32];
    snprintf(address, sizeof address, "polls 0x%llx", at + 8);
    snprintf(range, sizeof range, "[0x%llx, +64)", at);
    report_says((const char *[]){"none reads a timer", "device 0", "poll", address, "offset 8 of allocation #1", range,
                                 "the word there is 0x00000000", "PTX line 8", "ld.relaxed.sys.global.u32",
                                 "since 0 ns", NULL});
}
END_TEST

START_TEST(a_loop_that_changes_nothing_ends_after_livelock_rounds) {
    dcpkcpu_options options = fair(1, 1);
    options.livelock_rounds = 500;
    machine_with(options);
    launch(function_on(0, kernels, "for_ever"), 1, 32, NULL, false, 0, 0, 0, 0);
    GIVES(719, cpu_ctx_synchronize());
    report_says((const char *[]){"livelock_rounds", "for_ever", "running", NULL});
}
END_TEST

START_TEST(a_spin_on_shared_memory_names_the_variable_and_the_load) {
    for (unsigned i = 0; i < 2; i++) {
        machine_with(i ? adverse(1, 1, 5) : fair(1, 1));
        launch(function_on(0, kernels, "spin_shared"), 1, 64, NULL, false, 0, 0, 0, 0);
        double begin = processor_seconds();
        GIVES(719, cpu_ctx_synchronize());
        ck_assert(processor_seconds() - begin < 5 * SLOWER);
        report_says((const char *[]){"repeats the same steps", "spin_shared", "last read shared address 0x40c",
                                     "(flag + 8)", "the word there is 0x00000000",
                                     "`ld.volatile.shared.u32 %v, [flag+8];`", NULL});
        ck_assert(strstr(dcpkcpu_report(), "polled") == NULL);
    }
}
END_TEST

START_TEST(an_access_repeated_for_ever_is_found_soon_and_its_address_named) {
    static const char *const names[] = {"store_for_ever", "load_for_ever"},
                             *const does[] = {"last wrote global address 0x%llx", "last read global address 0x%llx"},
                             *const lines[] = {"`st.global.u32 [%a], 5;`", "`ld.global.u32 %v, [%a];`"};
    for (unsigned i = 0; i < 4; i++) {
        machine_with(i & 1 ? adverse(1, 1, i) : fair(1, 1));
        cu_ptr at = words(16, 0);
        launch(function_on(0, kernels, names[i / 2]), 1, 32, NULL, false, at + 12, 0, 0, 0);
        double begin = processor_seconds();
        GIVES(719, cpu_ctx_synchronize());
        ck_assert(processor_seconds() - begin < 5 * SLOWER);
        char access[64];
        snprintf(access, sizeof access, does[i / 2], (unsigned long long)at + 12);
        report_says((const char *[]){"repeats the same steps", names[i / 2], access, "offset 12 of allocation #1",
                                     lines[i / 2], NULL});
    }
}
END_TEST

START_TEST(a_loop_that_counts_is_not_taken_for_endless) {
    for (unsigned i = 0; i < 2; i++) {
        machine_with(i ? adverse(1, 1, 7) : fair(1, 1));
        cu_ptr at = words(2, 5);
        launch(function_on(0, kernels, "store_often"), 1, 32, NULL, false, at, at + 4, 1500000, 0);
        OK(cpu_ctx_synchronize());
        ck_assert_uint_eq(word_at(at + 4), 6);
    }
}
END_TEST

START_TEST(work_that_writes_for_ever_ends_after_max_rounds) {
    dcpkcpu_options options = fair(1, 1);
    options.max_rounds = 1000;
    machine_with(options);
    cu_ptr at = words(1, 0);
    launch(function_on(0, kernels, "count_for_ever"), 1, 32, NULL, false, at, 0, 0, 0);
    GIVES(600, cpu_stream_query(NULL));
    GIVES(719, cpu_ctx_synchronize());
    ck_assert_uint_lt(counters_now().rounds, 1200);
    char access[64];
    snprintf(access, sizeof access, "last wrote global address 0x%llx", (unsigned long long)at);
    report_says(
        (const char *[]){"max_rounds", "count_for_ever: 1 warp running", access, "`st.global.u32 [%a], %v;`", NULL});
}
END_TEST

START_TEST(deadlock_is_reported_at_once) {
    machine_with(fair(1, 1));
    launch(function_on(0, kernels, "two_barriers"), 1, 64, NULL, false, 0, 0, 0, 0);
    launch(function_on(0, kernels, "store"), 1, 1, NULL, false, 0, 0, 0, 0);
    GIVES(719, cpu_ctx_synchronize());
    ck_assert_uint_lt(counters_now().rounds, 20);
    report_says((const char *[]){"deadlock", "2 warps at a barrier", "bar.sync",
                                 "kernel store waits for what is before it", NULL});
}
END_TEST

START_TEST(a_grid_that_cannot_be_resident_as_a_whole_is_found_out) {
    machine_with(fair(1, 3));
    cu_ptr at = words(1, 0);
    launch(function_on(0, kernels, "all_meet"), 6, 1024, NULL, false, at, 0, 0, 0); /* 2 CTAs an SM: fits */
    OK(cpu_ctx_synchronize());
    OK(cpu_fill32(at, 0, 1));
    launch(function_on(0, kernels, "all_meet"), 7, 1024, NULL, false, at, 0, 0, 0);
    GIVES(719, cpu_ctx_synchronize());
    report_says((const char *[]){"1 of 7 CTAs could not start", "1024 threads", "192 warps polling",
                                 "the word there is 0x00000006", NULL});
}
END_TEST

START_TEST(a_grid_that_polls_can_starve_its_producer) {
    machine_with(fair(1, 1));
    cu_ptr at = words(2, 0);
    cu_stream first = new_stream(), second = new_stream();
    launch(function_on(0, kernels, "poll"), 2, 1024, first, false, at, at + 4, 0, 0);
    launch(function_on(0, kernels, "store"), 1, 32, second, false, at, 1, 0, 0);
    GIVES(719, cpu_ctx_synchronize());
    report_says((const char *[]){"store: 1 of 1 CTAs could not start", NULL});
}
END_TEST

START_TEST(a_bounded_poll_expires_in_virtual_time) {
    const uint64_t bounds[] = {UINT64_C(2000000), UINT64_C(30000000000)};
    for (unsigned i = 0; i < 4; i++) {
        machine_with(i % 2 ? adverse(2, 2, i) : fair(2, 2));
        cu_ptr at = words(2, 0);
        double begin = processor_seconds();
        launch(function_on(0, kernels, "poll_bounded"), 2, 64, NULL, false, at, at + 4, bounds[i / 2], 0);
        OK(cpu_ctx_synchronize());
        ck_assert(processor_seconds() - begin < 5 * SLOWER);
        ck_assert_uint_eq(word_at(at + 4), 2);
        ck_assert_uint_ge(counters_now().virtual_ns, bounds[i / 2]);
        ck_assert_uint_lt(counters_now().virtual_ns, bounds[i / 2] * 3 + 100000);
    }
}
END_TEST

START_TEST(a_stalled_device_holds_the_host_until_it_is_released) {
    machine_with(fair(2, 2));
    make_peers(2);
    cu_ptr at = words(4, 0);
    cu_function store = function_on(1, kernels, "store"), bounded = function_on(0, kernels, "poll_bounded");
    ck_assert_int_eq(dcpkcpu_stall(1, "store", 2), 0);
    ck_assert_int_eq(dcpkcpu_stall(7, NULL, 0), -1);
    on(1);
    launch(store, 1, 1, NULL, false, at, 7, 0, 0);
    GIVES(600, cpu_ctx_synchronize());
    report_says((const char *[]){"stalled by dcpkcpu_stall", "store", NULL});
    ck_assert_uint_eq(counters_now().warp_instructions, 2);
    on(0);
    launch(bounded, 1, 1, NULL, false, at, at + 4, 2000000, 0);
    OK(cpu_ctx_synchronize()); /* it can time out */
    ck_assert_uint_eq(word_at(at + 4), 2);
    ck_assert_uint_eq(word_at(at), 0);
    ck_assert_int_eq(dcpkcpu_release(1), 0);
    on(1);
    OK(cpu_ctx_synchronize());
    ck_assert_uint_eq(word_at(at), 7);
}
END_TEST

START_TEST(an_endless_poll_on_a_stalled_device_is_no_fault) {
    machine_with(adverse_with_races(2, 2, 3));
    make_peers(2);
    cu_ptr at = words(4, 0);
    cu_function store = function_on(1, kernels, "store"), poll = function_on(0, kernels, "poll");
    dcpkcpu_stall(1, NULL, 0);
    on(1);
    launch(store, 1, 1, NULL, false, at, 7, 0, 0);
    on(0);
    launch(poll, 1, 1, NULL, false, at, at + 4, 0, 0);
    GIVES(600, cpu_ctx_synchronize());
    GIVES(600, cpu_stream_query(NULL));
    dcpkcpu_release(1);
    OK(cpu_ctx_synchronize());
    ck_assert_uint_eq(word_at(at + 4), 1);
}
END_TEST

START_TEST(held_stores_come_when_let_go_and_their_kernel_ends_then) {
    machine_with(fair(3, 2));
    make_peers(3);
    on(1);
    cu_ptr near1 = words(1, 0);
    on(2);
    cu_ptr near2 = words(1, 0);
    on(0);
    cu_function store = function_on(0, kernels, "store_twice"), after = function_on(0, kernels, "store");
    cu_ptr own = words(1, 0);
    ck_assert_int_eq(dcpkcpu_hold_stores(0, 1, 1), 0);
    launch(store, 1, 1, NULL, false, near1, 5, near2, 0);
    launch(after, 1, 1, NULL, false, own, 6, 0, 0);
    GIVES(600, cpu_ctx_synchronize());
    report_says((const char *[]){"held back", "1 words", NULL});
    on(1);
    ck_assert_uint_eq(word_at(near1), 0);
    on(2);
    ck_assert_uint_eq(word_at(near2), 5);
    ck_assert_uint_eq(word_at(own), 0);
    ck_assert_int_eq(dcpkcpu_hold_stores(0, 1, 0), 0);
    on(0);
    OK(cpu_ctx_synchronize());
    ck_assert_uint_eq(word_at(near1), 5);
    ck_assert_uint_eq(word_at(own), 6);
}
END_TEST

START_TEST(held_words_land_over_what_the_host_wrote_meanwhile) {
    machine_with(adverse(2, 2, 11));
    make_peers(2);
    on(1);
    cu_ptr far = words(1, 0);
    on(0);
    dcpkcpu_hold_stores(0, -1, 1);
    launch(function_on(0, kernels, "store"), 1, 1, NULL, false, far, 5, 0, 0);
    GIVES(600, cpu_ctx_synchronize());
    on(1);
    OK(cpu_fill32(far, 9, 1));
    ck_assert_uint_eq(word_at(far), 9);
    dcpkcpu_hold_stores(0, -1, 0);
    on(0);
    OK(cpu_ctx_synchronize());
    ck_assert_uint_eq(word_at(far), 5);
}
END_TEST

START_TEST(a_late_word_into_freed_memory_is_a_fault) {
    machine_with(fair(2, 2));
    make_peers(2);
    on(1);
    cu_ptr far = words(1, 0);
    on(0);
    dcpkcpu_hold_stores(0, 1, 1);
    launch(function_on(0, kernels, "store"), 1, 1, NULL, false, far, 5, 0, 0);
    GIVES(600, cpu_ctx_synchronize());
    OK(cpu_mem_free(far)); /* its own device is idle */
    dcpkcpu_hold_stores(0, 1, 0);
    GIVES(700, cpu_ctx_synchronize());
    report_says((const char *[]){"late store of kernel store", "freed allocation", NULL});
}
END_TEST

START_TEST(freeing_waits_for_the_device) {
    machine_with(fair(1, 2));
    cu_ptr at = words(2, 0);
    dcpkcpu_stall(0, NULL, 0);
    launch(function_on(0, kernels, "store"), 1, 1, NULL, false, at, 5, 0, 0);
    GIVES(600, cpu_mem_free(at));
    dcpkcpu_release(0);
    OK(cpu_mem_free(at));
}
END_TEST

START_TEST(a_flipped_bit_is_one_bit) {
    machine_with(fair(1, 1));
    cu_ptr at = words(2, 0);
    ck_assert_int_eq(dcpkcpu_flip_bit(at + 5, 3), 0);
    ck_assert_uint_eq(word_at(at + 4), 0x800);
    ck_assert_int_eq(dcpkcpu_flip_bit(at + 8, 3), -1);
    ck_assert_int_eq(dcpkcpu_flip_bit(at, 8), -1);
}
END_TEST

START_TEST(a_reset_amid_running_work_leaves_nothing_behind) {
    for (uint64_t seed = 0; seed < 10; seed++) {
        machine_with(adverse(2, 2, seed));
        make_peers(2);
        on(1);
        cu_ptr far = words(64, 0);
        on(0);
        cu_stream stream = new_stream();
        dcpkcpu_hold_stores(0, -1, 1);
        launch(function_on(0, kernels, "store"), 40, 32, stream, false, far, 5, 0, 0);
        launch(function_on(0, kernels, "poll"), 8, 1024, NULL, false, far + 4, far, 0, 0);
        launch(function_on(0, kernels, "waits_stores"), 1, 1, stream, true, far, 5, 0, 0);
        GIVES(600, cpu_stream_query(stream));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_stuck");
    TCase *tcase = tcase_create("stuck");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, livelock_names_address_value_line_and_time);
    tcase_add_test(tcase, a_loop_that_changes_nothing_ends_after_livelock_rounds);
    tcase_add_test(tcase, a_spin_on_shared_memory_names_the_variable_and_the_load);
    tcase_add_test(tcase, an_access_repeated_for_ever_is_found_soon_and_its_address_named);
    tcase_add_test(tcase, a_loop_that_counts_is_not_taken_for_endless);
    tcase_add_test(tcase, work_that_writes_for_ever_ends_after_max_rounds);
    tcase_add_test(tcase, deadlock_is_reported_at_once);
    tcase_add_test(tcase, a_grid_that_cannot_be_resident_as_a_whole_is_found_out);
    tcase_add_test(tcase, a_grid_that_polls_can_starve_its_producer);
    tcase_add_test(tcase, a_bounded_poll_expires_in_virtual_time);
    tcase_add_test(tcase, a_stalled_device_holds_the_host_until_it_is_released);
    tcase_add_test(tcase, an_endless_poll_on_a_stalled_device_is_no_fault);
    tcase_add_test(tcase, held_stores_come_when_let_go_and_their_kernel_ends_then);
    tcase_add_test(tcase, held_words_land_over_what_the_host_wrote_meanwhile);
    tcase_add_test(tcase, a_late_word_into_freed_memory_is_a_fault);
    tcase_add_test(tcase, freeing_waits_for_the_device);
    tcase_add_test(tcase, a_flipped_bit_is_one_bit);
    tcase_add_test(tcase, a_reset_amid_running_work_leaves_nothing_behind);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
