/* templates_path.h - where the templates are when nobody says. */
#ifndef DCPK_GEN_TEMPLATES_PATH_H
#define DCPK_GEN_TEMPLATES_PATH_H

#include "gen/system.h"

/* From the folder of the library that holds this code, then from the program's: the nearest folder A above it that has
 * share/dcpk/templates (installed: PREFIX), or templates beside include/dcpk (a build folder in the source tree); then
 * DCPK_TEMPLATE_DIR where the build defines it. Where there is none, the place where an installation would have it.
 * As a list of that one folder (template_list.h). Absolute, whatever the working folder. NULL when memory is out; freed
 * by the caller. */
char *templates_path(const struct system *sys);

#endif
