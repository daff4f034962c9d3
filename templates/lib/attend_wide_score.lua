-- attend_wide_score: a warp scores `own` blocks of 16 rows and `keys` of a tile's keys (64 rows: 2 blocks, 32 keys; 48 rows: 3 blocks, 16 keys).
-- Lane: rows group and group + 8 of each block, keys 8 n + 2 quarter and + 1 of its n-tiles of 8. Rows i = 2 m + r: block m, row group + 8 r.
local shape = include "lib/attend_shape"
local row_max = include "lib/row_max"
local fp8 = include "lib/fp8"
local attend_value = include "lib/attend_value"
local wide_score = {}
local OWN, TILES, STEPS = shape.own, shape.keys // 8, 18
local ROWS = 2 * OWN                                    -- a lane's

-- The scorers' own barrier.
function wide_score.meet()
|   bar.sync       1, $(32 * shape.loaders);
end

function wide_score.open(a)
  a.first_key = b32("first_key", "of this warp's keys in a tile")
  a.query_at = b32("query_at", "ldmatrix: 16 query rows, 16 dimensions")
  a.key_at = b32("key_at", "ldmatrix: 16 keys, 32 dimensions, in a stage")
  a.pair_at = b32("pair_at", "stmatrix: 16 rows, 16 keys of P")
  a.row_at = b32("row_at", "4 row: what is kept a row")
  a.mates_at = b32("mates_at", "4 shares row: what the warps that share a row tell each other")
  a.share_at = b32("share_at", "and this warp's word of it")
  a.top, a.sum = f32("top", ROWS, "m'"), f32("sum", ROWS, "this thread's part of l")
  a.speaks = pred("speaks", "quarter 0 tells what is a row's")
  a.leads = pred("leads", "and its share is the first")
  scope(function()
    local row, unit, block, share = b32 "row_", b32 "unit", b32 "first_block", b32 "share"
|   rem.u32        $(block), $(a.warp), $(shape.blocks // OWN);
|   mul.lo.u32     $(block), $(block), $(16 * OWN);
|   div.u32        $(share), $(a.warp), $(shape.blocks // OWN);
|   mul.lo.u32     $(a.first_key), $(share), $(shape.keys);
|   and.b32        $(row), $(a.lane), 15;
|   add.u32        $(row), $(row), $(block);
|   shr.u32        $(unit), $(a.lane), 4;
|   mad.lo.u32     $(a.query_at), $(row), $(shape.QUERY_PITCH), $(a.memory);
|   mad.lo.u32     $(a.query_at), $(unit), 16, $(a.query_at);
|   mad.lo.u32     $(a.pair_at), $(row), $(shape.P_PITCH), $(a.memory);
|   mad.lo.u32     $(a.pair_at), $(unit), 16, $(a.pair_at);
|   mad.lo.u32     $(a.pair_at), $(a.first_key), 2, $(a.pair_at);
|   and.b32        $(row), $(a.lane), 7;
|   mad.lo.u32     $(row), $(unit), 8, $(row);
|   add.u32        $(row), $(row), $(a.first_key);
|   shr.u32        $(unit), $(a.lane), 3;
|   and.b32        $(unit), $(unit), 1;
|   mul.lo.u32     $(a.key_at), $(unit), 16;
|   mad.lo.u32     $(a.key_at), $(row), $(shape.PITCH), $(a.key_at);
|   add.u32        $(row), $(block), $(a.group);
|   mad.lo.u32     $(a.row_at), $(row), 4, $(a.memory);
|   mad.lo.u32     $(a.mates_at), $(row), $(4 * shape.shares), $(a.memory);
|   mad.lo.u32     $(a.share_at), $(share), 4, $(a.mates_at);
|   setp.eq.u32    $(a.speaks), $(a.quarter), 0;
|   setp.eq.and.u32 $(a.leads), $(share), 0, $(a.speaks);
  end)
  for i = 0, ROWS - 1 do
|   mov.f32        $(a.top[i]), $(row_max.NEVER);
|   mov.f32        $(a.sum[i]), 0f00000000;
  end
end

-- The query rows, which lie in the last stage, -> F16 [rows][1168]. Within 16 dimensions the order is 0 1 4 5 8 9 12 13, 2 3 6 7 10 11 14 15: a
-- fragment of 32-bit words of keys has its dimensions 4 quarter .. + 3 where an F16 fragment has 2 quarter, + 1, + 8, + 9.
function wide_score.convert_query(a)
  section "query to F16"
  scope(function()
    local from, to, word, low, high = b32 "from", b32 "to", b32("word", 4), b32("low", 4), b32("high", 4)
    local row = b32 "row_"
|   shr.u32        $(row), $(a.thread), 2;
|   mad.lo.u32     $(from), $(row), $(shape.PITCH), $(a.memory);
|   mad.lo.u32     $(from), $(a.part), 16, $(from);
|   mad.lo.u32     $(to), $(row), $(shape.QUERY_PITCH), $(a.memory);
|   mad.lo.u32     $(to), $(a.part), 32, $(to);
    local function rows_of(first)
      for i = 0, 8 do
|   ld.shared.v4.u32 {$(word[0]), $(word[1]), $(word[2]), $(word[3])}, [$(from)+$(shape.query_place + first * shape.PITCH + 64 * i)];
        for w = 0, 3 do fp8.halves(low[w], high[w], word[w]) end
        local place = shape.QUERY + first * shape.QUERY_PITCH + 128 * i
|   st.shared.v4.b32 [$(to)+$(place)], {$(low[0]), $(low[1]), $(low[2]), $(low[3])};
|   st.shared.v4.b32 [$(to)+$(place + 16)], {$(high[0]), $(high[1]), $(high[2]), $(high[3])};
      end
    end
    rows_of(0)
    if shape.rows == 64 then
      rows_of(32)
    else
      local beyond, rest = label "no_more_rows", pred "beyond"
|   setp.ge.u32    $(rest), $(row), $(shape.rows - 32);
| @$(rest) bra     $(beyond);
      rows_of(32)
| $(beyond):
    end
  end)
end

-- s[4 (TILES m + n) + 2 r + e] := sum over 576 of query and key: exact F16 products, one chain of FP32 sums. (An e4m3 product of mma.sync would
-- be two of these and four additions on this architecture.)
local function products(a, s)
  scope(function()
    local at, x, k, y = b32 "at", b32("x", 8 * OWN), b32("k", 2 * TILES), b32("y", 4 * TILES)
    for i = 0, 4 * TILES * OWN - 1 do
|   mov.f32        $(s[i]), 0f00000000;
    end
|   add.u32        $(at), $(a.stage), $(a.key_at);
    for step = 0, STEPS - 1 do
      for j = 0, 2 * TILES - 1, 4 do                    -- k[2 n + half]: keys 8 n + group, dimensions 16 half + 4 quarter .. + 3
|   ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$(k[j]), $(k[j + 1]), $(k[j + 2]), $(k[j + 3])}, [$(at)+$(32 * step + 4 * shape.PITCH * j)];
      end
      for half = 0, 1 do
        for m = 0, OWN - 1 do
          local i = 8 * m + 4 * half
|   ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$(x[i]), $(x[i + 1]), $(x[i + 2]), $(x[i + 3])}, [$(a.query_at)+$(shape.QUERY + 32 * (2 * step + half) + 16 * shape.QUERY_PITCH * m)];
        end
        for n = 0, TILES - 1 do
          local b = 4 * n + 2 * half
          fp8.halves(y[b], y[b + 1], k[2 * n + half])
          for m = 0, OWN - 1 do
            local d, i = 4 * (TILES * m + n), 8 * m + 4 * half
|   mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
|       {$(s[d]), $(s[d + 1]), $(s[d + 2]), $(s[d + 3])}, {$(x[i]), $(x[i + 1]), $(x[i + 2]), $(x[i + 3])},
|       {$(y[b]), $(y[b + 1])}, {$(s[d]), $(s[d + 1]), $(s[d + 2]), $(s[d + 3])};
          end
        end
      end
    end
  end)
