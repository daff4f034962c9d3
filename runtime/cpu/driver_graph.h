/* driver_graph.h - graphs and the captures that make them, from within.
 *
 * driver_capture.c: which stream captures into what, and what that forbids; driver_capture_event.c: events in captures;
 * driver_graph.c: graphs and nodes; driver_replay.c: executables and their launches; driver_object.c: user objects.
 * Objects are counted: a graph lives as long as its handle, its executables and their launches need it. */
#ifndef DCPK_CPU_DRIVER_GRAPH_H
#define DCPK_CPU_DRIVER_GRAPH_H

#include "runtime/cpu/driver.h"

struct graph_node {
    enum op_kind kind; /* OP_RECORD, OP_WAIT: of an external event; OP_GRAPH: a child graph */
    struct graph *graph;
    unsigned index;        /* in graph->nodes; a node's needs have smaller ones */
    unsigned chain;        /* the stream of its capture, counted from 0: nodes of one are ordered */
    struct device *device; /* of that stream */
    int priority;          /* of that stream */
    bool programmatic;     /* kernel: its only edge is of that type */
    unsigned need_count;
    struct graph_node **needs;
    struct launch *launch; /* kernel: never started, copied by each launch of the graph */
    const struct library *library;
    uint64_t library_serial; /* of it: another may lie there */
    struct transfer transfer;
    struct event *event;
    struct graph *child;
};

struct held_object {
    struct user_object *object;
    unsigned references;
};

struct graph {
    unsigned users;
    bool capturing; /* into it */
    bool destroyed; /* its handle is no longer the caller's */
    struct graph_node **nodes;
    unsigned count, capacity;
    unsigned chains;
    struct held_object *objects;
    unsigned object_count;
};

/* The nodes on which the next one depends. */
struct frontier {
    struct graph_node **nodes;
    unsigned count;
    bool own; /* one node, the stream's latest, and no event was waited for since */
};

struct participant { /* a stream of a capture */
    struct stream *stream;
    struct frontier frontier;
    unsigned chain;
    struct participant *next;
};

enum capture_state { CAPTURE_ACTIVE, CAPTURE_INVALIDATED, CAPTURE_OVER };

struct capture {
    uint64_t id, thread;
    int mode;
    enum capture_state state;
    unsigned users;                   /* itself while it is under way, marks of events */
    struct participant *participants; /* the first is of the stream in which it began */
    struct graph *graph;
    struct capture *next; /* of those under way */
};

struct mark { /* an event's, last recorded in a capture */
    struct capture *capture;
    struct frontier frontier;
};

/* driver_capture.c */
struct participant *capture_part(const struct stream *stream); /* NULL: it does not capture */
void capture_invalidate(struct capture *capture);
struct participant *capture_join(struct call *call, struct capture *capture, struct stream *stream,
                                 const struct frontier *from);        /* NULL: result set */
void capture_leave(struct capture *capture);                          /* a user less */
bool frontier_copy(struct frontier *to, const struct frontier *from); /* false: out of memory */
bool frontier_add(struct frontier *to, const struct frontier *from);  /* what it lacks */
/* A node that depends on what the stream has captured so far, and becomes that. NULL: result set, capture invalid. */
struct graph_node *capture_node(struct call *call, struct stream *stream, enum op_kind kind);

/* driver_graph.c */
struct graph *graph_make(struct world *world);              /* one user; NULL: out of memory */
void graph_leave(struct world *world, struct graph *graph); /* a user less */
struct graph_node *graph_add(struct world *world, struct graph *graph, enum op_kind kind,
                             const struct frontier *needs); /* NULL: out of memory */
struct graph *graph_of(struct call *call, cu_graph handle); /* NULL: result set */

/* driver_object.c */
void objects_release(struct world *world, struct user_object *object, unsigned references);

#endif
