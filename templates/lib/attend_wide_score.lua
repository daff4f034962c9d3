-- attend_wide_score: a warp scores all 64 keys of a tile for its block of 16 rows: the query stays in registers, no maximum leaves the warp.
-- Lane: rows group and group + 8, keys 8 n + 2 quarter and + 1 of n = 0..7.
local shape = include "lib/attend_shape"
local row_max = include "lib/row_max"
local attend_score = include "lib/attend_score"
local fp8 = include "lib/fp8"
local wide_score = {}
local TILES, STEPS = shape.keys // 8, 18

function wide_score.open(a)
  a.key_at = b32("key_at", "ldmatrix: 16 keys, 2 units, in a stage")
  a.pair_at = b32("pair_at", "stmatrix: 16 keys of P")
  a.factor_at = b32("factor_at", "this lane's row group")
  a.query = b32("query", 4 * STEPS, "fragments of the block's query rows")
  a.top = f32("top", 2, "m' of its rows")
  a.sum = f32("sum", 2, "this thread's part of l")
  a.speaks = pred("speaks", "quarter 0 tells what is a row's")
  scope(function()
    local row, unit = b32 "row_", b32 "unit"
|   and.b32        $(row), $(a.lane), 7;
|   shr.u32        $(unit), $(a.lane), 4;
|   mad.lo.u32     $(row), $(unit), 8, $(row);
|   shr.u32        $(unit), $(a.lane), 3;
|   and.b32        $(unit), $(unit), 1;
|   mul.lo.u32     $(a.key_at), $(unit), 16;
|   mad.lo.u32     $(a.key_at), $(row), $(shape.PITCH), $(a.key_at);
|   and.b32        $(row), $(a.lane), 15;
|   shr.u32        $(unit), $(a.lane), 4;
|   mad.lo.u32     $(row), $(a.block), 16, $(row);
|   add.u32        $(a.pair_at), $(a.memory), $(shape.P);
|   mad.lo.u32     $(a.pair_at), $(row), $(shape.P_PITCH), $(a.pair_at);
|   mad.lo.u32     $(a.pair_at), $(unit), 16, $(a.pair_at);
|   mad.lo.u32     $(row), $(a.block), 16, $(a.group);
|   mad.lo.u32     $(a.factor_at), $(row), 4, $(a.memory);
  end)
|   setp.eq.u32    $(a.speaks), $(a.quarter), 0;
  for r = 0, 1 do
|   mov.f32        $(a.top[r]), $(row_max.NEVER);
|   mov.f32        $(a.sum[r]), 0f00000000;
  end
end

-- The block's query rows from shared memory.
function wide_score.query(a)
  scope(function()
    local at, row = b32 "at", b32 "row_"
|   and.b32        $(row), $(a.lane), 15;
|   mad.lo.u32     $(row), $(a.block), 16, $(row);
|   shr.u32        $(at), $(a.lane), 4;
|   mad.lo.u32     $(at), $(at), 16, $(a.memory);
|   mad.lo.u32     $(at), $(row), $(shape.PITCH), $(at);
    for step = 0, STEPS - 1 do
      local x = 4 * step
|   ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$(a.query[x]), $(a.query[x + 1]), $(a.query[x + 2]), $(a.query[x + 3])}, [$(at)+$(shape.QUERY + 32 * step)];
    end
  end)
end

-- s[4 n + 2 r + e] := sum over 576 of query and key: lib/attend_score's exact F16 products, in one chain of FP32 sums.
local function products(a, s)
  scope(function()
    local at, k, x, y = b32 "at", b32("k", 4), b32("x", 8), b32("y", 2)
    for i = 0, 4 * TILES - 1 do
|   mov.f32        $(s[i]), 0f00000000;
    end
|   add.u32        $(at), $(a.stage), $(a.key_at);
    for step = 0, STEPS - 1 do
      attend_score.query_halves(x, a.query, 4 * step)
      for j = 0, TILES // 2 - 1 do
|   ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$(k[0]), $(k[1]), $(k[2]), $(k[3])}, [$(at)+$(32 * step + 16 * shape.PITCH * j)];
        for i = 0, 3 do
          local d, x0 = 8 * j + 4 * (i // 2), 4 * (i % 2)
          fp8.halves(y[0], y[1], k[i])
|   mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
|       {$(s[d]), $(s[d + 1]), $(s[d + 2]), $(s[d + 3])}, {$(x[x0]), $(x[x0 + 1]), $(x[x0 + 2]), $(x[x0 + 3])},
|       {$(y[0]), $(y[1])}, {$(s[d]), $(s[d + 1]), $(s[d + 2]), $(s[d + 3])};
        end
      end
    end
  end)
end

