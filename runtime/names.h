/* names.h - the nearest of some names, for messages that answer a misspelt one. Internal. */
#ifndef DCPK_RUNTIME_NAMES_H
#define DCPK_RUNTIME_NAMES_H

#include "runtime/private.h"

#include <stddef.h>

/* The candidate with the fewest edits to name, NULL when none is near (more than a third of its letters differ).
 * Ties go to the earlier one. */
DCPK_PRIVATE const char *dcpk_name_nearest(const char *name, const char *const *candidates, size_t count);

#endif
