/* driver_function.c - a kernel on a device: its attributes and how many of its CTAs an SM holds. */
#include "runtime/cpu/driver.h"

struct function *function_of(struct call *call, cu_function handle) {
    if (handle_is(call->world, handle, HANDLE_FUNCTION)) return handle;
    if (handle_is(call->world, handle, HANDLE_KERNEL))
        return &((struct kernel *)handle)->functions[call->device->ordinal];
    call->result = R_CUDA_ERROR_INVALID_HANDLE;
    return NULL;
}

cu_result cpu_kernel_get_function(cu_function *function, cu_kernel kernel) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    if (!function)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (!handle_is(call.world, kernel, HANDLE_KERNEL))
        call.result = R_CUDA_ERROR_INVALID_HANDLE;
    if (call.result) return call_end(&call);
    struct function *which = &((struct kernel *)kernel)->functions[call.device->ordinal];
    if (!library_load_variables(call.world, which->kernel->library, call.device) ||
        (!handle_is(call.world, which, HANDLE_FUNCTION) && handle_add(call.world, which, HANDLE_FUNCTION)))
        call.result = R_CUDA_ERROR_OUT_OF_MEMORY;
    else
        *function = which;
    return call_end(&call);
}

cu_result cpu_func_load(cu_function function) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    function_of(&call, function); /* loaded with its library */
    return call_end(&call);
}

enum { /* CUfunction_attribute */
       MAX_THREADS = 0,
       STATIC_SHARED = 1,
       CONSTANT_BYTES = 2,
       LOCAL_BYTES = 3,
       REGISTERS = 4,
       PTX_VERSION = 5,
       BINARY_VERSION = 6,
       CACHE_MODE = 7,
       CARVEOUT = 9,
       CLUSTER_MUST_BE_SET = 10,
       CLUSTER_SCHEDULING = 15
};

static cu_result attribute_of(const struct function *function, int attribute, int *value) {
    const struct ptx_function *code = function->kernel->code;
    const dcpkcpu_options *options = &function->device->world->options;
    unsigned registers = function->kernel->registers, fits = SM_REGISTERS / registers / WARP * WARP;
    unsigned threads = code->max_threads ? code->max_threads : fits < CTA_THREADS ? fits : CTA_THREADS;
    const struct {
        int attribute, value;
    } table[] = {{MAX_THREADS, (int)threads},
                 {STATIC_SHARED, (int)code->static_shared},
                 {CONSTANT_BYTES, 0},
                 {LOCAL_BYTES, (int)code->local_bytes},
                 {REGISTERS, (int)registers},
                 {PTX_VERSION, options->major * 10 + options->minor},
                 {BINARY_VERSION, options->major * 10 + options->minor},
                 {CACHE_MODE, 0},
                 {DRIVER_FUNC_MAX_DYNAMIC_SHARED, (int)function->max_dynamic_shared},
                 {CARVEOUT, -1},
                 {CLUSTER_MUST_BE_SET, code->explicit_cluster},
                 {DRIVER_FUNC_NON_PORTABLE_CLUSTER, function->non_portable_cluster},
                 {CLUSTER_SCHEDULING, 0}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].attribute == attribute) {
            *value = table[i].value;
            return R_CUDA_SUCCESS;
        }
    return R_CUDA_ERROR_INVALID_VALUE;
}

static cu_result set_attribute(struct function *function, int attribute, int value) {
    switch (attribute) {
    case DRIVER_FUNC_MAX_DYNAMIC_SHARED:
        if (value < 0 || (unsigned)value > CTA_SHARED_MAX - function->kernel->code->static_shared)
            return R_CUDA_ERROR_INVALID_VALUE;
        function->max_dynamic_shared = (unsigned)value;
        return R_CUDA_SUCCESS;
    case DRIVER_FUNC_NON_PORTABLE_CLUSTER:
        function->non_portable_cluster = value != 0;
        return R_CUDA_SUCCESS;
    case CARVEOUT: /* a hint */
        return value >= -1 && value <= 100 ? R_CUDA_SUCCESS : R_CUDA_ERROR_INVALID_VALUE;
    default:
        return R_CUDA_ERROR_INVALID_VALUE;
    }
}

