/* exec_lanes_avx2.c - the lane tables for x86-64 processors with AVX2 and FMA; NULL rows elsewhere, and lanes_best
 * never picks them. Owns lanes_avx2; see exec_lanes.h. */
#include <runtime/cpu/exec.h>
#ifdef __x86_64__
#include <math.h>
#include <string.h>
#include <immintrin.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,lzcnt,popcnt"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,bmi,bmi2,lzcnt,popcnt")
#endif
#define H(name) avx2_##name
#define TABLE lanes_avx2
#include <runtime/cpu/exec_lanes.h>
#ifdef __clang__
#pragma clang attribute pop
#endif
#else
op_fn *const lanes_avx2[L_COUNT] = {0};
#endif
