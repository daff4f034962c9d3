// pipeline_stages: cuda::pipeline of a block with memcpy_async of partial tiles; scaled sums a tile.
#include <cooperative_groups.h>
#include <cuda/pipeline>
namespace cg = cooperative_groups;
extern "C" __global__ void pipeline_stages(const int *in, int *out, unsigned tiles) {
    __shared__ alignas(16) int stage[2][128];
    auto block = cg::this_thread_block();
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipe = cuda::make_pipeline(block, &state);
    for (unsigned t = 0, ahead = 0; t < tiles; t++) {
        for (; ahead < tiles && ahead < t + 2; ahead++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, stage[ahead % 2], in + ahead * 128, cuda::aligned_size_t<16>(sizeof stage[0]), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        out[t * 128 + threadIdx.x] = stage[t % 2][threadIdx.x] * 3 + stage[t % 2][127 - threadIdx.x];
        pipe.consumer_release();
    }
}
