-- hopper_value: the two PV warpgroups of mla_decode's form for sm_90a: O^T = V^T P^T by wgmma, 256 latents each. V^T comes from the key
-- stage as A fragments (ldmatrix transposes pairs of bytes, prmt sorts them), P is B in shared memory.
-- FP8 products are summed over one tile (64 keys) in the tensor core, which keeps about 13 bits, and then added to FP32 sums here: exact to
-- spec decision 7 at every length, and rescaling never touches what is in flight.
-- Tile by tile: while the products of a tile's last block run, the first A fragments of the next tile are loaded; a tile that some row does
-- not see all of is one of the last, and has a loop of its own.
-- Block mb of a warpgroup: latents 64 mb .. + 63 of its 256; thread (warp w, group g, quarter t): acc[mb][4 i + 2 p + e]: latent
-- 64 mb + 16 w + 2 g + p of row 8 i + 2 t + e.
return function(shape)
local mbarrier = include "lib/mbarrier"
local wgmma = include "lib/wgmma"
local fp8 = include "lib/fp8"
local hopper_value = {}
local N = shape.n
local SUMS = N // 2                                     -- of a block

-- raw: block mb of the tile: 64 latents by 64 keys, halves of 32 keys.
local function load(a, raw, stage, mb)
  scope(function()
    local at = b32 "from"
|   xor.b32        $(at), $(a.swing), $(64 * (mb % 2));
|   add.u32        $(at), $(at), $(stage);
    for h = 0, 1 do
|   ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 $(wgmma.list(raw, 4 * h, 4)), [$(at)+$(8192 * (mb // 2) + 4096 * h)];
    end
  end)
end

-- x: A fragments of a block, half h at 4 h, from raw.
local function sort(x, raw)
  for k = 0, 6, 2 do
|   prmt.b32       $(x[k]), $(raw[k]), $(raw[k + 1]), $(shape.few and "0x6240" or "0x6420");
|   prmt.b32       $(x[k + 1]), $(raw[k]), $(raw[k + 1]), $(shape.few and "0x7351" or "0x7531");
  end
end

-- In tiles that some row does not see whole NaN bytes become 0: of dead keys, and of keys that only some rows see (a row that sees one
-- has a NaN score). P is 0 there, and e4m3 has no infinities.
local function clean(x)
  for i = 0, 7 do fp8.without_nan(x[i]) end
end

-- acc *= the slot's scales, where a warp of the softmax says so.
local function rescale(a, acc, slot)
  local same = label "same_maxima"
  scope(function()
    local flag, any, moved, at, by = b32("flag", 4), b32 "any", pred "moved", b32 "at", f32("by", 2)
|   mad.lo.u32     $(at), $(slot), 16, $(a.memory);
|   ld.shared.v4.u32 $(wgmma.list(flag, 0, 4)), [$(at)+$(shape.FLAG)];
|   mov.b32        $(any), $(flag[0]);
    for w = 1, shape.warps - 1 do
|   or.b32         $(any), $(any), $(flag[w]);
    end
|   setp.eq.u32    $(moved), $(any), 0;
| @$(moved) bra    $(same);
|   mad.lo.u32     $(at), $(slot), 256, $(a.memory);
|   mad.lo.u32     $(at), $(a.quarter), 8, $(at);
    for i = 0, N // 8 - 1 do
|   ld.shared.v2.f32 {$(by[0]), $(by[1])}, [$(at)+$(shape.SCALE + 32 * i)];
|   setp.ne.u32    $(moved), $(flag[i // 2]), 0;
      for e = 0, 1 do
|   selp.f32       $(by[e]), $(by[e]), 0f3F800000, $(moved);
        for mb = 0, 3 do
          for p = 0, 1 do
            local k = SUMS * mb + 4 * i + 2 * p + e
|   mul.rn.f32     $(acc[k]), $(acc[k]), $(by[e]);
          end
        end
      end
    end
  end)
| $(same):
end

local function add(acc, mb, sums)
  for k = 0, SUMS - 1 do
|   add.rn.f32     $(acc[SUMS * mb + k]), $(acc[SUMS * mb + k]), $(sums[k]);
  end
end

-- sums[i] := the block whose A fragments are x[i], i = 1 .. #x.
local function multiply(x, sums, p)
  scope(function()
    local first, second = b64 "first_half", b64 "second_half"
    wgmma.descriptor(first, p, 0, 64)
    wgmma.descriptor(second, p, 2, 64)
    wgmma.fence()
    for i = 1, #x do
      wgmma.product(sums[i], N, x[i], 0, first, true)
      wgmma.product(sums[i], N, x[i], 4, second, false)
    end
    wgmma.commit()
  end)
end

-- p := P of the slot, which is there.
local function find_p(a, v, p)
  scope(function()
    local bar = b32 "bar"
|   mad.lo.u32     $(bar), $(v.slot), 8, $(a.memory);
    mbarrier.wait(bar, shape.P_FULL, v.ready)
|   mad.lo.u32     $(bar), $(v.slot), 4096, $(a.memory);
|   add.u32        $(bar), $(bar), $(shape.P);
    wgmma.place(p, bar)
  end)
end

local function free_p(a, v)
  scope(function()
    local first, bar = pred "first", b32 "bar"
|   bar.warp.sync  0xffffffff;                          // every lane has read the slot's scales and flags
|   setp.eq.u32    $(first), $(a.lane), 0;
|   mad.lo.u32     $(bar), $(v.slot), 8, $(a.memory);
| @$(first) mbarrier.arrive.shared::cta.b64 _, [$(bar)+$(shape.P_FREE)];
  end)
end

-- at := the stage's key rows of this lane.
local function find_stage(a, v, at)
|   mad.lo.u32     $(at), $(v.stage), $(shape.STAGE), $(a.value_at);
end

-- The same once the stage is full.
local function wait_for_stage(a, v, at)
|   mad.lo.u32     $(at), $(v.stage), 8, $(a.memory);
    mbarrier.wait(at, shape.FULL, v.full)
    find_stage(a, v, at)
end

-- fn() where there is a next tile.
local function if_more(v, fn)
  local none = label "no_more"
| @!$(v.more) bra  $(none);
  fn()
| $(none):
end

-- Few rows: all four blocks at once. v.x: their A fragments, when a tile begins.
local whole = {}

function whole.open(a, v)
  v.x, v.raw, v.sums = {}, {}, {}
  for mb, name in ipairs { "a", "b", "c", "d" } do
    v.x[mb], v.raw[mb], v.sums[mb] = b32("x_" .. name, 8), b32("raw_" .. name, 8), f32("sums_" .. name, SUMS)
  end
end

local function load_whole(a, v)
  scope(function()
    local at = b32 "at"
    wait_for_stage(a, v, at)
    for mb = 0, 3 do load(a, v.raw[mb + 1], at, mb) end
  end)
end

local function sort_whole(v)
  for mb = 1, 4 do sort(v.x[mb], v.raw[mb]) end
end

function whole.first(a, v)
  load_whole(a, v)
  sort_whole(v)
end

function whole.tile(a, acc, v, edge)
  scope(function()
    local p = b32 "p"
    a.release(v.stage)
    a.next(v.stage, v.full, shape.stages)
    for mb = 1, edge and 4 or 0 do clean(v.x[mb]) end
    find_p(a, v, p)
    multiply(v.x, v.sums, p)
    rescale(a, acc, v.slot)
    if_more(v, function() load_whole(a, v) end)
    wgmma.wait(0)
    free_p(a, v)
    for mb = 0, 3 do add(acc, mb, v.sums[mb + 1]) end
    if_more(v, function() sort_whole(v) end)
  end)
end

-- Block by block: A fragments are made while the products of the block before run. With two sets of sums so are sums added. v.x[0]: the
-- first block's fragments, when a tile begins.
local blocks = {}
local TWO = shape.sets == 2

function blocks.open(a, v)
  v.x, v.raw = { [0] = b32("x", 8), b32("x_other", 8) }, b32("raw", 8)
  v.sums = { [0] = f32("sums", SUMS), TWO and f32("sums_other", SUMS) or nil }
end

function blocks.first(a, v)
  scope(function()
    local at = b32 "at_first"
    wait_for_stage(a, v, at)
    load(a, v.raw, at, 0)
    sort(v.x[0], v.raw)
  end)
end

-- What comes while the products of block mb run: the next block's fragments.
local function meanwhile(a, acc, v, at, mb, edge)
  if mb == 3 then
    a.next(v.stage, v.full, shape.stages)
    if_more(v, function() blocks.first(a, v) end)
    return
  end
  load(a, v.raw, at, mb + 1)
  if mb == 0 then rescale(a, acc, v.slot) end
  sort(v.x[(mb + 1) % 2], v.raw)
  if edge then clean(v.x[(mb + 1) % 2]) end
  if mb == 2 then a.release(v.stage) end
end

function blocks.tile(a, acc, v, edge)
  scope(function()
    local p, at = b32 "p", b32 "at"
    find_stage(a, v, at)
    if edge then clean(v.x[0]) end
    find_p(a, v, p)
    for mb = 0, 3 do
      multiply({ v.x[mb % 2] }, { v.sums[TWO and mb % 2 or 0] }, p)
      if TWO and mb > 0 then
        wgmma.wait(1)
        add(acc, mb - 1, v.sums[(mb - 1) % 2])
      end
      meanwhile(a, acc, v, at, mb, edge)
      if not TWO or mb == 3 then
        wgmma.wait(0)
        if mb == 3 then free_p(a, v) end
        add(acc, mb, v.sums[TWO and 1 or 0])
      end
    end
  end)
end

-- acc: [4][n / 2], declared by the caller. part: which of the two warpgroups.
function hopper_value.run(a, acc)
  section "PV warpgroups"
  local form = shape.sets == 4 and whole or blocks
  a.value_at, a.swing = b32("value_at", "this lane's key row of a stage"), b32("swing", "its unit, swizzled")
  local v = { stage = b32("ring", "stage"), full = b32 "full", slot = b32 "slot", ready = b32 "ready", more = pred("more", "another tile comes") }
  local t, idle, over = b32 "t", pred "idle", label "valued"
  form.open(a, v)
|   mad.lo.u32     $(a.value_at), $(a.part), 16384, $(a.memory);
|   mad.lo.u32     $(a.value_at), $(a.lane), 128, $(a.value_at);
|   and.b32        $(a.swing), $(a.lane), 7;
|   xor.b32        $(a.swing), $(a.swing), $(a.w);
|   shl.b32        $(a.swing), $(a.swing), 4;
  for k = 0, 4 * SUMS - 1 do
|   mov.f32        $(acc[k]), 0f00000000;
  end
|   mov.u32        $(t), $(a.split);
|   mov.u32        $(v.stage), 0;
|   mov.u32        $(v.full), 0;
|   mov.u32        $(v.slot), 0;
|   mov.u32        $(v.ready), 0;
|   setp.ge.u32    $(idle), $(t), $(a.last);
| @$(idle) bra     $(over);
  form.first(a, v)
  for _, edge in ipairs { false, true } do
    local again, past = label(edge and "edge" or "value"), label(edge and "edges_done" or "to_edges")
| $(again):
|   setp.ge.u32    $(idle), $(t), $(edge and a.last or a.safe);
| @$(idle) bra     $(past);
|   add.u32        $(t), $(t), $(a.live);
|   setp.lt.u32    $(v.more), $(t), $(a.last);
    form.tile(a, acc, v, edge)
    a.next(v.slot, v.ready, 2)
|   bra            $(again);
| $(past):
  end
| $(over):
  mbarrier.wait(a.memory, shape.ENDED, 0)
end

return hopper_value
end
