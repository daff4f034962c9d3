/* library.h - a compiler that is a shared library: found, opened, identified, called under a deadline. */
#ifndef DCPK_GEN_LIBRARY_H
#define DCPK_GEN_LIBRARY_H

#include "gen/environment.h"

#include <dcpk/base.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where it may be. */
struct library_search {
    const char *what;     /* "NVRTC" */
    const char *soname;   /* "libnvrtc.so.13" */
    const char *plain;    /* "libnvrtc.so", or NULL: soname alone */
    const char *variable; /* "DCPK_NVRTC": names another */
    const char *named;    /* its value, NULL: search */
    const char *advice;   /* "install the CUDA toolkit's NVRTC" */
    bool toolkit;         /* also below $CUDA_HOME and /usr/local/cuda */
};

struct library {
    void *handle;
    const char *path; /* as the loader knows it; lives as long as the process */
    char build[41];   /* the linker's build id in hex, "" when it has none: tells two builds of one version apart */
};

/* TOOLCHAIN, with sys_errno ENOENT, that says where it was looked for, why the loader refused, and what to do. A
 * library stays mapped for the life of the process: compilers do not unload well. */
dcpk_status library_open(struct library *library, const struct library_search *search,
                         const struct environment *environment, dcpk_error *error);
void library_close(struct library *library);

/* The address of a symbol as a function pointer in *pointer; false (and NULL there) when there is none. */
bool library_symbol(const struct library *library, const char *symbol, void *pointer);
/* The error of a symbol that is not there: as if the library were not. */
dcpk_status library_lacks(const struct library *library, const struct library_search *search, const char *symbol,
                          dcpk_error *error);

/* A call into a library that might not return: work(job) on a thread of its own, with a stack that compilers need. OK:
 * it is done and the job is the caller's again. TOOLCHAIN: it is not done after timeout_ms; the thread goes on, and
 * drop(job) is called when it ends, so the job must own all that it touches. NOMEM: there is no thread, work was not
 * called, and the job is the caller's. */
struct library_work {
    void (*work)(void *job);
    void (*drop)(void *job);
    void *job;
    const char *who; /* "dcp_value: nvJitLink 13.0", for the message */
    uint32_t timeout_ms;
};
dcpk_status library_run(const struct library_work *work, dcpk_error *error);

#endif
