/* test_template_errors.c - every kind of error that a template's author can make, as the command prints it: the whole
 * message, with file, line, the line's text, the helpers above it, the PTX line where there is one, and what to do. */
#include "tests/shell.h"

#include "gen/expand.h"
#include "gen/toolchain.h"

#include <check.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "kernel { grid = { 1 }, block = { 32 }, params = { { \"to\", \"u64\" } } }\n"
#define WAIT "|   griddepcontrol.wait;\n"
#define FIX_LINE "correct the template's line that the message shows\n"
#define TEMPLATE "dcpk: DCPK_E_TEMPLATE: " FIX_LINE
#define LINT "dcpk: DCPK_E_LINT: correct the template's line that the message shows, as its rule says\n"

static void put(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void setup(void) {
    shell_setup();
    ck_assert_int_eq(mkdir("t", 0755), 0);
    ck_assert_int_eq(mkdir("t/lib", 0755), 0);
    put("t/lib/helper.lua", "local function twice(fn) fn() fn() end\n"
                            "return {\n"
                            "  look = function(x)\n"
                            "    local y = x.field.more\n"
                            "  end,\n"
                            "  add = function(r)\n"
                            "    twice(function()\n"
                            "|   addd.u32 $(r), $(r), 1;\n"
                            "    end)\n"
                            "  end,\n"
                            "}\n");
    put("t/lib/broken.lua", "return {\n  one = 1\n  two = 2\n}\n");
}

static bool have_ptxas(void) {
    static int known = -1;
    if (known < 0) {
        sh("$dcpk explain own --templates t batch=2");
        known = last.code == 0;
        if (!known) fprintf(stderr, "skipped: messages of ptxas about templates: there is no ptxas\n");
    }
    return known;
}

/* Every "error: ..." of the compiler's own words becomes "error: ...", and its name and version "COMPILER". */
static void hide_compiler(char *text) {
    char *out = text;
    for (const char *at = text; *at != '\0';) {
        const char *next = strchr(at, '\n');
        size_t length = next != NULL ? (size_t)(next - at) : strlen(at);
        char line[512], *word;
        snprintf(line, sizeof line, "%.*s", (int)length, at);
        at += length + (next != NULL);
        if (strncmp(line, "ptxas ", 6) == 0) continue; /* "ptxas fatal : aborted" */
        if ((word = strstr(line, ": error: ")) != NULL) strcpy(word + 9, "...");
        if ((word = strstr(line, "ptxas ")) != NULL && strstr(word, " exited") != NULL) {
            const char *rest = strstr(word, " exited");
            memmove(word + 8, rest, strlen(rest) + 1);
            memcpy(word, "COMPILER", 8);
        }
        out += sprintf(out, "%s\n", line);
    }
    *out = '\0';
}

static const struct {
    const char *kind, *text, *words;
    int code;
    const char *message;
} kinds[] = {
    {"Lua syntax", HEAD "local x = = 1\n", "", 1,
     "dcpk: own.ptx.lua:2: unexpected symbol near '='\n    local x = = 1\n" TEMPLATE},
    {"Lua syntax of a library", "include \"lib/broken\"\n" HEAD, "", 1,
     "dcpk: lib/broken.lua:3: '}' expected (to close '{' at line 1) near 'two'\n    two = 2\n"
     "  opened at lib/broken.lua:1\n    return {\n  from own.ptx.lua:1\n" TEMPLATE},
    {"Lua syntax, seen at a line of PTX", HEAD "local x = max(1, 2\n" WAIT, "", 1,
     "dcpk: own.ptx.lua:3: ')' expected (to close '(' at line 2) before this line of PTX\n"
     "    |   griddepcontrol.wait;\n  opened at own.ptx.lua:2\n    local x = max(1, 2\n" TEMPLATE},
    {"Lua syntax, seen at the end", "kernel { grid = { 1 }, block = { 32 }\n" WAIT, "", 1,
     "dcpk: own.ptx.lua:3: '}' expected (to close '{' at line 1) near <eof>\n"
     "  opened at own.ptx.lua:1\n    kernel { grid = { 1 }, block = { 32 }\n" TEMPLATE},
    {"Lua at work, with helpers", "local helper = include \"lib/helper\"\n" HEAD "helper.look({})\n", "", 1,
     "dcpk: lib/helper.lua:4: attempt to index a nil value (field 'field')\n    local y = x.field.more\n"
     "  from own.ptx.lua:3\n" TEMPLATE},
    {"undeclared global, read", HEAD "local x = cuont\n", "", 1,
     "dcpk: own.ptx.lua:2: there is no global 'cuont': declare it with `local` above\n    local x = cuont\n" TEMPLATE},
    {"Lua's print", HEAD "print(\"hi\")\n", "", 1,
     "dcpk: own.ptx.lua:2: templates have no 'print': comment(\"...\") writes a line into the text; error(\"...\") "
     "says "
     "it and ends\n    print(\"hi\")\n" TEMPLATE},
    {"Lua's files", HEAD "local f = io.open(\"x\")\n", "", 1,
     "dcpk: own.ptx.lua:2: templates have no 'io': a template reads spec and include(), and writes lines: no file, no "
     "clock\n    local f = io.open(\"x\")\n" TEMPLATE},
    {"Lua's require", HEAD "local w = require \"lib.warp\"\n", "", 1,
     "dcpk: own.ptx.lua:2: templates have no 'require': include(\"lib/NAME\") runs lib/NAME.lua of the template "
     "folders\n    local w = require \"lib.warp\"\n" TEMPLATE},
    {"PTX that no toolkit has", "need { ptx = \"99.0\" }\n" HEAD, "", 1,
     "dcpk: own.ptx.lua:1: need: no toolkit has PTX 99.0: the newest that dcpk knows is 9.5, of CUDA 13.5\n"
     "    need { ptx = \"99.0\" }\n" TEMPLATE},
    {"a byte order mark", "\xEF\xBB\xBF-- mine\n" HEAD, "", 1,
     "dcpk: own.ptx.lua:1: the file begins with a byte order mark (EF BB BF), which is no Lua: save it as UTF-8 "
     "without "
     "one\n    \xEF\xBB\xBF-- mine\n" TEMPLATE},
    {"undeclared global, near a known one", HEAD "local x = sepc.batch\n", "", 1,
     "dcpk: own.ptx.lua:2: there is no global 'sepc' (nearest: spec): declare it with `local` above\n"
     "    local x = sepc.batch\n" TEMPLATE},
    {"undeclared global, written", HEAD "count = 1\n", "", 1,
     "dcpk: own.ptx.lua:2: assignment to global 'count': declare it with `local`; a library returns its table\n"
     "    count = 1\n" TEMPLATE},
    {"unclosed $( )", HEAD "|   mov.u32 %r1, $(1;\n", "", 1,
     "dcpk: own.ptx.lua:2: $( is not closed on this line: $(1;\n    |   mov.u32 %r1, $(1;\n" TEMPLATE},
    {"empty $( )", HEAD "|   mov.u32 %r1, $( );\n", "", 1,
     "dcpk: own.ptx.lua:2: $( ) is empty\n    |   mov.u32 %r1, $( );\n" TEMPLATE},
    {"a float in $( )", HEAD "|   mov.u32 %r1, $(spec.batch / 4);\n", "", 1,
     "dcpk: own.ptx.lua:2: a float (0.5) as PTX text: use // for integers, f32(x) or f64(x) for literals\n"
     "    |   mov.u32 %r1, $(spec.batch / 4);\n" TEMPLATE},
    {"unknown parameter", HEAD "|   ld.param.u64 %a, [$(param.too)];\n", "", 1,
     "dcpk: own.ptx.lua:2: param.too: this kernel{} does not declare it in params; it declares to\n"
     "    |   ld.param.u64 %a, [$(param.too)];\n" TEMPLATE},
    {"unknown register in $( )", HEAD WAIT "|   mov.u32 $(sum), 1;\n", "", 1,
     "dcpk: own.ptx.lua:3: there is no global 'sum': declare it with `local` above\n    |   mov.u32 $(sum), "
     "1;\n" TEMPLATE},
    {"a whole array of registers", HEAD "local v = b32(\"v\", 2)\n|   mov.u32 $(v), 1;\n", "", 1,
     "dcpk: own.ptx.lua:3: 'v' is an array of 2 registers: index it, v[0] to v[1]\n    |   mov.u32 $(v), "
     "1;\n" TEMPLATE},
    {"duplicate register", HEAD "local a = b32 \"a\"\nlocal b = f32(\"a\", 2)\n", "", 1,
     "dcpk: own.ptx.lua:3: 'a' is declared twice in this { } (a register at line 2): use another name, or scope()\n"
     "    local b = f32(\"a\", 2)\n" TEMPLATE},
    {"rule() is false", "rule(spec.batch % 4 == 0, \"batch must be a multiple of 4\")\n" HEAD, "", 2,
     "dcpk: own: batch must be a multiple of 4\n  rule at own.ptx.lua:1\n"
     "    rule(spec.batch % 4 == 0, \"batch must be a multiple of 4\")\n"
     "dcpk: DCPK_E_SPEC: change the key that the message names\n"},
    {"a key that the spec does not set", HEAD "local x = spec.page\n", "", 2,
     "dcpk: own: the template needs page, which the spec does not set: add page=VALUE (16..64)\n"
     "  rule at own.ptx.lua:2\n    local x = spec.page\ndcpk: DCPK_E_SPEC: change the key that the message names\n"},
    {"need() beyond arch", "need { target = \"sm_100f\" }\n" HEAD, "", 2,
     "dcpk: own.ptx.lua:1: own needs target sm_100f, and arch=sm_90a is not one: use arch=sm_100a arch=sm_103a\n"
     "    need { target = \"sm_100f\" }\ndcpk: DCPK_E_ARCH: choose an architecture that the message lists\n"},
    {"instruction budget", HEAD "while true do end\n", "", 1,
     "dcpk: own.ptx.lua:2: the expansion takes more work than 20000000 Lua instructions: is there a loop without "
     "end?\n    while true do end\n" TEMPLATE},
    {"memory cap", HEAD "local t = {}\nfor i = 1, 1e9 do t[i] = \"k\" .. i end\n", "", 1,
     "dcpk: own.ptx.lua:3: the expansion's Lua takes more than 64 MiB of memory: does a table or a text grow without "
     "end?\n    for i = 1, 1e9 do t[i] = \"k\" .. i end\n" TEMPLATE},
    {"non-ASCII", HEAD "|   mov.u32 %r1, 1;  // \xE2\x86\x92\n", "", 1,
     "dcpk: own.ptx.lua:2: byte 0xE2 in PTX text: only printable ASCII may stand there\n"
     "    |   mov.u32 %r1, 1;  // \xE2\x86\x92\n" TEMPLATE},
    {"lint 1: no wait",
     HEAD "local a = b64 \"a\"\n|   ld.param.u64 $(a), [$(param.to)];\n|   st.global.u32 [$(a)], 1;\n", "", 1,
     "dcpk: own.ptx.lua:4: the kernel touches global memory and never executes griddepcontrol.wait: every kernel waits "
     "before its first access (pdl.wait() of lib/pdl)\n    |   st.global.u32 [$(a)], 1;\n"
     "  PTX line 15:     st.global.u32 [%a], 1;\n" LINT},
    {"lint 2: a load before the wait",
     HEAD "local a = b64 \"a\"\n|   ld.param.u64 $(a), [$(param.to)];\n|   ld.global.u64 $(a), [$(a)];\n" WAIT, "", 1,
     "dcpk: own.ptx.lua:4: a load before griddepcontrol.wait: the kernel before this one may not have written it yet "
     "(a weight, or a table made before any launch, says so: // const_input)\n"
     "    |   ld.global.u64 $(a), [$(a)];\n  PTX line 15:     ld.global.u64 %a, [%a];\n" LINT},
    {"lint 2: a store before the wait",
     HEAD "local a = b64 \"a\"\n|   ld.param.u64 $(a), [$(param.to)];\n|   st.global.u64 [$(a)], 1;\n" WAIT, "", 1,
     "dcpk: own.ptx.lua:4: a store or atomic before griddepcontrol.wait: the kernel before this one may still run; "
     "move it behind the wait\n    |   st.global.u64 [$(a)], 1;\n  PTX line 15:     st.global.u64 [%a], 1;\n" LINT},
    {"lint 3: dependents before the wait", HEAD "|   griddepcontrol.launch_dependents;\n" WAIT, "", 1,
     "dcpk: own.ptx.lua:2: launch_dependents before griddepcontrol.wait: a kernel waits before it triggers\n"
     "    |   griddepcontrol.launch_dependents;\n  PTX line 13:     griddepcontrol.launch_dependents;\n" LINT},
    {"lint 4: an instruction of a later PTX", HEAD WAIT "|   fence.proxy.async.global;\n", "", 1,
     "dcpk: own.ptx.lua:3: fence.proxy.async.global needs PTX 8.0 and the kernel declares 7.8: say need{ptx=\"8.0\"}\n"
     "    |   fence.proxy.async.global;\n  PTX line 14:     fence.proxy.async.global;\n" LINT},
    {"lint 5: a line of the generator's", HEAD "|   .version 9.0\n" WAIT, "", 1,
     "dcpk: own.ptx.lua:2: the .version line is the generator's: say need{ptx=...}\n    |   .version 9.0\n"
     "  PTX line 13:     .version 9.0\n" LINT},
    {"include not found", "include \"lib/none\"\n" HEAD, "", 1,
     "dcpk: own.ptx.lua:1: there is no template file lib/none.lua in t:TEMPLATES\n    include \"lib/none\"\n"
     "dcpk: DCPK_E_NOT_FOUND: the message says where it was looked for\n"},
};

/* The built-in folder's path is this machine's. */
static void hide_folder(char *text) {
    char *at = strstr(text, " in t:/");
    if (at == NULL) return;
    const char *end = at + strcspn(at, "\n");
    char rest[4096];
    snprintf(rest, sizeof rest, "%s", end);
    sprintf(at, " in t:TEMPLATES%s", rest);
}

START_TEST(an_error_says_file_line_text_and_what_to_do) {
    put("t/own.ptx.lua", kinds[_i].text);
    sh("$dcpk gen own --templates t batch=2 %s", kinds[_i].words);
    hide_folder(last.err);
    ck_assert_msg(strcmp(last.err, kinds[_i].message) == 0, "%s:\n%s\nwanted:\n%s", kinds[_i].kind, last.err,
                  kinds[_i].message);
    ck_assert_msg(last.code == kinds[_i].code, "%s: exit code %d", kinds[_i].kind, last.code);
    ck_assert_str_eq(last.out, "");
}
END_TEST

/* ---- what the compiler refuses ---- */

#define COMPILER_SAYS "dcpk: DCPK_E_TOOLCHAIN: correct the template's lines that the message shows\n"
static const struct {
    const char *kind, *text, *message;
} refusals[] = {
    {"an instruction that is none, in a helper's helper",
     "local helper = include \"lib/helper\"\n" HEAD "local v = b32 \"v\"\n" WAIT "helper.add(v)\n",
     "dcpk: own: COMPILER exited with status 255\n"
     "lib/helper.lua:8: error: ...\n    |   addd.u32 $(r), $(r), 1;\n  from lib/helper.lua:1\n  from lib/helper.lua:7\n"
     "  from own.ptx.lua:5\n  PTX line 15:     addd.u32 %v, %v, 1;\n"
     "lib/helper.lua:8: error: ...\n    |   addd.u32 $(r), $(r), 1;\n  from lib/helper.lua:1\n  from lib/helper.lua:7\n"
     "  from own.ptx.lua:5\n  PTX line 16:     addd.u32 %v, %v, 1;\n" COMPILER_SAYS},
    {"a register that nobody declares", HEAD WAIT "|   add.u32 %sum, %sum, 1;\n",
     "dcpk: own: COMPILER exited with status 255\n"
     "own.ptx.lua:3: error: ...\n    |   add.u32 %sum, %sum, 1;\n  PTX line 14:     add.u32 %sum, %sum, 1;\n"},
    {"a register that PTX text declares twice", HEAD WAIT "|   .reg .b32 %a;\n|   .reg .b32 %a;\n",
     "dcpk: own: COMPILER exited with status 255\n"
     "own.ptx.lua:4: error: ...\n    |   .reg .b32 %a;\n  PTX line 15:     .reg .b32 %a;\n" COMPILER_SAYS},
};

START_TEST(a_compilers_error_leads_to_the_template) {
    put("t/own.ptx.lua", HEAD WAIT);
    if (!have_ptxas()) return;
    put("t/own.ptx.lua", refusals[_i].text);
    sh("$dcpk build own --templates t batch=2");
    expect_code(1);
    hide_compiler(last.err);
    ck_assert_msg(strncmp(last.err, refusals[_i].message, strlen(refusals[_i].message)) == 0, "%s:\n%s\nwanted:\n%s",
                  refusals[_i].kind, last.err, refusals[_i].message);
    expect_in(last.err, COMPILER_SAYS);
}
END_TEST

/* CUDA C++: NVRTC's message, the line of C++ and where it came from. */
START_TEST(an_error_of_cuda_cpp_leads_to_the_template) {
    put("t/own.cu.lua", "local function add(name)\n"
                        "|   int x = $(name) + 1;\n"
                        "end\n"
                        "kernel { grid = { 1 }, block = { 32 }, params = { { \"to\", \"u64\" } } }\n"
                        "|   asm volatile(\"griddepcontrol.wait;\" ::: \"memory\");\n"
                        "add(\"nosuch\")\n");
    sh("$dcpk gen own --templates t batch=2");
    if (last.code == 3) {
        fprintf(stderr, "skipped: messages of NVRTC about templates: there is no NVRTC\n");
        return;
    }
    expect_code(1);
    expect_in(last.err, "own.cu.lua:2: error: identifier \"nosuch\" is undefined\n    |   int x = $(name) + 1;\n"
                        "  from own.cu.lua:6\n  CUDA C++ line 10:     int x = nosuch + 1;\n");
    expect_in(last.err, COMPILER_SAYS);
}
END_TEST

static void keep(void *self, int level, const char *text) {
    ck_assert_int_eq(level, DCPK_LOG_WARNING);
    snprintf(self, 4096, "%s", text);
}

START_TEST(a_compilers_warning_leads_to_the_template) {
    char said[4096] = "";
    struct notice notice = {keep, said};
    struct expander *expander;
    struct expansion expansion;
    dcpk_spec spec;
    dcpk_error error;
    dcpk_error_init(&error);
    put("t/own.ptx.lua", HEAD "local v = b32 \"v\"\n" WAIT "|   mov.u32 $(v), 1;\n");
    ck_assert_int_eq(dcpk_spec_parse(&spec, "own batch=2", &error), DCPK_OK);
    ck_assert_int_eq(dcpk_spec_resolve(&spec, &error), DCPK_OK);
    ck_assert_int_eq(expander_open("t", &expander, &error), DCPK_OK);
    ck_assert_msg(expander_expand(expander, &spec, &expansion, &error) == DCPK_OK, "%s", error.text);
    scan_warnings(&expansion, "own", "ptxas /proc/self/fd/3, line 15; warning : Something is odd\n\n", &notice);
    ck_assert_str_eq(said, "own: the compiler says:\nown.ptx.lua:4: warning: Something is odd\n"
                           "    |   mov.u32 $(v), 1;\n  PTX line 15:     mov.u32 %v, 1;");
    expansion_free(&expansion);
    expander_close(expander);
}
END_TEST

/* ---- the options ---- */

START_TEST(folders_with_colons_and_backslashes_in_their_names_are_escaped) {
    ck_assert_int_eq(mkdir("a:b", 0755), 0);
    ck_assert_int_eq(mkdir("c\\:", 0755), 0); /* c, a backslash, a colon */
    ck_assert_int_eq(mkdir("d\\e", 0755), 0);
    put("a:b/own.ptx.lua", "include \"more\"\n" HEAD "comment \"of a:b\"\n" WAIT);
    put("c\\:/more.lua", "include \"last\"\n");
    put("d\\e/last.lua", "comment \"last\"\n");
    sh("$dcpk gen own --templates 'a\\:b:c\\\\\\::d\\e' batch=2"); /* d's backslash is before no ':': as it is */
    expect_code(0);
    expect_in(last.out, "// of a:b");
    sh("DCPK_TEMPLATE_PATH=$PWD/'a\\:b':$PWD/'c\\\\\\:':$PWD/'d\\\\e' $dcpk gen own batch=2");
    expect_code(0);
    expect_in(last.out, "// of a:b");
    sh("$dcpk gen own --templates a:b batch=2");
    expect_failure(2, "there is no template folder a");
}
END_TEST

START_TEST(a_template_folder_that_is_not_there_is_named) {
    sh("DCPK_TEMPLATE_PATH=/nowhere/at:all $dcpk gen query_norm heads=1 batch=1");
    expect_failure(1, "there is no folder /nowhere/at, nor all: DCPK_TEMPLATE_PATH names");
    sh("DCPK_TEMPLATE_PATH=/nowhere/at:$PWD/t $dcpk gen query_norm heads=1 batch=1");
    expect_failure(1, "/t); there is no folder /nowhere/at\n");
    sh("DCPK_TEMPLATE_PATH=$PWD/t $dcpk gen query_norm heads=1 batch=1");
    expect_failure(1, "it has none");
    ck_assert_ptr_null(strstr(last.err, "there is no folder"));
    sh("DCPK_TEMPLATE_PATH=/nowhere $dcpk ls models");
    expect_failure(1, "there is no folder /nowhere: DCPK_TEMPLATE_PATH names");
}
END_TEST

START_TEST(folders_of_templates_come_before_the_usual_ones) {
    ck_assert_int_eq(mkdir("u", 0755), 0);
    put("t/own.ptx.lua", "include \"lib/pdl\"\n" HEAD "comment \"of t\"\n" WAIT);
    put("u/own.ptx.lua", HEAD "comment \"of u\"\n" WAIT);
    sh("$dcpk gen own --templates t batch=2"); /* lib/pdl is the built-in folder's */
    expect_code(0);
    expect_in(last.out, "// of t");
    sh("$dcpk gen own --templates u:t batch=2");
    expect_in(last.out, "// of u");
    sh("DCPK_TEMPLATE_PATH=$PWD/u $dcpk gen own batch=2");
    expect_in(last.out, "// of u");
    sh("DCPK_TEMPLATE_PATH=$PWD/u $dcpk gen own --templates t batch=2; :");
    expect_in(last.err, "there is no template file lib/pdl.lua"); /* the variable replaces the built-in folder */
    sh("$dcpk gen own --templates nowhere batch=2");
    expect_failure(2, "--templates nowhere: there is no template folder nowhere");
    sh("$dcpk run --templates nowhere");
    expect_failure(2, "--templates nowhere: there is no template folder nowhere");
    put("t/dcp_value.ptx.lua", "error(\"this is mine\", 0)\n");
    sh("$dcpk run --templates t batch=1");
    expect_failure(1, "dcp_value.ptx.lua:1: this is mine");
    sh("$dcpk explain own --templates t batch=2");
    if (last.code == 0) expect_in(last.out, " own.ptx.lua\n");
    sh("$dcpk gen own --templates : batch=2");
    expect_failure(2, "--templates :: a list of template folders names at least one");
}
END_TEST

START_TEST(lineinfo_is_lineinfo_1) {
    put("t/own.ptx.lua", HEAD WAIT);
    sh("$dcpk gen own --templates t batch=2 lineinfo=1 >one && $dcpk gen own --templates t --lineinfo batch=2 >two && "
       "cmp one two && grep -q '[.]loc' two && $dcpk gen own --templates t batch=2 >none && ! grep -q '[.]loc' none");
    expect_code(0);
    sh("$dcpk gen own --templates t --lineinfo batch=2 lineinfo=0");
    expect_failure(2, "--lineinfo and lineinfo=0 contradict each other");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("template errors");
    TCase *tcase = tcase_create("template errors");
    tcase_add_checked_fixture(tcase, setup, shell_teardown);
    tcase_add_loop_test(tcase, an_error_says_file_line_text_and_what_to_do, 0, (int)(sizeof kinds / sizeof kinds[0]));
    tcase_add_loop_test(tcase, a_compilers_error_leads_to_the_template, 0, (int)(sizeof refusals / sizeof refusals[0]));
    tcase_add_test(tcase, an_error_of_cuda_cpp_leads_to_the_template);
    tcase_add_test(tcase, a_compilers_warning_leads_to_the_template);
    tcase_add_test(tcase, folders_with_colons_and_backslashes_in_their_names_are_escaped);
    tcase_add_test(tcase, a_template_folder_that_is_not_there_is_named);
    tcase_add_test(tcase, folders_of_templates_come_before_the_usual_ones);
    tcase_add_test(tcase, lineinfo_is_lineinfo_1);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
