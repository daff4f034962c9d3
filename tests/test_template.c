/* test_template.c - the template language: lines, values, registers, kernels, and who wrote a line. */
#include "tests/expanding.h"

#include <check.h>
#include <sys/stat.h>
#include <unistd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ---- */

START_TEST(ptx_text_passes_as_it_stands) {
    const char *body = body_of(KERNEL "|   setp.lt.f32 %p|%q, %f1, %f2;\n"
                                      "|   mov.b64 {%r1, %r2}, %rd1;   // \"quoted\" \\n back\\slash $ and $spin\n"
                                      "| $spin:\n"
                                      "\t |\tadd.u32 %r1, %r1, 1;\n"
                                      "|\n"
                                      "|ret;\n");
    ck_assert_str_eq(body, "    setp.lt.f32 %p|%q, %f1, %f2;\n"
                           "    mov.b64 {%r1, %r2}, %rd1;   // \"quoted\" \\n back\\slash $ and $spin\n"
                           "  $spin:\n"
                           "\tadd.u32 %r1, %r1, 1;\n"
                           "\n"
                           "ret;\n");
}
END_TEST

START_TEST(a_bar_inside_a_lua_string_or_comment_is_no_ptx) {
    const char *body = body_of(KERNEL "--[[ a comment\n| one\n]]\n"
                                      "--[==[ another ]]\n| two\n]==]\n"
                                      "local text = [[\n| three\n]]\n"
                                      "local long = [=[ x ]] \"\n| four ]=]\n"
                                      "local joined = \"a\\\n| five\"\n"
                                      "local skipped = 'a\\z\n\n   | six'\n"
                                      "local tricky = '--[[' .. \"[[\" .. '\\'[['  -- [[ not long\n"
                                      "local index = ({{1}})[1] -- it's a \"comment\n"
                                      "|   // $(#text) $(#long) $(joined:len()) $(skipped) $(index[1])\n");
    ck_assert_str_eq(body, "    // 8 15 8 a| six 1\n");
}
END_TEST

START_TEST(interpolation_nests_parentheses_and_strings) {
    const char *body = body_of(KERNEL "local function f(x, y) return y or x end\n"
                                      "local t = {[1] = ')', k = {2}}\n"
                                      "|   // $(f((1), (f(2, 3)))) $(f(')')) $(f(\"(\\\"\")) $(f([[)]])) "
                                      "$(t[1])$(t['k'][1]) $(t.k[1] + 1) $( f(1, 9) )\n"
                                      "|   // $ $x $) $[$(4)] $(1)$(2)\n");
    ck_assert_str_eq(body, "    // 3 ) (\" ) )2 3 9\n    // $ $x $) $[4] 12\n");
}
END_TEST

START_TEST(a_broken_interpolation_is_refused_at_its_line) {
    refused(KERNEL "\n|   mov $(1;\n|   x", DCPK_E_TEMPLATE, 3, "$( is not closed on this line");
    refused(KERNEL "|   mov $();\n", DCPK_E_TEMPLATE, 2, "$( ) is empty");
    refused(KERNEL "|   mov $(1 -- one);\n", DCPK_E_TEMPLATE, 2, "a comment cannot stand inside $( )");
    refused(KERNEL "|   mov $(1, 2);\n", DCPK_E_TEMPLATE, 2, "near ','");
    refused(KERNEL "local x = 1 +\n|   mov\n", DCPK_E_TEMPLATE, 3, "unexpected symbol before this line of PTX");
    expect_text(why.text, "|   mov");
}
END_TEST

START_TEST(an_open_interpolation_quotes_no_more_than_its_line) {
    refused(KERNEL "|   mov $(one;\n|   secret\n", DCPK_E_TEMPLATE, 2, "$( is not closed on this line: $(one;");
    ck_assert_ptr_null(strstr(why.text, "secret"));
    refused(KERNEL "|   mov $(", DCPK_E_TEMPLATE, 2, "$( is not closed on this line: $(");
}
END_TEST

