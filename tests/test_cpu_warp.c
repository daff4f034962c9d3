/* test_cpu_warp.c - threads together: shuffles, votes, divergence, .sync operations, barriers, and the faults of each.
 */
#include "tests/cpu_snippet.h"

static struct snippet_in in[256];
static struct snippet_out out[256];

static void numbered(void) {
    for (size_t i = 0; i < 256; i++)
        in[i] = (struct snippet_in){i % 32, 1000 + i, i * i, 0};
}

/* the manual's pseudo-code of shfl, for lane `lane` of 32 with values 1000 + lane */
static uint32_t shuffled(const char *mode, int lane, int b, int c, bool *in_range) {
    int segment = c >> 8 & 31, clamp = c & 31, most = (lane & segment) | (clamp & ~segment & 31),
        least = lane & segment, j;
    if (!strcmp(mode, "up")) {
        j = lane - b;
        *in_range = j >= most;
    } else {
        j = !strcmp(mode, "down") ? lane + b : !strcmp(mode, "bfly") ? lane ^ b : (least | (b & ~segment & 31));
        *in_range = j <= most;
    }
    return 1000 + (uint32_t)(*in_range ? j : lane);
}

START_TEST(shfl_reads_the_lane_the_manual_says) {
    static const char *const modes[] = {"up", "down", "bfly", "idx"};
    static const int clamps[] = {0x1F, 0, 0x181F, 0x1800, 0x101F, 0x0F};
    machine_with(fair(1, 1));
    numbered();
    for (int mode = 0; mode < 4; mode++)
        for (int k = 0; k < 6; k++)
            for (int b = 0; b < 32; b += 1 + b / 3) {
                char snippet[128];
                snprintf(snippet, sizeof snippet, "shfl.sync.%s.b32 d|p, b, %d, %d, -1; selp.b32 e, 1, 0, p;",
                         modes[mode], b, clamps[k]);
                evaluate(snippet, 'w', in, out, 32);
                for (int lane = 0; lane < 32; lane++) {
                    bool range;
                    uint32_t want = shuffled(modes[mode], lane, b, clamps[k], &range);
                    ck_assert_msg(out[lane].d == want && out[lane].e == range, "%s lane %d: %u %u", snippet, lane,
                                  (unsigned)out[lane].d, (unsigned)out[lane].e);
                }
            }
}
END_TEST

START_TEST(votes_matches_and_reductions_by_hand) {
    machine_with(fair(1, 1));
    numbered();
    evaluate(
        "setp.lt.u32 p, a, 5; vote.sync.ballot.b32 d, p, 0xffffffff; vote.sync.any.pred q, p, -1; selp.b32 e, 1, 0, q;",
        'w', in, out, 32);
    ck_assert(out[9].d == 0x1F && out[9].e == 1);
    evaluate("setp.lt.u32 p, a, 32; vote.sync.all.pred q, p, -1; selp.b32 d, 1, 0, q; vote.sync.uni.pred q, !p, -1; "
             "selp.b32 e, 1, 0, q;",
             'w', in, out, 32);
    ck_assert(out[0].d == 1 && out[31].e == 1);
    evaluate("and.b32 f, a, 3; match.any.sync.b32 d, f, -1; match.all.sync.b32 e|p, f, -1;", 'w', in, out, 32);
    for (int i = 0; i < 32; i++)
        ck_assert(out[i].d == UINT32_C(0x11111111) << (i & 3) && out[i].e == 0);
    evaluate("match.all.sync.b64 d|p, X, -1; selp.b32 e, 1, 0, p;", 'w', in, out, 32);
    ck_assert(out[17].d == 0xFFFFFFFF && out[17].e == 1);
    evaluate("sub.s32 f, a, 16; redux.sync.add.s32 d, f, -1; redux.sync.min.s32 e, f, -1;", 'w', in, out, 32);
    ck_assert((int32_t)out[3].d == -16 && (int32_t)out[3].e == -16);
    evaluate("redux.sync.max.u32 d, b, -1; redux.sync.xor.b32 e, c, -1;", 'w', in, out, 32);
    uint32_t x = 0;
    for (uint32_t i = 0; i < 32; i++)
        x ^= i * i;
    ck_assert(out[30].d == 1031 && out[30].e == x);
    evaluate("elect.sync d|p, -1; selp.b32 e, 1, 0, p;", 'w', in, out, 32);
    for (int i = 0; i < 32; i++)
        ck_assert(out[i].d == 0 && out[i].e == (i == 0));
    evaluate("setp.ge.u32 p, a, 20; @p activemask.b32 d; @p elect.sync e|q, 0xFFF00000;", 'w', in, out, 32);
    ck_assert(out[19].d == 0 && out[20].d == 0xFFF00000 && out[31].e == 20);
}
END_TEST

