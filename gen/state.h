/* state.h - what a dcpk_gen is. Internal to gen; tests use gen_open_with to put their own system calls under it. */
#ifndef DCPK_GEN_STATE_H
#define DCPK_GEN_STATE_H

#include "gen/cache.h"
#include "gen/environment.h"
#include "gen/expand.h"
#include "gen/memory.h"
#include "gen/nvrtc.h"
#include "gen/toolchain.h"

#include <pthread.h>

struct dcpk_gen {
    const struct system *sys;
    struct notice notice;
    struct environment environment;
    char *program; /* the option ptxas, NULL: search */
    uint32_t compile_timeout_ms, lock_timeout_ms;
    struct expander *expander;
    struct toolchain toolchain;
    const struct toolchain_kind *kind; /* NULL: auto, and none is open yet */
    bool toolchain_open;
    dcpk_error toolchain_trouble; /* code DCPK_OK, or why the compiler is useless: it is not asked again */
    struct nvrtc nvrtc;           /* opened by the first CUDA C++ template */
    struct cache cache;
    struct memory memory;
    pthread_mutex_t provider; /* held while a provider's get runs */
};

dcpk_status gen_open_with(const struct system *sys, const dcpk_gen_options *options, dcpk_gen **out, dcpk_error *error);

/* Finds and identifies the compiler, once; one that hung, died or made no sense at --version stays refused. */
dcpk_status gen_toolchain(struct dcpk_gen *gen, dcpk_error *error);

/* front.c: the text that stands in the keys for what made the PTX, beside the templates: NVRTC's version and options
 * for a CUDA C++ template, "" else. TOOLCHAIN where NVRTC is needed and not there. */
enum { GEN_FRONT = 640 };
dcpk_status gen_front(struct dcpk_gen *gen, const dcpk_spec *spec, char *text, size_t capacity, dcpk_error *error);
/* front.c: expands a resolved spec to linted PTX. */
dcpk_status gen_expand(struct dcpk_gen *gen, const dcpk_spec *spec, struct expansion *out, dcpk_error *error);

#endif
