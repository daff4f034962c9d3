// mandelbrot: steps until escape, f64: loops of unequal length in one warp.
extern "C" __global__ void mandelbrot(unsigned short *steps, unsigned width, float step, unsigned most) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, n = 0;
    double cr = -2.0 + (double)step * x, ci = -1.25 + (double)step * y, r = 0.0, i = 0.0;
    for (; n < most; n++) {
        double rr = __dmul_rn(r, r), ii = __dmul_rn(i, i);
        if (__dadd_rn(rr, ii) > 4.0) break;
        i = __dadd_rn(__dmul_rn(__dadd_rn(r, r), i), ci);
        r = __dadd_rn(__dsub_rn(rr, ii), cr);
    }
    steps[y * width + x] = (unsigned short)n;
}
