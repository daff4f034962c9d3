/* test_cpu_memory.c - loads, stores, atomics, address spaces, variables, and the faults of each with their places. */
#include "tests/cpu_snippet.h"

static struct snippet_in in[256];
static struct snippet_out out[256];

static void numbered(void) {
    for (size_t i = 0; i < 256; i++)
        in[i] = (struct snippet_in){i, 0x8123456789ABCDEF + i, i * i, 3};
}

START_TEST(loads_extend_as_their_type_says) {
    machine_with(fair(1, 1));
    numbered();
    evaluate("ld.global.s8 d, [from+15]; ld.global.u8 e, [from+15];", 'w', in, out, 32);
    ck_assert(out[0].d == 0xFFFFFF81 && out[0].e == 0x81);
    evaluate("ld.global.s16 D, [from+14]; ld.global.u32 E, [from+12];", 'l', in, out, 32);
    ck_assert(out[0].d == 0xFFFFFFFFFFFF8123 && out[0].e == 0x81234567);
    evaluate("ld.global.nc.L1::no_allocate.L2::128B.v4.b32 {_, _, d, e}, [from];", 'w', in, out, 32);
    ck_assert(out[7].d == 0x89ABCDEF + 7 && out[7].e == 0x81234567);
    evaluate(".reg .b128 z; ld.global.b128 z, [from]; mov.b128 {D, E}, z;", 'l', in, out, 32);
    ck_assert(out[5].d == 5 && out[5].e == 0x8123456789ABCDEF + 5);
    evaluate("createpolicy.fractional.L2::evict_first.b64 E, 0f3F800000; cvta.to.global.u64 F, from; "
             "ld.global.L2::cache_hint.b64 D, [F+16], E; ld.volatile.global.v2.u32 {e, _}, [F]; cvt.u64.u32 E, e;",
             'l', in, out, 32);
    ck_assert(out[9].d == 81 && out[9].e == 9);
}
END_TEST

/* PTX ISA, "Operand Size Exceeding Instruction-Type Size": bits go to wider float registers, floats to wider bits. */
START_TEST(loads_and_stores_use_the_low_part_of_wider_registers) {
    machine_with(fair(1, 1));
    numbered();
    evaluate(".reg .f64 z; ld.global.b32 z, [from+8]; mov.b64 D, z; ld.global.f32 E, [from+12];", 'l', in, out, 32);
    ck_assert(out[3].d == 0x89ABCDEF + 3 && out[3].e == 0x81234567);
    evaluate(".reg .f32 y; .reg .f16 y16; ld.global.b16 y, [from+14]; mov.b32 d, y; ld.global.b8 y16, [from+15];"
             " mov.b16 ha, y16; cvt.u32.u16 e, ha;",
             'w', in, out, 32);
    ck_assert(out[3].d == 0x8123 && out[3].e == 0x81);
    evaluate(".local .align 8 .b64 mine; .reg .f64 z; st.local.u64 [mine], C; mov.b64 z, B; st.local.b16 [mine], z;"
             " st.local.f32 [mine+4], A; ld.local.u64 D, [mine];",
             'l', in, out, 32);
    ck_assert(out[3].d == ((uint64_t)3 << 32 | (0x89ABCDEF + 3) % 0x10000));
}
END_TEST

