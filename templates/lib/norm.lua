-- norm: the one RMSNorm arithmetic of q_a rows; query_norm and mla_query must agree bit for bit.
--   rr = rsqrt.approx.ftz(total / 1536 + eps); y = (x * rr) * gamma, two FP32 roundings, then BF16.
local bf16 = include "lib/bf16"
local norm = { WIDTH = 1536 }

function norm.rsqrt(rr, total, eps)
|   fma.rn.f32     $(rr), $(total), $(f32(1 / 1536)), $(eps);
|   rsqrt.approx.ftz.f32 $(rr), $(rr);
end

-- words: 4 registers of 8 BF16 -> x[first .. first + 7].
function norm.unpack(x, first, words)
  for i = 0, 3 do bf16.unpack(x[first + 2 * i], x[first + 2 * i + 1], words[i]) end
end

-- words := BF16 of (x[first + k] * rr) * gamma[first + k], k = 0..7. x is used up.
function norm.scale(words, x, gamma, first, rr)
  for k = first, first + 7 do
|   mul.rn.f32     $(x[k]), $(x[k]), $(rr);
|   mul.rn.f32     $(x[k]), $(x[k]), $(gamma[k]);
  end
  for i = 0, 3 do bf16.pack(words[i], x[first + 2 * i], x[first + 2 * i + 1]) end
end

return norm
