/* conform_device.c - see conform_device.h. The driver's calls are looked up by name; their types are those of its
 * binary interface. */
#include "conform_device.h"

#include "command.h"
#include "tool_error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FORMS = 64, DRIVER_TEXT = 8192, JIT_ERROR_BUFFER = 5, JIT_ERROR_BYTES = 6 };

struct launch_config {
    unsigned grid[3], block[3], shared;
    void *stream, *attributes;
    unsigned attribute_count;
};

#define CALLS(X)                                                                                                       \
    X(init, "cuInit", (unsigned))                                                                                      \
    X(retain, "cuDevicePrimaryCtxRetain", (void **, int))                                                              \
    X(release, "cuDevicePrimaryCtxRelease_v2", (int))                                                                  \
    X(set_current, "cuCtxSetCurrent", (void *))                                                                        \
    X(synchronize, "cuCtxSynchronize", (void))                                                                         \
    X(error_string, "cuGetErrorString", (int, const char **))                                                          \
    X(load, "cuLibraryLoadData", (void **, const void *, int *, void **, unsigned, int *, void **, unsigned))          \
    X(unload, "cuLibraryUnload", (void *))                                                                             \
    X(get_kernel, "cuLibraryGetKernel", (void **, void *, const char *))                                               \
    X(get_function, "cuKernelGetFunction", (void **, void *))                                                          \
    X(launch, "cuLaunchKernelEx", (const struct launch_config *, void *, void **, void **))                            \
    X(encode_map, "cuTensorMapEncodeTiled",                                                                            \
      (void *, int, unsigned, void *, const unsigned long long *, const unsigned long long *, const unsigned *,        \
       const unsigned *, int, int, int, int))

struct conform_device {
    dcpk_device *device;
    int ordinal;
    bool retained;
#define X(name, symbol, parameters) int(*name) parameters;
    CALLS(X)
#undef X
    void *libraries[MOST_FORMS];
    void *functions[MOST_FORMS];
    size_t library_count;
    uint64_t at[3]; /* memory of inputs, results, slots; 0: none */
    size_t room[3];
    char log[DRIVER_TEXT];
};

static dcpk_status failed(struct conform_device *d, int code, const char *what, dcpk_error *error) {
    const char *why = NULL;
    const char *(*report)(void) = NULL;
    void *symbol = dcpk_device_symbol(d->device, "dcpkcpu_report");
    memcpy(&report, &symbol, sizeof report);
    d->error_string(code, &why);
    if (report != NULL && report()[0] != '\0') why = report();
    return tool_fail(error, DCPK_E_DRIVER, "%s: %s (%d)%s%s", what, why != NULL ? why : "driver error", code,
                     d->log[0] != '\0' ? ": " : "", d->log);
}

#define TRY(call, what)                                                                                                \
    do {                                                                                                               \
        int code_ = (call);                                                                                            \
        if (code_ != 0) return failed(d, code_, what, error);                                                          \
    } while (0)

static dcpk_status find_calls(struct conform_device *d, dcpk_error *error) {
#define X(name, symbol, parameters)                                                                                    \
    {                                                                                                                  \
        void *found = dcpk_device_symbol(d->device, symbol);                                                           \
        bool needed = strcmp(symbol, "cuTensorMapEncodeTiled") != 0; /* an old driver has none */                      \
        if (found == NULL && needed) return tool_fail(error, DCPK_E_NOT_FOUND, "%s: the driver has none", symbol);     \
        memcpy(&d->name, &found, sizeof found);                                                                        \
    }
    CALLS(X)
#undef X
    return DCPK_OK;
}

dcpk_status conform_device_open(dcpk_device *device, struct conform_device **out, dcpk_error *error) {
    struct conform_device *d = must(calloc(1, sizeof *d));
    dcpk_device_info info = {.size = sizeof info};
    void *context = NULL;
    *out = d;
    d->device = device;
    dcpk_status status = dcpk_device_get_info(device, &info, error);
    if (status == DCPK_OK) status = find_calls(d, error);
    if (status != DCPK_OK) return status;
    d->ordinal = info.ordinal;
    TRY(d->retain(&context, d->ordinal), "cuDevicePrimaryCtxRetain");
    d->retained = true;
    TRY(d->set_current(context), "cuCtxSetCurrent");
    return DCPK_OK;
}

void conform_device_close(struct conform_device *d) {
    if (d == NULL) return;
    conform_device_unload(d);
    for (int i = 0; i < 3; i++)
        if (d->at[i] != 0) (void)dcpk_mem_free(d->device, d->at[i], NULL);
    if (d->retained) d->release(d->ordinal);
    free(d);
}

/* ---- modules ---- */
static dcpk_status load_text(struct conform_device *d, const char *ptx, void **library, dcpk_error *error) {
    int options[] = {JIT_ERROR_BUFFER, JIT_ERROR_BYTES};
    void *values[] = {d->log, (void *)(uintptr_t)(sizeof d->log - 1)};
    d->log[0] = '\0';
    int code = d->load(library, ptx, options, values, 2, NULL, NULL, 0);
    dcpk_status status = code == 0 ? DCPK_OK : failed(d, code, "cuLibraryLoadData", error);
    d->log[0] = '\0';
    return status;
}

/* Entry `entry` of the library becomes function number `which`. */
static dcpk_status take(struct conform_device *d, void *library, unsigned entry, size_t which, dcpk_error *error) {
    char name[16];
    void *kernel = NULL;
    snprintf(name, sizeof name, "f%u", entry);
    TRY(d->get_kernel(&kernel, library, name), "cuLibraryGetKernel");
    TRY(d->get_function(&d->functions[which], kernel), "cuKernelGetFunction");
    return DCPK_OK;
}