/* A name says where it lies, and an element of an array is its address. */
START_TEST(generic_accesses_to_names_go_where_those_lie) {
    machine_with(fair(1, 1));
    for (uint32_t i = 0; i < 32; i++)
        in[i].a = i;
    evaluate(".shared .align 16 .b32 s[64]; .local .b32 l[2]; .shared .b16 n[3]; mov.u32 f, s; shl.b32 g, thread, 2; "
             "add.u32 f, f, g; "
             "st.shared.u32 [f], a; st.u32 [l], a; st.release.gpu.u32 [l+4], 7; bar.sync 0; ld.u32 d, [s+12]; ld.u32 "
             "e, l[1]; "
             "ld.acquire.gpu.u32 f, [l]; mad.lo.u32 d, d, 100, f; ld.shared.u32 f, s[5]; mad.lo.u32 d, d, 100, f; "
             "bar.sync 0; "
             "atom.add.u32 f, [s], 1; bar.sync 0; ld.u32 f, s[0]; mad.lo.u32 e, e, 100, f; mov.u32 f, n[2]; mov.u32 g, "
             "n; sub.u32 f, f, g; "
             "mad.lo.u32 e, e, 100, f;",
             'w', in, out, 32);
    for (uint32_t i = 0; i < 32; i++) {
        ck_assert_uint_eq(out[i].d, (3 * 100 + i) * 100 + 5);
        ck_assert_uint_eq(out[i].e, (7 * 100 + 32) * 100 + 4);
    }
    evaluate(".shared .align 16 .b32 s[64]; mov.u32 f, s; shl.b32 g, thread, 2; add.u32 f, f, g; st.shared.u32 [f], a; "
             "bar.sync 0; ldmatrix.sync.aligned.m8n8.x1.b16 {d}, [s];",
             'w', in, out, 32);
    for (uint32_t i = 0; i < 32; i++) /* each of eight rows is the first */
        ck_assert_uint_eq(out[i].d, i % 4);
}
END_TEST

START_TEST(parts_of_special_registers_and_predicates_are_read) {
    machine_with(fair(1, 1));
    evaluate(
        ".reg .b32 k<4>; mov.v4.u32 {k0, k1, k2, k3}, %tid; mad.lo.u32 d, k1, 10, k0; mad.lo.u32 d, k2, 10, d; "
        "mad.lo.u32 d, "
        "k3, 10, d; mov.v4.u32 {_, k1, _, e}, %ntid; mad.lo.u32 d, k1, 1000, d; mov.u32 k0, %ctaid.w; add.u32 e, e, "
        "k0; "
        "mov.u32 k0, 5; setp.eq.u32 p, thread, 0; @p mov.v4.u32 {k0, _, _, _}, %nctaid; mad.lo.u32 e, k0, 10, e; "
        "mov.pred p, %is_explicit_cluster; @p add.u32 e, e, 1; mov.pred p, !%is_explicit_cluster; @p add.u32 e, e, 2; "
        "isspacep.global p, d; @p add.u32 e, e, 100; isspacep.shared p, d; @p add.u32 e, e, 200;",
        'w', in, out, 8);
    for (uint32_t i = 0; i < 8; i++) {
        ck_assert_uint_eq(out[i].d, i + 1000);
        ck_assert_uint_eq(out[i].e, (i == 0 ? 10 : 50) + 2 + 100);
    }
}
END_TEST

START_TEST(local_memory_is_each_threads_own) {
    machine_with(fair(1, 1));
    numbered();
    evaluate(".local .align 8 .b8 mine[64]; mov.u64 F, mine; cvta.local.u64 E, F; st.local.v2.u32 [mine+8], {a, b}; "
             "ld.u32 d, [E+8];\n"
             "st.u8 [E+3], a; ld.local.u8 e, [F+3]; isspacep.local p, E; isspacep.global q, from; @!p mov.u32 d, 0; "
             "@!q mov.u32 d, 0;",
             'w', in, out, 64);
    for (uint32_t i = 0; i < 64; i++)
        ck_assert(out[i].d == i && out[i].e == i);
}
END_TEST

START_TEST(shared_memory_holds_static_and_dynamic_arrays) {
    static const char ptx[] = PTX_HEAD
        ".extern .shared .align 16 .b8 dynamic[];\n.shared .u32 first;\n"
        ".visible .entry f(.param .u64 out, .param .u64 b, .param .u64 c, .param .u64 d) { .reg .b32 t, u, v; .reg "
        ".b64 A, B;\n"
        ".shared .align 8 .f64 second; ld.param.u64 A, [out]; mov.u32 t, %dynamic_smem_size; st.shared.u32 [first], "
        "t;\n"
        "mov.u32 u, dynamic; st.shared.u32 [u+60], 1234; mov.u64 B, dynamic; cvta.shared.u64 B, B; ld.u32 v, [B+60];\n"
        "ld.shared.u32 t, [first]; st.global.v2.u32 [A], {t, v}; mov.u32 v, second; and.b32 v, v, 7; and.b32 u, u, "
        "15;\n"
        "st.global.v2.u32 [A+8], {u, v}; ret; }\n";
    machine_with(fair(1, 1));
    cu_ptr at = words(4, 9);
    uint64_t b = 0;
    void *parameters[] = {&at, &b, &b, &b};
    OK(launch_with(function_of_text(ptx, "f"), 1, 1, 64, NULL, false, parameters));
    ck_assert(word_at(at) == 64 && word_at(at + 4) == 1234 && word_at(at + 8) == 0 && word_at(at + 12) == 0);
}
END_TEST

