/* test_cpu_fuzz.c - what fuzzing found in the PTX reader, or might have: inputs on which it crashed, and kinds of text
 * on which it took time or memory out of proportion. A megabyte of any of them takes less than half a second on a free
 * machine; the bound leaves room for sanitizers and for others on the machine. */
#include "runtime/cpu/driver.h"
#include "tests/cpu_snippet.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/replay.h"

enum { SECONDS = 5 };

#define HEAD ".version 8.0\n.target sm_90a\n.address_size 64\n.global .b8 g[64];\n"
#define ENTRY HEAD ".visible .entry f()\n{\n.reg .pred p; .reg .b32 r; .reg .b64 d; .reg .f32 x;\n"

START_TEST(ptx_inputs_of_the_fuzzer_are_read_or_refused) {
    replay_files("ptx", fuzz_ptx);
}
END_TEST

static const struct replay_text texts[] = {
    {"choices within choices", HEAD ".global .b8 a[", "1?", NULL, NULL, fuzz_ptx},
    {"choices one after the other", HEAD ".global .b8 a[", "1?1:", NULL, "1];", fuzz_ptx},
    {"signs", HEAD ".global .b8 a[", "-", NULL, "1];", fuzz_ptx},
    {"parentheses", HEAD ".global .b8 a[", "(", NULL, NULL, fuzz_ptx},
    {"sums", HEAD ".global .b8 a[1", "+1", NULL, "];", fuzz_ptx},
    {"braces", ENTRY, "{", NULL, NULL, fuzz_ptx},
    {"braces of an initialiser", HEAD ".global .b8 a[] = ", "{", NULL, NULL, fuzz_ptx},
    {"elements", HEAD ".global .b8 a[] = {", "1,", NULL, "1};", fuzz_ptx},
    {"labels used before they are seen", ENTRY, "@p bra L#;", "L#:", "ret; }", fuzz_ptx},
    {"labels of scopes within", ENTRY "{{{{{{{{", "@p bra L#;", NULL, "}}}}}}}} ret; }", fuzz_ptx},
    {"scopes", ENTRY, "{ .reg .b32 a; @p bra end; }", NULL, "end: ret; }", fuzz_ptx},
    {"registers", ENTRY, ".reg .b32 a#; mov.u32 a#, 1;", NULL, "ret; }", fuzz_ptx},
    {"registers that live together", ENTRY, ".reg .b64 a#; mov.u64 a#, 1;", "mov.u64 d, a#;", "ret; }", fuzz_ptx},
    {"registers and blocks", ENTRY, ".reg .b32 a#; mov.u32 a#, 1; @p bra end;", NULL, "end: ret; }", fuzz_ptx},
    {"a chain of jumps backward", ENTRY "Lx: ret;", "L#: @p bra L#b; bra Lx; L#b:", NULL, "ret; }", fuzz_ptx},
    {"many branches to many targets", ENTRY "t: .branchtargets end", ", L#", "L#: @p brx.idx r, t;", "; end: ret; }",
     fuzz_ptx},
    {"addresses of variables", ENTRY, "mov.u64 d, g+#;", NULL, "ret; }", fuzz_ptx},
    {"constants", ENTRY, "mov.u32 r, 7#;", NULL, "ret; }", fuzz_ptx},
    {"instructions", ENTRY, "ret;", NULL, "}", fuzz_ptx},
    {"modifiers", ENTRY "add", ".rn", NULL, ".f32 x, x, x; }", fuzz_ptx},
    {"operands", ENTRY "add.f32 x", ", x", NULL, "; }", fuzz_ptx},
    {"elements of a vector", ENTRY "mov.b64 d, {r", ", r", NULL, "}; }", fuzz_ptx},
    {"entries", HEAD, ".entry e#() { ret; }", NULL, NULL, fuzz_ptx},
    {"variables", HEAD, ".global .b8 v#;", NULL, NULL, fuzz_ptx},
    {"shared variables", ENTRY, ".shared .b8 v#;", NULL, "ret; }", fuzz_ptx},
    {"comments", HEAD, "/*/", NULL, NULL, fuzz_ptx},
    {"a number", HEAD ".global .f64 a = 1.", "0", NULL, ";", fuzz_ptx},
    {"a name", ENTRY "mov.u32 ", "a1", NULL, ", 1; }", fuzz_ptx},
};

START_TEST(a_megabyte_of_ptx_is_read_in_no_time) {
    replay_megabyte(&texts[_i], SECONDS);
}
END_TEST

