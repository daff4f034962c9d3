/* environment.h - the environment as it was when the generator was opened. Nothing else in gen reads it. */
#ifndef DCPK_GEN_ENVIRONMENT_H
#define DCPK_GEN_ENVIRONMENT_H

#include <dcpk/base.h>

#include <stdbool.h>

struct environment { /* NULL where unset or empty; owned */
#define V(field, name, dflt, doc) char *field;
#include "gen/environment.def"
#undef V
};

/* False when memory is out. */
bool environment_read(struct environment *environment);
bool environment_copy(struct environment *to, const struct environment *from);
void environment_free(struct environment *environment);

/* Rows for help: index 0.. until false. Static texts. */
struct environment_row {
    const char *name, *dflt, *doc;
};
bool environment_at(unsigned index, struct environment_row *row);

#endif