START_TEST(diverged_threads_loop_their_own_counts_and_meet_again) {
    machine_with(fair(1, 1));
    numbered();
    evaluate("mov.u32 d, 0; mov.u32 f, a; LOOP: setp.eq.u32 p, f, 0; @p bra OUT; add.u32 d, d, f; sub.u32 f, f, 1; bra "
             "LOOP; OUT: activemask.b32 e;",
             'w', in, out, 64);
    for (uint32_t i = 0; i < 64; i++)
        ck_assert(out[i].d == (i % 32) * (i % 32 + 1) / 2 && out[i].e == 0xFFFFFFFF);
}
END_TEST

/* Even lanes work in 64-bit registers, odd ones in 32-bit registers that are dead where the others are live: whatever
 * slots they share, no lane may touch another's. */
START_TEST(diverged_threads_of_different_widths_keep_their_values) {
    machine_with(_i ? adverse(1, 1, (uint64_t)_i) : fair(1, 1));
    numbered();
    evaluate(
        "and.b32 f, a, 1; setp.ne.u32 p, f, 0; mov.u32 g, 0; @p bra ODD;\n"
        "{ .reg .b64 u, v, w; mov.u64 u, A; mov.u64 v, B; mov.u64 w, C;\n"
        "EVEN: mad.lo.u64 u, u, 3, v; xor.b64 v, v, w; add.u64 w, w, u; add.u32 g, g, 1; setp.lt.u32 p, g, 9; @p bra "
        "EVEN; mov.u64 D, u; xor.b64 E, v, w; } bra OUT;\n"
        "ODD: { .reg .b32 k, l, m, n; mov.u32 k, a; mov.u32 l, b; mov.u32 m, c; mov.u32 n, 7;\n"
        "MORE: mad.lo.u32 k, k, 3, l; xor.b32 l, l, m; add.u32 m, m, k; add.u32 n, n, l; add.u32 g, g, 1; setp.lt.u32 "
        "p, g, 11; @p bra MORE; cvt.u64.u32 D, k; xor.b32 l, l, m; add.u32 l, l, n; cvt.u64.u32 E, l; }\nOUT:",
        'l', in, out, 32);
    for (uint64_t i = 0; i < 32; i++) {
        uint64_t u = in[i].a, v = in[i].b, w = in[i].c;
        uint32_t k = (uint32_t)u, l = (uint32_t)v, m = (uint32_t)w, n = 7;
        for (int g = 0; g < 9; g++)
            u = u * 3 + v, v ^= w, w += u;
        for (int g = 0; g < 11; g++)
            k = k * 3 + l, l ^= m, m += k, n += l;
        uint64_t d = i & 1 ? k : u, e = i & 1 ? (l ^ m) + n : v ^ w;
        ck_assert_msg(out[i].d == d && out[i].e == (i & 1 ? (uint32_t)e : e), "lane %d: %llx %llx instead of %llx %llx",
                      (int)i, (unsigned long long)out[i].d, (unsigned long long)out[i].e, (unsigned long long)d,
                      (unsigned long long)e);
    }
}
END_TEST

START_TEST(indexed_branches_go_where_the_list_says) {
    machine_with(fair(1, 1));
    numbered();
    evaluate("and.b32 f, a, 3; T: .branchtargets $L0, $L1, $L2, $L3; brx.idx f, T;\n$L0: mov.u32 d, 10; bra OUT; $L1: "
             "mov.u32 d, 11; bra OUT; $L2: mov.u32 d, 12; bra OUT; "
             "$L3: mov.u32 d, 13; OUT: activemask.b32 e;",
             'w', in, out, 32);
    for (uint32_t i = 0; i < 32; i++)
        ck_assert(out[i].d == 10 + (i & 3) && out[i].e == 0xFFFFFFFF);
}
END_TEST

