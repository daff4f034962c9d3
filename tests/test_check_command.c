/* test_check_command.c - dcpk check device as its users meet it: the CPU device computes what PTX defines and what an
 * H200 was seen to compute; recordings made, compared and spoilt; words that are no use of it.
 *
 * Knows nothing of the command's insides: a process, its output, its exit code, its files. */
#include "tests/shell.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST = 600 };
static char golden[4096]; /* what an H200 left; "": not recorded */

static void setup(void) {
    char home[3072];
    ck_assert_ptr_nonnull(getcwd(home, sizeof home));
    snprintf(golden, sizeof golden, "%s/tests/golden/conformance_h200.txt", home);
    if (access(golden, R_OK) != 0) golden[0] = '\0';
    shell_setup();
}

/* The numbers behind a text of the last output. */
static void numbers_behind(const char *text, const char *format, unsigned long *a, unsigned long *b) {
    const char *at = strstr(last.out, text);
    ck_assert_msg(at != NULL, "no '%s' in:\n%.2000s", text, last.out);
    ck_assert_msg(sscanf(at + strlen(text), format, a, b) == 2, "%s", at);
}

START_TEST(the_cpu_device_computes_what_ptx_defines) {
    unsigned long right, all, within, judged;
    sh("$dcpk check device");
    ck_assert_msg(last.code == 0, "exit code %d\n%.2000s%.500s", last.code, last.out, last.err);
    numbers_behind("defined to the bit: ", "%lu of %lu", &right, &all);
    ck_assert_uint_eq(right, all);
    ck_assert_uint_ge(all, LEAST);
    numbers_behind("sums of products: ", "%lu of %lu", &within, &judged);
    ck_assert_uint_eq(within, judged);
    ck_assert_uint_ge(judged, 40);
    static const char *const families[] = {"rcp.approx", "rsqrt.approx", "ex2.approx",
                                           "lg2.approx", "mma.sync",     "wgmma"};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        ck_assert_msg(strstr(last.out, families[i]) != NULL, "no line of %s", families[i]);
    if (golden[0] == '\0') {
        printf("skipped: no results of an H200 in tests/golden/conformance_h200.txt to compare with\n");
        return;
    }
    /* what is defined to the bit is what the H200 left, but for the few that may not run there */
    ck_assert_msg(strstr(last.out, "H200") != NULL, "the golden data is not an H200's");
    numbers_behind("to the last bit; of the ", "%lu that the manual defines to the bit, %lu", &judged, &right);
    ck_assert_uint_eq(right, judged);
    ck_assert_uint_ge(judged + 4, all);
}
END_TEST

START_TEST(matrices_have_the_bits_of_an_h200) {
    unsigned long same, all;
    if (golden[0] == '\0') {
        printf("skipped: no results of an H200 in tests/golden/conformance_h200.txt to compare with\n");
        return;
    }
    sh("$dcpk check device mma --against '%s'", golden); /* mma.sync and wgmma, approximate ones too */
    expect_code(0);
    numbers_behind("driver 13000\n  ", "%lu of %lu snippets are as recorded", &same, &all);
    ck_assert_uint_eq(same, all);
    ck_assert_uint_ge(all, 500);
}
END_TEST

