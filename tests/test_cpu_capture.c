/* test_cpu_capture.c - stream capture on the CPU device: what is refused while a stream captures, and with which
 * result: those of the driver's documentation. */
#include "tests/cpu_graph.h"

/* ---- what is refused ------------------------------------------------------------------------------- */
static uint32_t host_word;

#define CALLS(X)                                                                                                       \
    X(sync_capturing, cpu_stream_synchronize(s->capturing))                                                            \
    X(query_capturing, cpu_stream_query(s->capturing))                                                                 \
    X(sync_context, cpu_ctx_synchronize())                                                                             \
    X(sync_captured, cpu_event_synchronize(s->captured))                                                               \
    X(query_captured, cpu_event_query(s->captured))                                                                    \
    X(sync_idle, cpu_stream_synchronize(s->idle))                                                                      \
    X(query_idle, cpu_stream_query(s->idle))                                                                           \
    X(sync_recorded, cpu_event_synchronize(s->recorded))                                                               \
    X(query_recorded, cpu_event_query(s->recorded))                                                                    \
    X(query_fresh, cpu_event_query(s->fresh))                                                                          \
    X(allocate, cpu_mem_alloc(&(cu_ptr){0}, 4))                                                                        \
    X(release, cpu_mem_free(s->at))                                                                                    \
    X(host_allocate, cpu_mem_host_alloc(&(void *){NULL}, 4, 0))                                                        \
    X(host_release, cpu_mem_host_free(s->pinned))                                                                      \
    X(host_register, cpu_mem_host_register(&host_word, 4, 0))                                                          \
    X(copy_sync, cpu_copy_to_device(s->at, &host_word, 4))                                                             \
    X(fill_sync, cpu_fill32(s->at, 1, 1))                                                                              \
    X(make_stream, cpu_stream_create(&(cu_stream){NULL}, 1))                                                           \
    X(make_event, cpu_event_create(&(cu_event){NULL}, 0))                                                              \
    X(load, cpu_library_load(&(cu_library){NULL}, kernels, NULL, NULL, 0, NULL, NULL, 0))                              \
    X(unload, cpu_library_unload(s->library))                                                                          \
    X(ask, cpu_stream_is_capturing(s->capturing, &(int){0}))                                                           \
    X(ask_legacy, cpu_stream_is_capturing(NULL, &(int){0}))                                                            \
    X(fill_legacy, cpu_fill32_async(s->at, 1, 1, NULL))                                                                \
    X(record_legacy, cpu_event_record(s->fresh, NULL))                                                                 \
    X(sync_legacy, cpu_stream_synchronize(NULL))                                                                       \
    X(graph_legacy, cpu_stream_begin_capture(NULL, 0))                                                                 \
    X(wait_uncaptured, cpu_stream_wait_event(s->capturing, s->recorded, 0))                                            \
    X(wait_fresh, cpu_stream_wait_event(s->capturing, s->fresh, 0))                                                    \
    X(begin_again, cpu_stream_begin_capture(s->capturing, 0))                                                          \
    X(begin_oddly, cpu_stream_begin_capture(s->idle, 3))                                                               \
    X(end_idle, cpu_stream_end_capture(s->idle, &(cu_graph){NULL}))                                                    \
    X(external_outside, cpu_event_record_flags(s->fresh, s->idle, DRIVER_EVENT_EXTERNAL))                              \
    X(fill_idle, cpu_fill32_async(s->at + 4, 1, 1, s->idle))

#define X(name, call)                                                                                                  \
    static cu_result name(struct scene *s) {                                                                           \
        (void)s;                                                                                                       \
        return call;                                                                                                   \
    }
CALLS(X)
#undef X

/* What a call gives while this thread captures in global or thread-local mode, in relaxed mode; while another thread
 * does in global mode, in one of the others; and whether the capture is over then where it gave that. A stream that
 * captures may be blocking, or not: where it makes a difference there are two rows. */
