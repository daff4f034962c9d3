/* test_check_ranks.c - check_ranks and bench_ranks, the programs of `make check-gpu GPUS=N` and `make bench-gpu
 * GPUS=N`: that they run all they claim to on the CPU device, that what is wrong makes them fail, and that on hardware
 * they and the scripts around them refuse to start where multicast is not switched off or GPUs are missing. */
#include "tests/shell.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OFF "NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1 "

/* $b: the build folder; lines run at the root of the tree, kernels come from the suites' own cache. */
static void setup(void) {
    const char *cache = getenv("suite_cache");
    shell_setup();
    if (cache != NULL) setenv("DCPK_CACHE_DIR", cache, 1);
    unsetenv("NCCL_NVLS_ENABLE");
    unsetenv("TORCH_SYMM_MEM_DISABLE_MULTICAST");
    unsetenv("NVSHMEM_DISABLE_NVLS");
}

enum { WORDS_CASES = 16 };
#define IN_TREE "here=$PWD; b=$(dirname $dcpk); cd $tree; "
/* Layers are run under the memory checker by suites of their own; here it would cost half of the time. */
#define PLAIN IN_TREE "DCPK_CPU_CHECK=0 "

/* ---- what they do -------------------------------------------------------------------------------- */

static size_t count_of(const char *text, const char *word) {
    size_t count = 0;
    for (; (text = strstr(text, word)) != NULL; text += strlen(word))
        count++;
    return count;
}

START_TEST(two_ranks_do_all_uses_eager_and_captured_and_report_a_dead_one) {
    sh(PLAIN "$b/tests/check_ranks --device cpu --ranks 2 --model kimi-k3 context=9");
    expect_code(0);
    expect_in(last.out, "kimi-k3         12     2  eager          6  0-20 us");
    expect_in(last.out, "kimi-k3         12     2  captured       6  0-20 us");
    expect_in(last.out, "right: rank 1 never launched, named by the 1 other within 0.0");
    ck_assert_uint_eq(count_of(last.out, "  right"), 3);
    expect_in(last.out, "check_ranks: 2 ranks, cpu: all right");
}
END_TEST

START_TEST(a_rank_that_never_launches_is_named_by_all_three_others) {
    sh(PLAIN "$b/tests/check_ranks --device cpu --ranks 4 --model kimi-k3 --mode dead context=9");
    expect_code(0);
    expect_in(last.out, "right: rank 3 never launched, named by all 3 others within 0.0");
    ck_assert_ptr_null(strstr(last.out, "eager"));
}
END_TEST

START_TEST(a_flipped_bit_of_a_key_is_found_by_the_reference) {
    sh(PLAIN "$b/tests/check_ranks --device cpu --ranks 2 --model kimi-k3 --mode eager --delay 0 --inject context=9");
    expect_code(1);
    expect_in(last.out, "WRONG: against the reference: ");
    expect_in(last.out, "check_ranks: 2 ranks, cpu: NOT right");
}
END_TEST

START_TEST(a_bit_that_flips_between_two_uses_is_found_by_comparing_them) {
    sh(PLAIN "$b/tests/check_ranks --device cpu --ranks 2 --model kimi-k3 --mode captured --inject=later context=9");
    expect_code(1);
    expect_in(last.out, "WRONG: use 3 (step 0) rank 0: rows row 0");
    expect_in(last.out, "not as in the first use of the same inputs");
}
END_TEST

