/* environment.c - the only getenv of the runtime. */
#include "runtime/environment.h"

#include <stdlib.h>

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

void runtime_environment_read(struct runtime_environment *environment) {
#define V(field, name, values, doc) environment->field = variable(name);
#include "runtime/environment.def"
#undef V
}
