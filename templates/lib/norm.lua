-- norm: the one RMSNorm arithmetic of q_a rows; query_norm and mla_query must agree bit for bit.
--   rr = rsqrt.approx.ftz(total / 1536 + eps); y = (x * rr) * gamma, two FP32 roundings, then BF16.
local bf16 = include "lib/bf16"
local warp = include "lib/warp"
local norm = { WIDTH = 1536 }

-- total := sum of squares of a row that one warp holds, lane l the 48 columns 256 i + 8 l + k (element 8 i + k), in the order of
-- query_norm's tiled form (four chains by e mod 4) or of its scalar form (a warp of 256 columns after the other).
function norm.row_total(total, x, tiled)
  if tiled then
    scope(function()
      local chain = f32("chain", 4, "by e mod 4: two packed pairs")
      for k = 0, 3 do
|   mov.f32        $(chain[k]), 0f00000000;
      end
      for e = 0, 47 do
|   fma.rn.f32     $(chain[e % 4]), $(x[e]), $(x[e]), $(chain[e % 4]);
      end
|   add.rn.f32     $(chain[0]), $(chain[0]), $(chain[1]);
|   add.rn.f32     $(chain[2]), $(chain[2]), $(chain[3]);
|   add.rn.f32     $(total), $(chain[0]), $(chain[2]);
    end)
    warp.reduce("add.rn", total)
    return
  end
  scope(function()
    local part = f32("part", "one scalar warp's sum")
|   mov.f32        $(total), 0f00000000;
    for i = 0, 5 do
|   mov.f32        $(part), 0f00000000;
      for k = 8 * i, 8 * i + 7 do
|   fma.rn.f32     $(part), $(x[k]), $(x[k]), $(part);
      end
      warp.reduce("add.rn", part)
|   add.rn.f32     $(total), $(total), $(part);
    end
  end)
end

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
