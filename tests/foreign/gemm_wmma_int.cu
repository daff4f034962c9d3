// gemm_wmma_int: s8 and u8 products with 32-bit sums, and bf16 ones of the narrow shapes (8 x 32 x 16, 32 x 8 x 16); one warp.
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;
template <class T> __device__ void integers(const T *a, const T *b, int *d) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> sum;
    wmma::fill_fragment(sum, 0);
    for (int k = 0; k < 64; k += 16) {
        wmma::load_matrix_sync(fa, a + k, 64);
        wmma::load_matrix_sync(fb, b + k * 16, 16);
        wmma::mma_sync(sum, fa, fb, sum);
    }
    wmma::store_matrix_sync(d, sum, 16, wmma::mem_col_major);
}
template <int M, int N> __device__ void narrow(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *d) {
    wmma::fragment<wmma::matrix_a, M, N, 16, __nv_bfloat16, wmma::col_major> fa;
    wmma::fragment<wmma::matrix_b, M, N, 16, __nv_bfloat16, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, M, N, 16, float> sum;
    wmma::fill_fragment(sum, 1.0f);
    wmma::load_matrix_sync(fa, a, M);
    wmma::load_matrix_sync(fb, b, N);
    wmma::mma_sync(sum, fa, fb, sum);
    wmma::store_matrix_sync(d, sum, N, wmma::mem_row_major);
}
extern "C" __global__ void gemm_wmma_int(const signed char *a, const signed char *b, const __nv_bfloat16 *h, int *d, float *f) {
    integers(a, b, d);
    integers(reinterpret_cast<const unsigned char *>(a), reinterpret_cast<const unsigned char *>(b), d + 256);
    narrow<8, 32>(h, h + 512, f);
    narrow<32, 8>(h, h + 512, f + 256);
}
