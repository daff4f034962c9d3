/* conform_apart.h - all snippets in processes of their own: a fault, a hang or a driver that dies costs one snippet,
 * and the next process goes on behind it. */
#ifndef DCPK_TOOLS_CONFORM_APART_H
#define DCPK_TOOLS_CONFORM_APART_H

#include "conform_check.h"

enum { CONFORM_DEVICE_NAME = 256 };

struct conform_apart {
    dcpk_device_options device;
    const struct conform_golden *golden; /* NULL: none */
    bool record;
    unsigned jobs;    /* processes at a time */
    unsigned limit_s; /* a process that says nothing for so long is killed */
};

/* Runs count forms: outcomes[i] of forms[i]; what the device is called in name; with record, everything recorded in
 * recording (else NULL is right for it), whose text is the caller's to free. An error: the device cannot be opened, or
 * the system has no process for it. */
dcpk_status conform_apart_run(const struct conform_apart *apart, const struct conform_form *const *forms, size_t count,
                              struct conform_outcome *outcomes, char name[CONFORM_DEVICE_NAME],
                              struct conform_recording *recording, dcpk_error *error);

#endif
