/* layer.c - the kernels of one layer step: specs from its plan, images from the provider, launches in order.
 * Opening loads; a step only launches. Uses the public API and dcpk_kernel_check; must not call the driver. */
#include "runtime/box_state.h"
#include "runtime/error.h"
#include "runtime/kernel.h"
#include "runtime/layer_plan.h"

#include <stdlib.h>

struct dcpk_layer {
    dcpk_device *device;
    dcpk_box *box;
    dcpk_decode_fn *decode; /* the caller's, NULL where kernel[LAYER_DECODE] does it */
    void *decode_self;
    dcpk_kernel *kernel[LAYER_PLACES]; /* LAYER_VALUE: NULL when a close has begun */
};

static dcpk_status load(dcpk_layer *layer, const dcpk_layer_options *options, const dcpk_spec *spec,
                        enum layer_place place, dcpk_error *error) {
    dcpk_image *image = NULL;
    dcpk_status status = options->provider->get(options->provider->self, spec, &image, error);
    if (status != DCPK_OK) return status;
    status = dcpk_kernel_load(layer->device, image, NULL, &layer->kernel[place], error);
    dcpk_image_free(image);
    return status;
}

static dcpk_status load_all(dcpk_layer *layer, const dcpk_layer_options *options, dcpk_error *error) {
    struct layer_plan plan;
    dcpk_status status = layer_plan_make(options, &plan, error);
    for (int place = LAYER_FRONT; status == DCPK_OK && place < LAYER_PLACES; place++)
        if (plan.used[place]) status = load(layer, options, &plan.specs[place], (enum layer_place)place, error);
    return status;
}

