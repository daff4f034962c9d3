/* command_lists.h - three lists of `dcpk ls`; gen is not used, the caller frees the table. */
#ifndef DCPK_TOOLS_COMMAND_LISTS_H
#define DCPK_TOOLS_COMMAND_LISTS_H

#include "table.h"

#include <dcpk/gen.h>

struct table *list_commands(dcpk_gen *gen);
struct table *list_options(dcpk_gen *gen); /* of every subcommand */
struct table *list_exits(dcpk_gen *gen);

#endif
