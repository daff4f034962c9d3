// atomics: every atomic function on global and shared memory, and compare-and-swap loops of their own: float maximum, double product
// of powers of two, byte add. Their first look is volatile: a plain one would race with the others' atomics.
__device__ void max_float(float *at, float v) {
    int old = __float_as_int(*const_cast<volatile float *>(at)), seen;
    do {
        seen = old;
        if (__int_as_float(seen) >= v) break;
        old = atomicCAS(reinterpret_cast<int *>(at), seen, __float_as_int(v));
    } while (old != seen);
}
__device__ void scale_double(double *at, double v) {
    unsigned long long *word = reinterpret_cast<unsigned long long *>(at), old = *const_cast<volatile unsigned long long *>(word), seen;
    do {
        seen = old;
        old = atomicCAS(word, seen, __double_as_longlong(v * __longlong_as_double(seen)));
    } while (old != seen);
}
__device__ void add_byte(unsigned *word, unsigned byte, unsigned v) {
    unsigned old = *const_cast<volatile unsigned *>(word), seen;
    do {
        seen = old;
        unsigned sum = ((seen >> byte * 8 & 255) + v) & 255;
        old = atomicCAS(word, seen, (seen & ~(255u << byte * 8)) | sum << byte * 8);
    } while (old != seen);
}
extern "C" __global__ void atomics(const int *in, int *ints, unsigned long long *wide, float *floats, double *doubles, unsigned *bytes) {
    __shared__ int mine[8];
    if (threadIdx.x < 8) mine[threadIdx.x] = threadIdx.x == 3 ? 0x7FFFFFFF : threadIdx.x == 5 ? -1 : 0;
    __syncthreads();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = in[i];
    atomicAdd(&mine[0], v);
    atomicSub(&mine[1], v);
    atomicMax(&mine[2], v);
    atomicMin(&mine[3], v);
    atomicOr(&mine[4], v);
    atomicAnd(&mine[5], v);
    atomicXor(&mine[6], v);
    atomicInc(reinterpret_cast<unsigned *>(&mine[7]), 100u);
    __syncthreads();
    if (threadIdx.x < 8) atomicAdd(&ints[threadIdx.x], mine[threadIdx.x]);
    atomicDec(reinterpret_cast<unsigned *>(&ints[8]), 77u);
    atomicAdd(&wide[0], (unsigned long long)v << 20);
    atomicMax(&wide[1], (unsigned long long)(unsigned)v << 8);
    atomicMin(reinterpret_cast<long long *>(&wide[2]), (long long)v << 9);
    atomicOr(&wide[3], 1ull << (v & 63));
    if (i == 77) wide[4] = atomicExch(&wide[5], 0x0123456789ABCDEFull);
    atomicAdd(&floats[0], (float)(v & 255));
    max_float(&floats[1], (float)v * 0.5f);
    atomicAdd(&doubles[0], (double)(v & 1023));
    scale_double(&doubles[1], (v & 1) ? 2.0 : 0.5);
    add_byte(bytes, threadIdx.x & 3, v & 7);
}
