/* driver_launch.c - from a launch call to an operation of a stream, or a node of a capture: everything that can be
 * wrong is said at the call.
 *
 * Makes a struct launch (world_grid.c's) with its copy of the parameters; may not start anything. */
#include "runtime/cpu/driver.h"

#include <stdlib.h>
#include <string.h>

enum { ATTRIBUTE_IGNORE = 0, ATTRIBUTE_COOPERATIVE = 2, ATTRIBUTE_PRIORITY = 8 };
enum { EXTRA_END = 0, EXTRA_BUFFER = 1, EXTRA_BYTES = 2 };

struct wishes {          /* of the launch attributes */
    unsigned cluster[3]; /* 0,0,0: not said */
    bool explicit_cluster;
    bool programmatic;
    int priority;
};

static cu_result read_attribute(const cu_launch_attribute *attribute, struct wishes *wishes) {
    switch (attribute->id) {
    case ATTRIBUTE_IGNORE:
        return R_CUDA_SUCCESS;
    case DRIVER_LAUNCH_CLUSTER:
        wishes->cluster[0] = attribute->value.cluster.x;
        wishes->cluster[1] = attribute->value.cluster.y;
        wishes->cluster[2] = attribute->value.cluster.z;
        return wishes->cluster[0] && wishes->cluster[1] && wishes->cluster[2] ? R_CUDA_SUCCESS
                                                                              : R_CUDA_ERROR_INVALID_CLUSTER_SIZE;
    case DRIVER_LAUNCH_PDL:
        wishes->programmatic = attribute->value.pdl != 0;
        return R_CUDA_SUCCESS;
    case ATTRIBUTE_PRIORITY:
        wishes->priority = attribute->value.pdl; /* the same place: an int */
        return R_CUDA_SUCCESS;
    case ATTRIBUTE_COOPERATIVE:
        return attribute->value.pdl ? R_CUDA_ERROR_NOT_SUPPORTED : R_CUDA_SUCCESS;
    default:
        return attribute->id < 0 || attribute->id > 16 ? R_CUDA_ERROR_INVALID_VALUE : R_CUDA_ERROR_NOT_SUPPORTED;
    }
}

static cu_result check_shape(const struct function *function, const cu_launch_config *c) {
    static const uint32_t most_grid[3] = {INT32_MAX, 65535, 65535}, most_block[3] = {1024, 1024, 64};
    const struct ptx_function *code = function->kernel->code;
    for (unsigned d = 0; d < 3; d++) {
        if (c->grid[d] < 1 || c->grid[d] > most_grid[d] || c->block[d] < 1 || c->block[d] > most_block[d])
            return R_CUDA_ERROR_INVALID_VALUE;
        if (code->reqntid[0] && c->block[d] != (code->reqntid[d] ? code->reqntid[d] : 1))
            return R_CUDA_ERROR_INVALID_VALUE;
    }
    unsigned threads = c->block[0] * c->block[1] * c->block[2];
    if (threads > CTA_THREADS || (uint64_t)c->grid[0] * c->grid[1] * c->grid[2] > INT32_MAX)
        return R_CUDA_ERROR_INVALID_VALUE;
    if (c->shared_bytes > function->max_dynamic_shared) return R_CUDA_ERROR_INVALID_VALUE;
    if (code->max_threads && threads > code->max_threads) return R_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    bool fits = grid_ctas_per_sm(threads, grid_registers(threads, function->kernel->registers),
                                 grid_shared(code->static_shared + c->shared_bytes)) > 0;
    return fits ? R_CUDA_SUCCESS : R_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}

