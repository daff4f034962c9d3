/* test_cpu_ptx.c - the PTX front: what is read, what is refused and in which words, scopes, registers that share slots.
 */
#include "tests/cpu_snippet.h"
#include "runtime/cpu/machine.h"

#define ENTRY ".visible .entry f(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {\n"

/* ---- messages ---- */
static unsigned template_line(void *self, unsigned line, const char **file) {
    *file = self;
    return line * 10;
}

START_TEST(what_is_unknown_is_named_with_both_lines) {
    static const struct {
        const char *body;
        const char *says[3];
    } rows[] = {
        {".reg .b32 %r<4>;\ntcgen05.fence::before_thread_sync;\n",
         {"PTX line 6 (dcp_value.ptx.lua:60)", "`tcgen05.fence::before_thread_sync;`", "unknown instruction"}},
        {".reg .b32 %r<4>;\nadd.f8 %r1, %r2, %r3;\n", {"PTX line 6", "`add.f8`", "not supported in this form"}},
        {".reg .b32 %r<4>;\nadd.u32 %r1, %r2;\n", {"operand 3 is missing"}},
        {".reg .b32 %r<4>;\nadd.u32 %r1, %r2, %r4;\n",
         {"`%r4` is neither a declared register nor a known special register"}},
        {".reg .b32 %r<4>; .reg .b64 %d;\nadd.u32 %r1, %r2, %d;\n", {"operand 3", "a 32-bit integer is expected"}},
        {".reg .f32 %r<4>;\nadd.u32 %r1, %r2, %r3;\n", {"operand 1", "a 32-bit integer is expected"}},
        {".reg .b32 %r<4>;\nadd.u32 5, %r2, %r3;\n", {"operand 1 is written and must be a register"}},
        {".reg .b16 %h;\nld.global.u32 %h, [a];\n", {"lies in another space"}},
        {".reg .b16 %h; .reg .b64 %a;\nld.global.u32 %h, [%a];\n", {"does not suit .u32"}},
        {"bra nowhere;\n", {"label `nowhere` is not defined"}},
        {"{ inner: ret; }\nbra inner;\n", {"label `inner` is not defined"}},
        {".reg .b32 x; .reg .b32 x;\n", {"`x` is declared twice in one scope"}},
        {"call foo;\n", {"PTX line 5", "function `foo` has no body in this PTX"}},
        {"@%q ret;\n", {"`%q` is not a declared predicate"}},
        {".reg .b32 x;\nmov.u32 x, 0x1FFFFFFFFFFFFFFFF;\n", {"integer constant beyond 64 bits"}},
        {".reg .b32 x;\nmov.u32 x, 09;\n", {"malformed number"}},
        {".reg .f32 x;\nmov.f32 x, 0f3F80;\n", {"8 hexadecimal digits"}},
        {".reg .f32 x;\nmov.f32 x, 1;\n", {"an f32 is expected"}},
        {"ret\n", {"`;` is expected before `}`"}},
        {"\x01", {"byte 0x01 is not PTX"}},
        {"/* for ever", {"comment without an end"}},
        {".reg .b32 x; .reg .f32 y;\ncvt.s32.f32 x, y;\n", {"needs a rounding"}},
        {".reg .b16 x; .reg .f32 y;\ncvt.rn.e4m3x2.f32 x, y, y;\n", {"need .satfinite"}},
        {".tex .u32 t;\n", {"directive `.tex` is not supported"}},
        {".reg .b32 %r<4>;\nmma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r0,%r1,%r2,%r3}, {%r0,%r1}, "
         "{%r0,%r1}, {%r0,%r1,%r2,%r3};\n",
         {"operand 2 has 4 registers, not 2"}},
    };
    char text[2000], message[1000] = "";
    struct line_source lines = {(void *)(uintptr_t) "dcp_value.ptx.lua", template_line};
    snprintf(text, sizeof text, PTX_HEAD ENTRY "%s}\n", rows[_i].body);
    ck_assert_ptr_null(ptx_load(text, &lines, message, sizeof message));
    for (int i = 0; i < 3 && rows[_i].says[i]; i++)
        says(message, rows[_i].says[i]);
    says(message, "(dcp_value.ptx.lua:");
}
END_TEST