START_TEST(snippets_are_listed) {
    unsigned long count = 0, lines = 0;
    sh("$dcpk check device --list");
    expect_code(0);
    for (const char *at = last.out; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    const char *end = strstr(last.out, " snippets\n");
    ck_assert_ptr_nonnull(end);
    while (end > last.out && end[-1] != '\n')
        end--;
    count = strtoul(end, NULL, 10);
    ck_assert_uint_eq(count, lines - 1);
    ck_assert_uint_ge(count, LEAST);
    sh("$dcpk check device multimem --list");
    expect_in(last.out, "never on hardware: multicast memory");
    expect_in(last.out, "multimem.st");
}
END_TEST

START_TEST(a_recording_is_replayed_and_a_change_in_it_is_found) {
    sh("$dcpk check device add.u32 ex2.approx.ftz.f32 mma.sync.aligned.m16n8k32 --record it.txt");
    expect_code(0);
    sh("$dcpk check device add.u32 ex2.approx.ftz.f32 mma.sync.aligned.m16n8k32 --against it.txt --verbose");
    expect_code(0);
    expect_in(last.out, "add.u32: as the reference, as recorded");
    expect_in(last.out, "ex2.approx.ftz.f32: within its bound, as recorded");
    /* an exact result: exit code 1 */
    sh("sed -E '/^add\\.u32\\t/ s/(\\th\\t.)./\\1-/' it.txt >other.txt; ! cmp -s it.txt other.txt");
    expect_code(0);
    sh("$dcpk check device add.u32 --against other.txt");
    expect_code(1);
    expect_in(last.out, "  add.u32: 1 results are not the recorded ones\n    input 0: a b c x = ");
    sh("sed -E '/^add\\.u32\\t/ s/.$//' it.txt >other.txt; $dcpk check device add.u32 --against other.txt");
    expect_code(1);
    expect_in(last.out, "  add.u32: its recorded data is damaged");
    /* an approximation: said, and no failure */
    sh("sed -E '/^ex2/ s/#.{6}/#000003/' it.txt >other.txt; ! cmp -s it.txt other.txt");
    expect_code(0);
    sh("$dcpk check device ex2.approx.ftz.f32 --against other.txt --verbose");
    expect_code(0);
    expect_in(last.out, " results are not the recorded ones, by ");
    expect_in(last.out, "    input 0: a b c x = 0");
    expect_in(last.out, ": left 3f800000, recorded 3\n");
    /* of another text */
    sh("sed -E '/^add\\.u32\\t/ s/\\t[^\\t]+/\\t00000000000/' it.txt >other.txt; $dcpk check device add.u32 --against "
       "other.txt");
    expect_code(0);
    expect_in(last.out, "recorded for another text or other inputs");
}
END_TEST

#define RECORD "$dcpk check device %s --record it.txt"

/* it.txt: three lines, backwards, of which two hold other data than this device leaves. */
static void record_three(void) {
    sh(RECORD, "sub.s32 sub.u32 mul.lo.u32");
    expect_code(0);
    sh("(head -n 2 it.txt; tail -n +3 it.txt | tac) >back.txt; "
       "sed -E '/^sub\\.[us]32\\t/ s/(\\th\\t.)..../\\1----/' back.txt >it.txt; ! cmp -s it.txt back.txt; cut -f1 "
       "it.txt");
    expect_code(0);
    expect_in(last.out, "\nmul.lo.u32\nsub.s32\nsub.u32\n");
}

START_TEST(with_words_the_other_lines_of_a_recording_stay_in_their_order) {
    record_three();
    sh("grep -a '^mul' it.txt >kept.txt; grep -a '^sub.s32' back.txt >new.txt; grep -a '^sub.u32' it.txt >last.txt; "
       "$dcpk check device ex2.approx.f32 "
       "--record ex2.txt; (head -n 2 it.txt; cat kept.txt new.txt last.txt; tail -n 1 ex2.txt) >wanted.txt");
    expect_code(0);
    sh(RECORD, "sub.s32 ex2.approx.f32");
    expect_code(0);
    sh("cmp it.txt wanted.txt && wc -l <it.txt; ls it.txt*");
    expect_code(0);
    expect_in(last.out, "6\nit.txt\n"); /* and nothing beside it */
    /* without words it is made new; an empty file holds nothing that could be lost */
    sh(": >it.txt; $dcpk check device sub.u32 --record it.txt >out.txt && tail -n +3 it.txt | cut -f1");
    expect_code(0);
    ck_assert_str_eq(last.out, "sub.u32\n");
}
END_TEST

START_TEST(a_recording_of_another_device_is_not_mixed_with_this_ones) {
    record_three();
    sh("sed -i '2 s/.*/NVIDIA H200 (cuda), compute 9.0, driver 13000/' it.txt; cp it.txt was.txt");
    sh(RECORD, "sub.u32");
    expect_failure(1, "it.txt: recorded on NVIDIA H200 (cuda), compute 9.0, driver 13000, and this device is ");
    expect_in(last.err, "(cpu), compute 9.0");
    sh("cmp it.txt was.txt");
    expect_code(0);
    sh("echo of mine >it.txt");
    sh(RECORD, "sub.u32"); /* no recording at all */
    expect_failure(1, "it.txt: not recorded conformance data");
    sh("cat it.txt");
    ck_assert_str_eq(last.out, "of mine\n");
}
END_TEST

START_TEST(a_recording_that_cannot_be_written_leaves_the_old_one) {
    record_three();
    sh("cp it.txt was.txt; (trap '' XFSZ; ulimit -f 1; exec $dcpk check device ex2.approx.f32 --record it.txt "
       ">/dev/null)");
    expect_failure(1, "cannot write 'it.txt'");
    sh("cmp it.txt was.txt && ls it.txt*");
    expect_code(0);
    ck_assert_str_eq(last.out, "it.txt\n");
}
END_TEST

START_TEST(wrong_uses_are_refused) {
    sh("$dcpk check");
    expect_failure(2, "dcpk check device");
    sh("$dcpk check device no.such.instruction");
    expect_failure(2, "no.such.instruction");
    sh("$dcpk check device add.u32 no.such.instruction"); /* beside one that chooses something, too */
    expect_failure(2, "no.such.instruction");
    sh("$dcpk check device --device 3");
    expect_failure(2, "--device 3");
    sh("DCPK_CPU_CHECK=yes $dcpk check device add.u32");
    expect_failure(2, "DCPK_CPU_CHECK=yes: 0 or 1");
    sh("$dcpk check device --list --record it.txt");
    expect_failure(2, "--record beside --list");
    sh("$dcpk check device --list --against it.txt");
    expect_failure(2, "--against beside --list");
    sh("$dcpk check device add.u32 --against none.txt");
    expect_failure(1, "none.txt");
    sh("$dcpk check device add.u32 --against /dev/null");
    expect_failure(1, "/dev/null: not recorded conformance data");
    sh("echo nonsense >bad.txt; $dcpk check device add.u32 --against bad.txt");
    expect_failure(1, "bad.txt: not recorded conformance data");
    sh("CUDA_VISIBLE_DEVICES= $dcpk check device add.u32 --device cuda");
    expect_failure(3, "");
}
END_TEST

/* A driver that takes no PTX stands for hardware: what it refuses it was asked for. */
START_TEST(hardware_is_never_asked_for_multicast_memory) {
    sh("mkdir fake && cp $(dirname $dcpk)/tests/libfakecuda.so fake/libcuda.so.1");
    expect_code(0);
    sh("LD_LIBRARY_PATH=$PWD/fake FAKE_DRIVER='devices=1' $dcpk check device multimem add.u16 --device cuda:0 "
       "--verbose");
    expect_code(1);
    expect_in(last.out, "  add.u16: refused: ");
    expect_in(last.out, "  multimem.st.global.u32: not run\n");
    ck_assert_msg(strstr(last.out, "multimem.st.global.u32: refused") == NULL, "%s", last.out);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("check_command");
    TCase *tc = tcase_create("check_command");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, shell_teardown);
    tcase_add_test(tc, the_cpu_device_computes_what_ptx_defines);
    tcase_add_test(tc, matrices_have_the_bits_of_an_h200);
    tcase_add_test(tc, snippets_are_listed);
    tcase_add_test(tc, a_recording_is_replayed_and_a_change_in_it_is_found);
    tcase_add_test(tc, with_words_the_other_lines_of_a_recording_stay_in_their_order);
    tcase_add_test(tc, a_recording_of_another_device_is_not_mixed_with_this_ones);
    tcase_add_test(tc, a_recording_that_cannot_be_written_leaves_the_old_one);
    tcase_add_test(tc, hardware_is_never_asked_for_multicast_memory);
    tcase_add_test(tc, wrong_uses_are_refused);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
