/* layer.h - the kernels of one layer step, launched in order with the right edges between them.
 *
 * A layer belongs to one rank's box and one batch shape. Loading happens in dcpk_layer_open; a step only launches.
 * Order of a step: query_push -> query_wait -> [the engine's decode] -> dcp_value (split=1: push, merge). */
#ifndef DCPK_LAYER_H
#define DCPK_LAYER_H

#include <dcpk/box.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dcpk_layer dcpk_layer;

/* Called between query_wait and dcp_value: launches what attends over the local shard and writes rows and
 * rows_lse. flags: what it should pass to its own launch (PDL is on inside a step). */
typedef dcpk_status dcpk_decode_fn(void *self, const dcpk_args *args, dcpk_box *box, void *stream, uint32_t flags,
                                   dcpk_error *error);

typedef struct dcpk_layer_options {
    uint32_t size;
    const dcpk_provider *provider; /* where images come from */
    const dcpk_spec
        *base; /* keys shared by the kernels: heads, dcp, batch, q, cap, qh, arch, gate, ...; kernel ignored */
    dcpk_decode_fn *decode;
    void *decode_self;
} dcpk_layer_options;

/* Loads the kernels. ARG for an event_ordered box: a step launches one rank's whole use, and such a box wants the
 * phases of all ranks in order. Drive it with dcpk_kernel_launch, one phase after the other with all ranks inside, each
 * after events of the one before: every rank's query_push; every rank's query_wait, decode and push half (split=1);
 * every rank's merge half. */
DCPK_API dcpk_status dcpk_layer_open(dcpk_device *device, dcpk_box *box, const dcpk_layer_options *options,
                                     dcpk_layer **out, dcpk_error *error);
/* As dcpk_kernel_free: a call that fails leaves the layer to be closed again (after BOX_BUSY for a graph it is whole;
 * after another failure it can do nothing else). A lost context: everything is given up, OK. NULL is fine. */
DCPK_API dcpk_status dcpk_layer_close(dcpk_layer *layer, dcpk_error *error);

/* Launches one use of the box on the stream. flags: enum dcpk_launch_flags (FIRST is implied for the first kernel;
 * NO_PDL and FRESH_WEIGHTS concern the edge before it, CHAIN_WAITS also the trigger of the last one). Refuses before it
 * launches anything. */
DCPK_API dcpk_status dcpk_layer_step(dcpk_layer *layer, const dcpk_args *args, void *stream, uint32_t flags,
                                     dcpk_error *error);

#ifdef __cplusplus
}
#endif
#endif
