// local_array: arrays a thread with computed indices: insertion sort, a stack, a table of counts.
extern "C" __global__ void local_array(const int *in, int *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    int sorted[24], stack[16], depth = 0;
    unsigned char counts[32] = {0};
    for (int j = 0; j < 24; j++) {
        int v = in[i * 24 + j], at = j;
        for (; at > 0 && sorted[at - 1] > v; at--) sorted[at] = sorted[at - 1];
        sorted[at] = v;
        counts[v & 31]++;
    }
    int sum = 0;
    for (int j = 0; j < 24; j++) {
        if ((sorted[j] & 3) && depth < 16) stack[depth++] = sorted[j];
        else if (depth > 0) sum += stack[--depth] * (j + 1);
    }
    int most = 0;
    for (int j = 0; j < 32; j++)
        if (counts[j] > counts[most]) most = j;
    out[i] = sorted[in[i * 24] & 15];
    out[n + i] = sum + depth;
    out[2 * n + i] = most * 100 + counts[most];
}
