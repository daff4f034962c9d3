/* world_graph.c - launches of executable graphs: when a launch may begin, which nodes may start, when it is over.
 *
 * A launch is an OP_GRAPH in the stream that it was launched in; its nodes are ops of streams of their own, made with
 * it. It begins as any op does, and when every launch of the same executable before it has finished; then a node starts
 * when what it needs is done (a programmatic edge: by the rules of world_stream.c). Knows nodes by their numbers. */
#include "runtime/cpu/world.h"

#include <stdlib.h>

bool graph_is_node(const struct op *op) {
    return op->run && op->kind != OP_GRAPH;
}

struct graph_run *graph_run_make(struct graph_plan *plan) {
    struct graph_run *run = calloc(1, sizeof *run + plan->count * sizeof run->done[0]);
    if (!run) return NULL;
    run->plan = plan;
    run->left = plan->count;
    run->users = 1;
    plan->users++;
    return run;
}

void graph_run_add(struct graph_run *run, struct op *op, unsigned node) {
    op->run = run;
    op->node = node;
    run->users++;
}

void graph_run_launch(struct graph_run *run, struct op *op) {
    graph_run_add(run, op, 0);
    run->op = op;
    run->sequence = ++run->plan->launched;
}

const char *graph_obstacle(const struct op *op) {
    const struct graph_run *run = op->run;
    const struct graph_plan *plan = run->plan;
    if (op->kind == OP_GRAPH)
        return plan->finished + 1 < run->sequence ? "an earlier launch of the same executable graph" : NULL;
    if (!run->begun) return "its graph to begin";
    if (op->programmatic) return NULL; /* its one edge is the kernel before it */
    for (unsigned i = op->node ? plan->need_end[op->node - 1] : 0; i < plan->need_end[op->node]; i++)
        if (!run->done[plan->needs[i]]) return "a node of its graph";
    return NULL;
}

static void finish(struct world *world, struct graph_run *run) {
    run->plan->finished++;
    order_graph_done(world, run);
    stream_op_done(world, run->op);
}

void graph_run_begin(struct world *world, struct graph_run *run) {
    run->begun = true;
    world->dirty = true;
    if (run->left == 0) finish(world, run);
}

void graph_node_done(struct world *world, const struct op *op) {
    op->run->done[op->node] = true;
    if (--op->run->left == 0) finish(world, op->run);
}

void graph_plan_leave(struct world *world, struct graph_plan *plan) {
    if (--plan->users == 0) plan->drop(world, plan->owner);
}

void graph_run_leave(struct world *world, struct graph_run *run) {
    if (--run->users) return;
    graph_plan_leave(world, run->plan);
    view_free(&run->order);
    free(run);
}
