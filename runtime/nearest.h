/* nearest.h - of many specs that are there, the few nearest to one that is not: for the message of a miss.
 *
 * Life: nearest_begin, nearest_offer for each entry, nearest_text. No allocation. Internal to runtime and gen. */
#ifndef DCPK_RUNTIME_NEAREST_H
#define DCPK_RUNTIME_NEAREST_H

#include "runtime/private.h"

#include <dcpk/spec.h>

#include <stddef.h>

enum { NEAREST_MOST = 3, NEAREST_TEXT = 1536 };

struct nearest_one {
    dcpk_spec spec;
    uint32_t keys;     /* that differ, arch among them */
    uint64_t distance; /* sum of the differences of differing numbers: orders equals */
};

struct nearest {
    dcpk_spec wanted;
    uint32_t offered; /* all entries, of any kernel */
    uint32_t count;   /* of found: of the wanted kernel, nearest first, no two alike */
    struct nearest_one found[NEAREST_MOST];
};

/* wanted: resolved. */
DCPK_PRIVATE void nearest_begin(struct nearest *nearest, const dcpk_spec *wanted);
/* spec: a canonical text. What cannot be read counts as offered and is passed over. The order does not matter. */
DCPK_PRIVATE void nearest_offer(struct nearest *nearest, const char *spec);
/* Writes what to tell, without a newline at its end, NUL-terminated and cut to capacity (NEAREST_TEXT is enough):
 *   "nearest of 40 entries:\n  batch=16 cap=64, not batch=17 cap=65\n  ..."  (all other keys are as wanted)
 *   "none of 40 entries is of kernel mla_query"   "there are no entries"
 * An entry with the wanted spec itself is said to be "this spec, made otherwise". */
DCPK_PRIVATE void nearest_text(const struct nearest *nearest, char *text, size_t capacity);

#endif
