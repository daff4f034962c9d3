/* test_kernels.c - what a template says of its kernels: kernel{}, params, need, rule; and the presets of models. */
#include "tests/expanding.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels ---- */

START_TEST(a_kernel_declares_its_entry) {
    const char *ptx =
        ptx_of("-- a template\n"
               "kernel{name='own_push', grid={4, 2}, block={64}, cluster={2}, shared=1024, resident=true,\n"
               "  params={'rows', 'rank', 'eps', {'mine', 's32'}}}\n"
               "|   ld.param.u64 %a, [$(param.rows)];\n"
               "|   ld.param.s32 %b, [$(param.mine)]; // $(param.mine.type) $(param.eps.type)\n|   ret;\n");
    expect_text(ptx,
                "\n.visible .entry dcpk_own_push(\n    .param .u64 param_rows,              // [B, D*H, 512] BF16:");
    expect_text(ptx, "\n    .param .u32 param_rank,              // this rank, 0..D-1\n    .param .f32 param_eps,");
    expect_text(ptx,
                "\n    .param .s32 param_mine\n)\n.reqntid 64, 1, 1\n.reqnctapercluster 2, 1, 1\n{\n"
                "    ld.param.u64 %a, [param_rows];\n    ld.param.s32 %b, [param_mine]; // s32 f32\n    ret;\n}\n");
    ck_assert_uint_eq(expanded.entry_count, 1);
    const dcpk_entry_info *e = &expanded.entries[0];
    ck_assert_str_eq(e->name, "dcpk_own_push");
    ck_assert_uint_eq(e->size, sizeof *e);
    ck_assert(e->grid[0] == 4 && e->grid[1] == 2 && e->grid[2] == 1);
    ck_assert(e->block[0] == 64 && e->block[1] == 1 && e->cluster[0] == 2 && e->cluster[2] == 1);
    ck_assert(e->dynamic_shared == 1024 && e->resident == 1 && e->waits == 0 && e->registers == 0);
    ck_assert_uint_eq(e->param_count, 4);
    ck_assert_str_eq(e->params[0].name, "rows");
    ck_assert_str_eq(e->params[0].type, "u64");
    ck_assert_str_eq(e->params[1].type, "u32");
    ck_assert_str_eq(e->params[2].type, "f32");
    ck_assert_str_eq(e->params[3].name, "mine");
    ck_assert_str_eq(e->params[3].type, "s32");
}
END_TEST

START_TEST(min_ctas_bounds_the_registers) {
    expect_text(ptx_of("kernel{grid={1}, block={32}, min_ctas=2}\n|   ret;\n"),
                ".reqntid 32, 1, 1\n.minnctapersm 2\n{\n");
}
END_TEST

START_TEST(a_template_may_hold_several_kernels) {
    const char *ptx = ptx_of("kernel{name='a', grid={1}, block={32}, params={'rows'}}\n|   ret;\n"
                             "kernel{name='b', grid={2}, block={64}}\n|   griddepcontrol.wait;\n|   ret;\n");
    expect_text(
        ptx, "    ret;\n}\n\n.visible .entry dcpk_b()\n.reqntid 64, 1, 1\n{\n    griddepcontrol.wait;\n    ret;\n}\n");
    ck_assert_uint_eq(expanded.entry_count, 2);
    ck_assert_uint_eq(expanded.entries[0].waits, 0);
    ck_assert_uint_eq(expanded.entries[1].waits, 1);
    ck_assert_uint_eq(expanded.entries[1].param_count, 0);
}
END_TEST

