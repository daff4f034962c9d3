/* image.h - the kernel image: one self-describing blob that joins the generator and the runtime.
 *
 * It holds the cubin (first, so that cuobjdump and readelf work on the file), the PTX, the line map from
 * PTX lines to template lines, the launch metadata and the text that its key was made of. A cache entry
 * is an image written to a file; a driver gets the address of its first byte. Images are immutable and
 * reference counted: any thread may read them. */
#ifndef DCPK_IMAGE_H
#define DCPK_IMAGE_H

#include <dcpk/spec.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dcpk_image dcpk_image;

#define DCPK_IMAGE_MAX_PARAMS 32
#define DCPK_IMAGE_MAX_ENTRIES 4

typedef struct dcpk_param_info {
    char name[32];
    char type[8]; /* u32 s32 u64 f32; map: a tensor map of 128 bytes */
} dcpk_param_info;

/* One entry point of an image. An image has one, but for dcp_value split=1 (push, then merge). */
typedef struct dcpk_entry_info {
    uint32_t size;
    char name[64]; /* the symbol, "dcpk_dcp_value" */
    uint32_t grid[3], block[3], cluster[3];
    uint32_t static_shared;  /* bytes a CTA, from the cubin */
    uint32_t dynamic_shared; /* bytes a CTA, passed at launch */
    uint32_t registers;      /* a thread, from the cubin */
    uint32_t local_bytes;    /* stack frame a thread, from the cubin: spills and local arrays */
    uint32_t waits;          /* 1: executes griddepcontrol.wait, so it may have the PDL attribute */
    uint32_t resident;       /* 1: the grid polls for CTAs of its own kind: it must be resident as a whole */
    uint32_t param_count;
    dcpk_param_info params[DCPK_IMAGE_MAX_PARAMS];
} dcpk_entry_info;

/* Checks everything (lengths, checksum, format, the cubin's headers and entry names) and copies.
 * BAD_CUBIN or CACHE with what is wrong; NOT_FOUND for a newer format than this library knows. */
DCPK_API dcpk_status dcpk_image_from_bytes(const void *bytes, size_t length, dcpk_image **out, dcpk_error *error);
DCPK_API void dcpk_image_ref(dcpk_image *image);
DCPK_API void dcpk_image_free(dcpk_image *image); /* drops one reference; NULL is fine */

DCPK_API const void *dcpk_image_bytes(const dcpk_image *image, size_t *length);
DCPK_API const void *dcpk_image_cubin(const dcpk_image *image, size_t *length);
DCPK_API const char *dcpk_image_ptx(const dcpk_image *image, size_t *length);      /* NUL-terminated */
DCPK_API const char *dcpk_image_preimage(const dcpk_image *image, size_t *length); /* NUL-terminated */
DCPK_API const char *dcpk_image_key(const dcpk_image *image);                      /* 32 hex digits */
DCPK_API dcpk_status dcpk_image_spec(const dcpk_image *image, dcpk_spec *spec, dcpk_error *error);
DCPK_API uint32_t dcpk_image_entry_count(const dcpk_image *image);
DCPK_API dcpk_status dcpk_image_entry(const dcpk_image *image, uint32_t index, dcpk_entry_info *info,
                                      dcpk_error *error);

/* The template file and 1-based line that emitted PTX line `ptx_line` (1-based). 0 when unknown. */
DCPK_API uint32_t dcpk_image_template_line(const dcpk_image *image, uint32_t ptx_line, const char **file);

/* Who makes images for a runtime: gen's provider, a pack, an engine's own. get: the image of a resolved
 * spec, one reference the caller's. Called from any thread. */
typedef struct dcpk_provider {
    uint32_t size;
    void *self;
    dcpk_status (*get)(void *self, const dcpk_spec *spec, dcpk_image **out, dcpk_error *error);
    /* May be NULL. Many specs are about to be asked for: makes them together, so that each get is quick. */
    dcpk_status (*prepare)(void *self, const dcpk_spec *specs, uint32_t count, dcpk_error *error);
} dcpk_provider;

#ifdef __cplusplus
}
#endif
#endif
