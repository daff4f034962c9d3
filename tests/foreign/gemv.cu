// gemv: y = W x, bf16 weights in 16-byte loads, f32 sums, a warp a row.
#include <cuda_bf16.h>
extern "C" __global__ void gemv(const __nv_bfloat16 *__restrict__ w, const __nv_bfloat16 *__restrict__ x, float *y, int columns) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum = 0.0f;
    for (int c = lane * 8; c < columns; c += 256) {
        uint4 a = *reinterpret_cast<const uint4 *>(w + row * columns + c), b = __ldg(reinterpret_cast<const uint4 *>(x + c));
        const __nv_bfloat162 *p = reinterpret_cast<const __nv_bfloat162 *>(&a), *q = reinterpret_cast<const __nv_bfloat162 *>(&b);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float2 u = __bfloat1622float2(p[j]), v = __bfloat1622float2(q[j]);
            sum = fmaf(u.x, v.x, fmaf(u.y, v.y, sum));
        }
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
    if (lane == 0) y[row] = sum;
}
