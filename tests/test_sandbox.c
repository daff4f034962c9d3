/* test_sandbox.c - what a template cannot do: run for ever, eat memory, reach anything outside, or depend on the run.
 */
#include "tests/expanding.h"

#include <check.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *text;
    unsigned line;
    const char *needle;
} endless[] = {
    {"\nwhile true do end", 2, "more work than 20000000 Lua instructions"},
    {"\nlocal function f() return f() end\nf()", 2, "more work than 20000000 Lua instructions"},
    {"::top::\ngoto top", 0, "more work than 20000000 Lua instructions"},
    {"for i = 1, math.huge do end", 1, "more work than 20000000 Lua instructions"},
    {"local t = {}\nfor i = 1, 100 do t[i] = i end\ntable.sort(t, function() while true do end end)", 3,
     "Lua instructions"},
    {"local s = 'x'\nwhile true do s = s .. s end", 2, "more than 64 MiB of memory"},
    {"local t = {}\nfor i = 1, 1e9 do t[i] = {} end", 2, "more than 64 MiB of memory"},
    {"local t = {}\nfor i = 1, 1e9 do t[i] = 'k' .. i end", 2, "more than 64 MiB of memory"},
    {"\nlocal s = string.rep('x', 1 << 40)", 2, "a text of more than 16 MiB"},
    {"local s = ('x'):rep(1 << 62, ('y'):rep(100))", 1, "a text of more than 16 MiB"},
    {"local s = ('x'):rep(8000000)\nlocal t = table.concat({s, s, s, s, s, s, s, s})", 2, "more than 64 MiB of memory"},
    {"local function f(n) return 1 + f(n + 1) end\nlocal x = f(1)", 1, "own.ptx.lua:1: "},
    {"local f\nf = function() table.sort({2, 1}, f) end\nf()", 0, "stack overflow"},
    {"local s = (''):rep(1 << 62)", 1, "a text of more than 16 MiB"},
    {"local s = ('x'):rep(8000000)\nfor i = 1, 1e6 do local t = s .. i end", 2, "more work than"},
    {"local s = ('x'):rep(8000000)\nwhile true do local t = s:upper() end", 2, "more work than"},
    {"local t = {}\nfor i = 0, 62 do t[1 << i] = 1 end\nt[5], t[9], t[0x7FFFFFFFFFFFFFFF] = 1, 1, 1\ntable.insert(t, "
     "1, 1)",
     4, "a table of more than"}, /* Lua takes 2^63 - 1 for its length */
    {KERNEL "local function f() scope(f) end\nf()", 2, "more than 64 scopes inside each other"},
    {KERNEL "while true do\n|   mov.u32 %r1, 1;\nend", 0, ""},
    {"local x = select(-1, table.unpack({}, 1, 1e8))", 1, "too many results to unpack"},
    {"local t = {table.unpack({}, 1, 900000)}\nlocal s = string.char(table.unpack(t))", 0, ""},
};

START_TEST(nothing_runs_without_a_bound) {
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    refused(endless[_i].text, DCPK_E_TEMPLATE, endless[_i].line, endless[_i].needle);
    clock_gettime(CLOCK_MONOTONIC, &end);
    ck_assert_int_lt(end.tv_sec - start.tv_sec, 20); /* 0.3 s on a free machine */
}
END_TEST

/* Deep nesting in the source text meets Lua's own limits, not the C stack. */
START_TEST(deep_nesting_is_an_error) {
    enum { DEPTH = 100000 };
    char *text = malloc(2 * DEPTH + 64);
    strcpy(text, "local x = ");
    memset(text + 10, '(', DEPTH);
    text[10 + DEPTH] = '1';
    memset(text + 11 + DEPTH, ')', DEPTH);
    text[11 + 2 * DEPTH] = '\0';
    refused(text, DCPK_E_TEMPLATE, 1, "C stack overflow");
    snprintf(text, 32, KERNEL);
    strcat(text, "|  mov $(");
    size_t used = strlen(text);
    memset(text + used, '{', 1000);
    text[used + 1000] = '\0';
    refused(text, DCPK_E_TEMPLATE, 2, "is not closed on this line");
    free(text);
}
END_TEST

