// compact: keeps what passes, in order, at the front of a block's part, by ballots and their counts; one atomic adds up the counts.
extern "C" __global__ void compact(const unsigned *in, unsigned *out, unsigned *counts, unsigned *total, unsigned limit) {
    __shared__ unsigned warps[8];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32, below;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    bool keep = in[i] < limit;
    unsigned mask = __ballot_sync(0xFFFFFFFFu, keep), rank = __popc(mask & below);
    if (lane == 0) warps[warp] = __popc(mask);
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned sum = 0;
        for (unsigned w = 0; w < 8; w++) {
            unsigned count = warps[w];
            warps[w] = sum;
            sum += count;
        }
        atomicAdd(total, sum);
        counts[blockIdx.x] = sum;
    }
    __syncthreads();
    if (keep) out[blockIdx.x * blockDim.x + warps[warp] + rank] = in[i];
}
