/* test_cpu_waits.c - reports of deadlock and of no progress: who waits for what, who wrote it last, who could still
 * write it, who has not come to a barrier. */
#include "tests/cpu_world.h"

#define KERNEL(name, body)                                                                                             \
    ".visible .entry " name "(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {\n"                         \
    ".reg .b64 A, B, C, D; .reg .b32 t, u, v, w, m; .reg .pred p, q; .shared .align 8 .b64 bar;\n"                     \
    "ld.param.u64 A, [a]; ld.param.u64 B, [b]; ld.param.u64 C, [c]; ld.param.u64 D, [d];\n"                            \
    "mov.u32 t, %tid.x; shr.u32 w, t, 5; mov.u32 m, bar;\n" body "\nret; }\n"

static const char kernels[] =
    PTX_HEAD ".visible .global .align 8 .b32 signal[4];\n.visible .global .align 8 .b64 table[2];\n" KERNEL(
        "poll", "griddepcontrol.launch_dependents; P: ld.relaxed.sys.global.u32 u, [A]; setp.lt.u32 p, u, 2; @p bra P;")
        KERNEL("store", "griddepcontrol.wait; st.relaxed.sys.global.u32 [A], 1;") KERNEL(
            "store_twice", "st.relaxed.sys.global.u32 [A], 1; fence.acq_rel.sys; st.relaxed.sys.global.u32 [B], 1;")
            KERNEL("store_by_table", "ld.global.u64 A, [A+16]; st.relaxed.sys.global.u32 [A], 1;")
                KERNEL("poll_signal",
                       "mov.u64 A, signal; P: ld.relaxed.sys.global.u32 u, [A+4]; setp.eq.u32 p, u, 0; @p bra P;")
    /* by two tables */
    KERNEL("poll_deep", "ld.global.u64 A, [A]; ld.global.u64 A, [A]; P: ld.relaxed.sys.global.u32 u, [A]; setp.eq.u32 "
                        "p, u, 0; @p bra P;")
    /* warp 0 at barrier 1, warp 1 at barrier 2, warp 2 at barrier 1 for ever */
    KERNEL("astray", "and.b32 u, w, 1; add.u32 u, u, 1; mov.u32 v, 96; bar.sync u, v;")
    /* all wait for a phase that warp 3 was to complete, which waits at a barrier */
    KERNEL("phase", "setp.eq.u32 p, t, 0; @p mbarrier.init.shared.b64 [m], 1; bar.sync 0; setp.ne.u32 p, w, 3; @p bra "
                    "T; bar.sync 2, 64; T: mbarrier.try_wait.parity.shared.b64 q, [m], 0; @!q bra T;");

START_TEST(of_a_polled_word_it_is_said_who_could_still_write_it) {
    for (int i = 0; i < 2; i++) {
        machine_with(i ? adverse(2, 2, 1) : fair(2, 2));
        make_peers(2);
        cu_ptr at = words(16, 0), other = words(16, 0);
        cu_stream first = new_stream();
        launch(function_on(0, kernels, "store"), 1, 1, first, false, at, 0, 0, 0);
        launch(function_on(0, kernels, "poll"), 1, 32, first, false, at, 0, 0, 0);
        launch(function_on(0, kernels, "store"), 1, 1, first, false, other, 0, 0, 0); /* cannot */
        launch(function_on(0, kernels, "store"), 1, 1, first, false, at + 32, 0, 0, 0);
        GIVES(719, cpu_ctx_synchronize());
        report_says((const char *[]){"the word there is 0x00000001",
                                     "could still be written by kernel poll of device 0, grid 2, by its parameter a (0 "
                                     "of 1 CTAs done, 0 not started, 1 of 1 warps wait)",
                                     "kernel store of device 0, grid 4, by its parameter a (has not started: waits "
                                     "for what is before it",
                                     NULL});
        ck_assert_ptr_null(strstr(dcpkcpu_report(), "grid 3, by its parameter"));
        if (i)
            report_says((const char *[]){"last written by the strong store of kernel store, PTX line",
                                         "`st.relaxed.sys.global.u32 [A], 1;` [device 0, grid 1]", NULL});
    }
}
END_TEST