/* Faults planted into a copy of the templates: sed's words and file, the mode that must find it, what it says. */
static const struct {
    const char *plant, *file, *mode, *message;
} planted[] = {
    {"/bra .*again/d", "tests/templates/delay.ptx.lua", "eager", "WRONG: rank 0 was late for "},
    {"/st.global.u64  .*count/d", "tests/templates/delay.ptx.lua", "captured", "WRONG: rank 0 was late 0 times, not 3"},
    {"s/ld.global.u64 \\($(watch.bound)\\), .*/mov.b64 \\1, 50000000;/", "templates/lib/lamport.lua", "dead",
     "WRONG: rank 1 never launched: the others left after "},
    {"/0x7fff7fff;/d", "templates/lib/merge.lua", "dead",
     "WRONG: rank 1 never launched, and 1536 of 1536 values of rank 0's output are not NaN"},
    {"/div.u32 .*w.other.*HEAD_CHUNKS/s/$(w.word)/0/", "templates/lib/query_poll.lua", "dead",
     "WRONG: rank 1 never launched, and rank 0 says: "},
    {"/rearm_word(\"lse\", at)/d", "templates/lib/sources.lua", "eager", "WRONG: against the reference: "},
};

START_TEST(a_fault_planted_in_a_template_is_found) {
    sh(PLAIN "cp -r templates $here/ && mkdir $here/tests && cp -r tests/templates $here/tests/ && cd $here && "
             "sed -i '%s' %s && ! cmp -s %s $tree/%s && "
             "$b/tests/check_ranks --device cpu --ranks 2 --model kimi-k3 --mode %s --uses 3 context=9",
       planted[_i].plant, planted[_i].file, planted[_i].file, planted[_i].file, planted[_i].mode);
    expect_code(1);
    expect_in(last.out, planted[_i].message);
}
END_TEST

START_TEST(the_bench_runs_every_part_on_the_cpu_device_and_times_nothing) {
    static const char *const parts[] = {"on the CPU device: everything runs once and is checked; no timings",
                                        "latency: ",
                                        "bandwidth: ",
                                        "all ranks to all their peers at once, GB/s sent by each:     came     came",
                                        "node(X): ",
                                        "     1      1         0.0         0.0  ran, outputs finite",
                                        "     2      1         6.8        12.0  ran, outputs finite",
                                        "     1      128  ran, outputs finite",
                                        "bench_ranks: done"};
    sh(IN_TREE "$b/tests/bench_ranks --device cpu --ranks 2 --short --csv $here/t.csv && cat $here/t.csv >&2");
    expect_code(0);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        expect_in(last.out, parts[i]);
    ck_assert_str_eq(last.err, "kind,ranks,what,value,unit\n"); /* no figure that a GPU's could be taken for */
}
END_TEST

START_TEST(the_cpu_device_has_one_part_of_the_script) {
    sh(IN_TREE "CHECK_ONLY=suites tests/check_gpu $b 2 cpu");
    expect_code(2);
    expect_in(last.err, "check-gpu: the CPU device has the part ranks alone, not 'suites'");
}
END_TEST

/* A table or a csv that nobody can read is no success; a csv of before outlives a run that never began. */
START_TEST(what_cannot_be_written_is_said) {
    sh(IN_TREE "$b/tests/check_ranks --device cpu --ranks 1 --model kimi-k3 --mode dead >/dev/full");
    expect_code(1);
    expect_in(last.err, "check_ranks: the table could not be written");
    sh(IN_TREE "$b/tests/bench_ranks --device cpu --ranks 2 --short --csv /dev/full");
    expect_code(1);
    expect_in(last.out, "bench_ranks: done, but the csv is not whole");
    sh(IN_TREE "echo old >$here/t.csv; $b/tests/bench_ranks --device cuda --csv $here/t.csv; cat $here/t.csv");
    ck_assert_str_eq(last.out, "old\n");
}
END_TEST

START_TEST(one_rank_alone_says_that_no_rank_died) {
    sh(PLAIN "$b/tests/check_ranks --device cpu --ranks 1 --model kimi-k3 --mode dead");
    expect_code(0);
    expect_in(last.out, "skipped: one rank alone");
    expect_in(last.out, "check_ranks: 1 rank, cpu: all right");
}
END_TEST

