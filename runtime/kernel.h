/* kernel.h - a loaded kernel: its functions and where each parameter comes from. Internal to the runtime.
 * Constant after loading, but for the capture hold. */
#ifndef DCPK_RUNTIME_KERNEL_H
#define DCPK_RUNTIME_KERNEL_H

#include "runtime/device.h"
#include "runtime/hold.h"

enum param_source {
    PARAM_UNKNOWN, /* named in neither table: dcpk_kernel_launch_raw alone can launch the entry */
    PARAM_ARG,     /* field of dcpk_args */
    PARAM_BOX,     /* field of struct box_values */
    PARAM_CHAIN,   /* chain_waits: from the launch flags */
    PARAM_MAP      /* a row of maps.def, made at each launch */
};

/* What an argument must hold before a launch: arg_rules.def. */
enum arg_rule {
    RULE_ADDRESS,
    RULE_ROWS,
    RULE_LSE,
    RULE_PITCH,
    RULE_NOT_NEGATIVE,
    RULE_PARITY,
    RULE_STRIDE,
    RULE_POSITIVE,
    RULE_COUNT
};

struct kernel_param {
    enum param_source source;
    enum arg_rule rule; /* PARAM_ARG only */
    uint32_t align;     /* RULE_ADDRESS, RULE_ROWS, RULE_LSE: of the address, bytes */
    uint32_t offset;    /* in dcpk_args or struct box_values; PARAM_MAP: the row of maps.def */
    uint32_t bytes;
    bool unused; /* the spec leaves it out (gate and pitch with gate=0): any value will do */
};

enum { KERNEL_MAPS = 2 };

struct kernel_entry {
    cu_function function;
    dcpk_entry_info info;
    struct kernel_param params[DCPK_IMAGE_MAX_PARAMS];
    bool needs_box;     /* has a parameter of box.def */
    bool raw_only;      /* has a parameter of no table */
    uint32_t maps;      /* parameters of maps.def, at most KERNEL_MAPS */
    bool opens, closes; /* a use of the box: the publisher; dcp_value, or its merge */
};

struct dcpk_kernel {
    dcpk_device *device;
    dcpk_image *image;
    cu_library library;
    dcpk_spec spec;
    int32_t id;         /* kernels.def, 0 for a template of the user's own */
    char text[512];     /* the canonical spec, for messages; ends in ... when cut */
    uint64_t workspace; /* bytes of args.workspace, 0: none */
    uint32_t entry_count;
    struct kernel_entry entries[DCPK_IMAGE_MAX_ENTRIES];
    struct capture_hold *hold;
};

/* Fills entry->params from the entry's names and the spec. */
dcpk_status dcpk_kernel_bind(const dcpk_kernel *kernel, struct kernel_entry *entry, dcpk_error *error);

/* Everything a launch refuses before it calls the driver: flags, arguments, box. Launches nothing. */
dcpk_status dcpk_kernel_check(const dcpk_kernel *kernel, uint32_t entry, const dcpk_args *args, const dcpk_box *box,
                              uint32_t flags, dcpk_error *error);
/* The launch of an entry whose arguments dcpk_kernel_check has passed. */
dcpk_status dcpk_kernel_go(const dcpk_kernel *kernel, uint32_t entry, const dcpk_args *args, dcpk_box *box,
                           void *stream, uint32_t flags, dcpk_error *error);

/* Whether a launch carries the PDL attribute. */
bool dcpk_kernel_overlaps(const dcpk_kernel *kernel, const struct kernel_entry *entry, const dcpk_box *box,
                          uint32_t flags);

/* Forgets a kernel that nobody else has seen, unloaded as far as the driver lets it. NULL is fine. */
void dcpk_kernel_drop(dcpk_kernel *kernel);

/* CAPTURING while the stream captures; the one driver call it makes asks just that. */
dcpk_status dcpk_refuse_capture(const dcpk_device *device, void *stream, const char *what, dcpk_error *error);

/* residency.c: whether this device can hold the whole grid at once, and the spec that fits when not. */
dcpk_status dcpk_kernel_fits(const dcpk_kernel *kernel, const struct kernel_entry *entry, dcpk_error *error);

#endif
