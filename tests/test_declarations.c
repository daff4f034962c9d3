/* test_declarations.c - the tables by which test_cpu_declarations.c judges the CPU device, judged by the real ptxas: it
 * refuses every malformed row, takes every other, and puts the initial values that the table has into section
 * .nv.global.init. */
#include "tests/building.h"
#include "tests/cpu_declarations.h"
#include "tests/cpu_functions.h"
#include "tests/cpu_operands.h"
#include "tests/cpu_text.h"
#include "tests/run_suite.h"

#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text, and behind it an entry that takes the address of `name`: ptxas drops what nobody names. */
static char *assembled(const char *declaration, const char *name, size_t *length, char **says) {
    char text[2048];
    snprintf(text, sizeof text,
             HEAD G "%s\n.visible .entry last(.param .u64 o) { .reg .b64 d, to; mov.u64 d, %s; ld.param.u64 to, [o]; "
                    "st.global.u64 [to], d; ret; }\n",
             declaration, name);
    return try_cubin(text, "sm_90a", length, says);
}

static void assembler_refuses(const char *text) {
    if (!have_ptxas()) return;
    size_t length;
    char *says = NULL, *cubin = assembled(text, "g", &length, &says);
    ck_assert_msg(cubin == NULL, "ptxas takes: %s", text);
    ck_assert_msg(strstr(says, "error") || strstr(says, "fatal"), "%s: %s", text, says);
    free(says);
}

static void assembler_takes(const char *text) {
    if (!have_ptxas()) return;
    size_t length;
    char *says = NULL, *cubin = assembled(text, "g", &length, &says);
    ck_assert_msg(cubin != NULL, "ptxas refuses: %s\n%s", text, says);
    free(says);
    free(cubin);
}

START_TEST(the_assembler_refuses_what_is_refused) {
    assembler_refuses(malformed[_i].text);
}
END_TEST

START_TEST(the_assembler_refuses_functions_that_are_refused) {
    assembler_refuses(malformed_functions[_i].text);
}
END_TEST

/* An instruction among its operands. */
static const char *within(const char *instruction) {
    static char text[1600];
    snprintf(text, sizeof text, OPERANDS "%s" OPERANDS_END, instruction);
    return text;
}

START_TEST(the_assembler_refuses_operands_that_are_refused) {
    assembler_refuses(within(malformed_operands[_i].text));
}
END_TEST

START_TEST(the_assembler_takes_operands_that_are_taken) {
    assembler_takes(within(taken_operands[_i]));
}
END_TEST

START_TEST(the_assembler_refuses_text_that_is_refused) {
    assembler_refuses(malformed_text[_i].text);
}
END_TEST

START_TEST(the_assembler_takes_what_is_taken) {
    assembler_takes(taken[_i]);
}
END_TEST

START_TEST(the_assembler_takes_functions_that_are_taken) {
    assembler_takes(taken_functions[_i]);
}
END_TEST

START_TEST(the_assembler_takes_text_that_is_taken) {
    assembler_takes(taken_text[_i]);
}
END_TEST

static const unsigned char *section(const char *cubin, const char *name, size_t *length) {
    Elf64_Ehdr head;
    memcpy(&head, cubin, sizeof head);
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(const void *)(cubin + head.e_shoff);
    const char *names = cubin + sections[head.e_shstrndx].sh_offset;
    for (unsigned i = 0; i < head.e_shnum; i++) {
        if (strcmp(names + sections[i].sh_name, name) != 0) continue;
        *length = sections[i].sh_size;
        return (const unsigned char *)cubin + sections[i].sh_offset;
    }
    return NULL;
}

START_TEST(initial_values_are_what_the_assembler_makes_of_them) {
    if (!have_ptxas()) return;
    size_t length, bytes = 0;
    char *says = NULL, *cubin = assembled(initial[_i].text, "q", &length, &says), hex[2 * 64 + 1] = "";
    ck_assert_msg(cubin != NULL, "%s", says);
    const unsigned char *at = section(cubin, ".nv.global.init", &bytes);
    ck_assert_ptr_nonnull(at);
    ck_assert_uint_le(bytes, 64);
    for (size_t i = 0; i < bytes; i++)
        snprintf(hex + 2 * i, 3, "%02x", at[i]);
    ck_assert_str_eq(hex, initial[_i].bytes);
    free(says);
    free(cubin);
}
END_TEST

/* Section .nv.shared.q, which begins with the 1024 bytes that the system takes; none is there for no bytes. */
START_TEST(shared_memory_is_what_the_assembler_gives_an_entry) {
    if (!have_ptxas()) return;
    size_t length, bytes = 1024;
    char *says = NULL, *cubin = assembled(shared_sizes[_i].text, "g", &length, &says);
    ck_assert_msg(cubin != NULL, "%s", says);
    section(cubin, ".nv.shared.q", &bytes);
    ck_assert_uint_eq(bytes, 1024 + shared_sizes[_i].bytes);
    free(says);
    free(cubin);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("declarations");
    TCase *tcase = tcase_create("ptxas");
    tcase_add_loop_test(tcase, the_assembler_refuses_what_is_refused, 0, sizeof malformed / sizeof *malformed);
    tcase_add_loop_test(tcase, the_assembler_refuses_text_that_is_refused, 0,
                        sizeof malformed_text / sizeof *malformed_text);
    tcase_add_loop_test(tcase, the_assembler_takes_text_that_is_taken, 0, sizeof taken_text / sizeof *taken_text);
    tcase_add_loop_test(tcase, the_assembler_refuses_functions_that_are_refused, 0,
                        sizeof malformed_functions / sizeof *malformed_functions);
    tcase_add_loop_test(tcase, the_assembler_refuses_operands_that_are_refused, 0,
                        sizeof malformed_operands / sizeof *malformed_operands);
    tcase_add_loop_test(tcase, the_assembler_takes_operands_that_are_taken, 0,
                        sizeof taken_operands / sizeof *taken_operands);
    tcase_add_loop_test(tcase, the_assembler_takes_what_is_taken, 0, sizeof taken / sizeof *taken);
    tcase_add_loop_test(tcase, the_assembler_takes_functions_that_are_taken, 0,
                        sizeof taken_functions / sizeof *taken_functions);
    tcase_add_loop_test(tcase, initial_values_are_what_the_assembler_makes_of_them, 0,
                        sizeof initial / sizeof *initial);
    tcase_add_loop_test(tcase, shared_memory_is_what_the_assembler_gives_an_entry, 0,
                        sizeof shared_sizes / sizeof *shared_sizes);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