/* Two variables of which each entry has one, or both: in all no CTA has room for them, and each keeps what is stored.
 */
START_TEST(an_entry_holds_the_shared_variables_that_it_names) {
    static const char ptx[] = PTX_HEAD
        ".extern .shared .b8 dynamic[];\n.shared .b8 before[200000];\n.shared .align 16 .b32 one[20];\n"
        ".shared .b8 between[200000];\n.shared .b32 two[5];\n"
        ".func store() { .shared .b32 own; st.shared.b32 [own], 7; st.shared.b32 [two+16], 22; ret; }\n"
        ".visible .entry f(.param .u64 out, .param .u64 b, .param .u64 c, .param .u64 d) { .reg .b32 t, u, v, w; .reg "
        ".b64 A; ld.param.u64 A, [out]; st.shared.b32 [one+76], 11; call store; st.shared.b32 [dynamic], 33; "
        "ld.shared.b32 t, [one+76]; ld.shared.b32 u, [two+16]; ld.shared.b32 v, [dynamic]; mov.b32 w, "
        "%total_smem_size; st.global.v4.b32 [A], {t, u, v, w}; ret; }\n"
        ".visible .entry h(.param .u64 out, .param .u64 b, .param .u64 c, .param .u64 d) { .reg .b32 t, u, v, w; .reg "
        ".b64 A; ld.param.u64 A, [out]; st.shared.b32 [two], 44; st.shared.b8 [between+199999], 55; ld.shared.b32 t, "
        "[two]; ld.shared.b8 u, [between+199999]; mov.b32 v, two; mov.b32 w, between; sub.u32 v, v, w; mov.b32 w, "
        "%total_smem_size; st.global.v4.b32 [A], {t, u, v, w}; ret; }\n";
    machine_with(fair(1, 1));
    cu_ptr at = words(4, 9);
    uint64_t b = 0;
    void *parameters[] = {&at, &b, &b, &b};
    OK(launch_with(function_of_text(ptx, "f"), 1, 1, 64, NULL, false, parameters));
    ck_assert(word_at(at) == 11 && word_at(at + 4) == 22 && word_at(at + 8) == 33 && word_at(at + 12) == 256);
    OK(launch_with(function_of_text(ptx, "h"), 1, 1, 0, NULL, false, parameters));
    ck_assert(word_at(at) == 44 && word_at(at + 4) == 55 && word_at(at + 8) == 200000);
    ck_assert_uint_eq(word_at(at + 12), (200000 + 20 + 127) / 128 * 128);
}
END_TEST

/* An entry in front of what the function that it calls has: a variable of each space, and an entry that has none. */
START_TEST(a_body_behind_its_caller_names_what_is_before_it) {
    static const char ptx[] = PTX_HEAD
        ".func (.param .b32 r) g();\n"
        ".visible .entry f(.param .u64 out) { .reg .b32 t, u; .reg .b64 A; .shared .b32 own; st.shared.b32 [own], 5; "
        "call (t), g; ld.param.u64 A, [out]; st.global.b32 [A], t; ld.shared.b32 u, [own]; mov.b32 t, "
        "%total_smem_size; st.global.b32 [A+4], u; st.global.b32 [A+8], t; ret; }\n"
        ".visible .entry h(.param .u64 out) { .reg .b32 t; .reg .b64 A; ld.param.u64 A, [out]; mov.b32 t, "
        "%total_smem_size; st.global.b32 [A], t; ret; }\n"
        ".const .b32 c = 42;\n.global .b32 v = 100;\n.shared .b32 s[60];\n"
        ".func (.param .b32 r) g() { .reg .b32 a, b; ld.const.b32 a, [c]; ld.global.b32 b, [v]; add.u32 a, a, b; "
        "st.shared.b32 [s+236], 1000; ld.shared.b32 b, [s+236]; add.u32 a, a, b; st.param.b32 [r], a; ret; }\n";
    machine_with(fair(1, 1));
    cu_ptr at = words(4, 9);
    void *parameters[] = {&at};
    OK(launch_with(function_of_text(ptx, "f"), 1, 1, 0, NULL, false, parameters));
    ck_assert(word_at(at) == 1142 && word_at(at + 4) == 5 && word_at(at + 8) == 256);
    OK(launch_with(function_of_text(ptx, "h"), 1, 1, 0, NULL, false, parameters));
    ck_assert_uint_eq(word_at(at), 0);
}
END_TEST

