/* test_sweep_command.c - dcpk sweep: what is enumerated and what refused, results that a killed sweep leaves whole,
 * wrong kernels, other requests into the same folder.
 *
 * Knows nothing of the command's insides: a process, its output, its exit code, its folder. */
#include "tests/plant.h"
#include "tests/shell.h"

#include <tools/numbers.h>

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Small points: a head a rank, one split. */
#define SMALL "$dcpk sweep --model kimi-linear --tp 32 --steps 1 --form fused splits=1 "
#define FEW SMALL "--dcp 1,2 --batch 1,2 --context 3,5 "

static char home[4096]; /* the project's folder, where templates are read */

static void setup(void) {
    ck_assert_ptr_nonnull(getcwd(home, sizeof home));
    const char *shared = getenv("DCPK_CACHE_DIR"); /* the suites' own: the same kernels again and again */
    char cache[4096] = "";
    snprintf(cache, sizeof cache, "%s", shared != NULL ? shared : "");
    plant_folder_make();
    shell_setup();
    if (cache[0] != '\0') setenv("DCPK_CACHE_DIR", cache, 1);
}

static void teardown(void) {
    shell_teardown();
    ck_assert_int_eq(chdir(home), 0);
    plant_folder_remove();
}

static void plant_from_home(const struct edit *edit) {
    ck_assert_int_eq(chdir(home), 0);
    plant(edit);
    ck_assert_int_eq(chdir(shell_folder), 0);
    setenv("plant", plant_folder(), 1);
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

/* DIR/results.jsonl: point -> row. Every line must be a JSON object with a point of its own. */
static json_t *results(const char *folder) {
    char path[256];
    size_t length = 0;
    json_t *rows = json_object();
    snprintf(path, sizeof path, "%s/results.jsonl", folder);
    char *text = shell_read_file(path, &length);
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(length == 0 || text[length - 1] == '\n', "%s ends in half a line", path);
    for (char *at = text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        json_error_t error;
        json_t *row = json_loadb(at, (size_t)(end - at), 0, &error);
        ck_assert_msg(json_is_object(row), "%s: %s: %.*s", path, error.text, (int)(end - at), at);
        ck_assert_msg(json_object_get(rows, text_of(row, "point")) == NULL, "%s twice", text_of(row, "point"));
        json_object_set_new(rows, text_of(row, "point"), row);
    }
    free(text);
    return rows;
}

/* The rows without what differs from run to run: times, and whether the cache had the kernel. */
static char *lasting(const char *folder) {
    json_t *rows = results(folder), *row, *kernel;
    const char *point;
    size_t i;
    json_object_foreach(rows, point, row) {
        json_object_del(row, "seconds");
        json_array_foreach(json_object_get(row, "kernels"), i, kernel) {
            json_object_del(kernel, "build_ms");
            json_object_del(kernel, "cache");
        }
    }
    char *text = json_dumps(rows, JSON_SORT_KEYS | JSON_INDENT(1));
    ck_assert_ptr_nonnull(text);
    json_decref(rows);
    return text;
}

static void expect_same(const char *folder, const char *wanted) {
    char *got = lasting(folder);
    ck_assert_msg(strcmp(got, wanted) == 0, "%s: other results than an undisturbed sweep:\n%s\nwanted\n%s", folder, got,
                  wanted);
    free(got);
}

static size_t count_states(const json_t *rows, const char *state) {
    const char *point;
    json_t *row;
    size_t count = 0;
    json_object_foreach((json_t *)rows, point, row) count += strcmp(text_of(row, "state"), state) == 0;
    return count;
}

/* ---- points -------------------------------------------------------------------------------------- */

START_TEST(every_point_of_the_product_is_run_or_refused_with_its_rule) {
    sh("$dcpk sweep --model kimi-linear,deepseek-v2-lite --tp 32,64 --dcp 1-3 --batch 1,2 --q 1,2 --context 3 --steps "
       "1 "
       "--form fused --json -o swept splits=1");
    expect_code(0);
    json_t *told = shell_json(), *rows = results("swept");
    size_t run = 0, refused = 0;
    static const struct {
        const char *name;
        int heads;
    } models[] = {{"kimi-linear", 32}, {"deepseek-v2-lite", 16}};
    for (int m = 0; m < 2; m++)
        for (int tp = 32; tp <= 64; tp += 32)
            for (int dcp = 1; dcp <= 3; dcp++)
                for (int batch = 1; batch <= 2; batch++)
                    for (int q = 1; q <= 2; q++) {
                        char point[200];
                        snprintf(point, sizeof point, "model=%s tp=%d dcp=%d batch=%d q=%d context=3", models[m].name,
                                 tp, dcp, batch, q);
                        json_t *row = json_object_get(rows, point);
                        ck_assert_msg(row != NULL, "%s: no row", point);
                        const char *message = text_of(row, "message"), *state = text_of(row, "state");
                        const char *rule = models[m].heads % tp != 0 ? "heads"
                                           : tp % dcp != 0           ? "dcp must divide tp"
                                           : batch % q != 0          ? "q divides batch"
                                                                     : NULL;
                        ck_assert_msg(strcmp(state, rule != NULL ? "refused" : "right") == 0, "%s: %s: %s", point,
                                      state, message);
                        ck_assert_msg(rule == NULL || strstr(message, rule) != NULL, "%s: %s", point, message);
                        run += rule == NULL;
                        refused += rule != NULL;
                    }
    ck_assert_uint_eq(json_object_size(rows), run + refused);
    ck_assert_int_eq((int)json_integer_value(json_object_get(told, "right")), (int)run);
    ck_assert_int_eq((int)json_integer_value(json_object_get(told, "refused")), (int)refused);
    ck_assert_uint_eq(json_array_size(json_object_get(told, "refused_points")), refused);
    ck_assert_uint_eq(run, 2 * 3); /* 32 heads over 32; dcp=1,2; (1,1), (2,1), (2,2) */
    json_decref(told);
    json_decref(rows);
}
END_TEST

START_TEST(a_template_has_rules_too_and_nothing_but_refusals_is_code_2) {
    sh(SMALL "--dcp 3,4 --context 9 checked=1 watchdog=0 -o swept");
    expect_failure(2, "every point is refused");
    json_t *rows = results("swept"),
           *row = json_object_get(rows, "model=kimi-linear tp=32 dcp=4 batch=1 q=1 context=9");
    ck_assert_uint_eq(count_states(rows, "refused"), 2);
    ck_assert_msg(strstr(text_of(row, "message"), "checked=1 reports through the abort record") != NULL, "%s",
                  text_of(row, "message"));
    json_decref(rows);
}
END_TEST

START_TEST(a_row_holds_the_kernels_that_were_built_their_errors_and_counts) {
    sh("$dcpk sweep --model kimi-k3 --tp 96 --dcp 2 --batch 3 --context ragged:9 -o swept splits=1 >out.txt");
    expect_code(0);
    json_t *rows = results("swept"), *kernel;
    size_t i, norms = 0;
    const json_t *row = json_object_get(rows, "model=kimi-k3 tp=96 dcp=2 batch=3 q=1 context=ragged:9");
    ck_assert_uint_eq(json_array_size(json_object_get(row, "kernels")), 7); /* six, mla_query in two forms */
    json_array_foreach(json_object_get(row, "kernels"), i, kernel) {
        const char *spec = text_of(kernel, "spec");
        sh("$dcpk build --json %s", spec);
        expect_code(0);
        json_t *built = shell_json(), *entry = json_array_get(json_object_get(built, "entries"), 0);
        ck_assert_str_eq(text_of(built, "key"), text_of(kernel, "key"));
        ck_assert_str_eq(text_of(built, "cache"), "hit");
        ck_assert_int_eq((int)json_integer_value(json_object_get(entry, "registers")),
                         (int)json_integer_value(json_object_get(kernel, "registers")));
        ck_assert_str_eq(text_of(kernel, "verdict"), "right");
        ck_assert_double_le(json_number_value(json_object_get(kernel, "error")),
                            json_number_value(json_object_get(kernel, "bound")));
        ck_assert_int_gt((int)json_integer_value(json_object_get(kernel, "thread_instructions")), 0);
        ck_assert_ptr_null(json_object_get(kernel, "us")); /* the CPU device has no time to report */
        norms += strcmp(text_of(kernel, "kernel"), "query_norm") == 0;
        json_decref(built);
    }
    ck_assert_uint_eq(norms, 1);
    json_decref(rows);
    sh("cat out.txt && cmp out.txt swept/report.txt");
    expect_code(0);
    expect_in(last.out, "correctness and instruction counts only");
    expect_in(last.out, "query_push");
    ck_assert_msg(strstr(last.out, "floor") == NULL, "a floor beside the CPU device:\n%s", last.out);
}
END_TEST

/* One more instruction in every thread of query_norm: batch=2 is two CTAs of 256 threads on each of two ranks. */
START_TEST(instruction_counts_are_those_that_were_executed) {
    static const struct edit one_more = {"query_norm.ptx.lua", "|   mov.u32        $(tid), %tid.x;\n",
                                         "|   mov.u32        $(tid), %tid.x;\n|   mov.u32        $(tid), %tid.x;\n"};
    static const char *const folders[] = {"as_it_is", "one_more"};
    json_int_t counts[2] = {0};
    plant_from_home(&one_more);
    for (int i = 0; i < 2; i++) {
        sh("$dcpk sweep --model kimi-k3 --tp 96 --dcp 2 --batch 2 --context 3 --steps 1 --form wait -o %s %s splits=1",
           folders[i], i == 0 ? "" : "--templates $plant");
        expect_code(0);
        json_t *rows = results(folders[i]), *kernel;
        size_t k;
        json_array_foreach(json_object_get(json_object_iter_value(json_object_iter(rows)), "kernels"), k, kernel) {
            if (strcmp(text_of(kernel, "kernel"), "query_norm") == 0)
                counts[i] = json_integer_value(json_object_get(kernel, "thread_instructions"));
        }
        json_decref(rows);
    }
    ck_assert_int_eq((int)(counts[1] - counts[0]), 2 * 256 * 2);
}
END_TEST

START_TEST(lists_that_are_none_are_usage_errors_and_leave_no_folder) {
    static const char *const bad[] = {"--dcp 0",
                                      "--dcp 3-1",
                                      "--batch 1,,2",
                                      "--q 9",
                                      "--context x",
                                      "--context ragged:0",
                                      "--tp 1-64 --batch 1-512 --q 1-8 --dcp 1-32", /* 2^23 points */
                                      "--model a,,b",
                                      "--form cycle2",
                                      "--timeout 0",
                                      "--jobs 17",
                                      "--steps 0",
                                      "heads=3",
                                      "store_qc=1",
                                      "batch=3",
                                      "nosuch=1",
                                      "--event-ordered --shares",
                                      "--event-ordered poll=1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sh("$dcpk sweep --model kimi-linear -o swept %s", bad[i]);
        ck_assert_msg(last.code == 2, "%s: code %d\n%s", bad[i], last.code, last.err);
        expect_in(last.err, "dcpk: ");
    }
    ck_assert(!shell_exists("swept"));
    sh("$dcpk sweep --model kimi-linear --context x -o swept");
    expect_failure(2, "or ragged, ragged:N");
    sh("$dcpk sweep --model kimi-linear,kimi-k4 -o swept");
    expect_failure(2, "kimi-k4");
    ck_assert(!shell_exists("swept"));
    sh("$dcpk sweep -o swept");
    expect_failure(2, "--model");
    sh("$dcpk sweep --model kimi-linear");
    expect_failure(2, "-o DIR");
}
END_TEST

START_TEST(a_sweep_of_too_many_points_leaves_the_folder_as_it_was) {
    sh("$dcpk sweep --model kimi-linear --tp 1-64 --batch 1-512 --q 1-8 --dcp 1-32 -o swept");
    expect_failure(2, "more than 1048576 points");
    ck_assert(!shell_exists("swept"));
    sh(SMALL "--context 3 -o swept && cp -r swept before");
    expect_code(0);
    sh("$dcpk sweep --model kimi-linear --tp 1-64 --batch 1-512 --q 1-8 --dcp 1-32 --steps 1 --form fused splits=1 "
       "--extend -o swept");
    expect_failure(2, "more than 1048576 points");
    sh("diff -r swept before && " SMALL "--context 3 -o swept");
    expect_code(0);
}
END_TEST

START_TEST(rows_of_one_kernel_are_told_apart) {
    sh("$dcpk sweep --model kimi-k3 --tp 96 --dcp 2 --batch 2 --context 3 --event-ordered -o swept splits=1");
    expect_code(0);
    expect_in(last.out, "mla_query poll=0 store_qc=0 ");
    expect_in(last.out, "mla_query poll=0 store_qc=1 ");
}
END_TEST

/* ---- taken up again ------------------------------------------------------------------------------ */

START_TEST(a_sweep_killed_at_any_moment_goes_on_to_the_same_results) {
    sh(FEW "-o first && rm -r first && " FEW
           "-o whole"); /* the second finds its kernels in the cache, as those below */
    expect_code(0);
    char *wanted = lasting("whole");
    struct random random;
    random_seed(&random, 7);
    int killed = 0, finished = 0;
    while (killed < 20) {
        sh("timeout -s KILL 0.%03u " FEW "-o swept", 5 + random_below(&random, 300));
        if (last.code == 0) {
            expect_same("swept", wanted);
            finished++;
            sh("rm -r swept");
            continue;
        }
        ck_assert_msg(last.code == 137, "code %d: %s", last.code, last.err);
        killed++;
    }
    sh(FEW "-o swept");
    expect_code(0);
    expect_same("swept", wanted);
    ck_assert_int_lt(finished, 60);
    free(wanted);
}
END_TEST

START_TEST(half_a_line_is_cut_off_and_done_again) {
    sh(FEW "-o swept");
    expect_code(0);
    char *wanted = lasting("swept");
    size_t length = 0;
    char *whole = shell_read_file("swept/results.jsonl", &length);
    size_t last_line = length - 1;
    while (whole[last_line - 1] != '\n')
        last_line--;
    const size_t cuts[] = {length - 1, length - 2, (last_line + length) / 2, last_line + 1, last_line, last_line / 2,
                           1,          0};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        ck_assert_int_eq(truncate("swept/results.jsonl", (off_t)cuts[i]), 0);
        sh(FEW "-o swept");
        expect_code(0);
        expect_same("swept", wanted);
    }
    sh(FEW "-o swept && wc -c <swept/results.jsonl");
    expect_code(0);
    sh("sed -i '2s/^{/[/' swept/results.jsonl");
    sh(FEW "-o swept");
    expect_failure(1, "results.jsonl:2");
    free(whole);
    free(wanted);
}
END_TEST

