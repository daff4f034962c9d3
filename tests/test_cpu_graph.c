/* test_cpu_graph.c - graphs on the CPU device: what is captured, how launches of an executable graph are ordered,
 * programmatic edges. Refusals: test_cpu_capture.c; lifetimes: test_cpu_graph_life.c; whole layers:
 * test_layer_captured.c. */
#include "tests/cpu_graph.h"

/* ---- what a captured graph does -------------------------------------------------------------------- */
START_TEST(nothing_runs_while_it_is_captured_and_everything_at_each_launch) {
    machine_with(fair(1, 4));
    cu_stream stream = new_stream();
    cu_ptr at = words(4, 0);
    uint32_t pageable = 7, back = 0;
    cu_function add = kernel("add");
    begin_on(stream);
    ck_assert_int_eq(status_of(stream), DRIVER_CAPTURE_ACTIVE);
    OK(cpu_copy_to_device_async(at, &pageable, 4, stream));
    launch(add, 1, 1, stream, false, at, 5, 1, 0);
    OK(cpu_copy_on_device_async(at + 4, at, 4, stream));
    OK(cpu_fill32_async(at + 8, 9, 1, stream));
    OK(cpu_copy_to_host_async(&back, at + 4, 4, stream));
    cu_graph graph = end_on(stream);
    ck_assert_int_eq(status_of(stream), DRIVER_CAPTURE_NONE);
    ck_assert_uint_eq(node_count(graph), 5);
    OK(cpu_stream_synchronize(stream));
    ck_assert_uint_eq(word_at(at), 0);
    ck_assert_uint_eq(counters_now().launches, 0);
    cu_graph_exec exec = exec_of(graph);
    OK(cpu_graph_destroy(graph));
    for (uint32_t i = 0; i < 3; i++) {
        pageable = 100 * i; /* read when the node runs */
        OK(cpu_graph_launch(exec, stream));
        OK(cpu_stream_synchronize(stream));
        ck_assert_uint_eq(word_at(at), 100 * i + 5);
        ck_assert_uint_eq(word_at(at + 8), 9);
        ck_assert_uint_eq(back, 100 * i + 5);
    }
    ck_assert_uint_eq(counters_now().launches, 3);
    OK(cpu_graph_exec_destroy(exec));
}
END_TEST

START_TEST(parameters_are_those_of_the_capture) {
    machine_with(fair(1, 1));
    cu_stream stream = new_stream();
    cu_ptr at = words(2, 0);
    cu_function add = kernel("add");
    uint64_t a = at, b = 3, turns = 1, none = 0;
    void *parameters[] = {&a, &b, &turns, &none};
    begin_on(stream);
    OK(launch_with(add, 1, 1, 0, stream, false, parameters));
    a = at + 4;
    b = 1000;
    cu_graph_exec exec = exec_of(end_on(stream));
    OK(cpu_graph_launch(exec, stream));
    OK(cpu_stream_synchronize(stream));
    ck_assert_uint_eq(word_at(at), 3);
    ck_assert_uint_eq(word_at(at + 4), 0);
}
END_TEST

START_TEST(a_launch_is_behind_earlier_work_of_its_stream_and_before_later) {
    for (uint64_t seed = 0; seed < 30; seed++) {
        machine_with(adverse(1, 4, seed));
        cu_stream stream = new_stream();
        cu_ptr at = words(1, 0);
        cu_function step = kernel("step");
        begin_on(stream);
        launch(step, 1, 1, stream, true, at, 2, 90, 0);
        launch(step, 1, 1, stream, true, at, 3, 10, 0);
        cu_graph_exec exec = exec_of(end_on(stream));
        launch(step, 1, 1, stream, false, at, 1, 300, 0);
        OK(cpu_graph_launch(exec, stream));
        launch(step, 1, 1, stream, true, at, 4, 1, 0); /* no dependent of a graph's kernels */
        OK(cpu_stream_synchronize(stream));
        ck_assert_uint_eq(word_at(at), ((1 * 2 + 2) * 2 + 3) * 2 + 4);
    }
}
END_TEST

/* Two streams launch the same executable: it may only run once at a time. Another executable of the graph may run
 * beside it: only then do two grids meet. */
