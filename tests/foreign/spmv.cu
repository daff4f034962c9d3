// spmv: a sparse matrix in rows (CSR) times a vector, a warp a row, f64.
extern "C" __global__ void spmv(const int *starts, const int *columns, const float *values, const double *x, double *y, int rows) {
    int row = (int)(blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    double sum = 0.0;
    for (int at = starts[row] + lane; at < starts[row + 1]; at += 32) sum = fma((double)values[at], x[columns[at]], sum);
    for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xFFFFFFFFu, sum, step);
    if (lane == 0) y[row] = sum;
}
