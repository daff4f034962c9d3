/* test_cuda_text.c - what CUDA C++ of a template may say: nothing that makes the image depend on what no key holds, or
 * leads messages astray. Refusals need no NVRTC; what needs the real one is skipped, and said to be, without. */
#include "tests/own_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct refusal {
    const char *lines, *text;
    unsigned line; /* the first of `lines` is 7 */
};

static void refuse_all(const struct refusal *rows, size_t count, dcpk_status status) {
    for (size_t i = 0; i < count; i++) {
        put_own(NULL, rows[i].lines);
        own_refused("nvjitlink", status, "own.cu.lua", rows[i].line, rows[i].text);
    }
}
#define REFUSE_ALL(rows) refuse_all(rows, sizeof(rows) / sizeof(rows)[0], DCPK_E_TEMPLATE)

START_TEST(cuda_text_reads_no_file) {
    static const struct refusal rows[] = {
        {"| #include <cuda_fp16.h>\n", "own.cu.lua:7: #include: CUDA C++ of a template reads no file", 7},
        {"| #include \"/etc/passwd\"\n", "#include: ", 7},
        {"|\n|#\tinclude \"/etc/passwd\"\n", "#include: ", 8},
        {"|  %: include \"/etc/passwd\"\n", "#include: ", 7},
        {"|  %\\\n|:inc\\\n|lude \"/etc/passwd\"\n", "#include: ", 7},
        {"|   int a; /* over\n| lines */ # /* and\n| more */ include \"/etc/passwd\"\n", "#include: ", 8},
        {"| #include_next <x>\n", "#include_next: ", 7},
        {"| #import <x>\n", "#import: ", 7},
        {"| #embed \"/etc/passwd\"\n", "#embed: ", 7},
        {"| #if __has_include(\"/etc/passwd\")\n| #endif\n", "__has_include: CUDA C++ of a template looks at no", 7},
        {"|   int a = __has_\\\n|include_next(\"/etc/passwd\");\n", "__has_include_next: ", 7},
        {"| #define HAS defined(X) && __has_include(\"/etc/passwd\")\n", "__has_include: ", 7},
        {"| #define C(a, b) a##b\n| #if C(__has_, include)(\"/etc/passwd\")\n| #endif\n", "##: ", 7},
        {"| #define C(a, b) a%:%:b\n", "##: ", 7},
        {"|   const char *a = R\"x(\"\n| )y\")x\";\n| #include \"/etc/passwd\"\n", "#include: ", 9},
        {"|   char a = '\"', b = '\\'';\n|   int c = 1'000;\n| #include \"/etc/passwd\"\n", "#include: ", 9},
        {"| #warning R\"(\n| #include \"/etc/passwd\"\n|// )\"\n", "a raw string of a preprocessor line", 7},
        {"| #error don't\n| #include \"/etc/passwd\"\n", "#include: ", 8},
        {"| #pragma GCC dependency \"/etc/passwd\"\n", "pragma 'GCC'", 7},
        {"| _Pragma(\"GCC dependency\")\n", "pragma 'GCC'", 7},
        {"| _Pragma(X)\n", "pragma 'X'", 7},
    };
    REFUSE_ALL(rows);
    put_own("return __has_include(\"/etc/passwd\");", STORE);
    own_refused("nvjitlink", DCPK_E_TEMPLATE, "lib/helper.lua", 4, "\n  from lib/helper.lua:7\n  from own.cu.lua:3\n");
}
END_TEST

START_TEST(cuda_text_does_not_renumber_its_lines) {
    static const struct refusal rows[] = {
        {"| #line 3\n", "own.cu.lua:7: #line: lines are the template's", 7},
        {"|\n| # 3 \"x.cu\"\n", "own.cu.lua:8: #line: ", 8},
        {"| #ident \"x\"\n", "#ident: a template's CUDA C++ has no such directive", 7},
    };
    REFUSE_ALL(rows);
}
END_TEST

START_TEST(cuda_text_knows_no_time) {
    static const struct refusal rows[] = {
        {"|   const char *a = __TIME__;\n", "own.cu.lua:7: __TIME__: an image does not depend on when it was built", 7},
        {"|\n| #define WHEN __DATE__\n", "__DATE__: ", 8},
        {"|   f(__TIME\\\n|STAMP__);\n", "__TIMESTAMP__: ", 7},
    };
    REFUSE_ALL(rows);
}
END_TEST

START_TEST(cuda_parameters_are_not_named_by_words_of_cpp) {
    static const char *const words[] = {"long",     "short",  "int",        "unsigned", "signed", "char",
                                        "float",    "double", "const",      "volatile", "this",   "xor",
                                        "co_await", "typeof", "__restrict", "a__b",     "_X"};
    char path[160], text[300];
    snprintf(path, sizeof path, "%s/own.cu.lua", template_folder);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        snprintf(text, sizeof text, "kernel { grid = { 1 }, block = { 32 },\n params = { { \"%s\", \"u32\" } } }\n",
                 words[i]);
        put_text(path, text);
        snprintf(text, sizeof text, "kernel{}: parameter %s: ", words[i]);
        own_refused("nvjitlink", DCPK_E_TEMPLATE, "own.cu.lua", 1, text);
    }
}
END_TEST