START_TEST(several_jobs_come_to_the_same_results) {
    sh(FEW "-o one && " FEW "--jobs 3 -o three");
    expect_code(0);
    char *wanted = lasting("one");
    expect_same("three", wanted);
    free(wanted);
}
END_TEST

START_TEST(a_limit_or_an_interrupt_ends_it_in_part_with_code_4) {
    sh(FEW "--limit 3 -o swept");
    expect_failure(4, "5 points are left");
    json_t *rows = results("swept");
    ck_assert_uint_eq(json_object_size(rows), 3);
    json_decref(rows);
    /* A point of seconds is interrupted: it ends, the next does not begin. */
    sh(SMALL "--dcp 1 --batch 8 --context 3,1500,ragged -o slow & until [ -s slow/results.jsonl ]; do sleep 0.02; "
             "done; sleep 0.1; "
             "kill -INT $!; wait $!");
    expect_failure(4, "the same command goes on");
    rows = results("slow");
    ck_assert_uint_eq(json_object_size(rows), 2);
    ck_assert_uint_eq(count_states(rows, "right"), 2);
    json_decref(rows);
    sh(FEW "-o swept");
    expect_code(0);
}
END_TEST

START_TEST(another_request_into_the_folder_is_refused_and_names_the_difference) {
    static const struct {
        const char *words, *text;
    } others[] = {{"--context 3", "--context is [\"3\",\"5\"] there, [\"3\"] here"},
                  {"--seed 2", "seed is 1 there, 2 here"},
                  {"--steps 2", "steps is 1 there, 2 here"},
                  {"--form pushed", "form is \"fused\" there, \"pushed\" here"},
                  {"page=16", "keys is"},
                  {"--event-ordered", "ranks is"},
                  {"--templates $plant", "made_by.templates is"}};
    static const struct edit comment = {"query_norm.ptx.lua", "-- query_norm:", "-- query_norm, edited:"};
    plant_from_home(&comment);
    sh(FEW "-o swept");
    expect_code(0);
    char *wanted = lasting("swept");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        sh(FEW "-o swept %s", others[i].words);
        expect_failure(2, others[i].text);
    }
    sh("DCPK_CPU_SMS=64 " FEW "-o swept");
    expect_failure(2, "device.sms is 132 there, 64 here");
    expect_same("swept", wanted);
    free(wanted);
    sh(FEW "--context 3,7 --extend -o swept && " FEW "-o swept"); /* both lists are the folder's now */
    expect_code(0);
    json_t *rows = results("swept");
    ck_assert_uint_eq(json_object_size(rows), 12);
    json_decref(rows);
    sh("mkdir other && echo '{\"point\":\"x\",\"state\":\"right\"}' >other/results.jsonl");
    sh(FEW "-o other");
    expect_failure(2, "no sweep.json");
}
END_TEST

