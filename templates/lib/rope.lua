-- rope: rotation of the 64 position columns in FP32 from BF16 values. cos_sin [B, 64] F32: 32 cosines, then 32 sines of a row's position.
--   interleaved  columns (2i, 2i+1) by angle i;   half  columns (i, i+32) by angle i;   none  as they are
-- The two products and their sum are one multiplication and one fma: a' = fma(a, cos, -(b sin)), b' = fma(b, cos, a sin).
local rope = {}

rope.on = spec.rope ~= "none"

-- a, b: the pair, changed in place; c, s: cosine and sine.
function rope.rotate(a, b, c, s)
  scope(function()
    local bs, as = f32 "bs", f32 "as"
|   mul.rn.f32     $(bs), $(b), $(s);
|   mul.rn.f32     $(as), $(a), $(s);
|   neg.f32        $(bs), $(bs);
|   fma.rn.f32     $(a), $(a), $(c), $(bs);
|   fma.rn.f32     $(b), $(b), $(c), $(as);
  end)
end

-- address := cos_sin row `row`.
function rope.row(address, row)
|   ld.param.u64   $(address), [$(param.cos_sin)];
|   mad.wide.u32   $(address), $(row), 256, $(address);
end

return rope
