/* faulty_system.h - gen's system calls with faults in them: the n-th call of all fails, or every one of a name. For
 * suites that open a generator with them (building.h). One state for the process. */
#ifndef TESTS_FAULTY_SYSTEM_H
#define TESTS_FAULTY_SYSTEM_H

#include "gen/system.h"

#include <stdbool.h>

extern const struct system faulty_system;

struct fault {
    unsigned calls;    /* since it was set */
    unsigned listings; /* of them: folders listed */
    unsigned failures; /* calls that failed */
    char name[64];     /* of the last one */
    bool compiler;     /* the last one was made for the compiler (its program, its files, its process), not the cache */
    bool vain;         /* the last one would have failed by itself: something is not there */
};
extern struct fault fault;

void fault_nth(unsigned n, int reason); /* 0: none */
/* path: part of the call's path, NULL: any. */
void fault_all(const char *name, const char *path, int reason);

/* From now on no process is started: the compiler is this one, and gives these bytes (borrowed); nothing is synced.
 * NULL: the real one again. */
void fault_play_compiler(const void *cubin, size_t length);

unsigned open_descriptors(void);

#endif
