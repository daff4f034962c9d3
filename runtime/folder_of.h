/* folder_of.h - the folder of the library or program that holds an address: what is installed beside it is found from
 * there, wherever the tree was moved to. Internal; gen asks for its own library. */
#ifndef DCPK_RUNTIME_FOLDER_OF_H
#define DCPK_RUNTIME_FOLDER_OF_H

#include "runtime/private.h"

#include <limits.h>
#include <stdbool.h>

/* Absolute, links resolved, without a slash at the end. False when the system will not say. */
DCPK_PRIVATE bool dcpk_folder_of(const void *inside, char folder[PATH_MAX]);
/* The running program's. */
DCPK_PRIVATE bool dcpk_folder_of_program(char folder[PATH_MAX]);
/* Cuts the last component; false where there is none left. */
DCPK_PRIVATE bool dcpk_folder_up(char *folder);

#endif