START_TEST(modules_refuse_what_cannot_be_run) {
    static const struct {
        const char *text, *says;
    } rows[] = {
        {".version 8.0\n.target sm_90\n.address_size 32\n", "only .address_size 64"},
        {PTX_HEAD ".func twice(.reg .b32 a) { ret; }\n.entry f() { call twice; }",
         "parameters of `twice` in registers"},
        {PTX_HEAD ".func g();\n.entry f() { call g; }\n.func g() { call g; }", "`g` calls itself"},
        {PTX_HEAD ".func g() { bra L; }\n.entry f() { L: call g; }", "label `L` is not defined"},
        {PTX_HEAD ".func g() { mov.u32 %r1, 1; }\n.entry f() { .reg .b32 %r<2>; call g; }", "`%r1` is neither"},
        {PTX_HEAD ".func g(.param .b64 a) { ret; }\n.entry f() { .param .b32 p; call g, (p); }", "has 8 bytes, not 4"},
        {PTX_HEAD ".func g(.param .b64 a) { ret; }\n.entry f() { call g; }", "`g` has 1 argument, not 0"},
        {PTX_HEAD ".func g() { ret; }\n.entry f() { .reg .b64 a; mov.u64 a, g; }", "calls through pointers"},
        {PTX_HEAD ".func g() { ret; }\n.entry f() { .reg .b64 a; call a; }", "`a` is no device function here"},
        {PTX_HEAD ".extern .global .u32 elsewhere;\n", "defined in another module"},
        {PTX_HEAD ".visible .entry f() { ret; ", "`}` is missing at the end"},
        {PTX_HEAD ".global .u32 v[2] = {1, 2, 3};\n", "more initialisers"},
        {PTX_HEAD "add.u32;\n", "a directive is expected"},
        {PTX_HEAD ".visible .entry f(.param .b8 big[40000]) { ret; }", "more than 32764"},
        {PTX_HEAD ".visible .entry f() { .shared .b8 s[99999999]; ret; }", "99999999 bytes, and 232448 are the most"},
        {PTX_HEAD ".visible .entry f() { .reg .b32 r<9999999>; ret; }", "names in `r<...>`"},
    };
    char message[1000] = "";
    ck_assert_ptr_null(ptx_load(rows[_i].text, NULL, message, sizeof message));
    says(message, rows[_i].says);
    says(message, "PTX line");
}
END_TEST

/* ---- what is read ---- */
START_TEST(entries_tell_their_parameters_shared_memory_and_limits) {
    static const char text[] =
        "//\n.version 8.4\n.target sm_90a, debug // comment\n.address_size 64\n.file 1 \"x.cu\"\n.extern .func (.param "
        ".b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
        ".section .debug_str { .b8 1, 2 info: .b8 120 }\n"
        ".weak .entry first(.param .u8 x, .param .align 16 .b8 block[40], .param .u64 .ptr .global .align 8 "
        "pointer)\n.maxntid 128, 2, 1\n.minnctapersm 2\n{\n.loc 1 2 3 .loc 1 3 4, function_name info, inlined_at 1 2 "
        "3\n"
        ".pragma \"nounroll\";\n.shared .align 8 .b8 s[20]; .local .align 4 .b8 l[12]; ret; }\n"
        ".entry second .reqntid 64 { .shared .f64 d; exit; }\n";
    char message[1000] = "";
    struct ptx_module *m = ptx_load(text, NULL, message, sizeof message);
    ck_assert_msg(m != NULL, "%s", message);
    ck_assert_uint_eq(ptx_function_count(m), 2);
    struct ptx_function *f = ptx_function_at(m, 0), *g = ptx_function_at(m, 1);
    ck_assert_str_eq(f->name, "first");
    ck_assert(f->param_count == 3 && f->params[1].offset == 16 && f->params[1].bytes == 40 &&
              f->params[2].offset == 56 && f->param_bytes == 64);
    ck_assert(f->max_threads == 256 && f->reqntid[0] == 0 && f->static_shared == 20 && f->local_bytes == 16);
    ck_assert(g->max_threads == 64 && g->reqntid[0] == 64 && g->static_shared == 8 && g->param_bytes == 0);
    ptx_free(m);
}
END_TEST

