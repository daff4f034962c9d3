/* test_command_run.c - dcpk run and dcpk replay: the whole layer from a command line, and from a case file.
 *
 * Knows nothing of the libraries' insides: a process, its output, its exit code; case files are damaged by the byte. */
#include "tests/shell.h"

#include <tools/safetensors.h>

#include <check.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A CTA of the default decode holds 227 KB that the CPU device gives out anew: fewer of them are as good here. */
#define FEW "DCPK_CPU_SMS=24 "
#define RUN "$dcpk run --json heads=2 dcp=2 context=1,9,70 steps=3 "
#define SMALL_RUN "$dcpk run --json heads=1 dcp=2 context=3 steps=1 "
#define SMALL FEW SMALL_RUN

/* ---- run ---------------------------------------------------------------------------------------- */

static json_int_t number_of(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

START_TEST(run_compares_everything_and_a_second_run_starts_no_compiler) {
    static const char *const figures[] = {"relative_error", "relative_bound", "worst", "worst_bound", "worst_unit"};
    sh(RUN);
    expect_code(0);
    json_t *run = shell_json(), *row;
    ck_assert_int_eq(number_of(run, "hits"), 0);
    ck_assert_int_gt(number_of(run, "compilers_started"), 0);
    ck_assert_int_eq(number_of(run, "steps"), 3);
    ck_assert(json_is_true(json_object_get(run, "ok")));
    size_t compared = 0, i;
    json_array_foreach(json_object_get(run, "kernels"), i, row) {
        if (strcmp(json_string_value(json_object_get(row, "kernel")), "query_copy") == 0) {
            for (size_t f = 0; f < 5; f++)
                ck_assert_msg(json_is_null(json_object_get(row, figures[f])), "%s is not null", figures[f]);
            continue;
        }
        compared++;
        ck_assert_double_le(json_number_value(json_object_get(row, "worst")),
                            json_number_value(json_object_get(row, "worst_bound")));
        ck_assert_double_le(json_number_value(json_object_get(row, "relative_error")),
                            json_number_value(json_object_get(row, "relative_bound")));
    }
    ck_assert_uint_eq(compared, 8); /* six kernels, mla_query in two forms, and the layer */
    json_decref(run);
    sh(RUN);
    expect_code(0);
    run = shell_json();
    ck_assert_int_eq(number_of(run, "misses"), 0);
    ck_assert_int_eq(number_of(run, "compilers_started"), 0);
    json_decref(run);
    sh("$dcpk run heads=2 dcp=2 context=1,9,70 steps=3 --schedule random seed=1");
    expect_code(0);
    expect_in(last.out, "compilers started: 0");
    expect_in(last.out, "mla_decode");
    sh("$dcpk run heads=2 dcp=2 context=1,9,70 steps=3 --schedule random seed=1 --captured");
    expect_code(0);
    expect_in(last.out, "compilers started: 0");
}
END_TEST

/* The row of the last run's JSON whose kernel is mla_decode: what its spec says, and by what it was judged. */
static void expect_decode(const char *words, double bound) {
    json_t *run = shell_json(), *row;
    size_t i, found = 0;
    ck_assert(json_is_true(json_object_get(run, "ok")));
    json_array_foreach(json_object_get(run, "kernels"), i, row) {
        if (strcmp(json_string_value(json_object_get(row, "kernel")), "mla_decode") != 0) continue;
        ck_assert_ptr_nonnull(strstr(json_string_value(json_object_get(row, "spec")), words));
        ck_assert_double_eq(json_number_value(json_object_get(row, "relative_bound")), bound);
        found++;
    }
    ck_assert_uint_eq(found, 1);
    json_decref(run);
}

/* Where wgmma is, the fast form, by FP8 tensor cores' bounds; elsewhere, or when asked for, the portable one. */
START_TEST(defaults_are_the_fast_form_for_hopper_and_right) {
    sh(FEW "$dcpk run --json");
    expect_code(0);
    expect_decode("splits=2 pv=fp8", 0x1p-4); /* contexts from 1 on: few weights */
    sh(FEW "$dcpk run --json heads=2 dcp=2 context=300 steps=1");
    expect_code(0);
    expect_decode("splits=auto pv=fp8", 0x1p-4); /* few rows */
    sh(FEW "$dcpk run --json heads=32 dcp=2 context=300 steps=1");
    expect_code(0);
    expect_decode("splits=auto pv=fp8", 2e-2);
    sh(FEW "$dcpk run --json heads=2 dcp=2 context=300 steps=1 pv=f16");
    expect_code(0);
    expect_decode("splits=auto pv=f16", 6e-3);
    sh(FEW "$dcpk run --json heads=2 dcp=2 context=300 steps=1 arch=sm_90");
    expect_code(0);
    expect_decode("splits=auto pv=f16", 6e-3);
}
END_TEST

START_TEST(one_flipped_bit_of_any_input_is_code_1) {
    static const char *const inputs[] = {"", "=cache", "=qkv", "=gate", "=weight", "=table"};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        sh(FEW RUN "--form fused --inject%s", inputs[i]);
        ck_assert_msg(last.code == 1, "--inject%s: exit code %d\n%s%s", inputs[i], last.code, last.out, last.err);
        json_t *run = shell_json();
        ck_assert(json_is_false(json_object_get(run, "ok")));
        json_decref(run);
    }
}
END_TEST

