// barrier_wait: cuda::barrier in shared memory: arrive with a token, work, wait; then a phase in which half of the warps only arrive.
#include <cuda/barrier>
using barrier = cuda::barrier<cuda::thread_scope_block>;
extern "C" __global__ void barrier_wait(const int *in, int *out) {
    __shared__ int left[128];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier gate;
    if (threadIdx.x == 0) init(&gate, blockDim.x);
    __syncthreads();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    left[threadIdx.x] = in[i];
    auto token = gate.arrive();
    int own = in[i] * 5;
    gate.wait(std::move(token));
    own += left[(threadIdx.x + 33) % blockDim.x];
    gate.arrive_and_wait();
    left[threadIdx.x] = own;
    if (threadIdx.x < 64)
        (void)gate.arrive();
    else {
        gate.arrive_and_wait();
        own += left[threadIdx.x - 64];
    }
    out[i] = own;
}