end

-- use(z, i): every score's index, and its row's.
local function each_score(use)
  for m = 0, OWN - 1 do
    for r = 0, 1 do
      for n = 0, TILES - 1 do
        for e = 0, 1 do use(4 * (TILES * m + n) + 2 * r + e, 2 * m + r, 8 * n + e) end
      end
    end
  end
end

-- s := base-2 scores; -inf where not visible, which only a tile past the least bound of the CTA's rows can hold. (q = 1: rows that do not
-- exist have scores in other tiles; nobody stores them.)
local function scale_and_mask(a, s)
  local all = label "all_visible"
  scope(function()
    local scale, past, whole, left, visible = f32 "scale", b32 "past", pred "whole", b32("left", ROWS), pred "visible"
|   ld.param.f32   $(scale), [$(param.softmax_scale)];
|   mul.rn.f32     $(scale), $(scale), $(f32(1.4426950408889634));
    each_score(function(z)
|   mul.rn.f32     $(s[z]), $(s[z]), $(scale);
    end)
|   mad.lo.u32     $(past), $(a.first), $(shape.TILE), $(shape.TILE);
|   setp.le.u32    $(whole), $(past), $(a.least or a.most);
| @$(whole) bra    $(all);
    for i = 0, ROWS - 1 do                              -- visible keys from the lane's first key of the tile on
|   ld.shared.s32  $(left[i]), [$(a.row_at)+$(shape.BOUNDS + 32 * i)];
|   mad.lo.s32     $(left[i]), $(a.first), $(-shape.TILE), $(left[i]);
|   sub.s32        $(left[i]), $(left[i]), $(a.first_key);
|   mad.lo.s32     $(left[i]), $(a.quarter), -2, $(left[i]);
    end
    each_score(function(z, i, key)
|   setp.gt.s32    $(visible), $(left[i]), $(key);
|   selp.f32       $(s[z]), $(s[z]), 0fff800000, $(visible);
    end)
  end)
| $(all):
end

-- What the warps that share a row tell each other: [row][share] of the array at `place` := value[i].
local function tell(a, at, place, value)
  for i = 0, ROWS - 1 do
