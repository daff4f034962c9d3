/* rank_delays.c - see rank_delays.h. May call: include/dcpk, tools/layer_run.h. Template: tests/templates/delay. */
#include <tests/rank_delays.h>

#include <tools/numbers.h>

#include <string.h>

enum { DELAYS = 1024 }; /* as the template has it */

static dcpk_status open_rank(struct rank_delays *d, int32_t r, uint32_t most_ns, uint64_t seed, dcpk_error *error) {
    uint32_t list[DELAYS], zero = 0;
    struct random random;
    random_seed(&random, seed * 64 + (uint64_t)r + 1);
    for (int i = 0; i < DELAYS; i++)
        list[i] = random_below(&random, most_ns + 1);
    dcpk_status status = dcpk_mem_alloc(d->device[r], sizeof list, &d->list[r], error);
    if (status == DCPK_OK) status = dcpk_mem_write(d->device[r], d->list[r], list, sizeof list, error);
    if (status == DCPK_OK) status = dcpk_mem_alloc(d->device[r], 256, &d->count[r], error);
    return status == DCPK_OK ? dcpk_mem_write(d->device[r], d->count[r], &zero, sizeof zero, error) : status;
}

dcpk_status rank_delays_open(struct rank_delays *d, struct layer_run *run, uint32_t most_ns, uint64_t seed,
                             dcpk_error *error) {
    const struct rank_group *group = layer_run_group(run);
    dcpk_spec spec;
    memset(d, 0, sizeof *d);
    dcpk_status status = dcpk_spec_parse(&spec, "delay", error);
    if (status == DCPK_OK) status = dcpk_spec_resolve(&spec, error);
    for (int32_t r = 0; r < group->dcp && status == DCPK_OK; r++) {
        d->device[r] = group->rank[r].device;
        d->ranks = r + 1;
        status = kernel_set_load(layer_run_kernels(run), &spec, group->rank[r].device, group->rank[r].stream,
                                 &d->kernel[r], error);
        if (status == DCPK_OK) status = open_rank(d, r, most_ns, seed, error);
    }
    return status;
}

dcpk_status rank_delays_before(void *self, int32_t step, int32_t rank, bool first, void *stream, dcpk_error *error) {
    struct rank_delays *d = self;
    (void)step;
    if (rank >= d->ranks || (!first && !d->every)) return DCPK_OK;
    void *params[] = {&d->list[rank], &d->count[rank]};
    return dcpk_kernel_launch_raw(d->kernel[rank], 0, params, stream, DCPK_LAUNCH_NO_PDL, error);
}

void rank_delays_close(struct rank_delays *d) {
    for (int32_t r = 0; r < d->ranks; r++) {
        dcpk_kernel_free(d->kernel[r], NULL);
        if (d->list[r]) dcpk_mem_free(d->device[r], d->list[r], NULL);
        if (d->count[r]) dcpk_mem_free(d->device[r], d->count[r], NULL);
    }
    memset(d, 0, sizeof *d);
}
