-- query_oracle: what mla_query computes at dcp = 1, in the plainest FP32 there is: norm, Q_B, W_UK, rotation, e4m3; and the KV row.
--   entry 0, one CTA a (row, head): qkv [B, pitch] BF16 (or qf [B, H*192] with q_lora=0), q_a_norm, w_q_b, kv_b, cos_sin -> query [B, H, 576]
--   entry 1, one CTA a row: qkv, kv_a_norm, cos_sin, slots -> the row's 576 bytes in kv_cache, nothing where the slot is -1
-- Rounding points as in mla_query: q_c and qf to BF16; W_UK's sums and the rotated columns go from FP32 to e4m3 in one step.
local cuda = include "lib/cuda"

local THREADS, NORM, LATENT, ROPE, TOKEN = 128, 1536, 512, 64, 576
local rotated, normed = spec.rope ~= "none", spec.q_lora == NORM

cuda.functions()
| __forceinline__ float bf(float x) { return bf16_to_float(float_to_bf16(x)); }
|
| // 1 / sqrt(mean of squares + eps) of `count` values, for every thread of the CTA.
| __forceinline__ float root_of(const unsigned short *x, int count, float eps)
| {
|   __shared__ float squares[$(THREADS)];
|   float sum = 0;
|   for (int i = threadIdx.x; i < count; i += $(THREADS)) sum = fmaf(bf16_to_float(x[i]), bf16_to_float(x[i]), sum);
|   squares[threadIdx.x] = sum;
|   __syncthreads();
|   sum = 0;
|   for (int i = 0; i < $(THREADS); i++) sum += squares[i];
|   return 1.0f / sqrtf(sum / count + eps);
| }
|
| // Column i of 64, rotated; angles: 32 cosines, then 32 sines.
| __forceinline__ float rotate(const float *x, const float *angles, int i)
| {
if spec.rope == "interleaved" then
|   const int pair = i / 2, first = 2 * pair, second = first + 1;
elseif spec.rope == "half" then
|   const int pair = i % 32, first = pair, second = pair + 32;
end
if rotated then
|   const float c = angles[pair], s = angles[pair + 32];
|   return i == first ? x[first] * c - x[second] * s : x[second] * c + x[first] * s;
else
|   return x[i];
end
| }

-- The names of both lists, the second ones where the condition holds.
local function names(list, condition, more)
  for _, name in ipairs(condition and more or {}) do list[#list + 1] = name end
  return list
end
local angles = rotated and "(const float *)cos_sin + row * 64" or "nullptr"

local params = names({ "kv_b", "q_scale_inv", "query" }, rotated, { "cos_sin" })
names(params, true, normed and { "qkv", "pitch", "q_a_norm", "eps", "w_q_b" } or { "qf" })
kernel { name = "query_oracle", grid = { spec.heads, spec.batch }, block = { THREADS }, params = params }
|   __shared__ float q_head[192];
|   const int me = threadIdx.x, head = blockIdx.x;
|   const unsigned long long row = blockIdx.y;
|   wait_for_predecessor();
|   let_dependents_in();
if normed then
|   __shared__ float q_c[$(NORM)];
|   const unsigned short *x = (const unsigned short *)qkv + row * pitch;
|   const float root = root_of(x, $(NORM), eps);
|   for (int i = me; i < $(NORM); i += $(THREADS))
|     q_c[i] = bf(bf16_to_float(x[i]) * root * bf16_to_float(((const unsigned short *)q_a_norm)[i]));
|   __syncthreads();
|   for (int n = me; n < 192; n += $(THREADS)) {
|     const unsigned short *weights = (const unsigned short *)w_q_b + ((unsigned long long)head * 192 + n) * $(NORM);
|     float sum = 0;
|     for (int k = 0; k < $(NORM); k++) sum = fmaf(q_c[k], bf16_to_float(weights[k]), sum);
|     q_head[n] = bf(sum);
|   }
else
|   for (int n = me; n < 192; n += $(THREADS))
|     q_head[n] = bf16_to_float(((const unsigned short *)qf)[(row * $(spec.heads) + head) * 192 + n]);
end
|   __syncthreads();
|   unsigned char *out = (unsigned char *)query + (row * $(spec.heads) + head) * $(TOKEN);
|   const unsigned short *w_uk = (const unsigned short *)kv_b + (unsigned long long)head * $(256 * LATENT);
|   for (int l = me; l < $(LATENT); l += $(THREADS)) {
|     float sum = 0;
|     for (int p = 0; p < 128; p++) sum = fmaf(q_head[p], bf16_to_float(w_uk[p * $(LATENT) + l]), sum);
|     out[l] = float_to_e4m3(sum * q_scale_inv);
|   }
|   if (me < $(ROPE)) out[$(LATENT) + me] = float_to_e4m3(rotate(q_head + 128, $(angles), me) * q_scale_inv);

kernel { name = "query_oracle_insert", grid = { spec.batch }, block = { THREADS },
         params = names({ "qkv", "pitch", "kv_a_norm", "eps", "slots", "kv_cache", "page_stride", "k_scale_inv" }, rotated, { "cos_sin" }) }
|   __shared__ float pe[$(ROPE)];
|   const int me = threadIdx.x;
|   const unsigned long long row = blockIdx.x;
|   wait_for_predecessor();
|   let_dependents_in();
|   const long long slot = ((const long long *)slots)[row];
|   if (slot < 0) return;
|   const unsigned short *x = (const unsigned short *)qkv + row * pitch + $(spec.q_lora);
|   const float root = root_of(x, $(LATENT), eps);
|   if (me < $(ROPE)) pe[me] = bf16_to_float(x[$(LATENT) + me]);
|   __syncthreads();
|   unsigned char *out = (unsigned char *)kv_cache + slot / $(spec.page) * page_stride + slot % $(spec.page) * $(TOKEN);
|   for (int i = me; i < $(TOKEN); i += $(THREADS)) {
|     const float value = i < $(LATENT) ? bf(bf16_to_float(x[i]) * root * bf16_to_float(((const unsigned short *)kv_a_norm)[i]))
|                                       : bf(rotate(pe, $(angles), i - $(LATENT)));
|     out[i] = value != value ? 0 : float_to_e4m3(value * k_scale_inv);
|   }
