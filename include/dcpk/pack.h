/* pack.h - ahead-of-time packs: many images in one file that maps into memory, read without the generator and without
 * Lua.
 *
 * A pack is found by spec: its images answer dcpk_spec_format's text of a resolved spec, arch included, and nothing
 * else. A pack is code: its file must belong to the effective user or root (DCPK_CACHE_TRUST_UID adds one user) and
 * must not be writable by group or others, else it is UNTRUSTED. Packs and what they give are safe from any thread.
 *
 * Opening reads the front of a file (header, manifest, index) into memory and keeps the file open; an image is read
 * when it is asked for, checked, and copied into memory of its own. So nothing reads mapped bytes: a pack that is
 * truncated or overwritten while it is open gives CACHE errors, not signals and not other code. Replace a pack by
 * rename: what was opened goes on with the old file.
 *
 * The format (little-endian; offsets from the file's first byte): a header of 128 bytes, the manifest's text, an index
 * sorted by spec text, the spec texts, then the images, each on a multiple of 64 bytes with zeros between them. It has
 * no addresses in it: an engine may map it. Every byte is covered by an XXH3-128 or must be zero.
 *
 * The manifest that dcpk aot writes, one "name value" a line:
 *   dcpk 0.1.0             the version that made the images
 *   generator ID           of the sources that shape PTX and launch data
 *   templates DIGEST       of every template file: names below the template folders and contents
 *   image-format N
 *   toolchain TEXT         what assembled them (dcpk_gen_toolchain)
 *   model, tp, dcp, batch, q, arch, form, keys    the lists that were asked for
 *   shapes N               specs that a file of shapes asked for
 * The first four are dcpk_gen_identity's (gen.h): a pack in whose manifest one of them differs was made from other
 * templates or by another version. */
#ifndef DCPK_PACK_H
#define DCPK_PACK_H

#include <dcpk/image.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A list of packs, searched in order: the first that has the spec answers. */
typedef struct dcpk_packs dcpk_packs;

typedef struct dcpk_packs_options {
    uint32_t size;
    const char *path;    /* colon list of pack files; NULL: $DCPK_AOT_PATH; "" or unset: a list without packs */
    int64_t trusted_uid; /* one more owner; -1: $DCPK_CACHE_TRUST_UID, then none */
} dcpk_packs_options;

/* Opens every file and checks header, manifest and index (not yet the images: each is checked when it is asked for).
 * NOT_FOUND, UNTRUSTED, IO; CACHE for a damaged file; NOT_FOUND, naming both versions, for a newer format. options
 * NULL: all defaults. */
DCPK_API dcpk_status dcpk_packs_open(const dcpk_packs_options *options, dcpk_packs **out, dcpk_error *error);
/* Images that came out stay valid. NULL is fine. */
DCPK_API void dcpk_packs_close(dcpk_packs *packs);

/* The image of a resolved spec, one reference the caller's. NOT_FOUND names the spec, the packs searched and the
 * nearest entries (fewest differing keys). CACHE or BAD_CUBIN for a damaged entry, naming pack and entry. */
DCPK_API dcpk_status dcpk_packs_find(dcpk_packs *packs, const dcpk_spec *spec, dcpk_image **out, dcpk_error *error);
/* The image under a key (32 hex digits, or a unique prefix of at least 4). */
DCPK_API dcpk_status dcpk_packs_get(dcpk_packs *packs, const char *key, dcpk_image **out, dcpk_error *error);
/* get is dcpk_packs_find. Lives as long as packs. */
DCPK_API dcpk_status dcpk_packs_provider(dcpk_packs *packs, dcpk_provider *out, dcpk_error *error);

typedef struct dcpk_pack_info {
    uint32_t size;
    const char *path;     /* static as long as packs lives, as the next */
    const char *manifest; /* text: "name value" lines: who made it, from which templates, with which toolchain */
    uint32_t entries;
    uint64_t bytes; /* of the file */
} dcpk_pack_info;
DCPK_API uint32_t dcpk_packs_count(const dcpk_packs *packs);
DCPK_API dcpk_status dcpk_packs_info(const dcpk_packs *packs, uint32_t index, dcpk_pack_info *info, dcpk_error *error);

typedef struct dcpk_pack_entry {
    uint32_t size;
    uint32_t pack;          /* index into the list */
    char key[33];           /* content key: 32 hex digits */
    const char *spec;       /* canonical text; static as long as packs lives */
    uint64_t offset, bytes; /* in the file */
    dcpk_status state;      /* DCPK_OK, or what is wrong; without verify: of the index alone */
    const char *reason;     /* "" when fine; valid during the callback */
} dcpk_pack_entry;
/* Visits all entries, pack by pack, in spec order; stops when visit returns non-zero. verify=1 checks every image
 * whole. */
DCPK_API dcpk_status dcpk_packs_visit(dcpk_packs *packs, int32_t verify,
                                      int32_t (*visit)(void *self, const dcpk_pack_entry *entry), void *self,
                                      dcpk_error *error);

/* Writes images as a pack under `path`: whole or not at all (temporary beside it, fsync, rename), mode 0644 without
 * what the umask takes: never writable by group or others. The bytes depend on the images and the manifest alone, not
 * on their order, the time or the folder. Two different images of one spec are refused: ARG; the same one twice counts
 * once. manifest: "name value" lines, without a NUL; NULL: none. */
DCPK_API dcpk_status dcpk_pack_write(const char *path, dcpk_image *const *images, uint32_t count, const char *manifest,
                                     dcpk_error *error);

#ifdef __cplusplus
}
#endif
#endif
