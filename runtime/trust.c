/* trust.c - see trust.h. Pure: asks nothing of the system. */
#include "runtime/trust.h"

#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dcpk_status trust_check(const struct trust *trust, const struct stat *st, const char *path, dcpk_error *error) {
    char owner[32];
    snprintf(owner, sizeof owner, "chown %s%u", trust->how == TRUST_FOLDER ? "-R " : "", trust->user);
    bool remove = trust->how == TRUST_REMOVE;
    const char *write = trust->how == TRUST_FOLDER ? "chmod -R go-w" : "chmod go-w";
    const char *then = trust->how == TRUST_FOLDER ? " && dcpk cache clear" : "";
    if (st->st_uid != trust->user && st->st_uid != 0 && (int64_t)st->st_uid != trust->also)
        return dcpk_error_set(error, DCPK_E_UNTRUSTED,
                              "%s belongs to user %u, who could put other code into it; run: %s '%s'%s (or set "
                              "DCPK_CACHE_TRUST_UID=%u%s)",
                              path, st->st_uid, remove ? "rm" : owner, trust->fix, then, st->st_uid, trust->elsewhere);
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return dcpk_error_set(error, DCPK_E_UNTRUSTED, "%s may be written by %s (mode %04o); run: %s '%s'%s", path,
                              st->st_mode & S_IWOTH ? "everyone" : "its group", st->st_mode & 07777,
                              remove ? "rm" : write, trust->fix, then);
    return DCPK_OK;
}

bool trust_uid(const char *text, int64_t *uid) {
    *uid = -1;
    if (text == NULL || text[0] == '\0') return true;
    if (strlen(text) > 10 || strspn(text, "0123456789") != strlen(text)) return false;
    *uid = strtoll(text, NULL, 10);
    return *uid <= UINT32_MAX;
}
