/* test_cpu_graph.c - stream capture and graphs on the CPU device: what is captured, what is refused and with which
 * result, how launches of an executable graph are ordered, and that nothing outlives what holds it. The results are
 * those of the driver's documentation; whole layers: test_layer_captured.c. */
#include "tests/cpu_world.h"

#include <pthread.h>

#define KERNEL(name) ".visible .entry " name "(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n"
#define LOADS                                                                                                          \
    "{ .reg .b64 %a, %b, %c, %d; .reg .b32 %t, %v, %w; .reg .pred %p;\n"                                               \
    "ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c]; ld.param.u64 %d, [d];\n"
#define SPIN "cvt.u32.u64 %t, %c; again: sub.u32 %t, %t, 1; setp.ne.u32 %p, %t, 0; @%p bra again;\n"

static const char kernels[] = PTX_HEAD
    /* [a] += b, after c turns; lets its dependents in at once */
    KERNEL("add") LOADS "griddepcontrol.wait; griddepcontrol.launch_dependents;\n" SPIN
                        "cvt.u32.u64 %w, %b; atom.global.add.u32 %v, [%a], %w; ret; }\n"
    /* [a] = [a] * 2 + b, after c turns: the order of two shows */
    KERNEL("step") LOADS
    "griddepcontrol.wait; griddepcontrol.launch_dependents;\n" SPIN
    "cvt.u32.u64 %w, %b; ld.global.u32 %v, [%a]; mad.lo.u32 %v, %v, 2, %w; st.global.u32 [%a], %v; ret; }\n"
    /* [b] = [a]; with the wait and without */
    KERNEL("copies_waits") LOADS "griddepcontrol.wait; griddepcontrol.launch_dependents;\n"
                                 "ld.global.u32 %v, [%a]; st.global.u32 [%b], %v; ret; }\n" KERNEL("copies_early") LOADS
    "griddepcontrol.launch_dependents; ld.global.u32 %v, [%a]; st.global.u32 [%b], %v; ret; }\n" KERNEL("goes_on") LOADS
    "griddepcontrol.launch_dependents; ret; }\n"
    /* waits until [a] is b, then [a] = c: two grids at once play ball */
    KERNEL("ball") LOADS "cvt.u32.u64 %t, %b; cvt.u32.u64 %w, %c;\n"
                         "again: ld.relaxed.sys.global.u32 %v, [%a]; setp.ne.u32 %p, %v, %t; @%p bra again;\n"
                         "st.relaxed.sys.global.u32 [%a], %w; ret; }\n"
    /* ranks of a cluster of two: [a + 4 rank] = rank + 1 */
    KERNEL("ranks") LOADS
    "mov.u32 %t, %cluster_ctarank; mul.wide.u32 %b, %t, 4; add.u64 %a, %a, %b; add.u32 %t, %t, 1;\n"
    "st.global.u32 [%a], %t; ret; }\n";

static cu_function kernel(const char *name) {
    return function_of_text(kernels, name);
}

static cu_stream begin_on(cu_stream stream) {
    OK(cpu_stream_begin_capture(stream, DRIVER_CAPTURE_GLOBAL));
    return stream;
}

static cu_graph end_on(cu_stream stream) {
    cu_graph graph = NULL;
    OK(cpu_stream_end_capture(stream, &graph));
    ck_assert_ptr_nonnull(graph);
    return graph;
}

static cu_graph_exec exec_of(cu_graph graph) {
    cu_graph_exec exec = NULL;
    OK(cpu_graph_instantiate(&exec, graph, 0));
    return exec;
}

static int status_of(cu_stream stream) {
    int status = -1;
    OK(cpu_stream_is_capturing(stream, &status));
    return status;
}

static size_t node_count(cu_graph graph) {
    size_t count = 0;
    OK(cpu_graph_nodes(graph, NULL, &count));
    return count;
}

static void wait_for(cu_event event, cu_stream stream) {
    OK(cpu_stream_wait_event(stream, event, 0));
}

