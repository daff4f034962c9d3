/* box_scan.h - a rank's whole box read back: which mailbox words are not armed, and what the control block says.
 * Uses include/dcpk only; for tools and tests, after a synchronisation. */
#ifndef TOOLS_BOX_SCAN_H
#define TOOLS_BOX_SCAN_H

#include <dcpk/box.h>

struct box_scan {
    uint64_t q, partial, lse, ledger; /* words that are not their sentinel */
    uint32_t next, current, abort;
    char first[160]; /* the first such word, "" when there is none */
};

/* shape: dcp, heads, cap and qh are looked at. */
dcpk_status box_scan(dcpk_device *device, const dcpk_box *box, const dcpk_box_shape *shape, struct box_scan *scan,
                     dcpk_error *error);

#endif
