/* toolchain.h - what turns PTX into a cubin. One const vtable a kind: the program ptxas, the library nvJitLink, the
 * driver's own compiler. */
#ifndef DCPK_GEN_TOOLCHAIN_H
#define DCPK_GEN_TOOLCHAIN_H

#include "gen/cache.h"
#include "gen/expand.h"

struct environment;

/* An opened toolchain: found and identified. Zero it before opening. */
struct toolchain {
    char *path;       /* of the program */
    void *library;    /* of a compiler that is a library: its functions; the kind's own */
    char text[256];   /* "ptxas 13.0.88 (build cuda_13.0.r13.0/compiler.36424714_0)" */
    uint32_t started; /* compiler processes so far */
    bool warned;      /* a known fault of this version was reported */
    bool useless;     /* opening failed by what the program did: it would do so again */
    char **envp;      /* what the program's environment is */
};

/* What opening may use. cache: to remember a program's version by its file, so that a hit starts no process. */
struct toolchain_place {
    const struct system *sys;
    const struct notice *notice;
    const struct environment *environment;
    struct cache *cache;
    const char *program; /* dcpk_gen_options.ptxas, NULL: search */
    uint32_t timeout_ms;
};

struct toolchain_output {
    void *cubin; /* freed by the caller */
    size_t length;
};

struct toolchain_kind {
    const char *name;
    dcpk_status (*open)(struct toolchain *toolchain, const struct toolchain_place *place, dcpk_error *error);
    /* What was found and identified, for another thread; NULL: opening it anew costs no process. */
    bool (*copy)(struct toolchain *to, const struct toolchain *from);
    /* The option vector that a spec is assembled with, as one line of text: part of the keys. */
    void (*options)(const dcpk_spec *spec, char *text, size_t capacity);
    /* TOOLCHAIN with the log, template lines first; the output is still to be validated. */
    dcpk_status (*assemble)(struct toolchain *toolchain, const struct toolchain_place *place, const dcpk_spec *spec,
                            const struct expansion *expansion, struct toolchain_output *out, dcpk_error *error);
    /* The architectures that an opened toolchain can build: names of the table, at most `capacity`. Compiles nothing.
     */
    uint32_t (*archs)(struct toolchain *toolchain, const struct toolchain_place *place, const char **names,
                      uint32_t capacity);
    void (*close)(struct toolchain *toolchain);
};

extern const struct toolchain_kind toolchain_ptxas, toolchain_nvjitlink, toolchain_driver;

/* In the order in which "auto" tries them: index 0.. until NULL. */
const struct toolchain_kind *toolchain_kind_at(unsigned index);
/* By name ("ptxas"); NULL for one that this version has not. */
const struct toolchain_kind *toolchain_kind_of(const char *name);
/* Warns once when this version is known to miscompile for the architecture. */
void toolchain_warn_of_faults(struct toolchain *toolchain, const struct notice *notice, const char *arch);

/* toolchain_reach.c. TOOLCHAIN, naming the release that is needed, when a compiler is older than dcpk's options, the
 * architecture or the PTX (ISA version * 10; 0: there is none yet). compiler: its text, "ptxas 13.0.88 (build ...)". OK
 * where that tells no version. */
dcpk_status toolchain_reaches(const char *compiler, const dcpk_spec *spec, uint32_t ptx_version, dcpk_error *error);

/* scan_log.c: a compiler's log about an expansion's text (ptxas's, nvJitLink's and the driver's about PTX, NVRTC's
 * about CUDA C++), each message rewritten to the template's line. Appends to an error that is set, the first line that
 * is blamed being the error's template line. */
void scan_log(const struct expansion *expansion, const char *log, dcpk_error *error);
/* The log of a compiler that succeeded: a warning with its template lines, unless it is blank. */
void scan_warnings(const struct expansion *expansion, const char *kernel, const char *log, const struct notice *notice);

#endif