cu_result cpu_func_get_attribute(int *value, int attribute, cu_function function) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    const struct function *which = function_of(&call, function);
    if (which) call.result = value ? attribute_of(which, attribute, value) : R_CUDA_ERROR_INVALID_VALUE;
    return call_end(&call);
}

cu_result cpu_func_set_attribute(cu_function function, int attribute, int value) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    struct function *which = function_of(&call, function);
    if (which) call.result = set_attribute(which, attribute, value);
    return call_end(&call);
}

static struct function *kernel_on(struct call *call, cu_kernel kernel, cu_device device) {
    if (!handle_is(call->world, kernel, HANDLE_KERNEL))
        call->result = R_CUDA_ERROR_INVALID_HANDLE;
    else if (device < 0 || device >= call->world->device_count)
        call->result = R_CUDA_ERROR_INVALID_DEVICE;
    return call->result ? NULL : &((struct kernel *)kernel)->functions[device];
}

cu_result cpu_kernel_get_attribute(int *value, int attribute, cu_kernel kernel, cu_device device) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    const struct function *which = kernel_on(&call, kernel, device);
    if (which) call.result = value ? attribute_of(which, attribute, value) : R_CUDA_ERROR_INVALID_VALUE;
    return call_end(&call);
}

cu_result cpu_kernel_set_attribute(int attribute, int value, cu_kernel kernel, cu_device device) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    struct function *which = kernel_on(&call, kernel, device);
    if (which) call.result = set_attribute(which, attribute, value);
    return call_end(&call);
}

/* 0 when one CTA takes more than an SM, or than the function's attributes allow. */
static unsigned ctas_per_sm(const struct function *function, unsigned threads, uint64_t dynamic_shared) {
    const struct ptx_function *code = function->kernel->code;
    if (dynamic_shared > function->max_dynamic_shared || (code->max_threads && threads > code->max_threads)) return 0;
    return grid_ctas_per_sm(threads, grid_registers(threads, function->kernel->registers),
                            grid_shared(code->static_shared + (unsigned)dynamic_shared));
}

cu_result cpu_occupancy(int *ctas, cu_function function, int threads, size_t dynamic_shared) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    const struct function *which = function_of(&call, function);
    if (!which) return call_end(&call);
    if (!ctas || threads < 1 || threads > CTA_THREADS)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else
        *ctas = (int)ctas_per_sm(which, (unsigned)threads, dynamic_shared);
    return call_end(&call);
}

cu_result cpu_occupancy_clusters(int *clusters, cu_function function, const cu_launch_config *config) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    const struct function *which = function_of(&call, function);
    if (!which) return call_end(&call);
    uint64_t threads = config ? (uint64_t)config->block[0] * config->block[1] * config->block[2] : 0, size = 1;
    for (unsigned i = 0; config && config->attributes && i < config->attribute_count; i++)
        if (config->attributes[i].id == DRIVER_LAUNCH_CLUSTER)
            size = (uint64_t)config->attributes[i].value.cluster.x * config->attributes[i].value.cluster.y *
                   config->attributes[i].value.cluster.z;
    if (!clusters || !config || threads < 1 || threads > CTA_THREADS)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (size < 1 || size > (which->non_portable_cluster ? CLUSTER_CTAS : CLUSTER_CTAS_PORTABLE))
        call.result = R_CUDA_ERROR_INVALID_CLUSTER_SIZE;
    else
        *clusters = (int)(ctas_per_sm(which, (unsigned)threads, config->shared_bytes) *
                          (unsigned)call.world->options.sms / (unsigned)size);
    return call_end(&call);
}