/* An index counts elements; bytes where the array has no size, as ptxas has it. */
START_TEST(parameters_and_dynamic_arrays_have_elements) {
    static const char ptx[] = PTX_HEAD
        ".extern .shared .b32 dynamic[];\n"
        ".func (.param .b32 r[2]) g(.param .b32 a[4]) { .reg .b32 t; ld.param.b32 t, a[2]; st.param.b32 r[1], t; ret; "
        "}\n.func (.param .b32 r) h(.param .b32 a[]) { .reg .b32 t; ld.param.b32 t, a[8]; st.param.b32 [r], t; ret; }\n"
        ".visible .entry f(.param .u64 out, .param .b32 a[4]) { .reg .b32 t, u, v, w; .reg .b64 A; .param .b32 z[4], "
        "y[2], x; ld.param.u64 A, [out]; ld.param.b32 t, a[3]; st.global.b32 [A+8], t; st.param.b32 z[2], t; call (y), "
        "g, (z); ld.param.b32 u, y[1]; call (x), h, (z); ld.param.b32 v, [x]; st.global.v2.b32 [A], {u, v}; "
        "st.shared.b32 dynamic[12], 77; ld.shared.b32 w, [dynamic+12]; st.global.b32 [A+12], w; ret; }\n";
    machine_with(fair(1, 1));
    cu_ptr at = words(4, 9);
    uint32_t a[4] = {1, 2, 3, 44};
    void *parameters[] = {&at, a};
    OK(launch_with(function_of_text(ptx, "f"), 1, 1, 64, NULL, false, parameters));
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(word_at(at + (cu_ptr)4 * i), 44);
    ck_assert_uint_eq(word_at(at + 12), 77);
}
END_TEST

START_TEST(module_variables_have_their_initial_values) {
    static const char ptx[] = PTX_HEAD
        ".global .align 8 .u32 table[6] = {1, 0x10, -1, 0b11};\n.const .f32 half[] = {0.5, 0f3F800000, -2.0};\n"
        ".global .u64 where = table + 4;\n.global .align 8 .u8 bytes[8] = {0xff(table+4), 0xff00(table+4), "
        "0xff0000(table+4), 0xff000000(table+4), 0xff00000000(table+4), 0xff0000000000(table+4), "
        "0xff000000000000(table+4), 0xff00000000000000(table+4)};\n.global .align 2 .b8 raw[4] = {1, 2, 3, 4};\n"
        ".visible .entry f(.param .u64 out, .param .u64 b, .param .u64 c, .param .u64 d) { .reg .b32 t, u; .reg .b64 "
        "A, B; .reg .f32 x;\n"
        "ld.param.u64 A, [out]; ld.global.u32 t, [table+8]; st.global.u32 [A], t; ld.global.u64 B, [where]; "
        "ld.global.u32 t, [B];\n"
        "st.global.u32 [A+4], t; ld.const.f32 x, [half+8]; st.global.f32 [A+8], x; mov.u64 B, raw; ld.global.u32 t, "
        "[B]; st.global.u32 [A+12], t;\n"
        "ld.global.u32 t, [table+12]; ld.global.u32 u, [table+20]; st.global.v2.u32 [A+16], {t, u}; mov.u64 B, half; "
        "ld.f32 x, [B]; st.global.f32 [A+24], x; ld.global.u64 B, [bytes]; ld.global.u32 t, [B]; st.global.u32 [A+28], "
        "t; ret; }\n";
    machine_with(fair(2, 1));
    for (int device = 0; device < 2; device++) {
        on(device);
        cu_ptr at = words(8, 9);
        launch(function_of_text(ptx, "f"), 1, 1, NULL, false, at, 0, 0, 0);
        OK(cpu_ctx_synchronize());
        ck_assert(word_at(at) == 0xFFFFFFFF && word_at(at + 4) == 16 && word_at(at + 8) == 0xC0000000 &&
                  word_at(at + 12) == 0x04030201);
        ck_assert(word_at(at + 16) == 3 && word_at(at + 20) == 0 && word_at(at + 24) == 0x3F000000 &&
                  word_at(at + 28) == 16);
    }
}
END_TEST

