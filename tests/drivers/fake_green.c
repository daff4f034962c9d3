/* fake_green.c - green contexts of libfakecuda.so: a device's multiprocessors 0..sms-1, split from 0 on into equal
 * parts of a multiple of 8, rounded up as the real driver rounds. What its callers must keep in order is refused
 * otherwise. */
#include "tests/drivers/fake_inside.h"

#include <string.h>

enum { UNIT = 8, MARK_DEVICE = 0xD1, MARK_PART = 0xD2 };

struct inside { /* what the driver keeps in a resource: callers copy it whole */
    int mark, device;
    unsigned from;
};

static struct inside inside_of(const cu_resource *resource) {
    struct inside inside;
    memcpy(&inside, resource->inside, sizeof inside);
    return inside;
}

static void describe(cu_resource *resource, int mark, int device, unsigned from, unsigned sms) {
    struct inside inside = {mark, device, from};
    memset(resource, 0, sizeof *resource);
    resource->type = DRIVER_RESOURCE_SM;
    memcpy(resource->inside, &inside, sizeof inside);
    resource->of.sm.sms = sms;
    if (fake_driver()->old_resources) return;
    resource->of.sm.least = UNIT;
    resource->of.sm.unit = UNIT;
}

ENTRY(cuDeviceGetDevResource, cu_device device, cu_resource *resource, int type) {
    BEGIN;
    if (type != DRIVER_RESOURCE_SM) return DRIVER_INVALID_VALUE;
    describe(resource, MARK_DEVICE, device, 0, (unsigned)fake_driver()->sms);
    return DRIVER_OK;
}
ENTRY(cuDevSmResourceSplitByCount, cu_resource *groups, unsigned *count, const cu_resource *from, cu_resource *rest,
      unsigned flags, unsigned least) {
    BEGIN;
    const struct fake_driver *state = fake_driver();
    struct inside inside = inside_of(from);
    if (inside.mark != MARK_DEVICE || rest != NULL || flags != 0 || least > from->of.sm.sms)
        return DRIVER_INVALID_VALUE;
    unsigned units = least == 0 ? 1 : (least + UNIT - 1) / UNIT;
    unsigned chunks = state->chunks > 0 ? (unsigned)state->chunks : from->of.sm.sms / UNIT;
    unsigned made = chunks / units;
    if (groups != NULL && made > *count) made = *count;
    for (unsigned i = 0; groups != NULL && i < made; i++)
        describe(&groups[i], MARK_PART, inside.device, i * units * UNIT, units * UNIT);
    *count = made;
    return DRIVER_OK;
}
ENTRY(cuDevResourceGenerateDesc, cu_resource_desc *desc, cu_resource *resources, unsigned count) {
    BEGIN;
    static cu_resource kept; /* until the next one: nobody frees a descriptor */
    if (count != 1 || inside_of(resources).mark != MARK_PART) return DRIVER_INVALID_VALUE;
    kept = *resources;
    *desc = &kept;
    return DRIVER_OK;
}
ENTRY(cuGreenCtxCreate, cu_green *green, cu_resource_desc desc, cu_device device, unsigned flags) {
    BEGIN;
    const cu_resource *part = desc;
    if (inside_of(part).device != device || flags != DRIVER_GREEN_DEFAULT_STREAM) return DRIVER_INVALID_VALUE;
    struct fake_green *made = fake_take(sizeof *made);
    if (made == NULL) return DRIVER_OUT_OF_MEMORY;
    *made = (struct fake_green){.device = device, .from = inside_of(part).from, .sms = part->of.sm.sms};
    *green = made;
    fake_driver()->greens++;
    return DRIVER_OK;
}
/* The real one leaks streams that are still there; this one refuses, so that they are counted as left. */
ENTRY(cuGreenCtxDestroy, cu_green green) {
    BEGIN;
    if (((struct fake_green *)green)->streams != 0) return DRIVER_INVALID_CONTEXT;
    if (!fake_give_back(green)) return DRIVER_INVALID_CONTEXT;
    fake_driver()->greens--;
    return DRIVER_OK;
}
ENTRY(cuGreenCtxGetDevResource, cu_green green, cu_resource *resource, int type) {
    BEGIN;
    const struct fake_green *own = green;
    if (type != DRIVER_RESOURCE_SM) return DRIVER_INVALID_VALUE;
    describe(resource, MARK_PART, own->device, own->from, own->sms);
    return DRIVER_OK;
}
ENTRY(cuGreenCtxStreamCreate, cu_stream *stream, cu_green green, unsigned flags, int priority) {
    BEGIN;
    if (green == NULL || flags != DRIVER_STREAM_NON_BLOCKING || priority != 0) return DRIVER_INVALID_VALUE;
    struct fake_stream *made = fake_take(sizeof *made);
    if (made == NULL) return DRIVER_OUT_OF_MEMORY;
    made->green = green;
    made->green->streams++;
    *stream = made;
    fake_driver()->streams++;
    return DRIVER_OK;
}
ENTRY(cuStreamGetGreenCtx, cu_stream stream, cu_green *green) {
    BEGIN;
    *green = stream != NULL ? ((const struct fake_stream *)stream)->green : NULL;
    return DRIVER_OK;
}