/* ---- what goes wrong ----------------------------------------------------------------------------- */

START_TEST(a_wrong_kernel_makes_its_points_wrong_and_the_code_1) {
    static const struct edit fault = {"lib/attend.lua", "$(1 - spec.q)",
                                      "$(0 - spec.q)"}; /* a row does not see itself */
    plant_from_home(&fault);
    sh(SMALL "--dcp 2 --context 5 pv=f16 -o swept --templates $plant"); /* that loop is the portable form's */
    expect_code(1);
    json_t *rows = results("swept");
    ck_assert_uint_eq(count_states(rows, "wrong"), 1);
    json_decref(rows);
    expect_in(last.out, "wrong: model=kimi-linear tp=32 dcp=2 batch=1 q=1 context=5: step 0");
    sh(SMALL "--dcp 2 --context 5 pv=f16 -o swept --templates $plant"); /* nothing is missing, it is still wrong */
    expect_code(1);
}
END_TEST

START_TEST(a_point_that_cannot_be_built_or_takes_too_long_does_not_stop_the_others) {
    static const struct edit broken = {"query_norm.ptx.lua", "|   mov.u32        $(tid), %tid.x;\n",
                                       "|   mov.u33        $(tid), %tid.x;\n"};
    plant_from_home(&broken);
    sh("$dcpk sweep --model kimi-k3,kimi-linear --tp 32 --steps 1 --context 3 --form wait -o swept --templates $plant "
       "splits=1");
    expect_code(1);
    json_t *rows = results("swept"); /* kimi-linear has no q_a projection: no query_norm runs */
    ck_assert_uint_eq(count_states(rows, "failed"), 1);
    ck_assert_uint_eq(count_states(rows, "right"), 1);
    json_decref(rows);
    expect_in(last.out, "while building");
    expect_in(last.out, "query_norm.ptx.lua");
    sh(SMALL "--dcp 1,2 --context 3 -o warm"); /* kernels are in the cache: small points are quick */
    sh(SMALL "--dcp 1,2 --context 3,300000 --limit 3 --timeout 3 -o slow");
    expect_code(4);
    rows = results("slow");
    ck_assert_uint_eq(count_states(rows, "failed"), 1);
    ck_assert_uint_eq(count_states(rows, "right"), 2);
    json_decref(rows);
    expect_in(last.out, "no result after 3 s");
}
END_TEST

