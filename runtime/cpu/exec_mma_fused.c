/* exec_mma_fused.c - sums of mma.sync with factors of f16, bf16 or tf32 and f32 sums, as an H200 adds them:
 * exec_fused.h. */
#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <runtime/cpu/exec_fused.h>

enum { ROWS = 8, COLUMNS = 8, QUAD = 4 };

#ifdef __x86_64__
enum { CUT = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC };

__attribute__((target("avx2"))) static inline __m128i greatest_exponents(const struct mma_half *h, unsigned row) {
    const s16 *before = h->sum_exponents + (size_t)row * QUAD;
    __m128i top =
        _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)before), _mm_loadl_epi64((const __m128i *)(before + WARP)));
    top = _mm_max_epi16(top, _mm_set1_epi16(LEAST_TOP));
    for (unsigned u = 0; u < h->units; u++)
        for (unsigned word = 0; word < QUAD; word++) {
            __m128i columns = _mm_loadu_si128((const __m128i *)&h->b_exponents[(u * QUAD + word) * COLUMNS]);
            __m128i own = _mm_set1_epi16(h->a_exponents[u * WARP + row * QUAD + word]);
            top = _mm_max_epi16(top, _mm_add_epi16(columns, own));
        }
    return top;
}

/* 2^exponent of four. */
__attribute__((target("avx2"))) static inline __m256d powers(__m128i exponents) {
    __m256i biased = _mm256_add_epi64(_mm256_cvtepi32_epi64(exponents), _mm256_set1_epi64x(1023));
    return _mm256_castsi256_pd(_mm256_slli_epi64(biased, 52));
}

__attribute__((target("avx2"))) static void fused_avx2(const struct mma_half *h) {
    const __m128i fraction = _mm_set1_epi32(FRACTION_16);
    for (unsigned row = 0; row < ROWS; row++) {
        __m128i top = greatest_exponents(h, row);
        __m128i tops[2] = {_mm_cvtepi16_epi32(top), _mm_cvtepi16_epi32(_mm_unpackhi_epi64(top, top))};
        __m256d scale[2], sum[2];
        for (unsigned q = 0; q < 2; q++) {
            scale[q] = powers(_mm_sub_epi32(fraction, tops[q]));
            sum[q] = _mm256_round_pd(_mm256_mul_pd(_mm256_loadu_pd(&h->sums[q * WARP + row * QUAD]), scale[q]), CUT);
        }
        for (unsigned u = 0; u < h->units; u++)
            for (unsigned word = 0; word < QUAD; word++) {
                __m256d factor = _mm256_set1_pd(h->a[u * WARP + row * QUAD + word]);
                for (unsigned q = 0; q < 2; q++) {
                    __m256d columns = _mm256_loadu_pd(&h->b[(u * QUAD + word) * COLUMNS + q * QUAD]);
                    __m256d product = _mm256_mul_pd(_mm256_mul_pd(factor, columns), scale[q]);
                    sum[q] = _mm256_add_pd(sum[q], _mm256_round_pd(product, CUT));
                }
            }
        for (unsigned q = 0; q < 2; q++)
            _mm256_storeu_pd(&h->sums[q * WARP + row * QUAD],
                             _mm256_mul_pd(sum[q], powers(_mm_sub_epi32(tops[q], fraction))));
    }
}
#endif

/* The same sums, in the same order. */
static void fused(const struct mma_half *h) {
    for (unsigned row = 0; row < ROWS; row++)
        for (unsigned place = 0; place < COLUMNS; place++) {
            size_t at = place / QUAD * WARP + row * QUAD + place % QUAD;
            int top = h->sum_exponents[at] > LEAST_TOP ? h->sum_exponents[at] : LEAST_TOP;
            for (unsigned k = 0; k < h->units * QUAD; k++) {
                int e = h->a_exponents[k / QUAD * WARP + row * QUAD + k % QUAD] + h->b_exponents[k * COLUMNS + place];
                top = e > top ? e : top;
            }
            double scale = power_of_two(FRACTION_16 - top), sum = trunc(h->sums[at] * scale);
            for (unsigned k = 0; k < h->units * QUAD; k++)
                sum += trunc(h->a[k / QUAD * WARP + row * QUAD + k % QUAD] * h->b[k * COLUMNS + place] * scale);
            h->sums[at] = sum * power_of_two(top - FRACTION_16);
        }
}

void mma_fused(const struct mma_half *half) {
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        fused_avx2(half);
        return;
    }
#endif
    fused(half);
}
