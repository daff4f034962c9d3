/* nvjitlink.c - PTX to cubin in this process by NVIDIA's libnvJitLink: no GPU, no driver, no program, no file.
 * Owns the library's table and its option vector. The output is judged by cubin.c, not here. Its bytes differ from
 * ptxas's: the toolchain is part of the keys. */
#include "gen/library.h"
#include "gen/toolchain.h"

#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_PTX = 2, MAX_LOG = 1 << 20 };

struct functions {
#define J(field, name, parameters) int(*field) parameters;
#include "gen/nvjitlink.def"
#undef J
};

struct opened {
    struct library library;
    struct functions f;
};

static struct library_search search_of(const struct environment *environment) {
    return (struct library_search){.what = "nvJitLink",
                                   .soname = "libnvJitLink.so.13",
                                   .plain = "libnvJitLink.so",
                                   .variable = "DCPK_NVJITLINK",
                                   .named = environment->nvjitlink,
                                   .advice = "install the CUDA toolkit's nvJitLink",
                                   .toolkit = true};
}

static void options(const dcpk_spec *spec, char *text, size_t capacity) {
    snprintf(text, capacity, "-arch=%s -O3 -no-cache%s", spec->arch, spec->lineinfo == 1 ? " -lineinfo" : "");
}

static void jit_close(struct toolchain *toolchain) {
    struct opened *opened = toolchain->library;
    if (opened) library_close(&opened->library);
    free(opened);
    free(toolchain->path);
    *toolchain = (struct toolchain){0};
}

/* The form with the version first: what the plain names mean may change. */
static bool resolve(struct opened *opened, const char *name, unsigned major, unsigned minor, void *pointer) {
    char versioned[80];
    snprintf(versioned, sizeof versioned, "__%s_%u_%u", name, major, minor);
    return library_symbol(&opened->library, versioned, pointer) || library_symbol(&opened->library, name, pointer);
}

