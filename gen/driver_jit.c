/* driver_jit.c - PTX to cubin by the compiler inside the driver (cuLink*): what remains where no toolkit is installed.
 * It builds for a device that is there and no other, and uses its primary context, never a new one. Its version is the
 * driver's: the one toolchain whose keys change with the driver. Owns the driver's table and the options of a link. */
#include "gen/library.h"
#include "gen/toolchain.h"

#include "runtime/buffer.h"
#include "runtime/driver_types.h"
#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_BYTES = 64 << 10, INPUT_PTX = 1, MAX_DEVICES = 64 };
enum { /* CUjit_option */
       JIT_INFO_LOG = 3,
       JIT_INFO_LOG_BYTES = 4,
       JIT_ERROR_LOG = 5,
       JIT_ERROR_LOG_BYTES = 6,
       JIT_LINE_INFO = 13
};

struct functions {
#define D(field, symbol, parameters) cu_result(*field) parameters;
#include "gen/driver_jit.def"
#undef D
};

struct opened {
    struct library library;
    struct functions f;
};

static struct library_search search_of(const struct environment *environment) {
    return (struct library_search){.what = "CUDA driver",
                                   .soname = "libcuda.so.1",
                                   .variable = "DCPK_LIBCUDA",
                                   .named = environment->libcuda,
                                   .advice = "install the NVIDIA driver, use DCPK_TOOLCHAIN=ptxas or nvjitlink,"};
}

static void options(const dcpk_spec *spec, char *text, size_t capacity) {
    snprintf(text, capacity, "cuLink for %s%s", spec->arch, spec->lineinfo == 1 ? " lineinfo" : "");
}

static const char *name_of(const struct functions *f, cu_result result) {
    const char *name = NULL;
    if (f->error_name(result, &name) == DRIVER_OK && name) return name;
    return result == DRIVER_STUB_LIBRARY ? "CUDA_ERROR_STUB_LIBRARY" : "an unknown result";
}

static dcpk_status failed(const struct functions *f, const char *call, cu_result result, dcpk_error *error) {
    dcpk_error_set(error, DCPK_E_TOOLCHAIN, "the driver's compiler: %s gave %s (%d)", call, name_of(f, result), result);
    if (error && error->size >= sizeof *error) error->driver_result = result;
    return DCPK_E_TOOLCHAIN;
}

static void jit_close(struct toolchain *toolchain) {
    struct opened *opened = toolchain->library;
    if (opened) library_close(&opened->library);
    free(opened);
    free(toolchain->path);
    *toolchain = (struct toolchain){0};
}

static dcpk_status jit_open(struct toolchain *toolchain, const struct toolchain_place *place, dcpk_error *error) {
    struct library_search search = search_of(place->environment);
    struct opened *opened = calloc(1, sizeof *opened);
    int version = 0;
    if (!opened) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for the driver's table");
    toolchain->library = opened;
    dcpk_status status = library_open(&opened->library, &search, place->environment, error);
    if (status != DCPK_OK) return status;
    if (opened->library.path && opened->library.path[0]) toolchain->path = strdup(opened->library.path);
#define D(field, symbol, parameters)                                                                                   \
    if (!library_symbol(&opened->library, symbol, &opened->f.field))                                                   \
        return library_lacks(&opened->library, &search, symbol, error);
#include "gen/driver_jit.def"
#undef D
    cu_result result = opened->f.init(0);
    if (result != DRIVER_OK) {
        failed(&opened->f, "cuInit", result, error);
        if (result == DRIVER_STUB_LIBRARY)
            dcpk_error_append(error, ": %s is the toolkit's stub for linking: set DCPK_LIBCUDA to the driver's library",
                              opened->library.path);
        else
            dcpk_error_append(error, ": it assembles only where there is a device");
        return DCPK_E_TOOLCHAIN;
    }
    result = opened->f.driver_version(&version);
    if (result != DRIVER_OK) return failed(&opened->f, "cuDriverGetVersion", result, error);
    snprintf(toolchain->text, sizeof toolchain->text, "driver %d.%d (build %s)", version / 1000, version % 1000 / 10,
             opened->library.build[0] ? opened->library.build : "unknown");
    return DCPK_OK;
}

