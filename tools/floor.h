/* floor.h - the least time that a kernel could take on the reference machine (one H200, docs/measurements.md): bytes
 * over what it reads, operations over what it multiplies, a graph node under PDL. Pure arithmetic. */
#ifndef TOOLS_FLOOR_H
#define TOOLS_FLOOR_H

#include <dcpk/spec.h>

#include <stdbool.h>

/* The reference machine: GB/s of plain loads of 4 GiB by 528 CTAs, us of a dependent node of 132 CTAs under PDL. */
#define FLOOR_READ_GBS 4635.2
#define FLOOR_NODE_US 0.737

struct kernel_floor {
    double us;
    double bytes; /* that must be read and written */
    double flops; /* of matrix products */
};

/* spec: resolved. keys: cached tokens that its launch attends over, all requests of one rank together (mla_decode
 * alone reads it). read_gbs: what the machine reads, FLOOR_READ_GBS or measured. False: a kernel without a floor.
 *   mla_decode            max(2 us + KV bytes / 4.65 TB/s, flops / 900 TFLOP/s): a cold read costs its ramp
 *   mla_query, dcp_value  weights / read rate + one node, the exchange's where ranks exchange
 *   query_push            the exchange's node (query_wait ends it: its own is one node)
 *   query_norm            one node */
bool floor_of(const dcpk_spec *spec, double keys, double read_gbs, struct kernel_floor *floor);

/* A graph node that pushes so many bytes to peers, polls as many and re-arms, under PDL: measured from 4 KB to 16 MB,
 * linear between. 0 bytes: a plain node. */
double floor_exchange_us(double bytes);

#endif