static const struct {
    const char *text, *needle;
} bad_kernels[] = {
    {"kernel{grid={1}, block={32}, parms={}}", "kernel{} has no field 'parms'"},
    {"kernel{block={32}}", "needs grid = {...} and block = {...}"},
    {"kernel{grid={1}}", "needs grid"},
    {"kernel{grid={0}, block={32}}", "grid[1] is an integer from 1 to 2147483647, not 0"},
    {"kernel{grid={1, 65536}, block={32}}", "grid[2] is an integer from 1 to 65535"},
    {"kernel{grid={1.0}, block={32}}", "grid[1] is an integer"},
    {"kernel{grid={1, 1, 1, 1}, block={32}}", "one to three integers"},
    {"kernel{grid={}, block={32}}", "one to three integers"},
    {"kernel{grid=1, block={32}}", "one to three integers"},
    {"kernel{grid={1}, block={64, 32}}", "2048 threads"},
    {"kernel{grid={1}, block={1025}}", "from 1 to 1024"},
    {"kernel{grid={3}, block={32}, cluster={2}}", "cluster[1] = 2 does not divide grid[1] = 3"},
    {"kernel{grid={32}, block={32}, cluster={8, 4}}", "a cluster of 32 CTAs"},
    {"kernel{grid={1}, block={32}, shared=232449}", "shared is an integer from 0 to 232448"},
    {"kernel{grid={1}, block={32}, resident=1}", "resident is true or false"},
    {"kernel{grid={1}, block={32}, min_ctas=0}", "min_ctas is an integer from 1 to 32"},
    {"kernel{grid={1}, block={32}, name='a-b'}", "is not a name"},
    {"kernel{grid={1}, block={32}, params={'rosw'}}", "is called 'rosw' (nearest: rows); there are: qkv q_a_norm qc"},
    {"kernel{grid={1}, block={32}, params={'rows', 'rows'}}", "parameter rows stands twice"},
    {"kernel{grid={1}, block={32}, params={{'x', 'b64'}}}", "of type u32, s32, u64, f32 or map, not 'b64'"},
    {"kernel{grid={1}, block={32}, params={{'x'}}}", "a name, or {name, type}"},
    {"kernel{grid={1}, block={32}, params='rows'}", "params is a table"},
    {"kernel 'a'", "kernel takes a table"},
    {"local x = 1", "the template has no kernel{...}"},
    {"|   mov.u32 %r1, 1;", "outside a kernel only comments and module-scope variables"},
    {"emit 'ret;'", "outside a kernel only comments"},
    {"|.version 8.0", "outside a kernel only comments"},
    {"scope(function() end)", "scope() outside a kernel"},
    {"local x = param.rows", "param.rows outside a kernel"},
    {"need{ptx=8.0}", "ptx is a text like \"8.0\""},
    {"need{ptx='8'}", "ptx is a text"},
    {"need{target='90'}", "'90' is not a target"},
    {"need{target='sm_90b'}", "'sm_90b' is not a target"},
    {"need{version='8.0'}", "need{} has no field 'version'"},
    {"need 'sm_90'", "need takes a table"},
    {"rule(true)", "rule takes a condition and a message"},
};

START_TEST(a_wrong_kernel_is_refused_at_its_line) {
    char text[512];
    snprintf(text, sizeof text, "%s\n", bad_kernels[_i].text);
    refused(text, DCPK_E_TEMPLATE, 1, bad_kernels[_i].needle);
}
END_TEST

START_TEST(module_scope_variables_may_stand_outside) {
    const char *ptx = ptx_of("|// a table\n|.global .align 16 .b32 a[4] = {\n|  1, 2,\n|  3, 4\n|};\n"
                             "|.const .f32 c = 0f3F800000; // one\n|\n" KERNEL "|   ret;\n");
    expect_text(ptx,
                ".address_size 64\n// a table\n.global .align 16 .b32 a[4] = {\n   1, 2,\n   3, 4\n};\n.const .f32 c");
    refused("|.global .b32 a; // b\n|  ret;\n" KERNEL, DCPK_E_TEMPLATE, 2, "outside a kernel");
}
END_TEST

START_TEST(the_text_opens_with_kernel_and_spec) {
    ck_assert_str_eq(
        ptx_of_spec(KERNEL "|   // $(spec.kernel) $(spec.arch) $(spec.heads) $(spec.splits) $(spec.pv) $(spec.gate)\n",
                    "own heads=3 splits=auto pv=fp8 gate=0 arch=sm_100a"),
        "// dcpk: own\n// own arch=sm_100a heads=3 splits=auto pv=fp8 gate=0\n\n.version 7.8\n.target sm_90\n"
        ".address_size 64\n\n.visible .entry dcpk_own()\n.reqntid 32, 1, 1\n{\n"
        "    // own sm_100a 3 0 fp8 0\n}\n");
}
END_TEST

