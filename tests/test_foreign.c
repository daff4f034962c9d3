/* test_foreign.c - kernels of CUDA C++ that were not written for this project run on the CPU device and are right.
 *
 * Each test is a kernel of tests/foreign in a process of its own: seeded inputs, the public interface, an independent
 * reference in C (tests/foreign.h). */
#include "tests/foreign.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char folder[] = "tests/foreign";
enum { SEEDS = 6 };

/* One run; the verdict of the reference and of the device in `text`, empty when all is well. */
static void run_once(int row, uint64_t inputs, const char *check, const char *schedule, char text[4096]) {
    struct foreign_case c;
    dcpk_device *device = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    setenv("DCPK_CPU_CHECK", check, 1);
    if (schedule != NULL) setenv("DCPK_CPU_SEED", schedule, 1);
    foreign_make((unsigned)row, inputs, &c);
    size_t bytes = foreign_result_bytes(&c);
    void *result = malloc(bytes);
    const dcpk_device_options cpu = {.size = sizeof cpu, .kind = "cpu", .pdl = -1, .multicast = -1};
    text[0] = '\0';
    ck_assert_msg(dcpk_device_open(&cpu, &device, &error) == DCPK_OK, "%s", error.text);
    if (foreign_run(&c, folder, device, result, &error) != DCPK_OK)
        snprintf(text, 4096, "%s: %s", c.name, error.text);
    else
        (void)foreign_judge(&c, result, text);
    dcpk_device_close(device);
    foreign_drop(&c);
    free(result);
}

START_TEST(a_kernel_leaves_what_its_reference_says) {
    char text[4096];
    run_once(_i, 1, "0", NULL, text);
    ck_assert_msg(text[0] == '\0', "%s", text);
}
END_TEST

START_TEST(other_inputs_under_the_memory_checker_are_right_and_clean) {
    char text[4096];
    run_once(_i, 2, "1", NULL, text);
    ck_assert_msg(text[0] == '\0', "%s", text);
}
END_TEST

START_TEST(the_adversary_changes_nothing) {
    char text[4096], seed[16];
    snprintf(seed, sizeof seed, "%d", _i + 11);
    run_once(_i / SEEDS, 3, "1", seed, text);
    ck_assert_msg(text[0] == '\0', "seed %s: %s", seed, text);
}
END_TEST

/* A judge that lets everything pass would make the tests above worthless. */
START_TEST(one_wrong_bit_in_any_output_is_seen) {
    struct foreign_case c;
    char text[FOREIGN_TEXT];
    foreign_make((unsigned)_i, 1, &c);
    size_t bytes = foreign_result_bytes(&c), at = 0;
    ck_assert_uint_gt(bytes, 0);
    for (unsigned p = 0; p < c.count; p++) {
        if (!c.params[p].judged) continue;
        unsigned char *result = calloc(1, bytes);
        bool same;
        double most;
        /* all that is exact, as wanted, but the highest bit of the last byte; zeroes where there is a bound */
        for (unsigned q = 0, to = 0; q < c.count; q++) {
            if (!c.params[q].judged) continue;
            if (c.params[q].want != NULL) memcpy(result + to, c.params[q].want, c.params[q].bytes);
            to += (unsigned)c.params[q].bytes;
        }
        unsigned char *other = malloc(bytes);
        memcpy(other, result, bytes);
        at += c.params[p].bytes;
        other[at - 1] ^= c.params[p].want != NULL ? 0x80 : 0x7F; /* a number becomes huge, or none */
        ck_assert_msg(!foreign_judge(&c, other, text), "%s: parameter %u", c.name, p);
        ck_assert_msg(!foreign_agree(&c, result, other, &same, &most, text), "%s: parameter %u", c.name, p);
        ck_assert(!same);
        free(result);
        free(other);
    }
    foreign_drop(&c);
}
END_TEST

START_TEST(every_file_of_the_folder_has_a_row_and_every_row_a_file) {
    DIR *files = opendir(folder);
    ck_assert_ptr_nonnull(files);
    unsigned found = 0;
    for (struct dirent *file; (file = readdir(files)) != NULL;) {
        char *dot = strrchr(file->d_name, '.');
        if (dot == NULL || (strcmp(dot, ".ptx") != 0 && strcmp(dot, ".cu") != 0)) continue;
        bool is_ptx = strcmp(dot, ".ptx") == 0, has_row = false;
        *dot = '\0';
        for (unsigned i = 0; i < foreign_count(); i++)
            has_row |= strcmp(foreign_name(i), file->d_name) == 0;
        ck_assert_msg(has_row, "%s has no row in tests/foreign_rows.def", file->d_name);
        found += is_ptx;
    }
    closedir(files);
    ck_assert_uint_eq(found, foreign_count());
    ck_assert_uint_ge(found, 25);
}
END_TEST

/* Runs tests/check_foreign_gpu in a tree of its own with the CPU device on both sides, after `edit` of its kernels. */
static int check_both(const char *edit) {
    char self[4096], line[10000];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    ck_assert_int_gt(n, 0);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    *strrchr(self, '/') = '\0';
    snprintf(
        line, sizeof line,
        "t=$(mktemp -d) && mkdir $t/tests && cp -r tests/foreign tests/check_foreign_gpu tests/limited $t/tests && "
        "(cd $t/tests/foreign && %s) && $t/tests/check_foreign_gpu '%s' --device cpu --out $t/table >/dev/null "
        "2>$t/err; "
        "code=$?; cat $t/err; [ \"$(grep -c '^| [a-z0-9_]* | ' $t/table)\" = %u ] || code=99; rm -rf $t; exit $code",
        edit, self, foreign_count() + 1);
    int status = system(line); /* NOLINT: our own line */
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

START_TEST(the_comparison_of_devices_fails_on_a_wrong_kernel_and_on_one_that_is_refused) {
    ck_assert_int_eq(check_both("true"), 0);
    ck_assert_int_eq(check_both("sed -i 's/atom.shared.add.u32/atom.shared.max.u32/' histogram.ptx"), 1);
    ck_assert_int_eq(check_both("sed -i 's/bar.sync/bar.sideways/' transpose.ptx"), 1);
    ck_assert_int_eq(check_both("sed -i 's/add.s64/sub.s64/' stencil.ptx"),
                     1); /* a fault; the rows after it are there */
}
END_TEST

int main(void) {
    int count = (int)foreign_count();
    Suite *suite = suite_create("foreign");
    TCase *tcase = tcase_create("foreign");
    tcase_set_timeout(tcase, 20);
    tcase_add_test(tcase, every_file_of_the_folder_has_a_row_and_every_row_a_file);
    tcase_add_test(tcase, the_comparison_of_devices_fails_on_a_wrong_kernel_and_on_one_that_is_refused);
    tcase_add_loop_test(tcase, one_wrong_bit_in_any_output_is_seen, 0, count);
    tcase_add_loop_test(tcase, a_kernel_leaves_what_its_reference_says, 0, count);
    tcase_add_loop_test(tcase, other_inputs_under_the_memory_checker_are_right_and_clean, 0, count);
    tcase_add_loop_test(tcase, the_adversary_changes_nothing, 0, count * SEEDS);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
