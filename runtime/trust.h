/* trust.h - who may own files that hold code: one rule, and one set of words, for the cache's folders and entries and
 * for packs. Internal to runtime and gen. */
#ifndef DCPK_RUNTIME_TRUST_H
#define DCPK_RUNTIME_TRUST_H

#include "runtime/private.h"

#include <dcpk/base.h>

#include <stdbool.h>
#include <sys/stat.h>

/* What the message advises. What others could write may hold their code already: nothing of a cache is worth that risk,
 * for it is only compiled again. FILE keeps a file, which somebody made on purpose. */
enum trust_fix { TRUST_FILE, TRUST_REMOVE, TRUST_FOLDER };

struct trust {
    uid_t user;   /* the effective user */
    int64_t also; /* one more owner, -1: none */
    enum trust_fix how;
    const char *fix;       /* the path that the command in the message takes */
    const char *elsewhere; /* ", or ...": what else helps, for the message; "" */
};

/* OK, or UNTRUSTED: the owner is neither the user, nor root, nor `also`, or group or others may write. path: what st is
 * of, for the message. */
DCPK_PRIVATE dcpk_status trust_check(const struct trust *trust, const struct stat *st, const char *path,
                                     dcpk_error *error);

/* The value of DCPK_CACHE_TRUST_UID: NULL is none, -1. False for anything but a user's number. */
bool trust_uid(const char *text, int64_t *uid);

#endif
