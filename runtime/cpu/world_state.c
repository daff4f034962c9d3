/* world_state.c - the one machine of the process: its options, its birth and reset, its random numbers, its fault.
 *
 * Owns the struct world. The first fault is sticky, as a context's is on hardware: every later call gives it until
 * dcpkcpu_configure. May not look at streams or memory beyond creating and dropping them. */
#include "runtime/cpu/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct world machine;

struct world *world_machine(void) {
    return &machine;
}

void world_options_default(dcpkcpu_options *options) {
    *options = (dcpkcpu_options){.size = sizeof *options,
                                 .devices = 8,
                                 .sms = 132,
                                 .major = 9,
                                 .minor = 0,
                                 .multicast = 1,
                                 .schedule = DCPKCPU_FAIR,
                                 .seed = 0,
                                 .store_delay = 200,
                                 .livelock_rounds = 200000,
                                 .trace = 0};
}

static int begin_device(struct world *world, int ordinal) {
    struct device *device = &world->devices[ordinal];
    *device = (struct device){.ordinal = ordinal, .world = world, .speed = 1, .peers = UINT32_C(1) << ordinal};
    device->sms = calloc((size_t)world->options.sms, sizeof *device->sms);
    if (!device->sms) return -1;
    return stream_create(device, 0, true) ? 0 : -1;
}

int world_begin(struct world *world) {
    world->device_count = world->options.devices;
    world->random = world->options.seed * UINT64_C(0x9E3779B97F4A7C15) + UINT64_C(0xD1B54A32D192ED03);
    world->pulse = (struct pulse){0};
    world->counters = (dcpkcpu_counters){.size = sizeof world->counters};
    world->alive = true;
    order_begin(world);
    if (arena_begin(&world->arena) || wire_begin(&world->wire)) return -1;
    for (int i = 0; i < world->device_count; i++)
        if (begin_device(world, i)) return -1;
    wire_refresh_late(world);
    return 0;
}

static void end_device(struct device *device) {
    grid_drop_residents(device);
    while (device->streams)
        stream_destroy(device->streams);
    free(device->residents);
    free(device->sms);
    *device = (struct device){0};
}

void world_end(struct world *world) {
    order_end(world);
    wire_end(&world->wire);
    for (int i = 0; i < world->device_count; i++)
        end_device(&world->devices[i]);
    arena_end(&world->arena);
}

void world_reset(struct world *world) {
    dcpkcpu_options options = world->options;
    bool configured = world->configured;
    uint64_t life = world->life + 1;
    memset(world, 0, sizeof *world);
    world->options = options;
    world->configured = configured;
    world->life = life;
}

void world_fail(struct world *world, const struct fault *fault) {
    if (world->faulted) return;
    world->faulted = true;
    world->fault = *fault;
    memcpy(world->report, fault->text, sizeof world->report);
    world_trace(world, "fault %d: %s", fault->code, fault->text);
}

void world_fail_text(struct world *world, int code, const char *text) {
    struct fault fault = {.code = code};
    snprintf(fault.text, sizeof fault.text, "%s", text);
    world_fail(world, &fault);
}

/* splitmix64: any seed, 0 included, gives a good sequence. */
uint64_t world_random(struct world *world) {
    uint64_t z = world->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

uint32_t world_below(struct world *world, uint32_t bound) {
    return (uint32_t)((world_random(world) >> 32) * bound >> 32);
}

bool world_chance(struct world *world, unsigned one_in) {
    return world->options.schedule == DCPKCPU_RANDOM && world_below(world, one_in) == 0;
}

bool world_adverse(const struct world *world) {
    return world->options.schedule == DCPKCPU_RANDOM;
}

void text_add(char *text, size_t capacity, const char *format, ...) {
    size_t used = strlen(text);
    if (used + 1 >= capacity) return;
    va_list list;
    va_start(list, format);
    vsnprintf(text + used, capacity - used, format, list);
    va_end(list);
}

void world_trace(const struct world *world, const char *format, ...) {
    if (!world->options.trace) return;
    char line[512];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    fprintf(stderr, "dcpkcpu %llu ns: %s\n", (unsigned long long)world->time, line);
}

uint64_t world_time(const struct world *world) {
    return world->time;
}

unsigned world_smid(const struct warp *warp) {
    return ((const struct resident *)(const void *)warp->cta)->sm;
}

unsigned world_nsmid(const struct warp *warp) {
    return (unsigned)warp->cta->grid->device->world->options.sms;
}
