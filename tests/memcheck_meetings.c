/* memcheck_meetings.c - planted faults: barriers that not all come to or that nobody made, and .sync operations whose
 * threads are not those that they name. Data only. */
#include "tests/memcheck.h"

const struct memcheck_case memcheck_meetings[] = {
    /* ---- barriers ---- */
    {"barrier_in_half_a_warp", MEMCHECK_BARRIER,
     "setp.lt.u32 q, l, 16;\n@!q bra OUT;\nbar.sync 0;\nOUT:\nst.global.u32 [C], t;", .threads = 64,
     .kind = "divergent barrier", .at = "bar.sync 0;", .thread = "(0,0,0) of block (0,0,0)",
     .more = "lanes 0xffff0000"},
    {"barrier_on_two_paths", MEMCHECK_BARRIER,
     "setp.lt.u32 q, l, 16;\n@!q bra ELSE;\nbar.sync 0;\nbra OUT;\nELSE:\nbarrier.sync.aligned 0;\nOUT:\n"
     "st.global.u32 [C], t;",
     .threads = 64, .kind = "divergent barrier", .at = "bar.sync 0;", .thread = "(0,0,0) of block (0,0,0)",
     .more = "lanes 0xffff0000 wait at PTX line 15 `barrier.sync.aligned 0;`"},
    {"barrier_for_part_of_a_warp", MEMCHECK_BARRIER, "mov.u32 v, 40;\nbar.sync 1, v;\nst.global.u32 [C], t;",
     .threads = 64, .kind = "barrier 1 for 40 threads: it must be a multiple of 32", .at = "bar.sync 1, v;",
     .thread = "(0,0,0) of block (0,0,0)", .endless = true},
    {"barrier_with_two_counts", MEMCHECK_BARRIER,
     "setp.lt.u32 q, t, 32; mov.u32 v, 64; selp.b32 v, v, 96, q;\nbar.sync 1, v;\nst.global.u32 [C], t;", .threads = 96,
     .kind = "barrier 1 for 96 threads: 32 threads wait there with another count, 64", .at = "bar.sync 1, v;",
     .thread = "(32,0,0) of block (0,0,0)", .endless = true},
    {"barrier_without_the_other_warp", MEMCHECK_BARRIER,
     "setp.lt.u32 q, t, 32;\n@!q bra OUT;\nbar.sync 1, 64;\nOUT:\nst.global.u32 [C], t;", .threads = 64,
     .kind = "deadlock: no warp can run", .at = "bar.sync 1, 64;", .more = "warp 0 of block (0,0,0) waits at a barrier",
     .endless = true},
    {"barrier_that_does_not_exist", MEMCHECK_BARRIER,
     "mov.u32 v, 16; add.u32 v, v, l; sub.u32 v, v, l;\nbar.sync v;\nst.global.u32 [C], t;",
     .kind = "barrier 16 does not exist", .at = "bar.sync v;", .thread = "(0,0,0) of block (0,0,0)"},
    {"mbarrier_never_initialised", MEMCHECK_BARRIER,
     "@p mbarrier.arrive.shared.b64 E, [bar];\n@p st.global.u64 [C], E;", .kind = "no mbarrier.init has come before",
     .at = "@p mbarrier.arrive.shared.b64 E, [bar];", .thread = "(0,0,0) of block (0,0,0)"},
    {"mbarrier_initialised_twice", MEMCHECK_BARRIER,
     "@p mbarrier.init.shared.b64 [bar], 32;\nbar.sync 0;\nmbarrier.arrive.shared.b64 _, [bar];\n"
     "bar.sync 0;\n@p mbarrier.init.shared.b64 [bar], 64;\nst.global.u32 [C], t;",
     .kind = "it is initialised already", .at = "@p mbarrier.init.shared.b64 [bar], 64;",
     .thread = "(0,0,0) of block (0,0,0)"},

    /* ---- threads of a warp ---- */
    {"mask_without_the_thread", MEMCHECK_CONVERGENCE, "mov.u32 v, 0xFFFFFFFE;\nbar.warp.sync v;\nst.global.u32 [C], t;",
     .kind = "does not name the thread itself (lane 0)", .at = "bar.warp.sync v;",
     .thread = "(0,0,0) of block (0,0,0)"},
    {"shuffle_with_threads_that_left", MEMCHECK_CONVERGENCE,
     "setp.ge.u32 q, l, 16;\n@q exit;\nshfl.sync.bfly.b32 v, t, 1, 31, 0xFFFFFFFF;\nst.global.u32 [C], v;",
     .kind = "the member mask 0xffffffff names threads that have exited: lanes 0xffff0000",
     .at = "shfl.sync.bfly.b32 v, t, 1, 31, 0xFFFFFFFF;", .thread = "(0,0,0) of block (0,0,0)"},
    {"shuffle_on_one_path_vote_on_the_other", MEMCHECK_CONVERGENCE,
     "setp.ge.u32 q, l, 16;\n@q bra ELSE;\nshfl.sync.bfly.b32 v, t, 1, 31, 0xFFFFFFFF;\nbra OUT;\nELSE:\n"
     "vote.sync.ballot.b32 v, p, 0xFFFFFFFF;\nOUT:\nst.global.u32 [C], v;",
     .kind = "divergent .sync operation", .at = "shfl.sync.bfly.b32 v, t, 1, 31, 0xFFFFFFFF;",
     .thread = "(0,0,0) of block (0,0,0)",
     .more =
         "wait here for lanes 0xffff0000, which cannot come: lanes 0xffff0000 wait at PTX line 15 `vote.sync.ballot"},
    {"vote_without_the_thread", MEMCHECK_CONVERGENCE,
     "mov.u32 v, 0x0000FFFF;\nvote.sync.any.pred q, p, v;\nselp.u32 v, 1, 2, q;\nst.global.u32 [C], v;",
     .kind = "does not name the thread itself (lane 16)", .at = "vote.sync.any.pred q, p, v;",
     .thread = "(16,0,0) of block (0,0,0)"},
    {"matrix_product_of_half_a_warp", MEMCHECK_CONVERGENCE,
     ".reg .f32 d0, d1, d2, d3; mov.f32 d0, 0f00000000; mov.f32 d1, d0; mov.f32 d2, d0; mov.f32 d3, d0;\n"
     "setp.ge.u32 q, l, 16;\n@q bra OUT;\n"
     "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {d0, d1, d2, d3}, {t, t}, {t}, {d0, d1, d2, d3};\nOUT:\n"
     "st.global.f32 [C], d0;",
     .kind = "exited: lanes 0xffff0000",
     .at = "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {d0, d1, d2, d3}, {t, t}, {t}, {d0, d1, d2, d3};",
     .thread = "(0,0,0) of block (0,0,0)"},
    {"lanes_meet_without_a_sync", MEMCHECK_CONVERGENCE,
     "setp.lt.u32 q, l, 16;\n@q st.shared.u32 [c], t;\nsub.u32 u, c, 64; setp.ge.u32 q, l, 16; mov.u32 v, 0;\n"
     "@q ld.shared.u32 v, [u];\nst.global.u32 [C], v;",
     .kind = "shared race, read after write", .at = "@q ld.shared.u32 v, [u];", .thread = "(16,0,0) of block (0,0,0)",
     .where = IN_SHARED, .offset = 0, .other = "@q st.shared.u32 [c], t;", .other_thread = "(0,0,0) of block (0,0,0)"},
};
const unsigned memcheck_meeting_count = sizeof memcheck_meetings / sizeof memcheck_meetings[0];