/* Each call finds what the one before it left, in shared memory of the CTA and in global memory of the module; names of
 * a range, with zeros before their numbers or without. */
START_TEST(variables_of_a_function_are_there_once) {
    static const char ptx[] = PTX_HEAD
        ".func (.param .u32 y) g(.param .u32 x) { .global .u32 count = 5; .shared .u32 s<2>; .reg .u32 r<3>; .reg "
        ".pred "
        "r;\n"
        "ld.param.u32 r1, [x]; setp.eq.u32 r, r1, 0; @r st.shared.u32 [s1], 7; ld.shared.u32 r2, [s01];\n"
        "ld.global.u32 r0, [count]; add.u32 r00, r000, r02; st.global.u32 [count], r0; st.param.u32 [y], r0; ret; }\n"
        ".func use(.param .u64 out) { .param .u32 a<2>, b<2>; .reg .u32 r; .reg .u64 A; ld.param.u64 A, [out];\n"
        "st.param.u32 [a0], 0; st.param.u32 [a1], 1; call (b0), g, (a0); call (b1), g, (a1);\n"
        "ld.param.u32 r, [b0]; st.global.u32 [A], r; ld.param.u32 r, [b1]; st.global.u32 [A+4], r; ret; }\n"
        ".visible .entry f(.param .u64 out) { .param .u64 o; .reg .u64 A; ld.param.u64 A, [out]; st.param.u64 [o], A; "
        "call use, (o); ret; }\n"
        ".visible .entry h(.param .u64 out) { .param .u64 o; .reg .u64 A; ld.param.u64 A, [out]; st.param.u64 [o], A; "
        "call use, (o); ret; }\n";
    machine_with(fair(1, 1));
    cu_ptr at = words(4, 9);
    cu_library library = library_of_text(ptx);
    cu_kernel kernel;
    cu_function function;
    void *parameters[] = {&at};
    for (unsigned i = 0; i < 2; i++) {
        OK(cpu_library_get_kernel(&kernel, library, i ? "h" : "f"));
        OK(cpu_kernel_get_function(&function, kernel));
        OK(cpu_func_load(function));
        OK(launch_with(function, 1, 1, 1, NULL, false, parameters));
        OK(cpu_ctx_synchronize());
        ck_assert_uint_eq(word_at(at), 12 + 14 * i);
        ck_assert_uint_eq(word_at(at + 4), 19 + 14 * i);
    }
}
END_TEST

/* ---- atomics: 128 threads on one word ---- */
static uint64_t after_atomics(const char *instruction, uint64_t start, bool shared) {
    char *text = NULL;
    ck_assert_int_ge(
        asprintf(&text,
                 PTX_HEAD ".visible .entry f(.param .u64 out, .param .u64 start, .param .u64 c, .param .u64 d) { .reg "
                          ".b32 t, v, o; .reg .b64 A, V, S, O, G; .reg .f32 x; .reg .f64 y;\n"
                          ".reg .b16 h; .reg .pred p; .shared .align 8 .b64 word; mov.u32 t, %%tid.x; ld.param.u64 G, "
                          "[out]; ld.param.u64 S, [start]; mov.u64 A, %s;\n"
                          "setp.eq.u32 p, t, 0; @p st.%s.u64 [A], S; bar.sync 0; cvt.u64.u32 V, t; add.u32 v, t, 1; "
                          "cvt.rn.f32.u32 x, v; cvt.rn.f64.u32 y, v;\n%s\nbar.sync 0; "
                          "@p ld.%s.u64 V, [A]; @p st.global.u64 [G], V; ret; }\n",
                 shared ? "word" : "G", shared ? "shared" : "global", instruction, shared ? "shared" : "global"),
        0);
    cu_ptr at = words(2, 0);
    launch(function_of_text(text, "f"), 1, 128, NULL, false, at, start, 0, 0);
    uint64_t word = 0;
    OK(cpu_copy_to_host(&word, at, 8));
    free(text);
    return word;
}

