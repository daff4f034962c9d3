/* test_lint.c - rules of emitted PTX: waits, what may stand before them, instructions of the declared target. */
#include "gen/ptx_scan.h"
#include "tests/expanding.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* text: PTX lines; NULL needle: accepted. line: of the PTX line that is blamed, 1-based. */
struct row {
    const char *text;
    unsigned line;
    const char *needle;
};

static void write_own(const char *head, const char *text) {
    char whole[4096];
    size_t used = (size_t)snprintf(whole, sizeof whole, "%s" KERNEL, head);
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        used += (size_t)snprintf(whole + used, sizeof whole - used, "|   %.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
    put_template("own.ptx.lua", whole);
}

static void judge(const char *head, unsigned head_lines, const struct row *row, const char *spec) {
    struct expansion none;
    write_own(head, row->text);
    dcpk_status status = try_expand(NULL, spec, &none, &why);
    if (row->needle == NULL) {
        ck_assert_msg(status == DCPK_OK, "refused:\n%s\n%s", row->text, why.text);
        expansion_free(&none);
        return;
    }
    ck_assert_msg(status == DCPK_E_LINT, "%s for:\n%s\n%s", dcpk_status_name(status), row->text, why.text);
    expect_text(why.text, row->needle);
    ck_assert_msg(why.template_line == head_lines + 1 + row->line, "line %u instead of %u: %s", why.template_line,
                  head_lines + 1 + row->line, why.text);
    ck_assert_str_eq(why.template_file, "own.ptx.lua");
}

#define WAIT "griddepcontrol.wait;\n"
static const struct row waits[] = {
    {"ret;", 0, NULL},
    {"mov.u32 %r1, %tid.x;\nld.param.u64 %a, [x];\nld.shared.u32 %r1, [s];\nst.shared.u32 [s], %r1;\nret;", 0, NULL},
    {"atom.shared.add.u32 %r1, [s], 1;\nld.local.u32 %r1, [l];\nld.const.u32 %r1, [c];\nret;", 0, NULL},
    {"ld.param.u64 %a, [x];\n" WAIT "ld.global.u32 %r1, [%a];\nst.global.u32 [%a], %r1;\nret;", 0, NULL},
    {"{\n.reg .b32 %r;\n" WAIT "}\nld.global.u32 %r1, [%a];\nret;", 0, NULL},
    /* no wait at all */
    {"ld.global.u32 %r1, [%a];\nret;", 1, "never executes griddepcontrol.wait"},
    {"ret;\nst.global.u32 [%a], %r1;", 2, "never executes griddepcontrol.wait"},
    {"ld.global.u32 %r1, [%a];   // const_input\nret;", 1, "never executes griddepcontrol.wait"},
    {"griddepcontrol.launch_dependents;\nret;", 1, "launch_dependents in a kernel that never executes"},
    {"// griddepcontrol.wait;\nld.global.u32 %r1, [%a];", 2, "never executes griddepcontrol.wait"},
    {"/* griddepcontrol.wait; */\nld.global.u32 %r1, [%a];", 2, "never executes griddepcontrol.wait"},
    {"ld.u32 %r1, [%a];", 1, "never executes griddepcontrol.wait"},
    /* loads before it */
    {"ld.global.u32 %r1, [%a];\n" WAIT, 1, "a load before griddepcontrol.wait"},
    {"ld.volatile.global.u32 %r1, [%a];\n" WAIT, 1, "a load before"},
    {"ld.relaxed.sys.global.v4.u32 {%r1, %r2, %r3, %r4}, [%a];\n" WAIT, 1, "a load before"},
    {"ld.acquire.gpu.u32 %r1, [%a];\n" WAIT, 1, "a load before"},
    {"ld.u32 %r1, [%a];\n" WAIT, 1, "a load before"},
    {"ld.global.nc.v4.u32 {%r1, %r2, %r3, %r4}, [%a];\n" WAIT, 1, "a load before"},
    {"ldu.global.u32 %r1, [%a];\n" WAIT, 1, "a load before"},
    {"@%p ld.global.u32 %r1, [%a];\n" WAIT, 1, "a load before"},
    {"@!%p ld.global.u32 %r1, [%a];\n" WAIT, 1, "a load before"},
    {"mov.u32 %r1, 1; ld.global.u32 %r1, [%a];\n" WAIT, 1, "a load before"},
    {"{ ld.global.u32 %r1, [%a]; }\n" WAIT, 1, "a load before"},
    {"$l: ld.global.u32 %r1, [%a];\n" WAIT, 1, "a load before"},
    {"ld.global.u32\n %r1,\n [%a];\n" WAIT, 1, "a load before"},
    {"cp.async.ca.shared.global [%r1], [%a], 16;\n" WAIT, 1, "a load before"},
    {"cp.async.cg.shared::cta.global.L2::128B [%r1], [%a], 16, %p;\n" WAIT, 1, "a load before"},
    {"createpolicy.fractional.L2::evict_first.b64 %d, 1.0;\n@%p cp.async.cg.shared.global.L2::cache_hint [%r1], [%a], "
     "16, %r2, %d;\n" WAIT,
     2, "a load before"},
    {"cp.async.ca.shared.global [%r1], [%a], 4;\ncp.async.wait_all;\nret;", 1, "never executes griddepcontrol.wait"},
    {"cp.async.commit_group;\ncp.async.wait_group 1;\ncp.async.wait_all;\n" WAIT
     "cp.async.cg.shared.global [%r1], [%a], 16;\ncp.async.wait_all;\nret;",
     0, NULL},
    {"prefetch.global.L2 [%a];\n" WAIT, 1, "a load before"},
    {"ld.global.u32 %r1, [%a];   // const_input\n" WAIT, 0, NULL},
    {"@%p ld.global.nc.v4.u32 {%r1, %r2, %r3, %r4}, [%a];   // const_input: weights\n" WAIT, 0, NULL},
    {"ld.global.u32\n %r1,\n [%a];   // const_input\n" WAIT, 0, NULL},
    {"cp.async.ca.shared.global [%r1], [%a], 16;   // const_input\ncp.async.commit_group;\ncp.async.wait_group "
     "0;\n" WAIT,
     0, NULL},
    {"ld.global.u32 %r1, [%a];   // const_inputs are not meant\n" WAIT, 1, "a load before"},
    {"// const_input\nld.global.u32 %r1, [%a];\n" WAIT, 2, "a load before"},
    {"ld.global.u32 %r1, [%a];\n// const_input\n" WAIT, 1, "a load before"},
    /* stores and atomics, marked or not */
    {"st.global.u32 [%a], %r1;\n" WAIT, 1, "a store or atomic before"},
    {"st.relaxed.sys.global.u32 [%a], %r1;   // const_input\n" WAIT, 1, "a store or atomic before"},
    {"st.u32 [%a], %r1;\n" WAIT, 1, "a store or atomic before"},
    {"atom.global.add.u32 %r1, [%a], 1;\n" WAIT, 1, "a store or atomic before"},
    {"atom.add.u32 %r1, [%a], 1;   // const_input\n" WAIT, 1, "a store or atomic before"},
    {"red.global.add.u32 [%a], 1;\n" WAIT, 1, "a store or atomic before"},
    {"st.shared.u32 [s], %r1;\nred.shared.add.u32 [s], 1;\n" WAIT, 0, NULL},
    /* ways past it */
    {"@%p " WAIT, 1, "griddepcontrol.wait under a predicate"},
    {"@%p bra $after;\n" WAIT "$after:\nret;", 1, "a branch that may lead past griddepcontrol.wait"},
    {"bra.uni $after;\n" WAIT "$after: ret;", 1, "a branch that may lead past"},
    {"@%p bra $nowhere;\n" WAIT, 1, "a branch that may lead past"},
    {"@%p bra $before;\nadd.u32 %r1, %r1, 1;\n$before:\n" WAIT "ret;", 0, NULL},
    {"$loop:\nadd.u32 %r1, %r1, 1;\n@%p bra $loop;\n" WAIT "ret;", 0, NULL},
    {WAIT "@%p bra $after;\nld.global.u32 %r1, [%a];\n$after:\nret;", 0, NULL},
    {"@%p ret;\n" WAIT, 1, "a thread leaves before griddepcontrol.wait"},
    {"@%p exit;\n" WAIT, 1, "a thread leaves before"},
    {"call.uni f, ();\n" WAIT, 1, "an indirect branch or a call before"},
    {"brx.idx %r1, ts;\n" WAIT, 1, "an indirect branch or a call before"},
    /* the trigger */
    {"griddepcontrol.launch_dependents;\n" WAIT, 1, "launch_dependents before griddepcontrol.wait"},
    {"@%p griddepcontrol.launch_dependents;\n" WAIT, 1, "launch_dependents before griddepcontrol.wait"},
    {WAIT "griddepcontrol.launch_dependents;\n@%p griddepcontrol.launch_dependents;\nret;", 0, NULL},
};

START_TEST(pdl_load_before_wait_is_rejected) {
    judge("", 0, &waits[_i], "own");
}
END_TEST

static const struct row copies[] = {
    {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%a], 16, [%r1];\n" WAIT, 1,
     "a load before"},
    {"cp.async.bulk.global.shared::cta.bulk_group [%a], [s], 16;   // const_input\n" WAIT, 1,
     "a store or atomic before"},
    {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%a], [s], 16;\n" WAIT, 1, "a store or atomic before"},
    {"cp.async.bulk.prefetch.L2.global [%a], 16;\n" WAIT, 1, "a load before"},
    {"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [s], [s], 16, [%r1];\n" WAIT, 0, NULL},
    {"cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n" WAIT, 0, NULL},
    {"multimem.st.relaxed.sys.global.u32 [%a], %r1;   // const_input\n" WAIT, 1, "a store or atomic before"},
    {"st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];\n" WAIT, 0, NULL},
    {"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%a], [s], 128;\n" WAIT, 1,
     "a store or atomic before"},
    {"mbarrier.try_wait.parity.shared::cta.b64 %p, [%r1], 0;\n" WAIT, 0, NULL},
};

