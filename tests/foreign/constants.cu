// constants: __constant__ tables of several types, a table of pointers into them, and __device__ variables with initial values.
struct row {
    float scale;
    short shift;
    const int *list;
};
__constant__ float coefficients[5] = {1.0f, -0.5f, 0.25f, -0.125f, 0.0625f};
__constant__ int primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
__device__ int squares[4] = {1, 4, 9, 16};
__device__ const int *lists[2] = {squares, squares + 1};
__constant__ row rows[2] = {{0.5f, -3, squares}, {2.0f, 7, squares + 2}};
__constant__ unsigned char codes[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
__device__ unsigned long long counter = 40;
extern "C" __global__ void constants(const float *in, float *out, int *whole, unsigned long long *count, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i], sum = 0.0f;
    for (int j = 4; j >= 0; j--) sum = fmaf(sum, x, coefficients[j]);
    out[i] = sum * rows[i & 1].scale;
    whole[i] = primes[i & 7] * 1000 + rows[i % 2].list[i / 2 % 2] * 100 + rows[i & 1].shift + lists[i & 1][i / 2 % 3] * codes[i & 15];
    if (i == n - 1) *count = counter + sizeof(row);
}
