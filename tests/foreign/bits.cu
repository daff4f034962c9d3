// bits: counting, reversing, finding, permuting and shifting bits, 32 and 64 wide.
extern "C" __global__ void bits(const unsigned long long *in, unsigned *out, unsigned long long *wide, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long l = in[i];
    unsigned a = (unsigned)l, b = (unsigned)(l >> 32);
    out[i] = __popc(a) | __clz(a) << 8 | __ffs(a) << 16 | __popcll(l) << 24;
    out[n + i] = __clzll(l) | __ffsll(l) << 8 | (31 - __clz(b | 1)) << 16;
    out[2 * n + i] = __brev(a);
    out[3 * n + i] = __byte_perm(a, b, b & 0x7777);
    out[4 * n + i] = __funnelshift_l(a, b, i) ^ __funnelshift_rc(a, b, i % 40);
    out[5 * n + i] = (a << (b & 63)) ^ (a >> (b & 31)) ^ (unsigned)((int)a >> (b & 63));
    out[6 * n + i] = (a & b) | (~a & i);
    out[7 * n + i] = (a >> (i % 20)) & ((1u << (i % 9 + 1)) - 1);
    wide[i] = __brevll(l);
    wide[n + i] = l << (i % 70 % 64) ^ l >> (b & 63);
    wide[2 * n + i] = (unsigned long long)((long long)l >> (a & 63));
    unsigned low, field, count;
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(field) : "r"(a), "r"(b & 31), "r"(i % 33));
    asm("bfind.s32 %0, %1;" : "=r"(count) : "r"(a));
    asm("fns.b32 %0, %1, %2, %3;" : "=r"(low) : "r"(a), "r"(b & 31), "r"((int)(i % 7) - 3));
    out[8 * n + i] = field ^ count << 24;
    out[9 * n + i] = low;
}
