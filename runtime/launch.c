/* launch.c - launches a loaded entry: parameters, attributes, one driver call.
 * Must not allocate, lock, read the environment or touch files. On the way it may ask which context is current and
 * what the stream captures; the first launch into a capture also ties kernel and box to the graph. */
#include "runtime/box_state.h"
#include "runtime/error.h"
#include "runtime/kernel.h"
#include "runtime/kv_map.h"

#include <stdio.h>
#include <string.h>

enum { ATTRIBUTES_MAX = 2 };

struct attributes {
    cu_launch_attribute list[ATTRIBUTES_MAX];
    unsigned count;
};

bool dcpk_kernel_overlaps(const dcpk_kernel *kernel, const struct kernel_entry *entry, const dcpk_box *box,
                          uint32_t flags) {
    if (!kernel->device->pdl || !entry->info.waits) return false;
    if (flags & (DCPK_LAUNCH_NO_PDL | DCPK_LAUNCH_FRESH_WEIGHTS)) return false;
    if ((flags & DCPK_LAUNCH_FIRST) && !(flags & DCPK_LAUNCH_CHAIN_WAITS)) return false;
    return box == NULL || !box->shape.event_ordered;
}

static void add_attributes(struct attributes *attributes, const struct kernel_entry *entry, bool pdl) {
    memset(attributes, 0, sizeof *attributes);
    const uint32_t *cluster = entry->info.cluster;
    if (cluster[0] * cluster[1] * cluster[2] > 1) {
        cu_launch_attribute *attribute = &attributes->list[attributes->count++];
        attribute->id = DRIVER_LAUNCH_CLUSTER;
        attribute->value.cluster.x = cluster[0];
        attribute->value.cluster.y = cluster[1];
        attribute->value.cluster.z = cluster[2];
    }
    if (pdl) {
        cu_launch_attribute *attribute = &attributes->list[attributes->count++];
        attribute->id = DRIVER_LAUNCH_PDL;
        attribute->value.pdl = 1;
    }
}

static dcpk_status launch_failed(const dcpk_kernel *kernel, const struct kernel_entry *entry,
                                 const struct attributes *attributes, cu_result result, dcpk_error *error) {
    const dcpk_entry_info *info = &entry->info;
    dcpk_status status =
        FAILED(&kernel->device->driver, launch, result, error, "%s (%s, grid %ux%ux%u, block %ux%ux%u)", kernel->text,
               info->name, info->grid[0], info->grid[1], info->grid[2], info->block[0], info->block[1], info->block[2]);
    for (unsigned i = 0; i < attributes->count; i++) {
        if (attributes->list[i].id == DRIVER_LAUNCH_CLUSTER)
            dcpk_error_append(error, "; launch attribute cluster dimension %ux%ux%u", info->cluster[0],
                              info->cluster[1], info->cluster[2]);
        else
            dcpk_error_append(error, "; launch attribute programmatic stream serialization (DCPK_PDL=0 leaves it out)");
    }
    return status;
}

static dcpk_status submit(const dcpk_kernel *kernel, const struct kernel_entry *entry, void **params,
                          const dcpk_box *box, void *stream, uint32_t flags, dcpk_error *error) {
    struct attributes attributes;
    add_attributes(&attributes, entry, dcpk_kernel_overlaps(kernel, entry, box, flags));
    cu_launch_config config = {.shared_bytes = entry->info.dynamic_shared,
                               .stream = stream,
                               .attributes = attributes.count > 0 ? attributes.list : NULL,
                               .attribute_count = attributes.count};
    memcpy(config.grid, entry->info.grid, sizeof config.grid);
    memcpy(config.block, entry->info.block, sizeof config.block);
    cu_result result = CALL(&kernel->device->driver, launch, (&config, entry->function, params, NULL));
    return result == DRIVER_OK ? DCPK_OK : launch_failed(kernel, entry, &attributes, result, error);
}

/* Uses launched eagerly: dcpk_box_destroy compares them with the device's counter. */
static void count_use(const struct kernel_entry *entry, dcpk_box *box) {
    if (entry->opens) atomic_fetch_add_explicit(&box->opened, 1, memory_order_relaxed);
    if (entry->closes) atomic_fetch_add_explicit(&box->closed, 1, memory_order_relaxed);
}

/* The parameters that are tensor maps, in maps[KERNEL_MAPS]; args NULL: the caller has made them. */
static dcpk_status make_maps(const dcpk_kernel *kernel, const struct kernel_entry *entry, const dcpk_args *args,
                             void **params, cu_tensor_map *maps, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    uint32_t made = 0;
    for (uint32_t i = 0; args != NULL && status == DCPK_OK && i < entry->info.param_count; i++) {
        if (entry->params[i].source != PARAM_MAP) continue;
        status = dcpk_kv_map_make(kernel, entry, (int)entry->params[i].offset, args, &maps[made], error);
        params[i] = &maps[made++];
    }
    return status;
}

