/* warm.c - the warm-up of an engine: many specs built and loaded before anything captures. Uses the provider and
 * dcpk_kernel_load; must not call the driver but to ask whether the stream captures. */
#include "runtime/error.h"
#include "runtime/kernel.h"

#include <string.h>

/* "warm-up of SPEC: reason" with everything else of the reason; the spec once. */
static dcpk_status of_spec(const dcpk_spec *spec, const dcpk_error *reason, dcpk_error *error) {
    char text[1024];
    dcpk_spec_format(spec, text, sizeof text);
    bool named = strstr(reason->text, text) != NULL;
    dcpk_error_set(error, reason->code, "warm-up%s%s: %s", named ? "" : " of ", named ? "" : text, reason->text);
    if (error == NULL || error->size < sizeof *error) return reason->code;
    error->sys_errno = reason->sys_errno;
    error->driver_result = reason->driver_result;
    error->template_line = reason->template_line;
    memcpy(error->template_file, reason->template_file, sizeof error->template_file);
    return reason->code;
}

static dcpk_status warm_one(dcpk_device *device, const dcpk_provider *provider, const dcpk_spec *spec, void *stream,
                            dcpk_kernel **kernel, dcpk_error *error) {
    dcpk_image *image = NULL;
    dcpk_error reason;
    dcpk_error_init(&reason);
    dcpk_status status = provider->get(provider->self, spec, &image, &reason);
    if (status == DCPK_OK) status = dcpk_kernel_load(device, image, stream, kernel, &reason);
    dcpk_image_free(image);
    reason.code = status; /* a provider of the caller's own may leave it */
    return status == DCPK_OK ? DCPK_OK : of_spec(spec, &reason, error);
}

/* The array's stride is the caller's version of the struct. */
static const dcpk_spec *spec_at(const dcpk_spec *specs, uint32_t index) {
    return (const void *)((const char *)specs + (size_t)index * specs->size);
}

static bool specs_fit(const dcpk_spec *specs, uint32_t count) {
    if (count > 0 && specs->size < sizeof *specs) return false;
    for (uint32_t i = 1; i < count; i++)
        if (spec_at(specs, i)->size != specs->size) return false;
    return true;
}

static dcpk_status check(const dcpk_device *device, const dcpk_provider *provider, const dcpk_spec *specs,
                         uint32_t count, dcpk_kernel *const *kernels, dcpk_error *error) {
    if (device == NULL || provider == NULL || provider->get == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_kernel_warm: device or provider is missing");
    if (count > 0 && (specs == NULL || kernels == NULL))
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_kernel_warm: specs or kernels is NULL");
    if (!specs_fit(specs, count))
        return dcpk_error_set(error, DCPK_E_ARG,
                              "dcpk_kernel_warm: every specs[i].size must be the same and not below %zu",
                              sizeof *specs);
    return DCPK_OK;
}

/* Where the provider's struct is new enough to have it. What it cannot make fails again in its get, which is asked spec
 * by spec and so says which one: prepare's own answer is not needed. */
static void prepare(const dcpk_provider *provider, const dcpk_spec *specs, uint32_t count) {
    bool known = provider->size >= offsetof(dcpk_provider, prepare) + sizeof provider->prepare;
    if (known && provider->prepare != NULL && count > 0) (void)provider->prepare(provider->self, specs, count, NULL);
}

dcpk_status dcpk_kernel_warm(dcpk_device *device, const dcpk_provider *provider, const dcpk_spec *specs, uint32_t count,
                             void *stream, dcpk_kernel **kernels, dcpk_error *error) {
    for (uint32_t i = 0; kernels != NULL && i < count; i++)
        kernels[i] = NULL;
    dcpk_status status = check(device, provider, specs, count, kernels, error);
    if (status == DCPK_OK) status = dcpk_refuse_capture(device, stream, "dcpk_kernel_warm", error);
    if (status == DCPK_OK) prepare(provider, specs, count);
    for (uint32_t i = 0; status == DCPK_OK && i < count; i++)
        status = warm_one(device, provider, spec_at(specs, i), stream, &kernels[i], error);
    for (uint32_t i = 0; status != DCPK_OK && kernels != NULL && i < count; i++) {
        dcpk_kernel_drop(kernels[i]);
        kernels[i] = NULL;
    }
    return status;
}