START_TEST(tables_of_addresses_count_and_stalled_writers_are_named) {
    machine_with(fair(2, 2));
    make_peers(2);
    cu_ptr at = words(16, 0), table = words(16, 0);
    OK(cpu_copy_to_device(table + 16, &at, 8));
    cu_function far = function_on(1, kernels, "store_by_table");
    dcpkcpu_stall(1, NULL, 3);
    on(1);
    launch(far, 1, 1, NULL, false, table, 0, 0, 0);
    on(0);
    launch(function_on(0, kernels, "poll"), 1, 32, NULL, false, at, 0, 0, 0);
    GIVES(600, cpu_ctx_synchronize());
    report_says((const char *[]){
        "kernel store_by_table of device 1, grid 1, by its parameter a (stalled by dcpkcpu_stall)", NULL});
}
END_TEST

START_TEST(words_under_way_are_named) {
    machine_with(fair(2, 2));
    make_peers(2);
    on(1);
    cu_ptr far = words(16, 0);
    on(0);
    cu_function poll = function_on(1, kernels, "poll"), store = function_on(0, kernels, "store_twice");
    dcpkcpu_hold_stores(0, 1, 1);
    launch(store, 1, 1, NULL, false, far, far + 32, 0, 0);
    on(1);
    launch(poll, 1, 32, NULL, false, far, 0, 0, 0);
    GIVES(600, cpu_ctx_synchronize());
    report_says((const char *[]){"could still be written by a store of kernel store_twice (device 0, grid 1) that is "
                                 "held back by dcpkcpu_hold_stores",
                                 NULL});
}
END_TEST

START_TEST(variables_count_and_nobody_is_said_where_no_kernel_has_the_address) {
    machine_with(fair(1, 2));
    launch(function_on(0, kernels, "poll_signal"), 1, 32, NULL, false, 0, 0, 0, 0);
    GIVES(719, cpu_ctx_synchronize());
    report_says((const char *[]){"polls 0x",
                                 "by kernel poll_signal of device 0, grid 1, by its module's variable signal", NULL});
    machine_with(fair(1, 2));
    cu_ptr at = words(16, 0), one = words(2, 0), two = words(2, 0);
    OK(cpu_copy_to_device(one, &at, 8));
    OK(cpu_copy_to_device(two, &one, 8));
    launch(function_on(0, kernels, "poll_deep"), 1, 32, NULL, false, two, 0, 0, 0);
    GIVES(719, cpu_ctx_synchronize());
    report_says(
        (const char *[]){"could still be written by nobody: no kernel that runs or is to come has an address", NULL});
}
END_TEST

START_TEST(a_dependent_says_for_which_kernel_it_waits) {
    machine_with(fair(1, 2));
    cu_ptr at = words(16, 0);
    cu_stream stream = new_stream();
    launch(function_on(0, kernels, "poll"), 1, 32, stream, false, at, 0, 0, 0);
    launch(function_on(0, kernels, "store"), 1, 32, stream, true, at, 0, 0, 0);
    GIVES(719, cpu_ctx_synchronize());
    report_says((const char *[]){"in griddepcontrol.wait", "waits for kernel poll (grid 1): 0 of 1 CTAs done",
                                 "kernel store of device 0, grid 2, by its parameter a (0 of 1 CTAs done", NULL});
}
END_TEST

START_TEST(at_a_barrier_it_is_said_who_has_not_come) {
    machine_with(fair(1, 2));
    launch(function_on(0, kernels, "astray"), 1, 96, NULL, false, 0, 0, 0, 0);
    GIVES(719, cpu_ctx_synchronize());
    report_says((const char *[]){"deadlock", "at barrier 1 64 of 96 threads have come",
                                 "not here: warps 1 (at barrier 2)", NULL});
}
END_TEST

START_TEST(at_an_mbarrier_it_is_said_who_could_still_arrive) {
    machine_with(fair(1, 2));
    launch(function_on(0, kernels, "phase"), 1, 128, NULL, false, 0, 0, 0, 0);
    GIVES(719, cpu_ctx_synchronize());
    report_says((const char *[]){"1 of 1 arrivals to come", "could still arrive, of its CTA: warps 3 (at a barrier)",
                                 "at barrier 2 32 of 64 threads have come", NULL});
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_waits");
    TCase *tests = tcase_create("waits");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, of_a_polled_word_it_is_said_who_could_still_write_it);
    tcase_add_test(tests, tables_of_addresses_count_and_stalled_writers_are_named);
    tcase_add_test(tests, words_under_way_are_named);
    tcase_add_test(tests, variables_count_and_nobody_is_said_where_no_kernel_has_the_address);
    tcase_add_test(tests, a_dependent_says_for_which_kernel_it_waits);
    tcase_add_test(tests, at_a_barrier_it_is_said_who_has_not_come);
    tcase_add_test(tests, at_an_mbarrier_it_is_said_who_could_still_arrive);
    return run_suite(suite);
}
