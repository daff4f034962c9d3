/* environment.h - the environment variables of environment.def, as they are when something is opened. Internal. */
#ifndef DCPK_RUNTIME_ENVIRONMENT_H
#define DCPK_RUNTIME_ENVIRONMENT_H

/* NULL where unset or empty. The texts are the environment's own: use them before the opening call returns. */
struct runtime_environment {
#define V(field, name, values, doc) const char *field;
#include "runtime/environment.def"
#undef V
};

void runtime_environment_read(struct runtime_environment *environment);

#endif
