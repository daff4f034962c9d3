/* templates_path.c - finds the built-in template folder from where this library or program is. */
#include "gen/templates_path.h"

#include "gen/template_list.h"
#include "runtime/folder_of.h"

#include <dcpk/gen.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TREE_LEVELS = 2, ROOM = PATH_MAX + 32 }; /* build/x and build/tests/x stand in a source tree */

static bool is_folder(const struct system *sys, const char *path) {
    struct stat st;
    return sys->stat_path(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A/templates counts where A is dcpk's source tree. */
static bool in_source_tree(const struct system *sys, const char *above) {
    struct stat st;
    char header[ROOM];
    snprintf(header, sizeof header, "%s/include/dcpk/keys.def", above);
    return sys->stat_path(header, &st) == 0;
}

/* Of the folders above `folder`, nearest first. */
static bool search(const struct system *sys, char *folder, char path[ROOM]) {
    for (int level = 1; dcpk_folder_up(folder); level++) {
        snprintf(path, ROOM, "%s/share/dcpk/templates", folder);
        if (is_folder(sys, path)) return true;
        snprintf(path, ROOM, "%s/templates", folder);
        if (level <= TREE_LEVELS && in_source_tree(sys, folder) && is_folder(sys, path)) return true;
    }
    return false;
}

static void find(const struct system *sys, char path[ROOM]) {
    static const char inside = 0;
    char folder[PATH_MAX];
    if (dcpk_folder_of(&inside, folder) && search(sys, folder, path)) return;
    if (dcpk_folder_of_program(folder) && search(sys, folder, path)) return;
#ifdef DCPK_TEMPLATE_DIR
    snprintf(path, ROOM, "%s", DCPK_TEMPLATE_DIR);
#else
    bool up = dcpk_folder_of(&inside, folder) && dcpk_folder_up(folder);
    snprintf(path, ROOM, "%s/share/dcpk/templates", up ? folder : "/usr");
#endif
}

char *templates_path(const struct system *sys) {
    char path[ROOM];
    find(sys, path);
    return template_list_of(path);
}

size_t dcpk_templates_path(char *path, size_t capacity) {
    char *found = templates_path(&system_calls);
    if (!found) return 0;
    int length = snprintf(path, capacity, "%s", found);
    free(found);
    return length < 0 ? 0 : (size_t)length;
}
