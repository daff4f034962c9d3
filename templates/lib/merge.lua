-- merge: the owner's half of dcp_value for 16 token rows of one head, by one CTA of 512 threads.
--   weights  warp w, row t0 + w: lane s polls the LSE of source s, re-arms it; weight 2^(lse - top) / sum of them
--   rows     thread (tid / 64 + 8 half, chunk tid % 64): polls the chunk of every source, 8 in flight, re-arms it; FP32 sum in
--            the order of the sources; a source of weight 0 is polled and re-armed but never multiplied (it may hold NaN)
--   product  one BF16 rounding -> shared [16][544] -> W_UV by mma.m16n8k16, warp w owns columns 8w..8w+7 -> BF16 -> gate -> BF16
-- With dcp = 1 the rows are read where the decode wrote them, as a merge of one source; nothing is polled.
local bf16 = include "lib/bf16"
local warp = include "lib/warp"
local mailbox = include "lib/mailbox"
local merge = { ROWS = 16, THREADS = 512, PITCH = 544 }

local D, H, B = spec.dcp, spec.heads, spec.batch
local alone = D == 1

merge.params = alone and { "rows", "rows_lse", "lens", "kv_b", "totals", "output" }
  or { "partial", "lse", "kv_b", "totals", "output" }
if spec.gate == 1 then
  merge.params[#merge.params + 1] = "gate"
  merge.params[#merge.params + 1] = "pitch"
end

-- Indices of the thread. t0: first row of the tile; group, quarter: the mma fragment's row and column index.
function merge.open(tid)
  local m = { tid = tid }
  m.lane, m.warp, m.head, m.t0 = b32 "lane", b32 "warp", b32 "head", b32("t0", "first row of the tile")
  m.group, m.quarter, m.column = b32 "group", b32 "quarter", b32("column", "of the output row")
|   and.b32        $(m.lane), $(tid), 31;
|   shr.u32        $(m.warp), $(tid), 5;
|   shr.u32        $(m.group), $(m.lane), 2;
|   and.b32        $(m.quarter), $(m.lane), 3;
|   mov.u32        $(m.head), %ctaid.x;
|   mov.u32        $(m.t0), %ctaid.y;
|   shl.b32        $(m.t0), $(m.t0), 4;
|   shl.b32        $(m.column), $(m.warp), 3;
|   mad.lo.u32     $(m.column), $(m.head), 128, $(m.column);
|   mad.lo.u32     $(m.column), $(m.quarter), 2, $(m.column);
  m.latent = shared("latent", merge.ROWS * merge.PITCH * 2, 16)
  m.scales = shared("scales", merge.ROWS * D * 4, 16)
  return m
end

-- Before the wait: this warp's W_UV columns, 16 chunks of 32 latents; thread: latents 32c + 8 quarter .. + 7 of column 8w + group.
-- guard: "@%p " or "".
function merge.weights(m, guard)
  m.w_uv = b32("w_uv", 64, "B fragments of the whole product")
  scope(function()
    local at, row = b64 "at", b32 "row"
|   ld.param.u64   $(at), [$(param.kv_b)];
|   mad.lo.u32     $(row), $(m.head), 256, 128;       // W_UV follows the head's 128 rows of W_UK
|   mad.lo.u32     $(row), $(m.warp), 8, $(row);
|   add.u32        $(row), $(row), $(m.group);
|   mad.wide.u32   $(at), $(row), 1024, $(at);
|   mul.lo.u32     $(row), $(m.quarter), 16;
    scope(function()
      local wide = b64 "wide"
|   cvt.u64.u32    $(wide), $(row);
|   add.u64        $(at), $(at), $(wide);
    end)
    for c = 0, 15 do
      local w = 4 * c
| $(guard) ld.global.nc.v4.u32 {$(m.w_uv[w]), $(m.w_uv[w + 1]), $(m.w_uv[w + 2]), $(m.w_uv[w + 3])}, [$(at)+$(64 * c)];   // const_input
    end
  end)
end

-- token[r]: the two rows of this thread's fragment; live[r]: row of the batch; active[r]: its request is no padding; gate[r]: BF16 pair.
function merge.inputs(m)
  m.token, m.live, m.active = b32("token", 2), pred("live", 2), pred("active", 2)
  m.gate = b32("gate_pair", 2)
  for r = 0, 1 do
    scope(function()
      local at, request, total = b64 "at", b32 "request", b32 "total"
|   add.u32        $(m.token[r]), $(m.t0), $(m.group);
|   add.u32        $(m.token[r]), $(m.token[r]), $(8 * r);
|   setp.lt.u32    $(m.live[r]), $(m.token[r]), $(B);
|   mov.b32        $(m.gate[r]), 0;
|   mov.u32        $(total), 0;
|   ld.param.u64   $(at), [$(param.totals)];
|   div.u32        $(request), $(m.token[r]), $(spec.q);
|   mad.wide.u32   $(at), $(request), 4, $(at);
| @$(m.live[r]) ld.global.s32 $(total), [$(at)];
|   setp.gt.s32    $(m.active[r]), $(total), 0;
      if spec.gate == 1 then
|   ld.param.u32   $(request), [$(param.pitch)];
|   mul.lo.u32     $(request), $(request), $(m.token[r]);
|   add.u32        $(request), $(request), $(m.column);
|   ld.param.u64   $(at), [$(param.gate)];
|   mad.wide.u32   $(at), $(request), 2, $(at);
| @$(m.live[r]) ld.global.b32 $(m.gate[r]), [$(at)];
      end
    end)
  end
end

-- The product of the 16 merged rows in shared memory; result[0..3]: rows group, group, group + 8, group + 8.
function merge.product(m)
  section "W_UV"
  m.result = f32("result", 4)
  scope(function()
    local part = f32("part", 8, "two chains")
    local x, y, at = b32("x", 4), b32("y", 4), b32 "at"
    for i = 0, 7 do
|   mov.f32        $(part[i]), 0f00000000;
    end
|   mov.u32        $(at), $(m.latent);
|   mad.lo.u32     $(at), $(m.group), $(2 * merge.PITCH), $(at);
|   mad.lo.u32     $(at), $(m.quarter), 16, $(at);
    for c = 0, 15 do
|   ld.shared.v4.u32 {$(x[0]), $(x[1]), $(x[2]), $(x[3])}, [$(at)+$(64 * c)];
|   ld.shared.v4.u32 {$(y[0]), $(y[1]), $(y[2]), $(y[3])}, [$(at)+$(64 * c + 16 * merge.PITCH)];
      for s = 0, 1 do
        local p, w = 4 * s, 4 * c + 2 * s
|   mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
|       {$(part[p]), $(part[p + 1]), $(part[p + 2]), $(part[p + 3])},
|       {$(x[2 * s]), $(y[2 * s]), $(x[2 * s + 1]), $(y[2 * s + 1])}, {$(m.w_uv[w]), $(m.w_uv[w + 1])},
|       {$(part[p]), $(part[p + 1]), $(part[p + 2]), $(part[p + 3])};
      end
    end
    for i = 0, 3 do
|   add.rn.f32     $(m.result[i]), $(part[i]), $(part[i + 4]);
    end
  end)
end

-- value := sigmoid(gate) * value
local function apply_gate(value, gate)
  scope(function()
    local e = f32 "e"
|   mul.rn.f32     $(e), $(gate), $(f32(-1.4426950408889634));
|   ex2.approx.f32 $(e), $(e);
|   add.rn.f32     $(e), $(e), 0f3f800000;
|   rcp.rn.f32     $(e), $(e);
|   mul.rn.f32     $(value), $(value), $(e);
  end)
end

-- address := output[t[r], column] (a pair).
local function output_pair(m, address, r)
  scope(function()
    local index = b32 "index"
|   ld.param.u64   $(address), [$(param.output)];
|   mad.lo.u32     $(index), $(m.token[r]), $(H * 128), $(m.column);
|   mad.wide.u32   $(address), $(index), 2, $(address);
  end)
end

function merge.store(m)
  section "gate and store"
  for r = 0, 1 do
    scope(function()
      local at, pair, lo, hi, g0, g1 = b64 "at", b32 "pair", f32 "lo", f32 "hi", f32 "g0", f32 "g1"
      bf16.pack(pair, m.result[2 * r], m.result[2 * r + 1])
      if spec.gate == 1 then
        bf16.unpack(lo, hi, pair)
        bf16.unpack(g0, g1, m.gate[r])
        apply_gate(lo, g0)
        apply_gate(hi, g1)
        bf16.pack(pair, lo, hi)
      end
|   selp.b32       $(pair), $(pair), 0, $(m.active[r]);   // padding: +0, whatever its gate
      output_pair(m, at, r)
| @$(m.live[r]) st.global.b32 [$(at)], $(pair);
    end)
  end
end

-- A dead box: NaN over this CTA's tile.
function merge.store_nan(m)
  for r = 0, 1 do
    scope(function()
      local at = b64 "at"
      output_pair(m, at, r)
| @$(m.live[r]) st.global.b32 [$(at)], 0x7fff7fff;
    end)
  end
end

-- scale[row][source] of the tile: lse (lane s: of source s, EMPTY elsewhere) of row t0 + warp -> shared.
function merge.scale(m, lse)
  scope(function()
    local top, weight, total, real = f32 "top", f32 "weight", f32 "total", pred "real"
    local at, mine = b32 "at", pred "mine"
|   mov.f32        $(top), $(lse);
    warp.reduce("max", top)
|   setp.gt.f32    $(real), $(lse), 0fff800000;
|   sub.rn.f32     $(weight), $(lse), $(top);
|   ex2.approx.f32 $(weight), $(weight);
|   selp.f32       $(weight), $(weight), 0f00000000, $(real);
|   mov.f32        $(total), $(weight);
    warp.reduce("add.rn", total)
|   setp.gt.f32    $(real), $(total), 0f00000000;
|   div.rn.f32     $(weight), $(weight), $(total);
|   selp.f32       $(weight), $(weight), 0f00000000, $(real);
|   setp.lt.u32    $(mine), $(m.lane), $(D);
|   mov.u32        $(at), $(m.scales);
|   mad.lo.u32     $(at), $(m.warp), $(4 * D), $(at);
|   mad.lo.u32     $(at), $(m.lane), 4, $(at);
| @$(mine) st.shared.f32 [$(at)], $(weight);
  end)
end

-- merged[0..7] += scale[local_row][source] * the chunk's 8 values, unless the scale is 0.
function merge.add(m, merged, words, local_row, source)
  scope(function()
    local at, scale, counts, lo, hi = b32 "at", f32 "scale", pred "counts", f32 "lo", f32 "hi"
|   mov.u32        $(at), $(m.scales);
|   mad.lo.u32     $(at), $(local_row), $(4 * D), $(at);
|   ld.shared.f32  $(scale), [$(at)+$(4 * source)];
|   setp.neu.f32   $(counts), $(scale), 0f00000000;
    for i = 0, 3 do
      bf16.unpack(lo, hi, words[i])
| @$(counts) fma.rn.f32 $(merged[2 * i]), $(scale), $(lo), $(merged[2 * i]);
| @$(counts) fma.rn.f32 $(merged[2 * i + 1]), $(scale), $(hi), $(merged[2 * i + 1]);
    end
  end)
end

-- merged -> BF16 -> shared [local_row][8 chunk ..].
function merge.keep(m, merged, local_row, chunk)
  scope(function()
    local word, at = b32("word", 4), b32 "at"
    for i = 0, 3 do bf16.pack(word[i], merged[2 * i], merged[2 * i + 1]) end
|   mov.u32        $(at), $(m.latent);
|   mad.lo.u32     $(at), $(local_row), $(2 * merge.PITCH), $(at);
|   mad.lo.u32     $(at), $(chunk), 16, $(at);
|   st.shared.v4.u32 [$(at)], {$(word[0]), $(word[1]), $(word[2]), $(word[3])};
  end)
end

return merge
