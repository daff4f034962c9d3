-- query_norm: q_c = BF16 RMSNorm of the q_a columns of the packed projection, bit for bit as mla_query computes it.
--   qkv [B, pitch] BF16, columns 0..1535; q_a_norm [1536] BF16; qc [B, 1536] BF16; eps F32.
-- Two forms that differ in the order of the sum, chosen by batch >= tiled_from:
--   scalar  one row a CTA:  thread t < 192 owns columns 8t..8t+7; strict order, warp butterflies, then warps 0..7 in order
--   tiled   one row a warp: lane l owns columns 256 i + 8 l + k (i < 6, k < 8); four chains by e mod 4
-- Schedule: gamma -> wait -> let the dependents in -> the row in 16-byte loads -> sum -> scale -> store.
local pdl = include "lib/pdl"
local warp = include "lib/warp"
local norm = include "lib/norm"

need { ptx = "7.8", target = "sm_90" }
local tiled = spec.batch >= spec.tiled_from
local pieces = tiled and 6 or 1                      -- 16-byte pieces of a thread

kernel {
  grid = { tiled and ceil_div(spec.batch, 8) or spec.batch }, block = { 256 },
  params = { "qkv", "q_a_norm", "qc", "pitch", "eps" },
}

local tid, lane, wid = b32 "thread", b32 "lane", b32 "warp"
local row, column = b32 "row", b32("column", "first of the thread's columns")
local owner = pred("owner", "this thread has columns of a row of the batch")
local qkv, gammas, qc = b64 "qkv", b64 "gammas", b64 "qc"
local pitch, eps = b32 "pitch", f32 "eps"
local words = b32("words", 4)
local gamma, x = f32("gamma", 8 * pieces), f32("x", 8 * pieces)
local total, rr = f32 "total", f32 "rr"

|   ld.param.u64   $(qkv), [$(param.qkv)];
|   ld.param.u64   $(gammas), [$(param.q_a_norm)];
|   ld.param.u64   $(qc), [$(param.qc)];
|   ld.param.u32   $(pitch), [$(param.pitch)];
|   ld.param.f32   $(eps), [$(param.eps)];
|   mov.u32        $(tid), %tid.x;
|   and.b32        $(lane), $(tid), 31;
|   shr.u32        $(wid), $(tid), 5;
|   mov.u32        $(row), %ctaid.x;
if tiled then
|   mad.lo.u32     $(row), $(row), 8, $(wid);
|   shl.b32        $(column), $(lane), 3;
|   setp.lt.u32    $(owner), $(row), $(spec.batch);
else
|   setp.lt.u32    $(owner), $(tid), 192;
|   shl.b32        $(column), $(tid), 3;
| @!$(owner) mov.u32 $(column), 0;                   // loads gamma 0..7 and drops it
end

section "gamma, before the predecessor has finished"
|   mad.wide.u32   $(gammas), $(column), 2, $(gammas);
for i = 0, pieces - 1 do
|   ld.global.nc.v4.u32 {$(words[0]), $(words[1]), $(words[2]), $(words[3])}, [$(gammas)+$(512 * i)];   // const_input
  norm.unpack(gamma, 8 * i, words)
end
pdl.wait()
pdl.launch_dependents()

section "the row"
scope(function()
  local at = b64 "at"
|   mad.lo.u32     $(pitch), $(row), $(pitch), $(column);
|   mad.wide.u32   $(at), $(pitch), 2, $(qkv);
  for k = 0, 8 * pieces - 1 do
|   mov.f32        $(x[k]), 0f00000000;
  end
  for i = 0, pieces - 1 do
|   mov.b32        $(words[0]), 0;
|   mov.b32        $(words[1]), 0;
|   mov.b32        $(words[2]), 0;
|   mov.b32        $(words[3]), 0;
| @$(owner) ld.global.v4.u32 {$(words[0]), $(words[1]), $(words[2]), $(words[3])}, [$(at)+$(512 * i)];
    norm.unpack(x, 8 * i, words)
  end
end)

section "sum of squares"
if tiled then
  norm.row_total(total, x, true)
else
  local sums = shared("warp_sums", 32, 16)
  local at, first = b32 "sum_at", pred "first_lane"
  local part = f32("part", 8)
|   mov.f32        $(total), 0f00000000;
  for k = 0, 7 do
|   fma.rn.f32     $(total), $(x[k]), $(x[k]), $(total);
  end
  warp.reduce("add.rn", total)
|   setp.eq.u32    $(first), $(lane), 0;
|   mov.u32        $(at), $(sums);
|   mad.lo.u32     $(at), $(wid), 4, $(at);
| @$(first) st.shared.f32 [$(at)], $(total);
|   bar.sync       0;
|   mov.f32        $(total), 0f00000000;
|   ld.shared.v4.f32 {$(part[0]), $(part[1]), $(part[2]), $(part[3])}, [$(sums)];
|   ld.shared.v4.f32 {$(part[4]), $(part[5]), $(part[6]), $(part[7])}, [$(sums)+16];
  for k = 0, 7 do
|   add.rn.f32     $(total), $(total), $(part[k]);
  end
end
norm.rsqrt(rr, total, eps)

section "scale and store"
|   mad.lo.u32     $(row), $(row), $(norm.WIDTH), $(column);
|   mad.wide.u32   $(qc), $(row), 2, $(qc);
for i = 0, pieces - 1 do
  norm.scale(words, x, gamma, 8 * i, rr)
| @$(owner) st.global.v4.u32 [$(qc)+$(512 * i)], {$(words[0]), $(words[1]), $(words[2]), $(words[3])};
end
|   ret;
