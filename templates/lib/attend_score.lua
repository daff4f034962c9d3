-- attend_score: from a tile of key rows in shared memory to P: base-2 scores, row maxima, weights. A warp scores `keys` keys for one
-- block of 16 rows; its maxima meet the other warps' in shared memory.
local shape = include "lib/attend_shape"
local row_max = include "lib/row_max"
local fp8 = include "lib/fp8"
local attend_score = {}
local TILES = shape.keys // 8                           -- n-tiles of 8 keys a warp
local NEVER = row_max.NEVER
attend_score.NEVER = NEVER

-- Lane addresses within query rows and stage, and where a score's pair lies in P.
function attend_score.open(a)
  a.query_at, a.key_at, a.pair_at = b32("query_at", "ldmatrix: query rows"), b32("key_at", "ldmatrix: keys in a stage"), b32("pair_at", "P")
  a.first_key = b32("first_key", "of this warp's keys in a tile")
  scope(function()
    local row, unit = b32 "row_", b32 "unit"
|   mul.lo.u32     $(a.first_key), $(a.share), $(shape.keys);
|   and.b32        $(row), $(a.lane), 15;
|   shr.u32        $(unit), $(a.lane), 4;
|   mad.lo.u32     $(row), $(a.block), 16, $(row);
|   add.u32        $(a.query_at), $(a.memory), $(shape.QUERY);
|   mad.lo.u32     $(a.query_at), $(row), $(shape.PITCH), $(a.query_at);
|   mad.lo.u32     $(a.query_at), $(unit), 16, $(a.query_at);
    if TILES == 2 then                                  -- matrices: keys 0..7 units 0, 1; keys 8..15 units 0, 1
|   mad.lo.u32     $(row), $(unit), 8, $(a.first_key);
|   shr.u32        $(unit), $(a.lane), 3;
|   and.b32        $(unit), $(unit), 1;
    else                                                -- matrices: keys 0..7 units 0..3
|   mov.u32        $(row), $(a.first_key);
|   shr.u32        $(unit), $(a.lane), 3;
    end
|   mul.lo.u32     $(a.key_at), $(unit), 16;
|   and.b32        $(unit), $(a.lane), 7;
|   add.u32        $(row), $(row), $(unit);
|   mad.lo.u32     $(a.key_at), $(row), $(shape.PITCH), $(a.key_at);
|   mad.lo.u32     $(row), $(a.block), 16, $(a.group);
|   add.u32        $(a.pair_at), $(a.memory), $(shape.P);
|   mad.lo.u32     $(a.pair_at), $(row), $(shape.P_PITCH), $(a.pair_at);
|   mad.lo.u32     $(a.pair_at), $(a.first_key), 2, $(a.pair_at);
|   mad.lo.u32     $(a.pair_at), $(a.quarter), 4, $(a.pair_at);
  end)
end

-- x[0..7] := A of two F16 products from a query fragment of 32 bytes a row. A word's four dimensions, 4 quarter .. + 3, stand where the F16
-- fragment has 2 quarter, + 1, 2 quarter + 8, + 9; the key's word likewise (its low and high pair are B), so the sum is the same. An e4m3 product
-- of mma.sync would be two of these and four additions on this architecture.
local function query_halves(x, q, first)
  for i = 0, 3 do
    local to = 4 * (i // 2) + i % 2
    fp8.halves(x[to], x[to + 2], q[first + i])
  end
end

-- z[4 n + 2 r + e] := base-2 score of key 8 n + 2 quarter + e of the warp's, row group + 8 r of its block; -inf where not visible.
function attend_score.scores(a, z)
  local CHAINS = 4 // TILES                             -- sums of every CHAINS-th product, so that four are under way
  scope(function()
    local s, at, q, x, k, y = f32("s", 16), b32 "at", b32("q", 4), b32("x", 8), b32("k", 4), b32("y", 2)
    local key, scale = b32 "key_", f32 "scale"
    for i = 0, 15 do
|   mov.f32        $(s[i]), 0f00000000;
    end
|   add.u32        $(at), $(a.stage), $(a.key_at);
    for step = 0, 17 do
|   ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$(q[0]), $(q[1]), $(q[2]), $(q[3])}, [$(a.query_at)+$(32 * step)];
      query_halves(x, q, 0)
      if TILES == 2 or step % 2 == 0 then
|   ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$(k[0]), $(k[1]), $(k[2]), $(k[3])}, [$(at)+$(32 * step)];
      end
      for n = 0, TILES - 1 do
        for half = 0, 1 do
          local d, w = 4 * (n * CHAINS + (2 * step + half) % CHAINS), (TILES == 2 and 2 * n or 2 * (step % 2)) + half
          fp8.halves(y[0], y[1], k[w])
