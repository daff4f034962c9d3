/* rank_group.c - see rank_group.h. May call: include/dcpk. Must not: know a kernel. */
#include <tools/rank_group.h>

#include <tools/tool_error.h>

#include <dlfcn.h>
#include <string.h>

static dcpk_status open_device(const struct rank_group_options *o, int32_t ordinal, int32_t share, int32_t shares,
                               dcpk_device **out, dcpk_error *error) {
    dcpk_device_options options = {.size = sizeof options,
                                   .kind = o->device,
                                   .library = o->library,
                                   .ordinal = ordinal,
                                   .pdl = o->pdl,
                                   .multicast = o->multicast,
                                   .allow_unwatched = o->allow_unwatched,
                                   .share_index = share,
                                   .share_count = shares};
    return dcpk_device_open(&options, out, error);
}

/* The CPU device gets as many devices as there are ranks before any is in use. Its library stays loaded from here on.
 */
static dcpk_status configure_cpu(const struct rank_group_options *o, struct rank_group *group, int32_t *count,
                                 dcpk_error *error) {
    dcpk_device *device = NULL;
    dcpk_device_info info = {.size = sizeof info};
    dcpkcpu_options options = {.size = sizeof options,
                               .sms = 132,
                               .major = 9,
                               .multicast = 1,
                               .schedule = DCPKCPU_FAIR,
                               .store_delay = 200,
                               .livelock_rounds = 200000};
    int (*configure)(const dcpkcpu_options *) = NULL;
    Dl_info where;
    dcpk_status status = open_device(o, 0, 0, 0, &device, error);
    if (status != DCPK_OK) {
        return status;
    }
    status = dcpk_device_get_info(device, &info, error);
    *count = info.count;
    group->cpu = status == DCPK_OK && strcmp(info.kind, "cpu") == 0;
    if (group->cpu) {
        void *symbol = dcpk_device_symbol(device, "dcpkcpu_configure");
        memcpy(&configure, &symbol, sizeof configure);
        if (!symbol || !dladdr(symbol, &where) || !dlopen(where.dli_fname, RTLD_NOW)) {
            status = tool_fail(error, DCPK_E_DRIVER, "the CPU device has no dcpkcpu_configure");
        }
    }
    dcpk_device_close(device);
    if (status == DCPK_OK && group->cpu && o->shares) {
        status = tool_fail(error, DCPK_E_ARG,
                           "shares are for several ranks on one GPU: the CPU device has a device for each rank "
                           "(DCPK_CPU_SMS says how large)");
    }
    if (status != DCPK_OK || !group->cpu) {
        return status;
    }
    if (o->cpu) {
        options = *o->cpu;
    }
    options.devices = options.devices > o->dcp ? options.devices : o->dcp;
    *count = options.devices;
    if (configure(&options) != 0) {
        return tool_fail(error, DCPK_E_ARG, "the CPU device refuses its configuration (%d devices)", options.devices);
    }
    return DCPK_OK;
}

static dcpk_status count_devices(const struct rank_group_options *o, const struct rank_group *group, int32_t *count,
                                 dcpk_error *error) {
    dcpk_device_info info = {.size = sizeof info};
    dcpk_status status = dcpk_device_get_info(group->rank[0].device, &info, error);
    *count = info.count;
    if (status == DCPK_OK && info.count < o->dcp && !o->shared && !o->shares) {
        status =
            tool_fail(error, DCPK_E_ARG,
                      "dcp=%d is %d ranks with a device each, and %s offers %d%s: name more devices "
                      "(%s:0,1,...), or choose a dcp of at most %d",
                      o->dcp, o->dcp, info.kind, info.count, o->device ? " as asked for" : "", info.kind, info.count);
    }
    return status;
}

/* Rank r's device. Shares: as many of each device as there are ranks on the first one. */
static dcpk_status open_rank(const struct rank_group_options *o, int32_t count, int32_t r, dcpk_device **out,
                             dcpk_error *error) {
    if (count < 1 || (!o->shared && !o->shares)) {
        return open_device(o, r, 0, 0, out, error);
    }
    int32_t shares = o->shares ? (o->dcp + count - 1) / count : 0;
    return open_device(o, r % count, shares > 1 ? r / count : 0, shares, out, error);
}

dcpk_status rank_group_open(const struct rank_group_options *options, struct rank_group *group, dcpk_error *error) {
    int32_t count = 1;
    memset(group, 0, sizeof *group);
    if (options->dcp < 1 || options->dcp > GROUP_MAX_RANKS) {
        return tool_fail(error, DCPK_E_ARG, "a group has 1 to %d ranks, not %d", GROUP_MAX_RANKS, options->dcp);
    }
    group->dcp = options->dcp;
    dcpk_status status = configure_cpu(options, group, &count, error);
    for (int32_t r = 0; r < group->dcp && status == DCPK_OK; r++) {
        struct group_rank *rank = &group->rank[r];
        status = open_rank(options, count, r, &rank->device, error);
        if (status == DCPK_OK) {
            status = dcpk_stream_create(rank->device, &rank->stream, error);
        }
        if (status == DCPK_OK && r == 0) {
            status = count_devices(options, group, &count, error);
        }
    }
    return status;
}

dcpk_status rank_group_connect(struct rank_group *group, const dcpk_box_shape *shape, dcpk_error *error) {
    dcpk_box *boxes[GROUP_MAX_RANKS];
    for (int32_t r = 0; r < group->dcp; r++) {
        dcpk_status status = dcpk_box_create(group->rank[r].device, shape, r, &group->rank[r].box, error);
        if (status != DCPK_OK) {
            return status;
        }
        boxes[r] = group->rank[r].box;
    }
    return dcpk_box_connect(boxes, group->dcp, error);
}

void rank_group_close(struct rank_group *group) {
    for (int32_t r = 0; r < group->dcp; r++) {
        dcpk_box_destroy(group->rank[r].box, NULL);
        group->rank[r].box = NULL;
    }
    for (int32_t r = 0; r < group->dcp; r++) {
        if (group->rank[r].stream) {
            dcpk_stream_destroy(group->rank[r].device, group->rank[r].stream, NULL);
        }
        if (group->rank[r].device) {
            dcpk_device_close(group->rank[r].device);
        }
        group->rank[r] = (struct group_rank){NULL, NULL, NULL};
    }
}

dcpk_status rank_group_sync(const struct rank_group *group, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (int32_t r = 0; r < group->dcp && status == DCPK_OK; r++) {
        status = dcpk_stream_sync(group->rank[r].device, group->rank[r].stream, error);
    }
    return status;
}

void *rank_group_cpu_symbol(const struct rank_group *group, const char *name) {
    return group->cpu ? dcpk_device_symbol(group->rank[0].device, name) : NULL;
}

dcpk_status rank_group_flip(const struct rank_group *group, int32_t rank, uint64_t address, int bit,
                            dcpk_error *error) {
    int (*flip)(uint64_t, int) = NULL;
    void *symbol = rank_group_cpu_symbol(group, "dcpkcpu_flip_bit");
    memcpy(&flip, &symbol, sizeof flip);
    if (flip) {
        return flip(address, bit) == 0
                   ? DCPK_OK
                   : tool_fail(error, DCPK_E_DRIVER, "dcpkcpu_flip_bit: nothing is allocated there");
    }
    uint8_t byte = 0;
    dcpk_device *device = group->rank[rank].device;
    dcpk_status status = dcpk_mem_read(device, &byte, address, 1, error);
    byte ^= (uint8_t)(1 << bit);
    return status == DCPK_OK ? dcpk_mem_write(device, address, &byte, 1, error) : status;
}
