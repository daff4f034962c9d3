// double_math: the double-precision functions of the CUDA library, whose slow paths are functions that are called.
extern "C" __global__ void double_math(const double *in, double *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    double x = in[i], p = fabs(x) + 0.125;
    out[i] = exp(x * 0.5);
    out[n + i] = log(p);
    out[2 * n + i] = sin(x);
    out[3 * n + i] = cos(x * 1e6);
    out[4 * n + i] = pow(p, 1.75);
    out[5 * n + i] = sqrt(p);
    out[6 * n + i] = cbrt(x);
    out[7 * n + i] = erf(x);
    out[8 * n + i] = tgamma(p);
    out[9 * n + i] = atan2(x, p);
    out[10 * n + i] = fmod(x * 100.0, 0.7);
    out[11 * n + i] = rsqrt(p);
    out[12 * n + i] = tanh(x);
    out[13 * n + i] = x / p + 1.0 / p;
    out[14 * n + i] = floor(x * 10.0) + rint(x) + trunc(x * 3.0) + ceil(x);
    out[15 * n + i] = ldexp(x, (int)(i % 40) - 20) + (double)__double2ll_rn(x * 1e9) + (double)__double2int_rz(x);
    out[16 * n + i] = __dadd_rz(x, 1e-17) + __dmul_ru(x, 1.1) + __fma_rd(x, x, 1e-18) + __ddiv_rd(x, 3.0) + __dsqrt_ru(p);
}
