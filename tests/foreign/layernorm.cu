// layernorm: a warp a row of 256: Welford's mean and variance merged by shuffles, rsqrt, scale and shift.
extern "C" __global__ void layernorm(const float *in, const float *scale, const float *shift, float *out, float eps) {
    unsigned row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    float v[8], mean = 0.0f, squares = 0.0f, count = 0.0f;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        v[j] = in[row * 256 + j * 32 + lane];
        count += 1.0f;
        float delta = v[j] - mean;
        mean += delta / count;
        squares += delta * (v[j] - mean);
    }
    for (int step = 1; step < 32; step *= 2) {
        float other = __shfl_xor_sync(0xFFFFFFFFu, mean, step), theirs = __shfl_xor_sync(0xFFFFFFFFu, squares, step);
        float delta = other - mean;
        squares += theirs + delta * delta * count * 0.5f;
        mean = (mean + other) * 0.5f;
        count *= 2.0f;
    }
    float factor = rsqrtf(squares / 256.0f + eps);
#pragma unroll
    for (int j = 0; j < 8; j++) out[row * 256 + j * 32 + lane] = (v[j] - mean) * factor * scale[j * 32 + lane] + shift[j * 32 + lane];
}