static const struct rule {
    const char *name;
    scene_call *call;
    bool blocking;
    int strict, relaxed, other_global, other_local;
    bool invalidates;
} rules[] = {
    {"sync_capturing", sync_capturing, false, U, U, U, U, true},
    {"query_capturing", query_capturing, false, U, U, U, U, true},
    {"sync_context", sync_context, false, U, U, U, U, true},
    {"sync_captured", sync_captured, false, CAPTURED, CAPTURED, CAPTURED, CAPTURED, true},
    {"query_captured", query_captured, false, CAPTURED, CAPTURED, CAPTURED, CAPTURED, true},
    {"sync_idle", sync_idle, false, U, 0, U, 0, true},
    {"query_idle", query_idle, false, U, 0, U, 0, true},
    {"sync_recorded", sync_recorded, false, U, 0, U, 0, true},
    {"query_recorded", query_recorded, false, U, 0, U, 0, true},
    {"query_fresh", query_fresh, false, 0, 0, 0, 0, false},
    {"allocate", allocate, false, U, 0, U, 0, true},
    {"release", release, false, U, 0, U, 0, true},
    {"host_allocate", host_allocate, false, U, 0, U, 0, true},
    {"host_release", host_release, false, U, 0, U, 0, true},
    {"host_register", host_register, false, U, 0, U, 0, true},
    {"copy_sync", copy_sync, false, U, 0, U, 0, true},
    {"copy_sync", copy_sync, true, IMPLICIT, IMPLICIT, IMPLICIT, IMPLICIT, true},
    {"fill_sync", fill_sync, true, IMPLICIT, IMPLICIT, IMPLICIT, IMPLICIT, true},
    {"make_stream", make_stream, false, U, 0, U, 0, true},
    {"make_event", make_event, false, 0, 0, 0, 0, false},
    {"load", load, false, 0, 0, 0, 0, false}, /* as of CUDA 12.3 */
    {"unload", unload, false, U, 0, U, 0, true},
    {"ask", ask, false, 0, 0, 0, 0, false},
    {"ask_legacy", ask_legacy, false, 0, 0, 0, 0, false},
    {"ask_legacy", ask_legacy, true, IMPLICIT, IMPLICIT, IMPLICIT, IMPLICIT, false},
    {"fill_legacy", fill_legacy, false, 0, 0, 0, 0, false},
    {"fill_legacy", fill_legacy, true, IMPLICIT, IMPLICIT, IMPLICIT, IMPLICIT, true},
    {"record_legacy", record_legacy, true, IMPLICIT, IMPLICIT, IMPLICIT, IMPLICIT, true},
    {"sync_legacy", sync_legacy, true, IMPLICIT, IMPLICIT, IMPLICIT, IMPLICIT, true},
    {"graph_legacy", graph_legacy, false, U, U, U, U, false},
    {"wait_uncaptured", wait_uncaptured, false, 905, 905, 905, 905, true},
    {"wait_fresh", wait_fresh, false, 0, 0, 0, 0, false},
    {"begin_again", begin_again, false, 401, 401, 401, 401, false},
    {"begin_oddly", begin_oddly, false, 1, 1, 1, 1, false},
    {"end_idle", end_idle, false, 401, 401, 401, 401, false},
    {"external_outside", external_outside, false, 1, 1, 1, 1, false},
    {"fill_idle", fill_idle, false, 0, 0, 0, 0, false},
};
enum { RULES = sizeof rules / sizeof rules[0] };

/* After the call: the capture is over, or ends well and its graph runs. */
static void check_end(struct scene *s, const struct rule *rule, int want) {
    bool over = want && rule->invalidates;
    ck_assert_msg(status_of(s->capturing) == (over ? DRIVER_CAPTURE_INVALIDATED : DRIVER_CAPTURE_ACTIVE), "%s",
                  rule->name);
    uint64_t a = s->at, one = 1, none = 0;
    void *parameters[] = {&a, &one, &one, &none};
    cu_graph graph = (cu_graph)s;
    GIVES(over ? INVALID : 0, launch_with(s->add, 1, 1, 0, s->capturing, false, parameters));
    GIVES(over ? INVALID : 0, cpu_event_record(s->captured, s->capturing));
    GIVES(over ? INVALID : 0, cpu_stream_end_capture(s->capturing, &graph));
    ck_assert_int_eq(status_of(s->capturing), DRIVER_CAPTURE_NONE);
    ck_assert(over == !graph);
    OK(cpu_fill32(s->at, 10, 1)); /* everything is allowed again */
    launch(s->add, 1, 1, s->capturing, false, s->at, 1, 1, 0);
    if (!over) OK(cpu_graph_launch(exec_of(graph), s->capturing));
    OK(cpu_stream_synchronize(s->capturing));
    ck_assert_uint_eq(word_at(s->at), over ? 11 : 13);
}

