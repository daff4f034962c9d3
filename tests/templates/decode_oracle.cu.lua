-- decode_oracle: what mla_decode computes, in the plainest FP32 there is: a judge for shapes that a host's reference takes too long for.
--   query [B, D*H, 576] e4m3 (every rank's heads), kv_cache pages of `page` rows of 576 e4m3 bytes, block_table [R, max_pages] S32,
--   lens [R] S32 local, totals [R] S32 global -> rows [B, D*H, 512] BF16, rows_lse [B, D*H] F32; R = B/q. With dcp > 1 also shard, the rank.
-- Entry 0 leaves P as it is; entry 1 rounds P as mla_decode does: e4m3 of 2^(z - ceil(max z) + 8).
-- One CTA a (row, head): the greatest score first, then tiles of 128 keys: a thread scores a key, then adds its four latents of all keys.
-- A tile's sums are added to the row's as one, so that errors grow with tiles, not keys.
local cuda = include "lib/cuda"

local THREADS, TOKEN, LATENT = 128, 576, 512
local heads = spec.dcp * spec.heads
local params = { "query", "kv_cache", "page_stride", "block_table", "max_pages", "lens", "totals", "softmax_scale", "output_scale",
                 "rows", "rows_lse" }
if spec.dcp > 1 then params[#params + 1] = { "shard", "u32" } end

cuda.functions()
| struct cache { const unsigned char *bytes; unsigned long long page_stride; const int *table; };
|
| __forceinline__ unsigned long long offset_of(const cache &c, int key)
| {
|   return c.table[key / $(spec.page)] * c.page_stride + key % $(spec.page) * $(TOKEN);
| }
|
| // Local keys of the first n tokens on a rank.
| __forceinline__ int local_keys(int n, int rank)
| {
|   if (n <= 0) return 0;
|   int base = n / $(spec.interleave * spec.dcp) * $(spec.interleave), rest = n - base * $(spec.dcp) - rank * $(spec.interleave);
|   return base + (rest < 0 ? 0 : rest > $(spec.interleave) ? $(spec.interleave) : rest);
| }
|
| __forceinline__ float dot(const float *query, const unsigned char *key)
| {
|   float sum = 0;
|   for (int chunk = 0; chunk < $(TOKEN // 16); chunk++) {
|     const uint4 words = ((const uint4 *)key)[chunk];
|     const unsigned word[4] = {words.x, words.y, words.z, words.w};
|     for (int i = 0; i < 8; i++) {
|       const float2 pair = e4m3x2_to_float2((unsigned short)(word[i / 2] >> 16 * (i % 2)));
|       sum = fmaf(query[16 * chunk + 2 * i], pair.x, sum);
|       sum = fmaf(query[16 * chunk + 2 * i + 1], pair.y, sum);
|     }
|   }
|   return sum;
| }
|
| // Over the CTA, for every thread. NaN wins a maximum: a row with a NaN score is NaN.
| __forceinline__ float all(float value, float *shared, bool sum)
| {
|   __syncthreads();
|   shared[threadIdx.x] = value;
|   __syncthreads();
|   for (int i = 0; i < $(THREADS); i++) {
|     const float other = shared[i];
|     if (i == 0) value = other;
|     else value = sum ? value + other : other > value || other != other ? other : value;
|   }
|   return value;
| }

local function oracle(name, rounded)
  kernel { name = name, grid = { heads, spec.batch }, block = { THREADS }, params = params }
|   const int me = threadIdx.x, head = blockIdx.x, row = blockIdx.y, request = row / $(spec.q);
|   const unsigned long long at = (unsigned long long)row * $(heads) + head;
|   __shared__ float q[$(TOKEN)], weight[$(THREADS)], all_of[$(THREADS)];
|   __shared__ unsigned long long key[$(THREADS)];
|   wait_for_predecessor();
|   let_dependents_in();
|   const cache c = {(const unsigned char *)kv_cache, page_stride, (const int *)block_table + (unsigned long long)request * max_pages};
|   const int length = ((const int *)lens)[request], n = ((const int *)totals)[request] - $(spec.q - 1) + row % $(spec.q);
|   const int seen = local_keys(n, $(spec.dcp > 1 and "(int)shard" or 0)), keys = seen < length ? seen : length < 0 ? 0 : length;
|   for (int i = me; i < $(TOKEN // 2); i += $(THREADS)) {
|     const float2 pair = e4m3x2_to_float2(((const unsigned short *)query)[at * $(TOKEN // 2) + i]);
|     q[2 * i] = pair.x;
|     q[2 * i + 1] = pair.y;
|   }
|   __syncthreads();
|   const float to_log2 = softmax_scale * $(f32(1.4426950408889634));
|
|   float top = $(f32(-math.huge));
|   for (int k = me; k < keys; k += $(THREADS)) {
|     const float z = dot(q, c.bytes + offset_of(c, k)) * to_log2;
|     if (z > top || z != z) top = z;
|   }
|   top = all(top, all_of, false);
|   const float shift = $(rounded and "ceilf(top) - 8" or "top");
|
|   float sum = 0, total[4] = {0, 0, 0, 0};
|   for (int first = 0; first < keys; first += $(THREADS)) {
|     const int count = keys - first < $(THREADS) ? keys - first : $(THREADS);
|     if (me < count) {
|       key[me] = offset_of(c, first + me);
|       const float p = exp2f(dot(q, c.bytes + key[me]) * to_log2 - shift);
|       sum += p;
  if rounded then
|       weight[me] = e4m3x2_to_float2(float_to_e4m3(p)).x;
  else
|       weight[me] = p;
  end
|     }
|     __syncthreads();
|     float tile[4] = {0, 0, 0, 0};
|     for (int k = 0; k < count; k++) {
|       const unsigned word = ((const unsigned *)(c.bytes + key[k]))[me];
|       const float2 low = e4m3x2_to_float2((unsigned short)word), high = e4m3x2_to_float2((unsigned short)(word >> 16));
|       tile[0] = fmaf(weight[k], low.x, tile[0]);
|       tile[1] = fmaf(weight[k], low.y, tile[1]);
|       tile[2] = fmaf(weight[k], high.x, tile[2]);
|       tile[3] = fmaf(weight[k], high.y, tile[3]);
|     }
|     for (int i = 0; i < 4; i++) total[i] += tile[i];
|     __syncthreads();
|   }
|   sum = all(sum, all_of, true);
|
|   for (int i = 0; i < 4; i++) {
|     const float value = keys > 0 ? total[i] * output_scale / sum : 0.0f;
|     ((unsigned short *)rows)[at * $(LATENT) + 4 * me + i] = float_to_bf16(value);
|   }
|   if (me == 0) ((float *)rows_lse)[at] = keys > 0 ? log2f(sum) + shift : $(f32(-math.huge));
end

oracle("decode_oracle", false)
oracle("decode_oracle_rounded", true)
