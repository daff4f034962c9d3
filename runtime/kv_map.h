/* kv_map.h - tensor maps of the KV cache (maps.def). Pure: the driver's encoder, no device, no allocation. */
#ifndef DCPK_RUNTIME_KV_MAP_H
#define DCPK_RUNTIME_KV_MAP_H

#include "runtime/kernel.h"

/* Row of maps.def, -1: none. */
int dcpk_kv_map_find(const char *name);

/* The map for a launch with these arguments, in the device's context: the driver wants one current, though it touches
 * no device. cluster_x: CTAs of a cluster in x. */
dcpk_status dcpk_kv_map_make(const dcpk_kernel *kernel, const struct kernel_entry *entry, int which,
                             const dcpk_args *args, cu_tensor_map *map, dcpk_error *error);

#endif
