/* cache_shard.h - a shard's files: their names, what they are by name, and whether this version may remove them. For
 * the walks and the bound. Internal. */
#ifndef DCPK_GEN_CACHE_SHARD_H
#define DCPK_GEN_CACHE_SHARD_H

#include "gen/cache.h"
#include "runtime/digest.h"

enum { CACHE_SHARDS = 256 };

/* OTHER: no version that we know of gives such a name; lock files are that, too. */
enum file_kind { FILE_OTHER, FILE_ENTRY, FILE_MANIFEST, FILE_TOOLCHAIN, FILE_TEMPORARY };

/* An open shard and its names, sorted. */
struct shard {
    int fd; /* -1: the shard is not there */
    char name[3];
    char *bytes;
    char **names;
    size_t count;
};

/* OK with fd -1 and no names for a shard that is not there. shard_close after it, whatever it says. */
dcpk_status shard_open(struct cache *cache, unsigned index, struct shard *shard, dcpk_error *error);
void shard_close(const struct cache *cache, struct shard *shard);

/* What a name is, in this shard. key: of files that have one, else "". */
enum file_kind file_kind_of(const struct shard *shard, const char *name, char key[DIGEST_HEX]);

/* In the shard with this descriptor: may this version remove it? Not what is no file, what others own, what a newer
 * version wrote, nor a temporary whose builder lives: it holds a lock on its first byte. */
bool file_removable(const struct cache *cache, int shard, const char *name, enum file_kind kind);
/* Removes it where it may: 1, 0 where it may not, -1 with errno. A temporary's lock is held from the look at it until
 * it is gone: its builder, were it alive and about to lock it, notices and takes another. */
int file_remove(const struct cache *cache, int shard, const char *name, enum file_kind kind);

#endif