/* What the kernel states and what the launch says must agree; a cluster of one where neither does. */
static cu_result settle_cluster(const struct ptx_function *code, struct wishes *wishes) {
    bool said = wishes->cluster[0] || wishes->cluster[1] || wishes->cluster[2], stated = code->reqcluster[0] != 0;
    wishes->explicit_cluster = said || stated;
    if (said && stated)
        return memcmp(wishes->cluster, code->reqcluster, sizeof wishes->cluster) ? R_CUDA_ERROR_INVALID_CLUSTER_SIZE
                                                                                 : R_CUDA_SUCCESS;
    if (said) return R_CUDA_SUCCESS;
    if (code->explicit_cluster && !stated) return R_CUDA_ERROR_INVALID_CLUSTER_SIZE;
    for (unsigned d = 0; d < 3; d++)
        wishes->cluster[d] = stated ? code->reqcluster[d] : 1;
    return R_CUDA_SUCCESS;
}

static cu_result check_cluster(const struct function *function, const cu_launch_config *c,
                               const struct wishes *wishes) {
    uint64_t ctas = (uint64_t)wishes->cluster[0] * wishes->cluster[1] * wishes->cluster[2];
    unsigned threads = c->block[0] * c->block[1] * c->block[2];
    unsigned room = grid_ctas_per_sm(threads, grid_registers(threads, function->kernel->registers),
                                     grid_shared(function->kernel->code->static_shared + c->shared_bytes)) *
                    (unsigned)function->device->world->options.sms;
    if (ctas < 1 || ctas > (function->non_portable_cluster ? CLUSTER_CTAS : CLUSTER_CTAS_PORTABLE) || ctas > room)
        return R_CUDA_ERROR_INVALID_CLUSTER_SIZE;
    for (unsigned d = 0; d < 3; d++)
        if (c->grid[d] % wishes->cluster[d]) return R_CUDA_ERROR_INVALID_VALUE;
    return R_CUDA_SUCCESS;
}

/* ---- parameters ------------------------------------------------------------------------------------ */
static bool read_extra(void **extra, const void **buffer, size_t *bytes) {
    for (unsigned i = 0; i < 8; i += 2) { /* each name at most once, and the end */
        switch ((uintptr_t)extra[i]) {
        case EXTRA_END:
            return *buffer != NULL;
        case EXTRA_BUFFER:
            *buffer = extra[i + 1];
            break;
        case EXTRA_BYTES:
            if (!extra[i + 1]) return false;
            memcpy(bytes, extra[i + 1], sizeof *bytes);
            break;
        default:
            return false;
        }
    }
    return false;
}

static cu_result copy_parameters(const struct ptx_function *code, void **parameters, void **extra, uint8_t *to) {
    if (parameters && extra) return R_CUDA_ERROR_INVALID_VALUE;
    if (extra) {
        const void *buffer = NULL;
        size_t bytes = 0;
        if (!read_extra(extra, &buffer, &bytes) || bytes != code->param_bytes) return R_CUDA_ERROR_INVALID_VALUE;
        memcpy(to, buffer, bytes);
        return R_CUDA_SUCCESS;
    }
    if (code->param_count && !parameters) return R_CUDA_ERROR_INVALID_VALUE;
    for (unsigned p = 0; p < code->param_count; p++) {
        if (!parameters[p]) return R_CUDA_ERROR_INVALID_VALUE;
        memcpy(to + code->params[p].offset, parameters[p], code->params[p].bytes);
    }
    return R_CUDA_SUCCESS;
}

