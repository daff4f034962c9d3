/* test_doctor_command.c - dcpk doctor, on machines that the fake driver plays: what it lists, what it calls a problem,
 * what it says to do, its exit codes; and that it only looks. Whether a model can be served: test_doctor_serve.c. */
#include "tests/doctor_machine.h"

#include "tests/fake_open.h"

#include <check.h>
#include <dcpk/gen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define expect_text_at(object, key, wanted) ck_assert_str_eq(json_string_value(json_object_get(object, key)), wanted)
#define expect_number_at(object, key, wanted) ck_assert_int_eq(json_integer_value(json_object_get(object, key)), wanted)

/* ---- what is listed ---- */

START_TEST(devices_are_listed_with_what_the_driver_says) {
    sh("FAKE_DRIVER='devices=3 sms=114 no_peer=12 multicast=1 memory=81920 strict=1' $dcpk doctor --json; true");
    json_t *all = shell_json();
    const json_t *cuda = doctor_machine_at(all, "drivers", 0), *cpu = doctor_machine_at(all, "drivers", 1),
                 *device = doctor_machine_at(cuda, "devices", 2);
    expect_text_at(cuda, "kind", "cuda");
    expect_text_at(cuda, "version", "13.0");
    ck_assert(json_is_true(json_object_get(cuda, "usable")));
    ck_assert_uint_eq(json_array_size(json_object_get(cuda, "devices")), 3);
    expect_number_at(device, "ordinal", 2);
    expect_text_at(device, "name", "Fake 2");
    expect_text_at(device, "capability", "9.0");
    expect_text_at(device, "arch", "sm_90a");
    expect_number_at(device, "sms", 114);
    expect_number_at(device, "memory_bytes", (json_int_t)81920 << 20);
    ck_assert(json_is_true(json_object_get(device, "multicast")));
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 3; k++) {
            bool reaches = !((i == 1 && k == 2) || (i == 2 && k == 1));
            const json_t *cell = json_array_get(doctor_machine_at(cuda, "peer_access", i), k);
            ck_assert_msg(json_is_true(cell) == reaches, "%zu %zu", i, k);
        }
    expect_text_at(cpu, "kind", "cpu");
    ck_assert_uint_eq(json_array_size(json_object_get(cpu, "devices")), 8);
    ck_assert(json_is_null(json_object_get(all, "serve")));
    json_decref(all);
    sh("FAKE_DRIVER='devices=3 no_peer=12 strict=1' $dcpk doctor; true");
    expect_in(last.out, "peer access: row reaches column (1), does not (0)\n       0: - 1 1\n       1: 1 - 0\n"
                        "       2: 1 0 -\n");
    sh("FAKE_DRIVER='devices=2 multicast=1 strict=1' $dcpk doctor; true");
    expect_in(last.out, "peer access: every pair");
    expect_in(last.out, "reported");
    ck_assert_ptr_null(strchr(last.out, '\033'));
}
END_TEST

START_TEST(toolchains_are_listed_with_what_they_build) {
    static const char *const names[] = {"ptxas", "nvjitlink", "driver", "nvrtc"};
    unsetenv("DCPK_NVJITLINK");
    unsetenv("DCPK_NVRTC");
    sh("$dcpk doctor --json; true");
    json_t *all = shell_json();
    ck_assert_uint_eq(json_array_size(json_object_get(all, "toolchains")), 4);
    for (size_t i = 0; i < 4; i++) {
        const json_t *row = doctor_machine_at(all, "toolchains", i);
        expect_text_at(row, "name", names[i]);
        if (json_is_true(json_object_get(row, "usable"))) {
            ck_assert_uint_gt(json_string_length(json_object_get(row, "version")), 0);
            ck_assert_uint_gt(json_string_length(json_object_get(row, "path")), 0);
            expect_text_at(row, "reason", "");
        } else
            ck_assert_uint_gt(json_string_length(json_object_get(row, "reason")), 0);
    }
    /* the driver's compiler builds for what is there: capability 9.0 */
    const json_t *archs = json_object_get(doctor_machine_at(all, "toolchains", 2), "archs");
    ck_assert_uint_eq(json_array_size(archs), 2);
    ck_assert_str_eq(json_string_value(json_array_get(archs, 0)), "sm_90");
    ck_assert_str_eq(json_string_value(json_array_get(archs, 1)), "sm_90a");
    const json_t *ptxas = doctor_machine_at(all, "toolchains", 0);
    bool has_90a = false;
    for (size_t i = 0; i < json_array_size(json_object_get(ptxas, "archs")); i++)
        has_90a = has_90a || strcmp(json_string_value(doctor_machine_at(ptxas, "archs", i)), "sm_90a") == 0;
    ck_assert(has_90a == json_is_true(json_object_get(ptxas, "usable")));
    json_decref(all);
}
END_TEST

