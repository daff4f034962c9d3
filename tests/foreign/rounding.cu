// rounding: conversions and arithmetic in every rounding that PTX defines to the bit, NaN and infinities among the inputs.
extern "C" __global__ void rounding(const float *in, unsigned *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i], y = in[(i + 1) % n];
    unsigned k = 0;
#define PUT(value) out[n * k++ + i] = (unsigned)(value)
    PUT(__float2int_rn(x));
    PUT(__float2int_rz(x));
    PUT(__float2int_ru(x));
    PUT(__float2uint_rd(x));
    PUT(__float2ll_rn(x) >> 16);
    PUT(__float_as_uint(__fadd_rz(x, y)));
    PUT(__float_as_uint(__fmul_ru(x, y)));
    PUT(__float_as_uint(__fmaf_rd(x, y, x)));
    PUT(__float_as_uint(__fdiv_rz(x, y)));
    PUT(__float_as_uint(__fsqrt_rd(fabsf(x))));
    PUT(__float_as_uint(__int2float_rz((int)__float_as_uint(x))));
    PUT(__float_as_uint(__uint2float_ru(__float_as_uint(x))));
    PUT(__float_as_uint(__ll2float_rd((long long)__float_as_uint(x) * 12345)));
    PUT(__float_as_uint(__double2float_ru((double)x * 1.0000001)));
    PUT(__float_as_uint(fminf(x, y)));
    PUT(__float_as_uint(fmaxf(x, y)));
    PUT(__float_as_uint(__saturatef(x)));
    PUT(__float_as_uint(copysignf(x, y)));
    PUT((unsigned char)__float2uint_rz(x));
    PUT((signed char)(int)__float_as_uint(x) * (short)__float_as_uint(y));
    PUT(isnan(x) | isinf(x) << 1 | signbit(x) << 2 | isfinite(y) << 3);
#undef PUT
}