/* ---- the launch ------------------------------------------------------------------------------------ */
static struct launch *make_launch(struct call *call, const struct function *function, const cu_launch_config *c,
                                  const struct wishes *wishes) {
    const struct kernel *kernel = function->kernel;
    struct launch *launch = calloc(1, sizeof *launch);
    if (!launch) return NULL;
    launch->grid.fn = kernel->code;
    launch->grid.device = function->device;
    launch->grid.dynamic_shared = c->shared_bytes;
    launch->grid.registers = kernel->registers_known ? kernel->registers : 0;
    launch->grid.id = ++call->world->grid_serial;
    launch->grid.variables = kernel->library->variables[function->device->ordinal];
    launch->grid.ctas_total = c->grid[0] * c->grid[1] * c->grid[2];
    launch->grid.params = calloc(1, kernel->code->param_bytes ? kernel->code->param_bytes : 1);
    memcpy(launch->grid.dim, c->grid, sizeof launch->grid.dim);
    memcpy(launch->grid.block, c->block, sizeof launch->grid.block);
    memcpy(launch->grid.cluster, wishes->cluster, sizeof launch->grid.cluster);
    launch->grid.explicit_cluster = wishes->explicit_cluster;
    launch->grid.world_data = launch;
    launch->threads = c->block[0] * c->block[1] * c->block[2];
    launch->warps = (launch->threads + WARP - 1) / WARP;
    launch->threads = launch->warps * WARP; /* an SM counts whole warps */
    launch->registers = grid_registers(launch->threads, kernel->registers);
    launch->shared = grid_shared(kernel->code->static_shared + c->shared_bytes);
    launch->cluster_ctas = wishes->cluster[0] * wishes->cluster[1] * wishes->cluster[2];
    launch->clusters = launch->grid.ctas_total / launch->cluster_ctas;
    launch->priority = wishes->priority;
    if (launch->grid.params) return launch;
    free(launch);
    return NULL;
}

static void enqueue(struct call *call, struct stream *stream, const struct wishes *wishes, struct launch *launch) {
    struct op *op = stream_op(stream, OP_KERNEL);
    if (!op) {
        grid_free(launch);
        call->result = R_CUDA_ERROR_OUT_OF_MEMORY;
        return;
    }
    op->launch = launch;
    op->programmatic = wishes->programmatic;
    launch->op = op;
    order_enqueue(call->world, launch);
    call->world->counters.launches++;
    call->world->counters.pdl_launches += wishes->programmatic;
}

static void launch_on(struct call *call, struct stream *stream, const struct function *function,
                      const cu_launch_config *c, void **parameters, void **extra) {
    struct wishes wishes = {.priority = stream->priority};
    for (unsigned i = 0; i < c->attribute_count && !call->result; i++)
        call->result = c->attributes ? read_attribute(&c->attributes[i], &wishes) : R_CUDA_ERROR_INVALID_VALUE;
    if (!call->result) call->result = check_shape(function, c);
    if (!call->result) call->result = settle_cluster(function->kernel->code, &wishes);
    if (!call->result) call->result = check_cluster(function, c, &wishes);
    if (call->result) return;
    struct launch *launch = make_launch(call, function, c, &wishes);
    if (!launch) {
        call->result = R_CUDA_ERROR_OUT_OF_MEMORY;
        return;
    }
    call->result = copy_parameters(launch->grid.fn, parameters, extra, launch->grid.params);
    enum taking takes = call->result ? TAKES_NOTHING : capture_takes(call, stream);
    if (takes == TAKES_NOTHING)
        grid_free(launch);
    else if (takes == TAKES_NODES)
        capture_kernel(call, stream, launch, function->kernel->library, wishes.programmatic);
    else
        enqueue(call, stream, &wishes, launch);
}

cu_result cpu_launch(const cu_launch_config *config, cu_function handle, void **parameters, void **extra) {
    struct call call;
    if (!call_begin(&call, NEEDS_CONTEXT)) return call_end(&call);
    const struct function *function = function_of(&call, handle);
    struct stream *stream = function && config ? stream_of(&call, config->stream) : NULL;
    if (function && !config) call.result = R_CUDA_ERROR_INVALID_VALUE;
    if (!stream) return call_end(&call);
    if (stream->device != function->device)
        call.result = R_CUDA_ERROR_INVALID_HANDLE; /* of another context */
    else if (!library_load_variables(call.world, function->kernel->library, function->device))
        call.result = R_CUDA_ERROR_OUT_OF_MEMORY;
    else
        launch_on(&call, stream, function, config, parameters, extra);
    return call_end(&call);
}

cu_result cpu_launch_plain(cu_function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                           unsigned bz, unsigned shared_bytes, cu_stream stream, void **parameters, void **extra) {
    cu_launch_config config = {
        .grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared_bytes = shared_bytes, .stream = stream};
    return cpu_launch(&config, function, parameters, extra);
}
