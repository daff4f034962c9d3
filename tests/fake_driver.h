/* fake_driver.h - a driver library for tests (libfakecuda.so): it runs no kernel, but records every call, counts what
 * it gave out, fails where it is told to, and can say that a stream captures. Device addresses are host addresses. One
 * state for the process, reached by dlsym "fake_driver"; launches may come from any thread. */
#ifndef DCPK_TESTS_FAKE_DRIVER_H
#define DCPK_TESTS_FAKE_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

enum { FAKE_CALLS = 8192, FAKE_PARAMS = 32, FAKE_DEVICES = 8, FAKE_ATTRIBUTES = 4, FAKE_LAUNCHES = 64 };

struct fake_green { /* what a cu_green of this driver points to */
    int device;
    unsigned from, sms; /* multiprocessors from..from+sms-1 */
    int streams;        /* in it, not yet destroyed */
};

struct fake_launch { /* the last cuLaunchKernelEx */
    unsigned grid[3], block[3], shared;
    void *stream;
    char function[64];
    unsigned attributes;
    int attribute[FAKE_ATTRIBUTES];
    unsigned cluster[3];
    int pdl;
    uint64_t param[FAKE_PARAMS]; /* zero-extended */
};

struct fake_driver {
    /* settings, kept by fake_reset */
    int devices, sms, major, minor, multicast;
    int can_peer;
    /* settings, cleared by fake_reset */
    int capturing;        /* 0, or DRIVER_CAPTURE_ACTIVE of every stream but NULL */
    uint64_t capture_id;  /* of that capture; graph_drop ends the graph's life */
    long fail_at;         /* the n-th call from now on (1 = the next), 0: none; what it returns: fail_with */
    char fail_symbol[64]; /* or every call of this name */
    int fail_with;
    int reject_attribute; /* launch attribute id that cuLaunchKernelEx does not know, 0: none */
    int occupancy;        /* CTAs a multiprocessor */
    int chunks;           /* parts of 8 multiprocessors that can be split off, 0: sms / 8 */
    int old_resources;    /* 1: says nothing of least and unit, as drivers before CUDA 13.0 */
    const char *jit_log;  /* written by a failing cuLibraryLoadData */
    unsigned param_bytes[FAKE_PARAMS], param_count; /* what a launch copies from its parameters */
    /* what happened */
    long calls; /* since fake_reset; call[] holds the last FAKE_CALLS names, oldest first as long as none was dropped */
    const char *call[FAKE_CALLS];
    struct fake_launch last;
    long launches;
    struct fake_launch launch[FAKE_LAUNCHES]; /* the first ones */
    /* given out and not yet given back */
    long memory, host, streams, libraries, retains, handles, reservations, mappings, bindings, objects, greens;
    int func_attribute, func_attribute_value; /* the last cuFuncSetAttribute */
};

struct fake_driver *fake_driver(void);
void fake_reset(void);       /* settings and what happened; what is given out stays */
void fake_drop_graph(void);  /* the captured graph dies: its user objects are destroyed */
long fake_outstanding(void); /* everything given out and not given back */

#endif
