// matmul_tiled: C = A B in f32, tiles of 16 in shared memory, sizes that tiles do not divide.
extern "C" __global__ void matmul_tiled(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float sa[16][16], sb[16][17];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int at = 0; at < k; at += 16) {
        sa[threadIdx.y][threadIdx.x] = row < m && at + (int)threadIdx.x < k ? a[row * k + at + threadIdx.x] : 0.0f;
        sb[threadIdx.y][threadIdx.x] = column < n && at + (int)threadIdx.y < k ? b[(at + threadIdx.y) * n + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; j++) sum += sa[threadIdx.y][j] * sb[j][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}