START_TEST(values_are_integers_strings_and_registers_only) {
    refused(KERNEL "|   mov $(1.0);\n", DCPK_E_TEMPLATE, 2, "a float (1.0) as PTX text");
    refused(KERNEL "|   mov $(nil);\n", DCPK_E_TEMPLATE, 2, "a nil as PTX text");
    refused(KERNEL "|   mov $(1 == 1);\n", DCPK_E_TEMPLATE, 2, "a boolean as PTX text");
    refused(KERNEL "|   mov $({});\n", DCPK_E_TEMPLATE, 2, "a table as PTX text");
    refused(KERNEL "|   mov $(emit);\n", DCPK_E_TEMPLATE, 2, "a function as PTX text");
    refused(KERNEL "local a = b32('a', 2)\n|   mov $(a);\n", DCPK_E_TEMPLATE, 3, "'a' is an array of 2 registers");
    refused(KERNEL "|   mov $(\"a\\nb\");\n", DCPK_E_TEMPLATE, 2, "byte 0x0A in PTX text");
    ck_assert_str_eq(body_of(KERNEL "|   // $(-5) $(1 << 62) $(7 // 2) $('x')\n"),
                     "    // -5 4611686018427387904 3 x\n");
}
END_TEST

START_TEST(ptx_holds_no_nul_and_no_byte_above_ascii) {
    static const char nul[] = KERNEL "|   // a\0b\n";
    struct expansion none;
    refused(KERNEL "|   mov.u32 %r1, 1;  // \xE2\x86\x92\n", DCPK_E_TEMPLATE, 2, "byte 0xE2 in PTX text");
    refused(KERNEL "comment 'caf\xC3\xA9'\n", DCPK_E_TEMPLATE, 2, "byte 0xC3");
    put_bytes(templates, "own.ptx.lua", nul, sizeof nul - 1);
    ck_assert_int_eq(try_expand(NULL, "own", &none, &why), DCPK_E_TEMPLATE);
    expect_text(why.text, "own.ptx.lua:2: byte 0x00 in PTX text");
    const char *ptx = ptx_of("-- caf\xC3\xA9 is fine in Lua\n" KERNEL "|   ret;\n");
    ck_assert_uint_eq(strlen(ptx), expanded.ptx_length);
    for (size_t i = 0; i < expanded.ptx_length; i++)
        ck_assert(ptx[i] == '\n' || (ptx[i] >= ' ' && ptx[i] < 0x7F));
}
END_TEST

START_TEST(line_ends_of_windows_change_nothing) {
    char *unix_text = strdup(ptx_of(KERNEL "local x = 1\n|   add $(x);  \n|   ret;\n"));
    ck_assert_str_eq(ptx_of("kernel{grid={1}, block={32}}\r\nlocal x = 1\r\n|   add $(x);  \r\n|   ret;\r\n"),
                     unix_text);
    free(unix_text);
}
END_TEST

START_TEST(helpers_write_lines_too) {
    const char *body =
        body_of(KERNEL "section 'first'\ncomment 'what for'\nemit '    one;'\n"
                       "local r = scope(function()\n|   two;\n  scope(function()\n|   three;\n|\n  end)\n"
                       "  return 4\nend)\n|   // $(r)\n");
    ck_assert_str_eq(body, "\n    // ---- first\n    // what for\n    one;\n    {\n        two;\n        {\n"
                           "            three;\n\n        }\n    }\n    // 4\n");
}
END_TEST

/* ---- literals and registers ---- */