|   mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
|       {$(s[d]), $(s[d + 1]), $(s[d + 2]), $(s[d + 3])}, {$(x[4 * half]), $(x[4 * half + 1]), $(x[4 * half + 2]), $(x[4 * half + 3])},
|       {$(y[0]), $(y[1])}, {$(s[d]), $(s[d + 1]), $(s[d + 2]), $(s[d + 3])};
        end
      end
    end
    for n = 0, TILES - 1 do
      local d = 4 * n * CHAINS
      for i = 0, 3 do
        for chain = 1, CHAINS - 1 do
|   add.rn.f32     $(s[d + i]), $(s[d + i]), $(s[d + 4 * chain + i]);
        end
      end
    end
|   ld.param.f32   $(scale), [$(param.softmax_scale)];
|   mul.rn.f32     $(scale), $(scale), $(f32(1.4426950408889634));
    for n = 0, TILES - 1 do
      for e = 0, 1 do
        scope(function()
          local visible = pred "visible"
|   mad.lo.u32     $(key), $(a.first), $(shape.TILE), $(a.first_key);
|   mad.lo.u32     $(key), $(a.quarter), 2, $(key);
|   add.u32        $(key), $(key), $(8 * n + e);
          for r = 0, 1 do
|   setp.lt.u32    $(visible), $(key), $(a.bound[r]);
|   mul.rn.f32     $(z[4 * n + 2 * r + e]), $(s[4 * n * CHAINS + 2 * r + e]), $(scale);
|   selp.f32       $(z[4 * n + 2 * r + e]), $(z[4 * n + 2 * r + e]), 0fff800000, $(visible);
          end
        end)
      end
    end
  end)
end

-- to := address of [row][0] in the array of row maxima, row = group + 8 r of block `block` (a number or a register).
local function maxima_at(a, to, block)
|   add.u32        $(to), $(a.memory), $(shape.MAXIMA);
|   mad.lo.u32     $(to), $(a.group), $(4 * shape.groups), $(to);
  if type(block) == "number" then
|   add.u32        $(to), $(to), $(64 * shape.groups * block);
  else
|   mad.lo.u32     $(to), $(block), $(64 * shape.groups), $(to);
  end
end

-- Each row's value[r] of this warp (all quarters agree) -> [row][share].
local function tell(a, value)
  scope(function()
    local at, first = b32 "at", pred "first"
|   setp.eq.u32    $(first), $(a.quarter), 0;
    maxima_at(a, at, a.block)
|   mad.lo.u32     $(at), $(a.share), 4, $(at);
    for r = 0, 1 do
| @$(first) st.shared.f32 [$(at)+$(32 * shape.groups * r)], $(value[r]);
    end
  end)
end

-- use(2 block + r, each): each[0..groups-1] are what the warps told of row group + 8 r of each block.
local function hear(a, use)
  scope(function()
    local at, each = b32 "at", f32("each", shape.groups)
    for block = 0, shape.blocks - 1 do
      maxima_at(a, at, block)
      for r = 0, 1 do
        for w = 0, shape.groups - 1, 4 do
|   ld.shared.v4.f32 {$(each[w]), $(each[w + 1]), $(each[w + 2]), $(each[w + 3])}, [$(at)+$(32 * shape.groups * r + 4 * w)];
        end
        use(2 * block + r, each)
      end
    end
  end)
end

