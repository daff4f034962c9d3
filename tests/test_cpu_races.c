/* test_cpu_races.c - data races of global memory that the CPU device finds: accesses that nothing orders, scopes that
 * do not hold both, reads of what the kernel before writes without griddepcontrol.wait. Each report names both
 * accesses; what is ordered, or a deliberate poll, is never one. */
#include "tests/cpu_world.h"

#define KERNEL(name, body)                                                                                             \
    ".visible .entry " name "(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {\n"                         \
    ".reg .b64 A, B, C, D; .reg .b32 t, u, v, w, x; .reg .pred p, q; .shared .align 128 .b32 tile[64];\n"              \
    ".shared .align 8 .b64 bar; .reg .b32 s, m;\n"                                                                     \
    "ld.param.u64 A, [a]; ld.param.u64 B, [b]; ld.param.u64 C, [c]; ld.param.u64 D, [d];\n"                            \
    "mov.u32 t, %tid.x; setp.ne.u32 q, t, 0; mov.u32 s, tile; mov.u32 m, bar; mov.u32 x, 7;\n" body "\nret; }\n"
#define LATER "mov.u32 w, 0; L: add.u32 w, w, 1; setp.lt.u32 p, w, 200; @p bra L;\n"
#define POLL(load) "P: " load " u, [B]; setp.eq.u32 p, u, 0; @p bra P;\n"

static const char kernels[] = PTX_HEAD
    /* the data A, then the flag B */
    KERNEL("tell", "@q exit; st.global.u32 [A], 7; st.relaxed.sys.global.u32 [B], 1;")
        KERNEL("tell_released", "@q exit; st.global.u32 [A], 7; st.release.sys.global.u32 [B], 1;")
            KERNEL("tell_gpu", "@q exit; st.global.u32 [A], 7; st.release.gpu.global.u32 [B], 1;")
                KERNEL("tell_self", "@q exit; st.relaxed.sys.global.u32 [B], 7;")
    /* waits for B, then C = A */
    KERNEL("hear", "@q exit; " POLL("ld.relaxed.sys.global.u32") "ld.global.u32 v, [A]; st.global.u32 [C], v;") KERNEL(
        "hear_acquired", "@q exit; " POLL("ld.acquire.sys.global.u32") "ld.global.u32 v, [A]; st.global.u32 [C], v;")
        KERNEL("hear_gpu", "@q exit; " POLL("ld.acquire.gpu.global.u32") "ld.global.u32 v, [A]; st.global.u32 "
                                                                         "[C], v;")
            KERNEL("hear_self", "@q exit; " POLL("ld.volatile.global.u32") "ld.global.u32 v, [B]; "
                                                                           "st.global.u32 [C], v;")
                KERNEL("hear_weak", "@q exit; " POLL("ld.global.u32"))
    /* A = 7; A = 8 */
    KERNEL("writes", "@q exit; griddepcontrol.launch_dependents;" LATER "st.global.u32 [A], x;")
        KERNEL("writes_long", "@q exit; st.global.u32 [A], x;" LATER)
            KERNEL("writes_other", "@q exit; st.global.u32 [A], 8;")
                KERNEL("atomic", "@q exit; red.relaxed.gpu.global.add.u32 [A], 1;")
    /* C = A: before the wait, behind it, by asynchronous copies that are begun before it */
    KERNEL("reads", "@q exit; ld.global.u32 v, [A]; griddepcontrol.wait; st.global.u32 [C], v;")
        KERNEL("waits", "griddepcontrol.wait; @q exit; ld.global.u32 v, [A]; st.global.u32 [C], v;")
            KERNEL("never_waits", "@q exit; ld.global.u32 v, [A]; st.global.u32 [C], v;") KERNEL(
                "one_waits", "@q bra M; griddepcontrol.wait; M: bar.sync 0; setp.ne.u32 q, t, 32; @q exit; "
                             "ld.global.u32 v, [A]; st.global.u32 [C], v;")
                KERNEL("copies", "@q exit; cp.async.ca.shared.global [s], [A], 4; cp.async.wait_all; "
                                 "griddepcontrol.wait; ld.shared.u32 v, [s]; st.global.u32 [C], v;")
                    KERNEL("bulk", "@q exit; mbarrier.init.shared.b64 [m], 1; "
                                   "mbarrier.arrive.expect_tx.shared.b64 _, [m], 256;\n"
                                   "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [A], 256, "
                                   "[m]; griddepcontrol.wait;\n"
                                   "T: mbarrier.try_wait.parity.shared.b64 p, [m], 0; @!p bra T; ld.shared.u32 v, [s]; "
                                   "st.global.u32 [C], v;")
                        KERNEL("bulk_behind",
                               "@q exit; mbarrier.init.shared.b64 [m], 1; griddepcontrol.wait; "
                               "mbarrier.arrive.expect_tx.shared.b64 _, [m], 256;\n"
                               "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [A], 256, [m];\n"
                               "T: mbarrier.try_wait.parity.shared.b64 p, [m], 0; @!p bra T; ld.shared.u32 v, [s]; "
                               "st.global.u32 [C], v;")
    /* warp 1 reads what warp 0 has stored, without and with a barrier */
    KERNEL("warps", "setp.eq.u32 p, t, 0; @p st.global.u32 [A], x;" LATER "setp.eq.u32 p, t, 32; @p ld.global.u32 v, "
                    "[A];")
        KERNEL("warps_meet", "setp.eq.u32 p, t, 0; @p st.global.u32 [A], x; bar.sync 0; setp.eq.u32 p, t, 32; @p "
                             "ld.global.u32 v, [A];");

