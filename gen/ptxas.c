/* ptxas.c - PTX to cubin by NVIDIA's ptxas, between two memory files: no path in the file system is read or written.
 * Owns the option vector and the reading of the compiler's end. The output is judged by cubin.c, not here. */
#include "gen/ptxas.h"

#include "gen/environment.h"
#include "gen/process.h"
#include "runtime/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every option is embedded in the cubin, so the vector is fixed and part of the keys. -v is never passed. */
static void options(const dcpk_spec *spec, char *text, size_t capacity) {
    snprintf(text, capacity, "-arch %s -O3%s", spec->arch, spec->lineinfo == 1 ? " -lineinfo" : "");
}

/* The compiler's environment: what finds libraries and folders for it, and messages in plain English. */
static char **make_environment(const struct environment *environment) {
    enum { MAX = 6 };
    const struct {
        const char *name, *value;
    } rows[MAX - 1] = {{"PATH", environment->path},
                       {"LD_LIBRARY_PATH", environment->library_path},
                       {"HOME", environment->home},
                       {"TMPDIR", environment->tmpdir},
                       {"LC_ALL", "C"}};
    char **envp = calloc(MAX, sizeof *envp);
    for (size_t i = 0, used = 0; envp && i < MAX - 1; i++)
        if (rows[i].value && asprintf(&envp[used++], "%s=%s", rows[i].name, rows[i].value) < 0) {
            envp[used - 1] = NULL;
            break;
        }
    return envp;
}

static void ptxas_close(struct toolchain *toolchain) {
    for (char **p = toolchain->envp; p && *p; p++)
        free(*p);
    free(toolchain->envp);
    free(toolchain->path);
    *toolchain = (struct toolchain){0};
}

static dcpk_status ptxas_open(struct toolchain *toolchain, const struct toolchain_place *place, dcpk_error *error) {
    struct stat st;
    toolchain->envp = make_environment(place->environment);
    if (!toolchain->envp) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a compiler's environment");
    dcpk_status status = ptxas_find(toolchain, place, &st, error);
    if (status == DCPK_OK) status = ptxas_identify(toolchain, place, &st, error);
    return status;
}

static bool ptxas_copy(struct toolchain *to, const struct toolchain *from) {
    size_t count = 0;
    while (from->envp[count])
        count++;
    *to = (struct toolchain){
        .path = strdup(from->path), .warned = from->warned, .envp = calloc(count + 1, sizeof(char *))};
    memcpy(to->text, from->text, sizeof to->text);
    bool good = to->path && to->envp;
    for (size_t i = 0; good && i < count; i++)
        good = (to->envp[i] = strdup(from->envp[i])) != NULL;
    if (!good) ptxas_close(to);
    return good;
}

/* A memory file that holds the bytes; -1 with the error set. */
static int memory_file(const struct system *sys, const char *name, const char *bytes, size_t length,
                       dcpk_error *error) {
    int fd = sys->memory_file(name);
    for (size_t at = 0; fd >= 0 && at < length;) {
        ssize_t put = sys->write(fd, bytes + at, length - at);
        if (put > 0) {
            at += (size_t)put;
            continue;
        }
        int reason = put == 0 ? ENOSPC : errno;
        sys->close(fd);
        errno = reason;
        fd = -1;
    }
    if (fd < 0) dcpk_error_system(error, DCPK_E_TOOLCHAIN, errno, "no memory file for the compiler");
    return fd;
}

static dcpk_status read_output(const struct system *sys, int fd, struct toolchain_output *out, dcpk_error *error) {
    struct stat st;
    if (sys->stat_fd(fd, &st) != 0)
        return dcpk_error_system(error, DCPK_E_TOOLCHAIN, errno, "cannot look at the compiler's output");
    if (st.st_size > CACHE_FILE_MAX)
        return dcpk_error_set(error, DCPK_E_BAD_CUBIN, "the compiler's output has %lld bytes", (long long)st.st_size);
    size_t length = (size_t)st.st_size;
    char *bytes = malloc(length + 1);
    if (!bytes) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a cubin of %zu bytes", length);
    for (size_t at = 0; at < length;) {
        ssize_t got = sys->read(fd, bytes + at, length - at, (off_t)at);
        if (got <= 0) {
            free(bytes);
            return dcpk_error_system(error, DCPK_E_TOOLCHAIN, got < 0 ? errno : EIO, "cannot read the cubin");
        }
        at += (size_t)got;
    }
    out->cubin = bytes;
    out->length = length;
    return DCPK_OK;
}

