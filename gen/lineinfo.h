/* lineinfo.h - lineinfo=1: .file and .loc, so that profilers show template lines. */
#ifndef DCPK_GEN_LINEINFO_H
#define DCPK_GEN_LINEINFO_H

#include "gen/emit.h"

/* Appends a .file line a template file, then body with a .loc before each instruction whose writer changes.
 * NULL, or what is wrong. */
const char *lineinfo_append(struct emitter *whole, const struct emitter *body, const struct source_file *files,
                            uint32_t count);

#endif
