/* doctor_machine.c - see doctor_machine.h. */
#include "tests/doctor_machine.h"

#include "tests/fake_open.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void doctor_machine_setup(void) {
    char line[4400];
    shell_setup();
    ck_assert_int_eq(mkdir("lib", 0755), 0);
    snprintf(line, sizeof line, "%s", fake_driver_path());
    ck_assert_int_eq(symlink(line, "lib/libcuda.so.1"), 0);
    snprintf(line, sizeof line, "%s/home", shell_folder);
    setenv("HOME", line, 1);
    setenv("no_driver", "LD_LIBRARY_PATH=/nonexistent", 1);
    snprintf(line, sizeof line, "%s/lib", shell_folder);
    setenv("LD_LIBRARY_PATH", line, 1);
    setenv("FAKE_DRIVER", "devices=2 strict=1", 1);
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    setenv("DCPK_NVJITLINK", "/nonexistent/nvjitlink", 1); /* large libraries: opened where they are what is asked */
    setenv("DCPK_NVRTC", "/nonexistent/nvrtc", 1);
}

bool doctor_machine_builds(void) {
    sh("$dcpk doctor");
    if (last.code != 3) return true;
    fprintf(stderr, "skipped: verdicts of the doctor that need a toolchain: there is none\n");
    return false;
}

const json_t *doctor_machine_at(const json_t *value, const char *list, size_t index) {
    return json_array_get(json_object_get(value, list), index);
}
