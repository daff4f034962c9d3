// async_copy: tiles of 1 KiB through three stages of shared memory by cp.async; each output adds its neighbours in the tile.
#include <cuda_pipeline.h>
extern "C" __global__ void async_copy(const float4 *in, float *out, int tiles) {
    __shared__ __align__(16) float4 stage[3][64];
    int first = blockIdx.x * tiles;
    for (int s = 0; s < 2; s++) {
        if (s < tiles) __pipeline_memcpy_async(&stage[s][threadIdx.x], &in[(first + s) * 64 + threadIdx.x], 16);
        __pipeline_commit();
    }
    for (int t = 0; t < tiles; t++) {
        if (t + 2 < tiles) __pipeline_memcpy_async(&stage[(t + 2) % 3][threadIdx.x], &in[(first + t + 2) * 64 + threadIdx.x], 16);
        __pipeline_commit();
        __pipeline_wait_prior(2);
        __syncthreads();
        const float *tile = reinterpret_cast<const float *>(stage[t % 3]);
        for (int j = 0; j < 4; j++) {
            int e = j * 64 + (int)threadIdx.x;
            out[(first + t) * 256 + e] = tile[e] + tile[(e + 1) % 256] + tile[(e + 255) % 256];
        }
        __syncthreads();
    }
}
