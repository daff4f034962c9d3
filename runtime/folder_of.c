/* folder_of.c - see folder_of.h. May call the loader, /proc/self/exe and realpath. */
#include "runtime/folder_of.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool dcpk_folder_up(char *folder) {
    char *slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder) return false;
    *slash = '\0';
    return true;
}

bool dcpk_folder_of_program(char folder[PATH_MAX]) {
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (length <= 0) return false;
    folder[length] = '\0';
    return dcpk_folder_up(folder);
}

/* The loader knows a program by what it was called, which may be a bare word: its map has an empty name. */
bool dcpk_folder_of(const void *inside, char folder[PATH_MAX]) {
    Dl_info info;
    void *extra = NULL;
    if (dladdr1(inside, &info, &extra, RTLD_DL_LINKMAP) == 0 || extra == NULL) return dcpk_folder_of_program(folder);
    const struct link_map *map = extra;
    if (map->l_name == NULL || map->l_name[0] == '\0') return dcpk_folder_of_program(folder);
    return realpath(map->l_name, folder) != NULL && dcpk_folder_up(folder);
}
