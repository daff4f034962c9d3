// bf16_math: bfloat16 and packed pairs: arithmetic, comparisons, conversions from float, double and integers.
#include <cuda_bf16.h>
extern "C" __global__ void bf16_math(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *exact, __nv_bfloat16 *near, unsigned *whole, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    __nv_bfloat16 x = a[i], y = b[i];
    __nv_bfloat162 p = __halves2bfloat162(x, y), q = __halves2bfloat162(y, x);
    exact[i] = __hadd(x, y);
    exact[n + i] = __hmul(x, y);
    exact[2 * n + i] = __hfma(x, y, x);
    exact[3 * n + i] = __hmin(x, y);
    exact[4 * n + i] = __high2bfloat16(__hfma2(p, q, q));
    exact[5 * n + i] = __float2bfloat16_rz(__bfloat162float(x) * 1.001f);
    exact[6 * n + i] = __float2bfloat16_rd(__bfloat162float(x) * 1.001f);
    exact[7 * n + i] = __double2bfloat16((double)__bfloat162float(x) * 1.00390625);
    exact[8 * n + i] = __int2bfloat16_rn(__bfloat162int_rz(x) * 257);
    exact[9 * n + i] = __low2bfloat16(__floats2bfloat162_rn(__bfloat162float(x) * 3.0f, 1.0f));
    exact[10 * n + i] = __hmax_nan(x, y);
    near[i] = hexp2(__hmul(x, __float2bfloat16(0.125f)));
    near[n + i] = hrsqrt(__hadd(__habs(x), __float2bfloat16(0.25f)));
    near[2 * n + i] = htanh_approx(x);
    whole[i] = __hlt(x, y) | __hne(x, y) << 1 | (__hgt2_mask(p, q) & 0x00010002u) << 2;
    whole[n + i] = (unsigned)__bfloat162int_rn(x) ^ (unsigned)__bfloat16_as_ushort(__hneg(y)) << 16;
}
