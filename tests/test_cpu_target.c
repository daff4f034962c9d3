/* test_cpu_target.c - which PTX a device of the CPU device takes: by .version and .target against its compute
 * capability, and who says what that is. */
#include "tests/cpu_world.h"

/* As a driver takes PTX: plain targets on newer devices, those with a on their own, those with f in their family. */
START_TEST(ptx_for_another_device_is_no_binary_for_this_one) {
    static const struct {
        const char *target;
        int major, minor, result;
    } rows[] = {{"sm_52", 9, 0, 0},      {"sm_80", 9, 0, 0},      {"sm_90", 9, 0, 0},     {"sm_90a", 9, 0, 0},
                {"sm_100", 9, 0, 209},   {"sm_100a", 9, 0, 209},  {"sm_100f", 9, 0, 209}, {"sm_90", 8, 9, 209},
                {"sm_90", 10, 0, 0},     {"sm_90a", 10, 0, 209},  {"sm_100", 10, 0, 0},   {"sm_100a", 10, 0, 0},
                {"sm_100f", 10, 0, 0},   {"sm_100a", 10, 3, 209}, {"sm_100f", 10, 3, 0},  {"sm_103f", 10, 0, 209},
                {"sm_100f", 12, 0, 209}, {"sm_120a", 12, 0, 0},   {"sm_120f", 12, 1, 0},  {"sm_999", 12, 1, 218}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dcpkcpu_options options = fair(1, 1);
        options.major = rows[i].major;
        options.minor = rows[i].minor;
        machine_with(options);
        char text[128], says[64];
        cu_library library = NULL;
        snprintf(text, sizeof text, ".version 9.0\n.target %s\n.visible .entry f() { ret; }\n", rows[i].target);
        ck_assert_msg((int)cpu_library_load(&library, text, NULL, NULL, 0, NULL, NULL, 0) == rows[i].result,
                      "%s on %d.%d", rows[i].target, rows[i].major, rows[i].minor);
        if (rows[i].result != 209) continue;
        snprintf(says, sizeof says, "this device has %d.%d: ", rows[i].major, rows[i].minor);
        report_says((const char *const[]){"PTX line 2: PTX for ", rows[i].target, says, "DCPK_CPU_CAPABILITY", NULL});
    }
    cu_library library = NULL;
    GIVES(222, cpu_library_load(&library, ".version 9.1\n.target sm_90\n", NULL, NULL, 0, NULL, NULL, 0));
    report_says((const char *const[]){"PTX line 1: .version 9.1 is newer than 9.0", NULL});
    /* what it is for is said before what it holds */
    machine_with(fair(1, 1));
    GIVES(209, cpu_library_load(&library, ".version 9.0\n.target sm_100a\n.visible .entry f() { tcgen05.frob; }\n",
                                NULL, NULL, 0, NULL, NULL, 0));
}
END_TEST

START_TEST(the_environment_says_the_compute_capability) {
    ck_assert_int_eq(dcpkcpu_configure(NULL), 0);
    static const char *const wrong[] = {"9", "9.", "x.0", "9.0a", "0.9", "100.0", ".0"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("DCPK_CPU_CAPABILITY", wrong[i], 1);
        GIVES(1, cpu_init(0));
    }
    setenv("DCPK_CPU_CAPABILITY", "10.3", 1);
    OK(cpu_init(0));
    int capability[2] = {0, 0};
    OK(cpu_device_attribute(&capability[0], DRIVER_ATTR_CC_MAJOR, 0));
    OK(cpu_device_attribute(&capability[1], DRIVER_ATTR_CC_MINOR, 0));
    ck_assert(capability[0] == 10 && capability[1] == 3);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cpu_target");
    TCase *tcase = tcase_create("target");
    tcase_add_test(tcase, ptx_for_another_device_is_no_binary_for_this_one);
    tcase_add_test(tcase, the_environment_says_the_compute_capability);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
