// gemm_wmma: D = 2 A B + C on tiles of 16 x 16 x 16 with nvcuda::wmma: f16 inputs, f32 sums; a warp a tile. A goes through shared
// memory; B is column-major.
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void gemm_wmma(const half *a, const half *b, const float *c, float *d, int m, int n, int k) {
    __shared__ half staged[4][16 * 16];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int row = (blockIdx.y * 2 + warp / 2) * 16, column = (blockIdx.x * 2 + warp % 2) * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum, start;
    wmma::fill_fragment(sum, 0.0f);
    for (int at = 0; at < k; at += 16) {
        for (int i = lane; i < 256; i += 32) staged[warp][i] = a[(row + i / 16) * k + at + i % 16];
        __syncwarp();
        wmma::load_matrix_sync(fa, staged[warp], 16);
        wmma::load_matrix_sync(fb, b + column * k + at, k);
        wmma::mma_sync(sum, fa, fb, sum);
        __syncwarp();
    }
    wmma::load_matrix_sync(start, c + row * n + column, n, wmma::mem_row_major);
    for (int i = 0; i < sum.num_elements; i++) sum.x[i] = 2.0f * sum.x[i] + start.x[i];
    wmma::store_matrix_sync(d + row * n + column, sum, n, wmma::mem_row_major);
}
