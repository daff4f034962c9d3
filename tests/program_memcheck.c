/* program_memcheck.c - runs planted faults of memcheck.h on a device, one a process, for tests/check_sanitizer_gpu.
 *   memcheck --list              name, class, sample, "endless" where a GPU would wait for ever; with tabs, a line each
 *   memcheck NAME [DEVICE]       runs one on DEVICE (cpu, cuda, cuda:N; cpu): "NAME: fine", or "NAME: what the driver
 *                                says", for the CPU device its report
 *   memcheck --ptx NAME          its PTX
 * Exit: 0 whatever the kernel did; 1 when it could not be run; 2 for wrong words. */
#include "runtime/device.h"
#include "tests/memcheck.h"
#include "tests/no_multicast.h"

#include <dcpk/cpu.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct memcheck_case *named(const char *name) {
    for (unsigned i = 0; i < memcheck_count(); i++)
        if (!strcmp(memcheck_at(i)->name, name)) return memcheck_at(i);
    return NULL;
}

static int list(void) {
    for (unsigned i = 0; i < memcheck_count(); i++) {
        const struct memcheck_case *c = memcheck_at(i);
        printf("%s\t%s\t%s\t%s\n", c->name, memcheck_class_names[c->class], c->sample ? c->sample : "-",
               c->endless ? "endless" : "-");
    }
    return 0;
}

static int run(const struct memcheck_case *c, const char *device) {
    struct dcpk_driver driver;
    cu_context context = NULL;
    bool cpu = false;
    int count = 0;
    cu_ptr a = 0;
    dcpk_error error;
    dcpk_error_init(&error);
    no_multicast_or_exit(device);
    if (!strcmp(device, "cpu")) setenv("DCPK_CPU_CHECK", "1", 1);
    if (dcpk_driver_find(device, NULL, &driver, &cpu, &count, &error) != DCPK_OK) {
        fprintf(stderr, "memcheck: %s\n", error.text);
        return 1;
    }
    if (CALL(&driver, primary_retain, (&context, 0)) != 0 || CALL(&driver, ctx_set_current, (context)) != 0) {
        fprintf(stderr, "memcheck: no context on %s\n", device);
        return 1;
    }
    int (*mark)(uint64_t, uint64_t, int) = NULL;
    const char *(*report)(void) = NULL;
    if (cpu) {
        *(void **)&mark = dlsym(driver.library, "dcpkcpu_mark");
        *(void **)&report = dlsym(driver.library, "dcpkcpu_report");
    }
    cu_result result = memcheck_run(&driver, c, &a, mark);
    const char *why = NULL;
    if (result != DRIVER_OK && report) why = report();
    if (result != DRIVER_OK && (!why || !*why)) (void)CALL(&driver, error_string, (result, &why));
    printf("%s: %s\n", c->name, result == DRIVER_OK ? "fine" : why ? why : "the driver lacks a call");
    if (result == DRIVER_OK) (void)CALL(&driver, primary_release, (0));
    return 0;
}

int main(int argc, char **argv) {
    static char text[MEMCHECK_TEXT];
    if (argc == 2 && !strcmp(argv[1], "--list")) return list();
    bool ptx = argc == 3 && !strcmp(argv[1], "--ptx");
    const struct memcheck_case *c = argc == 2 || argc == 3 ? named(argv[ptx ? 2 : 1]) : NULL;
    if (!c) {
        fprintf(stderr, "usage: memcheck --list | --ptx NAME | NAME [DEVICE]\n");
        return 2;
    }
    if (!ptx) return run(c, argc == 3 ? argv[2] : "cpu");
    memcheck_text(c, text);
    fputs(text, stdout);
    return 0;
}
