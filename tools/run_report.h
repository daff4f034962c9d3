/* run_report.h - what `dcpk run` prints: the table, the closing line, and the verdict over both. */
#ifndef DCPK_TOOLS_RUN_REPORT_H
#define DCPK_TOOLS_RUN_REPORT_H

#include "layer_judge.h"

struct run_facts {
    const char *device;           /* "cpu" */
    const char *schedule;         /* "fair" */
    uint64_t seed, schedule_seed; /* of the inputs; of a random schedule */
    int32_t dcp, steps;
    double seconds; /* whole command */
    bool json;
    const struct layer_bounds *bounds;
    const struct layer_judgement *judged;
};

/* Prints to stdout. True when everything that was compared is within its bound. */
bool run_report(struct kernel_set *kernels, const struct run_facts *facts);

#endif
