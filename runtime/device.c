/* device.c - opens a device: environment (once), driver, context, the facts that loading and launching ask for.
 * May read the environment in dcpk_device_open and nowhere else. Must not load kernels or touch boxes. */
#include "runtime/device.h"
#include "runtime/environment.h"
#include "runtime/error.h"
#include "runtime/workspace.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dcpk_status dcpk_options_copy(void *to, size_t capacity, const void *from, const char *what, dcpk_error *error) {
    memset(to, 0, capacity);
    if (from == NULL) return dcpk_error_set(error, DCPK_E_ARG, "%s: NULL", what);
    uint32_t size;
    memcpy(&size, from, sizeof size);
    if (size <= sizeof size)
        return dcpk_error_set(error, DCPK_E_ARG, "%s: size is %u: set it to its sizeof", what, size);
    memcpy(to, from, size < capacity ? size : capacity);
    return DCPK_OK;
}

static dcpk_status bad_kind(const char *from, const char *text, dcpk_error *error) {
    return dcpk_error_set(error, DCPK_E_ARG,
                          "%s=%s: auto, cpu or cuda, each with :LIST of device numbers after it (cuda:0,2)", from,
                          text);
}

static dcpk_status parse_kind(const char *from, const char *text, dcpk_device_words *choice, dcpk_error *error) {
    enum { LIST_MAX = sizeof choice->list / sizeof choice->list[0] };
    *choice = (dcpk_device_words){.size = sizeof *choice};
    size_t length = strcspn(text, ":");
    static const char *const kinds[] = {"auto", "cpu", "cuda"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strlen(kinds[i]) == length && memcmp(kinds[i], text, length) == 0) strcpy(choice->kind, kinds[i]);
    if (choice->kind[0] == '\0') return bad_kind(from, text, error);
    for (const char *at = text + length; *at != '\0';) { /* at: ':' or ',' */
        char *end;
        if (at[1] < '0' || at[1] > '9' || choice->count == LIST_MAX) return bad_kind(from, text, error);
        long number = strtol(at + 1, &end, 10);
        if (number > 4095 || (*end != ',' && *end != '\0')) return bad_kind(from, text, error);
        choice->list[choice->count++] = (int)number;
        at = end;
    }
    return text[length] != '\0' && choice->count == 0 ? bad_kind(from, text, error) : DCPK_OK;
}

/* kind: an option, NULL: what the environment says. */
static dcpk_status choose(const char *kind, const struct runtime_environment *environment, dcpk_device_words *choice,
                          dcpk_error *error) {
    const char *text = kind != NULL ? kind : environment->device != NULL ? environment->device : "auto";
    return parse_kind(kind != NULL ? "kind" : "DCPK_DEVICE", text, choice, error);
}

dcpk_status dcpk_device_words_read(const char *text, dcpk_device_words *out, dcpk_error *error) {
    struct runtime_environment environment;
    if (out == NULL || out->size < sizeof *out)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_device_words_read: out may not be NULL, out->size not below %zu",
                              sizeof *out);
    runtime_environment_read(&environment);
    return choose(text, &environment, out, error);
}

/* An option of 1, 0 or -1 (look into the environment): *out is 1, 0 or -1 (nobody says). */
static dcpk_status parse_flag(int32_t option, const char *name, const char *text, int *out, dcpk_error *error) {
    if (option == 0 || option == 1) {
        *out = option;
        return DCPK_OK;
    }
    if (option != -1) return dcpk_error_set(error, DCPK_E_ARG, "option for %s is %d: 1, 0 or -1", name, option);
    *out = -1;
    if (text == NULL) return DCPK_OK;
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return dcpk_error_set(error, DCPK_E_ARG, "%s=%s: 1 or 0", name, text);
    *out = text[0] - '0';
    return DCPK_OK;
}

static dcpk_status pick(dcpk_device *device, const dcpk_device_words *choice, int ordinal, dcpk_error *error) {
    int devices = device->info.count, visible = choice->count > 0 ? (int)choice->count : devices;
    if (ordinal < 0 || ordinal >= visible)
        return dcpk_error_set(error, DCPK_E_ARG, "ordinal %d: %d device%s here, 0..%d", ordinal, visible,
                              visible == 1 ? "" : "s", visible - 1);
    int number = choice->count > 0 ? choice->list[ordinal] : ordinal;
    if (number >= devices)
        return dcpk_error_set(error, DCPK_E_ARG, "device list names device %d: this driver has %d", number, devices);
    cu_result result = CALL(&device->driver, device_get, (&device->handle, number));
    if (result != DRIVER_OK) return FAILED(&device->driver, device_get, result, error, "device %d", number);
    device->info.ordinal = ordinal;
    device->info.count = visible;
    return DCPK_OK;
}

