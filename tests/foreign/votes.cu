// votes: ballot, any, all, match, reductions and shuffles of a warp, in whole and in diverged warps.
extern "C" __global__ void votes(const unsigned *in, unsigned *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i], lane = threadIdx.x % 32;
    int all_same;
    unsigned ballot = __ballot_sync(0xFFFFFFFFu, v & 1), any = __any_sync(0xFFFFFFFFu, v % 64 == 7), all = __all_sync(0xFFFFFFFFu, v < 1u << 20);
    unsigned match = __match_any_sync(0xFFFFFFFFu, v % 5);
    unsigned match64 = __match_any_sync(0xFFFFFFFFu, (unsigned long long)(v % 3) << 40);
    unsigned whole = __match_all_sync(0xFFFFFFFFu, v >> 24, &all_same);
    out[i] = ballot;
    out[n + i] = any | all << 1 | (unsigned)all_same << 2;
    out[2 * n + i] = match ^ __brev(match64);
    out[3 * n + i] = whole;
    out[4 * n + i] = __reduce_add_sync(0xFFFFFFFFu, v) ^ __reduce_xor_sync(0xFFFFFFFFu, v) ^ __reduce_max_sync(0xFFFFFFFFu, (int)v) ^ __reduce_min_sync(0xFFFFFFFFu, v) ^ __reduce_and_sync(0xFFFFFFFFu, v | 0xFF) ^ __reduce_or_sync(0xFFFFFFFFu, v & 0xFFFF);
    unsigned part = 0;
    if (lane < 12) part = __shfl_sync(0xFFFu, v, (lane + 5) % 12) + __popc(__activemask() & 0xFFFu);
    else part = __shfl_down_sync(0xFFFFF000u, v, 3, 16);
    out[5 * n + i] = part;
}
