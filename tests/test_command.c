/* test_command.c - the command as its users meet it: words, exit codes, messages, streams and files.
 *
 * Knows nothing of the libraries' insides; tables it compares with come from include/dcpk/. */
#include "tests/shell.h"

#include <check.h>

#include <stdlib.h>
#include <string.h>

#define VALUE "dcp_value heads=2 dcp=2 batch=1"

/* ---- words and exit codes ----------------------------------------------------------------------- */

START_TEST(help_and_version_go_to_stdout_with_code_0) {
    sh("$dcpk --version");
    expect_code(0);
    ck_assert_str_eq(last.out, "dcpk 0.1.0\n");
    sh("$dcpk --help");
    expect_code(0);
    static const char *const commands[] = {"ls", "gen", "build", "run", "replay", "explain", "cache"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        sh("$dcpk --help");
        expect_in(last.out, commands[i]);
        sh("$dcpk %s --help", commands[i]);
        expect_code(0);
        expect_in(last.out, "usage: dcpk ");
        expect_in(last.out, commands[i]);
        ck_assert_str_eq(last.err, "");
        sh("$dcpk %s --help >own; $dcpk help %s | cmp - own", commands[i], commands[i]);
        expect_code(0);
    }
}
END_TEST

START_TEST(a_command_line_that_cannot_be_read_is_code_2) {
    static const char *const lines[] = {"",
                                        "nosuch",
                                        "help nosuch",
                                        "gen",
                                        "gen Bad-Name heads=1 batch=1",
                                        "gen nosuchkernel heads=1 batch=1",
                                        "gen dcp_value headz=2 dcp=2 batch=1",
                                        "gen dcp_value heads=two dcp=2 batch=1",
                                        "gen dcp_value heads=2 heads=2 dcp=2 batch=1",
                                        "gen query_norm dcp=2 heads=1 batch=1",
                                        "gen --nosuch " VALUE,
                                        "gen " VALUE " -o",
                                        "gen dcp_value model=nosuch tp=8 dcp=2 batch=1",
                                        "gen dcp_value heads=2 tp=8 dcp=2 batch=1",
                                        "build --json=3 " VALUE,
                                        "ls nosuch",
                                        "cache",
                                        "cache nosuch",
                                        "cache extract",
                                        "cache extract 0123",
                                        "run --seed x",
                                        "run --uses 0",
                                        "run --schedule sideways",
                                        "run --inject=nosuch",
                                        "run batch=1,,x",
                                        "run batch=1,",
                                        "run batch=1,,2",
                                        "run batch=",
                                        "run batch=1 batch=2",
                                        "run heads=2 batch=1 heads=2",
                                        "run model=kimi-k3 tp=8 model=kimi-k3",
                                        "run model=kimi-k3 tp=8 tp=8",
                                        "gen dcp_value model=kimi-k3 model=kimi-k3 tp=8 dcp=2 batch=1",
                                        "gen dcp_value heads=2 dcp=2",
                                        "gen dcp_value dcp=2 batch=1",
                                        "run -d foo",
                                        "run -d cpu:x",
                                        "run --seed 0x10",
                                        "run --seed ' 1'",
                                        "run lineinfo",
                                        "run context=",
                                        "run context=1,,2",
                                        "run context=1 context=2",
                                        "run context=1048577",
                                        "run context=1,2 batch=1",
                                        "run steps=0",
                                        "run steps=1 steps=2",
                                        "run seed=-1",
                                        "run --seed 1 seed=2",
                                        "run --form other",
                                        "run store_qc=1",
                                        "replay",
                                        "replay one two",
                                        "replay /nonexistent/case"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        sh("$dcpk %s", lines[i]);
        ck_assert_msg(last.code == 2, "'%s': exit code %d\n%s", lines[i], last.code, last.err);
        ck_assert_msg(last.err[0] != '\0' && last.out_length == 0, "'%s': out '%s', err '%s'", lines[i], last.out,
                      last.err);
    }
}
END_TEST

