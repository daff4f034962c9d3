/* rank_delays.c - see rank_delays.h. May call: include/dcpk, tools/layer_run.h. Template: tests/templates/delay. */
#include <tests/rank_delays.h>

#include <tools/numbers.h>
#include <tools/tool_error.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DELAYS = 1024 }; /* as the template has it */

static dcpk_status open_rank(struct rank_delays *d, int32_t r, uint32_t most_ns, uint64_t seed, dcpk_error *error) {
    static const uint64_t none[2];
    uint32_t *list = malloc(DELAYS * sizeof *list);
    struct random random;
    if (!list) return tool_fail(error, DCPK_E_NOMEM, "no memory for delays");
    d->ns[r] = list;
    random_seed(&random, seed * 64 + (uint64_t)r + 1);
    for (int i = 0; i < DELAYS; i++)
        list[i] = random_below(&random, most_ns + 1);
    dcpk_status status = dcpk_mem_alloc(d->device[r], DELAYS * sizeof *list, &d->list[r], error);
    if (status == DCPK_OK) status = dcpk_mem_write(d->device[r], d->list[r], list, DELAYS * sizeof *list, error);
    if (status == DCPK_OK) status = dcpk_mem_alloc(d->device[r], 256, &d->count[r], error);
    return status == DCPK_OK ? dcpk_mem_write(d->device[r], d->count[r], none, sizeof none, error) : status;
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

dcpk_status rank_delays_look(struct rank_delays *d, uint64_t launches, char why[128], dcpk_error *error) {
    why[0] = '\0';
    for (int32_t r = 0; r < d->ranks; r++) {
        uint64_t done[2], least = 0; /* launches, ns */
        dcpk_status status = dcpk_mem_read(d->device[r], done, d->count[r], sizeof done, error);
        if (status != DCPK_OK) return status;
        for (uint64_t i = 0; i < done[0]; i++)
            least += d->ns[r][i % DELAYS];
        uint64_t since = done[0] - d->launches[r];
        d->launches[r] = done[0];
        if (since < launches)
            snprintf(why, 128, "rank %d was late %llu times, not %llu: its delays did not run", r,
                     (unsigned long long)since, (unsigned long long)launches);
        else if (done[1] < least)
            snprintf(why, 128, "rank %d was late for %llu ns in all, its list says %llu", r,
                     (unsigned long long)done[1], (unsigned long long)least);
        if (why[0] != '\0') return DCPK_OK;
    }
    return DCPK_OK;
}

void rank_delays_close(struct rank_delays *d) {
    for (int32_t r = 0; r < d->ranks; r++) {
        dcpk_kernel_free(d->kernel[r], NULL);
        if (d->list[r]) dcpk_mem_free(d->device[r], d->list[r], NULL);
        if (d->count[r]) dcpk_mem_free(d->device[r], d->count[r], NULL);
        free(d->ns[r]);
    }
    memset(d, 0, sizeof *d);
}