static const char *const absent[] = {
    "pcall(error)",
    "xpcall(error, error)",
    "coroutine.wrap(error)",
    "setmetatable({}, {})",
    "getmetatable('')",
    "load('x')",
    "loadstring('x')",
    "loadfile('x')",
    "dofile('x')",
    "require 'x'",
    "next({})",
    "rawget({}, 1)",
    "rawset({}, 1, 1)",
    "rawlen({})",
    "rawequal(1, 1)",
    "io.open('x')",
    "os.time()",
    "debug.getinfo(1)",
    "print(1)",
    "collectgarbage()",
    "warn('x')",
    "package.path = ''",
    "utf8.char(1)",
    "local x = _G.spec",
    "local x = _VERSION",
    "string.find('a', 'a')",
    "string.match('a', 'a')",
    "string.gmatch('a', 'a')",
    "string.gsub('a', 'a', 'b')",
    "string.dump(error)",
    "string.pack('b', 1)",
    "string.reverse('a')",
    "local x = ('a'):find('a')",
    "local x = ('a'):gsub('a', 'b')",
    "local x = ('a').dump",
    "table.move({}, 1, 1, 1)",
    "table.pack(1)",
    "math.random()",
    "math.randomseed(1)",
    "math.fmod(1, 1)",
};

START_TEST(what_is_not_listed_is_not_there) {
    refused(absent[_i], DCPK_E_TEMPLATE, 1, absent[_i][0] == 'l' && absent[_i][6] == 'x' ? "no" : "no ");
    ck_assert_ptr_null(strstr(why.text, "nil value")); /* it says that templates have no such thing */
}
END_TEST

static const struct {
    const char *text, *needle;
} rules[] = {
    {"x = 1", "assignment to global 'x': declare it with `local`"},
    {"min = 1", "assignment to global 'min'"},
    {"function f() end", "assignment to global 'f'"},
    {"local y = sepc", "no global 'sepc' (nearest: spec)"},
    {"local y = _ENV.thing", "no global 'thing'"},
    {"_ENV.thing = 1", "assignment to global 'thing'"},
    {"string.rep = nil", "string.rep: string is read-only"},
    {"table.sort = 1", "table is read-only"},
    {"math.pi = 3", "math is read-only"},
    {"error()", "error() with a nil"},
    {"error({})", "error() with a table"},
    {"error(emit)", "error() with a function"},
    {"error(42)", "error() with a number"},
    {"error('what', 0)", "what"},
    {"assert(false, 'unmet')", "unmet"},
    {"assert(nil)", "assertion failed"},
    {"local s = tostring({})", "tostring of a table: its text would be an address"},
    {"local s = tostring(emit)", "tostring of a function"},
    {"local s = string.format('%p', 'x')", "%p would print an address"},
    {"local s = string.format('%-20p', 'x')", "%p would print an address"},
    {"local s = string.format('%s', {})", "string.format of a table"},
    {"local s = string.format('%s', emit)", "string.format of a function"},
    {"local s = 'a' .. {}", "attempt to concatenate a table"},
    {"local s = tostring(spec)", "its text would be an address"},
    {"for k in pairs({[{}] = 1}) do end", "pairs: a key is a table"},
    {"for k in pairs({[true] = 1}) do end", "pairs: a key is a boolean"},
    {"for k in pairs(spec) do end", "table expected"},
    {"local x = min(1, 2.5)", "min takes integers, not a float"},
    {"local x = ceil_div(1, 0)", "ceil_div takes an integer >= 0 and one >= 1"},
    {"local x = ceil_div(-1, 2)", "ceil_div takes an integer >= 0"},
    {"table.sort({1, 'a'})", "attempt to compare"},
    {"include '../own'", "without '..'"},
    {"include '/etc/passwd'", "not absolute"},
    {"include 'lib/../own'", "without '..'"},
    {"include './own'", "is not a template file's name"},
    {"include 'lib//x'", "is not a template file's name"},
    {"include 'lib/'", "is not a template file's name"},
    {"include ''", "is not a template file's name"},
    {"include 'a\\0b'", "is not a file's name"},
    {"include(1)", "include takes one text"},
    {"include 'own.ptx'", "more than"},
};