-- top := the new m' of the rows of all blocks over the whole tile; factor: what older sums are multiplied by. One barrier: after
-- it every warp has read the tile's keys for its scores.
function attend_score.maxima(a, z, factor)
  scope(function()
    local most, other = f32("most", 2), f32 "other"
    for r = 0, 1 do
|   max.NaN.f32    $(most[r]), $(z[2 * r]), $(z[2 * r + 1]);
      for n = 1, TILES - 1 do
|   max.NaN.f32    $(most[r]), $(most[r]), $(z[4 * n + 2 * r]);
|   max.NaN.f32    $(most[r]), $(most[r]), $(z[4 * n + 2 * r + 1]);
      end
      for _, lanes in ipairs { 1, 2 } do
|   shfl.sync.bfly.b32 $(other), $(most[r]), $(lanes), 31, 0xffffffff;
|   max.NaN.f32    $(most[r]), $(most[r]), $(other);
      end
    end
    tell(a, most)
  end)
|   bar.sync       0;
  hear(a, function(i, each)
    for w = 1, shape.groups - 1 do
|   max.NaN.f32    $(each[0]), $(each[0]), $(each[w]);
    end
|   cvt.rpi.f32.f32 $(each[0]), $(each[0]);              // rounded up to an integer
|   max.f32        $(each[0]), $(each[0]), $(NEVER);    // -inf: nothing visible yet; NaN scores do not move it
|   max.f32        $(each[0]), $(each[0]), $(a.top[i]);
    row_max.factor(factor[i], a.top[i], each[0])
|   mov.f32        $(a.top[i]), $(each[0]);
  end)
end

-- own[r] := from[2 block + r], block the warp's.
local function of_block(a, own, from)
  for r = 0, 1 do
    if shape.blocks == 1 then
|   mov.f32        $(own[r]), $(from[r]);
    else
|   selp.f32       $(own[r]), $(from[2 + r]), $(from[r]), $(a.second);
    end
  end
end

-- P of the tile -> shared as F16 of its e4m3 rounding; sum += the unrounded P.
function attend_score.weights(a, z, factor)
  scope(function()
    local p, half, pair, top, scale = f32("p", 2), b16 "half", b32 "pair", f32("top_", 2), f32("factor_", 2)
    of_block(a, top, a.top)
    of_block(a, scale, factor)
    for r = 0, 1 do
|   mul.rn.f32     $(a.sum[r]), $(a.sum[r]), $(scale[r]);
      for n = 0, TILES - 1 do
        for e = 0, 1 do
|   sub.rn.f32     $(p[e]), $(z[4 * n + 2 * r + e]), $(top[r]);
|   add.rn.f32     $(p[e]), $(p[e]), $(f32(8));
|   ex2.approx.ftz.f32 $(p[e]), $(p[e]);
|   add.rn.f32     $(a.sum[r]), $(a.sum[r]), $(p[e]);
        end
|   cvt.rn.satfinite.e4m3x2.f32 $(half), $(p[1]), $(p[0]);
|   cvt.rn.f16x2.e4m3x2 $(pair), $(half);
|   st.shared.b32  [$(a.pair_at)+$(16 * n + 8 * shape.P_PITCH * r)], $(pair);
      end
    end
  end)
end

-- total[2 block + r] := l of the rows of all blocks: over quarters, then over warps in their order. After the last tile.
function attend_score.totals(a)
  section "the row sums over quarters and warps"
  scope(function()
    local other = f32 "other"
    for r = 0, 1 do
      for _, lanes in ipairs { 1, 2 } do
|   shfl.sync.bfly.b32 $(other), $(a.sum[r]), $(lanes), 31, 0xffffffff;
|   add.rn.f32     $(a.sum[r]), $(a.sum[r]), $(other);
      end
    end
    tell(a, a.sum)
  end)
|   bar.sync       0;
  hear(a, function(i, each)
|   mov.f32        $(a.total[i]), $(each[0]);
    for w = 1, shape.groups - 1 do
|   add.rn.f32     $(a.total[i]), $(a.total[i]), $(each[w]);
    end
  end)
end

return attend_score
