/* nvrtc.c - owns libnvrtc: its table, its option vector, one compilation. No header is searched for and no file is
 * read: what the text includes would not be in the keys. */
#include "gen/nvrtc.h"

#include "gen/lint.h"
#include "gen/toolchain.h"
#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OUTPUT = 32 << 20, OPTION = 48, OPTIONS = 16 };

static struct library_search search_of(const struct environment *environment) {
    return (struct library_search){.what = "NVRTC",
                                   .soname = "libnvrtc.so.13",
                                   .plain = "libnvrtc.so",
                                   .variable = "DCPK_NVRTC",
                                   .named = environment ? environment->nvrtc : NULL,
                                   .advice = "it compiles CUDA C++ templates: install the CUDA toolkit's NVRTC",
                                   .toolkit = true};
}

dcpk_status nvrtc_open(struct nvrtc *nvrtc, const struct environment *environment, dcpk_error *error) {
    struct library_search search = search_of(environment);
    int major = 0, minor = 0;
    dcpk_status status = library_open(&nvrtc->library, &search, environment, error);
    if (status != DCPK_OK) return status;
#define N(field, symbol, parameters)                                                                                   \
    if (!library_symbol(&nvrtc->library, #symbol, &nvrtc->f.field))                                                    \
        status = library_lacks(&nvrtc->library, &search, #symbol, error);
#include "gen/nvrtc.def"
#undef N
    if (status == DCPK_OK && nvrtc->f.version(&major, &minor) != 0)
        status = dcpk_error_set(error, DCPK_E_TOOLCHAIN, "NVRTC does not say its version");
    if (status != DCPK_OK) {
        nvrtc_close(nvrtc);
        return status;
    }
    snprintf(nvrtc->text, sizeof nvrtc->text, "NVRTC %d.%d (build %s)", major, minor,
             nvrtc->library.build[0] ? nvrtc->library.build : "unknown");
    return DCPK_OK;
}

void nvrtc_close(struct nvrtc *nvrtc) {
    library_close(&nvrtc->library);
    *nvrtc = (struct nvrtc){0};
}

/* An expression means what it says: no product and sum become one operation unless the template writes fmaf, no number
 * is flushed. Line information is always made, for the line map. */
static int make_options(const char *arch, char out[OPTIONS][OPTION]) {
    static const char *const fixed[] = {"--std=c++17",         "--device-as-default-execution-space",
                                        "--fmad=false",        "--ftz=false",
                                        "--prec-div=true",     "--prec-sqrt=true",
                                        "--no-source-include", "--generate-line-info",
                                        "--no-cache"};
    enum { FIXED = sizeof fixed / sizeof fixed[0] };
    snprintf(out[0], OPTION, "--gpu-architecture=compute_%.16s", strncmp(arch, "sm_", 3) == 0 ? arch + 3 : arch);
    for (int i = 0; i < FIXED; i++)
        snprintf(out[i + 1], OPTION, "%s", fixed[i]);
    return FIXED + 1;
}

void nvrtc_options(const dcpk_spec *spec, char *text, size_t capacity) {
    char options[OPTIONS][OPTION];
    int count = make_options(spec->arch, options);
    size_t used = 0;
    for (int i = 0; i < count && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i > 0 ? " " : "", options[i]);
}

/* One compilation: all that the compiler's thread touches, so that the caller may go. */
struct job {
    struct nvrtc_functions f;
    char *text, name[64], arch[16];
    const char *step;
    int result;
    char *ptx, *log;
};

static void drop(void *self) {
    struct job *job = self;
    free(job->text);
    free(job->ptx);
    free(job->log);
    free(job);
}

static bool step(struct job *job, const char *name, int result) {
    job->step = name;
    job->result = result;
    return result == 0;
}

static void read_log(struct job *job, void *program) {
    size_t bytes = 0;
    if (job->f.log_size(program, &bytes) != 0 || bytes == 0 || bytes > MAX_OUTPUT) return;
    job->log = calloc(1, bytes + 1);
    if (job->log && job->f.log(program, job->log) != 0) job->log[0] = '\0';
}

static void work(void *self) {
    struct job *job = self;
    char options[OPTIONS][OPTION];
    const char *vector[OPTIONS];
    int count = make_options(job->arch, options);
    void *program = NULL;
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        vector[i] = options[i];
    if (!step(job, "nvrtcCreateProgram", job->f.create(&program, job->text, job->name, 0, NULL, NULL))) return;
    bool good = step(job, "nvrtcCompileProgram", job->f.compile(program, count, vector));
    read_log(job, program);
    if (good && step(job, "nvrtcGetPTXSize", job->f.ptx_size(program, &bytes)) && bytes <= MAX_OUTPUT &&
        (job->ptx = calloc(1, bytes + 1)) != NULL)
        step(job, "nvrtcGetPTX", job->f.ptx(program, job->ptx));
    job->f.destroy(&program);
}

static struct job *make_job(const struct nvrtc *nvrtc, const dcpk_spec *spec, const struct expansion *expansion) {
    struct job *job = calloc(1, sizeof *job);
    char *text = strdup(expansion->ptx);
    if (!job || !text) {
        free(job);
        free(text);
        return NULL;
    }
    job->f = nvrtc->f;
    job->text = text;
    snprintf(job->name, sizeof job->name, "%s.cu", spec->kernel);
    snprintf(job->arch, sizeof job->arch, "%s", spec->arch);
    return job;
}

static dcpk_status judge(const struct job *job, const struct nvrtc *nvrtc, const struct notice *notice,
                         const dcpk_spec *spec, struct expansion *expansion, dcpk_error *error) {
    if (job->result != 0) {
        dcpk_error_set(error, DCPK_E_TOOLCHAIN, "%s: %s: %s gave %d", spec->kernel, nvrtc->text, job->step,
                       job->result);
        if (job->log) scan_log(expansion, job->log, error);
        return DCPK_E_TOOLCHAIN;
    }
    if (!job->ptx)
        return dcpk_error_set(error, DCPK_E_NOMEM, "%s: no memory for NVRTC's PTX, or it has more than %d bytes",
                              spec->kernel, MAX_OUTPUT);
    if (job->log) scan_warnings(expansion, spec->kernel, job->log, notice);
    dcpk_status status = nvrtc_take_ptx(expansion, spec, job->ptx, error);
    if (status == DCPK_OK) status = lint(expansion, error);
    return status == DCPK_OK ? nvrtc_check_params(expansion, error) : status;
}

dcpk_status nvrtc_compile(struct nvrtc *nvrtc, const struct notice *notice, uint32_t timeout_ms, const dcpk_spec *spec,
                          struct expansion *expansion, dcpk_error *error) {
    char who[sizeof nvrtc->text + sizeof spec->kernel + 2];
    dcpk_status status = toolchain_reaches(nvrtc->text, spec, 0, error);
    if (status != DCPK_OK) return status;
    struct job *job = make_job(nvrtc, spec, expansion);
    if (!job) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for NVRTC's input");
    snprintf(who, sizeof who, "%s: %s", spec->kernel, nvrtc->text);
    struct library_work call = {.work = work, .drop = drop, .job = job, .who = who, .timeout_ms = timeout_ms};
    status = library_run(&call, error);
    if (status == DCPK_E_TOOLCHAIN) return status; /* the thread's now */
    if (status == DCPK_OK) status = judge(job, nvrtc, notice, spec, expansion, error);
    drop(job);
    return status;
}
