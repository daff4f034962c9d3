/* test_fuzz_findings.c - what fuzzing found, or might have, in the readers of templates, specs, images, packs, cubins,
 * compilers' logs, cache files, lists of shapes, sweeps and tensor files: inputs on which one crashed, and kinds of
 * input on which it took time out of proportion. A megabyte of any of them takes less than half a second on a free
 * machine; the bound leaves room for sanitizers and for others on the machine. The PTX reader's are test_cpu_fuzz.c's.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/replay.h"

#include "runtime/cubin.h"

#include <check.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

enum { SECONDS = 5 };

static const struct {
    const char *name;
    fuzz_target *target;
} targets[] = {{"template", fuzz_template}, {"spec", fuzz_spec},
               {"image", fuzz_image},       {"pack", fuzz_pack},
               {"cubin", fuzz_cubin},       {"log", fuzz_log},
               {"cache", fuzz_cache},       {"shapes", fuzz_shapes},
               {"sweep", fuzz_sweep},       {"safetensors", fuzz_safetensors}};

START_TEST(inputs_of_the_fuzzer_are_read_or_refused) {
    replay_files(targets[_i].name, targets[_i].target);
}
END_TEST

#define NVRTC "n.version 8.0\n.target sm_90a\n.address_size 64\n"
#define ENTRY NVRTC ".visible .entry dcpk_k(\n.param .u64 a\n)\n{\n"
#define KERNEL "kernel{grid={1}, block={32}}\n"

static const struct replay_text texts[] = {
    {"lines above the first directive", "n", "\n", NULL, NULL, fuzz_log},
    {"version lines", "n", ".version 8.0\n", NULL, NULL, fuzz_log},
    {"functions without lines", NVRTC, ".func\n", NULL, NULL, fuzz_log},
    {"functions above one far line", NVRTC, ".func\n", NULL, "    .loc 1 2 3\n", fuzz_log},
    {"lines", NVRTC, ".loc 1 2 3, inlined_at 1 4 5\nx\n", NULL, NULL, fuzz_log},
    {"braces of an initialiser", NVRTC ".global .b32 x[] = ", "{", NULL, NULL, fuzz_log},
    {"braces of a function", NVRTC ".func ", "{", NULL, NULL, fuzz_log},
    {"dots", NVRTC, ".", NULL, NULL, fuzz_log},
    {"labels on one line", NVRTC, "a:", NULL, NULL, fuzz_log},
    {"quotes", NVRTC, "\"a;", NULL, NULL, fuzz_log},
    {"branches and labels before the wait", ENTRY, "bra L#;\n", "L#:\n", "griddepcontrol.wait;\nret;\n}\n", fuzz_log},
    {"loads", ENTRY "griddepcontrol.wait;\n", "ld.global.u32 r, [a];", NULL, "\n}\n", fuzz_log},
    {"entries", NVRTC, ".visible .entry dcpk_k(.param .u64 a)\n{\nret;\n}\n", NULL, NULL, fuzz_log},
    {"parameters", NVRTC ".visible .entry dcpk_k(\n", ".param .u64 a,\n", NULL, ")\n{\nret;\n}\n", fuzz_log},
    {"messages about PTX", "p", "ptxas x, line 3; error : y\n", NULL, NULL, fuzz_log},
    {"detail of a message", "cone.cu.lua(5): error: x\n", "  a\n", NULL, NULL, fuzz_log},
    {"remarks", "c", "Remark: \n", NULL, NULL, fuzz_log},
    {"blank lines of a log", "p", " \n", NULL, NULL, fuzz_log},
    {"a word", "", "a", NULL, NULL, fuzz_spec},
    {"blanks", "", " ", NULL, NULL, fuzz_spec},
    {"keys", "k", " batch=1", NULL, NULL, fuzz_spec},
    {"empty PTX lines", "", "|\n", NULL, NULL, fuzz_template},
    {"interpolations", KERNEL, "| $(1)\n", NULL, NULL, fuzz_template},
    {"brackets", "| $(", "[=", NULL, NULL, fuzz_template},
    {"a long comment", "--[==[", "]=", NULL, NULL, fuzz_template},
    {"a string over lines", "local a = '", "\\z ", NULL, NULL, fuzz_template},
    {"parentheses", "local a = ", "(", NULL, NULL, fuzz_template},
    {"tensors", "J{", "\"a#\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},", NULL,
     "\"z\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", fuzz_safetensors},
    {"metadata", "J{\"__metadata__\":{\"format\":\"dcpk-case-1\"", ",\"a#\":\"\"", NULL, "}}", fuzz_safetensors},
    {"dimensions", "J{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1],\"shape\":[1", ",1", NULL, "]}}",
     fuzz_safetensors},
    {"nesting", "J{\"a\":", "[", NULL, NULL, fuzz_safetensors},
};

START_TEST(a_megabyte_of_text_is_read_in_no_time) {
    replay_megabyte(&texts[_i], SECONDS);
}
END_TEST

/* What a few lines of a template write may be megabytes: the checks of it take time in proportion, too. */
static const char *const writers[] = {
    "for i = 1, 300 do\n| .global .b32 x[] = $(('{'):rep(8000))\nend\n" KERNEL,
    KERNEL "for i = 1, 150000 do\n| bra end;\nend\nfor i = 1, 150000 do\n| L:\nend\n| griddepcontrol.wait;\n| end:\n",
    KERNEL "for i = 1, 40000 do\nlocal a = b32('a' .. i)\n| mov.u32 $(a), 1;\nend\n",
};

