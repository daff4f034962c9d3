/* test_memcheck_faults.c - every planted fault of memcheck.h is found by the CPU device, with its kind, line, thread,
 * address and, for races, the other access; and what is no fault is none. */
#include "tests/memcheck_suite.h"

enum { SEEDS = 8, LEAST_OF_A_CLASS = 4 };

START_TEST(every_planted_fault_is_found_in_full) {
    const struct memcheck_case *c = memcheck_at((unsigned)_i);
    cu_ptr a = 0;
    memcheck_machine(0, true);
    cu_result result = memcheck_run(&driver, c, &a, mark);
    ck_assert_msg(result != 0, "%s: not found", c->name);
    memcheck_says_all(c, a);
}
END_TEST

/* Which of two accesses comes first is the schedule's; that there is a fault, and at which instructions, is not. */
START_TEST(every_planted_fault_is_found_under_any_schedule) {
    const struct memcheck_case *c = memcheck_at((unsigned)_i);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        cu_ptr a = 0;
        char at[400], other[400];
        memcheck_machine(seed, true);
        cu_result result = memcheck_run(&driver, c, &a, mark);
        ck_assert_msg(result != 0, "%s, seed %d: not found", c->name, (int)seed);
        snprintf(at, sizeof at, "`%s`", c->at);
        snprintf(other, sizeof other, "`%s`", c->other ? c->other : c->at);
        ck_assert_msg(strstr(report(), at) || strstr(report(), other), "%s, seed %d: %s", c->name, (int)seed, report());
    }
}
END_TEST

START_TEST(each_class_has_faults_of_its_own) {
    for (int k = 0; k < MEMCHECK_CLASS_COUNT; k++) {
        int count = 0;
        for (unsigned i = 0; i < memcheck_count(); i++)
            count += (int)memcheck_at(i)->class == k && !memcheck_at(i)->sample;
        ck_assert_msg(count >= LEAST_OF_A_CLASS, "%s: %d", memcheck_class_names[k], count);
    }
}
END_TEST

