/* kv_map.c - the tensor maps that mla_decode's form for sm_90a copies the KV cache with. Called at every launch: no
 * allocation, no lock; the driver's encoder touches no device. */
#include "runtime/kv_map.h"

#include "runtime/error.h"

#include <string.h>

enum { LATENT, ROPE, MAPS };
enum { UINT8 = 0, PLAIN = 0, FILL_ZEROS = 0 }; /* CUtensorMapDataType, -Interleave, -FloatOOBfill */
enum { ROW = 576, LATENT_BYTES = 512, SUBTILE = 128, WHOLE = 64, RANK_MAX = 4 };
static const unsigned long long PAGES = 1ULL << 31; /* more than any page id: the table's entries are trusted */

static const char *const names[MAPS] = {
#define M(name, doc) #name,
#include <dcpk/maps.def>
#undef M
};

int dcpk_kv_map_find(const char *name) {
    for (int i = 0; i < MAPS; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

struct plan {
    unsigned rank;
    uint64_t base;
    int swizzle;
    unsigned long long dims[RANK_MAX], strides[RANK_MAX - 1];
    unsigned box[RANK_MAX];
};

/* page=64: subtiles are the outermost dimension, so that one copy takes a whole tile. */
static struct plan latent_plan(const dcpk_args *args, unsigned page, unsigned share) {
    if (page == WHOLE)
        return (struct plan){4,
                             args->kv_cache,
                             DRIVER_SWIZZLE_128,
                             {SUBTILE, WHOLE, PAGES, LATENT_BYTES / SUBTILE},
                             {ROW, args->page_stride, SUBTILE},
                             {SUBTILE, WHOLE, 1, LATENT_BYTES / SUBTILE / share}};
    return (struct plan){3,
                         args->kv_cache,
                         DRIVER_SWIZZLE_128,
                         {LATENT_BYTES, page, PAGES},
                         {ROW, args->page_stride},
                         {SUBTILE, page, 1}};
}

static struct plan rope_plan(const dcpk_args *args, unsigned page, unsigned share) {
    return (struct plan){3,
                         args->kv_cache + LATENT_BYTES,
                         DRIVER_SWIZZLE_64,
                         {ROW - LATENT_BYTES, page, PAGES},
                         {ROW, args->page_stride},
                         {ROW - LATENT_BYTES, page == WHOLE ? WHOLE / share : page, 1}};
}

dcpk_status dcpk_kv_map_make(const dcpk_kernel *kernel, const struct kernel_entry *entry, int which,
                             const dcpk_args *args, cu_tensor_map *map, dcpk_error *error) {
    static const unsigned steps[RANK_MAX] = {1, 1, 1, 1};
    const struct dcpk_driver *driver = &kernel->device->driver;
    unsigned page = (unsigned)kernel->spec.page, share = entry->info.cluster[0];
    struct plan plan = which == LATENT ? latent_plan(args, page, share) : rope_plan(args, page, share);
    cu_result result = CALL(driver, tensor_map,
                            (map, UINT8, plan.rank, (void *)(uintptr_t)plan.base, plan.dims, plan.strides, plan.box,
                             steps, PLAIN, plan.swizzle, DRIVER_PROMOTION_128, FILL_ZEROS));
    if (result == DRIVER_OK) return DCPK_OK;
    return FAILED(driver, tensor_map, result, error, "%s (%s): %s, kv_cache 0x%llx, page_stride %llu", kernel->text,
                  entry->info.name, names[which], (unsigned long long)args->kv_cache,
                  (unsigned long long)args->page_stride);
}