START_TEST(the_bench_finds_outputs_that_were_not_written) {
    sh(PLAIN "cp -r templates $here/ && mkdir $here/tests && cp -r tests/templates $here/tests/ && cd $here && "
             "sed -i '/st.global.b32 .*pair/d' templates/lib/merge.lua && ! cmp -s templates/lib/merge.lua "
             "$tree/templates/lib/merge.lua && $b/tests/bench_ranks --device cpu --ranks 2 --short");
    expect_code(1);
    expect_in(last.err, "bench_ranks: output: a value is not finite, or was not written");
}
END_TEST

START_TEST(the_bench_finds_a_flipped_bit_of_what_was_sent) {
    sh(IN_TREE "$b/tests/bench_ranks --device cpu --ranks 2 --short --inject");
    expect_code(1);
    expect_in(last.err, "bench_ranks: bandwidth: chunk 255 of rank 0 at rank 1 is ");
}
END_TEST

/* ---- what they refuse ---------------------------------------------------------------------------- */

static const struct {
    const char *said, *message; /* the environment; what the program says of it */
} unsafe[] = {
    {"TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1",
     "NCCL_NVLS_ENABLE is not set: on hardware it must be 0"},
    {"NCCL_NVLS_ENABLE=1 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1",
     "NCCL_NVLS_ENABLE is 1: on hardware it must be 0"},
    {"NCCL_NVLS_ENABLE=0 NVSHMEM_DISABLE_NVLS=1",
     "TORCH_SYMM_MEM_DISABLE_MULTICAST is not set: on hardware it must be 1"},
    {"NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=0 NVSHMEM_DISABLE_NVLS=1",
     "TORCH_SYMM_MEM_DISABLE_MULTICAST is 0: on hardware it must be 1"},
    {"NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1",
     "NVSHMEM_DISABLE_NVLS is not set: on hardware it must be 1"},
    {"NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=",
     "NVSHMEM_DISABLE_NVLS is : on hardware it must be 1"},
    {OFF "DCPK_MULTICAST=1", "DCPK_MULTICAST is 1: on hardware it must not be"},
};
static const char *const programs[] = {"check_ranks", "bench_ranks",    "bench_gpu",
                                       "foreign_gpu", "test_on_device", "test_gpu_layer"};

START_TEST(no_program_starts_on_hardware_with_multicast_on) {
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++) {
        sh(IN_TREE "DCPK_TEST_DEVICE=cuda %s $b/tests/%s", unsafe[_i].said, programs[p]);
        expect_code(2);
        expect_in(last.err, programs[p]);
        expect_in(last.err, unsafe[_i].message);
    }
}
END_TEST

START_TEST(no_script_starts_on_hardware_with_multicast_on) {
    static const char *const wrong[] = {"NCCL_NVLS_ENABLE=1", "TORCH_SYMM_MEM_DISABLE_MULTICAST=0",
                                        "NVSHMEM_DISABLE_NVLS=", "DCPK_MULTICAST=1"};
    static const char *const scripts[] = {"check_gpu", "check-gpu: ", "bench_gpu", "bench-gpu: "};
    for (size_t i = 0; i < 4; i += 2) {
        sh(IN_TREE "%s tests/%s $b 2 cuda", wrong[_i], scripts[i]);
        expect_code(2);
        expect_in(last.err, scripts[i + 1]);
        expect_in(last.err, "no multicast here); unset it");
    }
}
END_TEST

