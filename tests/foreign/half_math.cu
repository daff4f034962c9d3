// half_math: half and half2 arithmetic, comparisons, conversions in every rounding, and the approximations.
#include <cuda_fp16.h>
extern "C" __global__ void half_math(const half *a, const half *b, half *exact, half *near, int *whole, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    half x = a[i], y = b[i];
    half2 p = __halves2half2(x, y), q = __halves2half2(y, x);
    half2 s = __hfma2(p, q, __float2half2_rn(0.5f));
    exact[i] = __hadd(x, y);
    exact[n + i] = __hmul(x, y);
    exact[2 * n + i] = __hfma(x, y, x);
    exact[3 * n + i] = __hmax(x, y);
    exact[4 * n + i] = __hmin_nan(x, y);
    exact[5 * n + i] = __low2half(s);
    exact[6 * n + i] = __high2half(__hsub2(p, q));
    exact[7 * n + i] = __hneg(__habs(x));
    exact[8 * n + i] = __hfma_relu(x, y, x);
    exact[9 * n + i] = __float2half_rz(__half2float(x) * 1.2345f);
    exact[10 * n + i] = __float2half_ru(__half2float(x) * 1.2345f);
    exact[11 * n + i] = __int2half_rn(__half2int_rz(x) * 3);
    exact[12 * n + i] = __hmul_sat(x, y);
    exact[13 * n + i] = hrint(x);
    near[i] = hexp2(__hmul(x, __float2half(0.125f)));
    near[n + i] = hsqrt(__habs(x));
    near[2 * n + i] = hrcp(__hadd(__habs(x), __float2half(0.25f)));
    near[3 * n + i] = htanh_approx(x);
    near[4 * n + i] = __hdiv(x, __hadd(__habs(y), __float2half(0.5f)));
    near[5 * n + i] = hlog2(__hadd(__habs(x), __float2half(0.25f)));
    whole[i] = __hlt(x, y) | __hgeu(x, y) << 1 | __hbeq2(p, q) << 2 | __hisnan(x) << 3 | (int)__heq(x, x) << 4;
    whole[n + i] = __half2int_rn(x) * 65536 + __half2short_rd(y);
    whole[2 * n + i] = (int)__half2uint_ru(__habs(x)) ^ __half_as_short(y);
}