enum { SEEDS = 24 };

/* ---- two kernels at once ---------------------------------------------------------------------------- */
struct pair {
    const char *first, *second;
    bool apart; /* the second runs on another device */
};

/* What the wait for the current device and for device 0 gives; *result: the word there, where both end well. */
static cu_result both_end(cu_ptr at, uint32_t *result) {
    cu_result ends = cpu_ctx_synchronize();
    if (ends) return ends;
    on(0);
    ends = cpu_ctx_synchronize();
    if (!ends) *result = word_at(at);
    return ends;
}

/* What the wait for both gives. */
static cu_result run_both(const struct pair *pair, const dcpkcpu_options *options, uint32_t *result) {
    machine_with(*options);
    if (pair->apart) make_peers(2);
    cu_ptr at = words(192, 0);
    cu_function first = function_on(0, kernels, pair->first), second = function_on(pair->apart, kernels, pair->second);
    launch(first, 1, 32, new_stream(), false, at, at + 256, at + 512, 0);
    on(pair->apart);
    launch(second, 1, 32, new_stream(), false, at, at + 256, at + 512, 0);
    return both_end(at + 512, result);
}

static unsigned races_of(const struct pair *pair, const char *const *says) {
    unsigned races = 0;
    uint32_t result = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        dcpkcpu_options options = adverse(2, 2, seed);
        if (!run_both(pair, &options, &result)) continue;
        if (says) report_says(says);
        races++;
    }
    return races;
}