/* The CPU device as a driver of hardware, with one GPU. */
START_TEST(fewer_gpus_than_ranks_are_refused_with_what_else_there_is) {
    sh("cc --version >/dev/null 2>&1");
    if (last.code != 0) {
        printf("skipped: no C compiler for a driver with one GPU\n");
        return;
    }
    sh("f=$(dirname $dcpk); echo 'int cuDeviceGetCount(int *n) { *n = 1; return 0; }' >one.c && "
       "cc -shared -fPIC -o libcuda.so.1 one.c -Wl,--no-as-needed $f/libdcpkcpu.so "
       "-Wl,-rpath,$f");
    expect_code(0);
    sh(IN_TREE "LD_LIBRARY_PATH=$here " OFF "$b/tests/check_ranks --ranks 2");
    expect_code(3);
    expect_in(last.err,
              "check_ranks: 2 ranks with a GPU each, and there are 1 here: --ranks 1 (make check-gpu GPUS=1) at "
              "most; GPUS=1 also checks ranks that share one GPU, event-ordered and on shares");
    sh(IN_TREE "LD_LIBRARY_PATH=$here " OFF "$b/tests/bench_ranks --ranks 8");
    expect_code(3);
    expect_in(last.err, "bench_ranks: 8 ranks with a GPU each, and there are 1 here");
    sh(IN_TREE "LD_LIBRARY_PATH=$here CHECK_ONLY=ranks tests/check_gpu $b 2");
    expect_code(3);
    expect_in(last.err, "2 ranks with a GPU each, and there are 1 here");
}
END_TEST

static const struct {
    const char *words, *message;
} bad[] = {
    {"check_ranks --ranks 0", "--ranks: a number from 1 to 32"},
    {"check_ranks --ranks 2x", "--ranks: a number from 1 to 32"},
    {"check_ranks --steps 4", "--steps: a multiple of 3"},
    {"check_ranks --model gpt", "gpt: --model is kimi-k3 or deepseek-v3"},
    {"check_ranks --mode slow", "slow: --mode is eager, captured or dead"},
    {"check_ranks --inject=never", "never: --inject alone, or --inject=later"},
    {"check_ranks context=1,,2", "context=L1,L2,...: up to 64 lengths"},
    {"check_ranks context=0,0", "0,0: context=L1,L2,...: padding alone"},
    {"check_ranks --device cpu watchdog=0", "watchdog=0: nobody would notice a dead rank"},
    {"check_ranks --device cpu --inject=later --uses 3", "--inject=later: the bit flips after the first round"},
    {"check_ranks --device cpu --inject=later --mode dead", "--inject=later: the bit flips after the first round"},
    {"check_ranks --device auto",
     "--device: cuda or cpu, each with :LIST of device numbers or without (cuda:0,2), not 'auto'"},
    {"check_ranks --device cpux", "--device: cuda or cpu"},
    {"bench_ranks --device auto", "--device: cuda or cpu"},
    {"bench_ranks --device ''", "--device: cuda or cpu"},
    {"bench_ranks --device cpu:", "--device: cuda or cpu"},
    {"check_ranks publish=multicast", "publish=multicast: the models, --ranks, contexts and publish=peer say this"},
    {"check_ranks colour=red", "colour"},
    {"check_ranks --what", "unrecognized option"},
    {"bench_ranks --ranks 1", "--ranks: a number from 2 to 32 (one rank: bench_gpu)"},
    {"bench_ranks kernel", "kernel: is no option"},
    {"bench_ranks --csv /nowhere/t.csv", "/nowhere/t.csv: cannot be written"}};

START_TEST(wrong_words_are_refused_before_anything_runs) {
    sh(IN_TREE "$b/tests/%s", bad[_i].words);
    expect_code(2);
    expect_in(last.err, bad[_i].message);
    ck_assert_uint_eq(last.out_length, 0);
}
END_TEST

/* $fake: a build folder of programs that name themselves in $here/pid and sleep. */
#define SLEEPERS                                                                                                       \
    IN_TREE "fake=$here/fake; mkdir -p $fake/tests; for p in dcpk tests/check_ranks tests/bench_ranks; do "            \
            "printf '#!/bin/sh\\necho $$ >%%s/pid\\nexec sleep 60\\n' $here >$fake/$p; chmod +x $fake/$p; done; "