START_TEST(atomics_leave_what_any_order_leaves) {
    static const struct {
        const char *format;
        uint64_t start, want;
    } rows[] = {
        {"atom.%s.add.u32 o, [A], v;", 5, 5 + 128 * 129 / 2},
        {"red.relaxed.gpu.%s.add.u64 [A], V;", 1, 1 + 127 * 128 / 2},
        {"atom.acq_rel.sys.%s.max.s32 o, [A], v;", 0x80000000, 128},
        {"red.%s.min.u32 [A], v;", 0xFFFFFFFF, 1},
        {"atom.%s.or.b32 o, [A], v;", 0, 0xFF},
        {"atom.%s.and.b64 O, [A], V;", ~UINT64_C(0), 0},
        {"atom.%s.xor.b32 o, [A], t;", 7, 7},
        {"atom.%s.inc.u32 o, [A], 9;", 0, 8},
        {"atom.%s.dec.u32 o, [A], 9;", 3, 5},
        {"atom.%s.exch.b32 o, [A], 55;", 3, 55},
        {"atom.%s.add.f32 x, [A], x;", 0, 0x46010000}, /* 8256 */
        {"red.%s.add.f64 [A], y;", 0, 0x40C0200000000000},
        {"mov.b32 o, 0x3C003C00; red.%s.add.noftz.f16x2 [A], o;", 0, 0x58005800}, /* 128 each */
        {"mov.b32 o, 0x3F803F80; atom.%s.add.noftz.bf16x2 o, [A], o;", 0, 0x43004300},
        {"L: ld.volatile.%s.u32 o, [A]; add.u32 v, o, 3; atom.%s.cas.b32 v, [A], o, v; setp.ne.u32 p, v, o; @p bra L; "
         "setp.eq.u32 p, t, 0;",
         0, 384},
    };
    machine_with(fair(1, 1));
    char text[400];
    for (int shared = 0; shared < 2; shared++) {
        const char *space = shared ? "shared" : "global";
        snprintf(text, sizeof text, rows[_i].format, space, space);
        uint64_t got = after_atomics(text, rows[_i].start, shared);
        ck_assert_msg(got == rows[_i].want, "%s: %llx, not %llx", text, (unsigned long long)got,
                      (unsigned long long)rows[_i].want);
    }
}
END_TEST

START_TEST(f32_atomics_flush_in_global_memory_only) {
    machine_with(fair(1, 1));
    ck_assert(after_atomics("setp.eq.u32 p, t, 5; @p red.global.add.f32 [A], 0f00000001; setp.eq.u32 p, t, 0;", 1,
                            false) == 0);
    ck_assert(after_atomics("setp.eq.u32 p, t, 5; @p red.shared.add.f32 [A], 0f00000001; setp.eq.u32 p, t, 0;", 1,
                            true) == 2);
}
END_TEST

START_TEST(multicast_stores_and_fences_are_accepted) {
    machine_with(fair(1, 1));
    numbered();
    evaluate("multimem.st.relaxed.sys.global.v4.f32 [to], {a, a, b, b}; multimem.st.weak.global.u64 [to], D; "
             "fence.acq_rel.sys; membar.gl; fence.sc.gpu; fence.proxy.async; fence.proxy.alias; prefetch.global.L2 "
             "[from]; nanosleep.u32 20; ld.relaxed.sys.global.u32 d, [from];",
             'w', in, out, 32);
    ck_assert_int_eq((int)out[3].d, 3);
}
END_TEST