-- s := base-2 scores; -inf where not visible, which only a tile past the least bound of the CTA's rows can hold. (q = 1: rows that do not
-- exist have scores in other tiles; nobody stores them.)
local function scale_and_mask(a, s)
  local all = label "all_visible"
  scope(function()
    local scale, past, whole, left, visible = f32 "scale", b32 "past", pred "whole", b32 "left", pred "visible"
|   ld.param.f32   $(scale), [$(param.softmax_scale)];
|   mul.rn.f32     $(scale), $(scale), $(f32(1.4426950408889634));
    for i = 0, 4 * TILES - 1 do
|   mul.rn.f32     $(s[i]), $(s[i]), $(scale);
    end
|   mad.lo.u32     $(past), $(a.first), $(shape.TILE), $(shape.TILE);
|   setp.le.u32    $(whole), $(past), $(a.least or a.most);
| @$(whole) bra    $(all);
    for r = 0, 1 do
|   mad.lo.s32     $(left), $(a.first), $(-shape.TILE), $(a.bound[r]);
|   mad.lo.s32     $(left), $(a.quarter), -2, $(left);  // of the lane's keys, from key 2 quarter on
      for n = 0, TILES - 1 do
        for e = 0, 1 do
          local z = 4 * n + 2 * r + e
|   setp.gt.s32    $(visible), $(left), $(8 * n + e);
|   selp.f32       $(s[z]), $(s[z]), 0fff800000, $(visible);
        end
      end
    end
  end)
| $(all):
end

-- top := the new m'; factor: what older sums are multiplied by.
local function maxima(a, s, factor)
  scope(function()
    local most, other = f32 "most", f32 "other"
    for r = 0, 1 do
|   max.NaN.f32    $(most), $(s[2 * r]), $(s[2 * r + 1]);
      for n = 1, TILES - 1 do
|   max.NaN.f32    $(most), $(most), $(s[4 * n + 2 * r]);
|   max.NaN.f32    $(most), $(most), $(s[4 * n + 2 * r + 1]);
      end
      for _, lanes in ipairs { 1, 2 } do
|   shfl.sync.bfly.b32 $(other), $(most), $(lanes), 31, 0xffffffff;
|   max.NaN.f32    $(most), $(most), $(other);
      end
|   cvt.rpi.f32.f32 $(most), $(most);                    // rounded up to an integer
|   max.f32        $(most), $(most), $(row_max.NEVER);  // -inf: nothing visible yet; NaN scores do not move it
|   max.f32        $(most), $(most), $(a.top[r]);
      row_max.factor(factor[r], a.top[r], most)
|   mov.f32        $(a.top[r]), $(most);
    end
  end)
end

-- P -> shared as F16 of its e4m3 rounding; sum += the unrounded P.
local function weights(a, s, factor)
  scope(function()
    local base, half, word, at = f32("base", 2), b16 "half", b32("word", 4), b32 "at"
|   mad.lo.u32     $(at), $(a.turn), $(shape.P_BYTES), $(a.pair_at);
    for r = 0, 1 do
|   sub.rn.f32     $(base[r]), $(a.top[r]), $(f32(8));
|   mul.rn.f32     $(a.sum[r]), $(a.sum[r]), $(factor[r]);
    end
    for n = 0, TILES - 1 do
      for r = 0, 1 do
        local z = 4 * n + 2 * r
        for e = 0, 1 do
|   sub.rn.f32     $(s[z + e]), $(s[z + e]), $(base[r]);
|   ex2.approx.f32 $(s[z + e]), $(s[z + e]);
|   add.rn.f32     $(a.sum[r]), $(a.sum[r]), $(s[z + e]);
        end
|   cvt.rn.satfinite.e4m3x2.f32 $(half), $(s[z + 1]), $(s[z]);
|   cvt.rn.f16x2.e4m3x2 $(word[2 * (n % 2) + r]), $(half);
      end
      if n % 2 == 1 then
|   stmatrix.sync.aligned.m8n8.x4.shared.b16 [$(at)+$(16 * (n - 1))], {$(word[0]), $(word[1]), $(word[2]), $(word[3])};
      end
    end
  end)
end

-- [row] of an array of F32 := value[r].
local function tell(a, at, offset, value)
  for r = 0, 1 do
| @$(a.speaks) st.shared.f32 [$(at)+$(offset + 32 * r)], $(value[r]);
  end
end

-- P, factors and sums of the tile at `stage`.
function wide_score.tile(a)
  scope(function()
    local s, factor, at = f32("s", 4 * TILES), f32("factor", 2), b32 "at"
    products(a, s)
    scale_and_mask(a, s)
    maxima(a, s, factor)
    weights(a, s, factor)
|   mad.lo.u32     $(at), $(a.turn), $(4 * shape.rows), $(a.factor_at);
    tell(a, at, shape.FACTORS, factor)
  end)
end

-- Row sums over the quarters, and m', for those who store the rows.
function wide_score.ends(a)
  section "row sums and maxima"
  scope(function()
    local other = f32 "other"
    for r = 0, 1 do
      for _, lanes in ipairs { 1, 2 } do
|   shfl.sync.bfly.b32 $(other), $(a.sum[r]), $(lanes), 31, 0xffffffff;
|   add.rn.f32     $(a.sum[r]), $(a.sum[r]), $(other);
      end
    end
    tell(a, a.factor_at, shape.ENDS, a.sum)
    tell(a, a.factor_at, shape.ENDS + 4 * shape.rows, a.top)
  end)
end

return wide_score