static void check_rule(const struct rule *rule, int mode, bool elsewhere, int thread_mode, int want) {
    struct scene s;
    set(&s, rule->blocking);
    capture_something(&s, mode);
    cu_result result = elsewhere ? from_another_thread(&s, rule->call, thread_mode) : rule->call(&s);
    ck_assert_msg(result == want, "%s, %s, mode %d, %s: %d, not %d", rule->name,
                  rule->blocking ? "blocking" : "non-blocking", mode, elsewhere ? "another thread" : "this thread",
                  result, want);
    if (rule->call == release && !want) return; /* the scene's memory is gone */
    check_end(&s, rule, want);
}

START_TEST(calls_give_what_the_documentation_says_while_a_stream_captures) {
    const struct rule *rule = &rules[_i];
    check_rule(rule, DRIVER_CAPTURE_GLOBAL, false, -1, rule->strict);
    check_rule(rule, DRIVER_CAPTURE_THREAD_LOCAL, false, -1, rule->strict);
    check_rule(rule, DRIVER_CAPTURE_RELAXED, false, -1, rule->relaxed);
    check_rule(rule, DRIVER_CAPTURE_GLOBAL, true, -1, rule->other_global);
    check_rule(rule, DRIVER_CAPTURE_THREAD_LOCAL, true, -1, rule->other_local);
    check_rule(rule, DRIVER_CAPTURE_RELAXED, true, -1, rule->other_local);
    check_rule(rule, DRIVER_CAPTURE_GLOBAL, true, DRIVER_CAPTURE_THREAD_LOCAL, rule->other_local);
    check_rule(rule, DRIVER_CAPTURE_GLOBAL, true, DRIVER_CAPTURE_RELAXED, rule->other_local);
}
END_TEST

START_TEST(a_thread_may_swap_its_mode_for_a_call) {
    struct scene s;
    set(&s, false);
    capture_something(&s, DRIVER_CAPTURE_GLOBAL);
    int mode = DRIVER_CAPTURE_RELAXED;
    OK(cpu_thread_capture_mode(&mode));
    ck_assert_int_eq(mode, DRIVER_CAPTURE_GLOBAL);
    cu_ptr more = 0;
    OK(cpu_mem_alloc(&more, 16));
    GIVES(U, cpu_stream_synchronize(s.capturing)); /* not that */
    OK(cpu_thread_capture_mode(&mode));
    ck_assert_int_eq(mode, DRIVER_CAPTURE_RELAXED);
    mode = 3;
    GIVES(1, cpu_thread_capture_mode(&mode));
    GIVES(1, cpu_thread_capture_mode(NULL));
}
END_TEST

START_TEST(synchronising_another_device_leaves_a_capture_alone) {
    machine_with(fair(2, 1));
    cu_stream stream = new_stream();
    begin_on(stream);
    on(1);
    OK(cpu_ctx_synchronize());
    on(0);
    GIVES(U, cpu_ctx_synchronize());
    GIVES(INVALID, cpu_stream_end_capture(stream, &(cu_graph){NULL}));
}
END_TEST

#define PER_THREAD ((cu_stream)(uintptr_t)2)

static void *captures_on_its_own(void *self) {
    (void)self;
    on(0);
    int status = -1;
    OK(cpu_stream_is_capturing(PER_THREAD, &status)); /* the other thread's captures: not this one's */
    ck_assert_int_eq(status, DRIVER_CAPTURE_NONE);
    begin_on(PER_THREAD);
    ck_assert_uint_eq(node_count(end_on(PER_THREAD)), 0);
    return self;
}

