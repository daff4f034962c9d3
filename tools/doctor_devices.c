/* doctor_devices.c - the drivers (GPUs', CPU device's), their devices, who reaches whose memory.
 *
 * Opens device 0 of each driver and asks about the others through the driver's own entry points, so that one context is
 * made, not one a device. Takes no memory, loads and starts nothing. Multicast: see doctor.h. */
#include "doctor.h"
#include "json_text.h"

#include <dcpk/runtime.h>

#include <stdio.h>
#include <string.h>

enum { /* CUdevice_attribute */
       ATTRIBUTE_SMS = 16,
       ATTRIBUTE_MAJOR = 75,
       ATTRIBUTE_MINOR = 76,
       ATTRIBUTE_MULTICAST = 132 /* CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: what the driver says; no object is made */
};
enum { NEEDED_VERSION = 12040 };

struct entry_points {
    int (*device_get)(int *device, int ordinal);
    int (*device_name)(char *name, int capacity, int device);
    int (*attribute)(int *value, int attribute, int device);
    int (*memory)(size_t *bytes, int device);
    int (*can_peer)(int *can, int device, int peer);
};

/* ISO C has no cast from an object pointer to a function pointer; POSIX promises that the bytes are the same. */
static void resolve(const dcpk_device *device, const char *name, void *pointer) {
    void *found = dcpk_device_symbol(device, name);
    memcpy(pointer, &found, sizeof found);
}

/* The exact form of the capability where the table has one, else the last of its major that runs there. */
static void choose_arch(struct doctor_device *device) {
    dcpk_arch_info row = {.size = sizeof row};
    for (uint32_t i = 0; dcpk_arch_at(i, &row); i++) {
        bool same = row.major == device->major && row.minor == device->minor;
        bool runs = row.exact ? same : row.major == device->major && row.minor <= device->minor;
        if (runs) snprintf(device->arch, sizeof device->arch, "%s", row.name);
        if (runs && row.exact) return;
    }
}

static int32_t attribute(const struct entry_points *f, int which, int device, int32_t unknown) {
    int value = 0;
    return f->attribute != NULL && f->attribute(&value, which, device) == 0 ? value : unknown;
}

static void look_at_device(const struct entry_points *f, struct doctor_device *device) {
    int handle = device->ordinal;
    size_t bytes = 0;
    if (f->device_get != NULL) f->device_get(&handle, device->ordinal);
    if (f->device_name == NULL || f->device_name(device->name, (int)sizeof device->name, handle) != 0)
        snprintf(device->name, sizeof device->name, "?");
    device->major = attribute(f, ATTRIBUTE_MAJOR, handle, 0);
    device->minor = attribute(f, ATTRIBUTE_MINOR, handle, 0);
    device->sms = attribute(f, ATTRIBUTE_SMS, handle, 0);
    device->multicast = attribute(f, ATTRIBUTE_MULTICAST, handle, -1);
    device->memory = f->memory != NULL && f->memory(&bytes, handle) == 0 ? (int64_t)bytes : -1;
    choose_arch(device);
}

static void look_at_peers(const struct entry_points *f, struct doctor_driver *driver) {
    for (int32_t i = 0; i < driver->count; i++)
        for (int32_t k = 0; k < driver->count; k++) {
            int can = 0, from = i, to = k;
            if (f->device_get != NULL && (f->device_get(&from, i) != 0 || f->device_get(&to, k) != 0)) can = -1;
            if (can == 0 && i != k && (f->can_peer == NULL || f->can_peer(&can, from, to) != 0)) can = -1;
            driver->peer[i][k] = (int8_t)(i == k || can > 0 ? 1 : can);
        }
}

/* What loading and launching call, and since when drivers have it. */
static void look_at_age(const dcpk_device *device, struct doctor_driver *driver) {
    static const char *const needed[] = {"cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction",
                                         "cuLaunchKernelEx", "cuFuncLoad"};
    const char *missing = NULL;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0] && missing == NULL; i++)
        if (dcpk_device_symbol(device, needed[i]) == NULL) missing = needed[i];
    if (strcmp(driver->kind, "cuda") == 0 && driver->version < NEEDED_VERSION && missing == NULL)
        missing = "cuFuncLoad";
    if (missing == NULL) return;
    driver->old = true;
    snprintf(driver->reason, sizeof driver->reason,
             "driver %d.%d is too old: kernels are loaded with %s; install a driver of CUDA %d.%d or newer",
             driver->version / 1000, driver->version % 1000 / 10, missing, NEEDED_VERSION / 1000,
             NEEDED_VERSION % 1000 / 10);
}

