/* driver_object.c - user objects: things of the caller's that graphs hold, and whose owner hears when nobody does.
 *
 * The owner's function is called as the cu* call in which the last reference went ends, without the machine's lock,
 * from that call's thread. It may not call the driver: such calls give NOT_PERMITTED, as the driver's own thread would.
 */
#include "runtime/cpu/driver_graph.h"

#include <stdlib.h>

enum { MOST_REFERENCES = INT32_MAX };

struct user_object {
    void *self;
    cu_host_fn *destroy;
    unsigned references;
    struct user_object *next; /* of those dropped */
};

static _Thread_local bool calling_owner;

bool object_owner_runs(void) {
    return calling_owner;
}

void objects_tell(struct user_object *dropped) {
    while (dropped) {
        struct user_object *object = dropped;
        dropped = object->next;
        calling_owner = true;
        object->destroy(object->self);
        calling_owner = false;
        free(object);
    }
}

void objects_release(struct world *world, struct user_object *object, unsigned references) {
    object->references -= references;
    if (object->references) return;
    handle_remove(world, object);
    object->next = world->dropped;
    world->dropped = object;
}

void objects_forget(struct world *world) {
    const void *object;
    for (size_t at = 0; (object = handle_any(world, HANDLE_OBJECT, &at)) != NULL;)
        free((void *)(uintptr_t)object);
    while (world->dropped) {
        struct user_object *gone = world->dropped;
        world->dropped = gone->next;
        free(gone);
    }
}

cu_result cpu_user_object_create(cu_user_object *object, void *self, cu_host_fn *destroy, unsigned references,
                                 unsigned flags) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    if (!object || !destroy || references < 1 || references > MOST_REFERENCES || flags != DRIVER_USER_OBJECT_NO_SYNC) {
        call.result = R_CUDA_ERROR_INVALID_VALUE;
        return call_end(&call);
    }
    struct user_object *made = calloc(1, sizeof *made);
    if (!made || handle_add(call.world, made, HANDLE_OBJECT)) {
        free(made);
        call.result = R_CUDA_ERROR_OUT_OF_MEMORY;
        return call_end(&call);
    }
    *made = (struct user_object){.self = self, .destroy = destroy, .references = references};
    *object = made;
    return call_end(&call);
}

static struct user_object *object_of(struct call *call, cu_user_object handle, unsigned references) {
    if (references >= 1 && references <= MOST_REFERENCES && handle_is(call->world, handle, HANDLE_OBJECT))
        return handle;
    call->result = R_CUDA_ERROR_INVALID_VALUE;
    return NULL;
}

cu_result cpu_user_object_retain(cu_user_object handle, unsigned references) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    struct user_object *object = object_of(&call, handle, references);
    if (object) object->references += references;
    return call_end(&call);
}

cu_result cpu_user_object_release(cu_user_object handle, unsigned references) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    struct user_object *object = object_of(&call, handle, references);
    if (object && object->references < references)
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    else if (object)
        objects_release(call.world, object, references);
    return call_end(&call);
}

/* ---- of graphs ------------------------------------------------------------------------------------- */
static struct held_object *held_by(const struct graph *graph, const struct user_object *object) {
    for (unsigned i = 0; i < graph->object_count; i++)
        if (graph->objects[i].object == object) return &graph->objects[i];
    return NULL;
}

static struct held_object *hold(struct graph *graph, struct user_object *object) {
    struct held_object *held = held_by(graph, object);
    if (held) return held;
    struct held_object *more = realloc(graph->objects, (graph->object_count + 1) * sizeof *more);
    if (!more) return NULL;
    graph->objects = more;
    more[graph->object_count] = (struct held_object){.object = object};
    return &more[graph->object_count++];
}

/* MOVE: the caller's references become the graph's. */
cu_result cpu_graph_retain_object(cu_graph handle, cu_user_object object, unsigned references, unsigned flags) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    struct graph *graph = graph_of(&call, handle);
    struct user_object *which = graph ? object_of(&call, object, references) : NULL;
    bool move = (flags & DRIVER_GRAPH_OBJECT_MOVE) != 0;
    if (which && (flags & ~(unsigned)DRIVER_GRAPH_OBJECT_MOVE || (move && which->references < references))) {
        call.result = R_CUDA_ERROR_INVALID_VALUE;
        return call_end(&call);
    }
    struct held_object *held = which ? hold(graph, which) : NULL;
    if (which && !held) call.result = R_CUDA_ERROR_OUT_OF_MEMORY;
    if (held) held->references += references;
    if (held && !move) which->references += references;
    return call_end(&call);
}

cu_result cpu_graph_release_object(cu_graph handle, cu_user_object object, unsigned references) {
    struct call call;
    if (!call_begin(&call, NEEDS_INIT)) return call_end(&call);
    struct graph *graph = graph_of(&call, handle);
    struct user_object *which = graph ? object_of(&call, object, references) : NULL;
    struct held_object *held = which ? held_by(graph, which) : NULL;
    if (which && (!held || held->references < references)) {
        call.result = R_CUDA_ERROR_INVALID_VALUE;
    } else if (held) {
        held->references -= references;
        if (held->references == 0) *held = graph->objects[--graph->object_count];
        objects_release(call.world, which, references);
    }
    return call_end(&call);
}
