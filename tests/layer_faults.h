/* layer_faults.h - the planted faults of mla_query and mla_decode: what is edited, which layer shows it, what finds it.
 * test_layer_faults.c plants them. */
#ifndef TESTS_LAYER_FAULTS_H
#define TESTS_LAYER_FAULTS_H

#include <tests/plant.h>

#include <stddef.h>

/* What finds it. */
enum finder {
    BY_RESULT,        /* the judge, a device's fault, a box that died */
    BY_BUILD,         /* it never becomes an image: lint or compiler */
    BY_SCHEDULE,      /* as BY_RESULT, but only some order of events shows it: one of SEEDS must */
    BY_EARLY,         /* as BY_SCHEDULE, and the device says: before griddepcontrol.wait */
    BY_CHECKER,       /* as BY_SCHEDULE, and the memory checker says: nobody has written what is read */
    BY_DEATH,         /* dead_layer_holds, a rank stopping in mla_query */
    BY_DEATH_CHECKER, /* as BY_CHECKER, by dead_layer_holds, a rank stopping in mla_decode */
    BY_MISSING,       /* dead_layer_polls_every_chunk */
    BY_LATER_NAN      /* a NaN in the last token's cache row changes an earlier row of its request */
};

struct layer_fault {
    const char *name;
    const char *layer; /* as of whole.h: what shows it */
    enum finder finder;
    struct edit edits[2];
};

extern const struct layer_fault layer_faults[];
extern const size_t layer_fault_count;
extern const struct layer_fault hopper_faults[]; /* of the form for sm_90a */
extern const size_t hopper_fault_count;
extern const struct layer_fault wide_faults[]; /* of the portable form's CTAs of 48 and 64 rows */
extern const size_t wide_fault_count;

#endif
