/* conform_check.h - all snippets on one device: each run, compared with its reference, its bound and what was recorded.
 */
#ifndef DCPK_TOOLS_CONFORM_CHECK_H
#define DCPK_TOOLS_CONFORM_CHECK_H

#include "conform_device.h"
#include "conform_golden.h"

enum conform_run { NOT_RUN, RAN, REFUSED, BROKE }; /* REFUSED: the device cannot load it; BROKE: it faulted */

enum { CONFORM_SAMPLES = 24, CONFORM_SHOWN = 3 }; /* shown: without --verbose */
struct conform_sample {
    size_t number; /* of the input */
    struct conform_in input;
    struct conform_out got, wanted;
};

struct conform_outcome {
    const char *name;
    unsigned flags;
    enum conform_run run;
    char why[512];                                  /* REFUSED, BROKE */
    size_t count;                                   /* results */
    bool referred;                                  /* it has a reference for every bit */
    size_t differing;                               /* results that are not the reference's */
    struct conform_sample samples[CONFORM_SAMPLES]; /* the first that differ, or the worst of an approximation */
    bool judged;                                    /* error holds how far it is off */
    struct conform_error error;
    bool recorded_judged; /* recorded_error holds how far what was recorded is off */
    struct conform_error recorded_error;
    enum conform_recorded recorded;
    struct conform_difference difference;
    struct conform_sample changed; /* the first input whose result is not the recorded one; wanted: of kind w */
};

struct conform_check {
    dcpk_device *device;
    bool hardware;
    const struct conform_golden *golden; /* NULL: none */
    struct conform_recording *recording; /* NULL: nothing is recorded; else holds the record of the form that is done */
    void (*begins)(void *self, size_t i); /* NULL, or called before a form runs */
    void (*done)(void *self, size_t i);   /* NULL, or called when outcomes[i] is there */
    void *self;
};

/* Whether the outcome contradicts the reference, the bound or the recorded data, or there is none. */
bool conform_outcome_bad(const struct conform_outcome *outcome);

/* Runs forms first to count - 1; outcomes[i] is that of forms[i]. After a fault the rest are NOT_RUN. An error is one
 * of the device as a whole. Forms that may not run on hardware are NOT_RUN there and in no module. */
dcpk_status conform_check_forms(const struct conform_check *check, const struct conform_form *const *forms,
                                size_t first, size_t count, struct conform_outcome *outcomes, dcpk_error *error);

#endif