START_TEST(the_per_thread_stream_captures_and_is_each_threads_own) {
    struct scene s;
    set(&s, false);
    GIVES(U, cpu_stream_begin_capture(NULL, 0)); /* the legacy stream never does */
    GIVES(U, cpu_stream_begin_capture((cu_stream)(uintptr_t)1, 0));
    begin_on(PER_THREAD);
    launch(s.add, 1, 1, PER_THREAD, false, s.at, 7, 1, 0);
    pthread_t other;
    ck_assert_int_eq(pthread_create(&other, NULL, captures_on_its_own, NULL), 0);
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    cu_graph graph = end_on(PER_THREAD);
    ck_assert_uint_eq(node_count(graph), 1);
    ck_assert_uint_eq(word_at(s.at), 0);
    OK(cpu_graph_launch(exec_of(graph), PER_THREAD));
    OK(cpu_stream_synchronize(PER_THREAD));
    ck_assert_uint_eq(word_at(s.at), 7);
    GIVES(400, cpu_stream_destroy(PER_THREAD));
}
END_TEST

START_TEST(the_per_thread_stream_orders_with_the_legacy_stream) {
    struct scene s;
    set(&s, false);
    launch(kernel("step"), 1, 1, PER_THREAD, false, s.at, 1, 500, 0); /* 0 * 2 + 1, late */
    launch(kernel("step"), 1, 1, NULL, false, s.at, 3, 1, 0);         /* 1 * 2 + 3 */
    launch(kernel("step"), 1, 1, PER_THREAD, false, s.at, 4, 1, 0);   /* 5 * 2 + 4 */
    OK(cpu_stream_synchronize(PER_THREAD));
    ck_assert_uint_eq(word_at(s.at), 14);
    begin_on(PER_THREAD);
    GIVES(IMPLICIT, cpu_fill32_async(s.at, 1, 1, NULL)); /* it is a blocking stream that captures */
    GIVES(INVALID, cpu_stream_end_capture(PER_THREAD, &(cu_graph){NULL}));
}
END_TEST

START_TEST(a_fork_that_is_not_joined_fails_the_capture) {
    struct scene s;
    for (int late = 0; late < 2; late++) {
        set(&s, false);
        capture_something(&s, DRIVER_CAPTURE_GLOBAL);
        wait_for(s.captured, s.idle);
        launch(s.add, 1, 1, s.idle, false, s.at, 1, 1, 0);
        if (late) { /* joined once, and then it went on */
            follow(s.idle, s.capturing);
            launch(s.add, 1, 1, s.idle, false, s.at, 1, 1, 0);
        }
        cu_graph graph = (cu_graph)&s;
        GIVES(904, cpu_stream_end_capture(s.capturing, &graph));
        ck_assert_ptr_null(graph);
        ck_assert_int_eq(status_of(s.capturing), DRIVER_CAPTURE_NONE);
        ck_assert_int_eq(status_of(s.idle), DRIVER_CAPTURE_NONE);
        GIVES(401, cpu_stream_end_capture(s.capturing, &graph));
        OK(cpu_stream_synchronize(s.idle));
        ck_assert_uint_eq(word_at(s.at), 0);
    }
}
END_TEST

START_TEST(a_fork_without_work_of_its_own_needs_no_join) {
    struct scene s;
    set(&s, false);
    capture_something(&s, DRIVER_CAPTURE_GLOBAL);
    wait_for(s.captured, s.idle);
    GIVES(401, cpu_stream_begin_capture(s.idle, 0)); /* it captures already */
    ck_assert_uint_eq(node_count(end_on(s.capturing)), 1);
    OK(cpu_stream_begin_capture(s.idle, 0));
    end_on(s.idle);
}
END_TEST

START_TEST(a_capture_ends_where_it_began) {
    struct scene s;
    set(&s, false);
    capture_something(&s, DRIVER_CAPTURE_GLOBAL);
    wait_for(s.captured, s.idle);
    GIVES(903, cpu_stream_end_capture(s.idle, &(cu_graph){NULL}));
    GIVES(INVALID, cpu_stream_end_capture(s.capturing, &(cu_graph){NULL}));
}
END_TEST

START_TEST(a_capture_ends_in_its_thread_unless_it_is_relaxed) {
    struct scene s;
    set(&s, false);
    capture_something(&s, DRIVER_CAPTURE_RELAXED);
    OK(from_another_thread(&s, end_capturing, -1));
    capture_something(&s, DRIVER_CAPTURE_THREAD_LOCAL);
    GIVES(908, from_another_thread(&s, end_capturing, -1));
    GIVES(INVALID, end_capturing(&s));
}
END_TEST

