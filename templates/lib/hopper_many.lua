-- hopper_many: softmax of mla_decode's form for sm_90a with more than 16 rows: S = Q K^T of a key tile by wgmma (64 rows, of which n exist, by
-- 64 keys), row maxima, P in e4m3 to shared. Thread (warp w, group g, quarter t) holds of rows 16 w + g and + 8 the keys 8 i + 2 t and + 1,
-- i = 0..7: s[4 i + 2 r + e]. P's bytes of 16 keys stand in the order 2 t, 2 t + 1, 2 t + 8, 2 t + 9 (t = 0..3).
return function(shape)
local row_max = include "lib/row_max"
local mbarrier = include "lib/mbarrier"
local wgmma = include "lib/wgmma"
local hopper_product = include "lib/hopper_product"
local many = {}

-- Keys at or past a row's bound: -inf. Only in tiles from a.safe on.
local function mask(a, s, t)
  local all = label "all_visible"
  scope(function()
    local key, hidden = b32 "key", pred "hidden"
|   setp.lt.u32    $(hidden), $(t), $(a.safe);
| @$(hidden) bra   $(all);
|   mad.lo.u32     $(key), $(t), 64, 0;
|   mad.lo.u32     $(key), $(a.quarter), 2, $(key);
    for i = 0, 7 do
      for e = 0, 1 do
        scope(function()
          local this = b32 "this"
|   add.u32        $(this), $(key), $(8 * i + e);
          for r = 0, 1 do
|   setp.ge.u32    $(hidden), $(this), $(a.bound[r]);
|   selp.f32       $(s[4 * i + 2 * r + e]), 0fff800000, $(s[4 * i + 2 * r + e]), $(hidden);
          end
        end)
      end
    end
  end)
| $(all):
end

-- top := m' with this tile's keys; flag: 1 where the warp's rows moved, with factors in the slot's scales. The slot of P is free after it.
local function maxima(a, s, slot, parity, flag)
  local still = label "maxima_stand"
  scope(function()
    local most, other, any, lead = f32("most", 2), f32 "other", pred "any", pred "lead"
    local factor, new, at = f32 "factor", f32 "new", b32 "at"
    for r = 0, 1 do
|   max.f32        $(most[r]), $(s[2 * r]), $(s[2 * r + 1]);
      for i = 1, 7 do
|   max.f32        $(other), $(s[4 * i + 2 * r]), $(s[4 * i + 2 * r + 1]);
|   max.f32        $(most[r]), $(most[r]), $(other);
      end
|   mul.rn.f32     $(most[r]), $(most[r]), $(a.scale);
    end
|   setp.gt.f32    $(any), $(most[0]), $(a.top[0]);
|   setp.gt.or.f32 $(any), $(most[1]), $(a.top[1]), $(any);
|   vote.sync.any.pred $(any), $(any), 0xffffffff;
|   selp.b32       $(flag), 1, 0, $(any);
|   mad.lo.u32     $(at), $(slot), 8, $(a.memory);
    mbarrier.wait(at, shape.P_FREE, parity)
| @!$(any) bra     $(still);
|   setp.eq.u32    $(lead), $(a.quarter), 0;
|   mad.lo.u32     $(at), $(slot), 64, $(a.group);
|   mad.lo.u32     $(at), $(a.w), 16, $(at);
|   mad.lo.u32     $(at), $(at), 4, $(a.memory);
    for r = 0, 1 do
      for _, lanes in ipairs { 1, 2 } do
|   shfl.sync.bfly.b32 $(other), $(most[r]), $(lanes), 31, 0xffffffff;
|   max.f32        $(most[r]), $(most[r]), $(other);
      end
|   cvt.rpi.f32.f32 $(new), $(most[r]);                  // rounded up to an integer
|   max.f32        $(new), $(new), $(a.top[r]);
      row_max.factor(factor, a.top[r], new)
|   mov.f32        $(a.top[r]), $(new);
|   mul.rn.f32     $(a.sum[r]), $(a.sum[r]), $(factor);
| @$(lead) st.shared.f32 [$(at)+$(shape.SCALE + 32 * r)], $(factor);
    end
  end)
| $(still):
end

