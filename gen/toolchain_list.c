/* toolchain_list.c - what there is on this machine that assembles PTX or compiles CUDA C++, for people who ask: each
 * kind opened for the question and closed again, beside what the generator itself has open.
 * Starts compilers for their version and their list of architectures; compiles nothing, writes nothing. */
#include "gen/state.h"

#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARCHS = 64 };

struct visitor {
    int32_t (*visit)(void *self, const dcpk_toolchain_info *info);
    void *self;
    const char *archs[MAX_ARCHS];
};

/* NVRTC lists capabilities (90, 100, ...) and builds each one's exact form, too, from CUDA 12.0 on. */
static uint32_t nvrtc_archs(const struct nvrtc *nvrtc, const char **names) {
    int (*count_of)(int *), (*list)(int *), count = 0, major = 0, minor = 0;
    dcpk_arch_info row = {.size = sizeof row};
    uint32_t found = 0;
    if (!library_symbol(&nvrtc->library, "nvrtcGetNumSupportedArchs", &count_of) ||
        !library_symbol(&nvrtc->library, "nvrtcGetSupportedArchs", &list) || count_of(&count) != 0 || count < 1 ||
        nvrtc->f.version(&major, &minor) != 0)
        return 0;
    int *numbers = calloc((size_t)count, sizeof *numbers);
    bool good = numbers && list(numbers) == 0;
    for (uint32_t i = 0; good && found < MAX_ARCHS && dcpk_arch_at(i, &row); i++)
        for (int k = 0; k < count; k++) {
            if (numbers[k] != row.major * 10 + row.minor || (row.exact && major < 12)) continue;
            names[found++] = row.name;
            break;
        }
    free(numbers);
    return found;
}

static int32_t tell(struct visitor *visitor, dcpk_toolchain_info *info, const dcpk_error *reason) {
    if (info->status != DCPK_OK) info->reason = reason->text;
    return visitor->visit(visitor->self, info);
}

/* `free_choice`: nothing is chosen yet, and what opens first will be. */
static int32_t show_kind(dcpk_gen *gen, const struct toolchain_kind *kind, bool *free_choice, struct visitor *visitor) {
    struct toolchain toolchain = {0};
    struct cache none; /* a version is not remembered: nothing is written */
    dcpk_error reason;
    struct toolchain_place place = {.sys = gen->sys,
                                    .notice = &gen->notice,
                                    .environment = &gen->environment,
                                    .cache = &none,
                                    .program = gen->program,
                                    .timeout_ms = gen->compile_timeout_ms};
    dcpk_error_init(&reason);
    cache_init(&none, gen->sys, &gen->notice, NULL, -1);
    dcpk_toolchain_info info = {
        .size = sizeof info, .name = kind->name, .reason = "", .text = "", .path = "", .archs = visitor->archs};
    info.status = kind->open(&toolchain, &place, &reason);
    info.chosen = gen->kind ? gen->kind == kind : *free_choice && info.status == DCPK_OK;
    if (info.chosen) *free_choice = false;
    if (info.status == DCPK_OK) {
        info.text = toolchain.text;
        info.arch_count = kind->archs(&toolchain, &place, visitor->archs, MAX_ARCHS);
    }
    if (toolchain.path) info.path = toolchain.path;
    int32_t stop = tell(visitor, &info, &reason);
    kind->close(&toolchain);
    cache_close(&none);
    return stop;
}

static int32_t show_nvrtc(dcpk_gen *gen, struct visitor *visitor) {
    struct nvrtc nvrtc = {0};
    dcpk_error reason;
    dcpk_error_init(&reason);
    dcpk_toolchain_info info = {.size = sizeof info,
                                .name = "nvrtc",
                                .reason = "",
                                .text = "",
                                .path = "",
                                .chosen = 1, /* the only one of its kind */
                                .archs = visitor->archs};
    info.status = nvrtc_open(&nvrtc, &gen->environment, &reason);
    if (info.status == DCPK_OK) {
        info.text = nvrtc.text;
        info.path = nvrtc.library.path ? nvrtc.library.path : "";
        info.arch_count = nvrtc_archs(&nvrtc, visitor->archs);
    }
    int32_t stop = tell(visitor, &info, &reason);
    nvrtc_close(&nvrtc);
    return stop;
}

dcpk_status dcpk_gen_toolchains(dcpk_gen *gen, int32_t (*visit)(void *self, const dcpk_toolchain_info *info),
                                void *self, dcpk_error *error) {
    if (!gen || !visit) return dcpk_error_set(error, DCPK_E_ARG, "gen and visit may not be NULL");
    struct visitor *visitor = calloc(1, sizeof *visitor);
    if (!visitor) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a list of toolchains");
    visitor->visit = visit;
    visitor->self = self;
    const struct toolchain_kind *kind;
    bool free_choice = true;
    int32_t stop = 0;
    for (unsigned i = 0; stop == 0 && (kind = toolchain_kind_at(i)) != NULL; i++)
        stop = show_kind(gen, kind, &free_choice, visitor);
    if (stop == 0) show_nvrtc(gen, visitor);
    free(visitor);
    return DCPK_OK;
}