/* ---- what is right, though it looks like one of them ---- */
/* E: a generic address of box. */
#define GENERIC "mov.u64 E, box; cvta.shared.u64 E, E; "
#define FILLED "st.shared.u32 [c], t; bar.sync 0;\n"
static const struct memcheck_case fine[] = {
    {"a barrier between the warps", .threads = 64, .body = FILLED "xor.b32 u, c, 128; ld.shared.u32 v, [u];"},
    {"a sync between the lanes",
     .body = "st.shared.u32 [c], t; bar.warp.sync -1; xor.b32 u, c, 4; ld.shared.u32 v, [u];"},
    {"two warps write one value", .threads = 64, .body = "mov.u32 v, 9; st.shared.u32 [s], v; bar.sync 0;"},
    {"neighbouring bytes of a word", .threads = 64,
     .body = "add.u32 u, s, t; st.shared.u8 [u], t; bar.sync 0; ld.shared.u32 v, [c];"},
    {"atomics on one word", .threads = 64,
     .body = "@p st.shared.u32 [s], 0; bar.sync 0; atom.shared.add.u32 v, [s], 1;"},
    {"a named barrier of those who share", .threads = 96,
     .body = "st.shared.u32 [c], t; setp.lt.u32 q, t, 64; @!q bra OUT; bar.sync 1, 64; xor.b32 u, c, 128; "
             "ld.shared.u32 v, [u]; OUT:"},
    {"an mbarrier hands the words over", .threads = 64,
     .body = "@p mbarrier.init.shared.b64 [bar], 32; bar.sync 0; setp.lt.u32 q, t, 32; @q bra READ; "
             "st.shared.u32 [c], t; mbarrier.arrive.shared.b64 E, [bar]; bra OUT; READ: "
             "W: mbarrier.try_wait.parity.shared.b64 r, [bar], 0; @!r bra W; ld.shared.u32 v, [c+128]; OUT:"},
    {"a flag, with release and acquire", .threads = 64,
     .body = "@p st.shared.u32 [s+512], 0; bar.sync 0; setp.eq.u32 q, t, 40; @q st.shared.u32 [s], t; "
             "@q st.release.cta.shared.u32 [s+512], 1; @!p bra OUT; "
             "W: ld.acquire.cta.shared.u32 v, [s+512]; setp.eq.u32 r, v, 0; @r bra W; ld.shared.u32 w, [s]; OUT:"},
    {"a copy that is waited for", .threads = 64,
     .body = "cp.async.ca.shared.global [c], [D], 4; cp.async.wait_all; bar.sync 0; xor.b32 u, c, 128; "
             "ld.shared.u32 v, [u]; st.global.u32 [C], v;"},
    {"a whole warp leaves before the barrier", .threads = 64, .body = "setp.ge.u32 q, t, 32; @q exit; bar.sync 0;"},
    {"threads of a warp return early", .threads = 64, .body = "setp.ge.u32 q, t, 40; @q exit; bar.sync 0;"},
    {"threads of a warp go to the end early", .threads = 64,
     .body = "setp.ge.u32 q, t, 40; @q bra OUT; bar.sync 0; st.global.u32 [C], t; OUT:"},
    {"threads of a warp return early by jumps that all take", .threads = 64,
     .body = "setp.lt.u32 q, t, 40; @q bra IN; bra BETWEEN; BETWEEN: bra OUT; IN: bar.sync 0; st.global.u32 [C], t; "
             "bra OUT; OUT:"},
    {"words of a warp that leaves before everybody's barrier", .threads = 64,
     .body = "st.shared.u32 [c], t; setp.ge.u32 q, t, 32; @q exit; bar.sync 0; ld.shared.u32 v, [c+128];"},
    {"words of lanes that leave, whose warp comes to the named barrier", .threads = 96,
     .body = "st.shared.u32 [c], t; setp.lt.u32 q, l, 16; @!q exit; setp.lt.u32 q, t, 64; @!q bra OUT; bar.sync 1, 64; "
             "setp.eq.u32 q, t, 0; @q ld.shared.u32 v, [s+252]; OUT:"},
    {"words of lanes and of a warp that leave, before an arrival and behind it", .threads = 64,
     .body = "st.shared.u32 [c], t; setp.eq.u32 q, t, 5; @q exit; setp.lt.u32 q, t, 32; @!q bra READ; "
             "barrier.arrive 1, 64; st.shared.u32 [c+256], t; bra OUT; READ: barrier.sync 1, 64; "
             "ld.shared.u32 v, [c+-128]; bar.sync 0; ld.shared.u32 v, [c+128]; OUT:"},
    {"atomics on a word that was stored before the barrier", .threads = 64,
     .body = "@p st.shared.u32 [s], 0; @p st.volatile.shared.u32 [s], 1; bar.sync 0; atom.shared.add.u32 v, [s], 1; "
             "bar.sync 0; ld.shared.u32 v, [s]; bar.sync 0; atom.shared.add.u32 v, [s], 1;"},
    {"a short last warp at a barrier", .threads = 40, .body = FILLED "ld.shared.u32 v, [s+156];"},
    {"a barrier that is not .aligned, in half a warp", .threads = 32,
     .body = "setp.lt.u32 q, l, 16; @!q bra ELSE; barrier.sync 0; bra OUT; ELSE: barrier.sync 0; OUT:"},
    {"half a warp shuffles among itself",
     .body = "setp.lt.u32 q, l, 16; @!q bra OUT; shfl.sync.bfly.b32 v, t, 1, 31, 0xFFFF; OUT:"},
    {"unwritten bytes that are moved and never used",
     .body = "st.shared.u32 [c], t; ld.shared.v2.u32 {v, w}, [s+128]; st.shared.v2.u32 [s+256], {v, w};", .threads = 1},
    {"unwritten bytes that selp leaves aside",
     .body = "ld.shared.u32 v, [c]; setp.ge.u32 q, t, 32; selp.u32 v, v, 7, q; st.global.u32 [C], v;"},
    {"a register never written that selp leaves aside",
     .body = "setp.ge.u32 q, t, 32; selp.u32 w, v, 7, q; selp.u32 w, w, v, p; @p st.global.u32 [C], w;", .threads = 1},
    {"a register that the path that reads it has written",
     .body = "setp.lt.u32 q, t, 8; @!q bra OVER; mov.u32 v, 3; OVER: @q st.global.u32 [C], v;"},
    {"unwritten bytes that generic accesses move and nobody uses", .threads = 1,
     .body = GENERIC "st.shared.u32 [c], t; ld.v2.u32 {v, w}, [E+64]; st.v2.u32 [E+256], {v, w}; ld.u8 h, [E+128]; "
                     "st.shared.u8 [s+8], h; ld.shared.u64 G, [s+512]; st.u64 [E+520], G; ld.volatile.u32 x, [E+600];"},
    {"part of a vector that a generic load gets", .threads = 1,
     .body = GENERIC "st.shared.v2.u32 [s], {t, t}; ld.v4.u32 {v, w, x, y}, [E]; add.u32 v, v, w; "
                     "st.global.u32 [C], v;"},
    {"unwritten bytes that a generic load gets and selp leaves aside", .threads = 1,
     .body = GENERIC "ld.u32 v, [E]; setp.ge.u32 q, t, 32; selp.u32 v, v, 7, q; st.global.u32 [C], v;"},
    {"an unwritten word that a .shared load of a generic address gets", .threads = 1,
     .body = GENERIC "ld.shared.u32 v, [E]; st.shared.u32 [E+4], v;"},
    {"a padded struct that is copied through shared memory", .threads = 1,
     .body =
         GENERIC "st.shared.u8 [s], t; st.shared.u32 [s+4], t; st.shared.u16 [s+10], t; "
                 "ld.shared.v4.u32 {v, w, x, y}, [s]; st.shared.v4.u32 [s+16], {v, w, x, y}; ld.u64 G, [E+16]; "
                 "st.u64 [E+32], G; ld.shared.u8 h, [s+32]; add.u16 h, h, 1; ld.shared.u32 v, [s+36]; add.u32 v, v, 1; "
                 "ld.shared.u16 h, [s+26]; add.u16 h, h, 1;"},
    {"the zeroes above an unwritten byte", .threads = 1,
     .body = "ld.shared.u8 v, [s]; st.shared.u32 [s+4], v; ld.shared.u16 h, [s+6]; add.u16 h, h, 1; "
             "ld.shared.u8 h, [s+5]; add.u16 h, h, 1;"},
    {"padding that is loaded and, says the kernel, not used", .buffer = MEMCHECK_UNWRITTEN, .bytes = 1024,
     .body = "mad.wide.u32 D, t, 4, D; st.global.u8 [D], t; st.global.u32 [D+4], t; .pragma \"used_bytes_mask 1\"; "
             "ld.global.u32 v, [D]; .pragma \"used_bytes_mask 0xf1\"; ld.global.v2.u32 {v, w}, [D]; "
             ".pragma \"used_bytes_mask 0361\"; ld.u64 E, [D]; st.global.u32 [C], v;"},
    {"padding of what lies side by side, and of one place for all", .threads = 64, .buffer = MEMCHECK_UNWRITTEN,
     .body = "st.global.u16 [D], t; .pragma \"used_bytes_mask 3\"; ld.global.u32 v, [D]; @p st.global.u16 [A], 1; "
             "bar.sync 0; .pragma \"used_bytes_mask 3\"; ld.relaxed.gpu.global.u32 w, [A]; st.global.u32 [C], v;"},
    {"padding in shared memory that the kernel says it does not use",
     .body = "st.shared.u8 [c], t; .pragma \"used_bytes_mask 1\"; ld.shared.u32 v, [c]; and.b32 v, v, 255; "
             "st.global.u32 [C], v;"},
    {"the last word of an allocation", .threads = 64, .body = "ld.global.u32 v, [D]; st.global.u32 [C], v;"},
};