/* What a variable holds beyond its initialiser takes no memory while it is read. */
START_TEST(an_initialiser_takes_the_memory_of_its_text) {
    static const char text[] = HEAD ".global .b8 a[1099511627776] = {1, 2};";
    char message[200];
    struct ptx_module *module = ptx_load(text, NULL, message, sizeof message);
    ck_assert_msg(module != NULL, "%s", message);
    const struct ptx_variable *variable = ptx_variable_at(module, 1);
    ck_assert_uint_eq(variable->bytes, 1ull << 40);
    ck_assert_uint_eq(variable->initial_bytes, 2);
    ck_assert_mem_eq(variable->initial, "\1\2", 2);
    ptx_free(module);
}
END_TEST

/* The rest of an initialised variable is zeros, in the memory that it gets. */
START_TEST(variables_are_zeros_behind_their_initialiser) {
    static const char text[] = HEAD ".global .b8 a[9] = {1, 2}; .visible .entry f() { ret; }";
    unsigned char bytes[9];
    cu_library library = NULL;
    cu_ptr address = 0;
    size_t size = 0;
    machine_with(fair(1, 1));
    OK(cpu_library_load(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    OK(cpu_library_get_global(&address, &size, library, "a"));
    ck_assert_uint_eq(size, sizeof bytes);
    OK(cpu_copy_to_host(bytes, address, sizeof bytes));
    ck_assert_mem_eq(bytes, "\1\2\0\0\0\0\0\0\0", sizeof bytes);
    OK(cpu_library_unload(library));
}
END_TEST

/* More registers times blocks than liveness is worked out for: r# = # in a block of its own, summed up afterwards. */
START_TEST(a_function_too_large_for_liveness_runs_right) {
    enum { COUNT = 13000, ROOM = 160 * COUNT };
    char *text = malloc(ROOM);
    size_t used = (size_t)snprintf(text, ROOM, "%s", "mov.u32 d, 0; setp.ne.u32 p, d, 0;\n");
    for (unsigned i = 0; i < COUNT; i++)
        used += (size_t)snprintf(text + used, ROOM - used, ".reg .b32 r%u; mov.u32 r%u, %u; @p bra L%u; L%u:\n", i, i,
                                 i, i, i);
    for (unsigned i = 0; i < COUNT; i++)
        used += (size_t)snprintf(text + used, ROOM - used, "add.u32 d, d, r%u;\n", i);
    ck_assert_uint_lt(used, ROOM);
    struct snippet_in in = {0};
    struct snippet_out out;
    machine_with(fair(1, 1));
    evaluate(text, 'w', &in, &out, 1);
    ck_assert_uint_eq(out.d, COUNT * (COUNT - 1ull) / 2);
    free(text);
}
END_TEST

/* An image whose cubin names the bytes of a section that has none in the file. */
START_TEST(a_section_without_bytes_is_not_read) {
    unsigned char elf[64 + 4 * 64 + 64] = "\177ELF\2\1\1";
    const uint64_t names = 64 + 4 * 64;
    memcpy(elf + names, "\0.nv.info\0.symtab\0.shstrtab", 28);
    const struct {
        uint8_t name, type;
        uint64_t offset, bytes;
    } sections[] = {{0, 0, 0, 0}, {1, 8, 1ull << 46, 1 << 20}, {10, 8, 1ull << 46, 1 << 20}, {18, 3, names, 28}};
    elf[40] = 64;                           /* where the sections' table is */
    elf[58] = 64, elf[60] = 4, elf[62] = 3; /* one header's bytes; how many; which holds the names */
    for (size_t i = 0; i < 4; i++) {
        unsigned char *h = elf + 64 + i * 64;
        h[0] = sections[i].name, h[4] = sections[i].type, h[40] = 3;
        memcpy(h + 24, &sections[i].offset, 8);
        memcpy(h + 32, &sections[i].bytes, 8);
    }
    ck_assert_uint_eq(cubin_registers(elf, sizeof elf, "f"), 0);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_fuzz");
    TCase *tcase = tcase_create("PTX");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, ptx_inputs_of_the_fuzzer_are_read_or_refused);
    tcase_add_loop_test(tcase, a_megabyte_of_ptx_is_read_in_no_time, 0, sizeof texts / sizeof *texts);
    tcase_add_test(tcase, an_initialiser_takes_the_memory_of_its_text);
    tcase_add_test(tcase, variables_are_zeros_behind_their_initialiser);
    tcase_add_test(tcase, a_function_too_large_for_liveness_runs_right);
    tcase_add_test(tcase, a_section_without_bytes_is_not_read);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
