-- hopper_few: softmax of mla_decode's form for sm_90a with up to 16 rows: S^T = K Q^T of a key tile by wgmma (64 keys by n rows), so that all
-- four warps share the work of few rows. Thread (warp w, group g, quarter t) holds of rows 8 i + 2 t + e, i < n / 8, the keys 16 w + g and
-- + 8: s[4 i + 2 r + e]; top, sum, bound: [2 i + e]. P's bytes of 16 keys stand in the order g, g + 8 (g = 0..7): a thread's two are
-- neighbours. m' moves for all four warps at once, which a barrier finds out; where it does not they say no more to each other.
return function(shape)
local row_max = include "lib/row_max"
local mbarrier = include "lib/mbarrier"
local wgmma = include "lib/wgmma"
local hopper_product = include "lib/hopper_product"
local few = {}
local N, OURS = shape.n, shape.n // 4                   -- rows of a thread

-- Keys at or past a row's bound: -inf. Only in tiles from a.safe on.
local function mask(a, s, t)
  local all = label "all_visible"
  scope(function()
    local key, hidden = b32 "key", pred "hidden"
|   setp.lt.u32    $(hidden), $(t), $(a.safe);
| @$(hidden) bra   $(all);
|   mad.lo.u32     $(key), $(t), 64, $(a.group);
|   mad.lo.u32     $(key), $(a.w), 16, $(key);
    for r = 0, 1 do
      scope(function()
        local this = b32 "this"
|   add.u32        $(this), $(key), $(8 * r);
        for k = 0, OURS - 1 do
          local at = 4 * (k // 2) + 2 * r + k % 2
|   setp.ge.u32    $(hidden), $(this), $(a.bound[k]);
|   selp.f32       $(s[at]), 0fff800000, $(s[at]), $(hidden);
        end
      end)
    end
  end)
| $(all):
end

-- x[0..OURS-1] := over all lanes with the same rows, by `op`.
local function over_groups(x, op)
  for _, lanes in ipairs { 4, 8, 16 } do
    for k = 0, OURS - 1 do
      scope(function()
        local other = f32 "other"
|   shfl.sync.bfly.b32 $(other), $(x[k]), $(lanes), 31, 0xffffffff;
|   $(op).f32      $(x[k]), $(x[k]), $(other);
      end)
    end
  end
end

-- x[k], the same in all lanes of a row -> shared, for the other warps: [warp][row].
local function share(a, x)
  scope(function()
    local lead, at = pred "lead", b32 "at"
|   setp.eq.u32    $(lead), $(a.group), 0;
|   mad.lo.u32     $(at), $(a.w), 128, $(a.memory);
|   mad.lo.u32     $(at), $(a.quarter), 8, $(at);
    for i = 0, N // 8 - 1 do
| @$(lead) st.shared.v2.f32 [$(at)+$(shape.SHARED_ROWS + 32 * i)], {$(x[2 * i]), $(x[2 * i + 1])};
    end
  end)
end

-- m' of all rows with this tile's keys; factors to the slot's scales.
local function move(a, most, slot)
  scope(function()
    local at, scales, lead, word = b32 "at", b32 "scales", pred "lead", b32 "word"
    over_groups(most, "max")
    share(a, most)
|   bar.sync       1, 128;
|   mad.lo.u32     $(at), $(a.quarter), 8, $(a.memory);
|   mad.lo.u32     $(scales), $(slot), 256, $(at);
|   or.b32         $(word), $(a.w), $(a.group);
|   setp.eq.u32    $(lead), $(word), 0;
    for i = 0, N // 8 - 1 do
      scope(function()
        local x, new, factor = f32("x", 2), f32("new", 2), f32("factor", 2)
|   ld.shared.v2.f32 {$(new[0]), $(new[1])}, [$(at)+$(shape.SHARED_ROWS + 32 * i)];
        for w = 1, 3 do
|   ld.shared.v2.f32 {$(x[0]), $(x[1])}, [$(at)+$(shape.SHARED_ROWS + 128 * w + 32 * i)];
|   max.f32        $(new[0]), $(new[0]), $(x[0]);
|   max.f32        $(new[1]), $(new[1]), $(x[1]);
        end
        for e = 0, 1 do
          local k = 2 * i + e
|   cvt.rpi.f32.f32 $(new[e]), $(new[e]);                // rounded up to an integer
|   max.f32        $(new[e]), $(new[e]), $(a.top[k]);
          row_max.factor(factor[e], a.top[k], new[e])
|   mov.f32        $(a.top[k]), $(new[e]);
|   mul.rn.f32     $(a.sum[k]), $(a.sum[k]), $(factor[e]);
        end
| @$(lead) st.shared.v2.f32 [$(scales)+$(shape.SCALE + 32 * i)], {$(factor[0]), $(factor[1])};
      end)
    end
  end)
end

-- flag: 1 where m' of some row moved. The slot of P is free after it.
local function maxima(a, s, slot, parity, flag)
  local still = label "maxima_stand"
  scope(function()
    local most, any, at = f32("most", OURS), pred "any", b32 "at"
    for k = 0, OURS - 1 do
      local first = 4 * (k // 2) + k % 2
|   max.f32        $(most[k]), $(s[first]), $(s[first + 2]);
|   mul.rn.f32     $(most[k]), $(most[k]), $(a.scale);
|   setp.gt$(k > 0 and ".or" or "").f32 $(any), $(most[k]), $(a.top[k])$(k > 0 and ", " .. tostring(any) or "");
    end
|   mad.lo.u32     $(at), $(slot), 8, $(a.memory);
    mbarrier.wait(at, shape.P_FREE, parity)
|   bar.red.or.pred $(any), 1, 128, $(any);
|   selp.b32       $(flag), 1, 0, $(any);
| @!$(any) bra     $(still);
    move(a, most, slot)
  end)
| $(still):
end

-- P of the tile -> its slot; sums += the unrounded P, after the PV warpgroups know.
local function weights(a, s, slot, flag)
  scope(function()
    local zero, word, first = f32("zero", OURS), b32("word", N // 8), pred "first"
    for k = 0, OURS - 1 do
|   sub.rn.f32     $(zero[k]), $(f32(8)), $(a.top[k]);
    end
    for i = 0, N // 2 - 1 do
|   fma.rn.f32     $(s[i]), $(s[i]), $(a.scale), $(zero[i // 4 * 2 + i % 2]);
|   ex2.approx.ftz.f32 $(s[i]), $(s[i]);
    end
    for i = 0, N // 8 - 1 do
      scope(function()
        local half = b16("half", 2)
        for e = 0, 1 do
|   cvt.rn.satfinite.e4m3x2.f32 $(half[e]), $(s[4 * i + 2 + e]), $(s[4 * i + e]);
        end
|   mov.b32        $(word[i]), {$(half[0]), $(half[1])};
      end)
    end
    scope(function()
      local row, unit, at = b32 "row", b32 "unit", b32 "at"
|   and.b32        $(row), $(a.lane), $(N - 1);          // lanes past the rows: any address
|   shr.u32        $(unit), $(row), 1;
|   and.b32        $(unit), $(unit), 3;
|   xor.b32        $(unit), $(unit), $(a.w);
|   mad.lo.u32     $(at), $(slot), 4096, $(a.memory);
|   mad.lo.u32     $(at), $(row), 64, $(at);
|   mad.lo.u32     $(at), $(unit), 16, $(at);
|   stmatrix.sync.aligned.m8n8.x$(N // 8).trans.shared.b16 [$(at)+$(shape.P)], $(wgmma.list(word, 0, N // 8));
|   setp.eq.u32    $(first), $(a.lane), 0;
|   setp.eq.and.u32 $(first), $(a.w), 0, $(first);
|   mad.lo.u32     $(at), $(slot), 16, $(a.memory);
| @$(first) st.shared.v4.u32 [$(at)+$(shape.FLAG)], {$(flag), $(flag), $(flag), $(flag)};
|   fence.proxy.async.shared::cta;
|   bar.warp.sync  0xffffffff;
|   setp.eq.u32    $(first), $(a.lane), 0;
|   mad.lo.u32     $(at), $(slot), 8, $(a.memory);
| @$(first) mbarrier.arrive.shared::cta.b64 _, [$(at)+$(shape.P_FULL)];
    end)
    for k = 0, OURS - 1 do
      scope(function()
        local part, from = f32 "part", 4 * (k // 2) + k % 2
|   add.rn.f32     $(part), $(s[from]), $(s[from + 2]);
|   add.rn.f32     $(a.sum[k]), $(a.sum[k]), $(part);
      end)
    end
  end)
end

function few.open(a)
  a.top, a.sum = f32("top", OURS, "m'"), f32("sum", OURS, "this thread's part of l")
  for k = 0, OURS - 1 do
|   mov.f32        $(a.top[k]), $(row_max.NEVER);
|   mov.f32        $(a.sum[k]), 0f00000000;
  end
end

-- All tiles of the CTA, of which there is one at least.
function few.run(a, p)
  scope(function()
    local s, other, at, again, more = f32("s", N // 2), f32("s_other", N // 2), b32 "at", label "score", pred "more"
| $(again):
    p.arrived(at)
    hopper_product.start(a, { [0] = s, other }, at, N, true)
    hopper_product.join(s, other, N)
    p.scored()
    mask(a, s, p.t)
    scope(function()
      local flag = b32 "flag"
      maxima(a, s, p.slot, p.free, flag)
      weights(a, s, p.slot, flag)
    end)
    a.next(p.slot, p.free, 2)
|   add.u32        $(p.t), $(p.t), $(a.live);
|   setp.lt.u32    $(more), $(p.t), $(a.last);
| @$(more) bra     $(again);
  end)
end

-- m', l and 1 / l (0 where the row saw no key) of the rows -> shared.
function few.ends(a)
  local none = label "no_end"
  scope(function()
    local at, lead, word = b32 "at", pred "lead", b32 "word"
    over_groups(a.sum, "add.rn")
|   bar.sync       1, 128;                              // maxima of the last tile have been read
    share(a, a.sum)
|   or.b32         $(word), $(a.w), $(a.group);
|   setp.eq.u32    $(lead), $(word), 0;
|   mad.lo.u32     $(at), $(a.quarter), 8, $(a.memory);
    for i = 0, N // 8 - 1 do
| @$(lead) st.shared.v2.f32 [$(at)+$(shape.END + 32 * i)], {$(a.top[2 * i]), $(a.top[2 * i + 1])};
    end
|   bar.sync       1, 128;
|   and.b32        $(word), $(a.thread), 127;
|   setp.ge.u32    $(lead), $(word), $(N);
| @$(lead) bra     $(none);
    scope(function()
      local sum, x, seen = f32 "sum_", f32 "x", pred "seen"
|   mad.lo.u32     $(at), $(word), 4, $(a.memory);
|   ld.shared.f32  $(sum), [$(at)+$(shape.SHARED_ROWS)];
      for w = 1, 3 do
|   ld.shared.f32  $(x), [$(at)+$(shape.SHARED_ROWS + 128 * w)];
|   add.rn.f32     $(sum), $(sum), $(x);
      end
|   st.shared.f32  [$(at)+$(shape.END + 256)], $(sum);
|   setp.neu.f32   $(seen), $(sum), 0f00000000;
|   rcp.rn.f32     $(x), $(sum);
|   selp.f32       $(x), $(x), 0f00000000, $(seen);
|   st.shared.f32  [$(at)+$(shape.END + 512)], $(x);
    end)
  end)
| $(none):
end

return few
end