/* A text of the JSON of the run in last.out. */
static void expect_run(const char *key, const char *wanted) {
    json_t *run = shell_json(), *value = json_object_get(run, key);
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    ck_assert_msg(text != NULL && strcmp(text, wanted) == 0, "%s is %s, wanted %s", key, text, wanted);
    free(text);
    json_decref(run);
}

START_TEST(run_obeys_the_environment_where_words_say_nothing) {
    sh("DCPK_MULTICAST=0 " SMALL "publish=multicast");
    expect_failure(1, "DCPK_E_MULTICAST");
    sh("DCPK_MULTICAST=1 " SMALL "publish=multicast && " SMALL "publish=multicast >/dev/null");
    expect_code(0);
    sh("DCPK_CPU_SEED=9 " SMALL);
    expect_code(0);
    expect_run("schedule", "\"random\"");
    expect_run("schedule_seed", "9");
    expect_run("seed", "1");
    sh("DCPK_CPU_SEED=9 " SMALL "--seed 4");
    expect_run("schedule", "\"random\"");
    expect_run("schedule_seed", "4");
    sh("DCPK_CPU_SEED=9 " SMALL "--schedule fair");
    expect_run("schedule", "\"fair\"");
    expect_run("schedule_seed", "null");
    sh("DCPK_CPU_DEVICES=2 " SMALL "-d cpu:0,7");
    expect_failure(2, "device 7");
    sh("DCPK_CPU_DEVICES=2 " SMALL);
    expect_code(0);
    sh("DCPK_CPU_SMS=3 " SMALL_RUN);
    expect_code(0);
    expect_in(last.out, " sms=3 ");
    sh("DCPK_CPU_SMS=3 DCPK_LOG= $dcpk run --json heads=4 dcp=2 batch=1 split=0 sms=132");
    expect_failure(1, "DCPK_E_RESIDENCY");
    sh("DCPK_CPU_SMS=6 DCPK_LOG= $dcpk run --form pushed pv=fp8 heads=65 dcp=1 batch=1 sms=12 context=5 steps=1");
    expect_failure(1, "holds 6: use mla_decode arch=sm_90a heads=65 dcp=1 batch=1 q=1 sms=6 ");
}
END_TEST

/* 35 multiprocessors hold 17 clusters of two, and 34 of them as many. */
START_TEST(plan_beside_a_reserved_multiprocessor_fits_the_device) {
    sh("DCPK_CPU_SMS=35 $dcpk run --form pushed pv=fp8 heads=65 dcp=1 batch=16 reserve=1 context=5 steps=1");
    expect_code(0);
}
END_TEST

/* Seeds that move the heaviest weight of a row to its other e4m3 neighbour. */
START_TEST(few_rows_are_judged_by_what_one_weight_can_move) {
    sh("$dcpk run --form pushed pv=fp8 heads=1 dcp=2 context=68 steps=4 seed=11");
    expect_code(0);
    sh("$dcpk run --form pushed pv=fp8 heads=2 dcp=4 context=140 steps=2 seed=40");
    expect_code(0);
}
END_TEST

