/* memcheck.h - planted faults of memory and of synchronisation: kernels, where each errs, and how one runs on a driver.
 *
 * The CPU device's suite asserts every one (test_memcheck_faults.c, test_memcheck_samples.c); program_memcheck.c runs
 * them on either device, on a GPU under compute-sanitizer (tests/check_sanitizer_gpu). Data: memcheck_*.c. */
#ifndef DCPK_TESTS_MEMCHECK_H
#define DCPK_TESTS_MEMCHECK_H

#include "runtime/driver.h"

enum memcheck_class { /* M(constant, title) */
#define MEMCHECK_CLASSES(M)                                                                                            \
    M(BOUNDS, "out of bounds")                                                                                         \
    M(ALIGNMENT, "misaligned")                                                                                         \
    M(FREED, "use after free")                                                                                         \
    M(UNWRITTEN_GLOBAL, "uninitialised global read")                                                                   \
    M(UNWRITTEN_SHARED, "uninitialised shared read")                                                                   \
    M(UNWRITTEN_REGISTER, "uninitialised register")                                                                    \
    M(RACE, "shared race")                                                                                             \
    M(ASYNC_RACE, "race with an asynchronous copy")                                                                    \
    M(BARRIER, "barrier")                                                                                              \
    M(CONVERGENCE, ".sync convergence")                                                                                \
    M(INPUT, "write to a const input")
#define M(constant, title) MEMCHECK_##constant,
                      MEMCHECK_CLASSES(M)
#undef M
                          MEMCHECK_CLASS_COUNT
};
extern const char *const memcheck_class_names[];

/* The first buffer, a. The second one, b, has 4096 bytes, zero. */
enum memcheck_buffer {
    MEMCHECK_WRITTEN,      /* all zero */
    MEMCHECK_UNWRITTEN,    /* nobody has written it */
    MEMCHECK_HALF_WRITTEN, /* its first half is zero */
    MEMCHECK_FREED_BUFFER, /* given back before the launch */
    MEMCHECK_INPUT_BUFFER  /* zero; on the CPU device marked as an input */
};

enum memcheck_where { MEMCHECK_NOWHERE, IN_A, IN_SHARED, ABSOLUTE };

/* A kernel of memcheck_text around `body`. What it must say: kind: words for what is wrong; at: the text of the
 * instruction that errs, which stands once in the kernel; thread: "(x,y,z) of block (x,y,z)"; where, offset: the
 * address (into a, into the CTA's shared memory); other, other_thread: of a race the other access; more: further words.
 */
struct memcheck_case {
    const char *name;
    enum memcheck_class class;
    const char *body;
    unsigned blocks, threads, cluster; /* 0: 1 block; 32 threads; no cluster */
    enum memcheck_buffer buffer;
    unsigned bytes; /* of a, 0: 256 */
    const char *kind, *at, *thread;
    enum memcheck_where where;
    int64_t offset;
    const char *other, *other_thread, *more;
    const char *sample; /* of compute-sanitizer's samples the one that this follows */
    bool endless;       /* on a GPU it never ends: not run there */
    bool fine;          /* nothing is wrong with it */
};

extern const struct memcheck_case memcheck_addresses[], memcheck_values[], memcheck_races[], memcheck_meetings[],
    memcheck_samples[];
extern const unsigned memcheck_address_count, memcheck_value_count, memcheck_race_count, memcheck_meeting_count,
    memcheck_sample_count;

enum { MEMCHECK_TEXT = 1 << 14, MEMCHECK_SHARED_BASE = 1024 };

unsigned memcheck_count(void);
const struct memcheck_case *memcheck_at(unsigned i); /* of all of them */
/* The kernel's PTX; entry f(a, b). */
void memcheck_text(const struct memcheck_case *c, char text[MEMCHECK_TEXT]);
/* The line, from 1, on which `at` stands in the kernel; 0: it does not. */
unsigned memcheck_line(const char *text, const char *at);
/* Runs it; the result of the wait, or of the first call that failed. *a: where the buffer was. mark: dcpkcpu_mark of
 * the CPU device, NULL on others. A context is current; the driver gives everything back unless the context is lost. */
cu_result memcheck_run(const struct dcpk_driver *driver, const struct memcheck_case *c, cu_ptr *a,
                       int (*mark)(uint64_t, uint64_t, int));

#endif