START_TEST(accesses_that_nothing_orders_are_a_race_and_both_are_named) {
    static const struct {
        struct pair pair;
        const char *says[8];
    } cases[] = {
        {{"tell", "hear", false},
         {"data race", "kernel tell, PTX line", "`st.global.u32 [A], 7;`", "the weak store", "kernel hear, PTX line",
          "`ld.global.u32 v, [A];`", "this weak load is not behind it"}},
        {{"tell", "hear", true}, {"data race", "`st.global.u32 [A], 7;`", "`ld.global.u32 v, [A];`"}},
        {{"tell", "hear_acquired", true}, {"data race", "`st.global.u32 [A], 7;`", "`ld.global.u32 v, [A];`"}},
        {{"tell_released", "hear", true}, {"data race", "`st.global.u32 [A], 7;`", "`ld.global.u32 v, [A];`"}},
        {{"tell_gpu", "hear_acquired", true}, {"data race", "their scopes do not hold both"}},
        {{"tell_released", "hear_gpu", true}, {"data race", "their scopes do not hold both"}},
        {{"tell_self", "hear_weak", false}, {"data race", "the strong store", "this weak load"}},
        {{"writes", "writes_other", false}, {"data race", "`st.global.u32 [A], x;`", "`st.global.u32 [A], 8;`"}},
        {{"writes", "writes_other", true}, {"data race", "`st.global.u32 [A], x;`", "`st.global.u32 [A], 8;`"}},
        {{"writes", "atomic", false}, {"data race", "`st.global.u32 [A], x;`", "`red.relaxed.gpu.global.add"}},
    };
    ck_assert_int_lt(_i, (int)(sizeof cases / sizeof cases[0]));
    ck_assert_uint_ge(races_of(&cases[_i].pair, cases[_i].says), 3);
}
END_TEST
enum { RACES = 10 };

START_TEST(messages_with_release_and_acquire_and_polled_words_are_none) {
    static const struct pair pairs[] = {{"tell_released", "hear_acquired", false},
                                        {"tell_released", "hear_acquired", true},
                                        {"tell_gpu", "hear_gpu", false},
                                        {"tell_self", "hear_self", false},
                                        {"tell_self", "hear_self", true}};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        dcpkcpu_options options = adverse(2, 2, seed);
        uint32_t result = 0;
        OK(run_both(&pairs[_i], &options, &result));
        ck_assert_uint_eq(result, 7);
    }
}
END_TEST

START_TEST(races_may_be_allowed_and_do_what_they_do) {
    static const struct pair pair = {"tell", "hear", true};
    unsigned early = 0, right = 0;
    for (uint64_t seed = 0; seed < 10 * SEEDS && !(early && right); seed++) {
        dcpkcpu_options options = adverse_with_races(2, 2, seed);
        uint32_t result = 9;
        OK(run_both(&pair, &options, &result));
        ck_assert(result == 0 || result == 7);
        early += result == 0;
        right += result == 7;
    }
    ck_assert_uint_gt(early, 0);
    ck_assert_uint_gt(right, 0);
}
END_TEST

START_TEST(warps_of_a_block_race_until_they_meet) {
    unsigned races = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (int meet = 0; meet < 2; meet++) {
            machine_with(adverse(1, 1, seed));
            launch(function_on(0, kernels, meet ? "warps_meet" : "warps"), 1, 64, NULL, false, words(1, 0), 0, 0, 0);
            cu_result ends = cpu_ctx_synchronize();
            ck_assert(!meet || !ends);
            races += ends != 0;
        }
    ck_assert_uint_ge(races, 3);
}
END_TEST

/* ---- streams ---------------------------------------------------------------------------------------- */
/* `writes_long`, then `never_waits` in another stream, behind an event or not. */
START_TEST(an_event_orders_streams) {
    unsigned races = 0;
    for (uint64_t seed = 0; seed < 2 * SEEDS; seed++) {
        bool event = seed & 1;
        machine_with(adverse(1, 4, seed));
        cu_stream first = new_stream(), second = new_stream();
        cu_ptr at = words(192, 0);
        launch(function_on(0, kernels, "writes_long"), 1, 32, first, false, at, 0, 0, 0);
        if (event) {
            cu_event there = NULL;
            OK(cpu_event_create(&there, 0));
            OK(cpu_event_record(there, first));
            OK(cpu_stream_wait_event(second, there, 0));
        }
        launch(function_on(0, kernels, "never_waits"), 1, 32, second, false, at, 0, at + 512, 0);
        cu_result ends = cpu_ctx_synchronize();
        ck_assert_msg(!event || !ends, "%s", dcpkcpu_report());
        races += ends != 0;
        if (event) ck_assert_uint_eq(word_at(at + 512), 7);
    }
    ck_assert_uint_ge(races, 3);
}
END_TEST

