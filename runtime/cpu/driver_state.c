/* driver_state.c - the life of the machine: cuInit, the dcpkcpu_* extensions, and dropping everything at a reset.
 *
 * The environment is read here alone, once, at cuInit. */
#include "runtime/cpu/driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void driver_reset(struct world *world) {
    const void *object;
    executables_forget(world);
    graphs_forget(world);
    objects_forget(world);
    for (size_t at = 0; (object = handle_any(world, HANDLE_LIBRARY, &at)) != NULL;)
        library_free(world, (struct library *)(uintptr_t)object);
    for (size_t at = 0; (object = handle_any(world, HANDLE_EVENT, &at)) != NULL;) {
        mark_drop((struct event *)(uintptr_t)object);
        free((void *)(uintptr_t)object);
    }
    captures_forget(world);
    for (size_t at = 0; (object = handle_any(world, HANDLE_MEMORY, &at)) != NULL;) {
        struct memory *memory = (struct memory *)(uintptr_t)object;
        if (memory->multicast) free(memory->multicast->parts);
        free(memory->multicast);
        free(memory);
    }
    free(world->handles.slots);
    free(world->reservations);
}

/* A decimal number of the variable; absent or empty leaves *value. False: no number, or out of range. */
static bool read_number(const char *name, uint64_t least, uint64_t most, uint64_t *value, bool *given) {
    const char *text = getenv(name);
    *given = text && *text;
    if (!*given) return true;
    errno = 0;
    unsigned long long number = strtoull(text, NULL, 10);
    if (errno || strspn(text, "0123456789") != strlen(text) || number < least || number > most) return false;
    *value = number;
    return true;
}

/* Settles memory_checker where it was left open. */
static bool checker_from_environment(dcpkcpu_options *options) {
    uint64_t check = 0;
    bool given, good = read_number("DCPK_CPU_CHECK", 0, 1, &check, &given);
    if (options->memory_checker == DCPKCPU_CHECKER_AUTO)
        options->memory_checker = check ? DCPKCPU_CHECKER_ON : DCPKCPU_CHECKER_OFF;
    return good;
}

/* "9.0"; absent or empty leaves it. */
static bool capability_from_environment(dcpkcpu_options *options) {
    const char *text = getenv("DCPK_CPU_CAPABILITY");
    if (!text || !*text) return true;
    size_t digits = strspn(text, "0123456789");
    const char *minor = text + digits + 1;
    if (digits < 1 || digits > 2 || text[digits] != '.' || strspn(minor, "0123456789") != 1 || minor[1]) return false;
    options->major = (int32_t)strtol(text, NULL, 10);
    options->minor = *minor - '0';
    return options->major >= 1;
}

static bool options_from_environment(dcpkcpu_options *options) {
    uint64_t devices = (uint64_t)options->devices, sms = (uint64_t)options->sms;
    bool seeded = false, given;
    bool good = checker_from_environment(options) && capability_from_environment(options) &&
                read_number("DCPK_CPU_SEED", 0, UINT64_MAX, &options->seed, &seeded) &&
                read_number("DCPK_CPU_DEVICES", 1, MAX_DEVICES, &devices, &given) &&
                read_number("DCPK_CPU_SMS", 1, 1024, &sms, &given);
    options->devices = (int32_t)devices;
    options->sms = (int32_t)sms;
    if (seeded) options->schedule = DCPKCPU_RANDOM;
    return good;
}

cu_result machine_init(struct world *world) {
    if (world->alive) return R_CUDA_SUCCESS;
    if (!world->configured) {
        world_options_default(&world->options);
        if (!options_from_environment(&world->options)) return R_CUDA_ERROR_INVALID_VALUE;
    } else if (!checker_from_environment(&world->options)) {
        return R_CUDA_ERROR_INVALID_VALUE;
    }
    if (world_begin(world) == 0) return R_CUDA_SUCCESS;
    world_end(world);
    world_reset(world);
    return R_CUDA_ERROR_OUT_OF_MEMORY;
}

static bool in_range(const dcpkcpu_options *o) {
    return o->devices >= 1 && o->devices <= MAX_DEVICES && o->sms >= 1 && o->sms <= 1024 && o->major >= 1 &&
           o->major <= 99 && o->minor >= 0 && o->minor <= 9 && (o->multicast == 0 || o->multicast == 1) &&
           (o->schedule == DCPKCPU_FAIR || o->schedule == DCPKCPU_RANDOM) && o->store_delay >= 0 &&
           o->store_delay <= 1000000 && o->livelock_rounds >= 1 && (o->trace == 0 || o->trace == 1) &&
           o->memory_checker >= DCPKCPU_CHECKER_AUTO && o->memory_checker <= DCPKCPU_CHECKER_OFF &&
           (o->races_allowed == 0 || o->races_allowed == 1) && o->store_tracking >= DCPKCPU_TRACKING_AUTO &&
           o->store_tracking <= DCPKCPU_TRACKING_OFF;
}