START_TEST(what_a_template_writes_is_checked_in_no_time) {
    struct timespec before, after;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    fuzz_template((const uint8_t *)writers[_i], strlen(writers[_i]));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    ck_assert_int_lt(after.tv_sec - before.tv_sec, 2 * SECONDS);
}
END_TEST

/* ---- cubins ---- */
enum { ELF_HEADER = 64, SECTION_HEADER = 64, SYMBOL = 24, SECTIONS = 8000, NAMES = 400000, TABLE = 90000 };

static void put(unsigned char *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> (8 * i));
}

static void put_section(unsigned char *elf, unsigned index, uint32_t type, uint64_t offset, uint64_t size) {
    unsigned char *h = elf + ELF_HEADER + index * SECTION_HEADER;
    put(h + 4, type, 4);
    put(h + 24, offset, 8);
    put(h + 32, size, 8);
}

/* Thousands of sections and symbols whose names begin where a long table of names does: one text without an end, or
 * with one at the table's last byte. */
static dcpk_status long_names(bool end, dcpk_error *error) {
    const size_t names = ELF_HEADER + SECTIONS * SECTION_HEADER, table = names + NAMES, length = table + TABLE;
    unsigned char *elf = calloc(1, length);
    ck_assert_ptr_nonnull(elf);
    memcpy(elf, "\177ELF\2\1\1\x41", 8);
    put(elf + 18, 190, 2);
    put(elf + 40, ELF_HEADER, 8);
    put(elf + 48, 90 << 8, 4);
    put(elf + 58, SECTION_HEADER, 2);
    put(elf + 60, SECTIONS, 2);
    put(elf + 62, 1, 2);
    memset(elf + names, 'x', NAMES);
    memcpy(elf + names, ".symtab", 8);
    if (end) elf[names + NAMES - 1] = '\0';
    put_section(elf, 1, 3, names, NAMES);
    put_section(elf, 2, 2, table, TABLE / SYMBOL * SYMBOL);
    put(elf + ELF_HEADER + 2 * SECTION_HEADER + 40, 1, 4); /* the symbols' names are the same table */
    put(elf + ELF_HEADER + 2 * SECTION_HEADER + 56, SYMBOL, 8);
    put_section(elf, 3, 1, table, TABLE);
    for (unsigned i = 3; i < SECTIONS; i++)
        put(elf + ELF_HEADER + i * SECTION_HEADER, 8, 4); /* the name behind ".symtab" */
    put(elf + ELF_HEADER + 1 * SECTION_HEADER, 8, 4);
    for (unsigned i = 0; i < TABLE / SYMBOL; i++) {
        put(elf + table + i * SYMBOL, 8, 4);
        elf[table + i * SYMBOL + 4] = 1 << 4 | 2;
    }
    dcpk_entry_info entries[4];
    memset(entries, 0, sizeof entries);
    for (int i = 0; i < 4; i++)
        strcpy(entries[i].name, "dcpk_k");
    dcpk_status status = cubin_check(elf, length, "sm_90a", entries, 4, error);
    free(elf);
    return status;
}

START_TEST(names_of_a_cubin_that_do_not_end_are_refused) {
    struct timespec before, after;
    dcpk_error error;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    dcpk_error_init(&error);
    ck_assert_int_eq(long_names(false, &error), DCPK_E_BAD_CUBIN);
    ck_assert_msg(strstr(error.text, "has no end") != NULL, "%s", error.text);
    ck_assert_int_eq(long_names(true, &error), DCPK_E_BAD_CUBIN);
    ck_assert_msg(strstr(error.text, "no global function of this name") != NULL, "%s", error.text);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    ck_assert_int_lt(after.tv_sec - before.tv_sec, SECONDS);
}
END_TEST

START_TEST(fuzzing_without_an_end_is_refused_before_anything_is_built) {
    static const char *const wrong[] = {"abc", "0", "", "-1", "1e3", "5 5", "08", "1000000"};
    char line[256];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(line, sizeof line,
                 "env -u MAKEFLAGS -u MAKELEVEL timeout 20 make -s fuzz BUILD=/nonexistent/b FUZZ_SECONDS='%s' 2>&1 | "
                 "grep -q \"no number of seconds\"",
                 wrong[i]);
        ck_assert_msg(system(line) == 0, "%s", line);
    }
    ck_assert_int_eq(system("tests/fuzz/run --check 999999"), 0);
    ck_assert_int_ne(system("tests/fuzz/run /nonexistent/b 0 spec 2>/dev/null"), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fuzz_findings");
    TCase *tcase = tcase_create("findings");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, inputs_of_the_fuzzer_are_read_or_refused, 0, sizeof targets / sizeof *targets);
    tcase_add_loop_test(tcase, a_megabyte_of_text_is_read_in_no_time, 0, sizeof texts / sizeof *texts);
    tcase_add_loop_test(tcase, what_a_template_writes_is_checked_in_no_time, 0, sizeof writers / sizeof *writers);
    tcase_add_test(tcase, names_of_a_cubin_that_do_not_end_are_refused);
    tcase_add_test(tcase, fuzzing_without_an_end_is_refused_before_anything_is_built);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