/* The list is the compiler's own word: it is held to it. */
START_TEST(every_architecture_of_the_list_assembles) {
    if (!doctor_machine_builds()) return;
    sh("$dcpk doctor --json");
    json_t *all = shell_json();
    for (size_t t = 0; t < 3; t++) {
        const json_t *row = doctor_machine_at(all, "toolchains", t), *archs = json_object_get(row, "archs");
        for (size_t i = 0; json_is_true(json_object_get(row, "chosen")) && i < json_array_size(archs); i++) {
            sh("$dcpk build query_norm heads=2 batch=1 arch=%s", json_string_value(json_array_get(archs, i)));
            expect_code(0);
        }
    }
    json_decref(all);
}
END_TEST

struct seen {
    unsigned count, chosen;
    unsigned stop_at;
};

static int32_t see(void *self, const dcpk_toolchain_info *info) {
    struct seen *seen = self;
    seen->chosen += info->chosen != 0 && strcmp(info->name, "nvrtc") != 0;
    ck_assert((info->status == DCPK_OK) == (info->reason[0] == '\0'));
    ck_assert((info->status == DCPK_OK) == (info->text[0] != '\0'));
    ck_assert(info->status == DCPK_OK || info->arch_count == 0);
    return ++seen->count == seen->stop_at;
}

START_TEST(a_program_asks_for_the_same_list) {
    dcpk_gen *gen;
    dcpk_error error;
    struct seen all = {0}, two = {.stop_at = 2}, automatic = {0};
    dcpk_error_init(&error);
    ck_assert_int_eq(dcpk_gen_open(NULL, &gen, &error), DCPK_OK);
    ck_assert_int_eq(dcpk_gen_toolchains(gen, see, &all, &error), DCPK_OK);
    ck_assert_uint_eq(all.count, 4);
    ck_assert_uint_eq(all.chosen, 1);
    ck_assert_int_eq(dcpk_gen_toolchains(gen, see, &two, &error), DCPK_OK);
    ck_assert_uint_eq(two.count, 2);
    ck_assert_int_eq(dcpk_gen_toolchains(NULL, see, &two, &error), DCPK_E_ARG);
    ck_assert_int_eq(dcpk_gen_toolchains(gen, NULL, &two, &error), DCPK_E_ARG);
    dcpk_gen_close(gen);
    dcpk_gen_options options = {.size = sizeof options, .toolchain = "auto", .ptxas = "/nonexistent/ptxas"};
    ck_assert_int_eq(dcpk_gen_open(&options, &gen, &error), DCPK_OK);
    setenv("DCPK_LIBCUDA", fake_driver_path(), 1); /* read already: what it was when the generator was opened counts */
    ck_assert_int_eq(dcpk_gen_toolchains(gen, see, &automatic, &error), DCPK_OK);
    ck_assert_uint_le(automatic.chosen, 1);
    dcpk_gen_close(gen);
    ck_assert_int_eq(dcpk_gen_open(&options, &gen, &error), DCPK_OK);
    automatic = (struct seen){0};
    ck_assert_int_eq(dcpk_gen_toolchains(gen, see, &automatic, &error), DCPK_OK);
    ck_assert_uint_eq(automatic.chosen, 1); /* the driver's compiler: the first that is there */
    dcpk_gen_close(gen);
}
END_TEST

/* ---- it only looks ---- */

START_TEST(the_doctor_makes_no_file_and_starts_nothing) {
    sh("find . -not -name out -not -name err | sort >/tmp/dcpk-before.$$; $dcpk " SERVE " --dcp 2 --batch 1,64; "
       "$dcpk doctor --json; find . -not -name out -not -name err | sort | diff /tmp/dcpk-before.$$ - >&2; code=$?; "
       "rm -f /tmp/dcpk-before.$$; exit $code");
    expect_code(0); /* the strict driver ends what loads, launches, takes memory or touches multicast objects */
    ck_assert(!shell_exists("cache"));
    ck_assert(!shell_exists("home"));
    ck_assert_int_eq(mkdir("cache", 0700), 0); /* the compiler's version is not remembered either */
    sh("$dcpk doctor >/dev/null; ls -A cache");
    ck_assert_str_eq(last.out, "");
}
END_TEST

