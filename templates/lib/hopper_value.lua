-- hopper_value: the two PV warpgroups of mla_decode's form for sm_90a: O^T = V^T P^T by wgmma, 256 latents each. V^T comes from the key
-- stage as A fragments (ldmatrix transposes pairs of bytes, prmt sorts them), P is B in shared memory.
-- FP8 products are summed over one tile (64 keys) in the tensor core, which keeps about 13 bits, and then added to FP32 sums here: exact to
-- spec decision 7 at every length, and rescaling never touches what is in flight.
-- Block mb of a warpgroup: latents 64 mb .. + 63 of its 256; thread (warp w, group g, quarter t): acc[mb][4 i + 2 p + e]: latent
-- 64 mb + 16 w + 2 g + p of row 8 i + 2 t + e.
local shape = include "lib/hopper_shape"
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

-- In tiles that some row does not see whole NaN bytes become 0: of dead keys, and of keys that only some rows see (a row that sees one
-- has a NaN score). P is 0 there, and e4m3 has no infinities.
local function clean(a, x, t)
  local whole = label "tile_whole"
  scope(function()
    local edge = pred "edge"
|   setp.lt.u32    $(edge), $(t), $(a.safe);
| @$(edge) bra     $(whole);
    for i = 0, 7 do fp8.without_nan(x[i]) end
  end)
| $(whole):
end

-- x[4 h ..]: A fragments of half h.
local function sort(a, x, raw, t)
  for h = 0, 1 do
    for k = 0, 1 do
|   prmt.b32       $(x[4 * h + 2 * k]), $(raw[4 * h + 2 * k]), $(raw[4 * h + 2 * k + 1]), $(shape.few and "0x6240" or "0x6420");
|   prmt.b32       $(x[4 * h + 2 * k + 1]), $(raw[4 * h + 2 * k]), $(raw[4 * h + 2 * k + 1]), $(shape.few and "0x7351" or "0x7531");
    end
  end
  clean(a, x, t)
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

local function multiply(x, sums, p)
  scope(function()
    local second = b64 "second"
|   add.u64        $(second), $(p), 2;
    wgmma.fence()
    wgmma.product(sums, N, x, 0, p, true)
    wgmma.product(sums, N, x, 4, second, false)
    wgmma.commit()
  end)
end

local function find_p(a, p, slot, ready)
  scope(function()
    local bar = b32 "bar"
|   mad.lo.u32     $(bar), $(slot), 8, $(a.memory);
    mbarrier.wait(bar, shape.P_FULL, ready)
|   mad.lo.u32     $(bar), $(slot), 4096, $(a.memory);
|   add.u32        $(bar), $(bar), $(shape.P);
    wgmma.descriptor(p, bar, 64)
  end)
end

local function free_p(a, slot)
  scope(function()
    local first, bar = pred "first", b32 "bar"
|   bar.warp.sync  0xffffffff;                          // every lane has read the slot's scales and flags
|   setp.eq.u32    $(first), $(a.lane), 0;
|   mad.lo.u32     $(bar), $(slot), 8, $(a.memory);
| @$(first) mbarrier.arrive.shared::cta.b64 _, [$(bar)+$(shape.P_FREE)];
  end)
end

-- Few rows: all four blocks at once.
local function whole_tile(a, acc, t, stage, slot, ready, at)
  scope(function()
    local raw, x, sums, p, second = b32("raw", 32), b32("x", 32), f32("sums", 4 * SUMS), b64 "p", b64 "second"
    local function part(array, size, mb)
      local view = {}
      for k = 0, size - 1 do view[k] = array[size * mb + k] end
      return view
    end
    for mb = 0, 3 do load(a, part(raw, 8, mb), at, mb) end
    for mb = 0, 3 do sort(a, part(x, 8, mb), part(raw, 8, mb), t) end
    a.release(stage)
    find_p(a, p, slot, ready)
    rescale(a, acc, slot)
|   add.u64        $(second), $(p), 2;
    wgmma.fence()
    for mb = 0, 3 do
      wgmma.product(part(sums, SUMS, mb), N, x, 8 * mb, p, true)
      wgmma.product(part(sums, SUMS, mb), N, x, 8 * mb + 4, second, false)
    end
    wgmma.commit()
    wgmma.wait(0)
    free_p(a, slot)
    for mb = 0, 3 do add(acc, mb, part(sums, SUMS, mb)) end
  end)