/* Whatever NVRTC, or a macro, makes of the signature: a launch passes what the kernel reads. */
START_TEST(cuda_parameters_are_those_of_the_metadata) {
    static const struct {
        const char *params, *text;
    } rows[] = {
        {".param .u64 a, .param .u32 b, .param .u32 c", "takes 3 parameters, not 4"},
        {"", "takes 0 parameters, not 4"},
        {".param .u64 a, .param .u32 b, .param .u32 c, .param .f32 d, .param .u8 e", "takes 5 parameters, not 4"},
        {".param .u64 a, .param .u16 b, .param .u32 c, .param .f32 d", "takes another type than u32 for pitch"},
        {".param .u32 a, .param .u64 b, .param .u32 c, .param .f32 d", "takes another type than u64 for to"},
        {".param .u64 a, .param .u32 b, .param .f32 c, .param .u32 d", "takes another type than s32 for shift"},
        {".param .u64 a, .param .u32 b, .param .u32 c, .param .f64 d", "takes another type than f32 for eps"},
        {".param .u64 a, .param .align 4 .b8 b[4], .param .u32 c, .param .f32 d", "another type than u32 for pitch"},
    };
    put_own(NULL, STORE);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char ptx[400];
        snprintf(ptx, sizeof ptx,
                 ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry dcpk_own(\n%s\n)\n{\n.loc 1 10 0\n"
                 "griddepcontrol.wait;\nret;\n}\n",
                 rows[i].params);
        fake->ptx = ptx;
        own_refused("nvjitlink", DCPK_E_LINT, "own.cu.lua", 4, rows[i].text);
    }
}
END_TEST

START_TEST(cuda_macros_do_not_change_parameters) {
    put_own("\n|#define pitch short\n| return 3 * x;", "|   ((int *)to)[0] = three(3);\n");
    own_refused("ptxas", DCPK_E_LINT, "own.cu.lua", 4, "dcpk_own takes another type than u32 for pitch");
    put_own("\n|#define shift shift, int more\n| return 3 * x;", "|   ((int *)to)[0] = more;\n");
    own_refused("ptxas", DCPK_E_LINT, "own.cu.lua", 4, "dcpk_own takes another type than f32 for eps");
    put_own("\n|#define eps eps, int more\n| return 3 * x;", "|   ((int *)to)[0] = three(3);\n");
    own_refused("ptxas", DCPK_E_LINT, "own.cu.lua", 4, "dcpk_own takes 5 parameters, not 4");
}
END_TEST

START_TEST(cuda_text_may_use_the_preprocessor) {
    put_own(NULL, "| #define TWICE(x) \\\n|   ((x) + (x))\n| #define TEXT(x) #x\n| #ifdef TWICE\n| #  pragma unroll\n"
                  "|   for (int i = 0; i < 2; i++) ((int *)to)[i] = TWICE(three(shift)); // __TIME__ ## #include\n"
                  "| #else\n| #error none\n| #endif /* __has_include\n| */\n| #undef TWICE\n| #\n"
                  "|   _Pragma(\"nounroll\") for (int i = 2; i < 4; i++)\n"
                  "|     ((int *)to)[i] = TEXT(3)[0] + \"#include __DATE__\"[i] + '#' + 1'0 + R\"(\n"
                  "| #include)\"[i];\n");
    char *ptx = own_ptx("batch=2");
    ck_assert_ptr_nonnull(strstr(ptx, "st.global"));
    free(ptx);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cuda_text");
    TCase *tc = tcase_create("refusals");
    tcase_set_timeout(tc, 30);
    tcase_add_checked_fixture(tc, compilers_setup, compilers_teardown);
    tcase_add_test(tc, cuda_text_reads_no_file);
    tcase_add_test(tc, cuda_text_does_not_renumber_its_lines);
    tcase_add_test(tc, cuda_text_knows_no_time);
    tcase_add_test(tc, cuda_parameters_are_not_named_by_words_of_cpp);
    tcase_add_test(tc, cuda_parameters_are_those_of_the_metadata);
    suite_add_tcase(suite, tc);
    if (have_nvrtc("2 tests of test_cuda_text")) {
        tc = tcase_create("NVRTC");
        tcase_set_timeout(tc, 60);
        tcase_add_checked_fixture(tc, real_compilers_setup, compilers_teardown);
        tcase_add_test(tc, cuda_macros_do_not_change_parameters);
        tcase_add_test(tc, cuda_text_may_use_the_preprocessor);
        suite_add_tcase(suite, tc);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
