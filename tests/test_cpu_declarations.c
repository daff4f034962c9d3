/* test_cpu_declarations.c - what PTX declares and how its names are used: variables, their initialisers, functions,
 * registers, and what says where code comes from. What is malformed is refused with line and reason, what is well
 * formed is read, and initial values are the assembler's bytes: test_declarations.c holds the same tables against
 * ptxas. */
#include "runtime/cpu/machine.h"
#include "tests/cpu_declarations.h"
#include "tests/cpu_functions.h"
#include "tests/cpu_operands.h"
#include "tests/cpu_text.h"
#include "tests/refused.h"
#include "tests/run_suite.h"

#include <check.h>
#include <stdlib.h>

/* What ptxas takes, and the CPU device does not have. */
static const struct refusal unsupported[] = {
    {".global .u8 q[1][1][1][1][1][1][1][1][1][1][1][1][1][1][1][1];\n",
     "5: more than 15 dimensions are not supported"},
    {".global .u32 q = g;\n", "5: an address initialises 64-bit elements only"},
    {".func f() { ret; }\n.global .u64 q = f;\n",
     "6: the address of function `f`: calls through pointers are not supported"},
    {".global .b64 q = 0x10000000000000000;\n", "5: integer constant beyond 64 bits"}, /* ptxas wraps some, as this */
    {".global .f64 q = -(0f3F800000);\n", /* ptxas turns the sign of a double with these bits */
     "5: 0f and its digits are part of no expression: write 0d or decimal"},
    {".global .b128 q = 1.5;\n", "5: no float initialises 128 bits"}, /* ptxas adds bytes of its own memory */
    {".extern .shared .b32 a<3>;\n", "5: the range `a<3>` of .extern variables is not supported"},
    {".global .align 8192 .u32 q;\n", "5: `q` is aligned to 8192 bytes: more than 4096 are not supported"},
    {".const .align 2147483648 .u32 q;\n", "5: `q` is aligned to 2147483648 bytes: more than 4096 are not supported"},
    {".extern .global .u32 q;\n.visible .const .u32 q = 5;\n",
     "6: `q` is declared before in another state space: this is not supported"},
    {".extern .shared .u32 s[];\n.visible .shared .u32 s[4];\n",
     "6: `s` is dynamic shared memory before: to state a size then is not supported"},
    {".visible .shared .u32 s[4];\n.extern .shared .align 16 .u32 s[4];\n",
     "6: `s` is aligned to 4 bytes before: to state more then is not supported"},
    {".extern .global .u32 q;\n.global .u32 r;\n.extern .const .u32 s;\n",
     "5: `q` is defined in another module: linking is not supported"},
    {".extern .global .u32 q;\n", "5: `q` is defined in another module: linking is not supported"},
    {".global .texref q;\n", "5: a type is expected before `.texref`"},
    {".entry q() { .reg .v2 .u32 a; }\n",
     "5: vector registers are not supported: declare scalars and use { } in the instruction"},
    {".entry q();\n.entry q() { ret; }\n", "5: entry `q` has no body"},
    {".func a() { ret; }\n.func b();\n.alias b, a;\n", "7: directive `.alias` is not supported"},
};

START_TEST(what_is_not_supported_is_named) {
    refused(HEAD G, &unsupported[_i], "");
}
END_TEST

START_TEST(a_malformed_declaration_is_refused_with_line_and_reason) {
    refused(HEAD G, &malformed[_i], "");
}
END_TEST

START_TEST(malformed_text_is_refused_with_line_and_reason) {
    refused(HEAD G, &malformed_text[_i], "");
}
END_TEST

START_TEST(a_malformed_function_or_call_is_refused_with_line_and_reason) {
    refused(HEAD G, &malformed_functions[_i], "");
}
END_TEST

START_TEST(malformed_operands_are_refused_with_line_and_reason) {
    refused(HEAD G OPERANDS, &malformed_operands[_i], OPERANDS_END);
}
END_TEST

static struct ptx_module *load(const char *declaration) {
    char text[2048], message[1024] = "";
    snprintf(text, sizeof text, HEAD G "%s\n.visible .entry last() { ret; }\n", declaration);
    struct ptx_module *module = ptx_load(text, NULL, message, sizeof message);
    ck_assert_msg(module != NULL, "%s", message);
    return module;
}

/* A body that nobody calls leaves nothing behind: the last function is the entry, and it runs alone. */
static void is_taken(const char *text) {
    struct ptx_module *module = load(text);
    unsigned count = ptx_function_count(module);
    ck_assert_uint_ge(count, 1);
    ck_assert_str_eq(ptx_function_at(module, count - 1)->name, "last");
    ptx_free(module);
}

START_TEST(a_declaration_that_the_assembler_takes_is_taken) {
    is_taken(taken[_i]);
}
END_TEST

START_TEST(text_that_the_assembler_takes_is_taken) {
    is_taken(taken_text[_i]);
}
END_TEST

START_TEST(operands_that_the_assembler_takes_are_taken) {
    char text[1600];
    snprintf(text, sizeof text, OPERANDS "%s" OPERANDS_END, taken_operands[_i]);
    is_taken(text);
}
END_TEST