START_TEST(broken_rules_are_named) {
    if (strcmp(rules[_i].text, "include 'own.ptx'") == 0) {
        /* A template that includes itself ends, too: the second run finds itself on its way. */
        refused(rules[_i].text, DCPK_E_TEMPLATE, 1, "includes itself");
        return;
    }
    refused(rules[_i].text, DCPK_E_TEMPLATE, 1, rules[_i].needle);
}
END_TEST

START_TEST(libraries_cannot_include_each_other_in_a_ring) {
    put_template("lib/a.lua", "return include 'lib/b'");
    put_template("lib/b.lua", "return include 'lib/a'");
    struct expansion none;
    put_template("own.ptx.lua", "include 'lib/a'");
    ck_assert_int_eq(try_expand(NULL, "own", &none, &why), DCPK_E_TEMPLATE);
    expect_text(why.text, "lib/b.lua:1: include \"lib/a\" includes itself");
}
END_TEST

START_TEST(binary_chunks_are_refused) {
    refused("\x1bLua\x54", DCPK_E_TEMPLATE, 1, "attempt to load a binary chunk");
}
END_TEST

START_TEST(what_is_listed_works) {
    ck_assert_str_eq(
        body_of(KERNEL "local t = {3, 1, 2}\ntable.sort(t)\ntable.insert(t, 4)\ntable.remove(t, 1)\n"
                       "|   // $(table.concat(t, '-')) $(select('#', table.unpack(t))) $(#t)\n"
                       "table.sort(t, function(a, b) return a > b end)\n"
                       "|   // $(table.concat(t, '-')) $(min(3, 1, 2)) $(max(3, 1, 2)) $(ceil_div(7, 2)) $(ceil_div(8, "
                       "2)) $(round_up(7, 4))\n"
                       "|   // $(string.format('%d %s %x %5.2f', 7, 'a', 255, 1.5)) $(('ab'):upper()) "
                       "$(('abc'):sub(2)) $(('a'):rep(3)) $(('a'):byte())\n"
                       "|   // $(math.floor(2.5)) $(math.tointeger(3.0)) $(math.type(1)) $(math.abs(-2)) $(math.max(1, "
                       "2)) $(tostring(1.5)) $(tostring(nil))\n"
                       "|   // $(tonumber('0x10')) $(type(spec)) $(type({})) $(string.format('%s', true)) "
                       "$(string.format('%.3g', math.sqrt(2)))\n"
                       "for i, v in ipairs({'x', 'y'}) do\n|   // $(i) $(v)\nend\n"),
        "    // 2-3-4 3 3\n    // 4-3-2 1 3 4 4 8\n    // 7 a ff  1.50 AB bc aaa 97\n    // 2 3 integer 2 2 1.5 nil\n"
        "    // 16 userdata table true 1.41\n    // 1 x\n    // 2 y\n");
}
END_TEST

START_TEST(pairs_goes_in_order) {
    ck_assert_str_eq(
        body_of(KERNEL "local t = {b = 1, a = 2, [10] = 3, [2] = 4, [-1] = 5, [1.5] = 6, ab = 7, [''] = 8, B = 9}\n"
                       "local out = {}\nfor k, v in pairs(t) do out[#out + 1] = tostring(k) .. '=' .. v end\n"
                       "|   // $(table.concat(out, ' '))\n"
                       "local gone = {a = 1, b = 2, c = 3}\n"
                       "for k in pairs(gone) do gone.b = nil\n|   // $(k)\nend\n"
                       "for k in pairs({}) do\n|   // never\nend\n"),
        "    // -1=5 1.5=6 2=4 10=3 =8 B=9 a=2 ab=7 b=1\n    // a\n    // c\n");
}
END_TEST