static dcpk_status check_options(dcpk_device *device, const dcpk_box *box, const dcpk_layer_options *options,
                                 dcpk_error *error) {
    if (device == NULL) return dcpk_error_set(error, DCPK_E_ARG, "dcpk_layer_open: device is NULL");
    if (options->provider == NULL || options->provider->get == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_layer_open: provider is missing");
    dcpk_status status = layer_plan_check(options, "dcpk_layer_open", error);
    if (status != DCPK_OK) return status;
    int32_t dcp = options->base->dcp == DCPK_UNSET ? 1 : options->base->dcp;
    if (dcp == 1 && box != NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_layer_open: dcp is 1, which has no box, but a box was given");
    if (dcp > 1 && box == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_layer_open: dcp is %d, which needs a box", dcp);
    char its[DEVICE_LABEL], own[DEVICE_LABEL];
    if (box != NULL && !dcpk_share_same(box->device, device))
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_layer_open: the box is on %s, the layer on %s",
                              dcpk_device_label(box->device, its), dcpk_device_label(device, own));
    if (box != NULL && box->shape.event_ordered)
        return dcpk_error_set(
            error, DCPK_E_ARG,
            "dcpk_layer_open: the box is event_ordered: a step launches one rank's whole use and cannot "
            "wait for the other ranks between its phases; launch kernel by kernel, phase by phase "
            "(dcpk_kernel_launch)");
    return DCPK_OK;
}

/* What base leaves open is the box's: cap, qh and publish follow it; sms is the share's where the device is one. */
static void follow_box(const dcpk_box *box, dcpk_spec *base) {
    if (box == NULL) return;
    if (base->cap == DCPK_UNSET) base->cap = box->shape.cap;
    if (base->qh == DCPK_UNSET) base->qh = box->shape.qh;
    if (base->publish == DCPK_UNSET) base->publish = box->shape.publish;
}

dcpk_status dcpk_layer_open(dcpk_device *device, dcpk_box *box, const dcpk_layer_options *given, dcpk_layer **out,
                            dcpk_error *error) {
    if (out == NULL) return dcpk_error_set(error, DCPK_E_ARG, "dcpk_layer_open: out is NULL");
    *out = NULL;
    dcpk_layer_options options;
    dcpk_status status = dcpk_options_copy(&options, sizeof options, given, "dcpk_layer_options", error);
    if (status == DCPK_OK) status = check_options(device, box, &options, error);
    if (status != DCPK_OK) return status;
    dcpk_spec base = *options.base;
    follow_box(box, &base);
    if (device->green != NULL && base.sms == DCPK_UNSET) base.sms = device->info.sms;
    options.base = &base;
    dcpk_layer *layer = calloc(1, sizeof *layer);
    if (layer == NULL) return dcpk_error_set(error, DCPK_E_NOMEM, "dcpk_layer_open: out of memory");
    layer->device = device;
    layer->box = box;
    layer->decode = options.decode;
    layer->decode_self = options.decode_self;
    status = load_all(layer, &options, error);
    if (status == DCPK_OK) {
        *out = layer;
        return DCPK_OK;
    }
    for (int place = 0; place < LAYER_PLACES; place++)
        dcpk_kernel_drop(layer->kernel[place]);
    free(layer);
    return status;
}

dcpk_status dcpk_layer_workspace(const dcpk_layer *layer, uint64_t *bytes, dcpk_error *error) {
    if (layer == NULL || bytes == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_layer_workspace: layer or bytes is NULL");
    *bytes = 0;
    const dcpk_kernel *decode = layer->kernel[LAYER_DECODE];
    return decode != NULL ? dcpk_spec_workspace(&decode->spec, bytes, NULL, error) : DCPK_OK;
}

/* While a graph holds one of the kernels, none is freed. When the driver refuses to unload one, those before it are
 * gone and the layer can only be closed again. */
dcpk_status dcpk_layer_close(dcpk_layer *layer, dcpk_error *error) {
    if (layer == NULL) return DCPK_OK;
    for (int place = LAYER_VALUE; place >= LAYER_FRONT; place--) {
        dcpk_kernel *kernel = layer->kernel[place];
        if (kernel != NULL && dcpk_hold_count(kernel->hold) > 0) return dcpk_kernel_free(kernel, error);
    }
    for (int place = LAYER_VALUE; place >= LAYER_FRONT; place--) {
        dcpk_status status = dcpk_kernel_free(layer->kernel[place], error);
        if (status != DCPK_OK) return status;
        layer->kernel[place] = NULL;
    }
    free(layer);
    return DCPK_OK;
}

/* Refuses before anything is launched: a use that stops half-way would cost every rank its bound. */
static dcpk_status check_all(const dcpk_layer *layer, const dcpk_args *args, uint32_t flags, dcpk_error *error) {
    dcpk_status status = DCPK_OK;
    for (int place = LAYER_FRONT; place < LAYER_PLACES; place++) {
        const dcpk_kernel *kernel = layer->kernel[place];
        for (uint32_t i = 0; status == DCPK_OK && kernel != NULL && i < kernel->entry_count; i++)
            status = dcpk_kernel_check(kernel, i, args, layer->box, flags, error);
    }
    return status;
}

dcpk_status dcpk_layer_step(dcpk_layer *layer, const dcpk_args *args, void *stream, uint32_t flags, dcpk_error *error) {
    if (layer == NULL) return dcpk_error_set(error, DCPK_E_ARG, "dcpk_layer_step: layer is NULL");
    if (layer->kernel[LAYER_VALUE] == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_layer_step: dcpk_layer_close has begun: close the layer again");
    dcpk_status status = check_all(layer, args, flags, error);
    if (status == DCPK_OK) status = dcpk_share_owns(layer->device, stream, "dcpk_layer_step", error);
    uint32_t edge = flags | DCPK_LAUNCH_FIRST; /* of the next launch; inside a step only CHAIN_WAITS remains */
    const uint32_t inside = flags & (uint32_t)DCPK_LAUNCH_CHAIN_WAITS;
    for (int place = LAYER_FRONT; status == DCPK_OK && place < LAYER_PLACES; place++) {
        const dcpk_kernel *kernel = layer->kernel[place];
        if (place == LAYER_DECODE && layer->decode != NULL) {
            status = layer->decode(layer->decode_self, args, layer->box, stream, edge, error);
            edge = inside;
        }
        for (uint32_t i = 0; status == DCPK_OK && kernel != NULL && i < kernel->entry_count; i++, edge = inside)
            status = dcpk_kernel_go(kernel, i, args, layer->box, stream, edge, error);
    }
    return status;
}
