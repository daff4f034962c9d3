// histogram: 256 bins of bytes: atomics on shared counts, then on the grid's.
extern "C" __global__ void histogram(const unsigned char *in, unsigned *bins, unsigned n) {
    __shared__ unsigned mine[256];
    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) mine[i] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&mine[in[i]], 1u);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x)
        if (mine[i]) atomicAdd(&bins[i], mine[i]);
}