START_TEST(literals_are_bit_patterns) {
    ck_assert_str_eq(body_of(KERNEL
                             "|   // $(f32(1.5)) $(f32(2)) $(f32(-0.0)) $(f32(1/3)) $(f32(math.huge)) $(f32(0/0))\n"
                             "|   // $(f64(0.1)) $(f64(1)) $(f64(0/0)) $(hex(255)) $(hex(0xFFFFFFFF))\n"),
                     "    // 0f3FC00000 0f40000000 0f80000000 0f3EAAAAAB 0f7F800000 0f7FC00000\n"
                     "    // 0d3FB999999999999A 0d3FF0000000000000 0d7FF8000000000000 0xFF 0xFFFFFFFF\n");
    refused(KERNEL "|   // $(hex(-1))\n", DCPK_E_TEMPLATE, 2, "not negative");
    refused(KERNEL "|   // $(b32(1))\n", DCPK_E_TEMPLATE, 2, "b32 takes a name");
}
END_TEST

START_TEST(registers_are_declared_where_they_are_made) {
    const char *body = body_of(
        KERNEL "local acc = f32('acc', 4, 'the sums')\nlocal i = b32 'i'\nlocal p = pred('p', 'more')\n"
               "|   // $(acc[0]) $(acc[3]) $(i) $(p) $(#acc) $(acc.count) $(acc.type) $(acc.name) $(acc[2].type)\n"
               "|   // $(i .. '+4') $('@' .. tostring(p)) $(acc[1] == acc[1] and 'same' or 'other')\n");
    ck_assert_str_eq(body, "    .reg .f32 %acc<4>;                   // the sums\n    .reg .b32 %i;\n"
                           "    .reg .pred %p;                       // more\n"
                           "    // %acc0 %acc3 %i %p 4 4 f32 acc f32\n    // %i+4 @%p same\n");
    static const char *const types[] = {"b8",  "b16", "b32",   "b64", "u32", "s32", "u64",
                                        "s64", "f16", "f16x2", "f32", "f64", "pred"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char text[128], wanted[64];
        snprintf(text, sizeof text, KERNEL "local r = %s 'r'\n", types[i]);
        snprintf(wanted, sizeof wanted, "    .reg .%s %%r;\n", types[i]);
        ck_assert_str_eq(body_of(text), wanted);
    }
}
END_TEST

START_TEST(a_name_is_declared_once_in_a_scope) {
    refused(KERNEL "local a = b32 'a'\nlocal b = f32('a', 3)\n", DCPK_E_TEMPLATE, 3,
            "'a' is declared twice in this { }");
    refused(KERNEL "local a = b32 'a1'\nlocal b = b32('a', 2)\n", DCPK_E_TEMPLATE, 3,
            "'a1' is declared twice in this { }");
    refused(KERNEL "local a = b32('a', 2)\nlocal b = f32 'a0'\n", DCPK_E_TEMPLATE, 3,
            "'a0' is declared twice in this { }");
    refused(KERNEL "local a = b32('a', 12)\nlocal b = b32 'a11'\n", DCPK_E_TEMPLATE, 3,
            "'a11' is declared twice in this { }");
    refused(KERNEL "|{\nlocal a = b32 'a'\nlocal b = b32 'a'\n|}\n", DCPK_E_TEMPLATE, 4, "line 3");
    ck_assert_str_eq(
        body_of(KERNEL "local a = b32 'a'\n|   {\nlocal b = b32 'a'\n|   }\nscope(function() local c = b32 'a' end)\n"),
        "    .reg .b32 %a;\n    {\n    .reg .b32 %a;\n    }\n    {\n        .reg .b32 %a;\n    }\n");
    ck_assert_str_eq(body_of(KERNEL "local a = b32 'a'\nkernel{name='two', grid={1}, block={32}}\nlocal b = b32 'a'\n"),
                     "    .reg .b32 %a;\n"); /* the next kernel is another scope */
}
END_TEST

