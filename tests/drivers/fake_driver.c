/* fake_driver.c - libfakecuda.so: see fake_driver.h. Exports the cu* names of runtime/driver.def. */
#include "tests/drivers/fake_inside.h"

#include "runtime/driver_types.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK = 64, OBJECTS = 64 };

static struct fake_driver state = {.devices = 8, .sms = 132, .major = 9, .minor = 0, .can_peer = 1, .occupancy = 1};
/* What FAKE_DRIVER says, for programs that a suite starts with this library as their libcuda.so.1: "devices=2 sms=64
 * major=9 minor=0 multicast=1 can_peer=0 no_peer=01 version=12020 memory=1024 init=999 strict=1"; no_peer: the two
 * devices that do not reach each other; strict: a program that loads, launches, takes memory or touches multicast
 * objects ends. */
static struct {
    int no_peer, version, memory, init, strict; /* memory in MiB */
} said = {.no_peer = -1, .version = 13000, .memory = 1024};

__attribute__((constructor)) static void read_orders(void) {
    const struct {
        const char *name;
        int *value;
    } rows[] = {{"devices", &state.devices},     {"sms", &state.sms},
                {"major", &state.major},         {"minor", &state.minor},
                {"multicast", &state.multicast}, {"can_peer", &state.can_peer},
                {"no_peer", &said.no_peer},      {"version", &said.version},
                {"memory", &said.memory},        {"init", &said.init},
                {"strict", &said.strict}};
    const char *orders = getenv("FAKE_DRIVER");
    for (; orders != NULL && *orders != '\0'; orders += strcspn(orders, " "), orders += strspn(orders, " "))
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            size_t length = strlen(rows[i].name);
            if (strncmp(orders, rows[i].name, length) == 0 && orders[length] == '=')
                *rows[i].value = atoi(orders + length + 1);
        }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the record */
static char contexts[FAKE_DEVICES];
static bool peers[FAKE_DEVICES][FAKE_DEVICES];
static _Thread_local cu_context stack[STACK];
static _Thread_local int depth;
static struct {
    cu_host_fn *destroy;
    void *self;
    bool in_graph;
} objects[OBJECTS];

EXPORT struct fake_driver *fake_driver(void) {
    return &state;
}

EXPORT void fake_reset(void) {
    state.capturing = 0;
    state.capture_id = 0;
    state.fail_at = 0;
    state.fail_symbol[0] = '\0';
    state.fail_with = DRIVER_INVALID_VALUE;
    state.reject_attribute = 0;
    state.occupancy = 1;
    state.chunks = state.old_resources = 0;
    state.jit_log = NULL;
    state.param_count = 0;
    state.calls = state.launches = 0;
    memset(&state.last, 0, sizeof state.last);
    memset(peers, 0, sizeof peers);
}

EXPORT long fake_outstanding(void) {
    return state.memory + state.host + state.streams + state.libraries + state.retains + state.handles +
           state.reservations + state.mappings + state.bindings + state.objects + state.greens + depth;
}

EXPORT void fake_drop_graph(void) {
    for (int i = 0; i < OBJECTS; i++)
        if (objects[i].in_graph) {
            objects[i].in_graph = false;
            state.objects--;
            objects[i].destroy(objects[i].self);
            objects[i].destroy = NULL;
        }
}

static void refuse_all_but_looks(const char *name) {
    static const char *const acts[] = {"cuLaunch", "cuLibrary", "cuMulticast", "cuMem", "cuGreen", "cuLink"};
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        if (strncmp(name, acts[i], strlen(acts[i])) == 0) abort();
}

int fake_begin(const char *name) {
    int planned = 0;
    if (said.strict) refuse_all_but_looks(name);
    pthread_mutex_lock(&lock);
    if (state.calls < FAKE_CALLS) state.call[state.calls] = name;
    state.calls++;
    if (state.fail_symbol[0] != '\0' && strcmp(state.fail_symbol, name) == 0)
        planned = state.fail_with;
    else if (state.fail_at > 0 && --state.fail_at == 0)
        planned = state.fail_with;
    pthread_mutex_unlock(&lock);
    return planned;
}

int fake_depth(void) {
    return depth;
}

static int device_of(cu_context context) {
    return (int)((char *)context - contexts);
}

