// lookback: a decoupled look-back: 64-bit prefixes of blocks published by a flag each, released and acquired.
#include <cuda/atomic>
extern "C" __global__ void lookback(const unsigned *in, unsigned long long *out, unsigned long long *prefix, unsigned *flags) {
    __shared__ unsigned long long sums[128];
    __shared__ unsigned long long before;
    unsigned i = blockIdx.x * 128 + threadIdx.x;
    sums[threadIdx.x] = in[i];
    __syncthreads();
    for (unsigned step = 1; step < 128; step *= 2) {
        unsigned long long left = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += left;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        before = 0;
        if (blockIdx.x > 0) {
            cuda::atomic_ref<unsigned, cuda::thread_scope_device> left(flags[blockIdx.x - 1]);
            while (left.load(cuda::memory_order_acquire) != 1) {
            }
            before = prefix[blockIdx.x - 1];
        }
        prefix[blockIdx.x] = before + sums[127];
        cuda::atomic_ref<unsigned, cuda::thread_scope_device> own(flags[blockIdx.x]);
        own.store(1, cuda::memory_order_release);
    }
    __syncthreads();
    out[i] = before + sums[threadIdx.x];
}