START_TEST(a_spec_that_a_rule_refuses_is_code_2_and_states_the_rule) {
    static const char *const commands[] = {"gen dcp_value", "build dcp_value", "explain dcp_value", "run"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        sh("$dcpk %s heads=128 dcp=16 batch=1", commands[i]);
        expect_failure(2, "dcp * heads * q must be at most 1024");
        expect_in(last.err, "DCPK_E_SPEC");
        sh("$dcpk %s heads=2 dcp=2 batch=5 cap=4", commands[i]);
        expect_failure(2, "cap must be at least batch");
        sh("$dcpk %s heads=2 dcp=2 batch=5 q=2", commands[i]);
        expect_failure(2, "q must divide");
    }
    sh("$dcpk build query_wait heads=2 dcp=1 batch=1");
    expect_failure(2, "dcp=1");
    sh("$dcpk gen dcp_value heads=2 dcp=2");
    expect_failure(2, "batch is required");
    sh("$dcpk gen dcp_value arch=sm_12 heads=2 dcp=2 batch=1");
    expect_failure(2, "sm_90a");
}
END_TEST

START_TEST(dcp_divides_tp_in_every_command) {
    static const char *const commands[] = {"gen dcp_value", "build dcp_value", "explain dcp_value", "run"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        sh("$dcpk %s model=kimi-k3 tp=8 dcp=3 batch=1", commands[i]);
        expect_failure(2, "dcp must divide tp");
        expect_in(last.err, "tp=8 dcp=3");
        sh("$dcpk %s model=kimi-k3 dcp=2 tp=1 batch=1", commands[i]);
        expect_failure(2, "dcp must divide tp");
        sh("$dcpk %s model=kimi-k3 tp=7 dcp=7 batch=1", commands[i]);
        expect_failure(2, "does not divide");
    }
    sh("$dcpk run dcp=3 batch=1"); /* the preset is run's own: it says where it comes from */
    expect_failure(2, "dcp must divide tp");
    expect_in(last.err, "neither heads= nor model=");
    sh("$dcpk run --inject=gate model=kimi-k2 tp=8 batch=1"); /* gate=0 may come from a preset, too */
    expect_failure(2, "--inject=gate: with gate=0");
    sh("$dcpk gen dcp_value model=kimi-k3 tp=8 dcp=8 batch=1 && $dcpk gen query_norm model=kimi-k3 tp=8 batch=1");
    expect_code(0);
    sh("$dcpk gen dcp_value heads=12 dcp=3 batch=1"); /* no preset: no tp to divide */
    expect_code(0);
}
END_TEST

START_TEST(a_word_given_twice_is_named) {
    static const char *const lines[][2] = {{"run batch=1 batch=2", "batch"},
                                           {"run dcp=2 dcp=2", "dcp"},
                                           {"run model=kimi-k3 model=kimi-k3", "model"},
                                           {"run model=kimi-k3 tp=8 tp=8", "tp"},
                                           {"run arch=sm_90a arch=sm_90a", "arch"},
                                           {"gen dcp_value model=kimi-k3 tp=8 tp=4 dcp=2 batch=1", "tp"},
                                           {"gen dcp_value heads=2 dcp=2 batch=1 batch=1", "batch"}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s is set twice", lines[i][1]);
        sh("$dcpk %s", lines[i][0]);
        expect_failure(2, text);
    }
}
END_TEST

START_TEST(run_lists_the_words_that_it_takes) {
    static const char *const takes[] = {" heads",   " dcp",   " batch", " lineinfo", " page", " rope", " splits",
                                        " context", " steps", " seed",  " model",    " tp",   " arch"};
    sh("$dcpk run foo=1");
    expect_failure(2, "; keys: ");
    const char *list = strstr(last.err, "; keys: ");
    for (size_t i = 0; i < sizeof takes / sizeof takes[0]; i++)
        expect_in(list, takes[i]);
}
END_TEST

