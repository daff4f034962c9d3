/* test_doctor_serve.c - dcpk doctor --model: whether it can be served with the devices, toolchains, packs and cache
 * that are here, and if not, why: as builds and runs would go. */
#include "tests/doctor_machine.h"

#include <check.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define expect_number_at(object, key, wanted) ck_assert_int_eq(json_integer_value(json_object_get(object, key)), wanted)

/* ---- can it be served? ---- */

static const struct {
    const char *driver, *words;
    int code;
    const char *needle;
} served[] = {
    {"devices=2", "--dcp 2 --batch 1", 0, "serve kimi-k3 tp=8 dcp=2 q=1: yes (cuda, arch=sm_90a, 132 multiprocessors)"},
    {"devices=2", "--dcp 2 --batch 1", 0,
     "batch 1   yes   mla_query (build, poll=1), mla_decode (build, pv=fp8), dcp_value "
     "(build, split=0)"},
    {"devices=2", "--dcp 2 --batch 200", 0,
     "batch 200 yes   mla_query (build, poll=0), query_wait (build), mla_decode "
     "(build, pv=fp8), dcp_value (build, split=1)"},
    {"devices=2 sms=8", "--dcp 2 --batch 1", 0, "(build, poll=0), query_wait (build)"}, /* 12 CTAs, 8 multiprocessors */
    {"devices=1", "--dcp 1 --batch 4", 0, "serve kimi-k3 tp=8 dcp=1 q=1: yes"},
    {"devices=2", "--dcp 2 --q 2 --batch 3", 1, "problem: mla_query: q must divide batch (a request has q rows)"},
    {"devices=4", "--dcp 4 --q 8 --batch 8", 0, "dcp=4 q=8: yes"},
    {"devices=1", "--dcp 2", 1,
     "problem: dcp=2 is that many ranks with a device each, and there is 1 (cuda); ranks on "
     "one GPU: dcpk run --shares; without GPUs: DCPK_DEVICE=cpu"},
    {"devices=2 no_peer=01", "--dcp 2", 1, "problem: device 0 cannot reach device 1's memory (cuDeviceCanAccessPeer)"},
    {"devices=3 no_peer=12", "--dcp 2", 0, "serve kimi-k3 tp=8 dcp=2 q=1: yes"}, /* the pair is not of the group */
    {"devices=2 version=12020", "--dcp 2", 1,
     "problem: driver 12.2 is too old: kernels are loaded with cuFuncLoad; "
     "install a driver of CUDA 12.4 or newer"},
    {"devices=2 major=8", "--dcp 2", 1, "problem: no architecture of 'dcpk ls arch' runs on Fake 0 (capability 8.0)"},
    {"devices=2 major=10", "--dcp 2", 0, "yes (cuda, arch=sm_100a, 132 multiprocessors)"},
    {"devices=2 major=10", "--dcp 2", 0, "mla_decode (build, pv=f16)"}, /* wgmma is sm_90a's alone */
    {"devices=2 major=12 minor=5", "--dcp 1", 0, "yes (cuda, arch=sm_120, 132 multiprocessors)"},
    {"devices=0", "--dcp 2", 0, "serve kimi-k3 tp=8 dcp=2 q=1: yes (cpu, arch=sm_90a, 132 multiprocessors)"},
};

START_TEST(a_model_is_served_or_the_reason_is_said) {
    if (!doctor_machine_builds()) return;
    sh("FAKE_DRIVER='%s strict=1' $dcpk " SERVE " %s", served[_i].driver, served[_i].words);
    ck_assert_msg(last.code == served[_i].code, "%s %s: exit code %d\n%s%s", served[_i].driver, served[_i].words,
                  last.code, last.out, last.err);
    expect_in(last.out, served[_i].needle);
    ck_assert_str_eq(last.err, "");
    sh("FAKE_DRIVER='%s strict=1' $dcpk " SERVE " %s --json", served[_i].driver, served[_i].words);
    json_t *all = shell_json(), *serve = json_object_get(all, "serve");
    ck_assert(json_is_true(json_object_get(serve, "servable")) == (served[_i].code == 0));
    ck_assert((json_array_size(json_object_get(serve, "reasons")) == 0) == (served[_i].code == 0));
    ck_assert((json_array_size(json_object_get(all, "problems")) == 0) == (served[_i].code == 0));
    expect_number_at(all, "exit", served[_i].code);
    json_decref(all);
}
END_TEST

