/* test_cpu_threads.c - several host threads, a device each: what one waits for another may still launch. */
#include "tests/cpu_world.h"

#include <pthread.h>

/* Tells [b] the number c, then waits at most 2 s for the number c in [a]: [d] counts the waits that were in vain. */
static const char kernels[] =
    PTX_HEAD ".visible .entry meet(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {\n"
             ".reg .b64 %a, %b, %c, %d, %s, %n; .reg .b32 %v, %w; .reg .pred %p;\n"
             "ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c]; ld.param.u64 %d, [d];\n"
             "cvt.u32.u64 %w, %c; st.release.sys.global.u32 [%b], %w; mov.u64 %s, %globaltimer;\n"
             "again: ld.acquire.sys.global.u32 %v, [%a]; setp.ge.u32 %p, %v, %w; @%p ret;\n"
             "mov.u64 %n, %globaltimer; sub.u64 %n, %n, %s; setp.lt.u64 %p, %n, 2000000000; @%p bra again;\n"
             "ld.global.u32 %v, [%d]; add.u32 %v, %v, 1; st.global.u32 [%d], %v; ret; }\n"
             /* the same without a bound */
             ".visible .entry wait(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {\n"
             ".reg .b64 %a, %b, %c; .reg .b32 %v, %w; .reg .pred %p;\n"
             "ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c];\n"
             "cvt.u32.u64 %w, %c; st.release.sys.global.u32 [%b], %w;\n"
             "again: ld.acquire.sys.global.u32 %v, [%a]; setp.lt.u32 %p, %v, %w; @%p bra again; ret; }\n";

enum { RANKS = 2, ROUNDS = 50, LONGEST_US = 20000 };

struct rank {
    pthread_t thread;
    cu_function function;
    cu_ptr own, far, vain;
    unsigned number, rounds, delay_us; /* delay 0: any up to 20 ms */
    cu_result result;
};

static void pause_us(unsigned us) {
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000}, NULL);
}

/* No assertion here: a check that fails in a thread is not seen. */
static void *drive(void *argument) {
    struct rank *rank = argument;
    unsigned dice = rank->number * 2654435761u + 1;
    rank->result = cpu_ctx_set_current(contexts[rank->number]);
    for (unsigned round = 1; round <= rank->rounds && !rank->result; round++) {
        dice = dice * 1664525u + 1013904223u;
        unsigned us = rank->delay_us ? rank->delay_us : (dice >> 16) % LONGEST_US;
        if (dice >> 31 || rank->delay_us) pause_us(us);
        uint64_t a = rank->own, b = rank->far, c = round, d = rank->vain;
        rank->result = launch_with(rank->function, 1, 1, 0, NULL, false, (void *[]){&a, &b, &c, &d});
        if (!rank->result && round % 3 == 0)
            while ((rank->result = cpu_stream_query(NULL)) == 600)
                pause_us(100);
        else if (!rank->result)
            rank->result = cpu_stream_synchronize(NULL);
    }
    return NULL;
}

static void prepare(struct rank *ranks, const char *kernel) {
    make_peers(RANKS);
    for (unsigned r = 0; r < RANKS; r++) {
        on((int)r);
        cu_ptr at = words(2, 0);
        ranks[r] = (struct rank){
            .number = r, .function = function_of_text(kernels, kernel), .own = at, .vain = at + 4, .rounds = ROUNDS};
    }
    for (unsigned r = 0; r < RANKS; r++)
        ranks[r].far = ranks[1 - r].own;
}

static void run(struct rank *ranks) {
    for (unsigned r = 0; r < RANKS; r++)
        ck_assert_int_eq(pthread_create(&ranks[r].thread, NULL, drive, &ranks[r]), 0);
    for (unsigned r = 0; r < RANKS; r++)
        pthread_join(ranks[r].thread, NULL);
}

START_TEST(a_thread_a_rank_meets_however_late_each_is) {
    static const char *const names[] = {"meet", "wait"};
    for (unsigned i = 0; i < 4; i++) {
        struct rank ranks[RANKS];
        machine_with(i & 1 ? adverse(RANKS, 2, i) : fair(RANKS, 2));
        prepare(ranks, names[i / 2]);
        run(ranks);
        for (unsigned r = 0; r < RANKS; r++) {
            ck_assert_msg(ranks[r].result == 0, "rank %u: %d %s", r, ranks[r].result, dcpkcpu_report());
            on((int)r);
            ck_assert_uint_eq(word_at(ranks[r].own), ROUNDS);
            ck_assert_uint_eq(word_at(ranks[r].vain), 0);
        }
    }
}
END_TEST

