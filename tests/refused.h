/* refused.h - one malformed text of PTX and what is said of it: for the suites test_cpu_refusals and
 * test_cpu_declarations, which have the tables. */
#ifndef TESTS_REFUSED_H
#define TESTS_REFUSED_H

#include "runtime/cpu/machine.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

/* says: behind "PTX line "; an @ stands for the whole text in quotes and a colon, as messages about an
 * instruction have it. */
struct refusal {
    const char *text, *says;
};

/* The text is not read, and what is said of it is the row's. */
static inline void refused(const char *before, const struct refusal *row, const char *after) {
    char text[1024], want[1024], message[1024] = "";
    const char *quoted = strstr(row->says, ": @ ");
    size_t length = strcspn(row->text, "\n");
    snprintf(text, sizeof text, "%s%s%s", before, row->text, after);
    if (quoted != NULL)
        snprintf(want, sizeof want, "PTX line %.*s: `%.*s`: %s", (int)(quoted - row->says), row->says, (int)length,
                 row->text, quoted + strlen(": @ "));
    else
        snprintf(want, sizeof want, "PTX line %s", row->says);
    ck_assert_ptr_null(ptx_load(text, NULL, message, sizeof message));
    ck_assert_str_eq(message, want);
}

#endif