START_TEST(a_list_of_devices_is_looked_at) {
    if (!doctor_machine_builds()) return;
    sh("DCPK_DEVICE=cuda:0,2 FAKE_DRIVER='devices=3 no_peer=01' $dcpk " SERVE " --dcp 2");
    expect_code(0);
    sh("DCPK_DEVICE=cuda:1,0 FAKE_DRIVER='devices=3 no_peer=01' $dcpk " SERVE " --dcp 2");
    expect_code(1);
    expect_in(last.out, "device 1 cannot reach device 0's memory");
    sh("DCPK_DEVICE=cuda:5 FAKE_DRIVER='devices=3' $dcpk " SERVE);
    expect_code(1);
    expect_in(last.out, "DCPK_DEVICE names device 5, and the driver has 3");
    sh("DCPK_DEVICE=cpu $dcpk " SERVE " --dcp 8");
    expect_code(0);
    expect_in(last.out, "dcp=8 q=1: yes (cpu");
    sh("DCPK_DEVICE=cpu DCPK_CPU_DEVICES=2 $dcpk " SERVE " --dcp 8");
    expect_code(1);
    expect_in(last.out, "there are 2 (cpu); raise DCPK_CPU_DEVICES");
    sh("DCPK_DEVICE=cpu:0 $dcpk " SERVE " --dcp 2");
    expect_code(1);
    expect_in(last.out, "there is 1 (cpu, DCPK_DEVICE's list); name more in it\n");
    sh("DCPK_DEVICE=cpu:77 $dcpk " SERVE);
    expect_code(1);
    expect_in(last.out, "DCPK_DEVICE names device 77, and the driver has 8 (cpu), 0 to 7\n");
    sh("DCPK_DEVICE=cpu:9 $dcpk " SERVE);
    expect_code(1);
    expect_in(last.out, "DCPK_DEVICE names device 9, and the driver has 8 (cpu), 0 to 7; DCPK_CPU_DEVICES says how");
}
END_TEST

START_TEST(a_missing_driver_is_said_and_the_cpu_device_serves) {
    if (!doctor_machine_builds()) return;
    sh("env $no_driver $dcpk " SERVE " --dcp 2");
    if (strstr(last.out, "cuda      driver ") != NULL) return; /* this machine has one of its own */
    expect_code(0);
    expect_in(last.out, "  cuda      driver library libcuda.so.1: ");
    expect_in(last.out, "yes (cpu");
    sh("env $no_driver DCPK_DEVICE=cuda $dcpk doctor");
    expect_code(1);
    expect_in(last.out, "problem: no cuda device: driver library libcuda.so.1: ");
}
END_TEST

START_TEST(launches_that_block_serve_no_ranks_of_one_process) {
    if (!doctor_machine_builds()) return;
    sh("CUDA_LAUNCH_BLOCKING=1 $dcpk " SERVE);
    expect_code(0);
    expect_in(last.out, "note: CUDA_LAUNCH_BLOCKING is set: launches block");
    for (size_t i = 0; i < 2; i++) {
        sh("CUDA_LAUNCH_BLOCKING=1 DCPK_DEVICE=%s $dcpk " SERVE " --dcp 2", i == 0 ? "cuda" : "cpu");
        expect_code(1);
        expect_in(last.out, "are refused (DCPK_E_BLOCKING_LAUNCH): unset it");
    }
    sh("CUDA_LAUNCH_BLOCKING=1 DCPK_DEVICE=cpu $dcpk run heads=2 dcp=2 batch=1"); /* it is so */
    expect_failure(1, "CUDA_LAUNCH_BLOCKING was set");
}
END_TEST

/* ---- toolchains and packs ---- */

START_TEST(without_toolchain_and_packs_the_code_is_3) {
    sh(NO_TOOLCHAIN "$dcpk doctor");
    expect_code(3);
    expect_in(last.out,
              "problem: nothing here assembles PTX: /nonexistent/ptxas is not a program; DCPK_PTXAS names it");
    sh(NO_TOOLCHAIN "$dcpk " SERVE " --dcp 2");
    expect_code(3);
    expect_in(last.out, "nothing here assembles PTX, and no pack has the kernels: install a CUDA toolkit");
}
END_TEST

