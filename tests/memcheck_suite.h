/* memcheck_suite.h - a planted fault held against what the CPU device says of it. Include in a suite's source. */
#ifndef DCPK_TESTS_MEMCHECK_SUITE_H
#define DCPK_TESTS_MEMCHECK_SUITE_H

#include "runtime/device.h"
#include "tests/memcheck.h"

#include <check.h>
#include <dcpk/cpu.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct dcpk_driver driver;
static int (*mark)(uint64_t, uint64_t, int);
static const char *(*report)(void);

/* A fresh machine with the checker; seed 0: the fair schedule. */
static inline void memcheck_machine(uint64_t seed, bool checker) {
    dcpkcpu_options options = {.size = sizeof options,
                               .devices = 1,
                               .sms = 4,
                               .major = 9,
                               .multicast = 1,
                               .store_delay = 200,
                               .livelock_rounds = 200000,
                               .schedule = seed ? DCPKCPU_RANDOM : DCPKCPU_FAIR,
                               .seed = seed,
                               .memory_checker = checker ? DCPKCPU_CHECKER_ON : DCPKCPU_CHECKER_OFF};
    int (*configure)(const dcpkcpu_options *);
    bool cpu = false;
    int count = 0;
    cu_context context = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    if (!driver.library)
        ck_assert_msg(dcpk_driver_find("cpu", NULL, &driver, &cpu, &count, &error) == DCPK_OK, "%s", error.text);
    *(void **)&mark = dlsym(driver.library, "dcpkcpu_mark");
    *(void **)&report = dlsym(driver.library, "dcpkcpu_report");
    *(void **)&configure = dlsym(driver.library, "dcpkcpu_configure");
    ck_assert(mark && report && configure);
    ck_assert_int_eq(configure(&options), 0);
    ck_assert_int_eq(driver.init(0), 0);
    ck_assert_int_eq(driver.primary_retain(&context, 0), 0);
    ck_assert_int_eq(driver.ctx_set_current(context), 0);
}

static inline void memcheck_says(const struct memcheck_case *c, const char *what) {
    ck_assert_msg(!what || strstr(report(), what), "%s: not said: %s\nbut: %s", c->name, what, report());
}

/* "kernel f, PTX line N: `text`" of an instruction that stands once in the kernel, by its own count of lines. */
static inline const char *memcheck_place(const struct memcheck_case *c, const char *at, char place[400]) {
    static char text[MEMCHECK_TEXT];
    memcheck_text(c, text);
    ck_assert_msg(text[0] && strstr(text, at), "%s: no `%s`", c->name, at);
    ck_assert_msg(!strstr(strstr(text, at) + 1, at), "%s: `%s` stands twice", c->name, at);
    snprintf(place, 400, "PTX line %u: `%s`", memcheck_line(text, at), at);
    return place;
}

/* Kind, place, thread, address and the other access, all of them. */
static inline void memcheck_says_all(const struct memcheck_case *c, cu_ptr a) {
    char text[512], place[400];
    memcheck_says(c, c->kind);
    if (c->thread)
        snprintf(text, sizeof text, "kernel f, %s, thread %s: ", memcheck_place(c, c->at, place), c->thread);
    else
        snprintf(text, sizeof text, "kernel f, %s", memcheck_place(c, c->at, place));
    memcheck_says(c, text);
    uint64_t base = c->where == IN_A ? a : c->where == IN_SHARED ? (uint64_t)MEMCHECK_SHARED_BASE : 0;
    snprintf(text, sizeof text, "address 0x%llx", (unsigned long long)(base + (uint64_t)c->offset));
    if (c->where != MEMCHECK_NOWHERE && !strstr(report(), text)) /* or the byte of it that is meant */
        snprintf(text, sizeof text, "the one at 0x%llx", (unsigned long long)(base + (uint64_t)c->offset));
    if (c->where != MEMCHECK_NOWHERE) memcheck_says(c, text);
    if (c->other) memcheck_says(c, memcheck_place(c, c->other, place));
    if (c->other_thread) {
        snprintf(text, sizeof text, "thread %s ", c->other_thread);
        memcheck_says(c, text);
    }
    memcheck_says(c, c->more);
}

#endif