START_TEST(launches_of_one_executable_are_one_after_the_other) {
    for (uint64_t seed = 0; seed < 20; seed++) {
        machine_with(adverse(1, 4, seed));
        cu_stream streams[2] = {new_stream(), new_stream()};
        cu_ptr at = words(1, 0);
        cu_function step = kernel("step");
        begin_on(streams[0]);
        launch(step, 1, 1, streams[0], false, at, 1, 100, 0);
        cu_graph_exec exec = exec_of(end_on(streams[0]));
        for (int i = 0; i < 8; i++)
            OK(cpu_graph_launch(exec, streams[i & 1]));
        OK(cpu_ctx_synchronize());
        ck_assert_uint_eq(word_at(at), 255);
    }
}
END_TEST

START_TEST(executables_of_one_graph_run_side_by_side) {
    machine_with(fair(1, 4));
    cu_stream streams[2] = {new_stream(), new_stream()};
    cu_ptr at = words(1, 0);
    cu_function ball = kernel("ball");
    cu_graph_exec exec[2];
    for (int i = 0; i < 2; i++) { /* 1 -> 2 is played by the second, 0 -> 1 by the first, 2 -> 3 by the first */
        begin_on(streams[i]);
        if (i == 0) launch(ball, 1, 1, streams[i], false, at, 0, 1, 0);
        launch(ball, 1, 1, streams[i], false, at, i == 0 ? 2 : 1, i == 0 ? 3 : 2, 0);
        exec[i] = exec_of(end_on(streams[i]));
        OK(cpu_graph_launch(exec[i], streams[i]));
    }
    OK(cpu_ctx_synchronize());
    ck_assert_uint_eq(word_at(at), 3);
}
END_TEST

START_TEST(an_executable_destroyed_early_still_does_its_work) {
    machine_with(fair(1, 1));
    cu_stream stream = new_stream();
    cu_ptr at = words(1, 0);
    begin_on(stream);
    launch(kernel("add"), 1, 1, stream, false, at, 6, 500, 0);
    cu_graph_exec exec = exec_of(end_on(stream));
    OK(cpu_graph_launch(exec, stream));
    OK(cpu_graph_exec_destroy(exec));
    GIVES(1, cpu_graph_launch(exec, stream));
    OK(cpu_stream_destroy(stream));
    OK(cpu_ctx_synchronize());
    ck_assert_uint_eq(word_at(at), 6);
}
END_TEST

START_TEST(an_empty_capture_is_an_empty_graph_that_launches) {
    machine_with(fair(1, 1));
    cu_stream stream = new_stream();
    begin_on(stream);
    cu_graph graph = end_on(stream);
    ck_assert_uint_eq(node_count(graph), 0);
    OK(cpu_graph_launch(exec_of(graph), stream));
    OK(cpu_stream_synchronize(stream));
}
END_TEST

/* ---- forks and joins ------------------------------------------------------------------------------- */
START_TEST(streams_that_wait_for_a_captured_event_join_and_their_order_is_kept) {
    for (uint64_t seed = 0; seed < 30; seed++) {
        machine_with(adverse(1, 4, seed));
        cu_stream first = new_stream(), second = new_stream();
        cu_ptr at = words(3, 0);
        cu_function step = kernel("step"), add = kernel("add");
        begin_on(first);
        launch(step, 1, 1, first, false, at, 1, 60, 0);
        follow(first, second);
        ck_assert_int_eq(status_of(second), DRIVER_CAPTURE_ACTIVE);
        launch(add, 1, 1, second, false, at + 4, 5, 60, 0);
        OK(cpu_copy_on_device_async(at + 8, at, 4, second));
        launch(add, 1, 1, first, false, at + 4, 7, 1, 0);
        follow(second, first);
        launch(step, 1, 1, first, false, at, 1, 1, 0);
        cu_graph graph = end_on(first);
        ck_assert_int_eq(status_of(second), DRIVER_CAPTURE_NONE);
        ck_assert_uint_eq(node_count(graph), 5);
        size_t edges = 0;
        OK(cpu_graph_edges(graph, NULL, NULL, NULL, &edges));
        ck_assert_uint_eq(edges, 5); /* 2 of the fork, 1 along the second stream, 2 of the join */
        cu_graph_exec exec = exec_of(graph);
        for (uint32_t i = 1, want = 0; i <= 2; i++) {
            OK(cpu_graph_launch(exec, second));
            OK(cpu_stream_synchronize(second));
            ck_assert_uint_eq(word_at(at + 4), 12 * i);
            ck_assert_uint_eq(word_at(at + 8), want * 2 + 1);
            want = (want * 2 + 1) * 2 + 1;
            ck_assert_uint_eq(word_at(at), want);
        }
    }
}
END_TEST

