/* colon_list.h - lists of paths with ':' between them, as DCPK_AOT_PATH and PATH are: one walk for all who read one.
 * Empty parts are none. Lists of template folders have escapes and are gen/template_list's. Internal to runtime and
 * gen. */
#ifndef DCPK_RUNTIME_COLON_LIST_H
#define DCPK_RUNTIME_COLON_LIST_H

#include <stddef.h>
#include <string.h>

/* The next part, which ends after *length bytes, not in a NUL; NULL at the list's end. *at moves behind it. */
static inline const char *colon_next(const char **at, size_t *length) {
    const char *part = *at + strspn(*at, ":");
    *length = strcspn(part, ":");
    *at = part + *length;
    return *length > 0 ? part : NULL;
}

static inline size_t colon_count(const char *list) {
    size_t count = 0, length;
    while (colon_next(&list, &length) != NULL)
        count++;
    return count;
}

#endif
