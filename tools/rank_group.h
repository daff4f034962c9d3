/* rank_group.h - D ranks of one process: a device and a stream each, and the connected boxes between them.
 * Uses include/dcpk only. On the CPU device the whole machine is configured anew: one group at a time. */
#ifndef TOOLS_RANK_GROUP_H
#define TOOLS_RANK_GROUP_H

#include <dcpk/box.h>
#include <dcpk/cpu.h>
#include <stdbool.h>

enum { GROUP_MAX_RANKS = 32 };

struct rank_group_options {
    const char *device, *library; /* as dcpk_device_options.kind and .library */
    const dcpkcpu_options *cpu;   /* how to configure the CPU device; devices is raised to dcp. NULL: fair */
    int32_t dcp;
    int32_t multicast;       /* as dcpk_device_options.multicast */
    int32_t allow_unwatched; /* images of watchdog=0 may be loaded */
    int32_t pdl;             /* as dcpk_device_options.pdl */
    int32_t shared; /* 1: on hardware with fewer devices than ranks, rank r takes device r % count (spec.md decision 16:
                       only for the event-ordered form). 0: that is refused */
    int32_t shares; /* 1: on hardware with fewer devices than ranks, rank r takes share r / count of device r % count, a
                       green context of its own. The CPU device refuses: it has a device for each rank */
};

struct rank_group {
    int32_t dcp;
    bool cpu; /* the driver is the CPU device */
    struct group_rank {
        dcpk_device *device;
        void *stream;
        dcpk_box *box; /* NULL before rank_group_connect and with dcp = 1 */
    } rank[GROUP_MAX_RANKS];
};

/* *group is filled as far as it came, also on failure: rank_group_close frees it either way. */
dcpk_status rank_group_open(const struct rank_group_options *options, struct rank_group *group, dcpk_error *error);
/* Boxes of this shape on every rank, connected and armed. */
dcpk_status rank_group_connect(struct rank_group *group, const dcpk_box_shape *shape, dcpk_error *error);
void rank_group_close(struct rank_group *group);
dcpk_status rank_group_sync(const struct rank_group *group, dcpk_error *error);

/* A function of cpu.h by name, NULL on hardware. */
void *rank_group_cpu_symbol(const struct rank_group *group, const char *name);
/* Flips a bit of one byte of the rank's device memory. */
dcpk_status rank_group_flip(const struct rank_group *group, int32_t rank, uint64_t address, int bit, dcpk_error *error);

#endif