/* Lane 0 waits in a loop for what lane 1 stores behind the loop: both must get their turns, under every schedule. */
START_TEST(a_lane_that_spins_on_another_lanes_store_ends) {
    machine_with(_i ? adverse(1, 1, (uint64_t)_i) : fair(1, 1));
    numbered();
    evaluate(".shared .u32 flag; mov.u32 f, flag; setp.eq.u32 p, a, 0; @p st.volatile.shared.u32 [f], 0;\n"
             "bar.warp.sync -1; @p bra WAIT; setp.ne.u32 p, a, 1; @p bra OUT; "
             "st.volatile.shared.u32 [f], 77; bra OUT;\n"
             "WAIT: ld.volatile.shared.u32 d, [f]; setp.eq.u32 p, d, 0; @p bra WAIT; OUT: bar.warp.sync -1;",
             'w', in, out, 32);
    ck_assert_int_eq((int)out[0].d, 77);
    evaluate(".shared .u32 flag; mov.u32 f, flag; setp.eq.u32 p, a, 0; @p st.volatile.shared.u32 [f], 0;\n"
             "bar.warp.sync -1; @!p bra GIVE;\n"
             "WAIT: ld.volatile.shared.u32 d, [f]; setp.eq.u32 p, d, 0; @p bra WAIT; bra OUT;\n"
             "GIVE: setp.eq.u32 p, a, 1; mov.u32 g, 500; LOOP: sub.u32 g, g, 1; setp.ne.u32 q, g, 0; @q bra LOOP; @p "
             "st.volatile.shared.u32 [f], 78; OUT: bar.warp.sync -1;",
             'w', in, out, 32);
    ck_assert_int_eq((int)out[0].d, 78);
}
END_TEST

/* Two halves come to a shuffle of all 32 by different roads, and at different times. */
START_TEST(sync_operations_wait_for_all_named_lanes) {
    machine_with(_i ? adverse(1, 1, (uint64_t)_i) : fair(1, 1));
    numbered();
    evaluate(
        "setp.lt.u32 p, a, 16; @p bra LEFT; mov.u32 g, 40; LOOP: sub.u32 g, g, 1; setp.ne.u32 q, g, 0; @q bra LOOP;\n"
        "shfl.sync.bfly.b32 d, b, 16, 31, -1; bra OUT; LEFT: shfl.sync.bfly.b32 d, b, 16, 31, -1; OUT: add.u32 d, d, "
        "1;",
        'w', in, out, 32);
    for (uint32_t i = 0; i < 32; i++)
        ck_assert_int_eq((int)out[i].d, (int)(1001 + (i ^ 16)));
    /* each half among itself, at one instruction */
    evaluate("setp.lt.u32 p, a, 16; selp.b32 f, 0xFFFF, 0xFFFF0000, p; redux.sync.add.u32 d, a, f;", 'w', in, out, 32);
    ck_assert_int_eq((int)out[3].d, 120);
    ck_assert_int_eq((int)out[20].d, 376);
}
END_TEST

/* ---- barriers ---- */
START_TEST(barrier_reductions_count_and_combine_over_the_block) {
    machine_with(_i ? adverse(1, 1, (uint64_t)_i) : fair(1, 1));
    numbered();
    evaluate("mov.u32 f, %tid.x; setp.eq.u32 p, f, 100; bar.red.or.pred q, 0, p; selp.b32 d, 1, 0, q; bar.red.popc.u32 "
             "e, 1, 128, !p;",
             'w', in, out, 128);
    for (int i = 0; i < 128; i++)
        ck_assert(out[i].d == 1 && out[i].e == 127);
    evaluate("mov.u32 f, %tid.x; setp.lt.u32 p, f, 128; barrier.cta.red.and.aligned.pred q, 3, p; selp.b32 d, 1, 0, q; "
             "setp.ne.u32 p, f, 64;\n"
             "barrier.cta.red.and.pred q, 3, p; selp.b32 e, 1, 0, q;",
             'w', in, out, 128);
    for (int i = 0; i < 128; i++)
        ck_assert(out[i].d == 1 && out[i].e == 0);
}
END_TEST

START_TEST(producers_arrive_and_consumers_wait) {
    machine_with(_i ? adverse(1, 1, (uint64_t)_i) : fair(1, 1));
    numbered();
    evaluate(".shared .align 4 .b32 box[64]; mov.u32 f, %tid.x; mov.u32 g, box; and.b32 x, f, 63; shl.b32 x, x, 2; "
             "add.u32 g, g, x; setp.ge.u32 p, f, 64; @p bra TAKE;\n"
             "st.shared.u32 [g], b; bar.arrive 5, 128; bra OUT; TAKE: bar.sync 5, 128; ld.shared.u32 d, [g]; OUT: "
             "bar.sync 0;",
             'w', in, out, 128);
    for (int i = 64; i < 128; i++)
        ck_assert_int_eq((int)out[i].d, 1000 + i - 64);
}
END_TEST

