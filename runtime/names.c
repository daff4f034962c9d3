/* names.c - edit distance between short names. Pure. */
#include "runtime/names.h"

#include <string.h>

enum { LONGEST = 63 };

/* Levenshtein distance; names longer than LONGEST count as far from everything. */
static size_t distance(const char *a, const char *b) {
    size_t la = strlen(a), lb = strlen(b), row[LONGEST + 1];
    if (la > LONGEST || lb > LONGEST) return LONGEST;
    for (size_t j = 0; j <= lb; j++)
        row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[lb];
}

const char *dcpk_name_nearest(const char *name, const char *const *candidates, size_t count) {
    const char *nearest = NULL;
    size_t least = (strlen(name) + 2) / 3 + 1;
    for (size_t i = 0; i < count; i++) {
        size_t edits = distance(name, candidates[i]);
        if (edits < least) {
            least = edits;
            nearest = candidates[i];
        }
    }
    return nearest;
}