START_TEST(shares_of_a_gpu_are_refused_on_the_cpu_device_and_beside_event_ordered) {
    sh(FEW "$dcpk run heads=1 dcp=1 context=2 steps=1 --save case >/dev/null");
    expect_code(0);
    static const char *const commands[] = {SMALL, "$dcpk replay case "};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        sh("%s --shares -d cpu", commands[i]);
        expect_failure(2, "the CPU device has a device for each rank");
        sh("%s --shares --event-ordered", commands[i]);
        expect_failure(2, "choose one");
    }
}
END_TEST

START_TEST(every_key_that_run_takes_works) {
    static const char *const words[] = {"watchdog=0", "lineinfo=1",   "checked=1", "parity=arg",       "split=1",
                                        "page=16",    "interleave=4", "splits=3",  "rope=interleaved", "q_lora=0",
                                        "poll=0",     "gate=0",       "qh=5",      "cap=80",           "pv=f16"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        sh(SMALL "--form cycle %s", words[i]);
        expect_code(0);
        expect_in(last.out, words[i]);
    }
}
END_TEST

START_TEST(every_preset_runs_end_to_end) {
    static const char *const models[] = {"kimi-k3 tp=48", "kimi-k2 tp=32", "deepseek-v3 tp=64", "kimi-linear tp=16",
                                         "deepseek-v2-lite tp=8"};
    sh("$dcpk ls models | wc -l");
    ck_assert_int_eq(atoi(last.out), 1 + (int)(sizeof models / sizeof models[0]));
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        sh(FEW "$dcpk run model=%s dcp=2 context=3,70", models[i]);
        expect_code(0);
        expect_in(last.out, "good");
    }
}
END_TEST

START_TEST(an_injected_fault_shows_or_is_refused) {
    static const char *const shows[] = {"--form fused --inject=qkv context=2",
                                        "--form fused --inject=qkv context=500",
                                        "--form wait --inject=qkv context=0,9",
                                        "--inject=gate context=0,9",
                                        "--form pushed --inject=gate context=3",
                                        "--form fused --inject=qkv q_lora=0 context=3",
                                        "--inject=table context=0,2",
                                        "--inject=weight context=1"};
    static const char *const refused[] = {"--inject=cache context=1",     "--inject=table context=0",
                                          "--inject=cache q=4 context=4", "--form pushed --inject=qkv context=3",
                                          "--inject=weight context=0",    "--inject=gate gate=0 context=3"};
    for (size_t i = 0; i < sizeof shows / sizeof shows[0]; i++) {
        sh(FEW "$dcpk run heads=2 dcp=2 steps=1 %s", shows[i]);
        expect_failure(1, "run: out of bounds: ");
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        sh("$dcpk run heads=2 dcp=2 steps=1 %s", refused[i]);
        expect_failure(2, "nothing could fail");
    }
}
END_TEST

START_TEST(words_that_contradict_each_other_are_refused) {
    sh("$dcpk run -e poll=1");
    expect_failure(2, "--event-ordered is poll=0 split=1");
    sh("$dcpk run -e split=0");
    expect_failure(2, "--event-ordered is poll=0 split=1");
    sh("$dcpk run --form wait poll=1");
    expect_failure(2, "--form wait is poll=0");
    sh("$dcpk run --captured --event-ordered heads=1 dcp=2 context=3");
    expect_failure(1, "not on the CPU device, which has a device for each rank");
    sh("$dcpk run --captured parity=arg");
    expect_failure(2, "with parity=arg a graph fits one parity");
    sh("$dcpk run model=kimi-k3");
    expect_failure(2, "tp is 1 unless tp=N");
}
END_TEST

START_TEST(a_missing_device_is_code_3) {
    if (shell_exists("/dev/nvidiactl")) return; /* there is one */
    sh("$dcpk run --device cuda heads=1 dcp=2 context=1 steps=1");
    expect_code(3);
    sh("DCPK_DEVICE=cuda $dcpk run heads=1 dcp=2 context=1 steps=1");
    expect_code(3);
    sh("$dcpk run heads=1 dcp=2 context=1 steps=1 --save case >/dev/null && $dcpk replay case --device cuda");
    expect_code(3);
}
END_TEST