/* PTX takes the innermost register of a name: a text that means another one is wrong without a word of ptxas. */
START_TEST(a_register_is_written_only_where_its_name_means_it) {
    static const struct {
        const char *text;
        unsigned line;
        const char *needle;
    } rows[] = {
        {"local a = b32 'a'\nscope(function()\nlocal b = b32 'a'\n|   mov.u32 $(a), 1;\nend)\n", 5,
         "'a' is hidden here: an inner { } declares another 'a' at line 4; rename one"},
        {"local a = b32('a', 2)\n|   {\nlocal b = b32 'a1'\n|   mov.u32 $(a[0]), $(a[1]);\n|   }\n", 5,
         "'a1' is hidden here: an inner { } declares another 'a1' at line 4"},
        {"local a = b32 'a'\nscope(function()\nlocal b = b32('a', 3)\n|   mov.u32 $(a), 1;\nend)\n", 5, "hidden"},
        {"local s = shared('s', 16, 16)\nscope(function()\nlocal b = shared('s', 16, 16)\n|   mov.u32 %r, $(s);\n"
         "end)\n",
         5, "'s' is hidden here"},
        {"local a\nscope(function() a = b32 'a' end)\n|   mov.u32 $(a), 1;\n", 4,
         "the { } that declares 'a' has ended"},
        {"local a = b32 'a'\nkernel{name='two', grid={1}, block={32}}\n|   mov.u32 $(a), 1;\n", 4,
         "the { } that declares 'a' has ended"},
        {"local a = b32 'a'\nkernel{name='two', grid={1}, block={32}}\nlocal b = b32 'a'\n|   mov.u32 $(a), 1;\n", 5,
         "the { } that declares 'a' has ended"},
    };
    char text[512];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        snprintf(text, sizeof text, KERNEL "%s", rows[i].text);
        refused(text, DCPK_E_TEMPLATE, rows[i].line, rows[i].needle);
    }
    ck_assert_str_eq(body_of(KERNEL "local a, c = b32 'a', b32('c', 2)\nscope(function()\n  local b = b32 'a'\n"
                                    "  scope(function() local c = b32 'c0' end)\n|   mov.u32 $(b), $(c[0]);\nend)\n"
                                    "|   mov.u32 $(a), 1;\n"),
                     "    .reg .b32 %a;\n    .reg .b32 %c<2>;\n    {\n        .reg .b32 %a;\n        {\n"
                     "            .reg .b32 %c0;\n        }\n        mov.u32 %a, %c0;\n    }\n    mov.u32 %a, 1;\n");
}
END_TEST

static const struct {
    const char *text, *needle;
} bad_registers[] = {
    {"local a = b32 'tid'", "special register %tid"},
    {"local a = b32('words0', 4)", "may not end in a digit"},
    {"local a = b32 'a b'", "'a b' is not a name"},
    {"local a = b32 '1a'", "'1a' is not a name"},
    {"local a = b32 ''", "is not a name"},
    {"local a = b32 'a\\0b'", "is not a name"},
    {"local a = b32()", "takes a name first"},
    {"local a = b32('a', 0)", "a register count is an integer from 1 to 65536, not 0"},
    {"local a = b32('a', 1.5)", "not number"},
    {"local a = b32('a', 2, 'x', 'y')", "a name, a count and a comment"},
    {"local a = b32('a', {})", "a comment is a text"},
    {"local a = b32('a', 2) |   mov $(a[2])", "unexpected symbol"},
    {"local a = b32('a', 2)[2]", "a[2]: the array has 0 to 1"},
    {"local a = b32('a', 2)[-1]", "a[-1]"},
    {"local a = b32('a')[0]", "'a' is one register, not an array"},
    {"local a = b32('a').typo", "has no field 'typo'"},
    {"b32('a').name = 'b'", "cannot be changed"},
    {"local a = label 'x y'", "is not a name"},
    {"shared('s', 16, 3)", "not a power of two"},
    {"shared('s', 49153, 16)", "more than 49152 bytes"},
    {"shared('s', 16, 16) shared('s', 16, 16)", "declared twice"},
    {"|   }\nlocal x = 1", "this } closes nothing"},
    {"|   {", "own.ptx.lua:2: this { is not closed before the kernel's end"},
    {"scope(function()\n|   }\nend)", "do not pair"},
    {"scope(function()\n|   {\nend)", "do not pair"},
    {"kernel{grid={1}, block={32}}", "the entry dcpk_own is there already"},
    {"include 'lib/none'", "there is no template file lib/none.lua"},
    {"local x = spec.page", "the template needs page"},
    {"local x = spec.paje", "takes no such key"},
    {"spec.page = 1", "spec is read-only"},
    {"local x = param.rows", "does not declare it in params"},
};