/* Both branches run at once: each waits for the other's word. */
START_TEST(branches_run_side_by_side) {
    machine_with(fair(1, 4));
    cu_stream first = new_stream(), second = new_stream();
    cu_ptr at = words(1, 0);
    cu_function ball = kernel("ball");
    begin_on(first);
    follow(first, second);
    launch(ball, 1, 1, first, false, at, 0, 1, 0);
    launch(ball, 1, 1, second, false, at, 1, 2, 0);
    launch(ball, 1, 1, first, false, at, 2, 3, 0);
    launch(ball, 1, 1, second, false, at, 3, 4, 0);
    follow(second, first);
    OK(cpu_graph_launch(exec_of(end_on(first)), first));
    OK(cpu_stream_synchronize(first));
    ck_assert_uint_eq(word_at(at), 4);
}
END_TEST

START_TEST(a_graph_may_span_devices) {
    for (uint64_t seed = 0; seed < 10; seed++) {
        machine_with(adverse(2, 2, seed));
        make_peers(2);
        cu_stream first = new_stream();
        cu_ptr at = words(1, 0);
        cu_function step0 = kernel("step");
        on(1);
        cu_stream second = new_stream();
        cu_function step1 = kernel("step");
        on(0);
        begin_on(first);
        launch(step0, 1, 1, first, false, at, 1, 100, 0);
        cu_event there = new_event();
        OK(cpu_event_record(there, first));
        on(1);
        wait_for(there, second);
        launch(step1, 1, 1, second, false, at, 0, 50, 0);
        cu_event back = new_event();
        OK(cpu_event_record(back, second));
        on(0);
        wait_for(back, first);
        launch(step0, 1, 1, first, false, at, 1, 1, 0);
        OK(cpu_graph_launch(exec_of(end_on(first)), first));
        OK(cpu_stream_synchronize(first));
        ck_assert_uint_eq(word_at(at), 5);
    }
}
END_TEST

/* ---- programmatic edges ---------------------------------------------------------------------------- */
START_TEST(a_launch_with_pdl_behind_a_kernel_becomes_a_programmatic_edge_and_no_other) {
    machine_with(fair(1, 4));
    cu_stream stream = new_stream(), other = new_stream();
    cu_ptr at = words(2, 0);
    cu_function add = kernel("add");
    begin_on(stream);
    launch(add, 1, 1, stream, true, at, 1, 1, 0); /* nothing before it */
    launch(add, 1, 1, stream, true, at, 1, 1, 0); /* p */
    launch(add, 1, 1, stream, false, at, 1, 1, 0);
    OK(cpu_fill32_async(at + 4, 1, 1, stream));
    launch(add, 1, 1, stream, true, at, 1, 1, 0); /* behind a fill */
    follow(stream, other);
    launch(add, 1, 1, other, true, at, 1, 1, 0); /* behind an event */
    follow(other, stream);
    launch(add, 1, 1, stream, true, at, 1, 1, 0); /* behind a join */
    cu_graph graph = end_on(stream);
    check_edges(graph, "pffffff");
    size_t count = 8;
    cu_graph_node from[8], to[8], nodes[9];
    GIVES(402, cpu_graph_edges(graph, from, to, NULL, &count)); /* would lose the type */
    count = 9;
    OK(cpu_graph_nodes(graph, nodes, &count));
    ck_assert_uint_eq(count, 7);
    ck_assert_ptr_null(nodes[8]);
    static const int types[] = {0, 0, 0, 2, 0, 0, 0};
    for (size_t i = 0; i < count; i++) {
        int type = -1;
        OK(cpu_graph_node_type(nodes[i], &type));
        ck_assert_int_eq(type, types[i]);
    }
    GIVES(1, cpu_graph_node_type(graph, (int *)from));
    OK(cpu_graph_launch(exec_of(graph), stream));
    OK(cpu_stream_synchronize(stream));
    ck_assert_uint_eq(word_at(at), 6);
    ck_assert_uint_eq(counters_now().pdl_launches, 1);
}
END_TEST