/* ---- the cache ---- */

START_TEST(an_untrusted_cache_is_a_problem_with_its_fix) {
    ck_assert_int_eq(mkdir("cache", 0700), 0);
    ck_assert_int_eq(chmod("cache", 0777), 0);
    sh("$dcpk doctor");
    ck_assert_int_ne(last.code, 0);
    expect_in(last.out, "may be written by everyone (mode 0777); run: chmod -R go-w '");
    expect_in(last.out, "problem: cache: ");
    sh("$dcpk doctor --json; true");
    json_t *all = shell_json();
    ck_assert(json_is_false(json_object_get(json_object_get(all, "cache"), "trusted")));
    json_decref(all);
    ck_assert_int_eq(chmod("cache", 0700), 0);
    sh("$dcpk doctor --json; true");
    all = shell_json();
    ck_assert(json_is_true(json_object_get(json_object_get(all, "cache"), "trusted")));
    json_decref(all);
}
END_TEST

/* Folders that nobody can make, root neither. */
START_TEST(a_cache_that_cannot_be_written_is_a_problem) {
    if (!doctor_machine_builds()) return;
    sh("DCPK_CACHE_DIR=/proc/1/foo/bar $dcpk doctor");
    expect_code(1);
    expect_in(last.out, "problem: cache: /proc/1/foo/bar cannot be written: /proc/1: ");
    sh("DCPK_CACHE_DIR=/proc/1/foo/bar DCPK_JIT=never $dcpk doctor"); /* nothing would be written */
    expect_code(0);
    if (geteuid() != 0) {
        sh("mkdir -m 500 mine && DCPK_CACHE_DIR=$PWD/mine/deep/er $dcpk doctor");
        expect_code(1);
        expect_in(last.out, "/mine: Permission denied; every process builds its kernels anew");
    }
    sh("DCPK_CACHE_DIR=$PWD/new/one $dcpk doctor");
    expect_code(0);
    ck_assert(!shell_exists("new"));
}
END_TEST

/* ---- any bytes ---- */

START_TEST(bytes_that_are_no_utf8_are_shown) {
    sh("DCPK_CACHE_DIR=$PWD/$(printf '\\377\\303\\251') DCPK_AOT_PATH=$(printf '\\376') "
       "DCPK_LOG=$(printf '\\355\\240\\200') $dcpk doctor --json; true");
    ck_assert_str_eq(last.err, "");
    json_t *all = shell_json();
    expect_in(json_string_value(json_object_get(json_object_get(all, "cache"), "path")), "/\uFFFD\u00e9");
    expect_text_at(doctor_machine_at(all, "packs", 0), "path", "\uFFFD");
    json_decref(all);
    sh("$dcpk doctor --model $(printf '\\377')");
    expect_failure(2, "there is no model '\xff'");
}
END_TEST

/* ---- variables ---- */

static const struct {
    const char *setting, *needle;
} slips[] = {
    {"DCPK_TOOLCHAIN=gcc", "DCPK_TOOLCHAIN=gcc is not understood: there is no toolchain 'gcc' in dcpk "},
    {"DCPK_LOCK_TIMEOUT=soon", "DCPK_LOCK_TIMEOUT=soon is not understood: a whole number of seconds, 0 to 86400"},
    {"DCPK_DEVICE=gpu", "DCPK_DEVICE=gpu is not understood: auto, cpu or cuda"},
    {"DCPK_DEVICE=cuda:", "DCPK_DEVICE=cuda: is not understood"},
    {"DCPK_PDL=yes", "DCPK_PDL=yes is not understood: 1 or 0"},
    {"DCPK_JIT=maybe", "DCPK_JIT=maybe is not understood: auto, never or force"},
    {"DCPK_CACHE_MAX=2GB", "DCPK_CACHE_MAX=2GB is not understood: a number of bytes, at least 1, with K, M, G or T"},
    {"DCPK_CACHE_MAX=0", "DCPK_CACHE_MAX=0 is not understood"},
    {"DCPK_CACHE_MAX=0K", "DCPK_CACHE_MAX=0K is not understood"},
    {"DCPK_CACHE_MAX=99999999999T", "DCPK_CACHE_MAX=99999999999T is not understood"},
    {"DCPK_LOG=loud", "DCPK_LOG=loud is not understood: error, warning, info or debug"},
    {"DCPK_CPU_SMS=0x10", "DCPK_CPU_SMS=0x10 is not understood: a number from 1 to 1024"},
    {"DCPK_JIT=no DCPK_CACHE_MAX=x DCPK_TOOLCHAIN=y", "DCPK_TOOLCHAIN=y is not understood"}, /* each of several */
    {"DCPK_JIT=no DCPK_CACHE_MAX=x DCPK_TOOLCHAIN=y", "DCPK_CACHE_MAX=x is not understood"},
    {"DCPK_CACHE_TRUST_UID=root", "DCPK_CACHE_TRUST_UID=root is not understood: a user's number"},
    {"DCPK_CPU_CHECK=on", "DCPK_CPU_CHECK=on is not understood: 0 or 1"},
    {"DCPK_CPU_DEVICES=99", "DCPK_CPU_DEVICES=99 is not understood: a number from 1 to 32"},
    {"CUDA_LAUNCH_BLOCKING=yes", "CUDA_LAUNCH_BLOCKING=yes is not understood: 1 or 0; anything else counts as 1"},
    {"CUDA_DEVICE_MAX_CONNECTIONS=many", "CUDA_DEVICE_MAX_CONNECTIONS=many is not understood: a number from 1 to 32"},
    {"DCPK_TEMPLATES=here", "DCPK_TEMPLATES is set, and dcpk reads no such variable"},
};

