/* spec.h - what one kernel is specialised for: a kernel's name and the keys of keys.def.
 *
 * A spec is plain data: copy it freely. Life: dcpk_spec_init, dcpk_spec_set or dcpk_spec_parse for each
 * key, dcpk_spec_resolve (defaults, then the rules), then use. Calls are pure: safe from any thread. */
#ifndef DCPK_SPEC_H
#define DCPK_SPEC_H

#include <dcpk/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DCPK_UNSET (-1) /* a key nobody set */

enum dcpk_kernel_id {
    DCPK_KERNEL_NONE = 0,
#define K(name, number, box, summary) DCPK_KERNEL_##name = number,
#include <dcpk/kernels.def>
#undef K
    DCPK_KERNEL_INT32 = 0x7FFFFFFF
};

enum { DCPK_PUBLISH_PEER = 0, DCPK_PUBLISH_MULTICAST = 1 };
enum { DCPK_PARITY_DEVICE = 0, DCPK_PARITY_ARG = 1 };
enum { DCPK_ROPE_NONE = 0, DCPK_ROPE_INTERLEAVED = 1, DCPK_ROPE_HALF = 2 };
enum { DCPK_PV_F16 = 0, DCPK_PV_FP8 = 1 };

typedef struct dcpk_spec {
    uint32_t size;
    char kernel[32]; /* "dcp_value"; a template of the user's own may have any name of [a-z0-9_] */
    char arch[16];   /* "sm_90a"; "" = the default */
#define N(name, low, high, dflt, kernels, doc) int32_t name;
#define C(name, words, dflt, kernels, doc) int32_t name;
#include <dcpk/keys.def>
#undef N
#undef C
} dcpk_spec;

/* All keys unset. kernel: name of a template. */
DCPK_API void dcpk_spec_init(dcpk_spec *spec, const char *kernel);

/* One "key=value". SPEC: unknown key, key that this kernel does not take, bad value; the message lists
 * what is allowed. A key may be set once. */
DCPK_API dcpk_status dcpk_spec_set(dcpk_spec *spec, const char *assignment, dcpk_error *error);

/* "dcp_value heads=12 dcp=2 batch=17": the kernel's name, then assignments between blanks. Initialises. */
DCPK_API dcpk_status dcpk_spec_parse(dcpk_spec *spec, const char *text, dcpk_error *error);

/* Fills every unset key of the kernel with its default and checks the rules that need no template:
 * domains, q divides batch, batch <= cap, dcp * heads * q <= 1024, what dcp = 1 has not, the arch table,
 * residency (split, poll). Idempotent. SPEC or ARCH with a message that states the rule. */
DCPK_API dcpk_status dcpk_spec_resolve(dcpk_spec *spec, dcpk_error *error);

/* The canonical text: kernel, arch and the keys that this kernel takes, in table order, NUL-terminated
 * (a kernel that is not of kernels.def takes every key that is set). Returns the length without NUL, or
 * the length needed when it is not below capacity (snprintf's rule). */
DCPK_API size_t dcpk_spec_format(const dcpk_spec *spec, char *text, size_t capacity);

/* Bytes of args.workspace that the kernel of this spec needs; the spec is resolved as dcpk_spec_resolve would, and left
 * as it is. mla_decode with more than one split: F32 [R, splits, q*D*H, 512], then F32 [R, splits, q*D*H], so 2052
 * bytes a row; 0 with one split, and for every other kernel. With pv=fp8 (the default of sm_90a) and splits=auto, where
 * there are more columns of CTAs ((sms - reserve) / row groups, at most 512) than requests: groups * columns * (1024 n
 * + 4 max(n, 2 columns)) bytes, n rows a CTA, a multiple of 8 (as few groups as have at most 64 rows each; instead of
 * an odd number above 1 one more, where requests of one length then take less time); that memory must be armed
 * (dcpk_workspace_arm). *most (may be NULL, as bytes may): what serves every batch up to this one, all other keys
 * alike; with splits=auto a smaller batch can need more than this one, for it is split more finely. With pv=f16 *most
 * is then at most 2052 * q*D*H * floor(n (sms - reserve) / ceil(q*D*H / 64)), whatever the batch: splits = clamp(n (sms
 * - reserve) / (R * ceil(q*D*H / 64)), 1, 256), n = 2 CTAs a multiprocessor where q*D*H <= 32, else 1. What
 * dcpk_spec_resolve refuses, with its status and message. */
DCPK_API dcpk_status dcpk_spec_workspace(const dcpk_spec *spec, uint64_t *bytes, uint64_t *most, dcpk_error *error);

/* The row of kernels.def, 0 (DCPK_KERNEL_NONE) for a name that is not there. */
DCPK_API int32_t dcpk_kernel_id_of(const char *name);
/* 1 when the kernel takes the key, 0 when not (or no such key). */
DCPK_API int32_t dcpk_spec_takes(const char *kernel, const char *key);

/* Rows of the key table for help and completion: index 0.. until 0 is returned. Static texts.
 * values: "1..128" or "peer|multicast"; dflt: "required", "derived" or the default's text. */
typedef struct dcpk_key_info {
    uint32_t size;
    const char *name, *values, *dflt, *kernels, *doc;
} dcpk_key_info;
DCPK_API int32_t dcpk_key_at(uint32_t index, dcpk_key_info *info);

/* Rows of the architecture table (PTX target, compute capability, multiprocessors planned for, lowest
 * PTX ISA version * 10, which family of instructions): index 0.. until 0 is returned. */
typedef struct dcpk_arch_info {
    uint32_t size;
    const char *name; /* "sm_90a" */
    int32_t major, minor;
    int32_t exact; /* 1: cubins of this name run on this compute capability alone */
    int32_t sms;
    int32_t ptx; /* 80 means 8.0 */
} dcpk_arch_info;
DCPK_API int32_t dcpk_arch_at(uint32_t index, dcpk_arch_info *info);
/* 1 and the row when there is such an architecture. */
DCPK_API int32_t dcpk_arch_find(const char *name, dcpk_arch_info *info);

#ifdef __cplusplus
}
#endif
#endif