START_TEST(sorting_is_stable) {
    /* 2000 rows that compare equal in groups: Lua's own sort may order them by the clock. */
    const char *body =
        body_of(KERNEL "local t = {}\nfor i = 0, 1999 do t[#t + 1] = {key = (i * 7919) % 5, at = i} end\n"
                       "table.sort(t, function(a, b) return a.key < b.key end)\nlocal ok = 0\n"
                       "for i = 2, #t do\n  local a, b = t[i - 1], t[i]\n"
                       "  if a.key < b.key or (a.key == b.key and a.at < b.at) then ok = ok + 1 end\nend\n"
                       "|   // $(#t) $(ok)\n");
    ck_assert_str_eq(body, "    // 2000 1999\n");
}
END_TEST

/* ---- the same bytes in every run ---- */

static const char varied[] = KERNEL "local t = {}\nfor i = 1, 300 do t['k' .. (i * 7919 % 1000)] = i end\nlocal n = 0\n"
                                    "for k, v in pairs(t) do n = n + 1\n|   // $(k) $(v) $(f32(v / 7))\nend\n"
                                    "|   // $(n) $(tostring(0.5)) $(string.format('%.2f', 2.5)) $(1 / 2 .. '') $(('a' "
                                    "< 'B') and 1 or 0) $(tonumber('1.5') * 2 .. '')\n";

START_TEST(repeated_expansions_agree_to_the_byte) {
    char *first = strdup(ptx_of(varied));
    for (int i = 0; i < 40; i++)
        ck_assert_str_eq(ptx_of(varied), first);
    free(first);
}
END_TEST

START_TEST(the_folder_leaves_no_trace) {
    char *first = strdup(ptx_of(varied)), second[96];
    snprintf(second, sizeof second, "%s/another/place", templates);
    put_template("another/place/own.ptx.lua", varied);
    expansion_free(&expanded);
    ck_assert_int_eq(try_expand(second, "own", &expanded, &why), DCPK_OK);
    ck_assert_str_eq(expanded.ptx, first);
    expect_no_text(expanded.ptx, "/tmp");
    free(first);
}
END_TEST

/* A locale with a decimal comma, made in the test's folder where the system has none; NULL when it cannot be made. */
static const char *comma_locale(void) {
    char line[256];
    if (setlocale(LC_ALL, "de_DE.UTF-8") != NULL) return "de_DE.UTF-8";
    snprintf(line, sizeof line, "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >'%s/log' 2>&1", templates, templates);
    int code = system(line);
    (void)code;
    setenv("LOCPATH", templates, 1);
    return setlocale(LC_ALL, "de_DE.UTF-8") != NULL ? "de_DE.UTF-8" : NULL;
}

START_TEST(the_locale_leaves_no_trace) {
    char *first = strdup(ptx_of(varied)), text[16];
    expect_text(first, "    // 300 0.5 2.50 0.5 0 3.0\n");
    if (comma_locale() != NULL) {
        snprintf(text, sizeof text, "%.1f", 1.5);
        ck_assert_str_eq(text, "1,5"); /* the locale is on */
        ck_assert_str_eq(ptx_of(varied), first);
        snprintf(text, sizeof text, "%.1f", 1.5);
        ck_assert_str_eq(text, "1,5"); /* and still is */
    }
    free(first);
}
END_TEST

START_TEST(another_process_agrees_to_the_byte) {
    char command[512], path[96];
    char *first = strdup(ptx_of(varied));
    char self[256], *slash;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    ck_assert_int_gt(length, 0);
    self[length] = '\0';
    ck_assert_ptr_nonnull(slash = strrchr(self, '/'));
    *slash = '\0';
    snprintf(path, sizeof path, "%s/out", templates);
    for (int i = 0; i < 5; i++) { /* each with its own addresses and hash seed */
        static char bytes[1 << 16];
        snprintf(command, sizeof command, "'%s/expand' '%s' own >'%s'", self, templates, path);
        int code = system(command);
        ck_assert_int_eq(code, 0);
        FILE *file = fopen(path, "rb");
        size_t got = fread(bytes, 1, sizeof bytes - 1, file);
        fclose(file);
        bytes[got] = '\0';
        ck_assert_str_eq(bytes, first);
    }
    free(first);
}
END_TEST

