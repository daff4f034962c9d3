// scan_block: inclusive prefix sums of one block's elements, 4 a thread, by shuffles and one array of warp totals.
extern "C" __global__ void scan_block(const unsigned *in, unsigned *out) {
    __shared__ unsigned total[32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint4 v = reinterpret_cast<const uint4 *>(in)[blockIdx.x * blockDim.x + threadIdx.x];
    v.y += v.x;
    v.z += v.y;
    v.w += v.z;
    unsigned sum = v.w;
    for (unsigned step = 1; step < 32; step *= 2) {
        unsigned left = __shfl_up_sync(0xFFFFFFFFu, sum, step);
        if (lane >= step) sum += left;
    }
    if (lane == 31) total[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        unsigned t = lane < blockDim.x / 32 ? total[lane] : 0;
        for (unsigned step = 1; step < 32; step *= 2) {
            unsigned left = __shfl_up_sync(0xFFFFFFFFu, t, step);
            if (lane >= step) t += left;
        }
        total[lane] = t;
    }
    __syncthreads();
    unsigned before = sum - v.w + (warp > 0 ? total[warp - 1] : 0);
    v.x += before;
    v.y += before;
    v.z += before;
    v.w += before;
    reinterpret_cast<uint4 *>(out)[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
