/* doctor.h - what the parts of dcpk doctor share: one JSON value that says everything, and the lists of what is wrong
 * and what is worth knowing. The text for people is printed from the same value.
 *
 * Looks, and does nothing: no file is made, no kernel is loaded or started, no memory is taken on a device. Of
 * multicast it reads the driver's attribute alone: calls of multicast objects can hang a machine, so none is made here.
 */
#ifndef DCPK_TOOLS_DOCTOR_H
#define DCPK_TOOLS_DOCTOR_H

#include "command.h"

#include <dcpk/runtime.h>

#include <jansson.h>

enum { DOCTOR_DEVICES = 64 };

struct doctor_device {
    char name[96], arch[16]; /* arch: what to build for, "" when the table has none */
    int32_t ordinal, major, minor, sms;
    int32_t multicast; /* 1, 0, -1: the driver does not say */
    int64_t memory;    /* bytes, -1: unknown */
};

/* One driver library: the GPUs', or the CPU device's. */
struct doctor_driver {
    const char *kind; /* "cuda", "cpu" */
    bool found;
    char reason[1024]; /* why not */
    int32_t version, count;
    bool old; /* it lacks what loading needs; reason says what */
    struct doctor_device device[DOCTOR_DEVICES];
    int8_t peer[DOCTOR_DEVICES][DOCTOR_DEVICES]; /* 1, 0, -1: the driver does not say */
};

struct doctor_request { /* --model and what goes with it; model NULL: nothing is asked */
    const char *model;
    int32_t tp, dcp, q;
    int32_t batches[64];
    int batch_count;
};

struct doctor {
    const struct command_line *line;
    struct doctor_request request;
    json_t *whole, *problems, *notes;
    struct doctor_driver cuda, cpu;
    dcpk_device_words words;    /* DCPK_DEVICE's */
    bool blocking;              /* CUDA_LAUNCH_BLOCKING */
    int32_t connections;        /* CUDA_DEVICE_MAX_CONNECTIONS, 0: unset */
    dcpk_gen *gen;              /* NULL when it does not open */
    bool assembles;             /* the chosen toolchain is usable */
    char toolchain[256];        /* its text; its name when it is not usable */
    char trouble[1024];         /* why it is not */
    char other[16];             /* the first that is usable; "" */
    json_t *archs;              /* those that it can build; borrowed */
    const char *jit;            /* DCPK_JIT's word */
    int packs;                  /* that open */
    struct dcpk_packs **opened; /* as many; each of one file */
};

/* cmd_doctor.c: one more row of problems (exit code 1) or notes. */
void doctor_problem(struct doctor *doctor, const char *format, ...) __attribute__((format(printf, 2, 3)));
void doctor_note(struct doctor *doctor, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Each adds its member to doctor->whole. Environment first: values that are not understood are reported and count as
 * unset from there on, so that the rest can be looked at. */
void doctor_environment(struct doctor *doctor);
void doctor_devices(struct doctor *doctor);
void doctor_toolchains(struct doctor *doctor); /* opens doctor->gen; toolchains, templates, cache */
void doctor_packs(struct doctor *doctor);
/* Behind both: no usable toolchain is a problem, and a note where there are packs. */
void doctor_judge_toolchain(struct doctor *doctor);
/* Whether a pack has the spec and its entry is damaged: says what is wrong with it. */
bool doctor_packs_damage(const struct doctor *doctor, const dcpk_spec *spec, char *damage, size_t capacity);
/* Whether builds look into packs, and there are some. */
bool doctor_packs_serve(const struct doctor *doctor);
void doctor_packs_close(struct doctor *doctor);
void doctor_serve(struct doctor *doctor); /* "serve": null without --model */

/* doctor_text.c: the whole for people. */
void doctor_print(const struct doctor *doctor);

#endif