START_TEST(misuse_is_refused_at_its_line) {
    char text[512];
    snprintf(text, sizeof text, KERNEL "%s\n", bad_registers[_i].text);
    bool needs_key = strncmp(bad_registers[_i].text, "local x = spec.page", 19) == 0;
    bool no_file = strncmp(bad_registers[_i].text, "include", 7) == 0;
    refused(text, needs_key ? DCPK_E_SPEC : no_file ? DCPK_E_NOT_FOUND : DCPK_E_TEMPLATE, 0, bad_registers[_i].needle);
    ck_assert_str_eq(why.template_file, "own.ptx.lua");
}
END_TEST

START_TEST(labels_are_unique) {
    ck_assert_str_eq(body_of(KERNEL "for i = 1, 2 do\n  local spin, done = label 'spin', label 'done'\n| $(spin):\n"
                                    "|   bra $(spin); // $(done) $(spin.name)\nend\n"),
                     "  $spin_1:\n    bra $spin_1; // $done_1 spin\n  $spin_2:\n    bra $spin_2; // $done_2 spin\n");
}
END_TEST

START_TEST(shared_variables_live_in_the_kernel) {
    ck_assert_str_eq(body_of(KERNEL "local s = shared('tile', 1024, 128)\n|   mov.u32 %r1, $(s);\n"),
                     "    .shared .align 128 .b8 tile[1024];\n    mov.u32 %r1, tile;\n");
    refused("shared('s', 16, 16)\n", DCPK_E_TEMPLATE, 1, "outside a kernel");
    refused("local r = b32 'a'\n", DCPK_E_TEMPLATE, 1, "register 'a' outside a kernel");
}
END_TEST

/* ---- include ---- */

START_TEST(a_library_runs_once_and_returns_its_value) {
    put_template("lib/count.lua", "local c = {n = 0}\nfunction c.next() c.n = c.n + 1 return c.n end\nreturn c\n");
    put_template("lib/none.lua", "local x = 1\n");
    ck_assert_str_eq(body_of("local a = include 'lib/count'\n" KERNEL "local b = include 'lib/count'\n"
                             "|   // $(a.next()) $(b.next()) $(a == b and 1 or 0) $(include 'lib/none' and 1)\n"),
                     "    // 1 2 1 1\n");
}
END_TEST

START_TEST(the_first_folder_of_the_path_wins) {
    char path[192], second[96];
    snprintf(second, sizeof second, "%s/second", templates);
    snprintf(path, sizeof path, ":%s::%s", templates, second);
    put_template("lib/a.lua", "return 'first'");
    put_bytes(templates, "second/x", "", 0);
    put_bytes(second, "lib/a.lua", "return 'second'", 15);
    put_bytes(second, "lib/b.lua", "return 'only second'", 20);
    put_template("own.ptx.lua", KERNEL "|   // $(include 'lib/a'), $(include 'lib/b')\n");
    ck_assert_int_eq(try_expand(path, "own", &expanded, &why), DCPK_OK);
    expect_text(expanded.ptx, "    // first, only second\n");
    ck_assert_uint_eq(expanded.file_count, 3);
    ck_assert_str_eq(expanded.files[0].name, "own.ptx.lua");
    ck_assert_str_eq(expanded.files[1].name, "lib/a.lua");
    ck_assert_str_eq(expanded.files[2].name, "lib/b.lua");
}
END_TEST

