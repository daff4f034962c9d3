/* fake_inside.h - what the files of libfakecuda.so share: how an entry point is written, its record, its memory. */
#ifndef TESTS_DRIVERS_FAKE_INSIDE_H
#define TESTS_DRIVERS_FAKE_INSIDE_H

#include "tests/fake_driver.h"

#include "runtime/driver_types.h"

#include <stdbool.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))
/* Every entry point: its prototype (ours, so none is declared before), then the record and the planned failure. */
#define ENTRY(name, ...)                                                                                               \
    EXPORT cu_result name(__VA_ARGS__);                                                                                \
    EXPORT cu_result name(__VA_ARGS__)
#define BEGIN                                                                                                          \
    do {                                                                                                               \
        int planned = fake_begin(__func__);                                                                            \
        if (planned != 0) return planned;                                                                              \
    } while (0)

/* Records a call; what it must return when it is the one planned to fail, else 0. */
int fake_begin(const char *name);
struct fake_stream {
    struct fake_green *green; /* NULL: the whole device's */
};

/* How many contexts this thread has pushed. */
int fake_depth(void);
/* Blocks of at least `bytes`, 256-byte aligned; NULL when memory is out. Giving back anything else is refused. */
void *fake_take(size_t bytes);
bool fake_give_back(void *memory);

#endif