START_TEST(a_function_that_the_assembler_takes_is_taken) {
    is_taken(taken_functions[_i]);
}
END_TEST

START_TEST(initial_values_are_the_bytes_that_the_assembler_makes) {
    struct ptx_module *module = load(initial[_i].text);
    ck_assert_uint_eq(ptx_variable_count(module), 2);
    const struct ptx_variable *variable = ptx_variable_at(module, 1);
    char hex[2 * 64 + 1] = "";
    ck_assert_uint_le(variable->bytes, 64);
    for (unsigned i = 0; i < variable->bytes; i++)
        snprintf(hex + (size_t)2 * i, 3, "%02x", i < variable->initial_bytes ? variable->initial[i] : 0);
    ck_assert_str_eq(hex, initial[_i].bytes);
    ptx_free(module);
}
END_TEST

START_TEST(an_entry_has_the_shared_memory_that_the_assembler_gives_it) {
    struct ptx_module *module = load(shared_sizes[_i].text);
    unsigned entries = 0;
    for (unsigned i = 0; i < ptx_function_count(module); i++) {
        const struct ptx_function *f = ptx_function_at(module, i);
        if (strcmp(f->name, "q") != 0) continue;
        ck_assert_uint_eq(f->static_shared, shared_sizes[_i].bytes);
        entries++;
    }
    ck_assert_uint_eq(entries, 1);
    ptx_free(module);
}
END_TEST

/* ptxas 13 ends without a word at these; compilers wrote them before PTX 2.0. */
START_TEST(old_lines_of_debug_information_are_passed_over) {
    ptx_free(load("@@DWARF .byte 0x05\n@@DWARF .4byte 1\n"));
}
END_TEST

/* Names as templates of C++ get them. */
START_TEST(names_have_any_length) {
    enum { LENGTH = 5000 };
    static char name[LENGTH + 1], text[4 * LENGTH];
    char message[1024] = "";
    memset(name, 'n', LENGTH);
    snprintf(text, sizeof text, HEAD ".global .u32 v%s;\n.entry e%s(.param .u32 p%s) { ret; }\n", name, name, name);
    struct ptx_module *module = ptx_load(text, NULL, message, sizeof message);
    ck_assert_msg(module != NULL, "%s", message);
    const struct ptx_function *entry = ptx_function_at(module, 0);
    const char *const names[] = {ptx_variable_at(module, 0)->name, entry->name, entry->params[0].name};
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(names[i][0], "vep"[i]);
        ck_assert_str_eq(names[i] + 1, name);
    }
    ptx_free(module);
}
END_TEST

/* A variable within a function is one more of the module, and none for reading it alone. */
START_TEST(a_function_that_nobody_calls_leaves_no_variable) {
    struct ptx_module *module =
        load(".func q() { .global .u32 inner = 5; .const .b8 c[60000]; ret; }\n.const .b8 d[60000];");
    ck_assert_uint_eq(ptx_variable_count(module), 2);
    ck_assert_str_eq(ptx_variable_at(module, 1)->name, "d");
    ptx_free(module);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_declarations");
    TCase *tcase = tcase_create("PTX");
    tcase_add_loop_test(tcase, a_malformed_declaration_is_refused_with_line_and_reason, 0,
                        sizeof malformed / sizeof *malformed);
    tcase_add_loop_test(tcase, malformed_text_is_refused_with_line_and_reason, 0,
                        sizeof malformed_text / sizeof *malformed_text);
    tcase_add_loop_test(tcase, text_that_the_assembler_takes_is_taken, 0, sizeof taken_text / sizeof *taken_text);
    tcase_add_loop_test(tcase, what_is_not_supported_is_named, 0, sizeof unsupported / sizeof *unsupported);
    tcase_add_loop_test(tcase, a_malformed_function_or_call_is_refused_with_line_and_reason, 0,
                        sizeof malformed_functions / sizeof *malformed_functions);
    tcase_add_loop_test(tcase, malformed_operands_are_refused_with_line_and_reason, 0,
                        sizeof malformed_operands / sizeof *malformed_operands);
    tcase_add_loop_test(tcase, operands_that_the_assembler_takes_are_taken, 0,
                        sizeof taken_operands / sizeof *taken_operands);
    tcase_add_loop_test(tcase, a_function_that_the_assembler_takes_is_taken, 0,
                        sizeof taken_functions / sizeof *taken_functions);
    tcase_add_loop_test(tcase, a_declaration_that_the_assembler_takes_is_taken, 0, sizeof taken / sizeof *taken);
    tcase_add_loop_test(tcase, initial_values_are_the_bytes_that_the_assembler_makes, 0,
                        sizeof initial / sizeof *initial);
    tcase_add_test(tcase, names_have_any_length);
    tcase_add_loop_test(tcase, an_entry_has_the_shared_memory_that_the_assembler_gives_it, 0,
                        sizeof shared_sizes / sizeof *shared_sizes);
    tcase_add_test(tcase, old_lines_of_debug_information_are_passed_over);
    tcase_add_test(tcase, a_function_that_nobody_calls_leaves_no_variable);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