static dcpk_status attribute(const dcpk_device *device, int which, const char *what, int *value, dcpk_error *error) {
    cu_result result = CALL(&device->driver, device_attribute, (value, which, device->handle));
    if (result == DRIVER_OK) return DCPK_OK;
    return FAILED(&device->driver, device_attribute, result, error, "device %d: %s", device->info.ordinal, what);
}

static dcpk_status ask(dcpk_device *device, dcpk_error *error) {
    const struct dcpk_driver *driver = &device->driver;
    dcpk_device_info *info = &device->info;
    cu_result result = CALL(driver, driver_version, (&info->driver_version));
    if (result != DRIVER_OK) return FAILED(driver, driver_version, result, error, "driver version");
    result = CALL(driver, device_name, (info->name, (int)sizeof info->name, device->handle));
    if (result != DRIVER_OK) return FAILED(driver, device_name, result, error, "device %d", info->ordinal);
    dcpk_status status = attribute(device, DRIVER_ATTR_CC_MAJOR, "compute capability", &info->major, error);
    if (status == DCPK_OK) status = attribute(device, DRIVER_ATTR_CC_MINOR, "compute capability", &info->minor, error);
    if (status == DCPK_OK)
        status = attribute(device, DRIVER_ATTR_MULTIPROCESSORS, "multiprocessors", &info->sms, error);
    if (status != DCPK_OK) return status;
    int supported = 0; /* older drivers do not know the question: no */
    if (CALL(driver, device_attribute, (&supported, DRIVER_ATTR_MULTICAST, device->handle)) != DRIVER_OK) supported = 0;
    device->multicast_supported = supported != 0;
    info->multicast = device->multicast_wanted && device->multicast_supported;
    info->share_count = 1;
    info->device_sms = info->sms;
    return DCPK_OK;
}

/* The caller's current context when it is one of this device, else the primary context. shared: the primary context in
 * any case, which every green context belongs to. */
static dcpk_status choose_context(dcpk_device *device, bool shared, dcpk_error *error) {
    const struct dcpk_driver *driver = &device->driver;
    cu_context current = NULL;
    cu_device where = 0;
    cu_result result = CALL(driver, ctx_get_current, (&current));
    if (result != DRIVER_OK) return FAILED(driver, ctx_get_current, result, error, "device %d", device->info.ordinal);
    if (current != NULL && !shared && CALL(driver, ctx_get_device, (&where)) == DRIVER_OK && where == device->handle) {
        device->context = current;
        return DCPK_OK;
    }
    result = CALL(driver, primary_retain, (&device->context, device->handle));
    if (result != DRIVER_OK) return FAILED(driver, primary_retain, result, error, "device %d", device->info.ordinal);
    device->retained = true;
    return DCPK_OK;
}

static dcpk_status make_stream(dcpk_device *device, dcpk_error *error) {
    bool pushed;
    dcpk_status status = dcpk_device_enter(device, &pushed, error);
    if (status != DCPK_OK) return status;
    status = dcpk_share_stream(device, &device->stream, error);
    dcpk_device_leave(device, pushed);
    return status;
}

static void release(dcpk_device *device) {
    const struct dcpk_driver *driver = &device->driver;
    bool pushed;
    if (device->stream != NULL && dcpk_device_enter(device, &pushed, NULL) == DCPK_OK) {
        (void)CALL(driver, stream_destroy, (device->stream));
        dcpk_device_leave(device, pushed);
    }
    dcpk_share_release(device);
    if (device->retained) (void)CALL(driver, primary_release, (device->handle));
    dcpk_driver_close(&device->driver);
    dcpk_workspace_end(device);
    free(device);
}