/* `writes_other` in a stream, then a reader in another; between them what orders, and what does not. */
enum between { NOTHING, ENDED, OTHER_STREAM, EVENT, HOST_WAITS, HOST_ASKS, HOST_EVENT, BETWEENS };
enum reader { KERNEL, COPY, FILL, READERS };

static void come_between(enum between between, cu_stream first, cu_stream second, cu_stream third) {
    cu_event there = NULL;
    OK(cpu_event_create(&there, 0));
    OK(cpu_event_record(there, first));
    if (between == EVENT) OK(cpu_stream_wait_event(second, there, 0));
    if (between == HOST_WAITS) OK(cpu_stream_synchronize(first));
    if (between == HOST_EVENT) OK(cpu_event_synchronize(there));
    while (between == HOST_ASKS && cpu_stream_query(first) == 600)
        continue;
    if (between != ENDED && between != OTHER_STREAM) return;
    launch(function_on(0, kernels, "writes_long"), 1, 32, third, false, words(1, 0), 0, 0, 0); /* takes its time */
    if (between == OTHER_STREAM) OK(cpu_stream_synchronize(third));
}

static cu_result read_after(enum between between, enum reader reader, uint64_t seed, uint32_t *result) {
    dcpkcpu_options options = seed ? adverse(1, 4, seed) : fair(1, 4);
    options.store_tracking = DCPKCPU_TRACKING_ON;
    machine_with(options);
    cu_stream first = new_stream(), second = new_stream(), third = new_stream();
    cu_ptr at = words(192, 0);
    launch(function_on(0, kernels, "writes_other"), 1, 32, first, false, at, 0, 0, 0);
    come_between(between, first, second, third);
    if (reader == KERNEL) launch(function_on(0, kernels, "never_waits"), 1, 32, second, false, at, 0, at + 512, 0);
    if (reader == COPY) OK(cpu_copy_on_device_async(at + 512, at, 4, second));
    if (reader == FILL) OK(cpu_fill32_async(at, 8, 1, second));
    cu_result ends = cpu_ctx_synchronize();
    *result = ends ? 0 : word_at(reader == FILL ? at : at + 512);
    return ends;
}

START_TEST(what_has_ended_by_luck_is_not_behind) {
    const enum between between = (enum between)(_i % BETWEENS);
    const enum reader reader = (enum reader)(_i / BETWEENS);
    unsigned races = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint32_t result = 0;
        cu_result ends = read_after(between, reader, seed, &result);
        if (ends) {
            ck_assert_msg(between < EVENT, "%d %d, seed %d: %s", between, reader, (int)seed, dcpkcpu_report());
            report_says((const char *[]){"data race", "`st.global.u32 [A], 8;`", NULL});
            races++;
        } else if (reader != FILL) { /* else the read came first */
            ck_assert_msg(result == (between < EVENT ? 0 : 8), "%d %d, seed %d", between, reader, (int)seed);
        }
    }
    if (between < EVENT && (between == OTHER_STREAM || reader == KERNEL)) ck_assert_uint_ge(races, 3);
    if (between == OTHER_STREAM && reader == KERNEL) ck_assert_uint_ge(races, SEEDS / 2);
}
END_TEST

static cu_event recorded(int device, cu_stream stream) {
    cu_event event = NULL;
    on(device);
    OK(cpu_event_create(&event, 0));
    OK(cpu_event_record(event, stream));
    return event;
}

