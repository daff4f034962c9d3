// softmax: a block a row: maximum, sum of exponentials, quotient.
__device__ float block_reduce(float v, bool largest) {
    __shared__ float part[32];
    for (int step = 16; step > 0; step /= 2) {
        float other = __shfl_xor_sync(0xFFFFFFFFu, v, step);
        v = largest ? fmaxf(v, other) : v + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = part[0];
    for (unsigned i = 1; i < blockDim.x / 32; i++) v = largest ? fmaxf(v, part[i]) : v + part[i];
    return v;
}
extern "C" __global__ void softmax(const float *in, float *out, unsigned columns) {
    const float *row = in + blockIdx.x * columns;
    float most = -INFINITY, sum = 0.0f;
    for (unsigned c = threadIdx.x; c < columns; c += blockDim.x) most = fmaxf(most, row[c]);
    most = block_reduce(most, true);
    for (unsigned c = threadIdx.x; c < columns; c += blockDim.x) sum += expf(row[c] - most);
    sum = block_reduce(sum, false);
    for (unsigned c = threadIdx.x; c < columns; c += blockDim.x) out[blockIdx.x * columns + c] = expf(row[c] - most) / sum;
}
