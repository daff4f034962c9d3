/* launch_args.c - where a kernel's parameters come from, and what their values must hold before a launch.
 * No driver call, no allocation. Every refusal names kernel, spec and argument. */
#include "runtime/box_state.h"
#include "runtime/error.h"
#include "runtime/kernel.h"
#include "runtime/kv_map.h"
#include "runtime/workspace.h"

#include <math.h>
#include <string.h>

struct arg_row {
    const char *name, *type;
    uint32_t offset, bytes;
};

static const struct arg_row args_table[] = {
#define A(type, name, kernels, doc)                                                                                    \
    {#name, #type, (uint32_t)offsetof(dcpk_args, name), (uint32_t)sizeof(((dcpk_args *)0)->name)},
#include <dcpk/args.def>
#undef A
};

static const struct arg_row box_table[] = {
#define B(type, name, doc)                                                                                             \
    {#name, #type, (uint32_t)offsetof(struct box_values, name), (uint32_t)sizeof(((struct box_values *)0)->name)},
#include <dcpk/box.def>
#undef B
};

static const struct rule_row {
    const char *name;
    enum arg_rule rule;
    uint32_t align;
} rules[] = {
#define R(name, rule, align) {#name, RULE_##rule, align},
#include "runtime/arg_rules.def"
#undef R
};

enum { ARG_COUNT = sizeof args_table / sizeof args_table[0], BOX_COUNT = sizeof box_table / sizeof box_table[0] };
_Static_assert(sizeof rules / sizeof rules[0] == ARG_COUNT, "every row of args.def has one in arg_rules.def");

static const struct arg_row *find(const struct arg_row *table, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}

static bool spec_leaves_out(const dcpk_spec *spec, const char *name) {
    return spec->gate == 0 && (strcmp(name, "gate") == 0 || strcmp(name, "pitch") == 0) &&
           dcpk_spec_takes(spec->kernel, "gate");
}

/* type: as the image declares the parameter; a table's type of another size would shift nothing but read wrong bytes.
 */
static dcpk_status bind_one(const dcpk_kernel *kernel, const struct kernel_entry *entry, uint32_t index,
                            struct kernel_param *param, dcpk_error *error) {
    const dcpk_param_info *info = &entry->info.params[index];
    memset(param, 0, sizeof *param);
    const struct arg_row *row = find(args_table, ARG_COUNT, info->name);
    int map = dcpk_kv_map_find(info->name);
    if (map >= 0 && strcmp(info->type, "map") == 0 && dcpk_spec_takes(kernel->spec.kernel, "page")) {
        param->source = PARAM_MAP;
        param->offset = (uint32_t)map;
        return DCPK_OK;
    }
    if (row != NULL) {
        param->source = PARAM_ARG;
        for (size_t i = 0; i < ARG_COUNT; i++)
            if (strcmp(rules[i].name, info->name) == 0) {
                param->rule = rules[i].rule;
                param->align = rules[i].align;
            }
        param->unused = spec_leaves_out(&kernel->spec, info->name);
    } else if (strcmp(info->name, "chain_waits") == 0) {
        row = find(box_table, BOX_COUNT, info->name);
        param->source = PARAM_CHAIN;
    } else if ((row = find(box_table, BOX_COUNT, info->name)) != NULL) {
        param->source = PARAM_BOX;
    }
    if (row == NULL) return DCPK_OK;
    if (strcmp(row->type, info->type) != 0)
        return dcpk_error_set(error, DCPK_E_BAD_CUBIN, "%s: parameter %s of %s is %s, but it is %s in %s", kernel->text,
                              info->name, entry->info.name, info->type, row->type,
                              param->source == PARAM_ARG ? "args.def" : "box.def");
    param->offset = row->offset;
    param->bytes = row->bytes;
    return DCPK_OK;
}

dcpk_status dcpk_kernel_bind(const dcpk_kernel *kernel, struct kernel_entry *entry, dcpk_error *error) {
    if (entry->info.param_count > DCPK_IMAGE_MAX_PARAMS)
        return dcpk_error_set(error, DCPK_E_BAD_CUBIN, "%s: entry %s has %u parameters: at most %d", kernel->text,
                              entry->info.name, entry->info.param_count, DCPK_IMAGE_MAX_PARAMS);
    for (uint32_t i = 0; i < entry->info.param_count; i++) {
        dcpk_status status = bind_one(kernel, entry, i, &entry->params[i], error);
        if (status != DCPK_OK) return status;
        if (entry->params[i].source == PARAM_BOX) entry->needs_box = true;
        if (entry->params[i].source == PARAM_MAP && ++entry->maps > KERNEL_MAPS)
            return dcpk_error_set(error, DCPK_E_BAD_CUBIN, "%s: entry %s has more than %d tensor maps of maps.def",
                                  kernel->text, entry->info.name, KERNEL_MAPS);
        if (entry->params[i].source == PARAM_UNKNOWN) entry->raw_only = true;
    }
    return DCPK_OK;
}

static dcpk_status refuse(const dcpk_kernel *kernel, const struct kernel_entry *entry, const char *name,
                          const char *why, dcpk_error *error) {
    return dcpk_error_set(error, DCPK_E_ARG, "%s (%s): argument %s %s", kernel->text, entry->info.name, name, why);
}

static dcpk_status check_address(const dcpk_kernel *kernel, const struct kernel_entry *entry, const char *name,
                                 const struct kernel_param *param, uint64_t value, bool box, dcpk_error *error) {
    bool own = param->rule != RULE_ADDRESS;
    if (value == 0 && own && box) return DCPK_OK;
    if (value == 0) return refuse(kernel, entry, name, own ? "is 0 and there is no box to hold it" : "is 0", error);
    if (value % param->align == 0) return DCPK_OK;
    return dcpk_error_set(error, DCPK_E_ARG, "%s (%s): argument %s = 0x%llx is no multiple of %u bytes", kernel->text,
                          entry->info.name, name, (unsigned long long)value, param->align);
}

/* The columns of a row that the kernel reads at this pitch. */
static int32_t row_width(const dcpk_spec *spec) {
    if (dcpk_spec_takes(spec->kernel, "gate")) return spec->heads * 128;
    return dcpk_spec_takes(spec->kernel, "q_lora") ? spec->q_lora + 576 : 1536;
}

static const int64_t PITCHED_ELEMENTS = INT64_C(1) << 31;

static dcpk_status check_pitch(const dcpk_kernel *kernel, const struct kernel_entry *entry, uint32_t pitch,
                               dcpk_error *error) {
    if (pitch % 8 != 0 || pitch == 0)
        return dcpk_error_set(error, DCPK_E_ARG, "%s (%s): argument pitch = %u is no multiple of 8 elements above 0",
                              kernel->text, entry->info.name, pitch);
    if (kernel->id == DCPK_KERNEL_NONE)
        return DCPK_OK; /* what rows a template of the user's own reads is its business */
    int64_t width = row_width(&kernel->spec), batch = kernel->spec.batch;
    if ((int64_t)pitch < width)
        return dcpk_error_set(error, DCPK_E_ARG, "%s (%s): argument pitch = %u is less than a row's %lld elements",
                              kernel->text, entry->info.name, pitch, (long long)width);
    if ((int64_t)pitch * batch > PITCHED_ELEMENTS)
        return dcpk_error_set(
            error, DCPK_E_ARG,
            "%s (%s): argument pitch = %u: pitch * batch must be at most %lld elements (kernels count "
            "them in 32 bits), so pitch at most %lld",
            kernel->text, entry->info.name, pitch, (long long)PITCHED_ELEMENTS,
            (long long)(PITCHED_ELEMENTS / batch / 8 * 8));
    return DCPK_OK;
}

static dcpk_status check_stride(const dcpk_kernel *kernel, const struct kernel_entry *entry, uint64_t stride,
                                dcpk_error *error) {
    uint64_t page = kernel->id == DCPK_KERNEL_NONE ? 0 : (uint64_t)kernel->spec.page * 576;
    if (stride % 16 == 0 && stride >= page && stride > 0) return DCPK_OK;
    return dcpk_error_set(error, DCPK_E_ARG,
                          "%s (%s): argument page_stride = %llu is no multiple of 16 bytes of at least a page's %llu",
                          kernel->text, entry->info.name, (unsigned long long)stride, (unsigned long long)page);
}

static dcpk_status check_arg(const dcpk_kernel *kernel, const struct kernel_entry *entry, uint32_t index,
                             const dcpk_args *args, bool box, dcpk_error *error) {
    const struct kernel_param *param = &entry->params[index];
    const char *name = entry->info.params[index].name;
    if (args == NULL || args->size < param->offset + param->bytes)
        return refuse(kernel, entry, name, "is missing: dcpk_args is NULL or its size leaves it out", error);
    if (param->unused) return DCPK_OK;
    const char *field = (const char *)args + param->offset;
    uint64_t address = 0;
    uint32_t word = 0;
    float number = 0;
    switch (param->rule) {
    case RULE_ADDRESS:
    case RULE_ROWS:
    case RULE_LSE:
        memcpy(&address, field, sizeof address);
        return check_address(kernel, entry, name, param, address, box, error);
    case RULE_PITCH:
        memcpy(&word, field, sizeof word);
        return check_pitch(kernel, entry, word, error);
    case RULE_NOT_NEGATIVE:
        memcpy(&number, field, sizeof number);
        if (isfinite(number) && number >= 0) return DCPK_OK;
        return refuse(kernel, entry, name, "is negative or not finite", error);
    case RULE_PARITY:
        memcpy(&word, field, sizeof word);
        if (word <= 1) return DCPK_OK;
        return refuse(kernel, entry, name, "is neither 0 nor 1", error);
    case RULE_STRIDE:
        memcpy(&address, field, sizeof address);
        return check_stride(kernel, entry, address, error);
    case RULE_POSITIVE:
        memcpy(&number, field, sizeof number);
        if (isfinite(number) && number > 0) return DCPK_OK;
        return refuse(kernel, entry, name, "is not a finite number above 0", error);
    case RULE_COUNT:
        memcpy(&word, field, sizeof word);
        if (word > 0) return DCPK_OK;
        return refuse(kernel, entry, name, "is 0", error);
    }
    return DCPK_OK;
}

struct agreement { /* a key that box and image must agree on */
    const char *name;
    int32_t image, box;
};

static dcpk_status check_shape(const dcpk_kernel *kernel, const struct kernel_entry *entry, const dcpk_box *box,
                               dcpk_error *error) {
    const dcpk_spec *spec = &kernel->spec;
    const dcpk_box_shape *shape = &box->shape;
    const struct agreement keys[] = {
        {"dcp", spec->dcp, shape->dcp}, {"heads", spec->heads, shape->heads},       {"cap", spec->cap, shape->cap},
        {"qh", spec->qh, shape->qh},    {"publish", spec->publish, shape->publish},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i].image != DCPK_UNSET && keys[i].image != keys[i].box)
            return dcpk_error_set(error, DCPK_E_MISMATCH, "%s (%s): the kernel was built for %s=%d, the box has %d",
                                  kernel->text, entry->info.name, keys[i].name, keys[i].image, keys[i].box);
    return DCPK_OK;
}

static dcpk_status check_box(const dcpk_kernel *kernel, const struct kernel_entry *entry, const dcpk_box *box,
                             dcpk_error *error) {
    if (box == NULL) {
        if (!entry->needs_box) return DCPK_OK;
        return dcpk_error_set(error, DCPK_E_ARG, "%s (%s): the kernel needs a box", kernel->text, entry->info.name);
    }
    if (dcpk_box_is_dead(box)) return dcpk_box_dead_error(box, kernel->text, error);
    if (!entry->needs_box) return DCPK_OK;
    char its[DEVICE_LABEL], own[DEVICE_LABEL];
    if (!dcpk_share_same(box->device, kernel->device))
        return dcpk_error_set(error, DCPK_E_ARG, "%s (%s): the box is on %s, the kernel on %s", kernel->text,
                              entry->info.name, dcpk_device_label(box->device, its),
                              dcpk_device_label(kernel->device, own));
    if (!box->attached || !box->armed)
        return dcpk_error_set(error, DCPK_E_ARG, "%s (%s): the box is not %s yet: dcpk_box_connect does both",
                              kernel->text, entry->info.name, box->attached ? "armed" : "attached to its peers");
    dcpk_status status = check_shape(kernel, entry, box, error);
    if (status != DCPK_OK) return status;
    if (box->shape.event_ordered && entry->info.resident && kernel->id != DCPK_KERNEL_mla_decode)
        return dcpk_error_set(error, DCPK_E_RESIDENCY,
                              "%s (%s): a grid that polls for its own kind cannot run in an event-ordered box: use %s",
                              kernel->text, entry->info.name,
                              kernel->id == DCPK_KERNEL_dcp_value ? "split=1" : "poll=0 with query_wait");
    return DCPK_OK;
}

dcpk_status dcpk_kernel_check(const dcpk_kernel *kernel, uint32_t index, const dcpk_args *args, const dcpk_box *box,
                              uint32_t flags, dcpk_error *error) {
    enum { ALL_FLAGS = DCPK_LAUNCH_NO_PDL | DCPK_LAUNCH_CHAIN_WAITS | DCPK_LAUNCH_FRESH_WEIGHTS | DCPK_LAUNCH_FIRST };
    if (kernel == NULL) return dcpk_error_set(error, DCPK_E_ARG, "launch: kernel is NULL");
    if (index >= kernel->entry_count)
        return dcpk_error_set(error, DCPK_E_ARG, "%s: entry %u: it has %u", kernel->text, index, kernel->entry_count);
    if (flags & ~(uint32_t)ALL_FLAGS)
        return dcpk_error_set(error, DCPK_E_ARG, "%s: launch flags 0x%x: unknown bits", kernel->text, flags);
    const struct kernel_entry *entry = &kernel->entries[index];
    dcpk_status status = check_box(kernel, entry, box, error);
    for (uint32_t i = 0; status == DCPK_OK && i < entry->info.param_count; i++) {
        if (entry->params[i].source == PARAM_UNKNOWN)
            return dcpk_error_set(
                error, DCPK_E_ARG,
                "%s (%s): parameter %s is in neither args.def nor box.def: use dcpk_kernel_launch_raw", kernel->text,
                entry->info.name, entry->info.params[i].name);
        if (entry->params[i].source == PARAM_ARG) status = check_arg(kernel, entry, i, args, box != NULL, error);
        if (status == DCPK_OK && entry->params[i].source == PARAM_ARG &&
            entry->params[i].offset == offsetof(dcpk_args, workspace))
            status = dcpk_workspace_check(kernel, entry, args->workspace, error);
    }
    return status;
}
