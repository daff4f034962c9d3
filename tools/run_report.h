/* run_report.h - what `dcpk run` prints: the table, the closing line, and the verdict over both. */
#ifndef DCPK_TOOLS_RUN_REPORT_H
#define DCPK_TOOLS_RUN_REPORT_H

#include "scenario.h"

struct run_facts {
    const char *device;           /* "cpu" */
    const char *schedule;         /* "fair" */
    uint64_t seed, schedule_seed; /* of the inputs; of a random schedule */
    int32_t dcp, uses;
    double seconds; /* whole command */
    bool json;
};

/* Prints to stdout. True when everything that was compared is within its bound. */
bool run_report(const struct scenario *scenario, const struct run_facts *facts);

#endif
