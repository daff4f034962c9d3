/* test_backends.c - the compilers beside ptxas: nvJitLink and the driver's. Each takes the PTX as it is, its errors
 * lead to the template's line, what it gives is judged like ptxas's, its version is in the keys, and waiting for it
 * ends. With fakes of both libraries; with the real nvJitLink where there is one. */
#include "tests/compilers.h"

#include "gen/library.h"
#include "tests/fake_open.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct backend {
    const char *name, *made_by, *options, *text;
    struct {
        const char *name;
        int result;
    } step[3];
} backends[] = {
    {"nvjitlink",
     "__nvJitLinkCreate_13_0",
     "-arch=sm_90a -O3 -no-cache",
     "toolchain: nvJitLink 13.0 (build ",
     {{"nvJitLinkCreate", 16}, {"nvJitLinkAddData", 4}, {"nvJitLinkComplete", 9}}},
    {"driver",
     "cuLinkCreate_v2",
     "3 4 5 6",
     "toolchain: driver 13.0 (build ",
     {{"cuLinkCreate_v2", 1}, {"cuLinkAddData_v2", 218}, {"cuLinkComplete", 200}}},
};
enum { BACKENDS = sizeof backends / sizeof backends[0] };

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

START_TEST(backend_takes_the_ptx_and_gives_the_image) {
    const struct backend *backend = &backends[_i];
    dcpk_build_report report;
    size_t length = 0;
    dcpk_gen *gen = open_with(backend->name, 0);
    dcpk_image *image = build_tiny(gen, 1, &report);
    ck_assert_uint_eq(report.hit, 0);
    ck_assert_uint_eq(report.compiled, 0); /* no process */
    ck_assert_str_eq(fake->called, backend->made_by);
    ck_assert_str_eq(fake->options, backend->options);
    ck_assert_str_eq(fake->text, dcpk_image_ptx(image, &length));
    ck_assert(fake->bytes == length || fake->bytes == length + 1);
    const void *cubin = dcpk_image_cubin(image, &length);
    ck_assert_uint_eq(length, fake->cubin_bytes);
    ck_assert(memcmp(cubin, fake->cubin, length) == 0);
    ck_assert_ptr_nonnull(strstr(dcpk_image_preimage(image, NULL), backend->text));
    ck_assert_int_eq(fake->made, fake->destroyed);
    ck_assert_int_eq(driver->retains, 0);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
    gen = open_with(backend->name, 0);
    image = build_tiny(gen, 1, &report);
    ck_assert_uint_eq(report.hit, 2);
    ck_assert_int_eq(fake->made, 1);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(backend_passes_lineinfo_on) {
    const struct backend *backend = &backends[_i];
    dcpk_spec spec;
    dcpk_image *image = NULL;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s %s", backend->options, _i == 0 ? "-lineinfo" : "13");
    dcpk_gen *gen = open_with(backend->name, 0);
    ck_assert_int_eq(dcpk_spec_parse(&spec, "tiny arch=sm_90a batch=1 lineinfo=1", NULL), DCPK_OK);
    ck_assert_int_eq(dcpk_gen_build(gen, &spec, &image, NULL, NULL), DCPK_OK);
    ck_assert_str_eq(fake->options, wanted);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(backend_error_names_the_template_line) {
    char log[300];
    dcpk_error error;
    unsigned line = ptx_line_with("st.global.u32");
    snprintf(log, sizeof log,
             "ptxas application ptx input, line %u; error   : Planted fault\n"
             "ptxas fatal   : Ptx assembly aborted due to errors\n",
             line);
    fake->log = log;
    for (int i = 0; i < 3; i++) {
        snprintf(fake->fail_step, sizeof fake->fail_step, "%s", backends[_i].step[i].name);
        fake->fail_with = backends[_i].step[i].result;
        tiny_fails(backends[_i].name, DCPK_E_TOOLCHAIN, "tiny: ", &error);
        if (_i == 1 && i != 1) continue; /* the fake driver writes its log where it adds */
        ck_assert_msg(strstr(error.text, "\ntiny.ptx.lua:8: error: Planted fault\n    |   st.global.u32  [$(address)]"),
                      "%s", error.text);
        ck_assert_msg(strstr(error.text, "st.global.u32  [%address], 1;"), "no PTX line: %s", error.text);
        ck_assert_msg(strstr(error.text, "ptxas fatal"), "%s", error.text);
        ck_assert_str_eq(error.template_file, "tiny.ptx.lua");
        ck_assert_uint_eq(error.template_line, 8);
    }
    ck_assert_int_eq(driver->retains, 0);
}
END_TEST

START_TEST(backend_warning_is_logged_with_the_template_line) {
    char log[300];
    snprintf(log, sizeof log, "ptxas application ptx input, line %u; warning : Planted\n", ptx_line_with("ret;"));
    fake->log = log;
    log_reset();
    dcpk_gen *gen = open_with(backends[_i].name, 0);
    dcpk_image_free(build_tiny(gen, 1, NULL));
    ck_assert_uint_eq(logged.warnings, 1);
    ck_assert_msg(strstr(logged.last_warning, "tiny.ptx.lua:9: warning: Planted"), "%s", logged.last_warning);
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(backend_that_gives_half_a_cubin_makes_no_image) {
    dcpk_error error;
    size_t whole = fake->cubin_bytes;
    fake->cubin_bytes = whole / 2;
    tiny_fails(backends[_i].name, DCPK_E_BAD_CUBIN, "made it for tiny", &error);
    fake->cubin_bytes = 0;
    tiny_fails(backends[_i].name, DCPK_E_BAD_CUBIN, "empty", &error);
}
END_TEST

START_TEST(backend_that_hangs_is_given_up_in_time) {
    dcpk_image *image = NULL;
    dcpk_error error;
    fake->hang_ms = 1000;
    dcpk_gen *gen = open_with(backends[_i].name, 200);
    double start = seconds();
    ck_assert_int_eq(try_tiny(gen, 1, &image, NULL, &error), DCPK_E_TOOLCHAIN);
    ck_assert(seconds() - start >= 0.2);
    ck_assert(seconds() - start < 0.9);
    ck_assert_msg(strstr(error.text, "ran for more than 0.2 s and was given up"), "%s", error.text);
    ck_assert_ptr_null(image);
    dcpk_gen_close(gen); /* before the compiler ends: it owns what it still uses */
    for (int i = 0; i < 300 && fake->destroyed == 0; i++)
        usleep(10000);
    ck_assert_int_eq(fake->destroyed, 1);
    usleep(50000);
    ck_assert_int_eq(driver->retains, 0);
}
END_TEST

START_TEST(backend_that_is_missing_is_named_with_the_variable) {
    const char *variable = _i == 0 ? "DCPK_NVJITLINK" : "DCPK_LIBCUDA";
    dcpk_error error;
    setenv(variable, "/nowhere/lib.so", 1);
    tiny_fails(backends[_i].name, DCPK_E_TOOLCHAIN, "/nowhere/lib.so", &error);
    ck_assert_msg(strstr(error.text, variable), "%s", error.text);
    setenv(variable, "libm.so.6", 1); /* a library of something else */
    tiny_fails(backends[_i].name, DCPK_E_TOOLCHAIN,
               _i == 0 ? "/libm.so.6 has no nvJitLinkVersion" : "/libm.so.6 has no cu", &error);
    ck_assert_msg(strstr(error.text, variable), "%s", error.text);
}
END_TEST

START_TEST(library_that_is_nowhere_is_said_to_be_where_it_was_looked_for) {
    struct library library;
    struct environment environment = {0};
    struct library_search search = {
        .what = "thing", .soname = "libnowhere.so.1", .variable = "DCPK_THING", .advice = "install it"};
    dcpk_error error;
    dcpk_error_init(&error);
    ck_assert_int_eq(library_open(&library, &search, &environment, &error), DCPK_E_TOOLCHAIN);
    ck_assert_msg(strstr(error.text,
                         "no thing: libnowhere.so.1 is not where the system's loader looks (LD_LIBRARY_PATH, "
                         "ldconfig); install it or set DCPK_THING to the library ("),
                  "%s", error.text);
    ck_assert_int_eq(error.sys_errno, ENOENT);
    search.toolkit = true;
    ck_assert_int_eq(library_open(&library, &search, &environment, &error), DCPK_E_TOOLCHAIN);
    ck_assert_msg(strstr(error.text, "is neither where the system's loader looks (LD_LIBRARY_PATH, ldconfig) nor in "
                                     "$CUDA_HOME/lib64 or /usr/local/cuda/lib64; "),
                  "%s", error.text);
}
END_TEST

START_TEST(driver_builds_only_for_a_device_that_is_there) {
    dcpk_error error;
    driver->major = 8;
    driver->devices = 2;
    tiny_fails("driver", DCPK_E_TOOLCHAIN,
               "arch=sm_90a needs one of compute capability 9.0, and here is Fake 0 (8.0), "
               "Fake 1 (8.0)",
               &error);
    ck_assert_int_eq(fake->made, 0);
    driver->devices = 0;
    tiny_fails("driver", DCPK_E_TOOLCHAIN, "and here is none", &error);
    snprintf(driver->fail_symbol, sizeof driver->fail_symbol, "cuInit");
    driver->fail_with = 100;
    tiny_fails("driver", DCPK_E_TOOLCHAIN, "cuInit gave CUDA_ERROR_FAKE (100)", &error);
    ck_assert_int_eq(error.driver_result, 100);
    ck_assert_msg(strstr(error.text, "only where there is a device"), "%s", error.text);
    driver->fail_with = 34;
    tiny_fails("driver", DCPK_E_TOOLCHAIN, "cuInit gave CUDA_ERROR_STUB_LIBRARY (34): ", &error);
    ck_assert_msg(strstr(error.text, "/libfakecuda.so is the toolkit's stub"), "%s", error.text);
    driver->major = 9;
    driver->devices = 8;
}
END_TEST

START_TEST(driver_compiles_in_a_primary_context_and_leaves_none) {
    struct fake_api api = fake_load();
    dcpk_gen *gen = open_with("driver", 0);
    dcpk_image_free(build_tiny(gen, 1, NULL));
    ck_assert_int_eq(fake_count(api.state, "cuDevicePrimaryCtxRetain"), 1);
    ck_assert_int_eq(fake_count(api.state, "cuDevicePrimaryCtxRelease_v2"), 1);
    ck_assert_int_eq(api.outstanding(), 0);
    dcpk_error error;
    dcpk_image *image = NULL;
    snprintf(driver->fail_symbol, sizeof driver->fail_symbol, "cuCtxSetCurrent");
    ck_assert_int_eq(try_tiny(gen, 2, &image, NULL, &error), DCPK_E_TOOLCHAIN);
    ck_assert_msg(strstr(error.text, "cuCtxSetCurrent"), "%s", error.text);
    ck_assert_int_eq(api.outstanding(), 0);
    dcpk_gen_close(gen);
}
END_TEST

/* numba-cuda#163 and its kin: the driver would only say UNSUPPORTED_PTX_VERSION. */
START_TEST(driver_older_than_the_ptx_is_refused_with_both_versions) {
    dcpk_error error;
    char copy[128], path[160];
    size_t length = 0;
    snprintf(copy, sizeof copy, "%s/libcuda.so.1", place); /* a driver of its own, which says another version */
    char *bytes = get_file(fake_driver_path(), &length);
    ck_assert_ptr_nonnull(bytes);
    put_file(copy, bytes, length);
    free(bytes);
    setenv("FAKE_DRIVER", "version=12040", 1);
    setenv("DCPK_LIBCUDA", copy, 1);
    snprintf(path, sizeof path, "%s/tiny.ptx.lua", template_folder);
    put_text(path, "need { ptx = \"8.5\", target = \"sm_90\" }\nkernel { grid = { 1 }, block = { 32 }, params = {} }\n"
                   "|   griddepcontrol.wait;\n|   ret;\n");
    tiny_fails("driver", DCPK_E_TOOLCHAIN, "its PTX is of ISA 8.5, which needs a compiler of CUDA 12.5 or newer",
               &error);
    ck_assert_msg(strstr(error.text, "this is driver 12.4") != NULL, "%s", error.text);
    unsetenv("FAKE_DRIVER");
}
END_TEST

START_TEST(another_toolchain_is_another_key) {
    char keys[BACKENDS][33];
    for (int i = 0; i < BACKENDS; i++) {
        dcpk_build_report report;
        dcpk_gen *gen = open_with(backends[i].name, 0);
        dcpk_image_free(build_tiny(gen, 1, &report));
        ck_assert_uint_eq(report.hit, 0);
        memcpy(keys[i], report.key, sizeof keys[i]);
        dcpk_gen_close(gen);
    }
    ck_assert_str_ne(keys[0], keys[1]);
    ck_assert_uint_eq(count_files(".dcpk"), BACKENDS);
}
END_TEST

START_TEST(auto_takes_the_first_that_is_there) {
    const char *text = NULL;
    setenv("DCPK_PTXAS", "/nowhere/ptxas", 1);
    static const char *const wanted[] = {"nvJitLink 13.0", "driver 13.0"};
    for (int i = 0; i < 2; i++) {
        dcpk_gen *gen = open_with("auto", 0);
        ck_assert_int_eq(dcpk_gen_toolchain(gen, &text, NULL), DCPK_OK);
        ck_assert_msg(strncmp(text, wanted[i], strlen(wanted[i])) == 0, "%s", text);
        dcpk_image_free(build_tiny(gen, 1, NULL));
        dcpk_gen_close(gen);
        setenv("DCPK_NVJITLINK", "/nowhere/jit.so", 1);
    }
}
END_TEST

START_TEST(auto_without_any_names_all) {
    dcpk_error error;
    setenv("DCPK_PTXAS", "/nowhere/ptxas", 1);
    setenv("DCPK_NVJITLINK", "/nowhere/jit.so", 1);
    setenv("DCPK_LIBCUDA", "/nowhere/cuda.so", 1);
    tiny_fails("auto", DCPK_E_TOOLCHAIN, "\nptxas: /nowhere/ptxas", &error);
    ck_assert_msg(strstr(error.text, "\nnvjitlink: /nowhere/jit.so"), "%s", error.text);
    ck_assert_msg(strstr(error.text, "\ndriver: /nowhere/cuda.so"), "%s", error.text);
}
END_TEST

START_TEST(old_nvjitlink_has_the_old_compilers_fault) {
    log_reset();
    fake->version[0] = 12, fake->version[1] = 5;
    dcpk_gen *gen = open_with("nvjitlink", 0);
    dcpk_image_free(build_tiny(gen, 1, NULL));
    ck_assert_uint_eq(logged.warnings, 1);
    ck_assert_msg(strstr(logged.last_warning, "nvJitLink 12.5") && strstr(logged.last_warning, "miscompile"), "%s",
                  logged.last_warning);
    ck_assert_str_eq(fake->called, "nvJitLinkCreate"); /* it has no __nvJitLinkCreate_12_5 */
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(nvjitlink_before_our_options_is_refused_with_the_release_that_knows_them) {
    dcpk_error error;
    fake->version[0] = 12, fake->version[1] = 4;
    tiny_fails("nvjitlink", DCPK_E_TOOLCHAIN, "nvJitLink of CUDA 12.5 or newer is needed (option -no-cache)", &error);
    ck_assert_msg(strstr(error.text, "this is nvJitLink 12.4") != NULL, "%s", error.text);
}
END_TEST

/* ---- the real one ---- */

START_TEST(nvjitlink_assembles_for_every_exact_architecture) {
    static const char *const archs[] = {"sm_90", "sm_90a", "sm_100a", "sm_103a", "sm_120a"};
    dcpk_gen_options options = {.size = sizeof options, .cache_dir = "", .toolchain = "nvjitlink"};
    static const char *const kernels[] = {"query_norm heads=2 batch=4", "mla_decode heads=2 batch=2"};
    dcpk_gen *gen = NULL;
    unsetenv("DCPK_NVJITLINK");
    ck_assert_int_eq(dcpk_gen_open(&options, &gen, NULL), DCPK_OK);
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        for (size_t k = 0; k < 2; k++) {
            char text[128];
            dcpk_spec spec;
            dcpk_image *image = NULL;
            dcpk_entry_info entry = {.size = sizeof entry};
            dcpk_error error;
            dcpk_error_init(&error);
            snprintf(text, sizeof text, "%s arch=%s", kernels[k], archs[i]);
            ck_assert_int_eq(dcpk_spec_parse(&spec, text, &error), DCPK_OK);
            ck_assert_msg(dcpk_gen_build(gen, &spec, &image, NULL, &error) == DCPK_OK, "%s: %s", text, error.text);
            ck_assert_int_eq(dcpk_image_entry(image, 0, &entry, &error), DCPK_OK);
            ck_assert_uint_gt(entry.registers, 8);
            dcpk_image_free(image);
        }
    dcpk_gen_close(gen);
}
END_TEST

START_TEST(nvjitlink_errors_name_the_template_line) {
    dcpk_error error;
    unsetenv("DCPK_NVJITLINK");
    put_templates("", "|   add.bogus      $(address), $(address), 1;\n");
    tiny_fails("nvjitlink", DCPK_E_TOOLCHAIN, "tiny.ptx.lua:9: error: Unknown modifier '.bogus'", &error);
    ck_assert_msg(strstr(error.text, "\n    |   add.bogus      $(address), $(address), 1;\n"), "%s", error.text);
    ck_assert_msg(strstr(error.text, "add.bogus      %address, %address, 1;"), "no PTX line: %s", error.text);
    ck_assert_str_eq(error.template_file, "tiny.ptx.lua");
    ck_assert_uint_eq(error.template_line, 9);
}
END_TEST

/* Where there is hardware: its own architecture, by its own compiler, and that one's log. */
START_TEST(driver_of_this_machine_assembles_and_its_errors_name_the_template_line) {
    dcpk_error error;
    dcpk_build_report report;
    unsetenv("DCPK_LIBCUDA");
    dcpk_gen *gen = open_with("driver", 0);
    dcpk_image *image = NULL;
    if (try_tiny(gen, 1, &image, &report, &error) != DCPK_OK) { /* no device of compute capability 9.0 */
        ck_assert_msg(strstr(error.text, "arch=sm_90a needs one of compute capability 9.0"), "%s", error.text);
        dcpk_gen_close(gen);
        return;
    }
    ck_assert_uint_gt(report.cubin_bytes, 1000);
    dcpk_image_free(image);
    dcpk_gen_close(gen);
    dcpk_spec spec;
    put_templates("", "|   add.bogus      $(address), $(address), 1;\n");
    gen = open_with("driver", 0);
    ck_assert_int_eq(dcpk_spec_parse(&spec, "tiny arch=sm_90a batch=2", NULL), DCPK_OK);
    ck_assert_int_eq(dcpk_gen_build(gen, &spec, &image, NULL, &error), DCPK_E_TOOLCHAIN);
    ck_assert_msg(strstr(error.text, "tiny.ptx.lua:9: error: Unknown modifier '.bogus'"), "%s", error.text);
    ck_assert_uint_eq(error.template_line, 9);
    dcpk_gen_close(gen);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("backends");
    TCase *tc = tcase_create("fakes");
    tcase_set_timeout(tc, 30);
    tcase_add_checked_fixture(tc, compilers_setup, compilers_teardown);
    tcase_add_loop_test(tc, backend_takes_the_ptx_and_gives_the_image, 0, BACKENDS);
    tcase_add_loop_test(tc, backend_passes_lineinfo_on, 0, BACKENDS);
    tcase_add_loop_test(tc, backend_error_names_the_template_line, 0, BACKENDS);
    tcase_add_loop_test(tc, backend_warning_is_logged_with_the_template_line, 0, BACKENDS);
    tcase_add_loop_test(tc, backend_that_gives_half_a_cubin_makes_no_image, 0, BACKENDS);
    tcase_add_loop_test(tc, backend_that_hangs_is_given_up_in_time, 0, BACKENDS);
    tcase_add_loop_test(tc, backend_that_is_missing_is_named_with_the_variable, 0, BACKENDS);
    tcase_add_test(tc, library_that_is_nowhere_is_said_to_be_where_it_was_looked_for);
    tcase_add_test(tc, driver_builds_only_for_a_device_that_is_there);
    tcase_add_test(tc, driver_compiles_in_a_primary_context_and_leaves_none);
    tcase_add_test(tc, driver_older_than_the_ptx_is_refused_with_both_versions);
    tcase_add_test(tc, another_toolchain_is_another_key);
    tcase_add_test(tc, auto_takes_the_first_that_is_there);
    tcase_add_test(tc, auto_without_any_names_all);
    tcase_add_test(tc, old_nvjitlink_has_the_old_compilers_fault);
    tcase_add_test(tc, nvjitlink_before_our_options_is_refused_with_the_release_that_knows_them);
    suite_add_tcase(suite, tc);
    if (have_nvjitlink("2 tests of test_backends")) {
        tc = tcase_create("nvJitLink");
        tcase_set_timeout(tc, 60);
        tcase_add_checked_fixture(tc, compilers_setup, compilers_teardown);
        tcase_add_test(tc, nvjitlink_assembles_for_every_exact_architecture);
        tcase_add_test(tc, nvjitlink_errors_name_the_template_line);
        suite_add_tcase(suite, tc);
    }
    if (have_driver("1 test of test_backends")) {
        tc = tcase_create("driver");
        tcase_set_timeout(tc, 60);
        tcase_add_checked_fixture(tc, compilers_setup, compilers_teardown);
        tcase_add_test(tc, driver_of_this_machine_assembles_and_its_errors_name_the_template_line);
        suite_add_tcase(suite, tc);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
