/* state.h - what a dcpk_gen is. Internal to gen; tests use gen_open_with to put their own system calls under it. */
#ifndef DCPK_GEN_STATE_H
#define DCPK_GEN_STATE_H

#include "gen/cache.h"
#include "gen/environment.h"
#include "gen/expand.h"
#include "gen/memory.h"
#include "gen/nvrtc.h"
#include "gen/packs.h"
#include "gen/toolchain.h"

#include <pthread.h>

/* Which layers a build may use. AUTO: memory, packs, cache, compiler. NEVER: no compiler. FORCE: memory, compiler. */
enum jit_mode { JIT_AUTO, JIT_NEVER, JIT_FORCE };

struct dcpk_gen {
    const struct system *sys;
    struct notice notice;
    struct environment environment;
    char *program;       /* the option ptxas, NULL: search */
    char *template_path; /* as it was opened */
    uint32_t compile_timeout_ms, lock_timeout_ms;
    enum jit_mode jit;
    struct expander *expander;
    struct toolchain toolchain;
    const struct toolchain_kind *kind; /* NULL: auto, and none is open yet */
    bool toolchain_open;
    dcpk_error toolchain_trouble; /* code DCPK_OK, or why the compiler is useless: it is not asked again */
    struct nvrtc nvrtc;           /* opened by the first CUDA C++ template */
    struct packs packs;
    struct cache cache;
    struct memory memory;
    pthread_mutex_t provider; /* held while a call of the provider runs */
};

/* open.c */
dcpk_status gen_open_with(const struct system *sys, const dcpk_gen_options *options, dcpk_gen **out, dcpk_error *error);
/* A generator of its own for another thread: the same settings, toolchain kind and cache folder, no packs, an empty
 * memory, its own log. Reads no environment. Lives no longer than `of`: they share what was warned about. */
dcpk_status gen_open_beside(struct dcpk_gen *of, struct notice notice, dcpk_gen **out, dcpk_error *error);

/* Finds and identifies the compiler, once; one that hung, died or made no sense at --version stays refused. */
dcpk_status gen_toolchain(struct dcpk_gen *gen, dcpk_error *error);

/* front.c: the text that stands in the keys for what made the PTX, beside the templates: NVRTC's version and options
 * for a CUDA C++ template, "" else. TOOLCHAIN where NVRTC is needed and not there. */
enum { GEN_FRONT = 640 };
dcpk_status gen_front(struct dcpk_gen *gen, const dcpk_spec *spec, char *text, size_t capacity, dcpk_error *error);
/* front.c: expands a resolved spec to linted PTX. */
dcpk_status gen_expand(struct dcpk_gen *gen, const dcpk_spec *spec, struct expansion *out, dcpk_error *error);

/* build.c: the canonical text of a spec as dcpk_spec_resolve makes it; *resolved that spec, where it is not NULL. */
enum { GEN_SPEC_TEXT = 1024 };
dcpk_status gen_resolve(const dcpk_spec *spec, dcpk_spec *resolved, char text[GEN_SPEC_TEXT], dcpk_error *error);
/* build.c: what memory or (unless forced) a pack has. False: building would have to look further. */
enum gen_hit { HIT_NONE = 0, HIT_MEMORY = 1, HIT_FOLDER = 2, HIT_PACK = 3 };
bool gen_at_hand(struct dcpk_gen *gen, const dcpk_spec *spec, dcpk_image **out, dcpk_build_report *report);

#endif