/* ---- start-up, devices ---- */
ENTRY(cuInit, unsigned flags) {
    BEGIN;
    return said.init != 0 ? said.init : flags == 0 ? DRIVER_OK : DRIVER_INVALID_VALUE;
}
ENTRY(cuDriverGetVersion, int *version) {
    BEGIN;
    *version = said.version;
    return DRIVER_OK;
}
ENTRY(cuGetErrorString, cu_result result, const char **text) {
    *text = NULL;
    if (result == DRIVER_STUB_LIBRARY) return DRIVER_STUB_LIBRARY; /* as the stub does */
    *text = result == DRIVER_OUT_OF_MEMORY ? "out of memory" : "a fake failure";
    return DRIVER_OK;
}
ENTRY(cuGetErrorName, cu_result result, const char **text) {
    *text = NULL;
    if (result == DRIVER_STUB_LIBRARY) return DRIVER_STUB_LIBRARY;
    *text = result == DRIVER_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
    return DRIVER_OK;
}
ENTRY(cuDeviceGetCount, int *count) {
    BEGIN;
    *count = state.devices;
    return DRIVER_OK;
}
ENTRY(cuDeviceGet, cu_device *device, int ordinal) {
    BEGIN;
    if (ordinal < 0 || ordinal >= state.devices) return DRIVER_INVALID_DEVICE;
    *device = ordinal;
    return DRIVER_OK;
}
ENTRY(cuDeviceGetName, char *name, int capacity, cu_device device) {
    BEGIN;
    snprintf(name, (size_t)capacity, "Fake %d", device);
    return DRIVER_OK;
}
ENTRY(cuDeviceGetAttribute, int *value, int attribute, cu_device device) {
    BEGIN;
    (void)device;
    switch (attribute) {
    case DRIVER_ATTR_MULTIPROCESSORS:
        *value = state.sms;
        return DRIVER_OK;
    case DRIVER_ATTR_CC_MAJOR:
        *value = state.major;
        return DRIVER_OK;
    case DRIVER_ATTR_CC_MINOR:
        *value = state.minor;
        return DRIVER_OK;
    case DRIVER_ATTR_MULTICAST:
        *value = state.multicast;
        return DRIVER_OK;
    default:
        return DRIVER_INVALID_VALUE;
    }
}
ENTRY(cuDeviceCanAccessPeer, int *can, cu_device device, cu_device peer) {
    BEGIN;
    int first = device < peer ? device : peer, second = device < peer ? peer : device;
    *can = device != peer && state.can_peer && said.no_peer != first * 10 + second;
    return DRIVER_OK;
}
ENTRY(cuDeviceTotalMem_v2, size_t *bytes, cu_device device) {
    BEGIN;
    (void)device;
    *bytes = (size_t)said.memory << 20;
    return DRIVER_OK;
}

/* ---- contexts ---- */
ENTRY(cuDevicePrimaryCtxRetain, cu_context *context, cu_device device) {
    BEGIN;
    *context = &contexts[device];
    state.retains++;
    return DRIVER_OK;
}
ENTRY(cuDevicePrimaryCtxRelease_v2, cu_device device) {
    BEGIN;
    (void)device;
    state.retains--;
    return DRIVER_OK;
}
ENTRY(cuCtxGetCurrent, cu_context *context) {
    BEGIN;
    *context = depth > 0 ? stack[depth - 1] : NULL;
    return DRIVER_OK;
}
ENTRY(cuCtxSetCurrent, cu_context context) {
    BEGIN;
    if (depth == 0) depth = 1;
    stack[depth - 1] = context;
    if (depth == 1 && context == NULL) depth = 0;
    return DRIVER_OK;
}
ENTRY(cuCtxPushCurrent_v2, cu_context context) {
    BEGIN;
    if (depth == STACK) return DRIVER_INVALID_CONTEXT;
    stack[depth++] = context;
    return DRIVER_OK;
}
ENTRY(cuCtxPopCurrent_v2, cu_context *context) {
    BEGIN;
    if (depth == 0) return DRIVER_INVALID_CONTEXT;
    *context = stack[--depth];
    return DRIVER_OK;
}
ENTRY(cuCtxGetDevice, cu_device *device) {
    BEGIN;
    if (depth == 0) return DRIVER_INVALID_CONTEXT;
    *device = device_of(stack[depth - 1]);
    return DRIVER_OK;
}
ENTRY(cuCtxSynchronize, void) {
    BEGIN;
    return depth > 0 ? DRIVER_OK : DRIVER_INVALID_CONTEXT;
}
ENTRY(cuCtxEnablePeerAccess, cu_context peer, unsigned flags) {
    BEGIN;
    if (depth == 0 || flags != 0) return DRIVER_INVALID_CONTEXT;
    bool *enabled = &peers[device_of(stack[depth - 1])][device_of(peer)];
    if (*enabled) return DRIVER_PEER_ACCESS_ALREADY_ENABLED;
    *enabled = true;
    return DRIVER_OK;
}

