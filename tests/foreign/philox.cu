// philox: ten rounds of Philox 4x32, a counter a thread; to uniform floats and normal deviates.
__device__ uint4 round_of(uint4 c, uint2 k) {
    unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x, h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
    return make_uint4(h1 ^ c.y ^ k.x, l1, h0 ^ c.w ^ k.y, l0);
}
extern "C" __global__ void philox(uint4 *words, float2 *normal, unsigned long long seed) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    uint4 c = make_uint4(i, 0, 7, 0);
    uint2 k = make_uint2((unsigned)seed, (unsigned)(seed >> 32));
#pragma unroll 1
    for (int r = 0; r < 10; r++) {
        c = round_of(c, k);
        k.x += 0x9E3779B9u;
        k.y += 0xBB67AE85u;
    }
    words[i] = c;
    float u = ((float)(c.x >> 8) + 0.5f) * (1.0f / 16777216.0f), s, t;
    sincospif((float)(c.y >> 8) * (1.0f / 8388608.0f), &s, &t);
    float radius = sqrtf(-2.0f * logf(u));
    normal[i] = make_float2(radius * s, radius * t);
}