START_TEST(inner_scopes_redeclare_registers_and_labels) {
    static struct snippet_in in[32];
    static struct snippet_out out[32];
    machine_with(fair(1, 1));
    for (uint32_t i = 0; i < 32; i++)
        in[i].a = i;
    evaluate("mov.u32 d, 1; { .reg .b32 d; .reg .b64 a; mov.u32 d, 50; cvt.u64.u32 a, d; bra L; mov.u32 d, 51; L: "
             "cvt.u32.u64 e, a; }\n"
             "L: add.u32 d, d, 1; { .reg .b32 k; mov.u32 k, 7; setp.lt.u32 p, d, 10; @p bra L; bra OUT; }\nmov.u32 d, "
             "99; OUT: add.u32 e, e, a;",
             'w', in, out, 32);
    for (uint32_t i = 0; i < 32; i++)
        ck_assert(out[i].d == 10 && out[i].e == 50 + i);
}
END_TEST

/* A name in an inner scope is the inner scope's, be it declared alone or in a range. */
START_TEST(an_inner_range_hides_an_outer_name) {
    static struct snippet_in in[1];
    static struct snippet_out out[1];
    machine_with(fair(1, 1));
    evaluate(".reg .b32 k1, k<1>; mov.u32 k1, 1; { .reg .b32 k<2>; mov.u32 k1, 2; mov.u32 d, k1; } mov.u32 e, k1;", 'w',
             in, out, 1);
    ck_assert(out[0].d == 2 && out[0].e == 1);
    evaluate(".reg .b32 k<13>; mov.u32 k12, 1; { .reg .b32 k<14>; mov.u32 k12, 2; mov.u32 d, k12; } mov.u32 e, k12;",
             'w', in, out, 1);
    ck_assert(out[0].d == 2 && out[0].e == 1);
}
END_TEST

/* Registers and constants are passed as .param variables are, results go into registers, and a guard is one for all. */
START_TEST(registers_and_constants_are_passed) {
    static const char text[] = PTX_HEAD
        ".func (.param .b32 r) f(.param .u32 a, .param .b8 b, .param .b16 c) { .reg .b32 x, y; .reg .b16 h; "
        "ld.param.u32 x, "
        "[a]; ld.param.s8 y, [b]; mad.lo.u32 x, x, 100, y; ld.param.b16 h, [c]; cvt.u32.u16 y, h; add.u32 x, x, y; "
        "st.param.b32 [r], x; ret; }\n"
        ".func (.param .f64 r) g(.param .f32 a, .param .f64 b) { .reg .f32 x; .reg .f64 y, z; ld.param.f32 x, [a]; "
        "ld.param.f64 y, [b]; cvt.f64.f32 z, x; add.f64 y, y, z; st.param.f64 [r], y; ret; }\n"
        ".func (.param .b32 r) h(.param .b32 n, .param .align 4 .b8 more[]) { .reg .b32 x, y; ld.param.b32 x, [n]; "
        "ld.param.b32 y, [more+4]; add.u32 x, x, y; st.param.b32 [r], x; ret; }\n"
        ".visible .entry k(.param .u64 to) { .reg .b64 d, e; .reg .b32 t, u, v, w; .reg .b16 m; .reg .pred p; .param "
        ".b32 q; "
        ".param .align 4 .b32 two[2]; ld.param.u64 d, [to]; mov.u32 t, %tid.x; mul.wide.u32 e, t, 24; add.u64 d, d, e; "
        "mov.b16 m, 7; mov.u32 u, 55; setp.eq.u32 p, t, 1; call (u), f, (t, -1, m); @p call (v), f, (5, 2, 0xFFFF); "
        "@!p mov.u32 v, 9; st.param.b32 [q], 3; call (_), f, (q, 0, m); call (w), f, (q, 300, m); "
        "call (e), g, (1.5, 2.25); st.param.b32 [two+4], 40; call (t), h, (t, two); "
        "st.global.u32 [d], u; st.global.u32 [d+4], v; st.global.u32 [d+8], w; st.global.u32 [d+12], t; "
        "st.global.u64 [d+16], e; ret; }\n";
    struct {
        uint32_t u, v, w, t;
        double e;
    } out[2];
    machine_with(fair(1, 1));
    cu_ptr to = 0;
    OK(cpu_mem_alloc(&to, sizeof out));
    launch(function_of_text(text, "k"), 1, 2, NULL, false, to, 0, 0, 0);
    OK(cpu_copy_to_host(out, to, sizeof out));
    OK(cpu_mem_free(to));
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(out[i].u, i * 100 - 1 + 7);
        ck_assert_uint_eq(out[i].v, i == 1 ? 502 + 0xFFFF : 9);
        ck_assert_uint_eq(out[i].w, 300 + 44 + 7); /* 300 in eight bits is 44 */
        ck_assert_uint_eq(out[i].t, i + 40);
        ck_assert(out[i].e == 3.75);
    }
}
END_TEST

