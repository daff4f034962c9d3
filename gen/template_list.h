/* template_list.h - lists of template folders: their form, and whether a folder is there. */
#ifndef DCPK_GEN_TEMPLATE_LIST_H
#define DCPK_GEN_TEMPLATE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* The next folder of a list, without its escapes; cut at capacity - 1 bytes. Returns where the rest of the list begins,
 * NULL when no folder is left. */
const char *template_list_next(const char *at, char *folder, size_t capacity);
/* The list that holds this one folder, whatever its name; malloc, NULL when memory is out. */
char *template_list_of(const char *folder);
bool template_folder_there(const char *folder);

#endif
