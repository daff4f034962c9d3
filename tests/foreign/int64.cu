// int64: products, high halves, quotients and remainders of 64-bit and 128-bit integers, signed and unsigned.
extern "C" __global__ void int64(const long long *a, const long long *b, long long *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    long long x = a[i], y = b[i] | 1;
    unsigned long long u = (unsigned long long)x, v = (unsigned long long)y;
    out[i] = x * y;
    out[n + i] = __mul64hi(x, y);
    out[2 * n + i] = (long long)__umul64hi(u, v);
    out[3 * n + i] = x / (y == -1 ? 3 : y);
    out[4 * n + i] = x % (y == -1 ? 3 : y);
    out[5 * n + i] = (long long)(u / v);
    out[6 * n + i] = (long long)(u % (v >> 40 | 1));
    out[7 * n + i] = x / 1000003 + x % 10;
    out[8 * n + i] = min(x, y) ^ max(u, v) ^ llabs(x);
    __int128 wide = (__int128)x * y + (__int128)v;
    out[9 * n + i] = (long long)(wide >> 37);
    out[10 * n + i] = (long long)((unsigned)u / (unsigned)(v | 1)) * 7 + (int)x % ((int)y | 1);
    out[11 * n + i] = (long long)(((unsigned __int128)u << 64 | v) / ((unsigned __int128)v << 3 | 5));
}