START_TEST(constants_are_expressions_in_every_base) {
    static struct snippet_in in[1];
    static struct snippet_out out[1];
    machine_with(fair(1, 1));
    evaluate("mov.u32 d, (3 + 4) * 2 - 0x10 / 4 | 0b100000; mov.s32 e, -(1 << 4) + 017;", 'w', in, out, 1);
    ck_assert(out[0].d == (10 | 32) && (int32_t)out[0].e == -1);
    evaluate("mov.b32 d, !5; mov.b32 e, !WARP_SZ;", 'w', in, out, 1);
    ck_assert(out[0].d == 0 && out[0].e == 0);
    evaluate("mov.b32 d, !0+4; mov.b32 e, !(2)+3;", 'w', in, out, 1);
    ck_assert(out[0].d == 5 && out[0].e == 3);
    evaluate("mov.b32 d, !0?5:6; mov.b32 e, !!5+!WARP_SZ+8;", 'w', in, out, 1);
    ck_assert(out[0].d == 5 && out[0].e == 9);
    evaluate("selp.b32 d, 1, 2, !0; mov.pred p, !2; selp.b32 e, 1, 2, p;", 'w', in, out, 1);
    ck_assert(out[0].d == 1 && out[0].e == 2);
    evaluate("mov.u64 D, 0xFFFFFFFFFFFFFFFFU; mov.b64 E, 0d3FF0000000000000;", 'l', in, out, 1);
    ck_assert(out[0].d == ~UINT64_C(0) && out[0].e == 0x3FF0000000000000);
    evaluate("mov.f32 d, -1.5e1; mov.u32 e, WARP_SZ;", 'w', in, out, 1);
    ck_assert(out[0].d == 0xC1700000 && out[0].e == 32);
}
END_TEST

/* ---- slots ---- */
static unsigned slots_of(const char *text) {
    char message[1000] = "";
    struct ptx_module *m = ptx_load(text, NULL, message, sizeof message);
    ck_assert_msg(m != NULL, "%s", message);
    unsigned slots = ptx_function_at(m, 0)->reg_slots;
    ptx_free(m);
    return slots;
}

START_TEST(thousands_of_registers_share_few_slots) {
    char *text = malloc(1 << 20), *at = text;
    at += sprintf(at,
                  PTX_HEAD ENTRY ".reg .b32 %%r<6000>; .reg .b64 %%a; ld.param.u64 %%a, [a]; mov.u32 %%r0, %%tid.x;\n");
    for (int i = 1; i < 6000; i++)
        at += sprintf(at, "add.u32 %%r%d, %%r%d, %d;\n", i, i - 1, i);
    sprintf(at, "st.global.u32 [%%a], %%r5999; ret; }\n");
    ck_assert_uint_lt(slots_of(text), 16);
    free(text);
}
END_TEST

/* Values that live across a loop's back edge, and through guarded writes, keep their slots while hundreds of others
 * come and go. */
