// topk: the 8 largest of a row, one after the other: each thread's best, then a warp's by shuffles of (value, index), then the block's.
extern "C" __global__ void topk(const float *in, float *values, int *indices, int n) {
    __shared__ float best[8];
    __shared__ int at[8];
    __shared__ unsigned taken[32];
    if (threadIdx.x < 32) taken[threadIdx.x] = 0;
    __syncthreads();
    const float *row = in + blockIdx.x * n;
    for (int k = 0; k < 8; k++) {
        float v = -INFINITY;
        int index = n;
        for (int i = threadIdx.x; i < n; i += blockDim.x)
            if (!(taken[i >> 5] >> (i & 31) & 1) && row[i] > v) v = row[i], index = i;
        for (int step = 16; step > 0; step >>= 1) {
            float ov = __shfl_down_sync(0xFFFFFFFFu, v, step);
            int oi = __shfl_down_sync(0xFFFFFFFFu, index, step);
            if (ov > v || (ov == v && oi < index)) v = ov, index = oi;
        }
        if (threadIdx.x % 32 == 0) best[threadIdx.x / 32] = v, at[threadIdx.x / 32] = index;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (unsigned w = 1; w < blockDim.x / 32; w++)
                if (best[w] > best[0] || (best[w] == best[0] && at[w] < at[0])) best[0] = best[w], at[0] = at[w];
            values[blockIdx.x * 8 + k] = best[0];
            indices[blockIdx.x * 8 + k] = at[0];
            taken[at[0] >> 5] |= 1u << (at[0] & 31);
        }
        __syncthreads();
    }
}