/* `writes_long` on device 0, `never_waits` on device 2, between them events through device 1, or through the host. */
static cu_result write_far_read(dcpkcpu_options options, bool ordered, bool by_host, uint32_t *result) {
    machine_with(options);
    make_peers(3);
    cu_stream streams[3];
    for (int d = 0; d < 3; d++) {
        on(d);
        streams[d] = new_stream();
    }
    on(0);
    cu_ptr at = words(192, 0);
    cu_function writes = function_on(0, kernels, "writes_long"), reads = function_on(2, kernels, "never_waits");
    cu_event old = recorded(0, streams[0]); /* of nothing: a later record of it counts */
    launch(writes, 1, 32, streams[0], false, at, 0, 0, 0);
    if (ordered && by_host) {
        OK(cpu_event_record(old, streams[0]));
        OK(cpu_event_synchronize(old));
    } else if (ordered) {
        OK(cpu_event_record(old, streams[0]));
        on(1);
        OK(cpu_stream_wait_event(streams[1], old, 0));
        cu_event second = recorded(1, streams[1]);
        on(2);
        OK(cpu_stream_wait_event(streams[2], second, 0));
    }
    on(2);
    launch(reads, 1, 32, streams[2], false, at, 0, at + 512, 0);
    return both_end(at + 512, result);
}

/* In the adversary's schedules, and in the fair one where it tracks stores. */
START_TEST(events_order_streams_of_different_devices) {
    unsigned races = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        dcpkcpu_options options = seed ? adverse(3, 2, seed) : fair(3, 2);
        uint32_t result = 0;
        options.store_tracking = DCPKCPU_TRACKING_ON;
        cu_result ends = write_far_read(options, true, _i, &result);
        ck_assert_msg(!ends, "seed %d: %s", (int)seed, dcpkcpu_report());
        ck_assert_uint_eq(result, 7);
        races += write_far_read(options, false, _i, &result) != 0;
        if (!seed) ck_assert_uint_eq(races, 1);
    }
    ck_assert_uint_ge(races, 3);
}
END_TEST

/* ---- griddepcontrol.wait ---------------------------------------------------------------------------- */
enum { SEEDS_OF_A_PAIR = 40 };

/* `writes`, then the dependent; captured: as a graph. What the wait for both gives. */
static cu_result run_dependent(const char *dependent, bool captured, const dcpkcpu_options *options, uint32_t *result) {
    machine_with(*options);
    cu_stream stream = new_stream();
    cu_ptr at = words(192, 5);
    cu_function writes = function_on(0, kernels, "writes"), reads = function_on(0, kernels, dependent);
    if (captured) OK(cpu_stream_begin_capture(stream, 0));
    launch(writes, 1, 32, stream, false, at, 0, 0, 0);
    launch(reads, 1, 64, stream, true, at, 0, at + 512, 0);
    if (captured) {
        cu_graph graph = NULL;
        cu_graph_exec exec = NULL;
        OK(cpu_stream_end_capture(stream, &graph));
        OK(cpu_graph_instantiate(&exec, graph, 0));
        OK(cpu_graph_launch(exec, stream));
    }
    cu_result ends = cpu_ctx_synchronize();
    if (!ends) *result = word_at(at + 512);
    return ends;
}

START_TEST(what_the_kernel_before_writes_may_not_be_read_before_the_wait) {
    static const char *const dependents[][2] = {{"reads", "`ld.global.u32 v, [A];`"},
                                                {"never_waits", "`ld.global.u32 v, [A];`"},
                                                {"copies", "`cp.async.ca.shared.global [s], [A], 4;`"},
                                                {"bulk", "`cp.async.bulk.shared::cluster.global"}};
    const char *const *dependent = dependents[_i / 2];
    uint32_t result = 0;
    for (uint64_t seed = 0; seed < SEEDS_OF_A_PAIR; seed++) { /* whatever the schedule does */
        dcpkcpu_options options = adverse(1, 4, seed);
        cu_result ends = run_dependent(dependent[0], _i % 2, &options, &result);
        ck_assert_msg(ends == 719, "%s went unnoticed under seed %d", dependent[0], (int)seed);
        report_says((const char *[]){"data race", dependent[0], dependent[1], "`st.global.u32 [A], x;`",
                                     "griddepcontrol.wait", NULL});
    }
}
END_TEST

