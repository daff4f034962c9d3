/* packs.h - the layer of ahead-of-time packs: what was built for a spec before, found without toolchain, templates or
 * expansion. A pack that cannot be used costs one warning; the others serve. */
#ifndef DCPK_GEN_PACKS_H
#define DCPK_GEN_PACKS_H

#include "gen/cache.h"
#include "gen/expand.h"
#include "runtime/buffer.h"

#include <dcpk/pack.h>

struct pack_slot {
    char *path;
    dcpk_packs *packs; /* of this one file; NULL: not usable */
    char reason[512];  /* why not */
    bool compared;     /* its manifest was held against this generator */
    bool warned;       /* a damaged entry was reported */
};

struct packs {
    struct pack_slot *slots;
    uint32_t count;
};

/* Opens every file of a colon list. trusted: as cache_trust's. NOMEM is the only failure: a file that cannot be used is
 * noticed, and its slot says why. */
dcpk_status packs_open(struct packs *packs, const char *list, int64_t trusted, const struct notice *notice,
                       dcpk_error *error);
void packs_close(struct packs *packs);

/* The image of a resolved spec, the caller's; NULL when no pack has it. The first hit of a pack holds its manifest
 * against the templates that are there. */
dcpk_image *packs_find(struct packs *packs, const dcpk_spec *spec, struct expander *expander,
                       const struct notice *notice);
/* For a miss: appends one line a pack, its path and what came of it (an entry of the spec that is damaged is said);
 * offers all specs to nearest. */
struct nearest;
void packs_describe(const struct packs *packs, const dcpk_spec *spec, struct buffer *text, struct nearest *nearest);

#endif