/* ---- programmatic launch and time ---- */
START_TEST(timers_go_forward_and_special_registers_know_their_place) {
    static const char ptx[] =
        PTX_HEAD ".visible .entry f(.param .u64 out, .param .u64 b, .param .u64 c, .param .u64 d) .reqntid 8, 4, 2 { "
                 ".reg .b32 t, u, v, w; .reg .b64 A, B, C; .reg .pred p;\n"
                 "ld.param.u64 A, [out]; mov.u64 B, %globaltimer; mov.u32 u, 0; L: add.u32 u, u, 1; setp.lt.u32 p, u, "
                 "5000; @p bra L; mov.u64 C, %globaltimer; setp.gt.u64 p, C, B; selp.b32 w, 1, 0, p;\n"
                 "mov.u32 t, %tid.z; shl.b32 t, t, 2; mov.u32 u, %tid.y; add.u32 t, t, u; shl.b32 t, t, 3; mov.u32 u, "
                 "%tid.x; add.u32 t, t, u; mov.u32 v, %laneid; mov.u32 u, %warpid; shl.b32 u, u, 5; add.u32 v, v, u;\n"
                 "mul.wide.u32 B, t, 16; add.u64 A, A, B; mov.u32 u, %lanemask_lt; st.global.v4.u32 [A], {t, v, w, u}; "
                 "griddepcontrol.wait; griddepcontrol.launch_dependents; ret; }\n";
    machine_with(fair(1, 1));
    cu_ptr at = words(256, 0);
    uint64_t zero = 0;
    void *parameters[] = {&at, &zero, &zero, &zero};
    cu_launch_config config = {.grid = {1, 1, 1}, .block = {8, 4, 2}};
    OK(cpu_launch(&config, function_of_text(ptx, "f"), parameters, NULL));
    uint32_t got[256];
    OK(cpu_copy_to_host(got, at, sizeof got));
    for (uint32_t i = 0; i < 64; i++)
        ck_assert(got[4 * i] == i && got[4 * i + 1] == i && got[4 * i + 2] == 1 &&
                  got[4 * i + 3] == (UINT32_C(1) << i % 32) - 1);
}
END_TEST

