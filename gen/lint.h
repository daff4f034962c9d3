/* lint.h - rules that every emitted kernel keeps. */
#ifndef DCPK_GEN_LINT_H
#define DCPK_GEN_LINT_H

#include "gen/expand.h"

/* Checks out->ptx and fills waits of out->entries. LINT, blamed on the template line, for the first breach. */
dcpk_status lint(struct expansion *out, dcpk_error *error);

#endif