START_TEST(virtual_time_goes_no_faster_than_real_time_when_threads_share) {
    struct rank ranks[RANKS];
    machine_with(fair(RANKS, 2));
    prepare(ranks, "meet");
    for (unsigned r = 0; r < RANKS; r++)
        ranks[r].rounds = 1;
    ranks[1].delay_us = 300000;
    double begin = seconds_now();
    run(ranks);
    uint64_t real = (uint64_t)((seconds_now() - begin) * 1e9);
    ck_assert_uint_lt(counters_now().virtual_ns, real + counters_now().rounds);
    ck_assert_uint_gt(counters_now().virtual_ns, 100000000); /* it does go on */
    for (unsigned r = 0; r < RANKS; r++)
        ck_assert_int_eq(ranks[r].result, 0);
}
END_TEST

START_TEST(a_bounded_poll_whose_peer_never_comes_expires) {
    struct rank ranks[RANKS];
    machine_with(fair(RANKS, 2));
    prepare(ranks, "meet");
    ranks[0].rounds = 1;
    ranks[1].rounds = 0;
    double begin = seconds_now();
    run(ranks);
    ck_assert_int_eq(ranks[0].result, 0);
    ck_assert(seconds_now() - begin > 1.9 && seconds_now() - begin < 20);
    ck_assert_uint_eq(word_at(ranks[0].vain), 1);
}
END_TEST

START_TEST(a_verdict_waits_a_second_for_other_threads) {
    struct rank ranks[RANKS];
    machine_with(fair(RANKS, 2));
    prepare(ranks, "wait");
    ranks[0].rounds = 1;
    ranks[1].rounds = 0;
    double begin = seconds_now();
    run(ranks);
    ck_assert_int_eq(ranks[0].result, 719);
    ck_assert(seconds_now() - begin > 0.9 && seconds_now() - begin < 20);
    ck_assert(strstr(dcpkcpu_report(), "none reads a timer") != NULL);
}
END_TEST

START_TEST(one_thread_alone_waits_in_no_real_time) {
    machine_with(fair(RANKS, 2));
    struct rank ranks[RANKS];
    prepare(ranks, "meet");
    on(0);
    double begin = seconds_now();
    launch(ranks[0].function, 1, 1, NULL, false, ranks[0].own, ranks[0].far, 1, ranks[0].vain);
    OK(cpu_ctx_synchronize());
    ck_assert(seconds_now() - begin < 1.9); /* of the 2 that pass there */
    ck_assert_uint_eq(word_at(ranks[0].vain), 1);
}
END_TEST

/* ---- what others may do while a call waits ---------------------------------------------------------- */
static void *synchronise(void *argument) {
    static cu_result result;
    cpu_ctx_set_current(contexts[0]);
    result = cpu_stream_synchronize(argument);
    return &result;
}

static cu_result result_of(pthread_t thread) {
    void *result = NULL;
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    return *(cu_result *)result;
}

START_TEST(a_stream_may_be_destroyed_and_memory_freed_while_another_waits) {
    struct rank ranks[RANKS];
    pthread_t thread;
    machine_with(fair(RANKS, 2));
    prepare(ranks, "wait");
    on(0);
    cu_stream stream = new_stream();
    launch(ranks[0].function, 1, 1, stream, false, ranks[0].own, ranks[0].far, 1, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, synchronise, stream), 0);
    pause_us(20000);
    OK(cpu_stream_destroy(stream));
    on(1);
    cu_ptr other = words(64, 1);
    OK(cpu_mem_free(other));
    OK(cpu_fill32(ranks[0].own, 1, 1));
    ck_assert_int_eq(result_of(thread), 0);
}
END_TEST

START_TEST(a_reset_ends_the_wait_of_another_thread) {
    struct rank ranks[RANKS];
    pthread_t thread;
    machine_with(fair(RANKS, 2));
    prepare(ranks, "wait");
    on(0);
    launch(ranks[0].function, 1, 1, NULL, false, ranks[0].own, ranks[0].far, 1, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, synchronise, NULL), 0);
    pause_us(50000);
    machine_with(fair(1, 1));
    ck_assert_int_eq(result_of(thread), 709);
    cu_ptr at = words(1, 7);
    ck_assert_uint_eq(word_at(at), 7);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_threads");
    TCase *tcase = tcase_create("threads");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_thread_a_rank_meets_however_late_each_is);
    tcase_add_test(tcase, virtual_time_goes_no_faster_than_real_time_when_threads_share);
    tcase_add_test(tcase, a_bounded_poll_whose_peer_never_comes_expires);
    tcase_add_test(tcase, a_verdict_waits_a_second_for_other_threads);
    tcase_add_test(tcase, one_thread_alone_waits_in_no_real_time);
    tcase_add_test(tcase, a_stream_may_be_destroyed_and_memory_freed_while_another_waits);
    tcase_add_test(tcase, a_reset_ends_the_wait_of_another_thread);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