START_TEST(a_variable_of_no_sane_value_is_named_with_value_and_range) {
    static const char *const rows[][3] = {{"DCPK_CPU_SEED", "x", "0 to 18446744073709551615"},
                                          {"DCPK_CPU_SEED", "-1", "0 to 18446744073709551615"},
                                          {"DCPK_CPU_SEED", "18446744073709551616", "0 to 18446744073709551615"},
                                          {"DCPK_CPU_DEVICES", "0", "1 to 32"},
                                          {"DCPK_CPU_DEVICES", "33", "1 to 32"},
                                          {"DCPK_CPU_DEVICES", "2x", "1 to 32"},
                                          {"DCPK_CPU_SMS", "x", "1 to 1024"},
                                          {"DCPK_CPU_SMS", "0", "1 to 1024"},
                                          {"DCPK_CPU_SMS", "1025", "1 to 1024"},
                                          {"DCPK_CPU_CAPABILITY", "9", "a compute capability such as 9.0"},
                                          {"DCPK_CPU_CAPABILITY", "0.9", "a compute capability such as 9.0"},
                                          {"DCPK_CPU_CAPABILITY", "9.0a", "a compute capability such as 9.0"},
                                          {"DCPK_LOG", "foo", "error, warning, info or debug"},
                                          {"DCPK_MULTICAST", "2", "1 or 0"},
                                          {"DCPK_PDL", "yes", "1 or 0"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[128];
        snprintf(text, sizeof text, "%s=%s: ", rows[i][0], rows[i][1]);
        sh("%s=%s $dcpk run heads=1 batch=1", rows[i][0], rows[i][1]);
        expect_failure(2, text);
        expect_in(last.err, rows[i][2]);
        ck_assert_str_eq(last.out, "");
    }
    sh("DCPK_DEVICE=foo $dcpk run heads=1 batch=1");
    expect_failure(2, "DCPK_DEVICE");
    expect_in(last.err, "auto, cpu or cuda");
    sh("DCPK_LOG=foo $dcpk ls");
    expect_failure(2, "DCPK_LOG=foo");
}
END_TEST

START_TEST(too_few_devices_are_counted_against_the_ranks) {
    sh("$dcpk run -d cpu:0 heads=1 dcp=2 batch=1");
    expect_failure(2, "dcp=2 is 2 ranks");
    expect_in(last.err, "offers 1");
    expect_in(last.err, "cpu:0,1");
    sh("DCPK_CPU_DEVICES=1 $dcpk run heads=1 dcp=2 batch=1");
    expect_failure(2, "DCPK_CPU_DEVICES=1");
    expect_in(last.err, "dcp=2");
}
END_TEST

START_TEST(a_fault_in_an_input_that_is_not_read_is_refused) {
    sh("$dcpk run --inject=gate heads=1 gate=0 batch=1");
    expect_failure(2, "--inject=gate: with gate=0");
}
END_TEST

START_TEST(a_message_cannot_drive_the_terminal) {
    sh("$dcpk gen dcp_value \"$(printf '\\033[31mheads\\007=1')\"");
    expect_code(2);
    ck_assert_ptr_null(strchr(last.err, '\033'));
    ck_assert_ptr_null(strchr(last.err, '\007'));
    sh("CLICOLOR_FORCE=1 FORCE_COLOR=1 $dcpk ls");
    ck_assert_ptr_null(strchr(last.out, '\033'));
}
END_TEST

/* ---- streams and files -------------------------------------------------------------------------- */

START_TEST(output_that_cannot_be_written_is_code_1) {
    static const char *const commands[] = {"ls", ("gen " VALUE), "--help", "--version", "gen --help"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        sh("$dcpk %s >/dev/full", commands[i]);
        expect_failure(1, "cannot write the output: No space left on device");
        sh("$dcpk %s >&-", commands[i]);
        expect_failure(1, "cannot write the output: ");
        sh("{ sleep 0.1; $dcpk %s; echo $? >code; } | true; sleep 0.3; cat code", commands[i]);
        ck_assert_str_eq(last.out, "1\n");
        ck_assert_str_eq(last.err, ""); /* the reader has what it wanted: the code alone says it */
    }
}
END_TEST

START_TEST(a_file_is_written_whole_or_not_at_all) {
    sh("$dcpk gen " VALUE);
    expect_code(0);
    char *ptx = strdup(last.out);
    ck_assert_uint_gt(strlen(ptx), 4096);
    sh("$dcpk gen " VALUE " -o new.ptx && cat new.ptx");
    expect_code(0);
    ck_assert_str_eq(last.out, ptx);
    sh("printf old >kept; chmod 640 kept; (ulimit -f 1; $dcpk gen " VALUE " -o kept); echo $?; cat kept; ls -A");
    ck_assert_msg(strncmp(last.out, "1\nold", 5) == 0, "%s", last.out);
    expect_in(last.err, "cannot write 'kept'");
    ck_assert_ptr_null(strstr(last.out, "kept."));
    sh("$dcpk gen " VALUE " -o kept && stat -c %%a kept && cat kept");
    expect_code(0);
    ck_assert_str_eq(last.out + 4, ptx);
    ck_assert_int_eq(strncmp(last.out, "640\n", 4), 0);
    sh("ln -s kept link; printf x >kept; $dcpk gen " VALUE " -o link && test -L link && cat kept");
    expect_code(0);
    ck_assert_str_eq(last.out, ptx);
    sh("$dcpk gen " VALUE " -o nowhere/new.ptx");
    expect_failure(1, "nowhere/new.ptx");
    sh("$dcpk gen " VALUE " -o /dev/full");
    expect_failure(1, "/dev/full");
    sh("$dcpk gen " VALUE " -o .");
    expect_failure(1, "directory");
    sh("$dcpk gen " VALUE " -o -");
    ck_assert_str_eq(last.out, ptx);
    free(ptx);
}
END_TEST

START_TEST(gen_prints_the_same_bytes_everywhere) {
    sh("$dcpk gen dcp_value heads=12 dcp=2 batch=17");
    expect_code(0);
    char *ptx = strdup(last.out);
    expect_in(ptx, ".visible .entry dcpk_dcp_value");
    sh("cd / && $dcpk gen dcp_value heads=12 dcp=2 batch=17");
    ck_assert_str_eq(last.out, ptx);
    sh("LC_ALL=de_DE.UTF-8 LANG=tr_TR.UTF-8 TZ=Asia/Tokyo $dcpk gen dcp_value heads=12 dcp=2 batch=17");
    ck_assert_str_eq(last.out, ptx);
    sh("env -i DCPK_CACHE_DIR=other $dcpk gen dcp_value batch=17 dcp=2 heads=12 q=1");
    ck_assert_str_eq(last.out, ptx);
    for (int i = 0; i < 8; i++) { /* address-space layout differs each time */
        sh("$dcpk gen dcp_value heads=12 dcp=2 batch=17");
        ck_assert_str_eq(last.out, ptx);
    }
    ck_assert_msg(!shell_exists("cache") && !shell_exists("other"), "gen made a cache folder");
    free(ptx);
}
END_TEST

START_TEST(a_model_stands_for_its_keys) {
    sh("$dcpk gen dcp_value heads=12 dcp=2 batch=5 gate=1");
    expect_code(0);
    char *ptx = strdup(last.out);
    sh("$dcpk gen dcp_value model=kimi-k3 tp=8 dcp=2 batch=5");
    expect_code(0);
    ck_assert_str_eq(last.out, ptx);
    free(ptx);
}
END_TEST

/* ---- ls ----------------------------------------------------------------------------------------- */

START_TEST(ls_names_every_kernel_key_and_domain_of_the_tables) {
    sh("$dcpk ls");
    expect_code(0);
#define K(name, number, box, summary) expect_in(last.out, "\n" #name " "), expect_in(last.out, summary);
#include <dcpk/kernels.def>
#undef K
#define N(name, low, high, dflt, kernels, doc)                                                                         \
    expect_in(last.out, "\n" #name " "), expect_in(last.out, #low ".." #high);
#define C(name, words, dflt, kernels, doc) expect_in(last.out, "\n" #name " "), expect_in(last.out, words);
#include <dcpk/keys.def>
#undef N
#undef C
    sh("$dcpk ls errors");
#define E(name, code, meaning, advice) expect_in(last.out, "DCPK_E_" #name), expect_in(last.out, meaning);
#include <dcpk/errors.def>
#undef E
    sh("$dcpk ls env");
#define V(name, dflt, reader, doc) expect_in(last.out, "\n" #name " "), expect_in(last.out, doc);
#include <dcpk/environment.def>
#undef V
    sh("$dcpk ls models");
    expect_in(last.out, "kimi-k3");
    sh("$dcpk ls arch");
    expect_in(last.out, "sm_90a");
    sh("$dcpk ls --json");
    json_t *lists = shell_json();
    ck_assert_uint_eq(json_array_size(json_object_get(lists, "kernels")), 6);
    json_t *norm = json_array_get(json_object_get(lists, "kernels"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(norm, "kernel")), "query_norm");
    ck_assert_str_eq(json_string_value(json_object_get(norm, "template")), "yes");
    json_decref(lists);
}
END_TEST

START_TEST(a_template_error_shows_file_line_and_text) {
    sh("mkdir t && printf 'kernel{ name = \"mine\", grid = {1}, block = {32}, params = {} }\\n|   mov.u32 $(nothing), "
       "0;\\n' "
       ">t/mine.ptx.lua && DCPK_TEMPLATE_PATH=$PWD/t $dcpk gen mine heads=1 batch=1");
    expect_failure(1, "mine.ptx.lua:2");
    expect_in(last.err, "nothing");
}
END_TEST

START_TEST(a_compiler_that_is_missing_is_code_3_whichever_it_is) {
    sh("mkdir t && printf 'kernel{ grid = {1}, block = {32} }\\n' >t/mine.cu.lua && "
       "DCPK_NVRTC=/nowhere/nvrtc.so DCPK_TEMPLATE_PATH=$PWD/t $dcpk gen mine");
    expect_failure(3, "/nowhere/nvrtc.so does not open as a library");
    sh("DCPK_PTXAS=/nowhere/ptxas $dcpk build query_norm heads=2 batch=1");
    expect_failure(3, "/nowhere/ptxas is not a program");
    sh("DCPK_TOOLCHAIN=nvjitlink DCPK_NVJITLINK=libm.so.6 $dcpk build query_norm heads=2 batch=1");
    expect_failure(3, "/libm.so.6 has no nvJitLinkVersion");
    sh("DCPK_TOOLCHAIN=nvcc $dcpk build query_norm heads=2 batch=1");
    expect_failure(2, "there is no toolchain 'nvcc'");
}
END_TEST

START_TEST(a_kernel_that_is_not_there_is_said_to_be_in_neither_form) {
    sh("$dcpk gen nobodys");
    expect_failure(2, "there is no template file nobodys.ptx.lua or nobodys.cu.lua in ");
    sh("$dcpk gen a2345678901234567890123456789012");
    expect_failure(2, "'a2345678901234567890123456789012' is no kernel's name: at most 31 of a-z, 0-9 and _");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("command");
    TCase *tests = tcase_create("command");
    tcase_add_checked_fixture(tests, shell_setup, shell_teardown);
    tcase_set_timeout(tests, 20);
    tcase_add_test(tests, help_and_version_go_to_stdout_with_code_0);
    tcase_add_test(tests, a_command_line_that_cannot_be_read_is_code_2);
    tcase_add_test(tests, a_spec_that_a_rule_refuses_is_code_2_and_states_the_rule);
    tcase_add_test(tests, dcp_divides_tp_in_every_command);
    tcase_add_test(tests, a_word_given_twice_is_named);
    tcase_add_test(tests, run_lists_the_words_that_it_takes);
    tcase_add_test(tests, a_variable_of_no_sane_value_is_named_with_value_and_range);
    tcase_add_test(tests, too_few_devices_are_counted_against_the_ranks);
    tcase_add_test(tests, a_fault_in_an_input_that_is_not_read_is_refused);
    tcase_add_test(tests, a_message_cannot_drive_the_terminal);
    tcase_add_test(tests, output_that_cannot_be_written_is_code_1);
    tcase_add_test(tests, a_file_is_written_whole_or_not_at_all);
    tcase_add_test(tests, gen_prints_the_same_bytes_everywhere);
    tcase_add_test(tests, a_compiler_that_is_missing_is_code_3_whichever_it_is);
    tcase_add_test(tests, a_kernel_that_is_not_there_is_said_to_be_in_neither_form);
    tcase_add_test(tests, a_model_stands_for_its_keys);
    tcase_add_test(tests, ls_names_every_kernel_key_and_domain_of_the_tables);
    tcase_add_test(tests, a_template_error_shows_file_line_and_text);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