static uint32_t run_pair(uint64_t seed, const char *second, bool pdl) {
    machine_with(adverse_with_races(1, 4, seed));
    cu_stream stream = new_stream();
    cu_ptr at = words(2, 0);
    begin_on(stream);
    launch(kernel("add"), 2, 1, stream, false, at, 5, 400, 0);
    launch(kernel(second), 1, 1, stream, pdl, at, at + 4, 1, 0);
    OK(cpu_graph_launch(exec_of(end_on(stream)), stream));
    OK(cpu_stream_synchronize(stream));
    return word_at(at + 4);
}

START_TEST(a_programmatic_edge_lets_the_dependent_in_early_and_its_wait_holds_it) {
    unsigned early = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        ck_assert_uint_eq(run_pair(seed, "copies_waits", true), 10);
        ck_assert_uint_eq(run_pair(seed, "copies_early", false), 10);
        early += run_pair(seed, "copies_early", true) != 10;
    }
    ck_assert_uint_gt(early, 5);
}
END_TEST

/* An edge orders two nodes, not what is before them: behind a kernel that never waited for its own predecessor, even an
 * ordinary edge does not wait for that. In a stream it would. */
START_TEST(an_edge_does_not_reach_over_a_kernel_that_never_waits) {
    unsigned early = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        machine_with(adverse(1, 4, seed));
        cu_stream stream = new_stream();
        cu_ptr at = words(2, 0);
        begin_on(stream);
        launch(kernel("add"), 1, 1, stream, false, at, 5, 2000, 0);
        launch(kernel("goes_on"), 1, 1, stream, true, 0, 0, 0, 0);
        launch(kernel("copies_waits"), 1, 1, stream, false, at, at + 4, 0, 0);
        OK(cpu_graph_launch(exec_of(end_on(stream)), stream));
        OK(cpu_stream_synchronize(stream));
        early += word_at(at + 4) != 5;
        ck_assert_uint_eq(word_at(at), 5); /* but the launch is over only when all of it is */
    }
    ck_assert_uint_gt(early, 3);
}
END_TEST

START_TEST(clusters_are_captured) {
    machine_with(fair(1, 4));
    cu_stream stream = new_stream();
    cu_ptr at = words(2, 0);
    uint64_t none = 0;
    void *parameters[] = {&at, &none, &none, &none};
    cu_launch_attribute cluster = {.id = DRIVER_LAUNCH_CLUSTER, .value.cluster = {2, 1, 1}};
    cu_launch_config config = {
        .grid = {2, 1, 1}, .block = {1, 1, 1}, .stream = stream, .attributes = &cluster, .attribute_count = 1};
    begin_on(stream);
    OK(cpu_launch(&config, kernel("ranks"), parameters, NULL));
    config.grid[0] = 3;
    GIVES(1, cpu_launch(&config, kernel("ranks"), parameters, NULL)); /* said at the call, and the capture lives */
    OK(cpu_graph_launch(exec_of(end_on(stream)), stream));
    OK(cpu_stream_synchronize(stream));
    ck_assert_uint_eq(word_at(at), 1);
    ck_assert_uint_eq(word_at(at + 4), 2);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_graph");
    TCase *tcase = tcase_create("graphs");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, nothing_runs_while_it_is_captured_and_everything_at_each_launch);
    tcase_add_test(tcase, parameters_are_those_of_the_capture);
    tcase_add_test(tcase, a_launch_is_behind_earlier_work_of_its_stream_and_before_later);
    tcase_add_test(tcase, launches_of_one_executable_are_one_after_the_other);
    tcase_add_test(tcase, executables_of_one_graph_run_side_by_side);
    tcase_add_test(tcase, an_executable_destroyed_early_still_does_its_work);
    tcase_add_test(tcase, an_empty_capture_is_an_empty_graph_that_launches);
    tcase_add_test(tcase, streams_that_wait_for_a_captured_event_join_and_their_order_is_kept);
    tcase_add_test(tcase, branches_run_side_by_side);
    tcase_add_test(tcase, a_graph_may_span_devices);
    tcase_add_test(tcase, a_launch_with_pdl_behind_a_kernel_becomes_a_programmatic_edge_and_no_other);
    tcase_add_test(tcase, a_programmatic_edge_lets_the_dependent_in_early_and_its_wait_holds_it);
    tcase_add_test(tcase, an_edge_does_not_reach_over_a_kernel_that_never_waits);
    tcase_add_test(tcase, clusters_are_captured);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