-- P of the tile -> its slot; sums += the unrounded P, after the PV warpgroups know.
local function weights(a, s, slot, flag)
  scope(function()
    local zero, half, word, first = f32("zero", 2), b16("half", 2), b32("word", 8), pred "first"
    for r = 0, 1 do
|   sub.rn.f32     $(zero[r]), $(f32(8)), $(a.top[r]);
    end
    for i = 0, 31 do
|   fma.rn.f32     $(s[i]), $(s[i]), $(a.scale), $(zero[i % 4 // 2]);
|   ex2.approx.ftz.f32 $(s[i]), $(s[i]);
    end
    for i = 0, 3 do
      for r = 0, 1 do
        for h = 0, 1 do
|   cvt.rn.satfinite.e4m3x2.f32 $(half[h]), $(s[8 * i + 4 * h + 2 * r + 1]), $(s[8 * i + 4 * h + 2 * r]);
        end
|   mov.b32        $(word[2 * i + r]), {$(half[0]), $(half[1])};
      end
    end
    scope(function()
      local row, unit, at, swing, to = b32 "row", b32 "unit", b32 "at", b32 "swing", b32 "to"
|   and.b32        $(row), $(a.lane), 15;
|   mad.lo.u32     $(row), $(a.w), 16, $(row);
|   shr.u32        $(unit), $(a.lane), 4;
|   shr.u32        $(swing), $(row), 1;
|   and.b32        $(swing), $(swing), 3;
|   xor.b32        $(unit), $(unit), $(swing);
|   mad.lo.u32     $(at), $(slot), 4096, $(a.memory);
|   mad.lo.u32     $(at), $(row), 64, $(at);
|   mad.lo.u32     $(to), $(unit), 16, $(at);
|   stmatrix.sync.aligned.m8n8.x4.shared.b16 [$(to)+$(shape.P)], $(wgmma.list(word, 0, 4));
|   xor.b32        $(unit), $(unit), 2;
|   mad.lo.u32     $(to), $(unit), 16, $(at);
|   stmatrix.sync.aligned.m8n8.x4.shared.b16 [$(to)+$(shape.P)], $(wgmma.list(word, 4, 4));
|   setp.eq.u32    $(first), $(a.lane), 0;
|   mad.lo.u32     $(at), $(slot), 4, $(a.w);
|   mad.lo.u32     $(at), $(at), 4, $(a.memory);
| @$(first) st.shared.u32 [$(at)+$(shape.FLAG)], $(flag);
|   fence.proxy.async.shared::cta;
|   bar.warp.sync  0xffffffff;
|   mad.lo.u32     $(at), $(slot), 8, $(a.memory);
| @$(first) mbarrier.arrive.shared::cta.b64 _, [$(at)+$(shape.P_FULL)];
    end)
    for r = 0, 1 do
      scope(function()
        local part = f32("part", 2)
        for e = 0, 1 do
|   add.rn.f32     $(part[e]), $(s[2 * r + e]), $(s[4 + 2 * r + e]);
          for i = 2, 7 do
|   add.rn.f32     $(part[e]), $(part[e]), $(s[4 * i + 2 * r + e]);
          end
        end
|   add.rn.f32     $(part[0]), $(part[0]), $(part[1]);
|   add.rn.f32     $(a.sum[r]), $(a.sum[r]), $(part[0]);
      end)
    end
  end)
end

-- m', l and 1 / l (0 where the row saw no key) of the rows -> shared.
function many.ends(a)
  local none = label "no_ends"
  scope(function()
    local other, lead, at, seen = f32 "other", pred "lead", b32 "at", pred "seen"
|   setp.ge.u32    $(lead), $(a.w), $(shape.warps);
| @$(lead) bra     $(none);
    for r = 0, 1 do
      for _, lanes in ipairs { 1, 2 } do
|   shfl.sync.bfly.b32 $(other), $(a.sum[r]), $(lanes), 31, 0xffffffff;
|   add.rn.f32     $(a.sum[r]), $(a.sum[r]), $(other);
      end
    end
|   setp.eq.u32    $(lead), $(a.quarter), 0;
|   mad.lo.u32     $(at), $(a.w), 16, $(a.group);
|   mad.lo.u32     $(at), $(at), 4, $(a.memory);
    for r = 0, 1 do
| @$(lead) st.shared.f32 [$(at)+$(shape.END + 32 * r)], $(a.top[r]);
| @$(lead) st.shared.f32 [$(at)+$(shape.END + 256 + 32 * r)], $(a.sum[r]);
|   rcp.rn.f32     $(other), $(a.sum[r]);
|   setp.neu.f32   $(seen), $(a.sum[r]), 0f00000000;
|   selp.f32       $(other), $(other), 0f00000000, $(seen);
| @$(lead) st.shared.f32 [$(at)+$(shape.END + 512 + 32 * r)], $(other);
    end
  end)
| $(none):
end

function many.open(a)
  a.top, a.sum = f32("top", 2, "m'"), f32("sum", 2, "this thread's part of l")
  for r = 0, 1 do
|   mov.f32        $(a.top[r]), $(row_max.NEVER);
|   mov.f32        $(a.sum[r]), 0f00000000;
  end
end

-- P of tile t, whose scores are s.
local function softmax(a, s, p)
  local skip = label "no_live_rows"
  scope(function()
    local flag, idle = b32 "flag", pred "idle_"
|   setp.ge.u32    $(idle), $(a.w), $(shape.warps);
| @$(idle) bra     $(skip);
    mask(a, s, p.t)
    maxima(a, s, p.slot, p.free, flag)
    weights(a, s, p.slot, flag)
  end)
| $(skip):
end

-- All tiles of the CTA, of which there is one at least. The first chain of the next tile's scores runs while this tile's P is made; the
-- second takes the registers of this tile's scores.
function many.run(a, p)
  scope(function()
    local s, other, at, ahead = f32("s", 32), f32("s_other", 32), b32 "at", b32 "ahead"
    local again, last, more = label "score", label "last_tile", pred "more"
    p.arrived(at)
    hopper_product.start(a, { [0] = s, other }, at, 64, false)
    hopper_product.join(s, other, 64)
    p.scored()
| $(again):
|   add.u32        $(ahead), $(p.t), $(a.live);
|   setp.lt.u32    $(more), $(ahead), $(a.last);
| @!$(more) bra    $(last);
    p.arrived(at)
    hopper_product.start(a, { [0] = other }, at, 64, false)
    softmax(a, s, p)
    hopper_product.start(a, { [1] = s }, at, 64, false)
    hopper_product.join(s, other, 64)
    p.scored()
|   mov.u32        $(p.t), $(ahead);
    a.next(p.slot, p.free, 2)
|   bra            $(again);
| $(last):
    softmax(a, s, p)
  end)
end

return many
end
