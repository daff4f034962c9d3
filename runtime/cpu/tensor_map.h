/* tensor_map.h - the CPU device's own tensor map: what cuTensorMapEncodeTiled writes and cp.async.bulk.tensor reads.
 * 128 bytes as on hardware, opaque to everybody else. The check tells a map from other bytes. */
#ifndef DCPK_CPU_TENSOR_MAP_H
#define DCPK_CPU_TENSOR_MAP_H

#include <stdint.h>

enum { TENSOR_MAP_BYTES = 128, TENSOR_MAP_ALIGN = 64, TENSOR_RANK_MOST = 5 };

struct tensor_map {
    uint64_t base;                        /* global address of the first element */
    uint64_t dim[TENSOR_RANK_MOST];       /* elements */
    uint64_t pitch[TENSOR_RANK_MOST - 1]; /* bytes from one to the next of dimensions 1, 2, ... */
    uint16_t box[TENSOR_RANK_MOST];       /* coordinates that the box spans */
    uint8_t step[TENSOR_RANK_MOST];       /* from one of its elements to the next */
    uint8_t rank, element;                /* element: bytes */
    uint8_t swizzle;                      /* 0 none, else bits of the pattern: 32, 64, 128 bytes are 1, 2, 3 */
    uint8_t spare[22];
    uint64_t check; /* tensor_map_check of the rest */
};
_Static_assert(sizeof(struct tensor_map) == TENSOR_MAP_BYTES, "as large as the driver's");

static inline uint64_t tensor_map_check(const struct tensor_map *map) {
    const unsigned char *at = (const unsigned char *)map;
    uint64_t sum = UINT64_C(0xCBF29CE484222325);
    for (unsigned i = 0; i < sizeof *map - sizeof map->check; i++)
        sum = (sum ^ at[i]) * UINT64_C(0x100000001B3);
    return sum;
}

#endif
