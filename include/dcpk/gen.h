/* gen.h - the generator: templates to PTX, PTX to images, images in a cache.
 *
 * A dcpk_gen is single-threaded and cheap to open; use one a thread. Different processes and threads
 * share a cache folder safely. Links Lua; the runtime does not need this header. */
#ifndef DCPK_GEN_H
#define DCPK_GEN_H

#include <dcpk/image.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dcpk_gen dcpk_gen;

typedef struct dcpk_gen_options {
    uint32_t size;
    const char *template_path;   /* colon list of template folders, first wins, "\:" for a ':' and "\\" for a
                                    backslash in a name; NULL: $DCPK_TEMPLATE_PATH, then the built-in folder */
    const char *cache_dir;       /* NULL: $DCPK_CACHE_DIR, $XDG_CACHE_HOME/dcpk, ~/.cache/dcpk; "": memory only */
    const char *toolchain;       /* ptxas, nvjitlink, driver, or auto (the first of these that is there); NULL:
                                    $DCPK_TOOLCHAIN, then ptxas. nvjitlink and driver run in this process, on a thread of
                                    their own; one that outlasts compile_timeout_ms is given up and ends by itself */
    const char *ptxas;           /* NULL: $DCPK_PTXAS, then PATH, then $CUDA_HOME/bin, then /usr/local/cuda/bin */
    uint32_t compile_timeout_ms; /* 0: 120000 */
    uint32_t lock_timeout_ms;    /* 0: $DCPK_LOCK_TIMEOUT, then 60000 */
    dcpk_log_fn *log;
    void *log_self;
    /* Which layers a build may use: "auto": packs, then the cache, then compile; "never": packs, then the cache, never
     * a compiler; "force": compile, whatever packs and cache hold, once a spec and generator, and replace the cache's
     * entry. NULL: $DCPK_JIT, then auto. */
    const char *jit;
    const char *aot_path; /* colon list of packs; NULL: $DCPK_AOT_PATH; "": none. A pack made from other templates or by
                             another version is used, with one warning that says so */
    uint64_t cache_max;   /* bytes that the cache folder may hold; 0: $DCPK_CACHE_MAX, then 2 GiB */
} dcpk_gen_options;

/* Reads the environment once. Opening finds no compiler and touches no cache: first use does. */
DCPK_API dcpk_status dcpk_gen_open(const dcpk_gen_options *options, dcpk_gen **out, dcpk_error *error);
DCPK_API void dcpk_gen_close(dcpk_gen *gen);

/* The built-in template folder: share/dcpk/templates of the tree that this library (or, linked statically, the program)
 * is installed in; a source tree's templates. As a colon list of one, with the escapes of template_path, for lists
 * that put folders before or behind it. Returns the length without NUL (snprintf's rule), 0 when memory is out. */
DCPK_API size_t dcpk_templates_path(char *path, size_t capacity);
/* Whether every folder of a list as template_path is there: NOT_FOUND names the first that is not; ARG for an empty
 * list. Opening a generator passes over folders that are missing. */
DCPK_API dcpk_status dcpk_templates_check(const char *path, dcpk_error *error);

/* Text owned by the caller: free with dcpk_text_free. NUL-terminated; length without the NUL. */
typedef struct dcpk_text {
    char *data;
    size_t length;
} dcpk_text;
DCPK_API void dcpk_text_free(dcpk_text *text);

/* The PTX of a resolved spec, linted. A CUDA C++ template (NAME.cu.lua) needs NVRTC for it: TOOLCHAIN without. The same
 * bytes in every run, process, folder and locale. */
DCPK_API dcpk_status dcpk_gen_expand(dcpk_gen *gen, const dcpk_spec *spec, dcpk_text *ptx, dcpk_error *error);

typedef struct dcpk_build_report {
    uint32_t size;
    char key[33];      /* 32 hex digits */
    uint32_t hit;      /* 0 compiled, 1 from this process, 2 from the cache folder, 3 from a pack */
    uint32_t compiled; /* compiler processes this call started */
    uint32_t cached;   /* 1 when the cache folder holds the entry now */
    uint32_t ptx_lines;
    uint64_t cubin_bytes;
    double expand_ms, compile_ms, total_ms;
} dcpk_build_report;

/* spec -> image, through the layers that options.jit allows. report may be NULL. Any failure gives no image. A cache
 * that cannot be written costs one log warning, not the build. A miss under "never" is NOT_FOUND: it names the spec,
 * its key (where a toolchain could be identified; a cache can be searched only then), the layers searched and the
 * nearest entries. */
DCPK_API dcpk_status dcpk_gen_build(dcpk_gen *gen, const dcpk_spec *spec, dcpk_image **out, dcpk_build_report *report,
                                    dcpk_error *error);

/* Where dcpk_gen_build would have the image from, by the same layers in the same order: *hit as in the report, 0: it
 * would compile. Assembles nothing and writes nothing, no file's time either (a CUDA C++ template becomes PTX as in
 * dcpk_gen_expand). Not OK: what the build would be refused for, as far as that shows before an assembler runs. */
DCPK_API dcpk_status dcpk_gen_find(dcpk_gen *gen, const dcpk_spec *spec, uint32_t *hit, dcpk_error *error);

/* Builds many specs, `jobs` at a time (0: one a CPU, at most 16), so that later builds of this gen find them at once:
 * the warm-up of an engine, the body of an ahead-of-time build. visit (may be NULL) is called in the caller's thread,
 * once a spec, in the order they end; non-zero stops: what runs is finished, nothing more begins. image is borrowed for
 * the call, NULL where this spec failed and `reason` says why. Returns the first failure in spec order, after all have
 * been tried. specs: the array's stride is specs[0].size, as in dcpk_kernel_warm; ARG where sizes differ or are below
 * this library's. */
