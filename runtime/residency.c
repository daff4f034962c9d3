/* residency.c - whether this device holds a polling grid as a whole, asked of the driver at load time, and the spec
 * that fits when it does not. Nothing is decided at launch. Context current. */
#include "runtime/error.h"
#include "runtime/kernel.h"

#include <string.h>

/* Clusters that surely fit: the driver's own count of clusters is the whole device's, but of a share it promises that
 * `unit` multiprocessors at a time sit together. */
static uint64_t clusters_of_share(int unit, int ctas, int sms, uint32_t cluster) {
    return (uint64_t)(sms / unit) * ((uint64_t)unit * (uint64_t)ctas / cluster);
}

/* Of the `count` clusters that the driver counts on all multiprocessors, those beside reserved ones: these take their
 * share of them, and what is left holds no more CTAs than before. */
static uint64_t clusters_beside(int count, int sms, int reserve, uint32_t cluster) {
    uint64_t all = (uint64_t)count, total = (uint64_t)sms, free = total - (uint64_t)reserve;
    uint64_t share = all - all * (uint64_t)reserve / total, each = (all * cluster + total - 1) / total;
    return share * cluster <= each * free ? share : each * free / cluster;
}

/* CTAs of the entry that fit one multiprocessor, or clusters that fit the device. */
static dcpk_status capacity(const dcpk_kernel *kernel, const struct kernel_entry *entry, uint64_t *ctas,
                            dcpk_error *error) {
    const struct dcpk_driver *driver = &kernel->device->driver;
    const dcpk_entry_info *info = &entry->info;
    uint32_t cluster = info->cluster[0] * info->cluster[1] * info->cluster[2];
    int count = 0, sms = kernel->device->info.sms;
    int reserve = kernel->spec.reserve > 0 ? kernel->spec.reserve : 0;
    *ctas = 0;
    if (cluster <= 1 || kernel->device->green != NULL) {
        int threads = (int)(info->block[0] * info->block[1] * info->block[2]);
        cu_result result = CALL(driver, occupancy, (&count, entry->function, threads, info->dynamic_shared));
        if (result != DRIVER_OK) return FAILED(driver, occupancy, result, error, "%s (%s)", kernel->text, info->name);
        if (count <= 0 || sms <= reserve) return DCPK_OK;
        *ctas = (uint64_t)count * (uint64_t)(sms - reserve);
        if (cluster > 1) *ctas = clusters_of_share(kernel->device->unit, count, sms - reserve, cluster) * cluster;
        return DCPK_OK;
    }
    cu_launch_attribute attribute;
    memset(&attribute, 0, sizeof attribute);
    attribute.id = DRIVER_LAUNCH_CLUSTER;
    attribute.value.cluster.x = info->cluster[0];
    attribute.value.cluster.y = info->cluster[1];
    attribute.value.cluster.z = info->cluster[2];
    cu_launch_config config = {.shared_bytes = info->dynamic_shared, .attributes = &attribute, .attribute_count = 1};
    memcpy(config.grid, info->grid, sizeof config.grid);
    memcpy(config.block, info->block, sizeof config.block);
    cu_result result = CALL(driver, occupancy_clusters, (&count, entry->function, &config));
    if (result != DRIVER_OK)
        return FAILED(driver, occupancy_clusters, result, error, "%s (%s)", kernel->text, info->name);
    if (count > 0 && sms > reserve) *ctas = clusters_beside(count, sms, reserve, cluster) * cluster;
    return DCPK_OK;
}

/* The spec to use instead, canonical; "" when no key helps. */
static void advise(const dcpk_kernel *kernel, char *text, size_t capacity_bytes) {
    dcpk_spec spec = kernel->spec;
    text[0] = '\0';
    bool fewer = spec.sms > kernel->device->info.sms && kernel->device->info.sms > spec.reserve;
    if (kernel->id == DCPK_KERNEL_dcp_value)
        spec.split = 1;
    else if (kernel->id == DCPK_KERNEL_mla_query)
        spec.poll = 0;
    else if (!fewer)
        return;
    if (fewer) spec.sms = kernel->device->info.sms;
    if (dcpk_spec_resolve(&spec, NULL) == DCPK_OK) dcpk_spec_format(&spec, text, capacity_bytes);
}

dcpk_status dcpk_kernel_fits(const dcpk_kernel *kernel, const struct kernel_entry *entry, dcpk_error *error) {
    if (!entry->info.resident) return DCPK_OK;
    uint64_t room, ctas = (uint64_t)entry->info.grid[0] * entry->info.grid[1] * entry->info.grid[2];
    dcpk_status status = capacity(kernel, entry, &room, error);
    if (status != DCPK_OK || ctas <= room) return status;
    char label[DEVICE_LABEL];
    status = dcpk_error_set(error, DCPK_E_RESIDENCY,
                            "%s (%s): its grid of %llu CTAs polls for its own kind and must be resident as a whole; "
                            "%s (%d multiprocessors, %d reserved) holds %llu",
                            kernel->text, entry->info.name, (unsigned long long)ctas,
                            dcpk_device_label(kernel->device, label), kernel->device->info.sms,
                            kernel->spec.reserve > 0 ? kernel->spec.reserve : 0, (unsigned long long)room);
    char advice[512];
    advise(kernel, advice, sizeof advice);
    if (advice[0] == '\0')
        dcpk_error_append(error, ": use a smaller grid");
    else
        dcpk_error_append(error, ": use %s%s", advice,
                          kernel->id == DCPK_KERNEL_mla_query ? " followed by query_wait" : "");
    return status;
}
