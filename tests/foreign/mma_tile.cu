// mma_tile: ldmatrix and mma.sync m16n8k16 in bf16 by inline PTX: C = A B of 16 x 16 x 32, stmatrix on the way out in f16.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
extern "C" __global__ void mma_tile(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, half *packed) {
    __shared__ __align__(16) __nv_bfloat16 sa[16][40], sb[32][24];
    __shared__ __align__(16) half so[16][24];
    int lane = threadIdx.x;
    for (int i = lane; i < 512; i += 32) {
        sa[i / 32][i % 32] = a[i];
        sb[i / 16][i % 16] = b[i];
    }
    __syncwarp();
    float d[2][4] = {};
    for (int k = 0; k < 32; k += 16) {
        unsigned ra[4], rb[4];
        unsigned pa = (unsigned)__cvta_generic_to_shared(&sa[lane % 16][k + lane / 16 * 8]);
        unsigned pb = (unsigned)__cvta_generic_to_shared(&sb[k + lane % 16][lane / 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(pa));
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(rb[0]), "=r"(rb[1]), "=r"(rb[2]), "=r"(rb[3]) : "r"(pb));
        for (int j = 0; j < 2; j++)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
                         : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[2 * j]), "r"(rb[2 * j + 1]));
    }
    unsigned h[4];
    for (int j = 0; j < 2; j++)
        for (int r = 0; r < 2; r++) {
            int row = lane / 4 + r * 8, column = j * 8 + lane % 4 * 2;
            *reinterpret_cast<float2 *>(&c[row * 16 + column]) = make_float2(d[j][2 * r], d[j][2 * r + 1]);
            half2 two = __floats2half2_rn(d[j][2 * r], d[j][2 * r + 1]);
            h[j * 2 + r] = *reinterpret_cast<unsigned *>(&two);
        }
    unsigned po = (unsigned)__cvta_generic_to_shared(&so[lane % 16][lane / 16 * 8]);
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(po), "r"(h[0]), "r"(h[1]), "r"(h[2]), "r"(h[3]) : "memory");
    __syncwarp();
    for (int i = lane; i < 256; i += 32) packed[i] = so[i / 16][i % 16];
}
