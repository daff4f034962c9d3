/* memcheck_addresses.c - planted faults: addresses out of bounds, misaligned, of memory that is free, and of inputs
 * that nobody may write. Data only. */
#include "tests/memcheck.h"

const struct memcheck_case memcheck_addresses[] = {
    /* ---- out of bounds: 256 bytes, or as said ---- */
    {"load_past_the_end", MEMCHECK_BOUNDS, "ld.global.u32 v, [D];\nst.global.u32 [C], v;", .threads = 96,
     .kind = "is 0 bytes past the end of allocation #1", .at = "ld.global.u32 v, [D];",
     .thread = "(64,0,0) of block (0,0,0)", .where = IN_A, .offset = 256},
    {"store_before_the_start", MEMCHECK_BOUNDS, "st.global.u32 [D+-4], t;", .kind = "is 4 bytes before allocation #1",
     .at = "st.global.u32 [D+-4], t;", .thread = "(0,0,0) of block (0,0,0)", .where = IN_A, .offset = -4},
    {"atomic_past_the_end", MEMCHECK_BOUNDS,
     "setp.eq.u32 q, t, 7;\n@q atom.global.add.u32 v, [A+264], 1;\n@q st.global.u32 [C], v;",
     .kind = "is 8 bytes past the end of allocation #1", .at = "@q atom.global.add.u32 v, [A+264], 1;",
     .thread = "(7,0,0) of block (0,0,0)", .where = IN_A, .offset = 264},
    {"vector_across_the_end", MEMCHECK_BOUNDS,
     "ld.global.v4.u32 {v, w, x, y}, [A+256];\nadd.u32 v, v, w; add.u32 x, x, y; add.u32 v, v, x;\n"
     "st.global.u32 [C], v;",
     .bytes = 264, .kind = "(16 bytes) reaches 8 bytes past the end of allocation #1",
     .at = "ld.global.v4.u32 {v, w, x, y}, [A+256];", .thread = "(0,0,0) of block (0,0,0)", .where = IN_A,
     .offset = 256},
    {"store_to_null", MEMCHECK_BOUNDS, "mov.u64 E, 0;\n@p st.global.u32 [E], t;", .kind = "bytes before allocation #1",
     .at = "@p st.global.u32 [E], t;", .thread = "(0,0,0) of block (0,0,0)", .where = ABSOLUTE, .offset = 0},
    {"shared_past_the_end", MEMCHECK_BOUNDS, "st.shared.u32 [c+2048], t;\nst.global.u32 [C], t;",
     .kind = "4 bytes at shared address", .at = "st.shared.u32 [c+2048], t;", .thread = "(0,0,0) of block (0,0,0)",
     .where = IN_SHARED, .offset = 2048, .more = "the shared memory is [0x400, "},
    {"local_past_the_end", MEMCHECK_BOUNDS,
     ".local .align 4 .b8 mine[16]; mov.u64 E, mine; mul.wide.u32 G, t, 4096; add.u64 E, E, G;\n"
     "st.local.u32 [E], t;\nld.local.u32 v, [mine];\nst.global.u32 [C], v;",
     .kind = "4 bytes at local address", .at = "st.local.u32 [E], t;", .thread = "(1,0,0) of block (0,0,0)",
     .more = "0x1000: the local memory is [0x0, 0x10)"},
    {"copy_from_past_the_end", MEMCHECK_BOUNDS,
     "mul.wide.u32 E, t, 16; add.u64 E, A, E; shl.b32 u, t, 4; add.u32 u, u, s;\n"
     "cp.async.cg.shared.global [u], [E], 16;\ncp.async.wait_all; bar.sync 0; ld.shared.u32 v, [c];\n"
     "st.global.u32 [C], v;",
     .kind = "is 0 bytes past the end of allocation #1", .at = "cp.async.cg.shared.global [u], [E], 16;",
     .thread = "(16,0,0) of block (0,0,0)", .where = IN_A, .offset = 256},

    /* ---- misaligned ---- */
    {"word_at_an_odd_half", MEMCHECK_ALIGNMENT,
     "setp.eq.u32 q, t, 3;\n@q ld.global.u32 v, [A+6];\n@q st.global.u32 [C], v;",
     .kind = "is not aligned to the 4 bytes", .at = "@q ld.global.u32 v, [A+6];", .thread = "(3,0,0) of block (0,0,0)",
     .where = IN_A, .offset = 6},
    {"vector_at_a_word", MEMCHECK_ALIGNMENT, "st.global.v2.u32 [D], {t, t};", .kind = "is not aligned to the 8 bytes",
     .at = "st.global.v2.u32 [D], {t, t};", .thread = "(1,0,0) of block (0,0,0)", .where = IN_A, .offset = 4},
    {"shared_double_at_a_word", MEMCHECK_ALIGNMENT, "st.shared.u64 [c], E;\nst.global.u32 [C], t;",
     .kind = "is not aligned to the 8 bytes", .at = "st.shared.u64 [c], E;", .thread = "(1,0,0) of block (0,0,0)",
     .where = IN_SHARED, .offset = 4},
    {"atomic_at_a_word", MEMCHECK_ALIGNMENT, "@p atom.global.add.u64 E, [A+12], E;\n@p st.global.u64 [C], E;",
     .kind = "is not aligned to the 8 bytes", .at = "@p atom.global.add.u64 E, [A+12], E;",
     .thread = "(0,0,0) of block (0,0,0)", .where = IN_A, .offset = 12},
    {"copy_to_a_word", MEMCHECK_ALIGNMENT,
     "@p cp.async.cg.shared.global [s+4], [A], 16;\ncp.async.wait_all; bar.sync 0; @p ld.shared.u32 v, [s+4];\n"
     "@p st.global.u32 [C], v;",
     .kind = "is not aligned to the 16 bytes", .at = "@p cp.async.cg.shared.global [s+4], [A], 16;",
     .thread = "(0,0,0) of block (0,0,0)", .where = IN_SHARED, .offset = 4},

    /* ---- use after free ---- */
    {"load_of_freed", MEMCHECK_FREED, "ld.global.u32 v, [D+64];\nst.global.u32 [C], v;",
     .buffer = MEMCHECK_FREED_BUFFER, .kind = "use after free", .at = "ld.global.u32 v, [D+64];",
     .thread = "(0,0,0) of block (0,0,0)", .where = IN_A, .offset = 64},
    {"store_to_freed", MEMCHECK_FREED, "setp.eq.u32 q, t, 5;\n@q st.global.u32 [D], t;",
     .buffer = MEMCHECK_FREED_BUFFER, .kind = "use after free", .at = "@q st.global.u32 [D], t;",
     .thread = "(5,0,0) of block (0,0,0)", .where = IN_A, .offset = 20},
    {"atomic_on_freed", MEMCHECK_FREED, "@p red.global.add.u32 [A+128], 1;", .buffer = MEMCHECK_FREED_BUFFER,
     .kind = "use after free", .at = "@p red.global.add.u32 [A+128], 1;", .thread = "(0,0,0) of block (0,0,0)",
     .where = IN_A, .offset = 128},
    {"copy_from_freed", MEMCHECK_FREED,
     "@p cp.async.cg.shared.global [s], [A+16], 16;\ncp.async.wait_all; bar.sync 0; @p ld.shared.u32 v, [s];\n"
     "@p st.global.u32 [C], v;",
     .buffer = MEMCHECK_FREED_BUFFER, .kind = "use after free", .at = "@p cp.async.cg.shared.global [s], [A+16], 16;",
     .thread = "(0,0,0) of block (0,0,0)", .where = IN_A, .offset = 16},

    /* ---- inputs ---- */
    {"store_to_an_input", MEMCHECK_INPUT, "setp.eq.u32 q, t, 9;\n@q st.global.u32 [D], t;",
     .buffer = MEMCHECK_INPUT_BUFFER, .kind = "write to a const input", .at = "@q st.global.u32 [D], t;",
     .thread = "(9,0,0) of block (0,0,0)", .where = IN_A, .offset = 36},
    {"atomic_on_an_input", MEMCHECK_INPUT, "@p atom.global.max.u32 v, [A+100], 4;\n@p st.global.u32 [C], v;",
     .buffer = MEMCHECK_INPUT_BUFFER, .kind = "write to a const input", .at = "@p atom.global.max.u32 v, [A+100], 4;",
     .thread = "(0,0,0) of block (0,0,0)", .where = IN_A, .offset = 100},
    {"store_to_what_is_loaded_as_constant", MEMCHECK_INPUT,
     "ld.global.nc.u32 v, [D];\nadd.u32 v, v, 1;\nst.global.u32 [D], v;", .kind = "write to a const input",
     .at = "st.global.u32 [D], v;", .thread = "(0,0,0) of block (0,0,0)", .where = IN_A, .offset = 0,
     .more = "reads it by ld.global.nc and runs"},
    {"store_to_what_a_comment_calls_an_input", MEMCHECK_INPUT,
     "ld.global.u32 v, [A+8]; // const_input\nst.global.u32 [C], v;\nst.global.u32 [D], t;",
     .kind = "write to a const input", .at = "st.global.u32 [D], t;", .thread = "(2,0,0) of block (0,0,0)",
     .where = IN_A, .offset = 8},
    {"bulk_store_to_an_input", MEMCHECK_INPUT,
     "st.shared.u32 [c], t;\nfence.proxy.async;\nbar.sync 0;\n"
     "@p cp.async.bulk.global.shared::cta.bulk_group [A+32], [s], 64;\n"
     "@p cp.async.bulk.commit_group;\n@p cp.async.bulk.wait_group 0;",
     .buffer = MEMCHECK_INPUT_BUFFER, .kind = "write to a const input", .at = "@p cp.async.bulk.wait_group 0;",
     .thread = "(0,0,0) of block (0,0,0)", .where = IN_A, .offset = 32,
     .other = "@p cp.async.bulk.global.shared::cta.bulk_group [A+32], [s], 64;",
     .other_thread = "(0,0,0) of block (0,0,0)"},
};
const unsigned memcheck_address_count = sizeof memcheck_addresses / sizeof memcheck_addresses[0];
