/* driver_handles.c - which pointers are live handles, and of what: a hash set, so that a wrong handle is an error code.
 *
 * Owns struct handles. Never follows a pointer that it is asked about. */
#include "runtime/cpu/driver.h"

#include <stdlib.h>

static size_t slot_of(const struct handles *handles, const void *pointer) {
    return (size_t)(((uint64_t)(uintptr_t)pointer >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (handles->capacity - 1);
}

static struct handle *find(const struct handles *handles, const void *pointer) {
    if (!handles->capacity || !pointer) return NULL;
    for (size_t i = slot_of(handles, pointer);; i = (i + 1) & (handles->capacity - 1)) {
        struct handle *slot = &handles->slots[i];
        if (slot->pointer == pointer) return slot;
        if (!slot->pointer && slot->kind == HANDLE_NONE) return NULL;
    }
}

static void put(struct handles *handles, const void *pointer, unsigned char kind) {
    size_t i = slot_of(handles, pointer);
    while (handles->slots[i].pointer)
        i = (i + 1) & (handles->capacity - 1);
    if (handles->slots[i].kind == HANDLE_NONE) handles->used++;
    handles->slots[i] = (struct handle){.pointer = pointer, .kind = kind};
}

static int grow(struct handles *handles) {
    struct handles bigger = {.capacity = handles->capacity ? handles->capacity * 2 : 256};
    bigger.slots = calloc(bigger.capacity, sizeof *bigger.slots);
    if (!bigger.slots) return -1;
    for (size_t i = 0; i < handles->capacity; i++)
        if (handles->slots[i].pointer) put(&bigger, handles->slots[i].pointer, handles->slots[i].kind);
    free(handles->slots);
    *handles = bigger;
    return 0;
}

int handle_add(struct world *world, const void *pointer, enum handle_kind kind) {
    struct handles *handles = &world->handles;
    if (handles->used * 2 >= handles->capacity && grow(handles)) return -1;
    put(handles, pointer, (unsigned char)kind);
    return 0;
}

void handle_remove(struct world *world, const void *pointer) {
    struct handle *slot = find(&world->handles, pointer);
    if (slot) slot->pointer = NULL; /* its kind stays: a bridge in the chain */
}

bool handle_is(const struct world *world, const void *pointer, enum handle_kind kind) {
    const struct handle *slot = find(&world->handles, pointer);
    return slot && slot->kind == kind;
}

const void *handle_any(const struct world *world, enum handle_kind kind, size_t *from) {
    while (*from < world->handles.capacity) {
        const struct handle *slot = &world->handles.slots[(*from)++];
        if (slot->pointer && slot->kind == kind) return slot->pointer;
    }
    return NULL;
}