START_TEST(a_value_that_nobody_understands_is_a_problem) {
    if (!doctor_machine_builds()) return;
    sh("%s $dcpk doctor", slips[_i].setting);
    expect_code(1);
    expect_in(last.out, slips[_i].needle);
    expect_in(last.out, "toolchains"); /* it goes on */
}
END_TEST

START_TEST(values_that_are_understood_are_shown) {
    if (!doctor_machine_builds()) return;
    sh("DCPK_DEVICE=auto DCPK_PDL=0 DCPK_CACHE_MAX=512M CUDA_DEVICE_MAX_CONNECTIONS=32 $dcpk " SERVE " --dcp 2");
    expect_code(0);
    expect_in(last.out, "  DCPK_PDL=0\n");
    ck_assert_ptr_null(strstr(last.out, "note: ranks of one process"));
    sh("$dcpk " SERVE " --dcp 2");
    expect_code(0);
    expect_in(last.out, "note: ranks of one process are refused without CUDA_DEVICE_MAX_CONNECTIONS=32");
    for (size_t i = 0; i < 4; i++) { /* the generator's own words for a size */
        static const char *const sizes[] = {"2g", "64m", "1234567890123456", "1"};
        sh("DCPK_CACHE_MAX=%s $dcpk doctor", sizes[i]);
        expect_code(0);
    }
}
END_TEST

/* ---- words ---- */

START_TEST(words_that_cannot_be_are_code_2) {
    static const char *const lines[] = {"doctor now",        "doctor --tp 8",       SERVE " --dcp 3",
                                        SERVE " --dcp 0",    SERVE " --batch 1,,2", SERVE " --batch 0",
                                        SERVE " --batch 1,", SERVE " --q 9",        "doctor --model kimi-k3 --tp x"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        sh("$dcpk %s", lines[i]);
        ck_assert_msg(last.code == 2 && last.out_length == 0, "'%s': code %d, %s", lines[i], last.code, last.out);
    }
    sh("$dcpk doctor --model nosuch");
    expect_failure(2, "there is no model 'nosuch'; presets: ");
    ck_assert_uint_eq(last.out_length, 0);
    sh("$dcpk doctor --model ''");
    expect_failure(2, "--model: which? 'dcpk ls models' names them");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("doctor");
    TCase *tcase = tcase_create("doctor");
    tcase_add_checked_fixture(tcase, doctor_machine_setup, shell_teardown);
    tcase_add_test(tcase, devices_are_listed_with_what_the_driver_says);
    tcase_add_test(tcase, toolchains_are_listed_with_what_they_build);
    tcase_add_test(tcase, every_architecture_of_the_list_assembles);
    tcase_add_test(tcase, a_program_asks_for_the_same_list);
    tcase_add_test(tcase, the_doctor_makes_no_file_and_starts_nothing);
    tcase_add_test(tcase, an_untrusted_cache_is_a_problem_with_its_fix);
    tcase_add_test(tcase, a_cache_that_cannot_be_written_is_a_problem);
    tcase_add_test(tcase, bytes_that_are_no_utf8_are_shown);
    tcase_add_loop_test(tcase, a_value_that_nobody_understands_is_a_problem, 0, (int)(sizeof slips / sizeof slips[0]));
    tcase_add_test(tcase, values_that_are_understood_are_shown);
    tcase_add_test(tcase, words_that_cannot_be_are_code_2);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
