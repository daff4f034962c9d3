/* memcheck_values.c - planted faults: reads of global memory, shared memory and registers that nobody has written. Data
 * only. */
#include "tests/memcheck.h"

const struct memcheck_case memcheck_values[] = {
    /* ---- global ---- */
    {"load_of_unwritten", MEMCHECK_UNWRITTEN_GLOBAL, "ld.global.u32 v, [D];\nst.global.u32 [C], v;",
     .buffer = MEMCHECK_UNWRITTEN, .kind = "uninitialised global read", .at = "ld.global.u32 v, [D];",
     .thread = "(0,0,0) of block (0,0,0)", .where = IN_A, .offset = 0},
    {"load_past_what_is_written", MEMCHECK_UNWRITTEN_GLOBAL, "ld.global.u32 v, [D];\nst.global.u32 [C], v;",
     .threads = 64, .buffer = MEMCHECK_HALF_WRITTEN, .kind = "uninitialised global read", .at = "ld.global.u32 v, [D];",
     .thread = "(32,0,0) of block (0,0,0)", .where = IN_A, .offset = 128},
    {"atomic_on_unwritten", MEMCHECK_UNWRITTEN_GLOBAL,
     "setp.eq.u32 q, t, 4;\n@q atom.global.add.u32 v, [D], 1;\n@q st.global.u32 [C], v;", .buffer = MEMCHECK_UNWRITTEN,
     .kind = "uninitialised global read", .at = "@q atom.global.add.u32 v, [D], 1;",
     .thread = "(4,0,0) of block (0,0,0)", .where = IN_A, .offset = 16},
    {"vector_half_written", MEMCHECK_UNWRITTEN_GLOBAL,
     "ld.global.v4.u32 {v, w, x, y}, [A+128];\nadd.u32 v, v, w; add.u32 x, x, y; add.u32 v, v, x;\n"
     "st.global.u32 [C], v;",
     .bytes = 272, .buffer = MEMCHECK_HALF_WRITTEN, .kind = "uninitialised global read",
     .at = "ld.global.v4.u32 {v, w, x, y}, [A+128];", .thread = "(0,0,0) of block (0,0,0)", .where = IN_A,
     .offset = 136},
    {"generic_load_of_unwritten", MEMCHECK_UNWRITTEN_GLOBAL,
     "cvta.global.u64 E, D; setp.eq.u32 q, t, 6;\n@q ld.u16 h, [E];\ncvt.u32.u16 v, 7;\n"
     "@q cvt.u32.u16 v, h;\nst.global.u32 [C], v;",
     .buffer = MEMCHECK_UNWRITTEN, .kind = "uninitialised global read", .at = "@q ld.u16 h, [E];",
     .thread = "(6,0,0) of block (0,0,0)", .where = IN_A, .offset = 24},

    /* ---- shared ---- */
    {"shared_never_written", MEMCHECK_UNWRITTEN_SHARED, "ld.shared.u32 v, [c+64];\nst.global.u32 [C], v;",
     .kind = "uninitialised shared read", .at = "st.global.u32 [C], v;", .thread = "(0,0,0) of block (0,0,0)",
     .where = IN_SHARED, .offset = 64, .more = "it was loaded at kernel f, PTX line 10: `ld.shared.u32 v, [c+64];`"},
    {"shared_word_partly_written", MEMCHECK_UNWRITTEN_SHARED,
     "st.shared.u16 [c], 1;\nld.shared.u32 v, [c];\nadd.u32 v, v, 1; st.global.u32 [C], v;",
     .kind = "uninitialised shared read", .at = "add.u32 v, v, 1;", .thread = "(0,0,0) of block (0,0,0)",
     .where = IN_SHARED, .offset = 2},
    {"shared_row_of_a_matrix", MEMCHECK_UNWRITTEN_SHARED,
     "st.shared.u32 [c], t;\nbar.warp.sync -1;\nshl.b32 u, t, 5; add.u32 u, u, s;\n"
     "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {v}, [u];\nst.global.u32 [C], v;",
     .kind = "uninitialised shared read", .at = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {v}, [u];",
     .thread = "(4,0,0) of block (0,0,0)", .where = IN_SHARED, .offset = 128},
    {"shared_copy_of_unwritten", MEMCHECK_UNWRITTEN_SHARED,
     "cp.async.ca.shared.global [c], [D], 4;\ncp.async.wait_all;\nld.shared.u32 v, [c];\nst.global.u32 [C], v;",
     .buffer = MEMCHECK_UNWRITTEN, .kind = "uninitialised shared read", .at = "st.global.u32 [C], v;",
     .thread = "(0,0,0) of block (0,0,0)", .where = IN_SHARED, .offset = 0},
    {"shared_atomic_on_unwritten", MEMCHECK_UNWRITTEN_SHARED,
     "@p atom.shared.add.u32 v, [s+8], 1;\n@p st.global.u32 [C], v;", .kind = "uninitialised shared read",
     .at = "@p atom.shared.add.u32 v, [s+8], 1;", .thread = "(0,0,0) of block (0,0,0)", .where = IN_SHARED,
     .offset = 8},
    {"shared_of_the_next_block", MEMCHECK_UNWRITTEN_SHARED,
     "mov.u32 v, %cluster_ctarank; xor.b32 v, v, 1; mapa.shared::cluster.u32 u, c, v;\n"
     "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\nld.shared::cluster.u32 v, [u+128];\n"
     "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\nst.global.u32 [C], v;",
     .blocks = 2, .cluster = 2, .kind = "uninitialised shared read", .at = "ld.shared::cluster.u32 v, [u+128];",
     .thread = "(0,0,0) of block (1,0,0)", .where = IN_SHARED, .offset = 128},

    /* ---- registers ---- */
    {"register_never_written", MEMCHECK_UNWRITTEN_REGISTER, "add.u32 w, v, 1;\nst.global.u32 [C], w;",
     .kind = "uninitialised register: v is read", .at = "add.u32 w, v, 1;", .thread = "(0,0,0) of block (0,0,0)"},
    {"register_written_on_one_path", MEMCHECK_UNWRITTEN_REGISTER,
     "setp.ge.u32 q, t, 16;\n@q bra OVER;\nmov.u32 v, 3;\nOVER:\nst.global.u32 [C], v;",
     .kind = "uninitialised register: v is read", .at = "st.global.u32 [C], v;", .thread = "(16,0,0) of block (0,0,0)"},
    {"register_written_under_a_guard", MEMCHECK_UNWRITTEN_REGISTER,
     "setp.lt.u32 q, t, 5;\n@q mov.u32 v, t;\nmul.lo.u32 w, v, v;\nst.global.u32 [C], w;",
     .kind = "uninitialised register: v is read", .at = "mul.lo.u32 w, v, v;", .thread = "(5,0,0) of block (0,0,0)"},
    {"predicate_never_written", MEMCHECK_UNWRITTEN_REGISTER, "mov.u32 v, 1;\n@r mov.u32 v, 2;\nst.global.u32 [C], v;",
     .kind = "uninitialised register: r is read", .at = "@r mov.u32 v, 2;", .thread = "(0,0,0) of block (0,0,0)"},
    {"accumulators_never_written", MEMCHECK_UNWRITTEN_REGISTER,
     ".reg .f32 d0, d1, d2, d3; mov.f32 d0, 0f00000000; mov.f32 d1, d0; mov.f32 d2, d0;\nmov.u32 v, t;\n"
     "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {d0, d1, d2, d3}, {v, v}, {v}, {d0, d1, d2, d3};\n"
     "st.global.f32 [C], d3;",
     .kind = "uninitialised register: d3 is read",
     .at = "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {d0, d1, d2, d3}, {v, v}, {v}, {d0, d1, d2, d3};",
     .thread = "(0,0,0) of block (0,0,0)"},
};
const unsigned memcheck_value_count = sizeof memcheck_values / sizeof memcheck_values[0];