START_TEST(copies_count_by_where_they_come_from) {
    judge("need{ptx='8.1'}\n", 1, &copies[_i], "own");
}
END_TEST

/* Every instruction of the table under what it needs, and under one version or target less. */
static const struct {
    const char *instruction, *low, *low_needle, *enough, *arch;
} needs[] = {
    {"cp.async.bulk.commit_group;", "", "needs PTX 8.0 and the kernel declares 7.8: say need{ptx=\"8.0\"}",
     "need{ptx='8.0'}", "sm_90a"},
    {"elect.sync _|%p, 0xFFFFFFFF;", "", "elect.sync needs PTX 8.0", "need{ptx='8.0'}", "sm_90a"},
    {"fence.proxy.async;", "", "needs PTX 8.0", "need{ptx='8.0'}", "sm_90a"},
    {"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4;", "", "needs PTX 8.0", "need{ptx='8.0'}", "sm_90a"},
    {"multimem.st.relaxed.sys.global.u32 [%a], %r1;", "need{ptx='8.0'}", "needs PTX 8.1 and the kernel declares 8.0",
     "need{ptx='8.1'}", "sm_90a"},
    {"red.global.add.v4.f32 [%a], {%f1, %f2, %f3, %f4};", "need{ptx='8.0'}", "needs PTX 8.1", "need{ptx='8.1'}",
     "sm_90"},
    {"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%a}, {%b}, {%c}, {%d};", "need{ptx='8.3'}", "needs PTX 8.4",
     "need{ptx='8.4'}", "sm_90"},
    {"wgmma.fence.sync.aligned;", "need{ptx='8.0'}",
     "needs target sm_90a and the kernel declares sm_90: say need{target=...}", "need{target='sm_90a'}", "sm_90a"},
    {"setmaxnreg.inc.sync.aligned.u32 64;", "need{ptx='8.6'}", "needs target sm_90a sm_100a", "need{target='sm_100a'}",
     "sm_100a"},
    {"tcgen05.fence::before_thread_sync;", "need{ptx='8.6', target='sm_100'}",
     "needs target sm_100a sm_103a sm_110a and the kernel "
     "declares sm_100",
     "need{target='sm_100a'}", "sm_100a"},
    {"fma.rn.f32x2 %d1, %d2, %d3, %d4;", "need{ptx='8.6'}", "needs target sm_100+", "need{target='sm_100'}", "sm_120a"},
    {"ld.global.v8.f32 {%f1}, [%a];", "need{target='sm_100'}", "needs PTX 8.8 and the kernel declares 8.6",
     "need{ptx='8.8', target='sm_100'}", "sm_100a"},
    {"cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;", NULL, NULL, "", "sm_90"},
    {"fence.acq_rel.sys;", NULL, NULL, "", "sm_90"},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%a}, {%b}, {%c}, {%d};", NULL, NULL, "", "sm_90"},
    {"ld.global.v4.f32 {%f1}, [%a];", NULL, NULL, "", "sm_90"},
    {"fma.rn.f32 %f1, %f2, %f3, %f4;", NULL, NULL, "", "sm_90"},
};

