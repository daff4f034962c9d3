/* layer_plan.h - which kernels a layer step has, and their specs: what dcpk_layer_open loads and dcpk_layer_specs
 * tells, from one place. Internal to the runtime. */
#ifndef DCPK_RUNTIME_LAYER_PLAN_H
#define DCPK_RUNTIME_LAYER_PLAN_H

#include <dcpk/layer.h>

#include <stdbool.h>

/* The places of a step, in the order of their launches. A place without a kernel is passed over. */
enum layer_place { LAYER_FRONT, LAYER_WAIT, LAYER_DECODE, LAYER_VALUE, LAYER_PLACES };

struct layer_plan {
    bool used[LAYER_PLACES];
    dcpk_spec specs[LAYER_PLACES]; /* resolved, where used */
};

/* ARG: no base, or a form that is none. what: the call's name, for messages. */
dcpk_status layer_plan_check(const dcpk_layer_options *options, const char *what, dcpk_error *error);
/* Of options that were checked. dcp of base says whether there is a box. */
dcpk_status layer_plan_make(const dcpk_layer_options *options, struct layer_plan *plan, dcpk_error *error);

#endif
