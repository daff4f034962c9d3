// float_math: the single-precision functions of the CUDA library and the fast intrinsics.
extern "C" __global__ void float_math(const float *in, float *out, float *fast, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i], p = fabsf(x) + 0.125f;
    out[i] = expf(x);
    out[n + i] = logf(p);
    out[2 * n + i] = sinf(x);
    out[3 * n + i] = cosf(x * 30000.0f);
    out[4 * n + i] = powf(p, 1.75f);
    out[5 * n + i] = sqrtf(p);
    out[6 * n + i] = tanhf(x);
    out[7 * n + i] = erff(x);
    out[8 * n + i] = lgammaf(p);
    out[9 * n + i] = atan2f(x, p);
    out[10 * n + i] = fmodf(x * 100.0f, 0.75f);
    out[11 * n + i] = x / p;
    out[12 * n + i] = log1pf(p) + expm1f(x) + hypotf(x, p);
    out[13 * n + i] = roundf(x * 4.0f) + truncf(x) + floorf(x * 3.0f) + ceilf(x) + rintf(x * 2.0f);
    out[14 * n + i] = asinf(x / (p + 1.0f)) + acosf(x / (p + 1.0f));
    fast[i] = __expf(x);
    fast[n + i] = __logf(p);
    fast[2 * n + i] = __sinf(x);
    fast[3 * n + i] = __cosf(x);
    fast[4 * n + i] = __fdividef(x, p);
    fast[5 * n + i] = rsqrtf(p);
    fast[6 * n + i] = __powf(p, 1.75f);
    fast[7 * n + i] = __frcp_rn(p);
}