dcpk_status ptxas_judge(const char *who, const char *text, const struct process_result *result, uint32_t timeout_ms,
                        dcpk_error *error) {
    const char *signal = sigabbrev_np(result->code);
    switch (result->end) {
    case PROCESS_TIMED_OUT:
        return dcpk_error_set(error, DCPK_E_TOOLCHAIN, "%s ran for more than %g s and was killed", who,
                              timeout_ms / 1000.0);
    case PROCESS_SIGNALLED:
        return dcpk_error_set(error, DCPK_E_TOOLCHAIN, "%s was killed by signal %d (SIG%s)", who, result->code,
                              signal ? signal : "?");
    case PROCESS_LOST:
        return dcpk_error_set(error, DCPK_E_TOOLCHAIN,
                              "%s: its exit status is lost because this process ignores SIGCHLD; restore its default "
                              "while kernels are built",
                              who);
    case PROCESS_EXITED:
        break;
    }
    if (result->code == 0) return DCPK_OK;
    return dcpk_error_set(error, DCPK_E_TOOLCHAIN, "%s exited with status %d", text, result->code);
}

static dcpk_status run(struct toolchain *toolchain, const struct toolchain_place *place, const dcpk_spec *spec,
                       const struct expansion *expansion, int in, int out, dcpk_error *error) {
    char arch[sizeof spec->arch];
    snprintf(arch, sizeof arch, "%s", spec->arch);
    char name[] = "ptxas", arch_option[] = "-arch", level[] = "-O3", lineinfo[] = "-lineinfo";
    char output[] = "-o", in_path[] = "/proc/self/fd/3", out_path[] = "/proc/self/fd/4";
    char *argv[] = {name, arch_option, arch, level, in_path, output, out_path, NULL, NULL};
    if (spec->lineinfo == 1) argv[7] = lineinfo;
    struct spawn_request request = {
        .path = toolchain->path, .argv = argv, .envp = toolchain->envp, .in = in, .out = out};
    struct process_result result;
    toolchain->started++;
    dcpk_status status = process_run(place->sys, &request, place->timeout_ms, &result, error);
    if (status == DCPK_OK) {
        char who[4200], text[sizeof toolchain->text + sizeof spec->kernel + 2];
        snprintf(who, sizeof who, "%s: %s", spec->kernel, toolchain->path);
        snprintf(text, sizeof text, "%s: %s", spec->kernel, toolchain->text);
        status = ptxas_judge(who, text, &result, place->timeout_ms, error);
        if (status != DCPK_OK)
            scan_log(expansion, result.log, error);
        else
            scan_warnings(expansion, spec->kernel, result.log, place->notice);
    }
    free(result.log);
    return status;
}

static dcpk_status assemble(struct toolchain *toolchain, const struct toolchain_place *place, const dcpk_spec *spec,
                            const struct expansion *expansion, struct toolchain_output *out, dcpk_error *error) {
    *out = (struct toolchain_output){0};
    toolchain_warn_of_faults(toolchain, place->notice, spec->arch);
    int in = memory_file(place->sys, "dcpk-ptx", expansion->ptx, expansion->ptx_length, error);
    if (in < 0) return DCPK_E_TOOLCHAIN;
    int cubin = memory_file(place->sys, "dcpk-cubin", NULL, 0, error);
    dcpk_status status = DCPK_E_TOOLCHAIN;
    if (cubin >= 0) {
        status = run(toolchain, place, spec, expansion, in, cubin, error);
        if (status == DCPK_OK) status = read_output(place->sys, cubin, out, error);
        place->sys->close(cubin);
    }
    place->sys->close(in);
    return status;
}

const struct toolchain_kind toolchain_ptxas = {.name = "ptxas",
                                               .open = ptxas_open,
                                               .copy = ptxas_copy,
                                               .options = options,
                                               .assemble = assemble,
                                               .archs = ptxas_archs,
                                               .close = ptxas_close};
