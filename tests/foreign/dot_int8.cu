// dot_int8: products of packed bytes and halves by dp4a and dp2a, and the packed SIMD functions.
extern "C" __global__ void dot_int8(const unsigned *a, const unsigned *b, int *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, x = a[i], y = b[i];
    out[i] = __dp4a((int)x, (int)y, (int)i);
    out[n + i] = (int)__dp4a(x, y, i);
    out[2 * n + i] = __dp2a_lo((int)x, (int)y, 5);
    out[3 * n + i] = (int)__dp2a_hi(x, y, 9u);
    out[4 * n + i] = (int)(__vadd4(x, y) ^ __vsub2(x, y));
    out[5 * n + i] = (int)(__vmaxs4(x, y) ^ __vminu2(x, y));
    out[6 * n + i] = (int)(__vabsdiffu4(x, y) ^ __vavgu4(x, y));
    out[7 * n + i] = (int)(__vcmpgtu4(x, y) ^ __vsetlts2(x, y));
    out[8 * n + i] = (int)(__vaddss2(x, y) ^ __vsubus4(x, y));
    out[9 * n + i] = (int)(__sad((int)x, (int)y, i) ^ __vsads4(x, y) ^ __usad(x, y, 3u));
    out[10 * n + i] = __mul24((int)x, (int)y) ^ (int)__umul24(x, y) ^ __mulhi((int)x, (int)y) ^ (int)__umulhi(x, y) ^ __hadd((int)x, (int)y) ^ (int)__uhadd(x, y);
    out[11 * n + i] = (int)__viaddmax_s32_relu((int)x, (int)y, 100) ^ __vimax3_s32((int)x, (int)y, (int)i) ^ (int)__vimin_s16x2_relu(x, y);
}