/* ---- what is wrong, though it looks right ---- */
static const struct memcheck_case wrong[] = {
    {"an atomic after a plain store of the same thread", .threads = 64, .kind = "shared race",
     .body = FILLED "@p st.shared.u32 [s+8], 9; @p atom.shared.add.u32 v, [s+8], 1; setp.eq.u32 q, t, 32; "
                    "@q atom.shared.add.u32 w, [s+8], 1;"},
    {"a strong store after a plain one of the same thread", .threads = 64, .kind = "shared race",
     .body = FILLED "@p st.shared.u32 [s+8], 9; @p st.volatile.shared.u32 [s+8], 4; setp.eq.u32 q, t, 32; "
                    "@q ld.volatile.shared.u32 w, [s+8];"},
    {"an atomic after a plain load of the same thread", .threads = 64, .kind = "shared race",
     .body = FILLED "@p ld.shared.u32 v, [s+8]; @p atom.shared.add.u32 v, [s+8], 1; setp.eq.u32 q, t, 32; "
                    "@q atom.shared.add.u32 w, [s+8], 1;"},
    {"a strong load after a plain one of the same thread", .threads = 64, .kind = "shared race",
     .body = FILLED "@p ld.shared.u32 v, [s+8]; @p ld.volatile.shared.u32 v, [s+8]; setp.eq.u32 q, t, 32; "
                    "@q atom.shared.add.u32 w, [s+8], 1;"},
    {"atomics of a third warp after a plain store that one has met", .threads = 96, .kind = "shared race",
     .body = FILLED "@p st.shared.u32 [s+8], 9; setp.lt.u32 q, t, 64; @q bar.sync 1, 64; setp.eq.u32 q, l, 0; "
                    "@q atom.shared.add.u32 w, [s+8], 1;"},
    {"words of a warp that goes past the named barrier and leaves", .threads = 96, .kind = "shared race",
     .body = "st.shared.u32 [c], t; setp.lt.u32 q, t, 64; @!q bra OUT; bar.sync 1, 64; setp.lt.u32 q, t, 32; "
             "@q ld.shared.u32 v, [c+256]; @q st.global.u32 [C], v; OUT:"},
    {"a store behind an arrival, by a warp that leaves before the barrier opens", .threads = 64, .kind = "shared race",
     .body = "setp.lt.u32 q, t, 32; @!q bra READ; st.shared.u32 [c], t; bar.arrive 1, 64; st.shared.u32 [c], 99; "
             "bra OUT; READ: bar.sync 1, 64; ld.shared.u32 v, [c+-128]; st.global.u32 [C], v; OUT:"},
    {"a store behind an arrival at the cluster's barrier, by a block that leaves", .blocks = 2, .cluster = 2,
     .kind = "shared race",
     .body = "@p st.shared.u32 [s+4], 1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; "
             "mov.u32 v, %cluster_ctarank; setp.eq.u32 q, v, 0; @!q bra READ; mapa.shared::cluster.u32 u, s, 1; "
             "barrier.cluster.arrive.aligned; @p st.shared::cluster.u32 [u+4], 7; bra OUT; "
             "READ: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ld.shared.u32 v, [s+4]; "
             "st.global.u32 [C], v; OUT:"},
    {"a register never written that selp chooses", .threads = 32, .kind = "uninitialised register: v is read",
     .body = "setp.lt.u32 q, t, 32; selp.u32 w, v, 7, q; st.global.u32 [C], w;"},
    {"a register from a generic load of unwritten bytes", .threads = 1, .kind = "uninitialised shared read: v is used",
     .body = GENERIC "ld.u32 v, [E+4]; add.u32 v, v, 1;"},
    {"unwritten bytes that generic accesses have moved", .threads = 1, .kind = "uninitialised shared read: x is used",
     .body = GENERIC "ld.u32 v, [E+4]; st.u32 [E+8], v; ld.u32 x, [E+8]; st.global.u32 [C], x;"},
    {"unwritten bytes that a .shared store to a generic address has moved", .threads = 1,
     .kind = "uninitialised shared read: x is used",
     .body = GENERIC "ld.u32 v, [E+4]; st.shared.u32 [E+8], v; ld.shared.u32 x, [s+8]; st.global.u32 [C], x;"},
    {"a generic store of unwritten shared bytes to global memory", .threads = 1,
     .kind = "uninitialised shared read: v is used", .body = GENERIC "ld.u32 v, [E+4]; st.u32 [C], v;"},
    {"a generic store of unwritten bytes to the next block", .blocks = 2, .cluster = 2,
     .kind = "uninitialised shared read: v is used",
     .body = GENERIC "@p mapa.u64 G, E, 1; @p ld.u32 v, [E+4]; @p st.u32 [G+8], v; barrier.cluster.arrive.aligned; "
                     "barrier.cluster.wait.aligned;"},
    {"an unwritten word as the address of a store", .threads = 1, .kind = "uninitialised shared read: u is used",
     .body = "ld.shared.u32 u, [s+4]; st.shared.u32 [u], t;"},
    {"an unwritten word as the address of a generic store", .threads = 1,
     .kind = "uninitialised shared read: G is used", .body = GENERIC "ld.u64 G, [E+8]; st.u32 [G], t;"},
    {"a generic load of the next block's unwritten bytes", .blocks = 2, .cluster = 2,
     .kind = "uninitialised shared read: of the 4 bytes",
     .body = GENERIC "@p mapa.u64 G, E, 1; @p ld.u32 v, [G+4]; barrier.cluster.arrive.aligned; "
                     "barrier.cluster.wait.aligned;"},
    {"a store into a matrix that another warp loads", .threads = 64, .kind = "`wmma.load.a.sync",
     .body = ".reg .b32 f<8>; add.u32 u, c, c; sub.u32 u, u, s; st.shared.u64 [u], E; bar.sync 0; "
             "setp.lt.u32 q, t, 32; @q bra LOAD; setp.eq.u32 r, t, 40; @r st.shared.u32 [s], t; bra OUT; LOAD: "
             "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {f0, f1, f2, f3, f4, f5, f6, f7}, [s]; OUT:"},
    {"the padding of a struct that is copied through shared memory", .threads = 1,
     .kind = "uninitialised shared read: h is used",
     .body = "st.shared.u8 [s], t; ld.shared.v2.u32 {v, w}, [s]; st.shared.v2.u32 [s+8], {v, w}; "
             "ld.shared.u8 h, [s+11]; add.u16 h, h, 1;"},
    {"the sign above an unwritten byte", .threads = 1, .kind = "uninitialised shared read: h is used",
     .body = "st.shared.u8 [s], t; ld.shared.s16 v, [s]; st.shared.u32 [s+4], v; ld.shared.u8 h, [s+7]; "
             "add.u16 h, h, 1;"},
    {"an unwritten byte that the kernel says it uses", .kind = "nobody has written the one at", .bytes = 1024,
     .buffer = MEMCHECK_UNWRITTEN,
     .body = "st.global.u8 [D], t; .pragma \"used_bytes_mask 3\"; ld.global.u32 v, [D]; st.global.u32 [C], v;"},
    {"the byte of the last lane alone", .kind = "thread (31,0,0)", .buffer = MEMCHECK_UNWRITTEN,
     .body = "setp.lt.u32 q, t, 31; @q st.global.u8 [D], t; .pragma \"used_bytes_mask 1\"; ld.global.u32 v, [D]; "
             "st.global.u32 [C], v;"},
    {"the load behind the one that the kernel says it in part uses", .kind = "uninitialised global read",
     .buffer = MEMCHECK_UNWRITTEN,
     .body = "st.global.u8 [D], t; .pragma \"used_bytes_mask 1\"; ld.global.u32 v, [D]; ld.global.u32 v, [D]; "
             "st.global.u32 [C], v;"},
    {"a mask before what is no load", .kind = "uninitialised global read", .buffer = MEMCHECK_UNWRITTEN,
     .body = "st.global.u8 [D], t; .pragma \"used_bytes_mask 1\"; mov.u32 w, 1; ld.global.u32 v, [D]; "
             "st.global.u32 [C], v;"},
    {"an unwritten shared byte that the kernel says it uses", .kind = "uninitialised shared read: v is used",
     .body = "st.shared.u8 [c], t; .pragma \"used_bytes_mask 2\"; ld.shared.u32 v, [c]; st.global.u32 [C], v;"},
};

