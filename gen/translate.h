/* translate.h - template text to Lua text, line for line. */
#ifndef DCPK_GEN_TRANSLATE_H
#define DCPK_GEN_TRANSLATE_H

#include "gen/expand.h"

/* The global function that a `|` line becomes a call of: TRANSLATE_EMIT("text", (expr), "text", ...). */
#define TRANSLATE_EMIT "_ptx"

/* *lua: malloc'd, *length bytes. TEMPLATE with the line when a `|` line is malformed. */
dcpk_status translate(const struct source_file *file, char **lua, size_t *length, dcpk_error *error);

#endif
