/* kernel_time.h - one kernel launched over and over by itself, with inputs that rotate beyond a GPU's L2, so that no
 * call finds its own there: what a timer replays. Random numbers of usual size; results go nowhere.
 *
 * Owns the device memory of the inputs. Uses include/dcpk only; measures nothing itself. */
#ifndef TOOLS_KERNEL_TIME_H
#define TOOLS_KERNEL_TIME_H

#include <dcpk/runtime.h>

struct kernel_inputs;
struct kernel_wish {
    dcpk_device *device;
    void *stream;
    const dcpk_kernel *kernel;
    dcpk_box *box;                /* connected and idle; NULL for a kernel without one */
    const int32_t *lens, *totals; /* [batch/q] of this rank, as in args.def; mla_decode and dcp_value read them */
    int32_t most_sets;            /* of inputs; 0: as many as hardware wants */
};

/* NULL where the kernel of this resolved spec can be launched by itself as often as one likes; else why not. */
const char *kernel_alone(const dcpk_spec *spec);
dcpk_status kernel_inputs_open(const struct kernel_wish *wish, struct kernel_inputs **out, dcpk_error *error);
void kernel_inputs_close(struct kernel_inputs *inputs); /* NULL is fine; nothing may be running */
/* The i-th launch, inputs being a struct kernel_inputs: as gpu_timed. */
dcpk_status kernel_inputs_launch(void *inputs, int i, dcpk_error *error);
int kernel_inputs_calls(const struct kernel_inputs *inputs); /* launches for one graph: every set the same number */
int kernel_inputs_sets(const struct kernel_inputs *inputs);

#endif
