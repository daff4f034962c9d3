/* cpu_graph.h - what the suites of stream capture and graphs share: kernels, streams that capture, and a scene of a
 * stream that captures beside what a call may touch. */
#ifndef TESTS_CPU_GRAPH_H
#define TESTS_CPU_GRAPH_H

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

static inline cu_function kernel(const char *name) {
    return function_of_text(kernels, name);
}

static inline cu_stream begin_on(cu_stream stream) {
    OK(cpu_stream_begin_capture(stream, DRIVER_CAPTURE_GLOBAL));
    return stream;
}

static inline cu_graph end_on(cu_stream stream) {
    cu_graph graph = NULL;
    OK(cpu_stream_end_capture(stream, &graph));
    ck_assert_ptr_nonnull(graph);
    return graph;
}

static inline cu_graph_exec exec_of(cu_graph graph) {
    cu_graph_exec exec = NULL;
    OK(cpu_graph_instantiate(&exec, graph, 0));
    return exec;
}

static inline int status_of(cu_stream stream) {
    int status = -1;
    OK(cpu_stream_is_capturing(stream, &status));
    return status;
}

static inline size_t node_count(cu_graph graph) {
    size_t count = 0;
    OK(cpu_graph_nodes(graph, NULL, &count));
    return count;
}

static inline void wait_for(cu_event event, cu_stream stream) {
    OK(cpu_stream_wait_event(stream, event, 0));
}

static inline cu_event new_event(void) {
    cu_event event = NULL;
    OK(cpu_event_create(&event, 0));
    return event;
}

/* The other stream is behind what this one has done or captured so far. */
static inline void follow(cu_stream from, cu_stream to) {
    cu_event event = new_event();
    OK(cpu_event_record(event, from));
    wait_for(event, to);
    OK(cpu_event_destroy(event));
}

static inline void check_edges(cu_graph graph, const char *types) {
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

/* results of calls while a stream captures */
enum { U = 900, INVALID = 901, IMPLICIT = 906, CAPTURED = 907 };

struct scene { /* what the calls below use: capturing is captured into, idle is not */
    cu_stream capturing, idle;
    cu_event captured, recorded, fresh;
    cu_ptr at;
    cu_function add;
    cu_library library;
    void *pinned;
};

typedef cu_result scene_call(struct scene *s);
static inline void set(struct scene *s, bool blocking) {
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

static inline void capture_something(struct scene *s, int mode) {
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

static inline void *call_elsewhere(void *self) {
    struct elsewhere *e = self;
    cpu_ctx_set_current(contexts[0]);
    if (e->mode >= 0) cpu_thread_capture_mode(&e->mode);
    e->result = e->call(e->scene);
    return NULL;
}

static inline cu_result from_another_thread(struct scene *s, scene_call *call, int mode) {
    struct elsewhere elsewhere = {.scene = s, .call = call, .mode = mode};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, call_elsewhere, &elsewhere), 0);
    pthread_join(thread, NULL);
    return elsewhere.result;
}

static inline cu_result end_capturing(struct scene *s) {
    cu_graph graph = NULL;
    return cpu_stream_end_capture(s->capturing, &graph);
}

#endif
