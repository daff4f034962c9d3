/* test_exec_command.c - `dcpk exec` as its users meet it: arguments of every kind, what is refused and how it is said.
 */
#include "tests/shell.h"

#include <check.h>

#include <stdlib.h>
#include <string.h>

/* out[i] = in[i] * times + plus of a word, with a sum in doubles; two entries; a function that is called. */
static const char ptx[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n/* .entry commented_out(.param .u32 x) */\n"
    ".func (.param .b32 r) scale(.param .b32 v, .param .b32 by)\n{ .reg .b32 %r<4>; ld.param.u32 %r1, [v];\n"
    "ld.param.u32 %r2, [by]; mul.lo.u32 %r3, %r1, %r2; st.param.b32 [r], %r3; ret; }\n"
    ".visible .entry scaled(\n\t.param .u64 .ptr .align 4 scaled_in,\n\t.param .u64 scaled_out, // second\n"
    "\t.param .u32 scaled_times,\n\t.param .f32 scaled_plus)\n{\n"
    ".reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<6>;\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd1, %r1, 4;\n"
    "ld.param.u64 %rd2, [scaled_in];\nld.param.u64 %rd3, [scaled_out];\nadd.u64 %rd2, %rd2, %rd1;\n"
    "add.u64 %rd3, %rd3, %rd1;\nld.global.u32 %r2, [%rd2];\nld.param.u32 %r3, [scaled_times];\n"
    "{ .param .b32 a; .param .b32 b; .param .b32 c; st.param.b32 [a], %r2; st.param.b32 [b], %r3;\n"
    "call.uni (c), scale, (a, b); ld.param.b32 %r4, [c]; }\nld.param.f32 %f1, [scaled_plus];\n"
    "cvt.rzi.u32.f32 %r5, %f1;\nadd.u32 %r4, %r4, %r5;\nst.global.u32 [%rd3], %r4;\nret;\n}\n"
    ".entry wide(.param .u64 where, .param .u64 whole, .param .f64 number, .param .align 8 .b8 block[24])\n"
    "{ .reg .b64 %rd<4>; ld.param.u64 %rd1, [where]; ld.param.u64 %rd2, [whole]; ld.param.b64 %rd3, [number];\n"
    "st.global.u64 [%rd1], %rd2; st.global.u64 [%rd1+8], %rd3; ret; }\n"
    ".entry polls(.param .u64 flag) { .reg .b64 %rd; .reg .pred %p; .reg .u32 %r; ld.param.u64 %rd, [flag];\n"
    "L: ld.relaxed.sys.global.u32 %r, [%rd]; setp.eq.u32 %p, %r, 0; @%p bra L; ret; }\n"
    /* bool, short, __half, and a struct {u16; u8; u8; u32; u64} by value; each as it stands in a word of the result */
    ".entry narrow(.param .u64 to, .param .u8 flag, .param .s8 small, .param .u16 half, .param .b16 bits,\n"
    ".param .align 8 .b8 whole[16]) { .reg .b64 %rd<3>; .reg .b32 %r<9>; ld.param.u64 %rd1, [to];\n"
    "ld.param.u8 %r1, [flag]; ld.param.s8 %r2, [small]; ld.param.u16 %r3, [half]; ld.param.u16 %r4, [bits];\n"
    "ld.param.u16 %r5, [whole]; ld.param.u8 %r6, [whole+2]; ld.param.u8 %r7, [whole+3];\n"
    "ld.param.u32 %r8, [whole+4]; ld.param.u64 %rd2, [whole+8]; st.global.u32 [%rd1], %r1;\n"
    "st.global.u32 [%rd1+4], %r2; st.global.u32 [%rd1+8], %r3; st.global.u32 [%rd1+12], %r4;\n"
    "st.global.u32 [%rd1+16], %r5; st.global.u32 [%rd1+20], %r6; st.global.u32 [%rd1+24], %r7;\n"
    "st.global.u32 [%rd1+28], %r8; st.global.u64 [%rd1+32], %rd2; ret; }\n"
    ".entry nothing { ret; }\n";

static void setup(void) {
    shell_setup();
    FILE *file = fopen("k.ptx", "w");
    ck_assert_ptr_nonnull(file);
    fputs(ptx, file);
    fclose(file);
    sh("printf '\\001\\0\\0\\0\\002\\0\\0\\0\\003\\0\\0\\0' >in");
    expect_code(0);
}

#define SCALED "k.ptx --entry scaled --block 3 "

START_TEST(numbers_and_files_become_arguments_and_results_files) {
    sh("$dcpk exec " SCALED "--arg in:in --arg out:12:o --arg u32:10 --arg f32:4.75; od -An -tu4 o");
    expect_code(0);
    expect_in(last.out, "scaled on cpu:0");
    expect_in(last.out, "3 x 1 x 1 threads");
    expect_in(last.out, "14         24         34");
    ck_assert_str_eq(last.err, "");
}
END_TEST

START_TEST(a_buffer_may_be_both_and_stdout_may_take_one) {
    sh("cp in both; $dcpk exec " SCALED "-a inout:both -a out:12:- -a u32:0x2 -a f32:1e0 | od -An -tu4; cmp in both");
    expect_code(0);
    ck_assert_str_eq(last.out, "          3          5          7\n");
    sh("cp in both; $dcpk exec " SCALED "-a in:in -a inout:both -a u32:-1 -a f32:0; od -An -td4 both");
    expect_code(0);
    expect_in(last.out, "-1          -2          -3");
}
END_TEST

START_TEST(narrow_parameters_and_structs_by_value_get_what_was_given) {
    sh("$dcpk exec k.ptx --entry narrow --arg out:40:o --arg u8:1 --arg u8:-3 --arg u16:-2 --arg u16:0x3C00 "
       "--arg bytes:0201fE7f04030201efcdab8967452301; od -An -v -tx4 -w40 o");
    expect_code(0);
    expect_in(last.out, " 00000001 fffffffd 0000fffe 00003c00 00000102 000000fe 0000007f 01020304 89abcdef 01234567\n");
    sh("$dcpk exec k.ptx --entry narrow --arg out:40:o --arg bytes:ff --arg u8:255 --arg bytes:0080 --arg u16:65535 "
       "--arg bytes:00000000000000000000000000000000; od -An -v -tx4 -w40 -N16 o"); /* bytes fit anything of their size
                                                                                     */
    expect_code(0);
    expect_in(last.out, " 000000ff ffffffff 00008000 0000ffff\n");
    sh("$dcpk exec k.ptx --entry narrow --arg out:40:o --arg u8:1 --arg u8:1 --arg u16:1 --arg u16:1 --arg bytes:00");
    expect_failure(2, "parameter 6 has 16 bytes, and --arg bytes:00 has 1:");
    expect_in(last.err, ".param .align 8 .b8 whole[16]");
    sh("$dcpk exec k.ptx --entry narrow --arg out:40:o --arg u32:1 --arg u8:1 --arg u16:1 --arg u16:1 --arg bytes:00");
    expect_failure(2, "parameter 2 has 1 bytes, and --arg u32:1 has 4:");
}
END_TEST

START_TEST(an_entry_may_be_left_out_only_where_there_is_one) {
    sh("$dcpk exec k.ptx");
    expect_failure(2, "'k.ptx' has 5 entries:");
    expect_in(last.err, "dcpk:   scaled\ndcpk:   wide\ndcpk:   polls\ndcpk:   narrow\ndcpk:   nothing\n");
    sh("$dcpk exec k.ptx --entry commented_out");
    expect_failure(2, "has no entry 'commented_out'; it has:");
    sh("printf '.version 8.0\\n.target sm_90\\n.address_size 64\\n.entry only { ret; }\\n' >one.ptx; $dcpk exec "
       "one.ptx");
    expect_code(0);
    expect_in(last.out, "only on cpu:0");
    sh("$dcpk exec k.ptx --entry nothing --grid 2,3,4 --block 5,6,7");
    expect_code(0);
    expect_in(last.out, "2 x 3 x 4 CTAs of 5 x 6 x 7 threads");
}
END_TEST

START_TEST(arguments_that_do_not_fit_show_the_parameters_as_declared) {
    sh("$dcpk exec " SCALED "--arg in:in --arg out:12:o --arg u32:10");
    expect_failure(2, "scaled has 4 parameters, and 3 arguments are given:");
    expect_in(last.err, "1  .param .u64 .ptr .align 4 scaled_in ");
    expect_in(last.err, "4  .param .f32 scaled_plus ");
    expect_in(last.err, "(not given)");
    sh("$dcpk exec " SCALED "--arg in:in --arg out:12:o --arg u32:10 --arg f32:1 --arg u64:5");
    expect_failure(2, "5 arguments");
    expect_in(last.err, "(none)");
    sh("$dcpk exec " SCALED "--arg in:in --arg out:12:o --arg u64:10 --arg f32:1");
    expect_failure(2, "parameter 3 has 4 bytes, and --arg u64:10 has 8");
    sh("$dcpk exec k.ptx --entry wide --arg out:16:o --arg u64:1 --arg f64:1 --arg u64:1");
    expect_failure(2, "parameter 4 has 24 bytes");
}
END_TEST

START_TEST(words_that_cannot_be_read_are_code_2) {
    static const char *const lines[][2] = {
        {"", "one PTX file is expected"},
        {"k.ptx one.ptx", "one PTX file is expected"},
        {"k.ptx --grid 0", "--grid 0"},
        {"k.ptx --grid 1,2,3,4", "X, X,Y or X,Y,Z"},
        {"k.ptx --grid 2147483648", "each at least 1, at most 2147483647,65535,65535"},
        {"k.ptx --grid 1,65536", "each at least 1, at most 2147483647,65535,65535"},
        {"k.ptx --block 1025", "at most 1024,1024,64, and 1024 threads in all"},
        {"k.ptx --block 1,1,65", "at most 1024,1024,64, and 1024 threads in all"},
        {"k.ptx --block 32,33", "at most 1024,1024,64, and 1024 threads in all"},
        {"k.ptx --shared 99999999999", "a number of bytes, at most 2147483647"},
        {"k.ptx --block 1,", "--block 1,"},
        {"k.ptx --shared x", "a number of bytes"},
        {"k.ptx --timeout 0", "seconds"},
        {"k.ptx --device moon", "moon"},
        {SCALED "--arg u32", "one of u8:N u16:N u32:N u64:N f32:X f64:X bytes:HEX in:FILE out:BYTES:FILE inout:FILE"},
        {SCALED "--arg v32:1", "one of u8:N u16:N"},
        {SCALED "--arg u8:256", "u8:N is expected, a number that fits"},
        {SCALED "--arg u8:-129", "a number that fits"},
        {SCALED "--arg u16:65536", "u16:N is expected, a number that fits"},
        {SCALED "--arg u16:-32769", "a number that fits"},
        {SCALED "--arg bytes:", "bytes:HEX is expected, two hexadecimal digits a byte"},
        {SCALED "--arg bytes:123", "two hexadecimal digits a byte"},
        {SCALED "--arg bytes:0x12", "two hexadecimal digits a byte"},
        {SCALED "--arg u32:4294967296", "a number that fits"},
        {SCALED "--arg u32:-2147483649", "a number that fits"},
        {SCALED "--arg u64:18446744073709551616", "a number that fits"},
        {SCALED "--arg u32:", "a number that fits"},
        {SCALED "--arg u32:1.5", "a number that fits"},
        {SCALED "--arg f32:x", "a number that fits"},
        {SCALED "--arg f32:1e39", "a number that fits"},
        {SCALED "--arg out:o", "out:BYTES:FILE is expected"},
        {SCALED "--arg out:0:o", "1 to 1099511627776 bytes"},
        {SCALED "--arg in:", "in:FILE is expected"},
        {SCALED "--arg out:4:o --arg out:4:o", "is written by another argument"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        sh("$dcpk exec %s", lines[i][0]);
        expect_failure(2, lines[i][1]);
        ck_assert_str_eq(last.out, "");
    }
}
END_TEST

START_TEST(files_that_cannot_be_read_or_written_are_said_before_anything_runs) {
    sh("$dcpk exec nosuch.ptx");
    expect_failure(1, "cannot read 'nosuch.ptx': No such file");
    sh("$dcpk exec in");
    expect_failure(1, "'in' is no PTX");
    sh("$dcpk exec " SCALED "--arg in:nosuch --arg out:12:o --arg u32:1 --arg f32:1");
    expect_failure(1, "--arg in:nosuch: cannot read 'nosuch': No such file");
    sh("$dcpk exec " SCALED "--arg in:in --arg out:12:no/o --arg u32:1 --arg f32:1");
    expect_failure(1, "cannot write 'no/o': No such file");
    sh("mkdir d; $dcpk exec " SCALED "--arg in:in --arg out:12:d --arg u32:1 --arg f32:1");
    expect_failure(1, "cannot write 'd': Is a directory");
    ck_assert(!shell_exists("o"));
}
END_TEST

/* Each within its time: nothing is read without end, and nothing is waited for. */
START_TEST(only_regular_files_of_a_bounded_size_are_read) {
    static const char *const kinds[] = {"in", "inout"};
    sh("mkfifo pipe; truncate -s 4T vast; truncate -s 2G vast.ptx");
    expect_code(0);
    for (size_t i = 0; i < 2; i++) {
        sh("timeout 10 $dcpk exec k.ptx --entry polls --arg %s:/dev/full", kinds[i]);
        expect_failure(1, "cannot read '/dev/full': it is a device, and only regular files are read: put its bytes");
        sh("timeout 10 $dcpk exec k.ptx --entry polls --arg %s:pipe", kinds[i]);
        expect_failure(1, "cannot read 'pipe': it is a pipe, and only regular files are read");
        sh("timeout 10 $dcpk exec k.ptx --entry polls --arg %s:vast", kinds[i]);
        expect_failure(1, "cannot read 'vast': it has 4398046511104 bytes, and ");
        expect_in(last.err, "are the most that are read here");
        sh("timeout 10 $dcpk exec k.ptx --entry polls --arg %s:.", kinds[i]);
        expect_failure(1, "cannot read '.': Is a directory");
    }
    sh("timeout 10 $dcpk exec /dev/zero");
    expect_failure(1, "cannot read '/dev/zero': it is a device");
    sh("timeout 10 $dcpk exec pipe");
    expect_failure(1, "cannot read 'pipe': it is a pipe");
    sh("timeout 10 $dcpk exec vast.ptx");
    expect_failure(1, "cannot read 'vast.ptx': it has 2147483648 bytes, and 1073741824 are the most");
    sh("timeout 10 $dcpk exec .");
    expect_failure(1, "cannot read '.': Is a directory");
}
END_TEST

START_TEST(a_byte_that_no_text_has_is_said_with_its_line) {
    sh("(cat k.ptx; printf '// \\0 more\\n') >zero.ptx; $dcpk exec zero.ptx --entry nothing; wc -l <k.ptx");
    expect_code(0);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "'zero.ptx', line %d, byte 4 of it", atoi(last.out) + 1);
    expect_in(last.err, wanted);
    expect_in(last.err, "0x00 is no character of a text");
    sh("(cat k.ptx; printf '\\001') >one.ptx; $dcpk exec one.ptx --entry nothing");
    expect_failure(1, "byte 1 of it");
    sh("(cat k.ptx; printf '// \\303\\251\\t\\r\\n') >letters.ptx; $dcpk exec letters.ptx --entry nothing");
    expect_failure(1, "byte 0xC3 is not PTX: only ASCII is");
}
END_TEST

START_TEST(a_kernel_that_writes_an_input_is_reported_by_the_memory_checker) {
    sh("DCPK_CPU_CHECK=1 $dcpk exec " SCALED "-a in:in -a in:in -a u32:1 -a f32:1");
    expect_failure(1, "write to a const input: 4 bytes");
    expect_in(last.err, "PTX line 28");
    sh("cp in both; DCPK_CPU_CHECK=1 $dcpk exec " SCALED "-a in:in -a inout:both -a u32:1 -a f32:1");
    expect_code(0);
    sh("DCPK_CPU_CHECK=0 $dcpk exec " SCALED "-a in:in -a in:in -a u32:1 -a f32:1");
    expect_code(0);
}
END_TEST

START_TEST(what_the_device_refuses_is_said_with_the_line_of_the_ptx) {
    sh("$dcpk exec " SCALED "--arg in:in --arg out:8:o --arg u32:1 --arg f32:1");
    expect_failure(1, "PTX line 28");
    expect_in(last.err, "0 bytes past the end of allocation");
    expect_in(last.err, "thread (2,0,0) of block (0,0,0)");
    ck_assert(!shell_exists("o")); /* nothing of it is written */
    sh("sed 's/mul.lo.u32/mul.sideways.u32/' k.ptx >bad.ptx; $dcpk exec bad.ptx --entry nothing");
    expect_failure(1, "PTX line 7: `mul.sideways.u32 %r3, %r1, %r2;`");
    sh("sed 's/call.uni (c), scale/call.uni (c), printf/' k.ptx >bad.ptx; $dcpk exec bad.ptx --entry nothing");
    expect_failure(1, "PTX line 24");
    expect_in(last.err, "function `printf` has no body in this PTX");
    sh("printf '\\0\\0\\0\\0' >flag; $dcpk exec k.ptx --entry polls --arg in:flag");
    expect_failure(1, "polls");
    sh("$dcpk exec k.ptx --entry nothing --shared 232449"); /* an H200's CTA has 227 KiB */
    expect_failure(1, "232449 bytes of dynamic shared memory; a CTA has at most 232448 bytes");
    sh("$dcpk exec k.ptx --entry nothing --grid 65536,32768"); /* 2^31 */
    expect_failure(1, "; the CPU device runs at most 2147483647 CTAs a grid");
    sh("$dcpk exec k.ptx --entry nothing --shared 232448");
    expect_code(0);
    sh("sed 's/[.]entry nothing {/& .shared .b8 own[200000];/' k.ptx >own.ptx; $dcpk exec own.ptx --entry nothing "
       "--shared 40000");
    expect_failure(1, "40000 bytes of dynamic shared memory; a CTA has at most 232448 bytes, the kernel's own among");
}
END_TEST

START_TEST(a_kernel_that_is_not_done_in_time_is_given_up) {
    sh("printf '.version 8.0\\n.target sm_90\\n.address_size 64\\n.entry long(.param .u64 p) { .reg .b64 %%%%rd<3>; "
       "ld.param.u64 %%%%rd1, [p]; mov.u64 %%%%rd2, 0; L: add.u64 %%%%rd2, %%%%rd2, 1; st.volatile.global.u64 "
       "[%%%%rd1], %%%%rd2; "
       "bra L; }\\n' >long.ptx; $dcpk exec long.ptx --timeout 1 --arg out:8:o");
    expect_failure(1, "not done within --timeout");
}
END_TEST

START_TEST(a_variable_of_the_cpu_device_that_is_no_value_is_named_with_its_values) {
    sh("DCPK_CPU_CHECK=2 $dcpk exec k.ptx --entry nothing");
    expect_failure(2, "DCPK_CPU_CHECK=2: 0 or 1");
    sh("DCPK_CPU_CHECK=yes $dcpk exec k.ptx --entry nothing");
    expect_failure(2, "DCPK_CPU_CHECK=yes: 0 or 1");
    sh("DCPK_CPU_CHECK= $dcpk exec k.ptx --entry nothing");
    expect_code(0);
}
END_TEST

START_TEST(a_device_is_named_by_option_or_environment) {
    sh("$dcpk exec k.ptx --entry nothing --device cpu:99");
    expect_failure(2, "8 devices here");
    sh("DCPK_DEVICE=cpu:1 $dcpk exec k.ptx --entry nothing");
    expect_code(0);
    expect_in(last.out, "nothing on cpu:1");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("exec_command");
    TCase *tcase = tcase_create("exec");
    tcase_add_checked_fixture(tcase, setup, shell_teardown);
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, numbers_and_files_become_arguments_and_results_files);
    tcase_add_test(tcase, a_buffer_may_be_both_and_stdout_may_take_one);
    tcase_add_test(tcase, narrow_parameters_and_structs_by_value_get_what_was_given);
    tcase_add_test(tcase, an_entry_may_be_left_out_only_where_there_is_one);
    tcase_add_test(tcase, arguments_that_do_not_fit_show_the_parameters_as_declared);
    tcase_add_test(tcase, words_that_cannot_be_read_are_code_2);
    tcase_add_test(tcase, files_that_cannot_be_read_or_written_are_said_before_anything_runs);
    tcase_add_test(tcase, only_regular_files_of_a_bounded_size_are_read);
    tcase_add_test(tcase, a_byte_that_no_text_has_is_said_with_its_line);
    tcase_add_test(tcase, a_kernel_that_writes_an_input_is_reported_by_the_memory_checker);
    tcase_add_test(tcase, what_the_device_refuses_is_said_with_the_line_of_the_ptx);
    tcase_add_test(tcase, a_kernel_that_is_not_done_in_time_is_given_up);
    tcase_add_test(tcase, a_variable_of_the_cpu_device_that_is_no_value_is_named_with_its_values);
    tcase_add_test(tcase, a_device_is_named_by_option_or_environment);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