/* ---- replay -------------------------------------------------------------------------------------- */

/* Flips a bit of byte `at` of a tensor of shell_folder/name. */
static void damage(const char *name, const char *tensor, uint64_t at, int bit) {
    char path[256], why[SAFETENSORS_SENTENCE];
    struct safetensors file;
    snprintf(path, sizeof path, "%s/%s", shell_folder, name);
    ck_assert_msg(safetensors_open(path, &file, why), "%s", why);
    const struct safetensors_tensor *found = safetensors_find(&file, tensor);
    ck_assert_msg(found != NULL && at < found->bytes, "%s", tensor);
    off_t place = (off_t)(found->begin + at);
    safetensors_close(&file);
    uint8_t byte;
    int fd = open(path, O_RDWR);
    ck_assert_int_eq((int)pread(fd, &byte, 1, place), 1);
    byte ^= (uint8_t)(1 << bit);
    ck_assert_int_eq((int)pwrite(fd, &byte, 1, place), 1);
    close(fd);
}

#define CASE FEW "$dcpk run heads=2 dcp=2 context=6,70,0 q=2 steps=2 rope=half --save case >/dev/null"
enum { ALL = 4, OWN = 2, BATCH = 6 }; /* heads of all ranks, of one; rows */

START_TEST(a_saved_step_replays) {
    sh(CASE " && " FEW "$dcpk replay case --json");
    expect_code(0);
    json_t *replay = shell_json();
    ck_assert(json_is_true(json_object_get(replay, "ok")));
    ck_assert_uint_eq(json_array_size(json_object_get(replay, "tensors")), 7 + 1 + 2 * 4);
    json_decref(replay);
    sh(FEW "$dcpk replay case --schedule random --seed 5");
    expect_code(0);
    expect_in(last.out, "random");
    sh(FEW "$dcpk replay case --out out >/dev/null && " FEW
           "$dcpk replay case --out again >/dev/null && cmp out again");
    expect_code(0);
    struct safetensors file;
    char path[256], why[SAFETENSORS_SENTENCE];
    snprintf(path, sizeof path, "%s/out", shell_folder);
    ck_assert_msg(safetensors_open(path, &file, why), "%s", why);
    ck_assert_uint_eq(file.count, 1 + 2 * 4);
    ck_assert_ptr_nonnull(safetensors_find(&file, "rank1.kv_cache_after"));
    safetensors_close(&file);
}
END_TEST

START_TEST(replay_names_the_first_tensor_rank_row_and_head_that_differ) {
    static const struct {
        const char *tensor;
        uint64_t at;
        int bit;
        const char *said[2];
    } rows[] = {
        {"query", (3 * ALL + 2) * 576 + 17, 6, {"against the file: query: ", "row 3 head 2 (rank 1) byte 17"}},
        {"rank1.rows", ((2 * ALL + 3) * 512 + 5) * 2 + 1, 6, {"rank1.rows: ", "row 2 head 3"}},
        {"rank0.rows_lse", (1 * ALL + 1) * 4 + 2, 6, {"rank0.rows_lse: ", "row 1 head 1"}},
        {"rank1.output", ((3 * OWN + 1) * 128 + 7) * 2 + 1, 6, {"rank1.output: ", "row 3 head 1"}},
        {"rank0.kv_cache_after", 576 * 3 + 9, 0, {"rank0.kv_cache_after: page 0 slot 3 byte 9", "no row of this step"}},
    };
    sh(CASE);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        damage("case", rows[i].tensor, rows[i].at, rows[i].bit);
        sh(FEW "$dcpk replay case");
        expect_failure(1, rows[i].said[0]);
        expect_in(last.err, rows[i].said[1]);
        expect_in(last.out, "OUT OF BOUNDS");
        damage("case", rows[i].tensor, rows[i].at, rows[i].bit);
    }
    /* One value of a row with its sign flipped, in a row of few keys. */
    damage("case", "rank0.rows", ((0 * ALL + 1) * 512 + 40) * 2 + 1, 7);
    sh(FEW "$dcpk replay case");
    expect_failure(1, "rank0.rows: row 0 head 1 latent 40: ");
    damage("case", "rank0.rows", ((0 * ALL + 1) * 512 + 40) * 2 + 1, 7);
    damage("case", "rank0.kv_b", 200 * 512 * 2 + 1, 6); /* an input: the file's output no longer follows from it */
    sh(FEW "$dcpk replay case");
    expect_failure(1, "against the file: rank0.output: ");
}
END_TEST