static dcpk_status in_context(const dcpk_kernel *kernel, const struct kernel_entry *entry, const dcpk_args *args,
                              void **params, cu_tensor_map *maps, dcpk_box *box, void *stream, uint32_t flags,
                              dcpk_error *error) {
    const dcpk_device *device = kernel->device;
    struct capture capture;
    bool pushed;
    dcpk_status status = dcpk_device_enter(device, &pushed, error);
    if (status != DCPK_OK) return status;
    dcpk_capture_of(&device->driver, stream, &capture);
    status = dcpk_share_owns(device, stream, kernel->text, error);
    if (status == DCPK_OK && capture.active) {
        status = dcpk_hold_take(kernel->hold, &device->driver, &capture, kernel->text, error);
        if (status == DCPK_OK && box != NULL)
            status = dcpk_hold_take(box->hold, &device->driver, &capture, "box", error);
    }
    if (status == DCPK_OK) status = make_maps(kernel, entry, args, params, maps, error);
    if (status == DCPK_OK) status = submit(kernel, entry, params, box, stream, flags, error);
    if (status == DCPK_OK && box != NULL && entry->needs_box && !capture.active) count_use(entry, box);
    dcpk_device_leave(device, pushed);
    return status;
}

dcpk_status dcpk_kernel_go(const dcpk_kernel *kernel, uint32_t index, const dcpk_args *args, dcpk_box *box,
                           void *stream, uint32_t flags, dcpk_error *error) {
    const struct kernel_entry *entry = &kernel->entries[index];
    uint32_t chain_waits = (flags & DCPK_LAUNCH_CHAIN_WAITS) != 0;
    uint64_t rows = args != NULL && args->rows != 0 ? args->rows : box != NULL ? box->base + box->layout.rows : 0;
    uint64_t lse = args != NULL && args->rows_lse != 0 ? args->rows_lse
                   : box != NULL                       ? box->base + box->layout.rows_lse
                                                       : 0;
    void *params[DCPK_IMAGE_MAX_PARAMS]; /* the driver reads through them only */
    cu_tensor_map maps[KERNEL_MAPS];
    for (uint32_t i = 0; i < entry->info.param_count; i++) {
        const struct kernel_param *param = &entry->params[i];
        if (param->source == PARAM_CHAIN)
            params[i] = &chain_waits;
        else if (param->source == PARAM_MAP)
            params[i] = NULL; /* made in the device's context */
        else if (param->source == PARAM_BOX)
            params[i] = (char *)&box->values + param->offset;
        else if (param->rule == RULE_ROWS)
            params[i] = &rows;
        else if (param->rule == RULE_LSE)
            params[i] = &lse;
        else
            params[i] = (void *)((uintptr_t)args + param->offset);
    }
    return in_context(kernel, entry, args, params, maps, box, stream, flags, error);
}

dcpk_status dcpk_kernel_launch(const dcpk_kernel *kernel, uint32_t entry, const dcpk_args *args, dcpk_box *box,
                               void *stream, uint32_t flags, dcpk_error *error) {
    dcpk_status status = dcpk_kernel_check(kernel, entry, args, box, flags, error);
    return status == DCPK_OK ? dcpk_kernel_go(kernel, entry, args, box, stream, flags, error) : status;
}

dcpk_status dcpk_kernel_launch_raw(const dcpk_kernel *kernel, uint32_t index, void *const *params, void *stream,
                                   uint32_t flags, dcpk_error *error) {
    if (kernel == NULL) return dcpk_error_set(error, DCPK_E_ARG, "launch: kernel is NULL");
    if (index >= kernel->entry_count)
        return dcpk_error_set(error, DCPK_E_ARG, "%s: entry %u: it has %u", kernel->text, index, kernel->entry_count);
    const struct kernel_entry *entry = &kernel->entries[index];
    if (entry->needs_box && !entry->raw_only)
        return dcpk_error_set(error, DCPK_E_ARG,
                              "%s (%s): its parameters are a box's and args.def's: dcpk_kernel_launch fills them, and "
                              "refuses a dead box",
                              kernel->text, entry->info.name);
    void *pointers[DCPK_IMAGE_MAX_PARAMS];
    for (uint32_t i = 0; i < entry->info.param_count; i++) {
        if (params == NULL || params[i] == NULL)
            return dcpk_error_set(error, DCPK_E_ARG, "%s (%s): parameter %u, %s, is NULL", kernel->text,
                                  entry->info.name, i, entry->info.params[i].name);
        pointers[i] = params[i];
    }
    return in_context(kernel, entry, NULL, pointers, NULL, NULL, stream, flags, error);
}
