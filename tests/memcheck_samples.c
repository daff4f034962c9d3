/* memcheck_samples.c - what the samples of compute-sanitizer's documentation show, written anew as PTX of our own. Data
 * only. Their host-only samples (leaks, allocations that nobody uses, named memory pools) have no kernel that errs. */
#include "tests/memcheck.h"

/* v = the sum of count words of shared memory from u on, by one thread. */
#define SUM(count, loop)                                                                                               \
    "mov.u32 v, 0; mov.u32 w, 0;\n" loop ":\nld.shared.u32 x, [u];\nadd.u32 v, v, x; add.u32 u, u, 4; "                \
    "add.u32 w, w, 1;\nsetp.lt.u32 r, w, " count ";\n@r bra " loop ";\n"

const struct memcheck_case memcheck_samples[] = {
    {"sample_unaligned_store", MEMCHECK_ALIGNMENT, "mov.u32 v, 42;\nst.global.u32 [A+1], v;", .threads = 1, .bytes = 16,
     .kind = "is not aligned to the 4 bytes", .at = "st.global.u32 [A+1], v;", .thread = "(0,0,0) of block (0,0,0)",
     .where = IN_A, .offset = 1, .sample = "Memcheck, unaligned store"},
    {"sample_out_of_bounds_store", MEMCHECK_BOUNDS, "mov.u64 E, 0x87654320; mov.u32 v, 42;\nst.global.u32 [E], v;",
     .threads = 1, .kind = "bytes before allocation #1", .at = "st.global.u32 [E], v;",
     .thread = "(0,0,0) of block (0,0,0)", .where = ABSOLUTE, .offset = 0x87654320,
     .sample = "Memcheck, out of bounds store"},
    {"sample_block_race", MEMCHECK_RACE, /* every thread leaves a word; thread 0 adds them up at once */
     "ld.global.u32 v, [D];\nadd.u32 v, v, t;\nst.shared.u32 [c], v;\n@!p bra OUT;\nmov.u32 u, s;\n" SUM(
         "128", "ADD") "st.global.u32 [C], v;\nOUT:",
     .threads = 128, .bytes = 512, .kind = "shared race, read after write", .at = "ld.shared.u32 x, [u];",
     .thread = "(0,0,0) of block (0,0,0)", .where = IN_SHARED, .offset = 4, .other = "st.shared.u32 [c], v;",
     .other_thread = "(1,0,0) of block (0,0,0)", .sample = "Racecheck, block-level hazard"},
    {"sample_warp_race", MEMCHECK_RACE, /* the first lane of each warp adds up the warp's words at once */
     "st.shared.u32 [c], t;\nst.shared.u32 [c+512], t;\nbar.sync 0;\nld.global.u32 v, [D];\nadd.u32 v, v, t;\n"
     "st.shared.u32 [c], v;\nsetp.ne.u32 q, l, 0;\n@q bra MEET;\nmov.u32 u, c;\n" SUM(
         "32", "ADD") "st.shared.u32 [c+512], v;\nMEET:\nbar.sync 0;\n@!p bra OUT;\nld.shared.u32 v, [s+512];\n"
                      "ld.shared.u32 w, [s+640];\nadd.u32 v, v, w;\nst.global.u32 [C], v;\nOUT:",
     .threads = 64, .kind = "shared race, read after write", .at = "ld.shared.u32 x, [u];",
     .thread = "(32,0,0) of block (0,0,0)", .where = IN_SHARED, .offset = 132, .other = "st.shared.u32 [c], v;",
     .other_thread = "(33,0,0) of block (0,0,0)", .sample = "Racecheck, warp-level hazard"},
    {"sample_memset_too_short", MEMCHECK_UNWRITTEN_GLOBAL, /* the host has set half of what the threads add to */
     "mov.u32 u, %ctaid.x; mov.u32 v, %ntid.x; mad.lo.u32 u, u, v, t; mul.wide.u32 E, u, 4; add.u64 E, A, E;\n"
     "ld.global.u32 v, [E];\nadd.u32 v, v, u;\nst.global.u32 [E], v;",
     .blocks = 4, .threads = 64, .bytes = 1024, .buffer = MEMCHECK_HALF_WRITTEN, .kind = "uninitialised global read",
     .at = "ld.global.u32 v, [E];", .thread = "(0,0,0) of block (3,0,0)", .where = IN_A, .offset = 768,
     .sample = "Initcheck, short memset"},
    {"sample_divergent_threads", MEMCHECK_BARRIER, /* the last turn is not for all: they leave, the others meet */
     "mov.u32 v, 0; st.shared.u32 [c], v;\nbar.sync 0;\nmov.u32 w, 0;\nTURN:\nshl.b32 x, w, 6; add.u32 x, x, t;\n"
     "setp.ge.u32 q, x, 240;\n@q bra NEXT;\nmul.wide.u32 E, x, 4; add.u64 E, A, E;\nld.global.u32 y, [E];\n"
     "ld.shared.u32 v, [c];\nadd.u32 v, v, y;\nst.shared.u32 [c], v;\nbar.sync 1;\nNEXT:\nadd.u32 w, w, 1;\n"
     "setp.lt.u32 q, w, 4;\n@q bra TURN;\n@!p bra OUT;\nmov.u32 u, s;\n" SUM("64", "ADD") "st.global.u32 [C], v;\nOUT:",
     .threads = 64, .bytes = 960, .kind = "divergent barrier", .at = "bar.sync 1;",
     .thread = "(32,0,0) of block (0,0,0)", .more = "lanes 0xffff0000", .sample = "Synccheck, divergent threads"},
    {"sample_illegal_syncwarp", MEMCHECK_CONVERGENCE, /* one thread more than the mask names */
     "setp.lt.u32 q, t, 16;\nvote.sync.ballot.b32 x, q, 0xFFFFFFFF;\nsetp.gt.u32 q, t, 16;\n@q bra OUT;\n"
     "st.shared.u32 [c], t;\nbar.warp.sync x;\nmov.u32 u, s;\n"
     "ld.shared.u32 v, [u];\nst.global.u32 [B], v;\nOUT:\nbar.sync 0;",
     .kind = "the member mask 0x0000ffff does not name the thread itself (lane 16)", .at = "bar.warp.sync x;",
     .thread = "(16,0,0) of block (0,0,0)", .sample = "Synccheck, illegal syncwarp"},
};
const unsigned memcheck_sample_count = sizeof memcheck_samples / sizeof memcheck_samples[0];