START_TEST(behind_the_wait_it_may) {
    static const char *const dependents[] = {"waits", "bulk_behind", "one_waits"};
    for (uint64_t seed = 0; seed < SEEDS_OF_A_PAIR; seed++) {
        dcpkcpu_options options = adverse(1, 4, seed);
        uint32_t result = 0;
        OK(run_dependent(dependents[_i / 2], _i % 2, &options, &result));
        ck_assert_uint_eq(result, 7);
    }
}
END_TEST

/* Weights: the host has written them, or a kernel that the host or a plain launch has waited for. */
START_TEST(what_no_unfinished_kernel_writes_may_be_read_before_the_wait) {
    unsigned early = 0;
    for (uint64_t seed = 0; seed < SEEDS_OF_A_PAIR; seed++) {
        machine_with(adverse(1, 4, seed));
        cu_stream stream = new_stream();
        cu_ptr weights = words(192, 5), at = words(192, 0);
        if (seed % 2) launch(function_on(0, kernels, "writes_other"), 1, 32, stream, false, weights, 0, 0, 0);
        if (seed % 4 == 1) OK(cpu_stream_synchronize(stream));
        launch(function_on(0, kernels, "writes"), 1, 32, stream, false, at, 0, 0, 0);
        launch(function_on(0, kernels, seed % 8 < 4 ? "reads" : "bulk"), 1, 64, stream, true, weights, 0, at + 512, 0);
        OK(cpu_ctx_synchronize());
        ck_assert_uint_eq(word_at(at + 512), seed % 2 ? 8 : 5);
        early += counters_now().pdl_early > 0;
    }
    ck_assert_uint_gt(early, 5);
}
END_TEST

/* With the memory checker or without. */
START_TEST(the_fair_schedule_finds_it_where_it_is_asked_to) {
    dcpkcpu_options options = fair(1, 4);
    uint32_t result = 0;
    options.memory_checker = _i ? DCPKCPU_CHECKER_ON : DCPKCPU_CHECKER_OFF;
    options.store_tracking = DCPKCPU_TRACKING_ON;
    GIVES(719, run_dependent("reads", false, &options, &result));
    report_says((const char *[]){"data race", "`ld.global.u32 v, [A];`", "`st.global.u32 [A], x;`", NULL});
    OK(run_dependent("waits", false, &options, &result));
    ck_assert_uint_eq(result, 7);
    options.store_tracking = _i ? DCPKCPU_TRACKING_OFF : DCPKCPU_TRACKING_AUTO;
    OK(run_dependent("reads", false, &options, &result));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_races");
    TCase *tests = tcase_create("races");
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_loop_test(tests, accesses_that_nothing_orders_are_a_race_and_both_are_named, 0, RACES);
    tcase_add_loop_test(tests, messages_with_release_and_acquire_and_polled_words_are_none, 0, 5);
    tcase_add_test(tests, races_may_be_allowed_and_do_what_they_do);
    tcase_add_test(tests, warps_of_a_block_race_until_they_meet);
    tcase_add_test(tests, an_event_orders_streams);
    tcase_add_loop_test(tests, what_has_ended_by_luck_is_not_behind, 0, BETWEENS * READERS);
    tcase_add_loop_test(tests, events_order_streams_of_different_devices, 0, 2);
    tcase_add_loop_test(tests, what_the_kernel_before_writes_may_not_be_read_before_the_wait, 0, 8);
    tcase_add_loop_test(tests, behind_the_wait_it_may, 0, 6);
    tcase_add_test(tests, what_no_unfinished_kernel_writes_may_be_read_before_the_wait);
    tcase_add_loop_test(tests, the_fair_schedule_finds_it_where_it_is_asked_to, 0, 2);
    return run_suite(suite);
}
