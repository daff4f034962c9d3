/* cache.h - the cache folder: who may write to it, its files, its locks. Internal to gen.
 *
 *   FOLDER/ab/KEY.dcpk        an image (the content key's entry)
 *   FOLDER/ab/KEY.manifest    what a direct key led to
 *   FOLDER/ab/KEY.toolchain   what a compiler's file was when it was asked for its version
 *   FOLDER/ab/lock            permanent; one byte of it is locked while one key is built
 *   FOLDER/ab/.tmp-*          a file on its way
 * KEY is 32 hex digits, ab its first two. Everything degrades: a folder that is missing, full, foreign or read-only
 * costs compile time and one warning, never the build. Any file may vanish at any moment: that is a miss.
 *
 * The bound (DCPK_CACHE_MAX, cache_bound.c). The folder's shards share it evenly: one by one where a shard's part is 8
 * MiB or more (at 2 GiB and above), in groups of 2, 4, ... 256 shards where it is less. Before a file is written, its
 * group is locked and listed and, should the group hold more than 7/8 of its part with it, the longest unused files of
 * the group are removed, to 3/4; the lock is kept until the file is in its place. Whoever has listed then writes a
 * 64th of the part without: so eight writers at once (CACHE_WRITERS) fill the last eighth at most, and do not overrun
 * the bound together. A file larger than 7/8 of its part leaves no such room, and where locks do not work, or a writer
 * is stopped for seconds in the midst, the files written at once come on top. Used: a build has read the file; that
 * sets its modification time, at most once an hour. Nothing but this order depends on times; a time in the future
 * counts as the oldest. Entries, manifests and toolchains count, each for itself: the manifest of an entry that is gone
 * is no longer used and follows it. What another user owns, what a newer version wrote, and what has another name is
 * not counted and stays; each version bounds what it knows. Lock files stay. A temporary is removed when it is a day
 * old and its builder is dead: a builder holds a lock on the temporary's first byte. */
#ifndef DCPK_GEN_CACHE_H
#define DCPK_GEN_CACHE_H

#include "gen/system.h"

#include <dcpk/gen.h>

#include <stdatomic.h>
#include <stdbool.h>

#define CACHE_ENTRY ".dcpk"
#define CACHE_MANIFEST ".manifest"
#define CACHE_TOOLCHAIN ".toolchain"
#define CACHE_TEMPORARY ".tmp-"
enum { CACHE_FILE_MAX = 256 << 20, CACHE_NAME = 64, CACHE_WRITERS = 8 };

/* One log line at most for each kind of trouble and each opened generator. */
struct notice {
    dcpk_log_fn *log;
    void *self;
};
void notice_log(const struct notice *notice, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));

struct cache {
    const struct system *sys;
    const struct notice *notice;
    char *path;          /* NULL: memory only */
    int root;            /* descriptor of the folder, -1: not open */
    bool opened;         /* opening was tried */
    bool looking;        /* reading is no use: no times, no compiler's version are written */
    uint64_t max;        /* bytes that the folder may hold */
    uint64_t spare[256]; /* of a group's first shard: what may be written into the group before it is looked at */
    bool uncounted;      /* a shard that the bound cannot count was reported */
    atomic_bool own_warned, *warned; /* a failure was reported; generators beside each other share one */
    uid_t user;                      /* the effective user */
    int64_t trusted;                 /* DCPK_CACHE_TRUST_UID, -1: none */
    dcpk_status status;              /* why root is -1, DCPK_OK for memory only */
    char reason[512];
};

/* path: NULL or "" for memory only. Touches nothing yet. False when memory is out. */
bool cache_init(struct cache *cache, const struct system *sys, const struct notice *notice, const char *path,
                int64_t trusted);
void cache_close(struct cache *cache);

/* Opens the folder at first use, creating it when create is set. True when there is a folder to use. */
bool cache_ready(struct cache *cache, bool create);
/* The folder's trouble as an error; OK for a usable folder or memory only. */
dcpk_status cache_status(struct cache *cache, dcpk_error *error);

/* Owner and mode rule of folders and files: owned by the effective user, root or the trusted user, and not writable by
 * group or others. UNTRUSTED with the command to run. */
dcpk_status cache_trust(const struct cache *cache, const struct stat *st, const char *name, dcpk_error *error);

/* Descriptor of the shard folder of a key, checked; -1 when it is not there or not to be trusted. */
int cache_shard(struct cache *cache, const char *key, bool create, dcpk_error *error);

/* Files. A file that cannot be had, for whatever reason, is a miss: NOT_FOUND, UNTRUSTED, IO or NOMEM. data gets a NUL
 * behind its length bytes and is freed by the caller. */
dcpk_status cache_read(struct cache *cache, const char *key, const char *suffix, char **data, size_t *length,
                       dcpk_error *error);
dcpk_status cache_read_at(const struct cache *cache, int shard, const char *name, char **data, size_t *length,
                          dcpk_error *error);
enum cache_write_mode {
    CACHE_FIRST_WINS, /* link: *exists is set when there was one already */
    CACHE_REPLACE     /* rename: the last one wins */
};
/* IO: the file is in place, but something behind it (removing the temporary, syncing the folder) failed. */
dcpk_status cache_write(struct cache *cache, const char *key, const char *suffix, const void *data, size_t length,
                        enum cache_write_mode mode, bool *exists, dcpk_error *error);
/* cache_bound.c: room for a file of this length beside the key's: removes the longest unused where the bound wants it.
 * CACHE where there is none to be made. *lock (-1 before): the group's lock, the caller's to end with cache_unlock when
 * the file is there. */
dcpk_status cache_make_room(struct cache *cache, const char *key, uint64_t length, int *lock, dcpk_error *error);
/* cache_bound.c: a build has used this open file. */
void cache_used(const struct cache *cache, int fd, const struct stat *st);
/* Unlinks, trying again: network file systems answer EBUSY now and then. */
int cache_unlink(const struct cache *cache, int shard, const char *name);

/* One builder a key. Descriptor of the locked file, -1 when it could not be had in time: build anyway. */
int cache_lock(struct cache *cache, const char *key, uint32_t timeout_ms);
/* For who makes room in these shards; waits no longer than seconds. -1 when it could not be had: go on without. */
int cache_lock_group(struct cache *cache, unsigned first, unsigned size);
void cache_unlock(struct cache *cache, int lock);

/* Images. Only a whole, valid image whose preimage is `preimage` comes out. */
dcpk_status cache_entry_read(struct cache *cache, const char *key, dcpk_image **out, dcpk_error *error);
/* Publishes; replaces an entry that is damaged (with replace: a good one, too), never one of a newer format. *cached:
 * the folder holds this key now. */
dcpk_status cache_entry_write(struct cache *cache, const char *key, const dcpk_image *image, bool replace, bool *cached,
                              dcpk_error *error);

/* Warns once an opened generator about a write that failed; later ones are informational. */
void cache_warn(struct cache *cache, const dcpk_error *error);

/* Walks. See gen.h. */
dcpk_status cache_visit(struct cache *cache, bool verify, int32_t (*visit)(void *, const dcpk_cache_entry *),
                        void *self, dcpk_error *error);
dcpk_status cache_get(struct cache *cache, const char *prefix, dcpk_image **out, dcpk_error *error);
dcpk_status cache_clear(struct cache *cache, uint64_t *removed, dcpk_error *error);

#endif
