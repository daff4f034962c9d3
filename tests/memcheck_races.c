/* memcheck_races.c - planted faults: accesses of shared memory that nothing orders, by threads and by asynchronous
 * copies. Data only. */
#include "tests/memcheck.h"

/* Every thread's word of box is written, and all know. */
#define FILLED "st.shared.u32 [c], t; bar.sync 0;\n"
#define BULK                                                                                                           \
    "st.shared.u32 [c], t; @p mbarrier.init.shared.b64 [bar], 1; fence.proxy.async; bar.sync 0;\n"                     \
    "@p mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;\n"
#define BULK_LOAD "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [A], 128, [bar];"
#define BULK_WAIT "W: mbarrier.try_wait.parity.shared.b64 q, [bar], 0;\n@!q bra W;\n"

const struct memcheck_case memcheck_races[] = {
    /* ---- threads ---- */
    {"other_warps_word", MEMCHECK_RACE,
     FILLED "st.shared.u32 [c], 5;\nxor.b32 u, c, 128;\nld.shared.u32 v, [u];\nst.global.u32 [C], v;", .threads = 64,
     .kind = "shared race, write after read", .at = "st.shared.u32 [c], 5;", .thread = "(0,0,0) of block (0,0,0)",
     .where = IN_SHARED, .offset = 0, .other = "ld.shared.u32 v, [u];", .other_thread = "(32,0,0) of block (0,0,0)"},
    {"two_warps_write_one_word", MEMCHECK_RACE,
     "setp.eq.u32 q, l, 0;\n@q st.shared.u32 [s+16], t;\nbar.sync 0;\nld.shared.u32 v, [s+16];\nst.global.u32 [C], v;",
     .threads = 64, .kind = "shared race, write after write", .at = "@q st.shared.u32 [s+16], t;",
     .thread = "(32,0,0) of block (0,0,0)", .where = IN_SHARED, .offset = 16, .other = "@q st.shared.u32 [s+16], t;",
     .other_thread = "(0,0,0) of block (0,0,0)"},
    {"write_over_what_others_read", MEMCHECK_RACE,
     FILLED "setp.lt.u32 q, t, 32; mov.u32 v, 0;\n@q ld.shared.u32 v, [s+4];\nsetp.eq.u32 q, t, 40;\n"
            "@q st.shared.u32 [s+4], t;\nst.global.u32 [C], v;",
     .threads = 64, .kind = "shared race, read after write", .at = "@q ld.shared.u32 v, [s+4];",
     .thread = "(0,0,0) of block (0,0,0)", .where = IN_SHARED, .offset = 4, .other = "@q st.shared.u32 [s+4], t;",
     .other_thread = "(40,0,0) of block (0,0,0)"},
    {"other_lanes_word", MEMCHECK_RACE,
     "st.shared.u32 [c], t;\nxor.b32 u, c, 4;\nld.shared.u32 v, [u];\nst.global.u32 [C], v;",
     .kind = "shared race, read after write", .at = "ld.shared.u32 v, [u];", .thread = "(0,0,0) of block (0,0,0)",
     .where = IN_SHARED, .offset = 4, .other = "st.shared.u32 [c], t;", .other_thread = "(1,0,0) of block (0,0,0)"},
    {"atomic_against_a_plain_load", MEMCHECK_RACE,
     FILLED "setp.lt.u32 q, t, 32; mov.u32 v, 0;\n@q ld.shared.u32 v, [s+8];\nsetp.eq.u32 q, t, 33;\n"
            "@q atom.shared.add.u32 v, [s+8], 1;\nst.global.u32 [C], v;",
     .threads = 64, .kind = "shared race, read after write", .at = "@q ld.shared.u32 v, [s+8];",
     .thread = "(0,0,0) of block (0,0,0)", .where = IN_SHARED, .offset = 8,
     .other = "@q atom.shared.add.u32 v, [s+8], 1;", .other_thread = "(33,0,0) of block (0,0,0)",
     .more = "wrote by an atomic or strong store"},
    {"a_warp_is_left_out_of_the_barrier", MEMCHECK_RACE,
     "st.shared.u32 [c], t;\nsetp.lt.u32 q, t, 64;\n@q bar.sync 1, 64;\nsetp.eq.u32 q, t, 70; mov.u32 v, 0;\n"
     "@q ld.shared.u32 v, [s+12];\nst.global.u32 [C], v;",
     .threads = 96, .kind = "shared race, read after write", .at = "@q ld.shared.u32 v, [s+12];",
     .thread = "(70,0,0) of block (0,0,0)", .where = IN_SHARED, .offset = 12, .other = "st.shared.u32 [c], t;",
     .other_thread = "(3,0,0) of block (0,0,0)"},
    {"store_to_the_next_block", MEMCHECK_RACE,
     "st.shared.u32 [c], t; mov.u32 v, %cluster_ctarank; xor.b32 v, v, 1; mapa.shared::cluster.u32 u, c, v;\n"
     "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\nst.shared::cluster.u32 [u], 7;\n"
     "ld.shared.u32 v, [c];\nst.global.u32 [C], v;\n"
     "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
     .blocks = 2, .cluster = 2, .kind = "shared race, write after read", .at = "st.shared::cluster.u32 [u], 7;",
     .thread = "(0,0,0) of block (0,0,0)", .where = IN_SHARED, .offset = 0, .other = "ld.shared.u32 v, [c];",
     .other_thread = "(0,0,0) of block (1,0,0)"},

    /* ---- asynchronous copies ---- */
    {"copy_not_waited_for", MEMCHECK_ASYNC_RACE,
     "cp.async.ca.shared.global [c], [D], 4;\ncp.async.commit_group;\nld.shared.u32 v, [c];\nst.global.u32 [C], v;\n"
     "cp.async.wait_all;",
     .kind = "read of shared bytes that an unfinished cp.async still writes", .at = "ld.shared.u32 v, [c];",
     .thread = "(0,0,0) of block (0,0,0)", .where = IN_SHARED, .offset = 0,
     .other = "cp.async.ca.shared.global [c], [D], 4;", .other_thread = "(0,0,0) of block (0,0,0)"},
    {"copy_of_another_lane", MEMCHECK_ASYNC_RACE,
     "cp.async.ca.shared.global [c], [D], 4;\ncp.async.wait_all;\nxor.b32 u, c, 16;\nld.shared.u32 v, [u];\n"
     "st.global.u32 [C], v;",
     .kind = "read of shared bytes that another thread's cp.async wrote", .at = "ld.shared.u32 v, [u];",
     .thread = "(0,0,0) of block (0,0,0)", .where = IN_SHARED, .offset = 16,
     .other = "cp.async.ca.shared.global [c], [D], 4;", .other_thread = "(4,0,0) of block (0,0,0)"},
    {"store_into_a_copy", MEMCHECK_ASYNC_RACE,
     "cp.async.ca.shared.global [c], [D], 4;\nst.shared.u32 [c], t;\ncp.async.wait_all;\nld.shared.u32 v, [c];\n"
     "st.global.u32 [C], v;",
     .kind = "write of shared bytes that an unfinished cp.async still writes", .at = "st.shared.u32 [c], t;",
     .thread = "(0,0,0) of block (0,0,0)", .where = IN_SHARED, .offset = 0,
     .other = "cp.async.ca.shared.global [c], [D], 4;", .other_thread = "(0,0,0) of block (0,0,0)"},
    {"last_group_not_waited_for", MEMCHECK_ASYNC_RACE,
     "cp.async.ca.shared.global [c], [D], 4;\ncp.async.commit_group;\n"
     "cp.async.ca.shared.global [c+256], [D+64], 4;\ncp.async.commit_group;\ncp.async.wait_group 1;\n"
     "ld.shared.u32 v, [c];\nld.shared.u32 w, [c+256];\nadd.u32 v, v, w;\nst.global.u32 [C], v;\ncp.async.wait_all;",
     .kind = "read of shared bytes that an unfinished cp.async still writes", .at = "ld.shared.u32 w, [c+256];",
     .thread = "(0,0,0) of block (0,0,0)", .where = IN_SHARED, .offset = 256,
     .other = "cp.async.ca.shared.global [c+256], [D+64], 4;", .other_thread = "(0,0,0) of block (0,0,0)",
     .more = "group 2 of the 2 committed"},
    {"bulk_load_not_waited_for", MEMCHECK_ASYNC_RACE,
     BULK BULK_LOAD "\nbar.warp.sync -1;\nsetp.eq.u32 q, t, 3; mov.u32 v, 0;\n@q ld.shared.u32 v, [c];\n"
                    "st.global.u32 [C], v;\n" BULK_WAIT,
     .kind = "read of shared bytes that", .at = "@q ld.shared.u32 v, [c];", .thread = "(3,0,0) of block (0,0,0)",
     .where = IN_SHARED, .offset = 12, .other = BULK_LOAD, .other_thread = "(0,0,0) of block (0,0,0)"},
    {"bulk_store_overwritten", MEMCHECK_ASYNC_RACE,
     "st.shared.u32 [c], t;\nfence.proxy.async;\nbar.sync 0;\n"
     "@p cp.async.bulk.global.shared::cta.bulk_group [B+1024], [s], 128;\n@p cp.async.bulk.commit_group;\n"
     "@p st.shared.u32 [s+4], 9;\n@p cp.async.bulk.wait_group 0;",
     .kind = "write of shared bytes that", .at = "@p st.shared.u32 [s+4], 9;", .thread = "(0,0,0) of block (0,0,0)",
     .where = IN_SHARED, .offset = 4, .other = "@p cp.async.bulk.global.shared::cta.bulk_group [B+1024], [s], 128;",
     .other_thread = "(0,0,0) of block (0,0,0)"},
};
const unsigned memcheck_race_count = sizeof memcheck_races / sizeof memcheck_races[0];
