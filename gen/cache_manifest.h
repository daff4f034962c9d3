/* cache_manifest.h - direct mode: from what is known before expanding to the entry it led to. */
#ifndef DCPK_GEN_CACHE_MANIFEST_H
#define DCPK_GEN_CACHE_MANIFEST_H

#include "gen/cache.h"
#include "gen/expand.h"
#include "gen/key.h"

/* The content key that the same request led to while every template file that was read had the bytes it has now. False
 * when there is none; a damaged or foreign manifest is none. */
bool manifest_find(struct cache *cache, const struct key *direct, struct expander *expander, char content[DIGEST_HEX]);

/* Puts a record first, before those of other states of the templates. A failure costs an expansion next time. */
dcpk_status manifest_add(struct cache *cache, const struct key *direct, const struct expansion *expansion,
                         const char *content, dcpk_error *error);

#endif