START_TEST(registers_that_live_through_loops_keep_their_values) {
    char *text = malloc(1 << 20), *at = text;
    static struct snippet_in in[32];
    static struct snippet_out out[32];
    machine_with(fair(1, 1));
    at += sprintf(at, ".reg .b32 keep<40>, t<400>, n; .reg .b64 w<50>; mov.u32 n, 0; setp.gt.u32 p, a, 15;\n");
    for (int i = 0; i < 40; i++)
        at += sprintf(at, "add.u32 keep%d, a, %d;\n", i, i * 1000);
    at += sprintf(at, "LOOP:\n");
    for (int i = 0; i < 400; i++)
        at += sprintf(at, "mul.lo.u32 t%d, n, %d; %s add.u32 keep%d, keep%d, t%d;\n", i, i, i % 3 ? "" : "@p", i % 40,
                      i % 40, i);
    for (int i = 0; i < 50; i++)
        at += sprintf(at, "mul.wide.u32 w%d, n, %d; cvt.u32.u64 t%d, w%d; @!p xor.b32 keep%d, keep%d, t%d;\n", i, i, i,
                      i, i % 40, i % 40, i);
    at += sprintf(at, "add.u32 n, n, 1; setp.lt.u32 q, n, 5; @q bra LOOP; mov.u32 d, 0;\n");
    for (int i = 0; i < 40; i++)
        at += sprintf(at, "mad.lo.u32 d, d, 31, keep%d;\n", i);
    evaluate(text, 'w', in, out, 32);
    for (uint32_t lane = 0; lane < 32; lane++)
        in[lane].a = lane;
    evaluate(text, 'w', in, out, 32);
    for (uint32_t lane = 0; lane < 32; lane++) {
        uint32_t keep[40], d = 0;
        for (uint32_t i = 0; i < 40; i++)
            keep[i] = lane + i * 1000;
        for (uint32_t n = 0; n < 5; n++) {
            for (uint32_t i = 0; i < 400; i++)
                if (i % 3 || lane > 15) keep[i % 40] += n * i;
            for (uint32_t i = 0; i < 50; i++)
                if (lane <= 15) keep[i % 40] ^= n * i;
        }
        for (uint32_t i = 0; i < 40; i++)
            d = d * 31 + keep[i];
        ck_assert_uint_eq(out[lane].d, d);
    }
    free(text);
}
END_TEST

/* ---- malformed text must be refused, not crash: every prefix and every single-byte change of a module ---- */
START_TEST(damaged_text_is_refused_in_peace) {
    static const char good[] = PTX_HEAD
        ".global .u32 v[2] = {1, 2};\n.extern .shared .b8 s[];\n" ENTRY
        ".reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %a; .reg .f32 %f;\nL0: ld.param.u64 %a, [a+8]; @!%p1 bra L0;\n"
        "{ .reg .b16 h; mov.b32 {h, _}, %r1; cvt.rn.f32.u16 %f, h; }\nsetp.lt.and.s32 %p1|%p2, %r1, -3, "
        "!%p1;\nst.global.v2.u32 [%a+16], {%r2, 5};\n"
        "shfl.sync.bfly.b32 %r3|%p1, %r2, 1, 31, -1; lop3.b32 %r1, %r2, %r3, %r4, 0x96;\nT: .branchtargets L0, L1; "
        "brx.idx %r1, T; L1: fma.rn.f32 %f, %f, 0f3F800000, 1.5;\nret; }\n";
    static const char bytes[] = "{}[]();,.:%@!|<>0x-\"/* \n";
    char copy[sizeof good], message[1000];
    struct ptx_module *m = ptx_load(good, NULL, message, sizeof message);
    ck_assert_msg(m != NULL, "%s", message);
    ptx_free(m);
    int refused = 0;
    for (size_t i = sizeof PTX_HEAD; i < sizeof good - 1; i++) {
        memcpy(copy, good, i);
        copy[i] = 0;
        ptx_free(ptx_load(copy, NULL, message, sizeof message));
        for (size_t j = 0; j < sizeof bytes - 1; j++) {
            memcpy(copy, good, sizeof good);
            copy[i] = bytes[j];
            m = ptx_load(copy, NULL, message, sizeof message);
            refused += m == NULL;
            ptx_free(m);
        }
    }
    ck_assert_int_gt(refused, 1000);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_ptx");
    TCase *tcase = tcase_create("ptx");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, what_is_unknown_is_named_with_both_lines, 0, 25);
    tcase_add_loop_test(tcase, modules_refuse_what_cannot_be_run, 0, 16);
    tcase_add_test(tcase, entries_tell_their_parameters_shared_memory_and_limits);
    tcase_add_test(tcase, inner_scopes_redeclare_registers_and_labels);
    tcase_add_test(tcase, an_inner_range_hides_an_outer_name);
    tcase_add_test(tcase, registers_and_constants_are_passed);
    tcase_add_test(tcase, constants_are_expressions_in_every_base);
    tcase_add_test(tcase, thousands_of_registers_share_few_slots);
    tcase_add_test(tcase, registers_that_live_through_loops_keep_their_values);
    tcase_add_test(tcase, damaged_text_is_refused_in_peace);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
