// attention: one query a warp against the keys of its head, running maximum and sum in base 2, half keys and values, 64 wide.
#include <cuda_fp16.h>
extern "C" __global__ void attention(const half *q, const half *k, const half *v, float *out, int keys, float scale) {
    unsigned lane = threadIdx.x, query = blockIdx.x * blockDim.y + threadIdx.y;
    float2 own = __half22float2(reinterpret_cast<const half2 *>(q)[query * 32 + lane]), sum = make_float2(0.0f, 0.0f);
    float most = -INFINITY, total = 0.0f;
    for (int j = 0; j < keys; j++) {
        float2 key = __half22float2(reinterpret_cast<const half2 *>(k)[j * 32 + lane]);
        float score = own.x * key.x + own.y * key.y;
        for (int step = 16; step > 0; step /= 2) score += __shfl_xor_sync(0xFFFFFFFFu, score, step);
        score *= scale * 1.44269504f;
        float now = fmaxf(most, score), old = exp2f(most - now), weight = exp2f(score - now);
        float2 value = __half22float2(reinterpret_cast<const half2 *>(v)[j * 32 + lane]);
        sum.x = sum.x * old + weight * value.x;
        sum.y = sum.y * old + weight * value.y;
        total = total * old + weight;
        most = now;
    }
    reinterpret_cast<float2 *>(out)[query * 32 + lane] = make_float2(sum.x / total, sum.y / total);
}