int dcpkcpu_configure(const dcpkcpu_options *options) {
    dcpkcpu_options wanted;
    world_options_default(&wanted);
    if (options && (options->size < sizeof options->size || options->size > sizeof wanted)) return -1;
    if (options) memcpy(&wanted, options, options->size);
    wanted.size = sizeof wanted;
    if (!in_range(&wanted)) return -1;
    struct call call;
    call_begin(&call, NEEDS_NOTHING);
    if (call.world->alive) {
        world_end(call.world);
        driver_reset(call.world);
    }
    world_reset(call.world);
    call.world->options = wanted;
    call.world->configured = options != NULL;
    call_end(&call);
    return 0;
}

const char *dcpkcpu_report(void) {
    struct call call;
    call_begin(&call, NEEDS_NOTHING);
    static _Thread_local char report[sizeof call.world->report]; /* other threads may cause another meanwhile */
    memcpy(report, call.world->report, sizeof report);
    call_end(&call);
    return report;
}

static struct device *device_number(struct call *call, int ordinal) {
    bool good = call->world->alive && ordinal >= 0 && ordinal < call->world->device_count;
    return good ? &call->world->devices[ordinal] : NULL;
}

int dcpkcpu_stall(int ordinal, const char *entry, uint64_t after) {
    struct call call;
    call_begin(&call, NEEDS_NOTHING);
    struct device *device = device_number(&call, ordinal);
    bool good =
        device && device->stall_count < MAX_STALLS && (!entry || strlen(entry) < sizeof device->stalls[0].entry);
    if (good) {
        struct stall *stall = &device->stalls[device->stall_count++];
        *stall = (struct stall){.after = after};
        if (entry) memcpy(stall->entry, entry, strlen(entry) + 1);
    }
    call_end(&call);
    return good ? 0 : -1;
}

int dcpkcpu_release(int ordinal) {
    struct call call;
    call_begin(&call, NEEDS_NOTHING);
    struct device *device = device_number(&call, ordinal);
    if (device) grid_unstall(device);
    call_end(&call);
    return device ? 0 : -1;
}

int dcpkcpu_hold_stores(int from, int to, int hold) {
    struct call call;
    call_begin(&call, NEEDS_NOTHING);
    struct device *device = device_number(&call, from);
    bool good = device && (to == -1 || device_number(&call, to));
    if (good) {
        uint32_t mask = to == -1 ? UINT32_MAX : UINT32_C(1) << to;
        device->held_to = hold ? device->held_to | mask : device->held_to & ~mask;
        if (to == -1) device->hold_host = hold != 0;
        device->held_to &= ~(UINT32_C(1) << from); /* its own memory is never far */
        wire_hold_changed(call.world, from);
    }
    call_end(&call);
    return good ? 0 : -1;
}

int dcpkcpu_get_counters(dcpkcpu_counters *counters) {
    if (!counters || counters->size < sizeof counters->size) return -1;
    struct call call;
    call_begin(&call, NEEDS_NOTHING);
    uint32_t size = counters->size < sizeof *counters ? counters->size : (uint32_t)sizeof *counters;
    dcpkcpu_counters now = call.world->counters;
    now.rounds = call.world->round;
    now.virtual_ns = call.world->time;
    memcpy(counters, &now, size);
    counters->size = size;
    call_end(&call);
    return 0;
}

int dcpkcpu_mark(uint64_t address, uint64_t bytes, int mark) {
    struct call call;
    call_begin(&call, NEEDS_NOTHING);
    int result = call.world->alive ? memory_mark(call.world, address, bytes, mark) : -1;
    call_end(&call);
    return result;
}

int dcpkcpu_flip_bit(uint64_t address, int bit) {
    struct call call;
    call_begin(&call, NEEDS_NOTHING);
    struct mapping *mapping = call.world->alive && bit >= 0 && bit < 8 ? memory_range(call.world, address, 1) : NULL;
    bool good = mapping && mapping->home;
    if (good) mapping->home[address - mapping->start] ^= (uint8_t)(1u << bit);
    call_end(&call);
    return good ? 0 : -1;
}