START_TEST(an_instruction_beyond_the_declared_target_is_refused) {
    char head[128], text[256], spec[64];
    snprintf(text, sizeof text, WAIT "mov.u32 %%r1, 1;\n%s", needs[_i].instruction);
    snprintf(spec, sizeof spec, "own arch=%s", needs[_i].arch);
    if (needs[_i].low != NULL) {
        snprintf(head, sizeof head, "%s\n", needs[_i].low);
        judge(head, 1, &(struct row){text, 3, needs[_i].low_needle}, spec);
    }
    snprintf(head, sizeof head, "%s\n", needs[_i].enough);
    judge(head, 1, &(struct row){text, 3, NULL}, spec);
}
END_TEST

START_TEST(a_breach_in_a_helper_names_its_callers) {
    struct expansion none;
    put_template("lib/m.lua", "local m = {}\n\nfunction m.load(r)\n|   ld.global.u32 $(r), [%a];\nend\nreturn m\n");
    put_template("own.ptx.lua",
                 "local m = include 'lib/m'\n" KERNEL "local r = b32 'r'\nm.load(r)\n|   griddepcontrol.wait;\n");
    ck_assert_int_eq(try_expand(NULL, "own", &none, &why), DCPK_E_LINT);
    expect_text(why.text, "lib/m.lua:4: a load before griddepcontrol.wait");
    expect_text(why.text, "\n    |   ld.global.u32 $(r), [%a];\n  from own.ptx.lua:4\n  PTX line ");
    expect_text(why.text, "    ld.global.u32 %r, [%a];");
    ck_assert_str_eq(why.template_file, "lib/m.lua");
    ck_assert_ptr_null(none.ptx); /* a refused expansion leaves nothing */
}
END_TEST