START_TEST(replay_takes_what_replay_wrote_and_never_writes_over_its_case) {
    sh(CASE " && cp case kept && $dcpk replay case --out case");
    expect_failure(2, "is the case itself");
    sh("cmp case kept && ln -s case link && $dcpk replay link --out case");
    expect_failure(2, "is the case itself");
    sh("$dcpk replay case --out -");
    expect_failure(2, "results go to a file");
    sh("$dcpk run --save -");
    expect_failure(2, "the case goes to a file");
    ck_assert(!shell_exists("-"));
    sh("DCPK_CPU_SMS=1 $dcpk replay case");
    expect_code(0);
    sh("$dcpk replay case --seed 3");
    expect_failure(2, "add --schedule random");
}
END_TEST

START_TEST(a_file_that_is_no_case_is_code_2_and_says_why) {
    sh("printf 'not a case at all, but long enough' >short; $dcpk replay short");
    expect_failure(2, "short: ");
    sh(CASE);
    sh("head -c 100000 case >cut; $dcpk replay cut");
    expect_failure(2, "cut: ");
    damage("case", "rank0.slots", 7, 7);
    sh("$dcpk replay case");
    expect_failure(2, "rank0.slots");
    sh("$dcpk replay /nonexistent/case");
    expect_failure(2, "/nonexistent/case");
}
END_TEST

START_TEST(save_writes_a_whole_file_or_none) {
    sh(FEW "$dcpk run heads=1 dcp=1 context=2 steps=1 --save nowhere/case >/dev/null");
    expect_failure(1, "nowhere/case");
    sh(FEW "$dcpk run heads=1 dcp=1 context=2 steps=1 --save /dev/full >/dev/null");
    expect_failure(1, "--save");
    sh(FEW "$dcpk run heads=1 dcp=1 context=2 steps=1 --save one >/dev/null && " FEW "$dcpk replay one");
    expect_code(0);
    sh(FEW "$dcpk run heads=1 dcp=1 context=2 steps=1 --save two >/dev/null && cmp one two");
    expect_code(0);
    sh("$dcpk replay one --out nowhere/out >/dev/null");
    expect_failure(1, "nowhere/out");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("command run");
    TCase *tests = tcase_create("command run");
    tcase_add_checked_fixture(tests, shell_setup, shell_teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, run_compares_everything_and_a_second_run_starts_no_compiler);
    tcase_add_test(tests, defaults_are_the_fast_form_for_hopper_and_right);
    tcase_add_test(tests, one_flipped_bit_of_any_input_is_code_1);
    tcase_add_test(tests, run_obeys_the_environment_where_words_say_nothing);
    tcase_add_test(tests, shares_of_a_gpu_are_refused_on_the_cpu_device_and_beside_event_ordered);
    tcase_add_test(tests, every_key_that_run_takes_works);
    tcase_add_test(tests, every_preset_runs_end_to_end);
    tcase_add_test(tests, an_injected_fault_shows_or_is_refused);
    tcase_add_test(tests, words_that_contradict_each_other_are_refused);
    tcase_add_test(tests, a_missing_device_is_code_3);
    tcase_add_test(tests, a_saved_step_replays);
    tcase_add_test(tests, replay_names_the_first_tensor_rank_row_and_head_that_differ);
    tcase_add_test(tests, replay_takes_what_replay_wrote_and_never_writes_over_its_case);
    tcase_add_test(tests, a_file_that_is_no_case_is_code_2_and_says_why);
    tcase_add_test(tests, save_writes_a_whole_file_or_none);
    tcase_add_test(tests, plan_beside_a_reserved_multiprocessor_fits_the_device);
    tcase_add_test(tests, few_rows_are_judged_by_what_one_weight_can_move);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