/* ---- streams ---- */
ENTRY(cuStreamCreate, cu_stream *stream, unsigned flags) {
    BEGIN;
    if (depth == 0 || flags != DRIVER_STREAM_NON_BLOCKING) return DRIVER_INVALID_VALUE;
    struct fake_stream *made = fake_take(sizeof *made);
    if (made == NULL) return DRIVER_OUT_OF_MEMORY;
    made->green = NULL;
    *stream = made;
    state.streams++;
    return DRIVER_OK;
}
ENTRY(cuStreamDestroy_v2, cu_stream stream) {
    BEGIN;
    struct fake_green *green = ((struct fake_stream *)stream)->green;
    if (!fake_give_back(stream)) return DRIVER_INVALID_HANDLE;
    if (green != NULL) green->streams--;
    state.streams--;
    return DRIVER_OK;
}
ENTRY(cuStreamSynchronize, cu_stream stream) {
    BEGIN;
    (void)stream;
    return DRIVER_OK;
}
ENTRY(cuStreamIsCapturing, cu_stream stream, int *status) {
    BEGIN;
    if (stream == NULL && state.capturing) return DRIVER_CAPTURE_IMPLICIT;
    *status = state.capturing;
    return DRIVER_OK;
}
ENTRY(cuStreamGetCaptureInfo_v2, cu_stream stream, int *status, unsigned long long *id, cu_graph *graph,
      const void **dependencies, size_t *count) {
    BEGIN;
    (void)stream, (void)dependencies, (void)count;
    *status = state.capturing;
    *id = state.capture_id;
    *graph = state.capturing ? (cu_graph)objects : NULL;
    return DRIVER_OK;
}
ENTRY(cuUserObjectCreate, cu_user_object *object, void *self, cu_host_fn *destroy, unsigned references,
      unsigned flags) {
    BEGIN;
    if (references != 1 || flags != DRIVER_USER_OBJECT_NO_SYNC) return DRIVER_INVALID_VALUE;
    for (int i = 0; i < OBJECTS; i++)
        if (objects[i].destroy == NULL) {
            objects[i].destroy = destroy;
            objects[i].self = self;
            objects[i].in_graph = false;
            *object = &objects[i];
            state.objects++;
            return DRIVER_OK;
        }
    return DRIVER_OUT_OF_MEMORY;
}
ENTRY(cuUserObjectRelease, cu_user_object object, unsigned references) {
    BEGIN;
    int i = (int)((char *)object - (char *)objects) / (int)sizeof objects[0];
    if (references != 1 || objects[i].destroy == NULL) return DRIVER_INVALID_VALUE;
    cu_host_fn *destroy = objects[i].destroy;
    objects[i].destroy = NULL;
    state.objects--;
    destroy(objects[i].self);
    return DRIVER_OK;
}
ENTRY(cuGraphRetainUserObject, cu_graph graph, cu_user_object object, unsigned references, unsigned flags) {
    BEGIN;
    int i = (int)((char *)object - (char *)objects) / (int)sizeof objects[0];
    if (graph == NULL || references != 1 || flags != DRIVER_GRAPH_OBJECT_MOVE) return DRIVER_INVALID_VALUE;
    objects[i].in_graph = true;
    return DRIVER_OK;
}