end

-- Block by block. With two sets of sums the products of a block run while those of the one before are added.
local function tile_in_blocks(a, acc, t, stage, slot, ready, at)
  local two = shape.sets == 2
  scope(function()
    local raw, x = b32("raw", 8), { b32("x", 8), two and b32("x_other", 8) }
    local sums = { f32("sums", SUMS), two and f32("sums_other", SUMS) }
    local p = b64 "p"
    local function of(pairs_, mb) return pairs_[two and mb % 2 + 1 or 1] end
    load(a, raw, at, 0)
    sort(a, of(x, 0), raw, t)
    load(a, raw, at, 1)
    find_p(a, p, slot, ready)
    rescale(a, acc, slot)
    for mb = 0, 3 do
      multiply(of(x, mb), of(sums, mb), p)
      if two then
        if mb > 0 then
          wgmma.wait(1)
          add(acc, mb - 1, of(sums, mb - 1))
        end
      else
        wgmma.wait(0)
        add(acc, mb, of(sums, mb))
      end
      if mb < 3 then
        sort(a, of(x, mb + 1), raw, t)
        if mb < 2 then load(a, raw, at, mb + 2) else a.release(stage) end
      end
    end
    if two then
      wgmma.wait(0)
      add(acc, 3, of(sums, 3))
    end
    free_p(a, slot)
  end)
end

local function tile(a, acc, t, stage, slot, full, ready)
  scope(function()
    local at, full_at = b32 "at", b32 "full_at"
|   mad.lo.u32     $(full_at), $(stage), 8, $(a.memory);
    mbarrier.wait(full_at, shape.FULL, full)
|   mad.lo.u32     $(at), $(stage), $(shape.STAGE), $(a.value_at);
    if shape.sets == 4 then whole_tile(a, acc, t, stage, slot, ready, at) else tile_in_blocks(a, acc, t, stage, slot, ready, at) end
  end)
end

-- acc: [4][n / 2], declared by the caller. part: which of the two warpgroups.
function hopper_value.run(a, acc)
  section "PV warpgroups"
  a.value_at, a.swing = b32("value_at", "this lane's key row of a stage"), b32("swing", "its unit, swizzled")
  local t, stage, full, slot, ready, more = b32 "t", b32("ring", "stage"), b32 "full", b32 "slot", b32 "ready", pred "more"
  local again, over = label "value", label "valued"
|   mad.lo.u32     $(a.value_at), $(a.part), 16384, $(a.memory);
|   mad.lo.u32     $(a.value_at), $(a.lane), 128, $(a.value_at);
|   and.b32        $(a.swing), $(a.lane), 7;
|   xor.b32        $(a.swing), $(a.swing), $(a.w);
|   shl.b32        $(a.swing), $(a.swing), 4;
  for k = 0, 4 * SUMS - 1 do
|   mov.f32        $(acc[k]), 0f00000000;
  end
|   mov.u32        $(t), $(a.split);
|   mov.u32        $(stage), 0;
|   mov.u32        $(full), 0;
|   mov.u32        $(slot), 0;
|   mov.u32        $(ready), 0;
|   setp.ge.u32    $(more), $(t), $(a.last);
| @$(more) bra     $(over);
| $(again):
  tile(a, acc, t, stage, slot, full, ready)
  a.next(stage, full, shape.stages)
  a.next(slot, ready, 2)
|   add.u32        $(t), $(t), $(a.live);
|   setp.lt.u32    $(more), $(t), $(a.last);
| @$(more) bra     $(again);
| $(over):
  mbarrier.wait(a.memory, shape.ENDED, 0)
end

return hopper_value