/* The first device that the architecture runs on; the error lists those that are here. */
static dcpk_status find_device(const struct functions *f, const dcpk_spec *spec, cu_device *found, dcpk_error *error) {
    dcpk_arch_info arch = {.size = sizeof arch};
    struct buffer here = {0};
    int count = 0;
    if (!dcpk_arch_find(spec->arch, &arch))
        return dcpk_error_set(error, DCPK_E_ARCH, "arch %s is not in the table of architectures", spec->arch);
    cu_result result = f->device_count(&count);
    if (result != DRIVER_OK) return failed(f, "cuDeviceGetCount", result, error);
    for (int i = 0; i < count && i < MAX_DEVICES; i++) {
        char name[100] = "";
        int major = 0, minor = 0;
        cu_device device;
        if (f->device_get(&device, i) != DRIVER_OK || f->device_name(name, sizeof name, device) != DRIVER_OK ||
            f->device_attribute(&major, DRIVER_ATTR_CC_MAJOR, device) != DRIVER_OK ||
            f->device_attribute(&minor, DRIVER_ATTR_CC_MINOR, device) != DRIVER_OK)
            continue;
        if (major == arch.major && minor == arch.minor) {
            *found = device;
            buffer_free(&here);
            return DCPK_OK;
        }
        buffer_format(&here, "%s %s (%d.%d)", here.length > 0 ? "," : "", name, major, minor);
    }
    dcpk_error_set(
        error, DCPK_E_TOOLCHAIN,
        "%s: the driver's compiler builds for a device that is there: arch=%s needs one of compute capability "
        "%d.%d, and here is%s; use DCPK_TOOLCHAIN=ptxas or nvjitlink",
        spec->kernel, spec->arch, arch.major, arch.minor, here.data ? here.data : " none");
    buffer_free(&here);
    return DCPK_E_TOOLCHAIN;
}

/* One assembly: all that the compiler's thread touches, so that the caller may go. */
struct job {
    struct functions f;
    cu_device device;
    char *ptx, *error_log, *info_log;
    size_t length;
    bool lineinfo;
    const char *step;
    cu_result result;
    void *cubin; /* a copy: the link owns its own */
    size_t cubin_length;
};

static void drop(void *self) {
    struct job *job = self;
    free(job->ptx);
    free(job->error_log);
    free(job->info_log);
    free(job->cubin);
    free(job);
}

static bool step(struct job *job, const char *name, cu_result result) {
    job->step = name;
    job->result = result;
    return result == DRIVER_OK;
}

static void link_ptx(struct job *job) {
    int names[] = {JIT_INFO_LOG, JIT_INFO_LOG_BYTES, JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES, JIT_LINE_INFO};
    void *values[] = {job->info_log, (void *)(uintptr_t)(LOG_BYTES - 1), job->error_log,
                      (void *)(uintptr_t)(LOG_BYTES - 1), (void *)(uintptr_t)1};
    void *link = NULL, *cubin = NULL;
    if (!step(job, "cuLinkCreate", job->f.link_create(job->lineinfo ? 5 : 4, names, values, &link))) return;
    if (step(job, "cuLinkAddData",
             job->f.link_add_data(link, INPUT_PTX, job->ptx, job->length + 1, "dcpk.ptx", 0, NULL, NULL)) &&
        step(job, "cuLinkComplete", job->f.link_complete(link, &cubin, &job->cubin_length)) &&
        job->cubin_length <= CACHE_FILE_MAX && (job->cubin = malloc(job->cubin_length + 1)) != NULL)
        memcpy(job->cubin, cubin, job->cubin_length);
    job->f.link_destroy(link);
}

static void work(void *self) {
    struct job *job = self;
    cu_context context = NULL;
    if (!step(job, "cuDevicePrimaryCtxRetain", job->f.primary_retain(&context, job->device))) return;
    if (step(job, "cuCtxSetCurrent", job->f.ctx_set_current(context))) {
        link_ptx(job);
        job->f.ctx_set_current(NULL);
    }
    job->f.primary_release(job->device);
}

