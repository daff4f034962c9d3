// calls: functions that are not inlined: scalars, doubles, structs by value and returned, pointers, arrays, calls within calls and in
// diverged warps.
struct point {
    float x, y;
    int tag;
    double weight;
};
__noinline__ __device__ float polynomial(float x, int degree) {
    float sum = 0.0f, power = 1.0f;
    for (int i = 0; i <= degree; i++, power *= x) sum += power / (float)(i + 1);
    return sum;
}
__noinline__ __device__ point turn(point p, bool left) {
    point q = {left ? -p.y : p.y, left ? p.x : -p.x, p.tag + (left ? 1 : -1), p.weight * 0.5};
    return q;
}
__noinline__ __device__ void exchange(int *a, int *b) {
    int t = *a;
    *a = *b;
    *b = t;
}
__noinline__ __device__ long long weigh(const point *points, int count, unsigned char scale) {
    long long sum = 0;
    for (int i = 0; i < count; i++) {
        point p = turn(points[i], i & 1);
        sum += (long long)(p.weight * scale) * 1000 + p.tag;
    }
    return sum;
}
extern "C" __global__ void calls(const float *in, float *out, long long *sums, int *order, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i];
    point points[4];
    for (int j = 0; j < 4; j++) points[j] = point{x + j, x - j, (int)i * j, (double)x * 100.0 + j};
    int a = (int)i, b = (int)(i * 7 % n);
    if (a > b) exchange(&a, &b);
    out[i] = x > 0.0f ? polynomial(x, (int)(i % 5)) : turn(points[i & 3], i % 3 == 0).x;
    sums[i] = weigh(points, 4, (unsigned char)(i & 15));
    order[i] = a * 65536 + b;
}
