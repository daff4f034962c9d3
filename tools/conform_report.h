/* conform_report.h - what a run of the snippets has shown, for people. */
#ifndef DCPK_TOOLS_CONFORM_REPORT_H
#define DCPK_TOOLS_CONFORM_REPORT_H

#include "conform_check.h"

#include <stdio.h>

struct conform_report {
    const struct conform_outcome *outcomes;
    size_t count;
    const char *device;
    const struct conform_golden *golden; /* NULL: none */
    const char *path;                    /* of the golden data */
    bool verbose;                        /* a line for every snippet, else for those that are bad */
};
/* Prints it; true when no outcome is bad. */
bool conform_report_print(const struct conform_report *report, FILE *to);

#endif
