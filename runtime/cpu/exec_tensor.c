/* exec_tensor.c - tensor maps as kernels use them: found by a generic address, read, made into boxes.
 * A map is read when the copy begins: it may lie in parameters, constant or global memory. */
#include <string.h>
#include <runtime/cpu/exec_tensor.h>
#include <runtime/cpu/tensor_map.h>

static bool read_map(struct exec *x, u32 lane, u64 address, struct tensor_map *map) {
    u64 at = address;
    enum space space = space_of(&at);
    x->fault_lane = lane;
    if (address % TENSOR_MAP_ALIGN) {
        exec_fault(x, lane, FAULT_MISALIGNED, "the tensor map's address 0x%llx is not aligned to %d bytes",
                   (unsigned long long)address, TENSOR_MAP_ALIGN);
        return false;
    }
    if (space == SPACE_GLOBAL) {
        if (!world_load(x->world, x->warp, thread_of(x, lane), at, map, sizeof *map, ORDER_WEAK, SCOPE_NONE, x->fault))
            return false;
    } else if (space == SPACE_PARAM) {
        const struct grid *grid = x->warp->cta->grid;
        if (at + sizeof *map > grid->fn->param_bytes) {
            exec_fault(x, lane, FAULT_ILLEGAL_ADDRESS, "a tensor map at parameter address 0x%llx: there are %u bytes",
                       (unsigned long long)at, grid->fn->param_bytes);
            return false;
        }
        memcpy(map, grid->params + at, sizeof *map);
    } else {
        exec_fault(x, lane, FAULT_ADDRESS_SPACE,
                   "a tensor map lies in parameters, constant or global memory; generic address 0x%llx does not",
                   (unsigned long long)address);
        return false;
    }
    if (map->check == tensor_map_check(map)) return true;
    exec_fault(x, lane, FAULT_ILLEGAL_INSTRUCTION,
               "there is no tensor map at 0x%llx: cuTensorMapEncodeTiled has not written these 128 bytes",
               (unsigned long long)address);
    return false;
}

bool tensor_is_map(struct exec *x, u32 lane, u64 address) {
    struct tensor_map map;
    return read_map(x, lane, address, &map);
}

bool tensor_box(struct exec *x, u32 lane, u64 address, unsigned rank, const s32 *at, struct box *box) {
    struct tensor_map map;
    if (!read_map(x, lane, address, &map)) return false;
    if (map.rank != rank) {
        exec_fault(x, lane, FAULT_ILLEGAL_INSTRUCTION, "the tensor map has %u dimensions, the instruction %u", map.rank,
                   rank);
        return false;
    }
    *box = (struct box){.base = map.base, .rank = map.rank, .swizzle = map.swizzle, .element = map.element, .rows = 1};
    for (unsigned d = 0; d < rank; d++) {
        box->at[d] = at[d];
        box->step[d] = d ? map.step[d] : 1;
        box->size[d] = (map.box[d] + box->step[d] - 1) / box->step[d];
        box->dim[d] = map.dim[d];
        box->pitch[d] = d ? map.pitch[d - 1] : map.element;
        if (d) box->rows *= box->size[d];
    }
    box->row_bytes = box->size[0] * map.element;
    if ((u64)box->rows * box->row_bytes > UINT32_MAX / 2) {
        exec_fault(x, lane, FAULT_ILLEGAL_ADDRESS, "a box of %u rows of %u bytes is larger than any shared memory",
                   box->rows, box->row_bytes);
        return false;
    }
    box->bytes = box->rows * box->row_bytes;
    return true;
}