START_TEST(a_process_that_dies_is_a_failed_point) {
    static const char *const point = "model=kimi-linear tp=32 dcp=1 batch=1 q=1 context=300000";
    sh("(ulimit -t 1; " SMALL "--context 300000,ragged:4 -o swept)"); /* a second of processor time each */
    expect_code(1);
    json_t *rows = results("swept"), *row = json_object_get(rows, point);
    ck_assert_uint_eq(json_object_size(rows), 2);
    ck_assert_str_eq(text_of(row, "state"), "failed");
    ck_assert_str_eq(text_of(row, "stage"), "making the layer");
    ck_assert_msg(strstr(text_of(row, "message"), "died of signal") != NULL, "%s", text_of(row, "message"));
    json_decref(rows);
}
END_TEST

START_TEST(no_compiler_is_code_3) {
    sh("DCPK_PTXAS=/nonexistent/ptxas " FEW "-o swept");
    ck_assert_msg(last.code == 3, "code %d: %s", last.code, last.err);
    ck_assert(!shell_exists("swept"));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sweep");
    TCase *tests = tcase_create("command");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, every_point_of_the_product_is_run_or_refused_with_its_rule);
    tcase_add_test(tests, a_template_has_rules_too_and_nothing_but_refusals_is_code_2);
    tcase_add_test(tests, a_row_holds_the_kernels_that_were_built_their_errors_and_counts);
    tcase_add_test(tests, instruction_counts_are_those_that_were_executed);
    tcase_add_test(tests, lists_that_are_none_are_usage_errors_and_leave_no_folder);
    tcase_add_test(tests, a_sweep_of_too_many_points_leaves_the_folder_as_it_was);
    tcase_add_test(tests, rows_of_one_kernel_are_told_apart);
    tcase_add_test(tests, a_sweep_killed_at_any_moment_goes_on_to_the_same_results);
    tcase_add_test(tests, half_a_line_is_cut_off_and_done_again);
    tcase_add_test(tests, several_jobs_come_to_the_same_results);
    tcase_add_test(tests, a_limit_or_an_interrupt_ends_it_in_part_with_code_4);
    tcase_add_test(tests, another_request_into_the_folder_is_refused_and_names_the_difference);
    tcase_add_test(tests, a_wrong_kernel_makes_its_points_wrong_and_the_code_1);
    tcase_add_test(tests, a_point_that_cannot_be_built_or_takes_too_long_does_not_stop_the_others);
    tcase_add_test(tests, a_process_that_dies_is_a_failed_point);
    tcase_add_test(tests, no_compiler_is_code_3);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