START_TEST(what_ends_a_script_ends_its_program) {
    static const char *const scripts[] = {"check_gpu $fake 2 cpu", "bench_gpu $fake 2 cpu",
                                          "run_all --one $here $fake/tests/check_ranks"};
    static const char *const signals[] = {"TERM", "HUP"};
    sh(SLEEPERS "tests/%s & script=$!; "
                "for i in $(seq 100); do [ -s $here/pid ] && break; sleep 0.1; done; read pid <$here/pid; "
                "kill -%s $script; wait $script; echo code $?; kill -0 $pid 2>/dev/null && kill $pid && echo left",
       scripts[_i % 3], signals[_i / 3]);
    expect_in(last.out, _i / 3 ? "code 129" : "code 143");
    ck_assert_ptr_null(strstr(last.out, "left"));
}
END_TEST

START_TEST(the_scripts_refuse_wrong_words) {
    static const char *const words[] = {
        "check_gpu",
        "check_gpu nowhere",
        "check_gpu $b 0",
        "check_gpu $b two",
        "check_gpu $b 33 cpu",
        "check_gpu $b 99999999999999999999 cpu",
        "check_gpu $b 2 gpu",
        "check_gpu $b 2 cpu more",
        "check_gpu --words two cpu",
        "bench_gpu $b 2",
        "bench_gpu nowhere 2 cpu",
        "bench_gpu $b '' cpu",
        "bench_gpu $b 33 cpu",
        "bench_gpu $b 2 cpu:0",
        "bench_gpu $b 1 cpu",
        "bench_gpu --words 2 gpu",
    };
    ck_assert_uint_eq(sizeof words / sizeof *words, WORDS_CASES);
    sh(IN_TREE "tests/%s", words[_i]);
    expect_code(2);
    expect_in(last.err, "; usage: ");
    ck_assert_uint_eq(last.out_length, 0);
}
END_TEST

int main(void) {
    char tree[4096];
    const char *cache = getenv("DCPK_CACHE_DIR");
    if (getcwd(tree, sizeof tree) == NULL) return 1;
    setenv("tree", tree, 1);
    if (cache != NULL) setenv("suite_cache", cache, 1);
    Suite *suite = suite_create("check_ranks");
    TCase *tests = tcase_create("check_ranks");
    tcase_add_checked_fixture(tests, setup, shell_teardown);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, two_ranks_do_all_uses_eager_and_captured_and_report_a_dead_one);
    tcase_add_test(tests, a_rank_that_never_launches_is_named_by_all_three_others);
    tcase_add_test(tests, a_flipped_bit_of_a_key_is_found_by_the_reference);
    tcase_add_test(tests, a_bit_that_flips_between_two_uses_is_found_by_comparing_them);
    tcase_add_loop_test(tests, a_fault_planted_in_a_template_is_found, 0, sizeof planted / sizeof *planted);
    tcase_add_test(tests, the_bench_runs_every_part_on_the_cpu_device_and_times_nothing);
    tcase_add_test(tests, the_cpu_device_has_one_part_of_the_script);
    tcase_add_test(tests, what_cannot_be_written_is_said);
    tcase_add_test(tests, one_rank_alone_says_that_no_rank_died);
    tcase_add_test(tests, the_bench_finds_outputs_that_were_not_written);
    tcase_add_test(tests, the_bench_finds_a_flipped_bit_of_what_was_sent);
    tcase_add_loop_test(tests, no_program_starts_on_hardware_with_multicast_on, 0, sizeof unsafe / sizeof *unsafe);
    tcase_add_loop_test(tests, no_script_starts_on_hardware_with_multicast_on, 0, 4);
    tcase_add_test(tests, fewer_gpus_than_ranks_are_refused_with_what_else_there_is);
    tcase_add_loop_test(tests, wrong_words_are_refused_before_anything_runs, 0, sizeof bad / sizeof *bad);
    tcase_add_loop_test(tests, the_scripts_refuse_wrong_words, 0, WORDS_CASES);
    tcase_add_loop_test(tests, what_ends_a_script_ends_its_program, 0, 6);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