static struct job *make_job(const struct opened *opened, cu_device device, const dcpk_spec *spec,
                            const struct expansion *expansion) {
    struct job *job = calloc(1, sizeof *job);
    if (!job) return NULL;
    *job = (struct job){.f = opened->f,
                        .device = device,
                        .ptx = malloc(expansion->ptx_length + 1),
                        .error_log = calloc(1, LOG_BYTES),
                        .info_log = calloc(1, LOG_BYTES),
                        .length = expansion->ptx_length,
                        .lineinfo = spec->lineinfo == 1};
    if (!job->ptx || !job->error_log || !job->info_log) {
        drop(job);
        return NULL;
    }
    memcpy(job->ptx, expansion->ptx, expansion->ptx_length);
    job->ptx[expansion->ptx_length] = '\0';
    return job;
}

static dcpk_status judge(struct job *job, const struct toolchain *toolchain, const struct toolchain_place *place,
                         const dcpk_spec *spec, const struct expansion *expansion, struct toolchain_output *out,
                         dcpk_error *error) {
    if (job->result != DRIVER_OK) {
        dcpk_error_set(error, DCPK_E_TOOLCHAIN, "%s: %s: %s gave %s (%d)", spec->kernel, toolchain->text, job->step,
                       name_of(&job->f, job->result), job->result);
        if (error && error->size >= sizeof *error) error->driver_result = job->result;
        scan_log(expansion, job->error_log, error);
        return DCPK_E_TOOLCHAIN;
    }
    if (job->cubin_length > CACHE_FILE_MAX)
        return dcpk_error_set(error, DCPK_E_BAD_CUBIN, "the compiler's output has %zu bytes", job->cubin_length);
    if (!job->cubin)
        return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for a cubin of %zu bytes", job->cubin_length);
    scan_warnings(expansion, spec->kernel, job->info_log, place->notice);
    *out = (struct toolchain_output){job->cubin, job->cubin_length};
    job->cubin = NULL;
    return DCPK_OK;
}

static dcpk_status assemble(struct toolchain *toolchain, const struct toolchain_place *place, const dcpk_spec *spec,
                            const struct expansion *expansion, struct toolchain_output *out, dcpk_error *error) {
    const struct opened *opened = toolchain->library;
    char who[sizeof toolchain->text + sizeof spec->kernel + 2];
    cu_device device = 0;
    *out = (struct toolchain_output){0};
    dcpk_status status = find_device(&opened->f, spec, &device, error);
    if (status != DCPK_OK) return status;
    toolchain_warn_of_faults(toolchain, place->notice, spec->arch);
    struct job *job = make_job(opened, device, spec, expansion);
    if (!job) return dcpk_error_set(error, DCPK_E_NOMEM, "no memory for the compiler's input");
    snprintf(who, sizeof who, "%s: %s", spec->kernel, toolchain->text);
    struct library_work call = {.work = work, .drop = drop, .job = job, .who = who, .timeout_ms = place->timeout_ms};
    status = library_run(&call, error);
    if (status == DCPK_E_TOOLCHAIN) return status; /* the thread's now */
    if (status == DCPK_OK) status = judge(job, toolchain, place, spec, expansion, out, error);
    drop(job);
    return status;
}

/* Those of the devices that are there. */
static uint32_t archs(struct toolchain *toolchain, const struct toolchain_place *place, const char **names,
                      uint32_t capacity) {
    const struct opened *opened = toolchain->library;
    dcpk_spec spec;
    cu_device device;
    dcpk_arch_info row = {.size = sizeof row};
    uint32_t count = 0;
    (void)place;
    dcpk_spec_init(&spec, "any");
    for (uint32_t i = 0; count < capacity && dcpk_arch_at(i, &row); i++) {
        snprintf(spec.arch, sizeof spec.arch, "%s", row.name);
        if (find_device(&opened->f, &spec, &device, NULL) == DCPK_OK) names[count++] = row.name;
    }
    return count;
}

const struct toolchain_kind toolchain_driver = {
    .name = "driver", .open = jit_open, .options = options, .assemble = assemble, .archs = archs, .close = jit_close};
