/* test_sweep_hardware.c - what dcpk sweep does on hardware, without any: a driver library that is the CPU device with
 * one GPU and graphs, and with a clock of its own. Its times mean nothing; that every figure is there, and is the one
 * that this clock gives, does.
 *
 * The library is compiled here: where there is no C compiler the suite is skipped. */
#include "tests/shell.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A captured launch runs at once; a graph's launch does nothing. Every interval lasts 7 ms. */
static const char *const driver =
    "extern int cuDevicePrimaryCtxRetain(void **, int);\n"
    "int cuDeviceGetCount(int *n) { *n = 1; return 0; }\n"
    "int cuStreamBeginCapture_v2(void *s, int m) { (void)s; (void)m; return 0; }\n"
    "int cuStreamEndCapture(void *s, void **g) { (void)s; *g = (void *)16; return 0; }\n"
    "int cuGraphInstantiateWithFlags(void **e, void *g, unsigned long long f) { (void)g; (void)f; *e = (void *)32; "
    "return "
    "0; }\n"
    "int cuGraphLaunch(void *e, void *s) { (void)e; (void)s; return 0; }\n"
    "int cuGraphExecDestroy(void *e) { (void)e; return 0; }\n"
    "int cuGraphDestroy(void *g) { (void)g; return 0; }\n"
    "int cuStreamGetCtx(void *s, void **c) { (void)s; return cuDevicePrimaryCtxRetain(c, 0); }\n"
    "int cuEventElapsedTime(float *ms, void *a, void *b) { (void)a; (void)b; *ms = 7; return 0; }\n";

static bool compiled;

static void setup(void) {
    shell_setup();
    FILE *file = fopen("driver.c", "w");
    ck_assert_ptr_nonnull(file);
    int put = fputs(driver, file);
    ck_assert(fclose(file) == 0 && put >= 0);
    sh("cc --version >/dev/null 2>&1");
    compiled = last.code == 0;
    if (!compiled) {
        printf("skipped: no C compiler for a driver with graphs\n");
        return;
    }
    sh("f=$(dirname $dcpk) && cc -shared -fPIC -o libcuda.so.1 driver.c $f/libdcpkcpu.so -Wl,-rpath,$f");
    expect_code(0);
}

static double number_of(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

/* 7 ms are less than the 20 that are measured at least: three launches of a graph of `calls` launches. */
static void expect_time(const json_t *kernel, int calls) {
    ck_assert_double_eq_tol(number_of(kernel, "us"), 7000.0 / 3 / calls, 1e-3);
    ck_assert_double_eq_tol(number_of(kernel, "ratio"), number_of(kernel, "us") / number_of(kernel, "floor_us"), 1e-6);
}

START_TEST(times_and_floors_stand_in_the_rows_of_kernels_that_can_be_launched_alone) {
    if (!compiled) return;
    sh("LD_LIBRARY_PATH=. $dcpk sweep --device cuda --model kimi-linear --tp 32 --dcp 1,2 --batch 4 --q 2 --context 40 "
       "--steps 2 --form fused -o swept splits=1 && cat swept/results.jsonl");
    expect_code(0);
    expect_in(last.out, "x floor");
    int timed = 0, without = 0;
    for (char *at = strstr(last.out, "{\"point\""), *end; at != NULL && (end = strchr(at, '\n')) != NULL;
         at = end + 1) {
        json_t *row = json_loadb(at, (size_t)(end - at), 0, NULL), *kernel;
        size_t i;
        int dcp = (int)number_of(row, "dcp");
        ck_assert_str_eq(json_string_value(json_object_get(row, "ranks")),
                         dcp == 1 ? "a device each" : "event-ordered");
        ck_assert(json_is_number(json_object_get(row, "step_us")));
        json_array_foreach(json_object_get(row, "kernels"), i, kernel) {
            const char *name = json_string_value(json_object_get(kernel, "kernel"));
            bool decode = strcmp(name, "mla_decode") == 0;
            ck_assert_ptr_null(json_object_get(kernel, "thread_instructions"));
            ck_assert_double_gt(number_of(kernel, "floor_us"), 0);
            if (dcp == 1 || decode) {
                expect_time(kernel, decode ? 64 : 128); /* 64 sets of so small inputs */
                timed++;
            } else {
                ck_assert_ptr_null(json_object_get(kernel, "us"));
                ck_assert_ptr_nonnull(strstr(json_string_value(json_object_get(kernel, "no_time")), "half"));
                without++;
            }
            if (decode) /* two requests of 40 and the last step's two tokens, over the ranks */
                ck_assert_double_eq_tol(number_of(kernel, "bytes"), 84.0 / dcp * 576, 1e-6);
        }
        json_decref(row);
    }
    sh("test $(grep -c '<circle[^>]*><title>' swept/ratio.svg) = 4 && tail -n 1 swept/ratio.svg"); /* a dot each */
    expect_code(0);
    ck_assert_str_eq(last.out, "</svg>\n");
    ck_assert_int_eq(timed, 4);   /* mla_query, mla_decode, dcp_value; mla_decode */
    ck_assert_int_eq(without, 3); /* mla_query, query_wait, dcp_value */
}
END_TEST

START_TEST(hardware_takes_one_point_at_a_time) {
    if (!compiled) return;
    sh("LD_LIBRARY_PATH=. $dcpk sweep --device cuda --model kimi-linear --tp 32 --jobs 2 -o swept");
    expect_failure(2, "disturb");
    sh("LD_LIBRARY_PATH=/nonexistent $dcpk sweep --device cuda:9 --model kimi-linear --tp 32 -o swept");
    ck_assert_msg(last.code == 3 || last.code == 2, "code %d", last.code);
    ck_assert(!shell_exists("swept"));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sweep_hardware");
    TCase *tests = tcase_create("a driver with graphs");
    tcase_add_checked_fixture(tests, setup, shell_teardown);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, times_and_floors_stand_in_the_rows_of_kernels_that_can_be_launched_alone);
    tcase_add_test(tests, hardware_takes_one_point_at_a_time);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
