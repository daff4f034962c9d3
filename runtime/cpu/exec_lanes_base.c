/* exec_lanes_base.c - the lane tables for any processor. Owns lanes_base; see exec_lanes.h. */
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#define H(name) base_##name
#define TABLE lanes_base
#include <runtime/cpu/exec_lanes.h>
