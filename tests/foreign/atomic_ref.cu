// atomic_ref: cuda::atomic_ref of block and device scope: a flag with release and acquire between two warps, tickets with acq_rel,
// fetch_max, compare_exchange, relaxed and volatile loads.
#include <cuda/atomic>
extern "C" __global__ void atomic_ref(const int *in, int *out, unsigned *tickets, int *most, volatile int *seen) {
    __shared__ int box[32], flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    cuda::atomic_ref<int, cuda::thread_scope_block> ready(flag);
    unsigned lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        box[lane] = in[blockIdx.x * 32 + lane] * 3;
        __syncwarp();
        if (lane == 0) ready.store(1, cuda::std::memory_order_release);
    } else {
        while (ready.load(cuda::std::memory_order_acquire) == 0) __nanosleep(20);
        out[blockIdx.x * 32 + lane] = box[31 - lane] + 1;
    }
    if (threadIdx.x == 32) {
        cuda::atomic_ref<unsigned, cuda::thread_scope_device> ticket(tickets[0]);
        unsigned mine = ticket.fetch_add(1, cuda::std::memory_order_acq_rel);
        cuda::atomic_ref<int, cuda::thread_scope_device> best(*most);
        best.fetch_max(in[blockIdx.x * 32], cuda::std::memory_order_relaxed);
        cuda::atomic_ref<unsigned, cuda::thread_scope_system> total(tickets[1]);
        unsigned expected = total.load(cuda::std::memory_order_relaxed);
        while (!total.compare_exchange_weak(expected, expected + mine + 1, cuda::std::memory_order_seq_cst)) {
        }
        seen[blockIdx.x] = seen[blockIdx.x] + 5;
        cuda::atomic_thread_fence(cuda::std::memory_order_seq_cst, cuda::thread_scope_device);
    }
}
