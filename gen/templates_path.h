/* templates_path.h - where the templates are when nobody says. */
#ifndef DCPK_GEN_TEMPLATES_PATH_H
#define DCPK_GEN_TEMPLATES_PATH_H

#include "gen/system.h"

/* DCPK_TEMPLATE_DIR where the build defines it; else the first that exists of EXE/../templates, EXE/../../templates (a
 * build folder in the source tree), EXE/../share/dcpk/templates (an installed program), EXE being the folder of the
 * running program. Absolute, whatever the working folder. NULL when memory is out; freed by the caller. */
char *templates_path(const struct system *sys);

#endif