START_TEST(captures_do_not_merge) {
    struct scene s;
    set(&s, false);
    capture_something(&s, DRIVER_CAPTURE_GLOBAL);
    begin_on(s.idle);
    GIVES(902, cpu_stream_wait_event(s.idle, s.captured, 0));
    GIVES(INVALID, cpu_stream_end_capture(s.idle, &(cu_graph){NULL}));
    GIVES(INVALID, end_capturing(&s));
}
END_TEST

START_TEST(an_event_of_a_capture_that_is_over_cannot_be_waited_for_until_it_is_recorded_again) {
    struct scene s;
    set(&s, false);
    capture_something(&s, DRIVER_CAPTURE_GLOBAL);
    end_on(s.capturing);
    GIVES(CAPTURED, cpu_event_query(s.captured));
    GIVES(CAPTURED, cpu_event_elapsed(&(float){0}, s.captured, s.recorded));
    GIVES(1, cpu_stream_wait_event(s.idle, s.captured, 0));
    begin_on(s.capturing);
    GIVES(902, cpu_stream_wait_event(s.capturing, s.captured, 0));
    GIVES(INVALID, end_capturing(&s));
    OK(cpu_event_record(s.captured, s.idle));
    OK(cpu_event_synchronize(s.captured));
    wait_for(s.captured, s.capturing);
    OK(cpu_stream_synchronize(s.capturing));
}
END_TEST

START_TEST(a_stream_destroyed_in_a_capture_leaves_it_and_the_first_one_ends_it) {
    struct scene s;
    set(&s, false);
    capture_something(&s, DRIVER_CAPTURE_GLOBAL);
    wait_for(s.captured, s.idle);
    OK(cpu_stream_destroy(s.idle));
    end_on(s.capturing);
    s.idle = new_stream();
    capture_something(&s, DRIVER_CAPTURE_GLOBAL);
    wait_for(s.captured, s.idle);
    OK(cpu_stream_destroy(s.capturing));
    ck_assert_int_eq(status_of(s.idle), DRIVER_CAPTURE_NONE);
    OK(cpu_ctx_synchronize());
}
END_TEST

START_TEST(external_events_are_nodes) {
    struct scene s;
    set(&s, false);
    cu_event go = new_event(), done = new_event();
    cu_function step = kernel("step");
    begin_on(s.capturing);
    OK(cpu_stream_wait_event(s.capturing, go, DRIVER_EVENT_EXTERNAL));
    launch(step, 1, 1, s.capturing, true, s.at, 1, 1, 0);
    OK(cpu_event_record_flags(done, s.capturing, DRIVER_EVENT_EXTERNAL));
    cu_graph graph = end_on(s.capturing);
    ck_assert_uint_eq(node_count(graph), 3);
    check_edges(graph, "ff");
    cu_graph_exec exec = exec_of(graph);
    for (uint32_t i = 1; i <= 2; i++) {
        launch(step, 1, 1, s.idle, false, s.at, 0, 300, 0);
        OK(cpu_event_record(go, s.idle));
        OK(cpu_graph_launch(exec, s.capturing));
        wait_for(done, s.idle);
        launch(step, 1, 1, s.idle, false, s.at, 0, 1, 0);
        OK(cpu_event_synchronize(done));
        OK(cpu_stream_synchronize(s.idle));
        ck_assert_uint_eq(word_at(s.at), i == 1 ? 2 : 18);
    }
    OK(cpu_event_destroy(go));
    OK(cpu_event_destroy(done));
    OK(cpu_graph_launch(exec, s.capturing));
    OK(cpu_stream_synchronize(s.capturing));
    ck_assert_uint_eq(word_at(s.at), 37);
}
END_TEST

