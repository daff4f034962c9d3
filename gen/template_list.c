/* template_list.c - owns the form of a list of template folders: ':' between them, and a backslash before a ':' or a
 * backslash that belongs to a name; before anything else a backslash is a plain letter. Empty folders are passed over.
 * May call stat. Must not read templates. */
#include "gen/template_list.h"

#include "runtime/error.h"

#include <dcpk/gen.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool escape(const char *at) {
    return at[0] == '\\' && (at[1] == ':' || at[1] == '\\');
}

const char *template_list_next(const char *at, char *folder, size_t capacity) {
    size_t length = 0;
    at += strspn(at, ":");
    if (*at == '\0') return NULL;
    while (*at != '\0' && *at != ':') {
        at += escape(at);
        if (length + 1 < capacity) folder[length++] = *at;
        at++;
    }
    folder[length] = '\0';
    return at;
}

char *template_list_of(const char *folder) {
    char *list = malloc(2 * strlen(folder) + 1), *to = list;
    if (list == NULL) return NULL;
    for (const char *at = folder; *at != '\0'; at++) {
        /* A last backslash, too: in a longer list a ':' comes behind it. */
        if (*at == ':' || escape(at) || (at[0] == '\\' && at[1] == '\0')) *to++ = '\\';
        *to++ = *at;
    }
    *to = '\0';
    return list;
}

bool template_folder_there(const char *folder) {
    struct stat about;
    return stat(folder, &about) == 0 && S_ISDIR(about.st_mode);
}

dcpk_status dcpk_templates_check(const char *path, dcpk_error *error) {
    char folder[PATH_MAX];
    size_t count = 0;
    if (path == NULL) return dcpk_error_set(error, DCPK_E_ARG, "path may not be NULL");
    for (const char *at = path; (at = template_list_next(at, folder, sizeof folder)) != NULL; count++)
        if (!template_folder_there(folder))
            return dcpk_error_set(error, DCPK_E_NOT_FOUND, "there is no template folder %s", folder);
    return count > 0 ? DCPK_OK : dcpk_error_set(error, DCPK_E_ARG, "a list of template folders names at least one");
}