START_TEST(a_toolchain_that_could_be_chosen_instead_is_named) {
    sh("DCPK_PTXAS=/nonexistent/ptxas $dcpk doctor");
    expect_code(3);
    expect_in(last.out, "builds use ptxas, which is not usable: /nonexistent/ptxas is not a program; DCPK_PTXAS names "
                        "it; driver is: DCPK_TOOLCHAIN=driver");
    sh("DCPK_PTXAS=/nonexistent/ptxas DCPK_TOOLCHAIN=auto $dcpk " SERVE " --dcp 2");
    expect_code(0);
    expect_in(last.out, "mla_query (build, poll=1)");
    sh("DCPK_PTXAS=/nonexistent/ptxas DCPK_TOOLCHAIN=auto DCPK_DEVICE=cpu "
       "FAKE_DRIVER='devices=1 major=10' $dcpk " SERVE " --dcp 2");
    expect_code(1);
    expect_in(last.out, "does not build sm_90a: use a newer toolkit, or a pack made with one");
}
END_TEST

START_TEST(a_broken_pack_is_named_beside_the_good_ones) {
    FILE *file = fopen("bad.dcpk", "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs("this is no pack", file), 0);
    ck_assert_int_eq(fclose(file), 0);
    sh("DCPK_AOT_PATH=$PWD/bad.dcpk:$PWD/none.dcpk $dcpk doctor; true");
    expect_in(last.out, "problem: pack: ");
    expect_in(last.out, "bad.dcpk");
    expect_in(last.out, "none.dcpk");
    sh("chmod 666 bad.dcpk; DCPK_AOT_PATH=$PWD/bad.dcpk $dcpk doctor --json; true");
    json_t *all = shell_json();
    ck_assert(json_is_false(json_object_get(doctor_machine_at(all, "packs", 0), "trusted")));
    expect_in(json_string_value(json_object_get(doctor_machine_at(all, "packs", 0), "reason")), "chmod");
    json_decref(all);
    sh("DCPK_AOT_PATH=$PWD/none.dcpk " NO_TOOLCHAIN "$dcpk doctor");
    expect_code(3);
}
END_TEST

START_TEST(a_pack_serves_where_nothing_assembles) {
    if (!doctor_machine_builds()) return;
    sh("$dcpk aot --model kimi-k3 --tp 8 --dcp 2 --batch 1 --form fused -o $PWD/some.dcpk");
    expect_code(0);
    setenv("DCPK_AOT_PATH", "some.dcpk", 1);
    sh(NO_TOOLCHAIN "$dcpk " SERVE " --dcp 2 --batch 1");
    expect_code(0);
    expect_in(last.out,
              "batch 1   yes   mla_query (pack, poll=1), mla_decode (pack, pv=fp8), dcp_value (pack, split=0)");
    expect_in(last.out, "note: nothing here assembles PTX: ");
    ck_assert_ptr_null(strstr(last.out, "another version"));
    sh("DCPK_JIT=never $dcpk " SERVE " --dcp 2 --batch 1");
    expect_code(0);
    sh("DCPK_JIT=never DCPK_CACHE_DIR=$PWD/cold $dcpk " SERVE " --dcp 2 --batch 1,4");
    expect_code(1);
    expect_in(last.out, "batch 1   yes");
    expect_in(last.out, "batch 4   no");
    expect_in(last.out, "problem: DCPK_JIT=never, and neither a pack of DCPK_AOT_PATH nor the cache has the kernels of "
                        "arch=sm_90a: make a pack with 'dcpk aot'");
    sh("DCPK_JIT=force " NO_TOOLCHAIN "$dcpk " SERVE " --dcp 2 --batch 1"); /* as builds do */
    expect_code(3);
    expect_in(last.out, "mla_query (nowhere");
    expect_in(last.out, "problem: nothing here assembles PTX, and DCPK_JIT=force passes packs over");
    sh("DCPK_JIT=force $dcpk " SERVE " --dcp 2 --batch 1");
    expect_code(0);
    expect_in(last.out, "mla_query (build, poll=1)");
    sh("mkdir t && echo '-- mine' >t/own.ptx.lua && DCPK_TEMPLATE_PATH=$PWD/t $dcpk doctor");
    expect_in(last.out, "note: some.dcpk was made from other templates or by another version");
    unsetenv("DCPK_AOT_PATH");
}
END_TEST

START_TEST(a_damaged_entry_of_a_pack_is_a_problem_and_serves_nobody) {
    if (!doctor_machine_builds()) return;
    sh("$dcpk aot --model kimi-k3 --tp 8 --dcp 2 --batch 1 --form fused -o good.dcpk && cp good.dcpk bad.dcpk && "
       "offset=$($dcpk pack ls good.dcpk --json | python3 -c 'import json, sys\n"
       "print([r[\"offset\"] + 100 for r in json.load(sys.stdin) if r[\"spec\"].startswith(\"mla_decode\")][0])') && "
       "printf '\\377' | dd of=bad.dcpk bs=1 seek=$offset conv=notrunc");
    expect_code(0);
    sh("DCPK_AOT_PATH=bad.dcpk $dcpk doctor");
    expect_code(1);
    expect_in(last.out, "3 kernels, ");
    expect_in(last.out, ", 1 bad\n");
    expect_in(last.out, "problem: pack: bad.dcpk: entry ");
    expect_in(last.out, "(mla_decode ");
    sh("DCPK_AOT_PATH=bad.dcpk $dcpk doctor --json");
    json_t *all = shell_json();
    ck_assert_int_eq((int)json_integer_value(json_object_get(doctor_machine_at(all, "packs", 0), "bad")), 1);
    json_decref(all);
    sh("DCPK_CACHE_DIR=$PWD/cold DCPK_JIT=never DCPK_AOT_PATH=bad.dcpk $dcpk " SERVE " --dcp 2 --batch 1");
    expect_code(1);
    expect_in(last.out, "problem: DCPK_JIT=never, and an entry of a pack is damaged: bad.dcpk: entry ");
    ck_assert_ptr_null(strstr(last.out, "a pack of DCPK_AOT_PATH nor"));
    /* As the generator does: a sound one behind it serves. */
    sh("DCPK_JIT=never DCPK_AOT_PATH=bad.dcpk:good.dcpk $dcpk " SERVE " --dcp 2 --batch 1");
    expect_code(1);
    expect_in(last.out, "batch 1   yes ");
    sh("mkdir none && DCPK_CACHE_DIR=$PWD/none DCPK_JIT=never DCPK_AOT_PATH=bad.dcpk $dcpk build $($dcpk pack ls "
       "good.dcpk --json | python3 -c 'import json, sys\n"
       "print([r[\"spec\"] for r in json.load(sys.stdin) if r[\"spec\"].startswith(\"mla_decode\")][0])')");
    expect_failure(1, "bad.dcpk: 3 entries; not used: bad.dcpk: entry ");
}
END_TEST

START_TEST(a_warm_cache_serves_where_nothing_may_be_compiled) {
    if (!doctor_machine_builds()) return;
    sh("$dcpk aot --model kimi-k3 --tp 8 --batch 1 --form fused -o some.dcpk && DCPK_JIT=never $dcpk " SERVE);
    expect_code(0);
    expect_in(last.out,
              "batch 1   yes   mla_query (cache, poll=0), mla_decode (cache, pv=fp8), dcp_value (cache, split=0)");
    sh("$dcpk " SERVE " --batch 1,2");
    expect_code(0);
    expect_in(last.out, "batch 1   yes   mla_query (cache, ");
    expect_in(last.out, "batch 2   yes   mla_query (build, ");
    sh("DCPK_JIT=never $dcpk " SERVE " --batch 2");
    expect_code(1);
    expect_in(last.out, "mla_query (nowhere, ");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("doctor_serve");
    TCase *tcase = tcase_create("doctor_serve");
    tcase_add_checked_fixture(tcase, doctor_machine_setup, shell_teardown);
    tcase_add_loop_test(tcase, a_model_is_served_or_the_reason_is_said, 0, (int)(sizeof served / sizeof served[0]));
    tcase_add_test(tcase, a_list_of_devices_is_looked_at);
    tcase_add_test(tcase, a_missing_driver_is_said_and_the_cpu_device_serves);
    tcase_add_test(tcase, launches_that_block_serve_no_ranks_of_one_process);
    tcase_add_test(tcase, without_toolchain_and_packs_the_code_is_3);
    tcase_add_test(tcase, a_toolchain_that_could_be_chosen_instead_is_named);
    tcase_add_test(tcase, a_broken_pack_is_named_beside_the_good_ones);
    tcase_add_test(tcase, a_pack_serves_where_nothing_assembles);
    tcase_add_test(tcase, a_damaged_entry_of_a_pack_is_a_problem_and_serves_nobody);
    tcase_add_test(tcase, a_warm_cache_serves_where_nothing_may_be_compiled);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