static dcpk_status jit_open(struct toolchain *toolchain, const struct toolchain_place *place, dcpk_error *error) {
    struct library_search search = search_of(place->environment);
    int (*version)(unsigned *, unsigned *);
    unsigned major = 0, minor = 0;
    struct opened *opened = calloc(1, sizeof *opened);
    if (!opened) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a compiler's table");
    toolchain->library = opened;
    dcpk_status status = library_open(&opened->library, &search, place->environment, error);
    if (status != DCPK_OK) return status;
    if (opened->library.path && opened->library.path[0]) toolchain->path = strdup(opened->library.path);
    if (!library_symbol(&opened->library, "nvJitLinkVersion", &version))
        return library_lacks(&opened->library, &search, "nvJitLinkVersion", error);
    if (version(&major, &minor) != 0)
        return dcpk_error_set(error, DCPK_E_TOOLCHAIN, "nvJitLink does not say its version");
#define J(field, name, parameters)                                                                                     \
    if (!resolve(opened, #name, major, minor, &opened->f.field))                                                       \
        return library_lacks(&opened->library, &search, #name, error);
#include "gen/nvjitlink.def"
#undef J
    snprintf(toolchain->text, sizeof toolchain->text, "nvJitLink %u.%u (build %s)", major, minor,
             opened->library.build[0] ? opened->library.build : "unknown");
    return DCPK_OK;
}

/* One assembly: all that the compiler's thread touches, so that the caller may go. */
struct job {
    struct functions f;
    char *ptx;
    size_t length;
    char arch[40], *log;
    bool lineinfo;
    const char *step; /* of `result` */
    int result;       /* 0: good */
    void *cubin;
    size_t cubin_length;
};

static void drop(void *self) {
    struct job *job = self;
    free(job->ptx);
    free(job->log);
    free(job->cubin);
    free(job);
}

static void read_log(struct job *job, void *link, bool good) {
    size_t bytes = 0;
    int result = good ? job->f.info_log_size(link, &bytes) : job->f.error_log_size(link, &bytes);
    if (result != 0 || bytes == 0 || bytes > MAX_LOG || !(job->log = calloc(1, bytes + 1))) return;
    result = good ? job->f.info_log(link, job->log) : job->f.error_log(link, job->log);
    if (result != 0) job->log[0] = '\0';
}

/* False when a step failed: job says which and how. */
static bool step(struct job *job, const char *name, int result) {
    job->step = name;
    job->result = result;
    return result == 0;
}

static void work(void *self) {
    struct job *job = self;
    const char *const vector[] = {job->arch, "-O3", "-no-cache", "-lineinfo"};
    const char *given[4];
    void *link = NULL;
    memcpy(given, vector, sizeof given);
    bool good = step(job, "nvJitLinkCreate", job->f.create(&link, job->lineinfo ? 4 : 3, given)) &&
                step(job, "nvJitLinkAddData", job->f.add_data(link, INPUT_PTX, job->ptx, job->length, "dcpk.ptx")) &&
                step(job, "nvJitLinkComplete", job->f.complete(link)) &&
                step(job, "nvJitLinkGetLinkedCubinSize", job->f.cubin_size(link, &job->cubin_length));
    if (good && job->cubin_length <= CACHE_FILE_MAX) {
        job->cubin = calloc(1, job->cubin_length + 1);
        good = job->cubin && step(job, "nvJitLinkGetLinkedCubin", job->f.cubin(link, job->cubin));
    }
    if (link) {
        read_log(job, link, good);
        job->f.destroy(&link);
    }
}

static struct job *make_job(const struct opened *opened, const dcpk_spec *spec, const struct expansion *expansion) {
    struct job *job = calloc(1, sizeof *job);
    char *ptx = malloc(expansion->ptx_length + 1);
    if (!job || !ptx) {
        free(job);
        free(ptx);
        return NULL;
    }
    memcpy(ptx, expansion->ptx, expansion->ptx_length);
    ptx[expansion->ptx_length] = '\0';
    *job = (struct job){.f = opened->f, .ptx = ptx, .length = expansion->ptx_length, .lineinfo = spec->lineinfo == 1};
    snprintf(job->arch, sizeof job->arch, "-arch=%s", spec->arch);
    return job;
}

static dcpk_status judge(struct job *job, const struct toolchain *toolchain, const struct toolchain_place *place,
                         const dcpk_spec *spec, const struct expansion *expansion, struct toolchain_output *out,
                         dcpk_error *error) {
    if (job->result != 0) {
        dcpk_error_set(error, DCPK_E_TOOLCHAIN, "%s: %s: %s gave %d", spec->kernel, toolchain->text, job->step,
                       job->result);
        if (job->log) scan_log(expansion, job->log, error);
        return DCPK_E_TOOLCHAIN;
    }
    if (job->cubin_length > CACHE_FILE_MAX)
        return dcpk_error_set(error, DCPK_E_BAD_CUBIN, "the compiler's output has %zu bytes", job->cubin_length);
    if (!job->cubin)
        return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a cubin of %zu bytes", job->cubin_length);
    if (job->log) scan_warnings(expansion, spec->kernel, job->log, place->notice);
    *out = (struct toolchain_output){job->cubin, job->cubin_length};
    job->cubin = NULL;
    return DCPK_OK;
}

static dcpk_status assemble(struct toolchain *toolchain, const struct toolchain_place *place, const dcpk_spec *spec,
                            const struct expansion *expansion, struct toolchain_output *out, dcpk_error *error) {
    char who[sizeof toolchain->text + sizeof spec->kernel + 2];
    *out = (struct toolchain_output){0};
    toolchain_warn_of_faults(toolchain, place->notice, spec->arch);
    struct job *job = make_job(toolchain->library, spec, expansion);
    if (!job) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for the compiler's input");
    snprintf(who, sizeof who, "%s: %s", spec->kernel, toolchain->text);
    struct library_work call = {.work = work, .drop = drop, .job = job, .who = who, .timeout_ms = place->timeout_ms};
    dcpk_status status = library_run(&call, error);
    if (status == DCPK_E_TOOLCHAIN) return status; /* the thread's now */
    if (status == DCPK_OK) status = judge(job, toolchain, place, spec, expansion, out, error);
    drop(job);
    return status;
}

/* The library refuses an architecture that it does not know when a link begins. */
static uint32_t archs(struct toolchain *toolchain, const struct toolchain_place *place, const char **names,
                      uint32_t capacity) {
    const struct opened *opened = toolchain->library;
    dcpk_arch_info row = {.size = sizeof row};
    uint32_t count = 0;
    (void)place;
    for (uint32_t i = 0; count < capacity && dcpk_arch_at(i, &row); i++) {
        char option[40];
        const char *given = option;
        void *link = NULL;
        snprintf(option, sizeof option, "-arch=%s", row.name);
        if (opened->f.create(&link, 1, &given) == 0) names[count++] = row.name;
        if (link) opened->f.destroy(&link);
    }
    return count;
}

const struct toolchain_kind toolchain_nvjitlink = {.name = "nvjitlink",
                                                   .open = jit_open,
                                                   .options = options,
                                                   .assemble = assemble,
                                                   .archs = archs,
                                                   .close = jit_close};
