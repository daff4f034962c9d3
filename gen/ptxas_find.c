/* ptxas_find.c - where ptxas is: the caller's word, $DCPK_PTXAS, PATH, $CUDA_HOME/bin, /usr/local/cuda/bin. */
#include "gen/ptxas.h"

#include "gen/environment.h"
#include "runtime/colon_list.h"
#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* True when folder/ptxas (file NULL: folder itself) is a program; toolchain->path is set then. */
static bool is_program(struct toolchain *toolchain, const struct toolchain_place *place, const char *folder,
                       size_t length, const char *file, struct stat *st) {
    char path[4096];
    int written = snprintf(path, sizeof path, "%.*s%s%s", (int)length, folder, file ? "/" : "", file ? file : "");
    if (written < 0 || (size_t)written >= sizeof path || place->sys->stat_path(path, st) != 0) return false;
    if (!S_ISREG(st->st_mode) || !(st->st_mode & 0111)) return false;
    toolchain->path = strdup(path);
    return toolchain->path != NULL;
}

static bool search_path(struct toolchain *toolchain, const struct toolchain_place *place, struct stat *st) {
    const char *at = place->environment->path, *folder;
    size_t length;
    while (at && (folder = colon_next(&at, &length)) != NULL)
        if (folder[0] == '/' && is_program(toolchain, place, folder, length, "ptxas", st))
            return true; /* relative folders in PATH are skipped: they change with the working folder */
    return false;
}

dcpk_status ptxas_find(struct toolchain *toolchain, const struct toolchain_place *place, struct stat *st,
                       dcpk_error *error) {
    const char *named = place->program ? place->program : place->environment->ptxas;
    if (named) {
        if (is_program(toolchain, place, named, strlen(named), NULL, st)) return DCPK_OK;
        return dcpk_error_set(error, DCPK_E_TOOLCHAIN, "%s is not a program; %s names it", named,
                              place->program ? "the option ptxas" : "DCPK_PTXAS");
    }
    const char *home = place->environment->cuda_home;
    if (search_path(toolchain, place, st) ||
        (home && is_program(toolchain, place, home, strlen(home), "bin/ptxas", st)) ||
        is_program(toolchain, place, "/usr/local/cuda", 15, "bin/ptxas", st))
        return DCPK_OK;
    return dcpk_error_set(error, DCPK_E_TOOLCHAIN,
                          "no ptxas in PATH, $CUDA_HOME/bin or /usr/local/cuda/bin; install the CUDA toolkit or set "
                          "DCPK_PTXAS to the program");
}