/* ---- code ---- */
ENTRY(cuLibraryLoadData, cu_library *library, const void *code, int *jit_options, void **jit_values, unsigned jit_count,
      int *options, void **values, unsigned count) {
    int planned = fake_begin(__func__);
    (void)options, (void)values, (void)count;
    if (memcmp(code, "\177ELF", 4) != 0) return DRIVER_INVALID_IMAGE;
    for (unsigned i = 0; planned != 0 && state.jit_log != NULL && i + 1 < jit_count; i++)
        if (jit_options[i] == DRIVER_JIT_ERROR_LOG && jit_options[i + 1] == DRIVER_JIT_ERROR_LOG_BYTES)
            snprintf(jit_values[i], (size_t)(uintptr_t)jit_values[i + 1], "%s", state.jit_log);
    if (planned != 0) return planned;
    *library = fake_take(1);
    if (*library == NULL) return DRIVER_OUT_OF_MEMORY;
    state.libraries++;
    return DRIVER_OK;
}
ENTRY(cuLibraryUnload, cu_library library) {
    BEGIN;
    if (!fake_give_back(library)) return DRIVER_INVALID_HANDLE;
    state.libraries--;
    return DRIVER_OK;
}
ENTRY(cuLibraryGetKernel, cu_kernel *kernel, cu_library library, const char *name) {
    BEGIN;
    (void)library;
    *kernel = (cu_kernel)(uintptr_t)name; /* lives as long as the kernel that asks */
    return DRIVER_OK;
}
ENTRY(cuKernelGetFunction, cu_function *function, cu_kernel kernel) {
    BEGIN;
    if (depth == 0) return DRIVER_INVALID_CONTEXT;
    *function = kernel;
    return DRIVER_OK;
}
ENTRY(cuFuncLoad, cu_function function) {
    BEGIN;
    return function != NULL ? DRIVER_OK : DRIVER_INVALID_HANDLE;
}
ENTRY(cuFuncSetAttribute, cu_function function, int attribute, int value) {
    BEGIN;
    (void)function;
    state.func_attribute = attribute;
    state.func_attribute_value = value;
    return DRIVER_OK;
}
ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessor, int *ctas, cu_function function, int threads,
      size_t dynamic_shared) {
    BEGIN;
    (void)function, (void)threads, (void)dynamic_shared;
    *ctas = state.occupancy;
    return DRIVER_OK;
}
ENTRY(cuOccupancyMaxActiveClusters, int *clusters, cu_function function, const cu_launch_config *config) {
    BEGIN;
    (void)function;
    if (config->attribute_count != 1 || config->attributes[0].id != DRIVER_LAUNCH_CLUSTER) return DRIVER_INVALID_VALUE;
    const cu_launch_value *value = &config->attributes[0].value;
    *clusters = state.occupancy * state.sms / (int)(value->cluster.x * value->cluster.y * value->cluster.z);
    return DRIVER_OK;
}
static cu_result record_launch(const cu_launch_config *config, cu_function function, void **parameters) {
    struct fake_launch *last = &state.last;
    memset(last, 0, sizeof *last);
    memcpy(last->grid, config->grid, sizeof last->grid);
    memcpy(last->block, config->block, sizeof last->block);
    last->shared = config->shared_bytes;
    last->stream = config->stream;
    snprintf(last->function, sizeof last->function, "%s", (const char *)function);
    last->attributes = config->attribute_count;
    for (unsigned i = 0; i < config->attribute_count && i < FAKE_ATTRIBUTES; i++) {
        const cu_launch_attribute *attribute = &config->attributes[i];
        if (attribute->id == state.reject_attribute) return DRIVER_INVALID_VALUE;
        last->attribute[i] = attribute->id;
        if (attribute->id == DRIVER_LAUNCH_PDL) last->pdl = attribute->value.pdl;
        if (attribute->id == DRIVER_LAUNCH_CLUSTER) memcpy(last->cluster, &attribute->value.cluster, 12);
    }
    for (unsigned i = 0; i < state.param_count; i++)
        memcpy(&last->param[i], parameters[i], state.param_bytes[i]);
    if (state.launches < FAKE_LAUNCHES) state.launch[state.launches] = *last;
    state.launches++;
    return DRIVER_OK;
}
ENTRY(cuLaunchKernelEx, const cu_launch_config *config, cu_function function, void **parameters, void **extra) {
    BEGIN;
    if (depth == 0 || extra != NULL) return DRIVER_INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    cu_result result = record_launch(config, function, parameters);
    pthread_mutex_unlock(&lock);
    return result;
}
