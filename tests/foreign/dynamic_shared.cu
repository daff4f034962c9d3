// dynamic_shared: one dynamic array carved into doubles, ints and bytes, its size given by the launch.
extern __shared__ __align__(16) unsigned char pool[];
extern "C" __global__ void dynamic_shared(const int *in, double *out, unsigned per) {
    double *sums = reinterpret_cast<double *>(pool);
    int *values = reinterpret_cast<int *>(sums + blockDim.x);
    unsigned char *flags = reinterpret_cast<unsigned char *>(values + blockDim.x * per);
    for (unsigned j = 0; j < per; j++) {
        unsigned at = j * blockDim.x + threadIdx.x;
        values[at] = in[blockIdx.x * blockDim.x * per + at];
        flags[at] = values[at] % 3 == 0;
    }
    __syncthreads();
    double sum = 0.0;
    for (unsigned j = 0; j < per; j++) {
        unsigned at = (threadIdx.x + 1) % blockDim.x * per + j;
        if (flags[at]) sum += values[at] * 0.25;
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    unsigned size;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
    out[blockIdx.x * blockDim.x + threadIdx.x] = sums[blockDim.x - 1 - threadIdx.x] + size;
}
