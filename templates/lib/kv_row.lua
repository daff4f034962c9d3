-- kv_row: the new token's cache row, by one warp a token row: RMSNorm of kv_c, rotated k_pe, scaled, e4m3.
--   row [kv_c 512 | k_pe 64] BF16 of the packed projection -> kv_cache[slot / page][slot % page][576]; slot < 0: another rank's, or padding.
--   x = bf16(value) * k_scale_inv; a NaN is stored as byte 0 (dead keys' bytes are multiplied by P = 0 one day).
local bf16 = include "lib/bf16"
local fp8 = include "lib/fp8"
local warp = include "lib/warp"
local norm = include "lib/norm"
local rope = include "lib/rope"
local kv_row = { LATENT = 512 }

kv_row.params = { "qkv", "pitch", "kv_a_norm", "eps", "k_scale_inv", "slots", "kv_cache", "page_stride" }
if rope.on then kv_row.params[#kv_row.params + 1] = "cos_sin" end
local first_column = spec.q_lora                     -- kv_c follows q_a where there is one

-- at := cache row of the slot (b64, not negative).
local function cache_row(at, slot)
  scope(function()
    local page, inside, stride = b64 "page", b64 "inside", b64 "stride"
|   ld.param.u64   $(stride), [$(param.page_stride)];
|   ld.param.u64   $(at), [$(param.kv_cache)];
|   div.u64        $(page), $(slot), $(spec.page);
|   rem.u64        $(inside), $(slot), $(spec.page);
|   mad.lo.u64     $(at), $(page), $(stride), $(at);
|   mad.lo.u64     $(at), $(inside), 576, $(at);
  end)
end

-- Stores 8 values as e4m3: value k of x[first + k].
local function store8(address, offset, x, first)
  scope(function()
    local word = b32("word", 2)
    for i = 0, 1 do
      local k = first + 4 * i
      fp8.pack4(word[i], x[k], x[k + 1], x[k + 2], x[k + 3])
    end
|   st.global.v2.b32 [$(address)+$(offset)], {$(word[0]), $(word[1])};
  end)
end

-- x := bf16(x), NaN as 0, times the scale.
local function finish(x, scale)
  scope(function()
    local pair, none = b32 "pair", f32 "none"
|   cvt.rn.bf16x2.f32 $(pair), $(x), $(x);
|   and.b32        $(pair), $(pair), 0xffff0000;
|   mul.rn.f32     $(x), $(pair), $(scale);
    fp8.nan_to_zero(x)
  end)
end

local function latent(lane, source, cache, scale)
  local x, gamma = f32("x", 16), f32("gamma", 16)
  local words, at, eps, rr, total = b32("words", 4), b64 "at", f32 "eps", f32 "rr", f32 "total"
  for half = 0, 1 do
|   mad.wide.u32   $(at), $(lane), 16, $(source);
|   ld.global.v4.u32 {$(words[0]), $(words[1]), $(words[2]), $(words[3])}, [$(at)+$(2 * first_column + 512 * half)];
    norm.unpack(x, 8 * half, words)
|   ld.param.u64   $(at), [$(param.kv_a_norm)];
|   mad.wide.u32   $(at), $(lane), 16, $(at);
|   ld.global.nc.v4.u32 {$(words[0]), $(words[1]), $(words[2]), $(words[3])}, [$(at)+$(512 * half)];
    norm.unpack(gamma, 8 * half, words)
  end
|   mov.f32        $(total), 0f00000000;
  for k = 0, 15 do
|   fma.rn.f32     $(total), $(x[k]), $(x[k]), $(total);
  end
  warp.reduce("add.rn", total)
|   ld.param.f32   $(eps), [$(param.eps)];
|   fma.rn.f32     $(rr), $(total), $(f32(1 / 512)), $(eps);
|   rsqrt.approx.ftz.f32 $(rr), $(rr);
  for k = 0, 15 do
|   mul.rn.f32     $(x[k]), $(x[k]), $(rr);
|   mul.rn.f32     $(x[k]), $(x[k]), $(gamma[k]);
    finish(x[k], scale)
  end
|   mad.wide.u32   $(at), $(lane), 8, $(cache);
  store8(at, 0, x, 0)
  store8(at, 256, x, 8)
end

-- The lane's pair of position columns: (2l, 2l + 1), with rope=half (l, l + 32).
local function position(row, lane, source, cache, scale)
  local a, b, c, s, at, half = f32 "a", f32 "b", f32 "c", f32 "s", b64 "at", b16 "half"
  local base = 2 * (first_column + kv_row.LATENT)
  if spec.rope == "half" then
    local h0, h1, low, high = b16 "h0", b16 "h1", b32 "low", b32 "high"
|   mad.wide.u32   $(at), $(lane), 2, $(source);
|   ld.global.b16  $(h0), [$(at)+$(base)];
|   ld.global.b16  $(h1), [$(at)+$(base + 64)];
|   cvt.u32.u16    $(low), $(h0);
|   cvt.u32.u16    $(high), $(h1);
|   shl.b32        $(a), $(low), 16;
|   shl.b32        $(b), $(high), 16;
  else
    local pair = b32 "pair"
|   mad.wide.u32   $(at), $(lane), 4, $(source);
|   ld.global.b32  $(pair), [$(at)+$(base)];
    bf16.unpack(a, b, pair)
  end
  if rope.on then
    rope.row(at, row)
    scope(function()
      local angle = b64 "angle"
|   mad.wide.u32   $(angle), $(lane), 4, $(at);
|   ld.global.f32  $(c), [$(angle)];
|   ld.global.f32  $(s), [$(angle)+128];
    end)
    rope.rotate(a, b, c, s)
  end
  finish(a, scale)
  finish(b, scale)
  fp8.pack2(half, a, b)
  if spec.rope == "half" then
    local both = b32 "both"
|   cvt.u32.u16    $(both), $(half);
|   mad.wide.u32   $(at), $(lane), 1, $(cache);
|   st.global.b8   [$(at)+512], $(both);
|   shr.u32        $(both), $(both), 8;
|   st.global.b8   [$(at)+544], $(both);
  else
|   mad.wide.u32   $(at), $(lane), 2, $(cache);
|   st.global.b16  [$(at)+512], $(half);
  end
end

-- One warp: inserts token row `row` when it is one of the batch and its slot is this rank's. All lanes call it.
function kv_row.insert(row, lane)
  section "KV row"
  local done = label "not_inserted"
  scope(function()
    local slot, source, cache, at, scale, skip = b64 "slot", b64 "source", b64 "cache", b64 "at", f32 "scale", pred "skip"
    local pitch = b32 "pitch"
|   setp.ge.u32    $(skip), $(row), $(spec.batch);
| @$(skip) bra     $(done);
|   ld.param.u64   $(at), [$(param.slots)];
|   mad.wide.u32   $(at), $(row), 8, $(at);
|   ld.global.s64  $(slot), [$(at)];
|   setp.lt.s64    $(skip), $(slot), 0;
| @$(skip) bra     $(done);
    cache_row(cache, slot)
|   ld.param.u64   $(source), [$(param.qkv)];
|   ld.param.u32   $(pitch), [$(param.pitch)];
|   mul.lo.u32     $(pitch), $(pitch), $(row);
|   mad.wide.u32   $(source), $(pitch), 2, $(source);
|   ld.param.f32   $(scale), [$(param.k_scale_inv)];
    scope(function() latent(lane, source, cache, scale) end)
    scope(function() position(row, lane, source, cache, scale) end)
  end)
| $(done):
end

return kv_row
