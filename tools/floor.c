/* floor.c - see floor.h. May call: include/dcpk. Must not: run anything. */
#include <tools/floor.h>

#include <math.h>
#include <stddef.h>

enum { TOKEN = 576, LATENT = 512, NOPE = 128, VALUE = 128, HEAD_QUERY = 192, LSE_AND_ROW = 1028 };

double floor_exchange_us(double bytes) {
    static const struct {
        double bytes, us;
    } nodes[] = {{4 << 10, 1.45}, {64 << 10, 1.82}, {256 << 10, 2.4}, {1 << 20, 4.6}, {4 << 20, 13.6}, {16 << 20, 50}};
    enum { NODES = sizeof nodes / sizeof *nodes };
    if (bytes <= 0) return FLOOR_NODE_US;
    if (bytes <= nodes[0].bytes) return nodes[0].us;
    size_t i = 1;
    while (i + 1 < NODES && bytes > nodes[i].bytes)
        i++;
    double slope = (nodes[i].us - nodes[i - 1].us) / (nodes[i].bytes - nodes[i - 1].bytes);
    return nodes[i - 1].us + slope * (bytes - nodes[i - 1].bytes);
}

bool floor_of(const dcpk_spec *spec, double keys, double read_gbs, struct kernel_floor *floor) {
    double heads = spec->heads, batch = spec->batch, dcp = spec->dcp > 1 ? spec->dcp : 1;
    double q = spec->q > 1 ? spec->q : 1, rows = batch * heads, weights = 0;
    double query = floor_exchange_us((dcp - 1) * rows * TOKEN),
           output = floor_exchange_us((dcp - 1) * rows * LSE_AND_ROW);
    switch (dcpk_kernel_id_of(spec->kernel)) {
    case DCPK_KERNEL_query_norm:
        *floor = (struct kernel_floor){FLOOR_NODE_US, batch * 1536 * 4, 0};
        return true;
    case DCPK_KERNEL_query_push:
        *floor = (struct kernel_floor){query, dcp * rows * TOKEN, 0};
        return true;
    case DCPK_KERNEL_query_wait:
        *floor = (struct kernel_floor){FLOOR_NODE_US, dcp * rows * TOKEN, 0};
        return true;
    case DCPK_KERNEL_mla_query:
        weights = heads * ((double)HEAD_QUERY * spec->q_lora + (double)NOPE * LATENT);
        *floor = (struct kernel_floor){2 * weights / read_gbs / 1e3 + query, 2 * weights, 2 * batch * weights};
        return true;
    case DCPK_KERNEL_dcp_value:
        weights = heads * (double)VALUE * LATENT;
        *floor = (struct kernel_floor){2 * weights / read_gbs / 1e3 + output,
                                       2 * weights + rows * (dcp * LATENT + 2 * VALUE) * 2, 2 * batch * weights};
        return true;
    case DCPK_KERNEL_mla_decode:
        *floor = (struct kernel_floor){0, keys * TOKEN, 2 * q * dcp * heads * keys * (TOKEN + LATENT)};
        floor->us = fmax(2 + floor->bytes / 4.65e6, floor->flops / 900e6);
        return true;
    default:
        return false;
    }
}
