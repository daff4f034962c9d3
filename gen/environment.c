/* environment.c - reads the environment once. The only getenv of gen. */
#include "gen/environment.h"

#include <stdlib.h>
#include <string.h>

static bool read_one(const char *name, char **out) {
    const char *value = getenv(name);
    if (!value || !*value) return true;
    *out = strdup(value);
    return *out != NULL;
}

bool environment_read(struct environment *environment) {
    bool good = true;
    memset(environment, 0, sizeof *environment);
#define V(field, name, dflt, doc) good = good && read_one(#name, &environment->field);
#include "gen/environment.def"
#undef V
    if (!good) environment_free(environment);
    return good;
}

static bool copy_one(char **to, const char *from) {
    return !from || (*to = strdup(from)) != NULL;
}

bool environment_copy(struct environment *to, const struct environment *from) {
    bool good = true;
    memset(to, 0, sizeof *to);
#define V(field, name, dflt, doc) good = good && copy_one(&to->field, from->field);
#include "gen/environment.def"
#undef V
    if (!good) environment_free(to);
    return good;
}

void environment_free(struct environment *environment) {
#define V(field, name, dflt, doc) free(environment->field);
#include "gen/environment.def"
#undef V
    memset(environment, 0, sizeof *environment);
}

bool environment_at(unsigned index, struct environment_row *row) {
    static const struct environment_row rows[] = {
#define V(field, name, dflt, doc) {#name, dflt, doc},
#include "gen/environment.def"
#undef V
    };
    if (index >= sizeof rows / sizeof rows[0]) return false;
    *row = rows[index];
    return true;
}