START_TEST(a_template_that_is_no_regular_file_is_named_so) {
    struct expansion none;
    char path[128];
    snprintf(path, sizeof path, "%s/own.ptx.lua", templates);
    put_template("own.ptx.lua", "");
    for (int kind = 0; kind < 3; kind++) {
        ck_assert_int_eq(unlink(path), 0);
        if (kind == 0) ck_assert_int_eq(mkfifo(path, 0600), 0);
        if (kind == 1) ck_assert_int_eq(symlink("/dev/zero", path), 0);
        if (kind == 2) ck_assert_int_eq(symlink("/dev/null", path), 0);
        ck_assert_int_eq(try_expand(NULL, "own", &none, &why), DCPK_E_IO);
        expect_text(why.text, "own.ptx.lua is not a regular file");
    }
}
END_TEST

START_TEST(a_kernel_without_a_template_is_told_which_have_one) {
    struct expansion none;
    put_template("query_norm.ptx.lua", KERNEL);
    put_template("dcp_value.ptx.lua", KERNEL);
    ck_assert_int_eq(try_expand(NULL, "mla_decode heads=1 batch=1", &none, &why), DCPK_E_NOT_FOUND);
    expect_text(why.text, "mla_decode: this version has no template for it; it has query_norm dcp_value (in ");
    ck_assert_int_eq(try_expand(NULL, "nobodys", &none, &why), DCPK_E_NOT_FOUND);
    expect_text(why.text, "there is no template file nobodys.ptx.lua or nobodys.cu.lua in ");
}
END_TEST

START_TEST(a_file_digest_is_xxh3_of_its_bytes) {
    struct expander *expander;
    put_template("lib/empty.lua", "");
    ck_assert_int_eq(expander_open(templates, &expander, &why), DCPK_OK);
    /* XXH3-128 of nothing, as xxhsum -H2 prints it. */
    ck_assert_str_eq(expander_file_digest(expander, "lib/empty.lua"), "99aa06d3014798d86001c324468d497f");
    ck_assert_ptr_null(expander_file_digest(expander, "lib/gone.lua"));
    ck_assert_ptr_null(expander_file_digest(expander, "../empty.lua"));
    put_template("lib/empty.lua", "changed"); /* once a process */
    ck_assert_str_eq(expander_file_digest(expander, "lib/empty.lua"), "99aa06d3014798d86001c324468d497f");
    expander_close(expander);
}
END_TEST

/* ---- who wrote a line ---- */

static uint32_t line_with(const char *text) {
    const char *at = strstr(expanded.ptx, text);
    ck_assert_ptr_nonnull(at);
    uint32_t line = 1;
    for (const char *c = expanded.ptx; c < at; c++)
        line += *c == '\n';
    return line;
}

START_TEST(a_line_that_calls_twice_is_one_caller) {
    put_template("lib/in.lua", "local m = {}\nfunction m.leaf()\n|   leaf;\nend\n"
                               "function m.deep()\n  scope(function() m.leaf() end)\nend\nreturn m\n");
    ptx_of("local inner = include 'lib/in'\n" KERNEL "inner.deep()\n");
    const struct line_origin *o = &expanded.origins[line_with("leaf;") - 1];
    ck_assert_uint_eq(o->line, 3);
    ck_assert_uint_eq(o->frame_count, 2);
    ck_assert_uint_eq(expanded.frames[o->frame_first].line, 6);
    ck_assert_uint_eq(expanded.frames[o->frame_first + 1].line, 3);
}
END_TEST