/* ---- faults ---- */
#define TO_SHARED "mov.u64 A, box; cvta.shared.u64 A, A; "
#define TO_LOCAL ".local .b32 mine[512]; mov.u64 A, mine; cvta.local.u64 A, A; add.u64 A, A, 1024; "
START_TEST(a_wrong_access_is_a_fault_with_line_thread_and_address) {
    static const struct {
        const char *snippet;
        cu_result result;
        const char *says[4];
    } rows[] = {
        {"setp.eq.u32 p, t, 5; @p ld.global.u32 u, [A+4096];",
         700,
         {"thread (5,0,0) of block (1,0,0)", "PTX line 7", "ld.global.u32 u, [A+4096]"}},
        {"add.u64 A, A, 2;\nst.global.u32 [A], t;",
         716,
         {"not aligned to the 4 bytes", "PTX line 8", "thread (0,0,0)"}},
        {"ld.global.v4.u32 {u, u, u, u}, [A+8];", 716, {"not aligned to the 16 bytes"}},
        {"st.shared.u32 [box+64], t;", 700, {"shared memory is [0x400, 0x440)", "0x440"}},
        {"mov.u32 u, 0; ld.shared.u32 u, [u];", 700, {"shared address 0x0"}},
        {"ld.shared.u16 v, [box+1];", 716, {"0x401"}},
        {".local .b32 mine[4]; st.local.u32 [mine+16], t;", 700, {"local memory is [0x0, 0x10)"}},
        {"mov.u64 A, 0; ld.u32 u, [A];", 700, {"address 0x0"}},
        {"mov.u64 A, 0; atom.global.add.u32 u, [A], 1;", 700, {"address 0x0"}},
        {"atom.global.add.u32 u, [A+1], 1;", 716, {"aligned to the 4 bytes"}},
        {"mov.u64 A, box; cvta.shared.u64 A, A; add.u64 A, A, 400; ld.u32 u, [A];", 700, {"shared address 0x590"}},
        /* generic addresses outside the space that the access states */
        {TO_SHARED "atom.global.add.u32 u, [A], 1;", 700, {"address 0x100000000000400"}},
        {TO_SHARED "red.global.add.u32 [A], 1;", 700, {"address 0x100000000000400"}},
        {TO_SHARED "red.release.gpu.global.max.s64 [A+8], A;", 700, {"address 0x100000000000408"}},
        {TO_SHARED "atom.global.cas.b32 u, [A], 5, 9;", 700, {"address 0x100000000000400"}},
        {TO_SHARED "atom.global.exch.b64 A, [A], 5;", 700, {"address 0x100000000000400"}},
        {TO_SHARED "red.global.add.noftz.f16x2 [A], t;", 700, {"address 0x100000000000400"}},
        {TO_LOCAL "atom.global.add.u32 u, [A], 1;", 700, {"address 0x200000000000400"}},
        {TO_LOCAL "red.global.and.b64 [A], A;", 700, {"address 0x200000000000400"}},
        {TO_LOCAL "atom.shared.add.u32 u, [A], 1;", 717, {"address 0x200000000000400 is not in shared memory"}},
        {TO_LOCAL "ld.shared.u32 u, [A];", 717, {"address 0x200000000000400 is not in shared memory"}},
        {TO_LOCAL "st.shared.u32 [A], t;", 717, {"address 0x200000000000400 is not in shared memory"}},
        {TO_LOCAL TO_SHARED "ld.local.u32 u, [A];", 700, {"local address 0x100000000000400"}},
        {TO_LOCAL TO_SHARED "st.local.u32 [A], t;", 700, {"local address 0x100000000000400"}},
        {"mov.u64 A, table; st.global.u32 [A+32], t;",
         700,
         {"0 bytes past the end of allocation #", " (variable table) ["}},
        {"mov.u64 A, sizes; ld.const.u32 u, [A+20];",
         700,
         {"4 bytes past the end of allocation #", " (variable sizes) ["}},
    };
    char *text = NULL;
    ck_assert_int_ge(asprintf(&text,
                              PTX_HEAD
                              ".global .b32 table[8]; .const .b32 sizes[4]; .visible .entry wrong(.param .u64 a, "
                              ".param .u64 b, .param .u64 c, .param .u64 d) {\n.reg "
                              ".b32 t, u; .reg .b16 v; .reg .b64 A; .reg .pred p; .shared .align 16 .b32 box[16];\n"
                              "mov.u32 t, %%tid.x; ld.param.u64 A, [a]; mov.u32 u, %%ctaid.x; setp.eq.u32 p, u, 0; @p "
                              "exit;\n%s\nret; }\n",
                              rows[_i].snippet),
                     0);
    machine_with(fair(1, 1));
    launch(function_of_text(text, "wrong"), 2, 32, NULL, false, words(64, 0), 0, 0, 0);
    GIVES(rows[_i].result, cpu_ctx_synchronize());
    for (int i = 0; i < 4 && rows[_i].says[i]; i++)
        says(dcpkcpu_report(), rows[_i].says[i]);
    says(dcpkcpu_report(), "wrong");
    free(text);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_memory");
    TCase *tcase = tcase_create("memory");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, loads_extend_as_their_type_says);
    tcase_add_test(tcase, loads_and_stores_use_the_low_part_of_wider_registers);
    tcase_add_test(tcase, generic_accesses_to_names_go_where_those_lie);
    tcase_add_test(tcase, parts_of_special_registers_and_predicates_are_read);
    tcase_add_test(tcase, local_memory_is_each_threads_own);
    tcase_add_test(tcase, shared_memory_holds_static_and_dynamic_arrays);
    tcase_add_test(tcase, an_entry_holds_the_shared_variables_that_it_names);
    tcase_add_test(tcase, parameters_and_dynamic_arrays_have_elements);
    tcase_add_test(tcase, a_body_behind_its_caller_names_what_is_before_it);
    tcase_add_test(tcase, module_variables_have_their_initial_values);
    tcase_add_test(tcase, variables_of_a_function_are_there_once);
    tcase_add_loop_test(tcase, atomics_leave_what_any_order_leaves, 0, 15);
    tcase_add_test(tcase, f32_atomics_flush_in_global_memory_only);
    tcase_add_test(tcase, multicast_stores_and_fences_are_accepted);
    tcase_add_test(tcase, timers_go_forward_and_special_registers_know_their_place);
    tcase_add_loop_test(tcase, a_wrong_access_is_a_fault_with_line_thread_and_address, 0, 26);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