static void look_at_driver(struct doctor_driver *driver) {
    dcpk_device *device = NULL;
    dcpk_device_info info = {.size = sizeof info};
    dcpk_device_options wanted = {.size = sizeof wanted, .kind = driver->kind, .pdl = -1, .multicast = -1};
    dcpk_error error;
    dcpk_error_init(&error);
    if (dcpk_device_open(&wanted, &device, &error) != DCPK_OK ||
        dcpk_device_get_info(device, &info, &error) != DCPK_OK) {
        snprintf(driver->reason, sizeof driver->reason, "%.*s", (int)sizeof driver->reason - 1, error.text);
        dcpk_device_close(device);
        return;
    }
    struct entry_points f;
    resolve(device, "cuDeviceGet", &f.device_get);
    resolve(device, "cuDeviceGetName", &f.device_name);
    resolve(device, "cuDeviceGetAttribute", &f.attribute);
    resolve(device, "cuDeviceTotalMem_v2", &f.memory);
    resolve(device, "cuDeviceCanAccessPeer", &f.can_peer);
    driver->found = true;
    driver->version = info.driver_version;
    driver->count = info.count < DOCTOR_DEVICES ? info.count : DOCTOR_DEVICES;
    for (int32_t i = 0; i < driver->count; i++) {
        driver->device[i].ordinal = i;
        look_at_device(&f, &driver->device[i]);
    }
    look_at_peers(&f, driver);
    look_at_age(device, driver);
    dcpk_device_close(device);
}

static json_t *yes_no(int32_t value) {
    return value < 0 ? json_null() : json_boolean(value != 0);
}

static json_t *driver_json(const struct doctor_driver *driver) {
    json_t *devices = must(json_array()), *peers = must(json_array());
    for (int32_t i = 0; i < driver->count; i++) {
        const struct doctor_device *d = &driver->device[i];
        char capability[32];
        snprintf(capability, sizeof capability, "%d.%d", d->major, d->minor);
        json_t *row = must(json_pack("{s:i, s:o, s:s, s:s, s:i}", "ordinal", d->ordinal, "name", json_text(d->name),
                                     "capability", capability, "arch", d->arch, "sms", d->sms));
        json_object_set_new(row, "memory_bytes", d->memory < 0 ? json_null() : json_integer(d->memory));
        json_object_set_new(row, "multicast", yes_no(d->multicast));
        json_array_append_new(devices, row);
        row = must(json_array());
        for (int32_t k = 0; k < driver->count; k++)
            json_array_append_new(row, yes_no(driver->peer[i][k]));
        json_array_append_new(peers, row);
    }
    char version[32] = "";
    if (driver->found) snprintf(version, sizeof version, "%d.%d", driver->version / 1000, driver->version % 1000 / 10);
    return must(json_pack("{s:s, s:b, s:b, s:o, s:s, s:o, s:o}", "kind", driver->kind, "found", driver->found, "usable",
                          driver->found && !driver->old, "reason", json_text(driver->reason), "version", version,
                          "devices", devices, "peer_access", peers));
}

void doctor_devices(struct doctor *doctor) {
    json_t *drivers = must(json_array());
    doctor->cuda.kind = "cuda";
    doctor->cpu.kind = "cpu";
    look_at_driver(&doctor->cuda);
    look_at_driver(&doctor->cpu);
    json_array_append_new(drivers, driver_json(&doctor->cuda));
    json_array_append_new(drivers, driver_json(&doctor->cpu));
    json_object_set_new(doctor->whole, "drivers", drivers);
    const struct doctor_driver *cuda = &doctor->cuda, *cpu = &doctor->cpu;
    if (cuda->old) doctor_problem(doctor, "%s", cuda->reason);
    if (!cuda->found && strcmp(doctor->words.kind, "cuda") == 0)
        doctor_problem(doctor, "no cuda device: %s", cuda->reason);
    if (doctor->blocking && cuda->found && doctor->request.dcp == 1) /* more: doctor_serve refuses */
        doctor_note(doctor,
                    "CUDA_LAUNCH_BLOCKING is set: launches block, and ranks of one process are refused: unset it");
    if (!cpu->found) doctor_problem(doctor, "the CPU device does not open: %s", cpu->reason);
}