static dcpk_status load_alone(struct conform_device *d, const struct conform_form *form, size_t which,
                              dcpk_error *error) {
    void *library = NULL;
    char *text = conform_module(&form, 1);
    dcpk_status status = load_text(d, text, &library, error);
    free(text);
    if (status != DCPK_OK) return status;
    d->libraries[d->library_count++] = library;
    return take(d, library, 0, which, error);
}

void conform_device_load(struct conform_device *d, const struct conform_form *const *forms, size_t count, bool *loaded,
                         char *why, size_t room) {
    void *library = NULL;
    dcpk_error error;
    dcpk_error_init(&error);
    char *text = conform_module(forms, count);
    bool whole = load_text(d, text, &library, &error) == DCPK_OK;
    free(text);
    if (whole) d->libraries[d->library_count++] = library;
    for (size_t i = 0; i < count && i < MOST_FORMS; i++) {
        dcpk_status one = whole ? take(d, library, (unsigned)i, i, &error) : load_alone(d, forms[i], i, &error);
        loaded[i] = one == DCPK_OK;
        snprintf(why + i * room, room, "%s", loaded[i] ? "" : error.text);
    }
}

void conform_device_unload(struct conform_device *d) {
    for (size_t i = 0; i < d->library_count; i++)
        d->unload(d->libraries[i]);
    d->library_count = 0;
}

/* ---- runs ---- */
/* A map over the slots as [slots][64 bytes], split into as many dimensions as the form's rank; 128 threads' slots, or
 * as many bytes, are a box. */
static dcpk_status encode_map(struct conform_device *d, const struct conform_form *form, uint64_t slots, size_t count,
                              void *map, dcpk_error *error) {
    static const unsigned element_steps[5] = {1, 1, 1, 1, 1};
    int rank = conform_which(form, "1d 2d 3d 4d 5d") + 1;
    bool wide = strcmp(form->row->tag, "swizzle 128") == 0;
    int swizzle = wide ? 3 : strcmp(form->row->tag, "swizzle 64") == 0 ? 2 : 0;
    unsigned long long dims[5] = {wide ? 128 : 64, count / (wide ? 2 : 1)}, strides[4] = {wide ? 128 : 64};
    unsigned box[5] = {wide ? 128 : 64, wide ? 64 : 128};
    static const unsigned long long inner[6][5] = {[3] = {16, 4}, [4] = {16, 2, 2}, [5] = {16, 2, 2, 2}};
    if (rank == 0) rank = 2; /* prefetch.tensormap */
    if (d->encode_map == NULL) return tool_fail(error, DCPK_E_NOT_FOUND, "the driver makes no tensor maps");
    if (rank > 2) {
        unsigned long long bytes = 1;
        for (int i = 0; i + 1 < rank; i++) {
            dims[i] = inner[rank][i], box[i] = (unsigned)dims[i];
            bytes *= dims[i];
            strides[i] = bytes;
        }
        dims[rank - 1] = count * CONFORM_SLOT / bytes;
        box[rank - 1] = (unsigned)(CONFORM_THREADS * CONFORM_SLOT / bytes);
    }
    TRY(d->encode_map(map, 0, (unsigned)rank, (void *)(uintptr_t)slots, dims, strides, box, element_steps, 0, swizzle,
                      0, 0),
        "cuTensorMapEncodeTiled");
    return DCPK_OK;
}

static dcpk_status launch(struct conform_device *d, const struct conform_form *form, size_t which, size_t count,
                          const uint64_t at[3], dcpk_error *error) {
    _Alignas(64) unsigned char map[CONFORM_MAP];
    uint64_t in = at[0], out = at[1], slots = at[2];
    conform_map_bytes(map);
    dcpk_status status = form->row->flags & MAPPED ? encode_map(d, form, slots, count, map, error) : DCPK_OK;
    if (status != DCPK_OK) return status;
    struct launch_config config = {.grid = {(unsigned)(count / CONFORM_THREADS), 1, 1},
                                   .block = {CONFORM_THREADS, 1, 1}};
    void *parameters[] = {&in, &out, &slots, map};
    TRY(d->launch(&config, d->functions[which], parameters, NULL), "cuLaunchKernelEx");
    TRY(d->synchronize(), "cuCtxSynchronize");
    return DCPK_OK;
}

/* The device's memory for inputs, results and slots, at least so many bytes each. */
static dcpk_status need_memory(struct conform_device *d, const size_t bytes[3], dcpk_error *error) {
    for (int i = 0; i < 3; i++) {
        if (d->room[i] >= bytes[i]) continue;
        if (d->at[i] != 0) (void)dcpk_mem_free(d->device, d->at[i], NULL);
        d->at[i] = d->room[i] = 0;
        dcpk_status status = dcpk_mem_alloc(d->device, bytes[i], &d->at[i], error);
        if (status != DCPK_OK) return status;
        d->room[i] = bytes[i];
    }
    return DCPK_OK;
}

dcpk_status conform_device_run(struct conform_device *d, const struct conform_form *form, size_t which,
                               const struct conform_in *in, size_t count, struct conform_out *out, dcpk_error *error) {
    const size_t bytes[3] = {count * sizeof *in, count * sizeof *out, count * CONFORM_SLOT};
    dcpk_status status = need_memory(d, bytes, error);
    memset(out, 0xEE, count * sizeof *out);
    for (int i = 0; i < 3 && status == DCPK_OK; i++) {
        const void *from = i == 1 ? (const void *)out : in; /* slots: as the inputs */
        status = dcpk_mem_write(d->device, d->at[i], from, bytes[i], error);
    }
    if (status == DCPK_OK) status = launch(d, form, which, count, d->at, error);
    return status == DCPK_OK ? dcpk_mem_read(d->device, out, d->at[1], bytes[1], error) : status;
}
