/* layer.h - the kernels of one layer step, launched in order with the right edges between them.
 *
 * A layer belongs to one rank's box and one batch shape. Loading happens in dcpk_layer_open; a step only launches.
 * Order of a step:
 *   push   query_push -> query_wait -> decode -> dcp_value (split=1: push, merge); the engine makes FP8 query rows and
 *          inserts the KV rows itself, before the step
 *   fused  mla_query (-> query_wait with poll=0) -> decode -> dcp_value
 * With dcp=1 there is no box: push is decode -> dcp_value, fused mla_query -> decode -> dcp_value.
 * The decode is the library's mla_decode (splits > 1: two kernels) or the caller's own. */
#ifndef DCPK_LAYER_H
#define DCPK_LAYER_H

#include <dcpk/box.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dcpk_layer dcpk_layer;

enum dcpk_layer_form { DCPK_LAYER_PUSH = 0, DCPK_LAYER_FUSED = 1 };

/* Called between the query half and dcp_value: launches what attends over the local shard and writes rows and
 * rows_lse. flags: what it should pass to its own launch (PDL is on inside a step; FIRST where it is the step's first,
 * push with dcp=1). */
typedef dcpk_status dcpk_decode_fn(void *self, const dcpk_args *args, dcpk_box *box, void *stream, uint32_t flags,
                                   dcpk_error *error);

typedef struct dcpk_layer_options {
    uint32_t size;
    const dcpk_provider *provider; /* where images come from */
    const dcpk_spec *base;         /* keys shared by the kernels: heads, dcp, batch, q, cap, qh, arch, gate, ...; kernel
                                      ignored; sms left open is the share's on a share of a device */
    dcpk_decode_fn *decode;        /* NULL: mla_decode */
    void *decode_self;
    int32_t form; /* enum dcpk_layer_form; poll, store_qc, rope, q_lora, ... of base are mla_query's */
} dcpk_layer_options;

/* The resolved specs whose images dcpk_layer_open would ask its provider for, in launch order: what an ahead-of-time
 * build or a warm-up wants. Reads base, decode (NULL or not) and form of options; sms left open is the architecture's.
 * ARG where capacity is too small (DCPK_LAYER_MAX_SPECS never is). The array's stride is
 * base->size, the caller's version of the struct, and each spec written has that size: dcpk_kernel_warm and
 * dcpk_gen_warm take the array as it is. */
enum { DCPK_LAYER_MAX_SPECS = 8 };
DCPK_API dcpk_status dcpk_layer_specs(const dcpk_layer_options *options, dcpk_spec *specs, uint32_t capacity,
                                      uint32_t *count, dcpk_error *error);
/* Loads the kernels. ARG for an event_ordered box: a step launches one rank's whole use, and such a box wants the
 * phases of all ranks in order. Drive it with dcpk_kernel_launch, one phase after the other with all ranks inside, each
 * after events of the one before: every rank's query_push or mla_query; every rank's query_wait, decode and push half
 * (split=1); every rank's merge half. */
DCPK_API dcpk_status dcpk_layer_open(dcpk_device *device, dcpk_box *box, const dcpk_layer_options *options,
                                     dcpk_layer **out, dcpk_error *error);
/* Bytes of args.workspace that a step needs, 0: none (a decode of the caller's own is its own business). Constant for
 * the layer's life; dcpk_spec_workspace says it before there is a layer, and when it must be armed: on sm_90a, unless
 * base says splits or pv=f16. Arming it always is right, too (dcpk_workspace_arm). */
DCPK_API dcpk_status dcpk_layer_workspace(const dcpk_layer *layer, uint64_t *bytes, dcpk_error *error);
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