START_TEST(version_and_target_are_the_greatest_needs) {
    static const struct {
        const char *needs, *arch, *wanted;
    } rows[] = {{"", "sm_90a", ".version 7.8\n.target sm_90\n"},
                {"need{ptx='7.0', target='sm_80'}", "sm_90a", ".version 7.8\n.target sm_90\n"},
                {"need{ptx='8.1', target='sm_90'} need{ptx='8.0'}", "sm_90a", ".version 8.1\n.target sm_90\n"},
                {"need{target='sm_90a'}", "sm_90a", ".version 8.0\n.target sm_90a\n"},
                {"need{target='sm_90a'} need{ptx='8.4', target='sm_90'}", "sm_90a", ".version 8.4\n.target sm_90a\n"},
                {"need{target='sm_90'}", "sm_120a", ".version 7.8\n.target sm_90\n"},
                {"need{target='sm_100'}", "sm_100a", ".version 8.6\n.target sm_100\n"},
                {"need{target='sm_100'} need{target='sm_90'}", "sm_121a", ".version 8.6\n.target sm_100\n"},
                {"need{target='sm_100a'}", "sm_100a", ".version 8.6\n.target sm_100a\n"},
                {"need{target='sm_100f'}", "sm_103a", ".version 8.8\n.target sm_103a\n"}};
    char text[256], spec[64];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(text, sizeof text, "%s\n" KERNEL, rows[i].needs);
        snprintf(spec, sizeof spec, "own arch=%s", rows[i].arch);
        expect_text(ptx_of_spec(text, spec), rows[i].wanted);
        ck_assert_uint_eq(expanded.ptx_version / 10, (unsigned)(rows[i].wanted[9] - '0'));
        ck_assert_uint_eq(expanded.ptx_version % 10, (unsigned)(rows[i].wanted[11] - '0'));
        ck_assert_ptr_nonnull(strstr(rows[i].wanted, expanded.target));
    }
}
END_TEST

/* openxla/xla#4970: wgmma for a plain sm_90. */
START_TEST(a_need_that_the_architecture_lacks_is_refused_at_its_line) {
    static const struct {
        const char *target, *arch;
    } rows[] = {{"sm_90a", "sm_90"},    {"sm_90a", "sm_100a"},  {"sm_100", "sm_90a"},   {"sm_100a", "sm_100"},
                {"sm_100a", "sm_103a"}, {"sm_100f", "sm_120a"}, {"sm_103f", "sm_100a"}, {"sm_100f", "sm_100"}};
    char text[256], spec[64];
    struct expansion none;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(text, sizeof text, "-- one\n\nneed{target='%s'}\n" KERNEL, rows[i].target);
        snprintf(spec, sizeof spec, "own arch=%s", rows[i].arch);
        put_template("own.ptx.lua", text);
        ck_assert_int_eq(try_expand(NULL, spec, &none, &why), DCPK_E_ARCH);
        expect_text(why.text, "own.ptx.lua:3: own needs target");
        ck_assert_uint_eq(why.template_line, 3);
    }
}
END_TEST

START_TEST(a_broken_rule_names_kernel_message_and_line) {
    refused("local n = 3\nrule(n == 3, 'fine')\nrule(n > 3, 'n must be greater than 3')\n" KERNEL, DCPK_E_SPEC, 3,
            "own: n must be greater than 3\n  rule at own.ptx.lua:3\n    rule(n > 3,");
}
END_TEST

/* ---- models ---- */

