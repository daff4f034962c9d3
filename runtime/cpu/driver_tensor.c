/* driver_tensor.c - cuTensorMapEncodeTiled: checks the arguments by the driver's rules and writes the CPU device's own
 * tensor map (tensor_map.h). What the driver allows and this device has not (interleave, packed and rounding types,
 * swizzles of newer parts, NaN fill) is NOT_SUPPORTED. The report says which rule was broken. Touches no memory but the
 * map: whether the addresses are there is asked when a kernel copies. */
#include "runtime/cpu/driver.h"
#include "runtime/cpu/tensor_map.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SWIZZLES = 4, SWIZZLES_ALL = 7, INTERLEAVES = 3, PROMOTIONS = 4, FILLS = 2, BOX_MOST = 256, STEP_MOST = 8 };
#define DIM_MOST (UINT64_C(1) << 32)
#define STRIDE_MOST (UINT64_C(1) << 40)

/* Bytes of CUtensorMapDataType 0, 1, ...; 0: not supported here. */
static const uint8_t element_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 0, 0, 0, 0, 0, 0};

struct wanted { /* the arguments */
    unsigned type, rank;
    uint64_t address;
    const unsigned long long *dims, *strides;
    const unsigned *box, *steps;
    int interleave, swizzle, promotion, fill;
};

static cu_result refuse(struct call *call, cu_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static cu_result refuse(struct call *call, cu_result result, const char *format, ...) {
    va_list list;
    size_t used = (size_t)snprintf(call->world->report, sizeof call->world->report, "cuTensorMapEncodeTiled: ");
    va_start(list, format);
    vsnprintf(call->world->report + used, sizeof call->world->report - used, format, list);
    va_end(list);
    return result;
}
#define INVALID(...) return refuse(call, R_CUDA_ERROR_INVALID_VALUE, __VA_ARGS__)
#define MISSING(...) return refuse(call, R_CUDA_ERROR_NOT_SUPPORTED, __VA_ARGS__)

static cu_result check_kinds(struct call *call, const struct wanted *w) {
    if (w->type >= sizeof element_bytes) INVALID("data type %u does not exist", w->type);
    if (w->interleave < 0 || w->interleave >= INTERLEAVES) INVALID("interleave %d does not exist", w->interleave);
    if (w->swizzle < 0 || w->swizzle >= SWIZZLES_ALL) INVALID("swizzle %d does not exist", w->swizzle);
    if (w->promotion < 0 || w->promotion >= PROMOTIONS) INVALID("L2 promotion %d does not exist", w->promotion);
    if (w->fill < 0 || w->fill >= FILLS) INVALID("out-of-bound fill %d does not exist", w->fill);
    if (w->rank < 1 || w->rank > TENSOR_RANK_MOST) INVALID("rank %u: 1 to %d", w->rank, TENSOR_RANK_MOST);
    if (w->interleave && w->rank < 3) INVALID("rank %u: interleaved layouts have at least 3 dimensions", w->rank);
    if (w->interleave) MISSING("interleave %d is not supported by the CPU device: NONE is", w->interleave);
    if (!element_bytes[w->type])
        MISSING("data type %u is not supported by the CPU device: the plain types 0 to 9 are", w->type);
    if (w->swizzle >= SWIZZLES) MISSING("swizzle %d is not supported by the CPU device: 0 to 3 are", w->swizzle);
    if (w->fill) MISSING("out-of-bound fill with NaN is not supported by the CPU device: zeroes are");
    return R_CUDA_SUCCESS;
}

static cu_result check_dimensions(struct call *call, const struct wanted *w) {
    if (w->address % 16) INVALID("globalAddress 0x%" PRIx64 " is not aligned to 16 bytes", w->address);
    for (unsigned d = 0; d < w->rank; d++) {
        if (w->dims[d] < 1 || w->dims[d] > DIM_MOST) INVALID("globalDim[%u] = %llu: 1 to 2^32", d, w->dims[d]);
        if (w->box[d] < 1 || w->box[d] > BOX_MOST) INVALID("boxDim[%u] = %u: 1 to %d", d, w->box[d], BOX_MOST);
        if (w->steps[d] < 1 || w->steps[d] > STEP_MOST)
            INVALID("elementStrides[%u] = %u: 1 to %d", d, w->steps[d], STEP_MOST);
        if (d == 0) continue;
        unsigned long long stride = w->strides[d - 1];
        if (stride % 16 || stride >= STRIDE_MOST || stride == 0)
            INVALID("globalStrides[%u] = %llu: a multiple of 16 bytes above 0 and below 2^40", d - 1, stride);
    }
    unsigned row = w->box[0] * element_bytes[w->type], span = 16u << w->swizzle;
    if (row % 16) INVALID("the box's inner dimension has %u bytes: a multiple of 16", row);
    if (w->swizzle && row > span)
        INVALID("the box's inner dimension has %u bytes: at most the %u of the swizzle", row, span);
    return R_CUDA_SUCCESS;
}

static void fill_map(const struct wanted *w, struct tensor_map *map) {
    *map = (struct tensor_map){.base = w->address,
                               .rank = (uint8_t)w->rank,
                               .element = element_bytes[w->type],
                               .swizzle = (uint8_t)w->swizzle};
    for (unsigned d = 0; d < w->rank; d++) {
        map->dim[d] = w->dims[d];
        map->box[d] = (uint16_t)w->box[d];
        map->step[d] = (uint8_t)w->steps[d];
        if (d) map->pitch[d - 1] = w->strides[d - 1];
    }
    map->check = tensor_map_check(map);
}

static cu_result encode(struct call *call, void *to, const struct wanted *w) {
    if (!to || !w->dims || (!w->strides && w->rank > 1) || !w->box || !w->steps) INVALID("an argument is NULL");
    if ((uintptr_t)to % TENSOR_MAP_ALIGN) INVALID("tensorMap is not aligned to %d bytes", TENSOR_MAP_ALIGN);
    cu_result result = check_kinds(call, w);
    if (!result) result = check_dimensions(call, w);
    if (result) return result;
    struct tensor_map map;
    fill_map(w, &map);
    memcpy(to, &map, sizeof map);
    return R_CUDA_SUCCESS;
}

cu_result cpu_tensor_map(cu_tensor_map *map, int type, unsigned rank, void *address, const unsigned long long *dims,
                         const unsigned long long *strides, const unsigned *box, const unsigned *steps, int interleave,
                         int swizzle, int promotion, int fill) {
    struct call call;
    struct wanted wanted = {.type = (unsigned)type,
                            .rank = rank,
                            .address = (uint64_t)(uintptr_t)address,
                            .dims = dims,
                            .strides = strides,
                            .box = box,
                            .steps = steps,
                            .interleave = interleave,
                            .swizzle = swizzle,
                            .promotion = promotion,
                            .fill = fill};
    if (call_begin(&call, NEEDS_CONTEXT)) call.result = encode(&call, map, &wanted);
    return call_end(&call);
}
