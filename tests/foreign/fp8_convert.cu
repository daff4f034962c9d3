// fp8_convert: e4m3 and e5m2 from float, double, half and bf16, saturating and not, and back.
#include <cuda_bf16.h>
#include <cuda_fp8.h>
extern "C" __global__ void fp8_convert(const float *in, unsigned char *narrow, float *wide, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = in[i], w = in[i ^ 1];
    narrow[i] = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
    narrow[n + i] = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E5M2);
    narrow[2 * n + i] = __nv_cvt_float_to_fp8(v, __NV_NOSAT, __NV_E5M2);
    narrow[3 * n + i] = __nv_cvt_double_to_fp8((double)v * 1.0001, __NV_SATFINITE, __NV_E4M3);
    narrow[4 * n + i] = __nv_cvt_halfraw_to_fp8(__float2half(v), __NV_SATFINITE, __NV_E4M3);
    narrow[5 * n + i] = __nv_cvt_bfloat16raw_to_fp8(__float2bfloat16(v), __NV_SATFINITE, __NV_E5M2);
    narrow[6 * n + i] = (unsigned char)(__nv_cvt_float2_to_fp8x2(make_float2(v, w), __NV_SATFINITE, __NV_E4M3) >> 8);
    __nv_fp8_e4m3 a(v);
    __nv_fp8_e5m2 b(v);
    wide[i] = float(a);
    wide[n + i] = float(b);
    wide[2 * n + i] = __half2float(__half(__nv_cvt_fp8_to_halfraw(narrow[6 * n + i], __NV_E4M3)));
}