static cu_event new_event(void) {
    cu_event event = NULL;
    OK(cpu_event_create(&event, 0));
    return event;
}

/* The other stream is behind what this one has done or captured so far. */
static void follow(cu_stream from, cu_stream to) {
    cu_event event = new_event();
    OK(cpu_event_record(event, from));
    wait_for(event, to);
    OK(cpu_event_destroy(event));
}

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
static void check_edges(cu_graph graph, const char *types) {
    cu_graph_node from[8], to[8];
    cu_edge data[8];
    size_t count = 8;
    OK(cpu_graph_edges(graph, from, to, data, &count));
    ck_assert_uint_eq(count, strlen(types));
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_eq(data[i].type, types[i] == 'p');
        ck_assert_int_eq(data[i].from_port, types[i] == 'p');
        ck_assert_int_eq(data[i].to_port, 0);
    }
}

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

/* ---- what is refused ------------------------------------------------------------------------------- */
struct scene { /* what the calls below use: capturing is captured into, idle is not */
    cu_stream capturing, idle;
    cu_event captured, recorded, fresh;
    cu_ptr at;
    cu_function add;
    cu_library library;
    void *pinned;
};

typedef cu_result scene_call(struct scene *s);
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

enum { U = 900, INVALID = 901, IMPLICIT = 906, CAPTURED = 907 };

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

static void set(struct scene *s, bool blocking) {
    machine_with(fair(1, 2));
    *s = (struct scene){.idle = new_stream(), .captured = new_event(), .recorded = new_event(), .fresh = new_event()};
    OK(cpu_stream_create(&s->capturing, blocking ? 0 : DRIVER_STREAM_NON_BLOCKING));
    s->at = words(2, 0);
    s->library = library_of_text(kernels);
    OK(cpu_mem_host_alloc(&s->pinned, 64, 0));
    s->add = kernel("add");
    OK(cpu_event_record(s->recorded, s->idle));
    OK(cpu_stream_synchronize(s->idle));
}

static void capture_something(struct scene *s, int mode) {
    OK(cpu_stream_begin_capture(s->capturing, mode));
    launch(s->add, 1, 1, s->capturing, false, s->at, 1, 1, 0);
    OK(cpu_event_record(s->captured, s->capturing));
}

struct elsewhere {
    struct scene *scene;
    scene_call *call;
    cu_result result;
    int mode; /* of the thread; -1: as it is */
};

static void *call_elsewhere(void *self) {
    struct elsewhere *e = self;
    cpu_ctx_set_current(contexts[0]);
    if (e->mode >= 0) cpu_thread_capture_mode(&e->mode);
    e->result = e->call(e->scene);
    return NULL;
}

static cu_result from_another_thread(struct scene *s, scene_call *call, int mode) {
    struct elsewhere elsewhere = {.scene = s, .call = call, .mode = mode};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, call_elsewhere, &elsewhere), 0);
    pthread_join(thread, NULL);
    return elsewhere.result;
}

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

static cu_result end_capturing(struct scene *s) {
    cu_graph graph = NULL;
    return cpu_stream_end_capture(s->capturing, &graph);
}

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
    tcase_add_loop_test(tcase, calls_give_what_the_documentation_says_while_a_stream_captures, 0, RULES);
    tcase_add_test(tcase, a_thread_may_swap_its_mode_for_a_call);
    tcase_add_test(tcase, synchronising_another_device_leaves_a_capture_alone);
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
    tcase_add_test(tcase, a_user_object_goes_with_the_last_graph_executable_and_launch);
    tcase_add_test(tcase, a_capture_that_fails_lets_go_of_its_objects);
    tcase_add_test(tcase, a_launch_that_reached_what_is_gone_is_said_not_done);
    tcase_add_test(tcase, a_captured_launch_of_a_graph_is_a_child);
    tcase_add_test(tcase, a_reset_forgets_captures_and_graphs);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