START_TEST(what_is_wrong_is_found_though_it_looks_right) {
    struct memcheck_case c = wrong[_i];
    for (uint64_t seed = 0; seed <= SEEDS; seed++) {
        cu_ptr a = 0;
        memcheck_machine(seed, true);
        ck_assert_msg(memcheck_run(&driver, &c, &a, mark) != 0, "%s, seed %d: not found", c.name, (int)seed);
        if (!seed || !strstr(report(), "uninitialised")) memcheck_says(&c, c.kind);
    }
}
END_TEST

START_TEST(what_is_right_is_no_finding) {
    struct memcheck_case c = fine[_i];
    for (uint64_t seed = 0; seed <= SEEDS; seed++) {
        cu_ptr a = 0;
        memcheck_machine(seed, true);
        ck_assert_msg(memcheck_run(&driver, &c, &a, mark) == 0, "%s, seed %d: %s", c.name, (int)seed, report());
    }
}
END_TEST

START_TEST(the_switch_is_the_checkers_alone) {
    for (unsigned i = 0; i < memcheck_count(); i++) {
        const struct memcheck_case *c = memcheck_at(i);
        cu_ptr a = 0;
        memcheck_machine(0, false);
        cu_result result = memcheck_run(&driver, c, &a, mark);
        switch (c->class) {
        case MEMCHECK_UNWRITTEN_GLOBAL:
        case MEMCHECK_UNWRITTEN_SHARED:
        case MEMCHECK_UNWRITTEN_REGISTER:
        case MEMCHECK_RACE:
        case MEMCHECK_INPUT:
            ck_assert_msg(result == 0, "%s without the checker: %s", c->name, report());
            break;
        case MEMCHECK_BOUNDS:
        case MEMCHECK_ALIGNMENT:
        case MEMCHECK_FREED:
        case MEMCHECK_ASYNC_RACE:
            ck_assert_msg(result != 0, "%s is found always", c->name);
            break;
        default:
            break;
        }
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("memcheck_faults");
    TCase *tcase = tcase_create("memcheck");
    SRunner *runner = srunner_create(suite);
    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, every_planted_fault_is_found_in_full, 0, (int)memcheck_count());
    tcase_add_loop_test(tcase, every_planted_fault_is_found_under_any_schedule, 0, (int)memcheck_count());
    tcase_add_test(tcase, each_class_has_faults_of_its_own);
    tcase_add_loop_test(tcase, what_is_right_is_no_finding, 0, (int)(sizeof fine / sizeof fine[0]));
    tcase_add_loop_test(tcase, what_is_wrong_is_found_though_it_looks_right, 0, (int)(sizeof wrong / sizeof wrong[0]));
    tcase_add_test(tcase, the_switch_is_the_checkers_alone);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
