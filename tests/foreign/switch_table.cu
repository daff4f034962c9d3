// switch_table: a dense switch of 20 cases, which becomes a table of branches; a warp takes many of them at once.
extern "C" __global__ void switch_table(const unsigned *in, unsigned *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i], steps = v % 7 + 1;
    while (steps-- > 0) {
        switch (v % 23) {
        case 0: v = v * 3 + 1; break;
        case 1: v ^= v >> 7; break;
        case 2: v += i; break;
        case 3: v = __brev(v); break;
        case 4: v -= 12345; break;
        case 5: v = v << 3 | v >> 29; break;
        case 6: v *= 2654435761u; break;
        case 7: v = ~v; break;
        case 8: v /= 3; break;
        case 9: v += v % 11; // falls through
        case 10: v ^= 0x55AA55AA; break;
        case 11: v = v * v + 7; break;
        case 12: v = (unsigned)__popc(v) << 20 | (v & 0xFFFFF); break;
        case 13: v ^= i << 16; break;
        case 14: v = v / 10 * 16 + v % 10; break;
        case 15: v += 0xDEADBEEF; break;
        case 16: v = (v & 0xFF00FF00) >> 8 | (v & 0x00FF00FF) << 8; break;
        case 17: v = v * 5 - 3; break;
        case 18: v ^= v << 13; break;
        case 19: steps = steps > 2 ? 2 : steps; v += 99; break;
        default: v += 1;
        }
    }
    out[i] = v;
}
