/* test_cpu_graph_life.c - graphs on the CPU device: nothing outlives what holds it, nothing that is gone is used. */
#include "tests/cpu_graph.h"

/* ---- what a graph holds ---------------------------------------------------------------------------- */
static void count_drop(void *self) {
    ++*(unsigned *)self;
}

static cu_result result_in_drop;
static void call_in_drop(void *self) {
    (void)self;
    result_in_drop = cpu_mem_alloc(&(cu_ptr){0}, 4);
}

START_TEST(a_user_object_goes_with_the_last_graph_executable_and_launch) {
    struct scene s;
    set(&s, false);
    unsigned drops = 0;
    cu_user_object object = NULL;
    OK(cpu_user_object_create(&object, &drops, count_drop, 2, DRIVER_USER_OBJECT_NO_SYNC));
    OK(cpu_stream_begin_capture(s.capturing, DRIVER_CAPTURE_RELAXED));
    cu_graph graph = NULL;
    OK(cpu_stream_capture_info(s.capturing, &(int){0}, NULL, &graph, NULL, NULL));
    OK(cpu_graph_retain_object(graph, object, 1, DRIVER_GRAPH_OBJECT_MOVE));
    launch(s.add, 1, 1, s.capturing, false, s.at, 1, 200, 0);
    end_on(s.capturing);
    cu_graph_exec exec = exec_of(graph);
    OK(cpu_user_object_release(object, 1));
    OK(cpu_graph_destroy(graph));
    OK(cpu_graph_launch(exec, s.capturing));
    OK(cpu_graph_exec_destroy(exec));
    ck_assert_uint_eq(drops, 0); /* the launch is under way */
    OK(cpu_stream_synchronize(s.capturing));
    ck_assert_uint_eq(drops, 1);
    GIVES(1, cpu_user_object_release(object, 1));
    OK(cpu_user_object_create(&object, &drops, call_in_drop, 1, DRIVER_USER_OBJECT_NO_SYNC));
    OK(cpu_user_object_retain(object, 2));
    OK(cpu_user_object_release(object, 2));
    GIVES(1, cpu_user_object_release(object, 2));
    OK(cpu_user_object_release(object, 1));
    ck_assert_int_eq(result_in_drop, 800); /* its owner may not call the driver */
    ck_assert_uint_eq(drops, 1);
}
END_TEST

START_TEST(a_capture_that_fails_lets_go_of_its_objects) {
    struct scene s;
    set(&s, false);
    unsigned drops = 0;
    cu_user_object object = NULL;
    OK(cpu_user_object_create(&object, &drops, count_drop, 1, DRIVER_USER_OBJECT_NO_SYNC));
    capture_something(&s, DRIVER_CAPTURE_GLOBAL);
    cu_graph graph = NULL;
    OK(cpu_stream_capture_info(s.capturing, &(int){0}, NULL, &graph, NULL, NULL));
    OK(cpu_graph_retain_object(graph, object, 1, DRIVER_GRAPH_OBJECT_MOVE));
    GIVES(U, cpu_stream_synchronize(s.capturing));
    ck_assert_uint_eq(drops, 0);
    GIVES(INVALID, end_capturing(&s));
    ck_assert_uint_eq(drops, 1);
}
END_TEST

START_TEST(a_launch_that_reached_what_is_gone_is_said_not_done) {
    struct scene s;
    set(&s, false);
    cu_library library = library_of_text(kernels);
    cu_kernel code = NULL;
    OK(cpu_library_get_kernel(&code, library, "add"));
    begin_on(s.capturing);
    launch(code, 1, 1, s.capturing, false, s.at, 1, 1, 0);
    cu_graph_exec exec = exec_of(end_on(s.capturing));
    OK(cpu_graph_launch(exec, s.capturing));
    OK(cpu_library_unload(library)); /* waits for it */
    ck_assert_uint_eq(word_at(s.at), 1);
    GIVES(400, cpu_graph_launch(exec, s.capturing));
    ck_assert_str_eq(
        dcpkcpu_report(),
        "cuGraphLaunch: node 0 of the graph launches a kernel of a library that was unloaded since its capture");
    cu_ptr gone = words(1, 0);
    begin_on(s.capturing);
    OK(cpu_fill32_async(gone, 1, 1, s.capturing));
    exec = exec_of(end_on(s.capturing));
    OK(cpu_mem_free(gone));
    OK(cpu_graph_launch(exec, s.capturing));
    GIVES(700, cpu_stream_synchronize(s.capturing));
}
END_TEST

START_TEST(a_captured_launch_of_a_graph_is_a_child) {
    for (uint64_t seed = 0; seed < 20; seed++) {
        machine_with(adverse(1, 4, seed));
        cu_stream stream = new_stream(), other = new_stream();
        cu_ptr at = words(2, 0);
        cu_function step = kernel("step"), add = kernel("add");
        begin_on(stream);
        follow(stream, other);
        launch(add, 1, 1, other, false, at + 4, 1, 200, 0);
        launch(step, 1, 1, stream, false, at, 1, 30, 0);
        follow(other, stream);
        cu_graph inner = end_on(stream);
        cu_graph_exec child = exec_of(inner);
        begin_on(stream);
        cu_graph_exec nothing = exec_of(end_on(stream));
        begin_on(stream);
        OK(cpu_graph_launch(child, stream)); /* first: before it there is nothing */
        launch(step, 1, 1, stream, true, at, 0, 100, 0);
        OK(cpu_graph_launch(nothing, stream));
        OK(cpu_graph_launch(child, stream));
        OK(cpu_copy_on_device_async(at, at + 4, 4, stream));
        launch(step, 1, 1, stream, true, at, 1, 1, 0);
        cu_graph outer = end_on(stream);
        ck_assert_uint_eq(node_count(outer), 6);
        OK(cpu_graph_exec_destroy(child));
        OK(cpu_graph_destroy(inner));
        cu_graph_exec exec = exec_of(outer);
        OK(cpu_graph_launch(exec, stream));
        OK(cpu_graph_launch(exec, other));
        OK(cpu_ctx_synchronize());
        ck_assert_uint_eq(word_at(at + 4), 4);
        ck_assert_uint_eq(word_at(at), 9); /* the copy came behind both branches of the child */
    }
}
END_TEST

START_TEST(a_reset_forgets_captures_and_graphs) {
    struct scene s;
    for (int i = 0; i < 3; i++) {
        set(&s, false);
        capture_something(&s, DRIVER_CAPTURE_GLOBAL);
        cu_graph_exec exec = exec_of(end_on(s.capturing));
        OK(cpu_graph_launch(exec, s.capturing));
        capture_something(&s, DRIVER_CAPTURE_GLOBAL);
        wait_for(s.captured, s.idle);
        if (i == 1) OK(cpu_event_destroy(s.captured));
    }
    set(&s, false);
    ck_assert_int_eq(status_of(s.capturing), DRIVER_CAPTURE_NONE);
    GIVES(1, cpu_graph_destroy(&s));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_graph_life");
    TCase *tcase = tcase_create("graphs");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_user_object_goes_with_the_last_graph_executable_and_launch);
    tcase_add_test(tcase, a_capture_that_fails_lets_go_of_its_objects);
    tcase_add_test(tcase, a_launch_that_reached_what_is_gone_is_said_not_done);
    tcase_add_test(tcase, a_captured_launch_of_a_graph_is_a_child);
    tcase_add_test(tcase, a_reset_forgets_captures_and_graphs);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