START_TEST(threads_that_have_exited_are_not_waited_for) {
    machine_with(fair(1, 1));
    numbered();
    evaluate("mov.u32 f, %tid.x; setp.ge.u32 p, f, 40; @p exit; bar.sync 0; mov.u32 d, 9;", 'w', in, out, 128);
    ck_assert_int_eq((int)out[39].d, 9);
}
END_TEST

/* ---- faults ---- */
static const char *fault_of(const char *snippet, unsigned threads) {
    char *text = NULL;
    ck_assert_int_ge(asprintf(&text,
                              PTX_HEAD ".visible .entry broken(.param .u64 a, .param .u64 b, .param .u64 c, .param "
                                       ".u64 d) {\n.reg .b32 t, u, v; .reg .b64 A; .reg .pred p, q; "
                                       "mov.u32 t, %%tid.x;\n%s\nret; }\n",
                              snippet),
                     0);
    launch(function_of_text(text, "broken"), 1, threads, NULL, false, 0, 0, 0, 0);
    ck_assert_int_ne(cpu_ctx_synchronize(), 0);
    free(text);
    return dcpkcpu_report();
}

START_TEST(broken_meetings_are_faults_with_their_place) {
    static const struct {
        const char *snippet;
        unsigned threads;
        const char *says[4];
    } rows[] = {
        {"shfl.sync.idx.b32 u, t, 0, 31, 0xFFFFFFFE;",
         32,
         {"does not name the thread", "thread (0,0,0)", "PTX line 6"}},
        {"setp.eq.u32 p, t, 3; @p exit;\nbar.warp.sync 0xFFFFFFFF;", 32, {"have exited", "0x00000008", "PTX line 7"}},
        {"setp.lt.u32 p, t, 16; @p bra LA;\nbar.sync 0; bra LB;\nLA: bar.sync 1;\nLB:",
         32,
         {"divergent barrier", "bar.sync 0", "bar.sync 1"}},
        {"setp.lt.u32 p, t, 16; @p bra LA;\nshfl.sync.idx.b32 u, t, 0, 31, -1; bra LB;\nLA: bar.sync 1;\nLB:",
         32,
         {"cannot come", "0x0000ffff"}},
        {"mov.u32 u, 16; bar.sync u;", 32, {"barrier 16 does not exist"}},
        {"mov.u32 u, 48; bar.sync 1, u;", 64, {"multiple of 32"}},
        {"bar.sync 1, 128;", 64, {"up to the block's 64"}},
        {"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {u,u,u,u}, {t,t}, {t}, {t,t,t,t};",
         16,
         {"all 32 threads"}},
        {"trap;", 1, {"trap"}},
    };
    machine_with(fair(1, 1));
    const char *report = fault_of(rows[_i].snippet, rows[_i].threads);
    says(report, "broken");
    for (int i = 0; i < 4 && rows[_i].says[i]; i++)
        says(report, rows[_i].says[i]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_warp");
    TCase *tcase = tcase_create("warp");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, shfl_reads_the_lane_the_manual_says);
    tcase_add_test(tcase, votes_matches_and_reductions_by_hand);
    tcase_add_test(tcase, diverged_threads_loop_their_own_counts_and_meet_again);
    tcase_add_loop_test(tcase, diverged_threads_of_different_widths_keep_their_values, 0, 20);
    tcase_add_test(tcase, indexed_branches_go_where_the_list_says);
    tcase_add_loop_test(tcase, a_lane_that_spins_on_another_lanes_store_ends, 0, 6);
    tcase_add_loop_test(tcase, sync_operations_wait_for_all_named_lanes, 0, 6);
    tcase_add_loop_test(tcase, barrier_reductions_count_and_combine_over_the_block, 0, 6);
    tcase_add_loop_test(tcase, producers_arrive_and_consumers_wait, 0, 6);
    tcase_add_test(tcase, threads_that_have_exited_are_not_waited_for);
    tcase_add_loop_test(tcase, broken_meetings_are_faults_with_their_place, 0, 9);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