static dcpk_status settings(dcpk_device *device, const dcpk_device_options *options,
                            const struct runtime_environment *environment, int *multicast, dcpk_error *error) {
    int pdl = -1;
    dcpk_status status = parse_flag(options->pdl, "DCPK_PDL", environment->pdl, &pdl, error);
    if (status == DCPK_OK)
        status = parse_flag(options->multicast, "DCPK_MULTICAST", environment->multicast, multicast, error);
    if (status != DCPK_OK) return status;
    if (options->allow_unwatched != 0 && options->allow_unwatched != 1)
        return dcpk_error_set(error, DCPK_E_ARG, "allow_unwatched is %d: 1 or 0", options->allow_unwatched);
    device->pdl = pdl != 0;
    device->allow_unwatched = options->allow_unwatched == 1;
    device->blocking = environment->blocking != NULL && strcmp(environment->blocking, "0") != 0;
    device->connections = environment->connections != NULL ? atoi(environment->connections) : 0;
    device->log = options->log;
    device->log_self = options->log_self;
    return DCPK_OK;
}

dcpk_status dcpk_device_open(const dcpk_device_options *options, dcpk_device **out, dcpk_error *error) {
    if (out == NULL) return dcpk_error_set(error, DCPK_E_ARG, "dcpk_device_open: out is NULL");
    *out = NULL;
    static const dcpk_device_options standard = {.size = sizeof standard, .pdl = -1, .multicast = -1};
    dcpk_device_options given;
    dcpk_status status =
        dcpk_options_copy(&given, sizeof given, options != NULL ? options : &standard, "dcpk_device_options", error);
    if (status != DCPK_OK) return status;
    struct runtime_environment environment;
    runtime_environment_read(&environment);
    dcpk_device_words choice;
    status = choose(given.kind, &environment, &choice, error);
    if (status != DCPK_OK) return status;
    dcpk_device *device = calloc(1, sizeof *device);
    if (device == NULL) return dcpk_error_set(error, DCPK_E_NOMEM, "dcpk_device_open: out of memory");
    device->refs = 1;
    int multicast = -1, count = 0;
    bool cpu = false;
    status = settings(device, &given, &environment, &multicast, error);
    if (status == DCPK_OK) status = dcpk_driver_find(choice.kind, given.library, &device->driver, &cpu, &count, error);
    if (status != DCPK_OK) goto out;
    device->info.size = (uint32_t)sizeof device->info;
    device->info.count = count;
    strcpy(device->info.kind, cpu ? "cpu" : "cuda");
    device->multicast_wanted = multicast == -1 ? cpu : multicast == 1;
    status = pick(device, &choice, given.ordinal, error);
    if (status == DCPK_OK) status = ask(device, error);
    if (status == DCPK_OK) status = choose_context(device, given.share_count > 1, error);
    if (status == DCPK_OK) status = dcpk_share_take(device, given.share_index, given.share_count, error);
    if (status == DCPK_OK) status = make_stream(device, error);
out:
    if (status == DCPK_OK)
        *out = device;
    else
        release(device);
    return status;
}

void dcpk_device_ref(dcpk_device *device) {
    atomic_fetch_add_explicit(&device->refs, 1, memory_order_relaxed);
}

void dcpk_device_close(dcpk_device *device) {
    if (device != NULL && atomic_fetch_sub_explicit(&device->refs, 1, memory_order_acq_rel) == 1) release(device);
}

dcpk_status dcpk_device_enter(const dcpk_device *device, bool *pushed, dcpk_error *error) {
    cu_context current = NULL;
    *pushed = false;
    cu_result result = CALL(&device->driver, ctx_get_current, (&current));
    if (result != DRIVER_OK)
        return FAILED(&device->driver, ctx_get_current, result, error, "device %d", device->info.ordinal);
    if (current == device->context) return DCPK_OK;
    result = CALL(&device->driver, ctx_push, (device->context));
    if (result != DRIVER_OK) return FAILED(&device->driver, ctx_push, result, error, "device %d", device->info.ordinal);
    *pushed = true;
    return DCPK_OK;
}

void dcpk_device_leave(const dcpk_device *device, bool pushed) {
    cu_context popped;
    if (pushed) (void)CALL(&device->driver, ctx_pop, (&popped));
}

dcpk_status dcpk_device_get_info(const dcpk_device *device, dcpk_device_info *info, dcpk_error *error) {
    if (device == NULL || info == NULL)
        return dcpk_error_set(error, DCPK_E_ARG, "dcpk_device_get_info: %s is NULL", device ? "info" : "device");
    uint32_t size = info->size;
    memcpy(info, &device->info, size < sizeof *info ? size : sizeof *info);
    info->size = size;
    return DCPK_OK;
}

void *dcpk_device_symbol(const dcpk_device *device, const char *name) {
    return device != NULL && name != NULL ? dlsym(device->driver.library, name) : NULL;
}