START_TEST(expansions_of_one_expander_share_nothing) {
    struct expander *expander;
    dcpk_spec spec;
    struct expansion a, b;
    put_template("lib/count.lua", "local c = {n = 0}\nreturn c\n");
    put_template("own.ptx.lua", KERNEL "local c = include 'lib/count'\nc.n = c.n + 1\n| $(label 'x'): // $(c.n)\n");
    ck_assert_int_eq(expander_open(templates, &expander, &why), DCPK_OK);
    ck_assert_int_eq(dcpk_spec_parse(&spec, "own", &why), DCPK_OK);
    ck_assert_int_eq(expander_expand(expander, &spec, &a, &why), DCPK_E_ARG); /* not resolved */
    ck_assert_int_eq(dcpk_spec_resolve(&spec, &why), DCPK_OK);
    ck_assert_int_eq(expander_expand(expander, &spec, &a, &why), DCPK_OK);
    ck_assert_int_eq(expander_expand(expander, &spec, &b, &why), DCPK_OK);
    expander_close(expander);
    ck_assert_str_eq(a.ptx, b.ptx);
    expect_text(a.ptx, "  $x_1: // 1\n");
    expansion_free(&a);
    expansion_free(&b);
}
END_TEST

START_TEST(a_missing_template_says_where_it_was_looked_for) {
    struct expansion none;
    struct expander *expander;
    ck_assert_int_eq(try_expand(NULL, "nothing", &none, &why), DCPK_E_NOT_FOUND);
    expect_text(why.text, "there is no template file nothing.ptx.lua or nothing.cu.lua in /tmp/dcpk-templates-");
    ck_assert_int_eq(expander_open("", &expander, &why), DCPK_E_ARG);
    ck_assert_int_eq(expander_open("::", &expander, &why), DCPK_E_ARG);
    ck_assert_int_eq(expander_open(NULL, &expander, &why), DCPK_E_ARG);
    put_template("folder.ptx.lua/x", "");
    ck_assert_int_eq(try_expand(NULL, "folder", &none, &why), DCPK_E_IO);
    expect_text(why.text, "folder.ptx.lua: Is a directory");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sandbox");
    TCase *c = tcase_create("sandbox"), *same = tcase_create("same bytes");
    tcase_add_checked_fixture(c, expanding_setup, expanding_teardown);
    tcase_add_checked_fixture(same, expanding_setup, expanding_teardown);
    tcase_set_timeout(c, 30);
    tcase_set_timeout(same, 30);
    tcase_add_loop_test(c, nothing_runs_without_a_bound, 0, (int)(sizeof endless / sizeof endless[0]));
    tcase_add_test(c, deep_nesting_is_an_error);
    tcase_add_loop_test(c, what_is_not_listed_is_not_there, 0, (int)(sizeof absent / sizeof absent[0]));
    tcase_add_loop_test(c, broken_rules_are_named, 0, (int)(sizeof rules / sizeof rules[0]));
    tcase_add_test(c, libraries_cannot_include_each_other_in_a_ring);
    tcase_add_test(c, binary_chunks_are_refused);
    tcase_add_test(c, what_is_listed_works);
    tcase_add_test(c, pairs_goes_in_order);
    tcase_add_test(c, sorting_is_stable);
    tcase_add_test(c, a_missing_template_says_where_it_was_looked_for);
    tcase_add_test(same, repeated_expansions_agree_to_the_byte);
    tcase_add_test(same, the_folder_leaves_no_trace);
    tcase_add_test(same, the_locale_leaves_no_trace);
    tcase_add_test(same, another_process_agrees_to_the_byte);
    tcase_add_test(same, expansions_of_one_expander_share_nothing);
    suite_add_tcase(suite, c);
    suite_add_tcase(suite, same);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
