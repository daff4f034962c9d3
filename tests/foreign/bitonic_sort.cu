// bitonic_sort: a block sorts 1024 keys with their positions in shared memory, 512 threads.
extern "C" __global__ void bitonic_sort(const int *in, int *keys, unsigned short *positions) {
    __shared__ int key[1024];
    __shared__ unsigned short position[1024];
    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x) {
        key[i] = in[blockIdx.x * 1024 + i];
        position[i] = (unsigned short)i;
    }
    __syncthreads();
    for (unsigned size = 2; size <= 1024; size *= 2)
        for (unsigned step = size / 2; step > 0; step /= 2) {
            unsigned i = 2 * threadIdx.x - (threadIdx.x & (step - 1)), j = i + step;
            bool up = (i & size) == 0, later = key[i] > key[j] || (key[i] == key[j] && position[i] > position[j]);
            if (later == up) {
                int k = key[i];
                key[i] = key[j];
                key[j] = k;
                unsigned short p = position[i];
                position[i] = position[j];
                position[j] = p;
            }
            __syncthreads();
        }
    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x) {
        keys[blockIdx.x * 1024 + i] = key[i];
        positions[blockIdx.x * 1024 + i] = position[i];
    }
}
