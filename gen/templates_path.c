/* templates_path.c - finds the built-in template folder beside the running program. */
#include "gen/templates_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef DCPK_TEMPLATE_DIR
#define BUILT_IN DCPK_TEMPLATE_DIR
#else
#define BUILT_IN ""
#endif

/* The folder of the running program, "." when the system will not say. */
static void program_folder(char *folder, size_t capacity) {
    ssize_t length = readlink("/proc/self/exe", folder, capacity - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    else
        snprintf(folder, capacity, ".");
}

char *templates_path(const struct system *sys) {
    static const char *const below[] = {"../templates", "../../templates", "../share/dcpk/templates"};
    char folder[4000], path[4096];
    struct stat st;
    if (BUILT_IN[0]) return strdup(BUILT_IN);
    program_folder(folder, sizeof folder);
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, below[i]);
        if (sys->stat_path(path, &st) == 0 && S_ISDIR(st.st_mode)) return strdup(path);
    }
    snprintf(path, sizeof path, "%s/%s", folder, below[0]);
    return strdup(path);
}
