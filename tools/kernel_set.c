/* kernel_set.c - see kernel_set.h. */
#include <tools/kernel_set.h>

#include <tools/tool_error.h>

#include <stdlib.h>
#include <string.h>

enum { MAX_IMAGES = 192 };

struct kernel_set {
    dcpk_gen *gen;
    uint32_t count;
    dcpk_image *images[MAX_IMAGES];
    struct kernel_row rows[MAX_IMAGES];
};

struct kernel_set *kernel_set_new(dcpk_gen *gen) {
    struct kernel_set *set = calloc(1, sizeof *set);
    if (set) {
        set->gen = gen;
    }
    return set;
}

void kernel_set_free(struct kernel_set *set) {
    if (set) {
        for (uint32_t i = 0; i < set->count; i++) {
            dcpk_image_free(set->images[i]);
        }
        free(set);
    }
}

static void fill_row(struct kernel_row *row, const dcpk_image *image, const dcpk_spec *spec) {
    memcpy(row->kernel, spec->kernel, sizeof row->kernel);
    row->batch = spec->batch;
    row->run_seconds = -1;
    for (uint32_t e = 0; e < dcpk_image_entry_count(image); e++) {
        dcpk_entry_info info = {.size = sizeof info};
        if (dcpk_image_entry(image, e, &info, NULL) == DCPK_OK) {
            row->registers = info.registers > row->registers ? info.registers : row->registers;
            row->spilled = info.local_bytes > row->spilled ? info.local_bytes : row->spilled;
        }
    }
}

dcpk_status kernel_set_get(void *self, const dcpk_spec *spec, dcpk_image **out, dcpk_error *error) {
    struct kernel_set *set = self;
    char text[sizeof set->rows[0].spec];
    dcpk_spec_format(spec, text, sizeof text);
    for (uint32_t i = 0; i < set->count; i++) {
        if (strcmp(set->rows[i].spec, text) == 0) {
            dcpk_image_ref(set->images[i]);
            *out = set->images[i];
            return DCPK_OK;
        }
    }
    if (set->count == MAX_IMAGES) {
        return tool_fail(error, DCPK_E_ARG, "a run builds at most %d kernels", MAX_IMAGES);
    }
    struct kernel_row *row = &set->rows[set->count];
    memset(row, 0, sizeof *row);
    row->report.size = sizeof row->report;
    dcpk_status status = dcpk_gen_build(set->gen, spec, &set->images[set->count], &row->report, error);
    if (status != DCPK_OK) {
        return status;
    }
    memcpy(row->spec, text, sizeof text);
    fill_row(row, set->images[set->count], spec);
    *out = set->images[set->count++];
    dcpk_image_ref(*out);
    return DCPK_OK;
}

dcpk_status kernel_set_load(struct kernel_set *set, const dcpk_spec *spec, dcpk_device *device, void *stream,
                            dcpk_kernel **out, dcpk_error *error) {
    dcpk_image *image = NULL;
    dcpk_status status = kernel_set_get(set, spec, &image, error);
    if (status == DCPK_OK) {
        status = dcpk_kernel_load(device, image, stream, out, error);
    }
    dcpk_image_free(image);
    return status;
}

uint32_t kernel_set_count(const struct kernel_set *set) {
    return set->count;
}

struct kernel_row *kernel_set_at(struct kernel_set *set, uint32_t index) {
    return index < set->count ? &set->rows[index] : NULL;
}

struct kernel_row *kernel_set_find(struct kernel_set *set, const char *kernel, int32_t batch) {
    for (uint32_t i = 0; i < set->count; i++) {
        if ((batch == 0 || set->rows[i].batch == batch) && strcmp(set->rows[i].kernel, kernel) == 0) {
            return &set->rows[i];
        }
    }
    return NULL;
}

void kernel_set_spec(const dcpk_spec *base, const char *kernel, dcpk_spec *spec) {
    dcpk_spec_init(spec, kernel);
    memcpy(spec->arch, base->arch, sizeof spec->arch);
    if (dcpk_kernel_id_of(kernel) == DCPK_KERNEL_NONE) {
        spec->heads = base->heads;
        spec->dcp = base->dcp;
        spec->batch = base->batch;
        spec->cap = base->cap;
        spec->qh = base->qh;
        return;
    }
#define N(name, low, high, dflt, kernels, doc)                                                                         \
    if (dcpk_spec_takes(kernel, #name)) {                                                                              \
        spec->name = base->name;                                                                                       \
    }
#define C(name, words, dflt, kernels, doc) N(name, 0, 0, dflt, kernels, doc)
#include <dcpk/keys.def>
#undef N
#undef C
}
