/* fake_compiler.c - see tests/fake_compiler.h. */
#include "tests/fake_compiler.h"
#include "tests/drivers/fake_inside.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct fake_compiler state;
static char token; /* what handles point to */

EXPORT struct fake_compiler *fake_compiler(void) {
    return &state;
}

/* What this step gives: 0, or as planned. */
static int planned(const char *step) {
    return strcmp(state.fail_step, step) == 0 ? state.fail_with : 0;
}

static void record_text(const void *text, size_t bytes) {
    size_t kept = bytes < sizeof state.text ? bytes : sizeof state.text - 1;
    memcpy(state.text, text, kept);
    state.text[kept] = '\0';
    state.bytes = bytes;
    for (int ms = 0; ms < state.hang_ms; ms += 10)
        usleep(10000);
}

static void record_options(int count, const char *const *options) {
    state.options[0] = '\0';
    for (int i = 0; i < count; i++) {
        size_t used = strlen(state.options);
        snprintf(state.options + used, sizeof state.options - used, "%s%s", i > 0 ? " " : "", options[i]);
    }
}

static int make(const char *name, void **handle) {
    snprintf(state.called, sizeof state.called, "%s", name);
    state.made++;
    *handle = &token;
    return 0;
}

/* ---- the driver's ---- */
static char *error_log, *info_log; /* the caller's buffers */
static size_t error_log_bytes;

ENTRY(cuLinkCreate_v2, unsigned count, int *options, void **values, void **link) {
    BEGIN;
    char number[16];
    state.options[0] = '\0';
    error_log = info_log = NULL;
    for (unsigned i = 0; i < count; i++) {
        snprintf(number, sizeof number, "%s%d", i > 0 ? " " : "", options[i]);
        strcat(state.options, number);
        if (options[i] == 3) info_log = values[i];
        if (options[i] == 5) error_log = values[i];
        if (options[i] == 6) error_log_bytes = (size_t)(uintptr_t)values[i];
    }
    return planned("cuLinkCreate_v2") ? planned("cuLinkCreate_v2") : make(__func__, link);
}
ENTRY(cuLinkAddData_v2, void *link, int type, void *data, size_t bytes, const char *name, unsigned count, int *options,
      void **values) {
    BEGIN;
    (void)name, (void)options, (void)values;
    if (link != &token || type != 1 || count != 0 || fake_depth() != 1) return DRIVER_INVALID_VALUE;
    record_text(data, bytes);
    int result = planned("cuLinkAddData_v2");
    if (state.log && (result ? error_log : info_log))
        snprintf(result ? error_log : info_log, error_log_bytes, "%s", state.log);
    return result;
}
ENTRY(cuLinkComplete, void *link, void **cubin, size_t *bytes) {
    BEGIN;
    if (link != &token) return DRIVER_INVALID_HANDLE;
    *cubin = (void *)(uintptr_t)state.cubin;
    *bytes = state.cubin_bytes;
    return planned("cuLinkComplete");
}
ENTRY(cuLinkDestroy, void *link) {
    BEGIN;
    state.destroyed++;
    return link == &token ? DRIVER_OK : DRIVER_INVALID_HANDLE;
}

/* ---- nvJitLink's ---- */
#define JIT(name, ...)                                                                                                 \
    EXPORT int name(__VA_ARGS__);                                                                                      \
    EXPORT int name(__VA_ARGS__)

JIT(nvJitLinkVersion, unsigned *major, unsigned *minor) {
    *major = state.version[0] ? state.version[0] : 13;
    *minor = state.version[1];
    return 0;
}
JIT(nvJitLinkCreate, void **link, uint32_t count, const char **options) {
    record_options((int)count, options);
    make(__func__, link); /* the real one makes a handle even when it fails: its log says why */
    return planned("nvJitLinkCreate");
}
JIT(__nvJitLinkCreate_13_0, void **link, uint32_t count, const char **options) {
    int result = nvJitLinkCreate(link, count, options);
    snprintf(state.called, sizeof state.called, "%s", __func__);
    return result;
}
JIT(nvJitLinkDestroy, void **link) {
    state.destroyed++;
    *link = NULL;
    return 0;
}
JIT(nvJitLinkAddData, void *link, int type, const void *data, size_t bytes, const char *name) {
    (void)name;
    if (link != &token || type != 2) return 12;
    record_text(data, bytes);
    return planned("nvJitLinkAddData");
}
JIT(nvJitLinkComplete, void *link) {
    return link == &token ? planned("nvJitLinkComplete") : 6;
}
JIT(nvJitLinkGetLinkedCubinSize, void *link, size_t *bytes) {
    (void)link;
    *bytes = state.cubin_bytes;
    return planned("nvJitLinkGetLinkedCubinSize");
}
JIT(nvJitLinkGetLinkedCubin, void *link, void *cubin) {
    (void)link;
    memcpy(cubin, state.cubin, state.cubin_bytes);
    return planned("nvJitLinkGetLinkedCubin");
}
static int log_size(size_t *bytes) {
    *bytes = state.log ? strlen(state.log) + 1 : 0;
    return 0;
}
static int give_log(char *log) {
    if (state.log) strcpy(log, state.log);
    return 0;
}
JIT(nvJitLinkGetErrorLogSize, void *link, size_t *bytes) {
    (void)link;
    return log_size(bytes);
}
JIT(nvJitLinkGetErrorLog, void *link, char *log) {
    (void)link;
    return give_log(log);
}
JIT(nvJitLinkGetInfoLogSize, void *link, size_t *bytes) {
    (void)link;
    return log_size(bytes);
}
JIT(nvJitLinkGetInfoLog, void *link, char *log) {
    (void)link;
    return give_log(log);
}

/* ---- NVRTC's ---- */
JIT(nvrtcVersion, int *major, int *minor) {
    *major = 13;
    *minor = 9;
    return planned("nvrtcVersion");
}
JIT(nvrtcCreateProgram, void **program, const char *text, const char *name, int headers, const char *const *texts,
    const char *const *names) {
    (void)name, (void)texts, (void)names;
    if (headers != 0) return 3;
    snprintf(state.text, sizeof state.text, "%s", text);
    state.bytes = strlen(text);
    return planned("nvrtcCreateProgram") ? planned("nvrtcCreateProgram") : make(__func__, program);
}
JIT(nvrtcDestroyProgram, void **program) {
    state.destroyed++;
    *program = NULL;
    return 0;
}
JIT(nvrtcCompileProgram, void *program, int count, const char *const *options) {
    if (program != &token) return 4;
    record_options(count, options);
    for (int ms = 0; ms < state.hang_ms; ms += 10)
        usleep(10000);
    return planned("nvrtcCompileProgram");
}
JIT(nvrtcGetPTXSize, void *program, size_t *bytes) {
    (void)program;
    *bytes = state.ptx ? strlen(state.ptx) + 1 : 1;
    return planned("nvrtcGetPTXSize");
}
JIT(nvrtcGetPTX, void *program, char *ptx) {
    (void)program;
    strcpy(ptx, state.ptx ? state.ptx : "");
    return planned("nvrtcGetPTX");
}
JIT(nvrtcGetProgramLogSize, void *program, size_t *bytes) {
    (void)program;
    return log_size(bytes);
}
JIT(nvrtcGetProgramLog, void *program, char *log) {
    (void)program;
    return give_log(log);
}