START_TEST(every_line_knows_its_writer_and_the_callers_above) {
    put_template("lib/inner.lua", "local m = {}\n-- two\nfunction m.leaf()\n|   leaf;\nend\nreturn m\n");
    put_template("lib/outer.lua",
                 "local inner = include 'lib/inner'\nlocal m = {}\nfunction m.branch()\n  inner.leaf()\n"
                 "|   branch;\nend\nreturn m\n");
    ptx_of("local outer = include 'lib/outer'\n" KERNEL
           "|   plain;\n\nscope(function()\n  outer.branch()\nend)\nlocal r = b32 'reg'\n");
    ck_assert_uint_eq(expanded.ptx_lines, line_with("\n}\n") + 1);
    const struct line_origin *o = &expanded.origins[line_with("plain;") - 1];
    ck_assert_str_eq(expanded.files[o->file].name, "own.ptx.lua");
    ck_assert_uint_eq(o->line, 3);
    ck_assert_uint_eq(o->frame_count, 0);
    o = &expanded.origins[line_with("leaf;") - 1];
    ck_assert_str_eq(expanded.files[o->file].name, "lib/inner.lua");
    ck_assert_uint_eq(o->line, 4);
    ck_assert_uint_eq(o->frame_count, 3);
    const struct line_frame *f = &expanded.frames[o->frame_first];
    ck_assert_str_eq(expanded.files[f[0].file].name, "lib/outer.lua");
    ck_assert_uint_eq(f[0].line, 4);
    ck_assert_str_eq(expanded.files[f[1].file].name, "own.ptx.lua");
    ck_assert_uint_eq(f[1].line, 6);
    ck_assert_uint_eq(f[2].line, 5);
    o = &expanded.origins[line_with(".reg .b32 %reg") - 1];
    ck_assert_uint_eq(o->line, 8);
    o = &expanded.origins[line_with(".visible") - 1];
    ck_assert_uint_eq(o->line, 2);
    o = &expanded.origins[line_with(".version") - 1];
    ck_assert_uint_eq(o->line, 1);
}
END_TEST

START_TEST(blame_shows_both_lines_and_the_frames) {
    put_template("lib/inner.lua", "local m = {}\nfunction m.leaf()\n|   leaf $(1 + 1);\nend\nreturn m\n");
    ptx_of("local inner = include 'lib/inner'\n" KERNEL "inner.leaf()\n");
    uint32_t line = line_with("leaf 2;");
    char wanted[256];
    dcpk_error_init(&why);
    expansion_blame(&expanded, line, "error: no such thing", &why);
    snprintf(wanted, sizeof wanted,
             "lib/inner.lua:3: error: no such thing\n    |   leaf $(1 + 1);\n  from own.ptx.lua:3\n"
             "  PTX line %u:     leaf 2;",
             line);
    ck_assert_str_eq(why.text, wanted);
    ck_assert_str_eq(why.template_file, "lib/inner.lua");
    ck_assert_uint_eq(why.template_line, 3);
    dcpk_error_init(&why);
    expansion_blame(&expanded, expanded.ptx_lines + 1, "error: beyond", &why);
    expansion_blame(&expanded, 0, "error: before", &why);
    snprintf(wanted, sizeof wanted, "PTX line %u: error: beyond\nPTX line 0: error: before", expanded.ptx_lines + 1);
    ck_assert_str_eq(why.text, wanted);
}
END_TEST

START_TEST(an_error_in_a_helper_names_the_call) {
    put_template("lib/m.lua",
                 "local m = {}\nfunction m.f(x)\n  return x.a.b\nend\nfunction m.g() error('told', 2) end\nreturn m\n");
    struct expansion none;
    put_template("own.ptx.lua", "local m = include 'lib/m'\n" KERNEL "\nm.f({})\n");
    ck_assert_int_eq(try_expand(NULL, "own", &none, &why), DCPK_E_TEMPLATE);
    expect_text(why.text,
                "lib/m.lua:3: attempt to index a nil value (field 'a')\n    return x.a.b\n  from own.ptx.lua:4");
    refused("local m = include 'lib/m'\n" KERNEL "\n\nm.g()\n", DCPK_E_TEMPLATE, 5, "own.ptx.lua:5: told\n    m.g()");
    put_template("lib/bad.lua", "local x = 1\n|  a $(b\n");
    put_template("own.ptx.lua", KERNEL "include 'lib/bad'\n");
    ck_assert_int_eq(try_expand(NULL, "own", &none, &why), DCPK_E_TEMPLATE);
    expect_text(why.text, "lib/bad.lua:2: $( is not closed on this line");
    expect_text(why.text, "  from own.ptx.lua:2");
}
END_TEST