| @$(a.speaks) st.shared.f32 [$(at)+$(place + 32 * shape.shares * i)], $(value[i]);
  end
end

-- top := the new m' over all keys of the tile; factor: what older sums are multiplied by.
local function maxima(a, s, factor)
  scope(function()
    local most, other = f32("most", ROWS), f32("other", 4)
    each_score(function(z, i, key)
      if key == 0 then
|   mov.f32        $(most[i]), $(s[z]);
      else
|   max.NaN.f32    $(most[i]), $(most[i]), $(s[z]);
      end
    end)
    for _, lanes in ipairs { 1, 2 } do
      for i = 0, ROWS - 1 do
|   shfl.sync.bfly.b32 $(other[0]), $(most[i]), $(lanes), 31, 0xffffffff;
|   max.NaN.f32    $(most[i]), $(most[i]), $(other[0]);
      end
    end
    tell(a, a.share_at, shape.MAXIMA, most)             -- read before the next tile's FREE
    wide_score.meet()
    for i = 0, ROWS - 1 do
      if shape.shares == 4 then
|   ld.shared.v4.f32 {$(other[0]), $(other[1]), $(other[2]), $(other[3])}, [$(a.mates_at)+$(shape.MAXIMA + 128 * i)];
      else
|   ld.shared.v2.f32 {$(other[0]), $(other[1])}, [$(a.mates_at)+$(shape.MAXIMA + 64 * i)];
      end
      for w = 1, shape.shares - 1 do
|   max.NaN.f32    $(other[0]), $(other[0]), $(other[w]);
      end
|   cvt.rpi.f32.f32 $(other[0]), $(other[0]);            // rounded up to an integer
|   max.f32        $(other[0]), $(other[0]), $(row_max.NEVER);    // -inf: nothing visible yet; NaN scores do not move it
|   max.f32        $(other[0]), $(other[0]), $(a.top[i]);
      row_max.factor(factor[i], a.top[i], other[0])
|   mov.f32        $(a.top[i]), $(other[0]);
    end
  end)
end

-- P -> shared as F16 of its e4m3 rounding; sum += the unrounded P.
local function weights(a, s, factor)
  scope(function()
    local base, half, word, at = f32("base", ROWS), b16 "half", b32("word", 4), b32 "at"
|   mad.lo.u32     $(at), $(a.turn), $(shape.P_BYTES), $(a.pair_at);
    for i = 0, ROWS - 1 do
|   sub.rn.f32     $(base[i]), $(a.top[i]), $(f32(8));
|   mul.rn.f32     $(a.sum[i]), $(a.sum[i]), $(factor[i]);
    end
    for m = 0, OWN - 1 do
      for n = 0, TILES - 1 do
        for r = 0, 1 do
          local z, i = 4 * (TILES * m + n) + 2 * r, 2 * m + r
          for e = 0, 1 do
|   sub.rn.f32     $(s[z + e]), $(s[z + e]), $(base[i]);
|   ex2.approx.ftz.f32 $(s[z + e]), $(s[z + e]);
|   add.rn.f32     $(a.sum[i]), $(a.sum[i]), $(s[z + e]);
          end
|   cvt.rn.satfinite.e4m3x2.f32 $(half), $(s[z + 1]), $(s[z]);
|   cvt.rn.f16x2.e4m3x2 $(word[2 * (n % 2) + r]), $(half);
        end
        if n % 2 == 1 then
|   stmatrix.sync.aligned.m8n8.x4.shared.b16 [$(at)+$(shape.P + 16 * (n - 1) + 16 * shape.P_PITCH * m)], {$(word[0]), $(word[1]), $(word[2]), $(word[3])};
        end
      end
    end
  end)
end

-- P, factors and sums of the tile at `stage`. scored: emitted after the products.
function wide_score.tile(a, scored)
  scope(function()
    local s, factor, at = f32("s", 4 * TILES * OWN), f32("factor", ROWS), b32 "at"
    products(a, s)
    scored()
    scale_and_mask(a, s)
    maxima(a, s, factor)
    attend_value.clean(a)                               -- after maxima's barrier
    weights(a, s, factor)
|   mad.lo.u32     $(at), $(a.turn), $(4 * shape.rows), $(a.row_at);
    for i = 0, ROWS - 1 do
| @$(a.leads) st.shared.f32 [$(at)+$(shape.FACTORS + 32 * i)], $(factor[i]);
    end
  end)
end

-- Row sums over the quarters, and m', for those who store the rows.
function wide_score.ends(a)
  section "row sums and maxima"
  scope(function()
    local other = f32 "other"
    for i = 0, ROWS - 1 do
      for _, lanes in ipairs { 1, 2 } do
|   shfl.sync.bfly.b32 $(other), $(a.sum[i]), $(lanes), 31, 0xffffffff;
|   add.rn.f32     $(a.sum[i]), $(a.sum[i]), $(other);
      end
    end
    tell(a, a.share_at, shape.SUMS, a.sum)
    for i = 0, ROWS - 1 do
| @$(a.leads) st.shared.f32 [$(a.row_at)+$(shape.TOPS + 32 * i)], $(a.top[i]);
    end
  end)
end

return wide_score