START_TEST(presets_are_those_of_the_table) {
    static const struct model_preset wanted[] = {
        {"kimi-k3", "", 96, 1, DCPK_ROPE_NONE, 1536, 1e-5, 0.0721687836, 0},
        {"kimi-k2", "", 64, 0, DCPK_ROPE_INTERLEAVED, 1536, 1e-6, 0.130860800, 50000},
        {"deepseek-v3", "", 128, 0, DCPK_ROPE_INTERLEAVED, 1536, 1e-6, 0.135233779, 10000},
        {"kimi-linear", "", 32, 0, DCPK_ROPE_NONE, 0, 1e-5, 0.0721687836, 0},
        {"deepseek-v2-lite", "", 16, 0, DCPK_ROPE_INTERLEAVED, 0, 1e-6, 0.114721387, 10000}};
    struct expander *expander;
    struct model_preset *presets;
    uint32_t count;
    ck_assert_int_eq(expander_open("templates", &expander, &why), DCPK_OK);
    ck_assert_msg(expander_models(expander, &presets, &count, &why) == DCPK_OK, "%s", why.text);
    ck_assert_uint_eq(count, 5);
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_str_eq(presets[i].name, wanted[i].name);
        ck_assert_uint_gt(strlen(presets[i].source), 10);
        ck_assert(presets[i].heads == wanted[i].heads && presets[i].gate == wanted[i].gate);
        ck_assert(presets[i].rope == wanted[i].rope && presets[i].q_lora == wanted[i].q_lora);
        ck_assert_double_eq_tol(presets[i].softmax_scale, wanted[i].softmax_scale, 1e-9);
        ck_assert(presets[i].eps == wanted[i].eps && presets[i].rope_theta == wanted[i].rope_theta);
    }
    free(presets);
    expander_close(expander);
}
END_TEST

START_TEST(a_wrong_preset_is_refused) {
    static const struct {
        const char *text, *needle;
    } rows[] = {
        {"return 1", "returns a list of tables"},
        {"return {1}", "tables"},
        {"return {{name='a'}}", "needs a text source"},
        {"return {{name='a', source='s', heads=0, gate=0, rope='none', q_lora=0}}", "a: heads is an integer from 1"},
        {"return {{name='a', source='s', heads=1, gate=0, rope='some', q_lora=0}}",
         "a: rope is one of none|interleaved|half"},
        {"return {{name='a', source='s', heads=1, gate=0, rope='none', q_lora=0, haeds=1}}", "no field 'haeds'"},
        {"return {{name='a', source='s', heads=1, gate=0, rope='none', q_lora=0, eps='x'}}", "a: eps is a number from"},
        {"return {{name='a', source='s', heads=1, gate=0, rope='none', q_lora=0, eps=0, softmax_scale=0/0}}",
         "a: softmax_scale is a number from"},
        {"return {{name='a', source='s', heads=spec.heads}}", "no global 'spec'"},
        {"| ret;", "no global '_ptx'"}};
    struct expander *expander;
    struct model_preset *presets;
    uint32_t count;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put_template("models.lua", rows[i].text);
        ck_assert_int_eq(expander_open(templates, &expander, &why), DCPK_OK);
        ck_assert_int_eq(expander_models(expander, &presets, &count, &why), DCPK_E_TEMPLATE);
        expect_text(why.text, rows[i].needle);
        ck_assert_ptr_null(presets);
        expander_close(expander);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("kernels");
    TCase *c = tcase_create("kernels");
    tcase_add_checked_fixture(c, expanding_setup, expanding_teardown);
    tcase_add_test(c, a_kernel_declares_its_entry);
    tcase_add_test(c, min_ctas_bounds_the_registers);
    tcase_add_test(c, a_template_may_hold_several_kernels);
    tcase_add_loop_test(c, a_wrong_kernel_is_refused_at_its_line, 0, (int)(sizeof bad_kernels / sizeof bad_kernels[0]));
    tcase_add_test(c, module_scope_variables_may_stand_outside);
    tcase_add_test(c, the_text_opens_with_kernel_and_spec);
    tcase_add_test(c, version_and_target_are_the_greatest_needs);
    tcase_add_test(c, a_need_that_the_architecture_lacks_is_refused_at_its_line);
    tcase_add_test(c, a_broken_rule_names_kernel_message_and_line);
    tcase_add_test(c, presets_are_those_of_the_table);
    tcase_add_test(c, a_wrong_preset_is_refused);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