typedef struct dcpk_warm_result {
    uint32_t size;
    uint32_t index; /* of specs */
    dcpk_image *image;
    const dcpk_build_report *report;
    const dcpk_error *reason;
} dcpk_warm_result;
DCPK_API dcpk_status dcpk_gen_warm(dcpk_gen *gen, const dcpk_spec *specs, uint32_t count, uint32_t jobs,
                                   int32_t (*visit)(void *self, const dcpk_warm_result *result), void *self,
                                   dcpk_error *error);

/* The preimages of both keys (design: direct and content), for people. */
DCPK_API dcpk_status dcpk_gen_explain(dcpk_gen *gen, const dcpk_spec *spec, dcpk_text *out, dcpk_error *error);

/* Fills heads, gate, rope, q_lora of spec, where its kernel takes them and they are unset, from the preset
 * (templates/models.lua) at tensor-parallel size tp: heads of one rank = heads / tp. NOT_FOUND lists the presets. */
DCPK_API dcpk_status dcpk_gen_model(dcpk_gen *gen, const char *model, int32_t tp, dcpk_spec *spec, dcpk_error *error);
/* What a preset says of the whole model and of its launches. */
typedef struct dcpk_model_info {
    uint32_t size;
    int32_t heads, gate, rope, q_lora; /* heads of the whole model; the others as in keys.def */
    double eps;                        /* of the norms */
    double softmax_scale;              /* of natural logarithms, yarn's factor included, before the q and k scales */
    double rope_theta;                 /* base of the rotation's angles; 0: none */
} dcpk_model_info;
DCPK_API dcpk_status dcpk_gen_model_info(dcpk_gen *gen, const char *model, dcpk_model_info *info, dcpk_error *error);
/* "name heads=.. ... source" lines of all presets. */
DCPK_API dcpk_status dcpk_gen_models(dcpk_gen *gen, dcpk_text *out, dcpk_error *error);

/* A provider over gen: thread-safe (calls are serialised); its prepare is dcpk_gen_warm. Lives as long as gen. */
DCPK_API dcpk_status dcpk_gen_provider(dcpk_gen *gen, dcpk_provider *out, dcpk_error *error);

/* The cache folder in use, "" for memory only. Static as long as gen lives. */
DCPK_API dcpk_status dcpk_cache_path(dcpk_gen *gen, const char **path, dcpk_error *error);

typedef struct dcpk_cache_entry {
    uint32_t size;
    char key[33];
    const char *path; /* valid during the callback */
    uint64_t bytes;
    dcpk_status state;  /* DCPK_OK, or why the entry counts as a miss */
    const char *reason; /* the message for state, "" when fine */
    const char *spec;   /* canonical spec text, "" when unreadable */
} dcpk_cache_entry;
/* Visits entries in key order; stops when visit returns non-zero. verify=1 checks checksums and cubins. */
DCPK_API dcpk_status dcpk_cache_visit(dcpk_gen *gen, int32_t verify,
                                      int32_t (*visit)(void *self, const dcpk_cache_entry *entry), void *self,
                                      dcpk_error *error);
/* The image under a key (32 hex digits, or a unique prefix of at least 4). */
DCPK_API dcpk_status dcpk_cache_get(dcpk_gen *gen, const char *key, dcpk_image **out, dcpk_error *error);
/* Removes every entry and manifest that this version knows; leaves what it does not know. */
DCPK_API dcpk_status dcpk_cache_clear(dcpk_gen *gen, uint64_t *removed, dcpk_error *error);

/* What makes this generator's images, beside the toolchain, as lines of a pack's manifest (pack.h): "dcpk VERSION",
 * "generator ID", "templates DIGEST", "image-format N", each with its newline. Reads the template folders whole. A pack
 * is current when its manifest holds all four. */
DCPK_API dcpk_status dcpk_gen_identity(dcpk_gen *gen, dcpk_text *out, dcpk_error *error);

/* The toolchain that builds would use: "ptxas 13.0.88 (build ...)". Static as long as gen lives. */
DCPK_API dcpk_status dcpk_gen_toolchain(dcpk_gen *gen, const char **text, dcpk_error *error);

/* One way to assemble PTX, or to compile CUDA C++ (nvrtc), as it is found on this machine. Strings are valid during the
 * callback. */
typedef struct dcpk_toolchain_info {
    uint32_t size;
    const char *name;   /* ptxas, nvjitlink, driver, nvrtc */
    dcpk_status status; /* DCPK_OK: usable; else why not */
    const char *reason; /* the message for status, "" when usable */
    const char *text;   /* "ptxas 13.0.88 (build ...)", "" when not usable */
    const char *path;   /* the program or library, "" when not known */
    int32_t chosen;     /* 1: what builds of this gen use */
    uint32_t arch_count;
    const char *const *archs; /* of the architecture table: those that it can build */
} dcpk_toolchain_info;
/* Visits all four; stops when visit returns non-zero. Starts compilers to learn what they are; compiles nothing. */
DCPK_API dcpk_status dcpk_gen_toolchains(dcpk_gen *gen, int32_t (*visit)(void *self, const dcpk_toolchain_info *info),
                                         void *self, dcpk_error *error);

#ifdef __cplusplus
}
#endif
#endif