START_TEST(lineinfo_names_template_lines) {
    put_template("lib/m.lua", "local m = {}\nfunction m.f()\n|   two;\n|   three;\nend\nreturn m\n");
    const char *ptx =
        ptx_of_spec("local m = include 'lib/m'\n" KERNEL "local r = b32 'r'\n|   one; // x\nm.f()\n| $l:\n"
                    "| @%p bra $l;\n",
                    "own lineinfo=1");
    expect_text(ptx, ".address_size 64\n.file 1 \"own.ptx.lua\", 1, 1\n.file 2 \"lib/m.lua\", 1, 1\n");
    expect_text(
        ptx,
        "{\n    .reg .b32 %r;\n    .loc 1 4 0\n    one; // x\n    .loc 2 3 0\n    two;\n    .loc 2 4 0\n    three;\n"
        "  $l:\n    .loc 1 7 0\n  @%p bra $l;\n}\n");
    const struct line_origin *o = &expanded.origins[line_with("    three;") - 1];
    ck_assert_uint_eq(o->line, 4);
    ck_assert_uint_eq(expanded.frames[o->frame_first].line, 5);
    expect_no_text(ptx_of_spec(KERNEL "|   one;\n", "own lineinfo=0"), ".loc");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("template");
    TCase *c = tcase_create("template");
    tcase_add_checked_fixture(c, expanding_setup, expanding_teardown);
    tcase_add_test(c, ptx_text_passes_as_it_stands);
    tcase_add_test(c, a_bar_inside_a_lua_string_or_comment_is_no_ptx);
    tcase_add_test(c, interpolation_nests_parentheses_and_strings);
    tcase_add_test(c, a_broken_interpolation_is_refused_at_its_line);
    tcase_add_test(c, an_open_interpolation_quotes_no_more_than_its_line);
    tcase_add_test(c, values_are_integers_strings_and_registers_only);
    tcase_add_test(c, ptx_holds_no_nul_and_no_byte_above_ascii);
    tcase_add_test(c, line_ends_of_windows_change_nothing);
    tcase_add_test(c, helpers_write_lines_too);
    tcase_add_test(c, literals_are_bit_patterns);
    tcase_add_test(c, registers_are_declared_where_they_are_made);
    tcase_add_test(c, a_name_is_declared_once_in_a_scope);
    tcase_add_test(c, a_register_is_written_only_where_its_name_means_it);
    tcase_add_loop_test(c, misuse_is_refused_at_its_line, 0, (int)(sizeof bad_registers / sizeof bad_registers[0]));
    tcase_add_test(c, labels_are_unique);
    tcase_add_test(c, shared_variables_live_in_the_kernel);
    tcase_add_test(c, a_library_runs_once_and_returns_its_value);
    tcase_add_test(c, the_first_folder_of_the_path_wins);
    tcase_add_test(c, a_template_that_is_no_regular_file_is_named_so);
    tcase_add_test(c, a_kernel_without_a_template_is_told_which_have_one);
    tcase_add_test(c, a_file_digest_is_xxh3_of_its_bytes);
    tcase_add_test(c, a_line_that_calls_twice_is_one_caller);
    tcase_add_test(c, every_line_knows_its_writer_and_the_callers_above);
    tcase_add_test(c, blame_shows_both_lines_and_the_frames);
    tcase_add_test(c, an_error_in_a_helper_names_the_call);
    tcase_add_test(c, lineinfo_names_template_lines);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