START_TEST(each_kernel_of_a_template_waits_for_itself) {
    refused("kernel{name='a', grid={1}, block={32}}\n|   griddepcontrol.wait;\n|   ld.global.u32 %r1, [%a];\n"
            "kernel{name='b', grid={1}, block={32}}\n|   ld.global.u32 %r1, [%a];\n",
            DCPK_E_LINT, 5, "never executes griddepcontrol.wait");
    ptx_of("kernel{name='a', grid={1}, block={32}}\n|   ret;\nkernel{name='b', grid={1}, block={32}}\n|   "
           "griddepcontrol.wait;\n"
           "kernel{name='c', grid={1}, block={32}}\n| $griddepcontrol.wait:\n");
    ck_assert(expanded.entries[0].waits == 0 && expanded.entries[1].waits == 1 && expanded.entries[2].waits == 0);
}
END_TEST

START_TEST(directives_of_the_module_are_the_generators) {
    static const struct row rows[] = {
        {".target sm_100a", 1, "the .target line is the generator's: say need{target=...}"},
        {"ret;\n.version 8.8", 2, "the .version line is the generator's: say need{ptx=...}"},
        {".address_size 32\nret;", 1, "the .address_size line is the generator's"},
        {"ret; .target sm_100a", 1, "the .target line"},
        {"{\n/* here */ .version 8.8\n}", 2, "the .version line"},
        {".visible .entry other()\n{\nret;\n}", 1, "an entry is the generator's to write: say kernel{...}"},
        {"// .target sm_100a\n/* .version 8.8 */\nret;", 0, NULL},
        {".reg .b32 %target;\nret;", 0, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        judge("", 0, &rows[i], "own");
    refused("|.target sm_100a\n" KERNEL, DCPK_E_TEMPLATE, 1,
            "outside a kernel only comments and module-scope variables");
}
END_TEST

START_TEST(statements_are_cut_where_they_end) {
    static const char text[] =
        ".version 8.0 // one\n.target sm_90\n.global .b32 t[2] = {1, 2};\n.visible .entry e(\n .param .u64 p\n)\n"
        ".reqntid 1, 1, 1\n{ .reg .b32 %r<2>; /* a;\nb */ $x: @%p bra.uni $x; // c;\n.loc 1 2 3\n"
        "mov.b64 {%r0, %r1}, %d;\n.pragma \"a;b\";\n mbarrier.a::b [x];}\n";
    static const struct {
        enum ptx_kind kind;
        unsigned line;
        int guarded;
        const char *name;
    } wanted[] = {{PTX_DIRECTIVE, 1, 0, ".version"},
                  {PTX_DIRECTIVE, 2, 0, ".target"},
                  {PTX_DIRECTIVE, 3, 0, ".global"},
                  {PTX_ENTRY, 4, 0, ".visible"},
                  {PTX_OPEN, 8, 0, ""},
                  {PTX_DIRECTIVE, 8, 0, ".reg"},
                  {PTX_LABEL, 9, 0, "$x"},
                  {PTX_INSTRUCTION, 9, 1, "bra.uni"},
                  {PTX_DIRECTIVE, 10, 0, ".loc"},
                  {PTX_INSTRUCTION, 11, 0, "mov.b64"},
                  {PTX_DIRECTIVE, 12, 0, ".pragma"},
                  {PTX_INSTRUCTION, 13, 0, "mbarrier.a::b"},
                  {PTX_CLOSE, 13, 0, ""},
                  {PTX_END, 14, 0, ""},
                  {PTX_END, 14, 0, ""}};
    struct ptx_scanner scanner;
    ptx_scan(&scanner, text, sizeof text - 1);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        struct ptx_statement st = ptx_next(&scanner);
        ck_assert_int_eq(st.kind, wanted[i].kind);
        ck_assert_uint_eq(st.line, wanted[i].line);
        ck_assert_int_eq(st.guarded, wanted[i].guarded);
        if (wanted[i].name[0] != '\0') ck_assert(ptx_text_is(st.name, wanted[i].name));
    }
}
END_TEST

/* Random bytes of PTX's own letters: the scanner ends, and never reads past the text (the sanitizers watch). */
START_TEST(the_scanner_ends_on_any_text) {
    static const char letters[] = "ab.;:{}()@!%$/*\"\\ \n,[]+0_.entry";
    uint64_t state = 12345;
    for (int round = 0; round < 20000; round++) {
        size_t length = (size_t)(round % 61);
        char *text = malloc(length + 1); /* no NUL behind it */
        for (size_t i = 0; i < length; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            text[i] = letters[(state >> 33) % (sizeof letters - 1)];
        }
        struct ptx_scanner scanner;
        ptx_scan(&scanner, text, length);
        size_t statements = 0;
        while (ptx_next(&scanner).kind != PTX_END)
            ck_assert_uint_le(++statements, length);
        free(text);
    }
}
END_TEST

/* The templates that dcpk ships pass. */
START_TEST(shipped_templates_keep_the_rules) {
    static const char *const specs[] = {
        "query_norm heads=12 batch=5",
        "query_norm heads=12 batch=17",
        "query_push heads=12 dcp=2 batch=17 checked=1",
        "query_push heads=12 dcp=8 batch=17 publish=multicast arch=sm_100a",
        "query_wait heads=12 dcp=2 batch=17 checked=1",
        "dcp_value heads=12 batch=17",
        "dcp_value heads=12 dcp=2 batch=17 parity=arg",
        "dcp_value heads=128 dcp=8 batch=17 lineinfo=1",
        "dcp_value heads=12 dcp=2 batch=17 watchdog=0 gate=0 arch=sm_120a",
    };
    dcpk_status status = try_expand("templates", specs[_i], &expanded, &why);
    ck_assert_msg(status == DCPK_OK, "%s: %s", specs[_i], why.text);
    for (uint32_t i = 0; i < expanded.entry_count; i++)
        ck_assert_uint_eq(expanded.entries[i].waits, 1);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("lint");
    TCase *c = tcase_create("lint");
    tcase_add_checked_fixture(c, expanding_setup, expanding_teardown);
    tcase_add_loop_test(c, pdl_load_before_wait_is_rejected, 0, (int)(sizeof waits / sizeof waits[0]));
    tcase_add_loop_test(c, copies_count_by_where_they_come_from, 0, (int)(sizeof copies / sizeof copies[0]));
    tcase_add_loop_test(c, an_instruction_beyond_the_declared_target_is_refused, 0,
                        (int)(sizeof needs / sizeof needs[0]));
    tcase_add_test(c, a_breach_in_a_helper_names_its_callers);
    tcase_add_test(c, each_kernel_of_a_template_waits_for_itself);
    tcase_add_test(c, directives_of_the_module_are_the_generators);
    tcase_add_test(c, statements_are_cut_where_they_end);
    tcase_add_test(c, the_scanner_ends_on_any_text);
    tcase_add_loop_test(c, shipped_templates_keep_the_rules, 0, 9);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