START_TEST(capture_info_names_the_capture_its_graph_and_what_comes_next_depends_on) {
    struct scene s;
    set(&s, false);
    int status = -1;
    unsigned long long id = 1, again = 0;
    cu_graph graph = NULL;
    const void *nodes = NULL;
    const cu_edge *edges = NULL;
    size_t count = 1;
    OK(cpu_stream_capture_info(s.capturing, &status, &id, &graph, &nodes, &count));
    ck_assert(status == DRIVER_CAPTURE_NONE && id == 0 && !graph && !nodes && count == 0);
    capture_something(&s, DRIVER_CAPTURE_GLOBAL);
    OK(cpu_stream_capture_edges(s.capturing, &status, &id, &graph, &nodes, &edges, &count));
    ck_assert(status == DRIVER_CAPTURE_ACTIVE && id != 0 && graph && count == 1);
    cu_graph_node only = NULL;
    size_t one = 1;
    OK(cpu_graph_nodes(graph, &only, &one));
    ck_assert_ptr_eq(*(const cu_graph_node *)nodes, only);
    GIVES(1, cpu_graph_destroy(graph)); /* not while it is captured into */
    GIVES(1, cpu_graph_instantiate(&(cu_graph_exec){NULL}, graph, 0));
    ck_assert_ptr_eq(end_on(s.capturing), graph);
    capture_something(&s, DRIVER_CAPTURE_GLOBAL);
    OK(cpu_stream_capture_info(s.capturing, &status, &again, NULL, NULL, NULL));
    ck_assert(again != id);
    GIVES(U, cpu_stream_synchronize(s.capturing));
    OK(cpu_stream_capture_info(s.capturing, &status, &again, NULL, NULL, NULL));
    ck_assert(status == DRIVER_CAPTURE_INVALIDATED && again == 0);
}
END_TEST

START_TEST(handles_that_are_gone_or_of_another_kind_are_refused) {
    struct scene s;
    set(&s, false);
    capture_something(&s, DRIVER_CAPTURE_GLOBAL);
    cu_graph graph = end_on(s.capturing);
    cu_graph_exec exec = NULL;
    GIVES(1, cpu_graph_instantiate(&exec, graph, 16));
    GIVES(1, cpu_graph_instantiate(&exec, graph, 2)); /* upload: with parameters alone */
    GIVES(801, cpu_graph_instantiate(&exec, graph, 4));
    GIVES(1, cpu_graph_instantiate(NULL, graph, 0));
    cu_instantiate how = {.flags = 2 | 8, .upload = s.idle, .result = -1};
    OK(cpu_graph_instantiate_as(&exec, graph, &how));
    ck_assert_int_eq(how.result, 0);
    unsigned long long flags = 0;
    OK(cpu_graph_exec_flags(exec, &flags));
    ck_assert_uint_eq(flags, 8);
    OK(cpu_graph_upload(exec, s.idle));
    GIVES(1, cpu_graph_launch(graph, s.idle));
    GIVES(400, cpu_graph_launch(exec, graph));
    GIVES(1, cpu_graph_destroy(exec));
    OK(cpu_graph_destroy(graph));
    GIVES(1, cpu_graph_destroy(graph));
    OK(cpu_graph_exec_destroy(exec));
    GIVES(1, cpu_graph_exec_destroy(exec));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_capture");
    TCase *tcase = tcase_create("graphs");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, calls_give_what_the_documentation_says_while_a_stream_captures, 0, RULES);
    tcase_add_test(tcase, a_thread_may_swap_its_mode_for_a_call);
    tcase_add_test(tcase, synchronising_another_device_leaves_a_capture_alone);
    tcase_add_test(tcase, the_per_thread_stream_captures_and_is_each_threads_own);
    tcase_add_test(tcase, the_per_thread_stream_orders_with_the_legacy_stream);
    tcase_add_test(tcase, a_fork_that_is_not_joined_fails_the_capture);
    tcase_add_test(tcase, a_fork_without_work_of_its_own_needs_no_join);
    tcase_add_test(tcase, a_capture_ends_where_it_began);
    tcase_add_test(tcase, a_capture_ends_in_its_thread_unless_it_is_relaxed);
    tcase_add_test(tcase, captures_do_not_merge);
    tcase_add_test(tcase, an_event_of_a_capture_that_is_over_cannot_be_waited_for_until_it_is_recorded_again);
    tcase_add_test(tcase, a_stream_destroyed_in_a_capture_leaves_it_and_the_first_one_ends_it);
    tcase_add_test(tcase, external_events_are_nodes);
    tcase_add_test(tcase, capture_info_names_the_capture_its_graph_and_what_comes_next_depends_on);
    tcase_add_test(tcase, handles_that_are_gone_or_of_another_kind_are_refused);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
