-- attend_wide_value: P V of a tile for all 48 or 64 rows; warp w owns latents 64 w .. 64 w + 63. Exact F16 products, FP32 sums. 16 keys and
-- 32 latents at a time: 4 registers of P's fragments a block and 8 of V's, beside 32 sums a block.
local shape = include "lib/attend_shape"
local fp8 = include "lib/fp8"
local attend_value = include "lib/attend_value"
local wide_value = {}
local PAUSE = 32                                        -- keys of a tile multiplied while the next one is scored

function wide_value.open(a)
  a.acc = f32("acc", 32 * shape.blocks, "O: 64 latents, rows group and group + 8 of each block")
  a.p_at, a.value_at = b32("p_at", "ldmatrix: P"), b32("value_at", "ldmatrix: 16 keys, 2 units of this warp's latents")
  scope(function()
    local row, unit = b32 "row_", b32 "unit"
|   and.b32        $(row), $(a.lane), 15;
|   shr.u32        $(unit), $(a.lane), 4;
|   add.u32        $(a.p_at), $(a.memory), $(shape.P);
|   mad.lo.u32     $(a.p_at), $(row), $(shape.P_PITCH), $(a.p_at);
|   mad.lo.u32     $(a.p_at), $(unit), 16, $(a.p_at);
|   mul.lo.u32     $(a.value_at), $(row), $(shape.PITCH);
|   mad.lo.u32     $(a.value_at), $(unit), 16, $(a.value_at);
|   mad.lo.u32     $(a.value_at), $(a.warp), 64, $(a.value_at);
  end)
  for i = 0, 32 * shape.blocks - 1 do
|   mov.f32        $(a.acc[i]), 0f00000000;
  end
end

-- acc := acc * factor of its row.
local function rescale(a)
  scope(function()
    local factor, at = f32("factor", 2 * shape.blocks), b32 "at"
|   mad.lo.u32     $(at), $(a.turn), $(4 * shape.rows), $(a.memory);
|   mad.lo.u32     $(at), $(a.group), 4, $(at);
    for i = 0, 2 * shape.blocks - 1 do
|   ld.shared.f32  $(factor[i]), [$(at)+$(shape.FACTORS + 32 * i)];
    end
    attend_value.rescale(a, factor)
  end)
end

-- f[4 i + 2 k + e]: keys 8 k + 2 quarter, + 1 of latent 16 (2 pair + i) + 2 group + e: the transposed 16-bit elements of ldmatrix are pairs
-- of neighbouring latents.
local function values(f, at, key, pair)
  scope(function()
    local v = b32("v", 4)
|   ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {$(v[0]), $(v[1]), $(v[2]), $(v[3])}, [$(at)+$(shape.PITCH * key + 32 * pair)];
    for i = 0, 3 do
|   prmt.b32       $(v[i]), $(v[i]), 0, 0x3120;
      fp8.halves(f[2 * i], f[2 * i + 1], v[i])
    end
  end)
end

-- acc := acc * factor + P V over the tile's 64 keys. acc[32 block + 4 j + ..]: j = 2 u + e holds latents 16 u + 2 n + e of the warp's 64, n
-- the column of the product.
-- pause: emitted before the products of key PAUSE.
function wide_value.tile(a, pause)
  rescale(a)
  scope(function()
    local p_at, at, p, f = b32 "p_at_", b32 "at", b32("p", 4 * shape.blocks), b32("f", 8)
|   mad.lo.u32     $(p_at), $(a.turn), $(shape.P_BYTES), $(a.p_at);
|   add.u32        $(at), $(a.stage), $(a.value_at);
    for key = 0, shape.TILE - 1, 16 do
      if key == PAUSE then pause() end
      for block = 0, shape.blocks - 1 do
        local i = 4 * block
|   ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$(p[i]), $(p[i + 1]), $(p[i + 2]), $(p[i + 3])}, [$(p_at)+$(2 * key + 16 * shape.P_PITCH * block)];
      end
      for pair = 0, 1 do
        values(f, at, key, pair)
        for i = 0, 1 do
          for block = 0, shape.blocks - 1 do
            for e = 0, 1 do
              local d, x, y = 32 * block + 4 * (2 * (2 * pair + i) + e), 4 * block, 4 * i + e
|   mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
|       {$(a.acc[d]), $(a.acc[d + 1]), $(a.acc[d + 2]), $(a.acc[d + 3])}, {$(p[x]), $(p[x + 1]), $(p[x + 2]), $(p[x + 3])},
|       {$(f[y]), $(f[y + 2])}, {$(a.acc[d]), $(a.acc[d + 1]), $(a.acc[d + 2]), $(a.acc[d + 3])};
            end
          end
        end
      end
    end
  end)
end

-- total, top of rows group and group + 8 of each block, from those who scored: sums in the order of their shares.
function wide_value.ends(a)
  a.total, a.top = f32("total", 2 * shape.blocks), f32("top", 2 * shape.blocks)
  scope(function()
    local at, sums_at, more = b32 "at", b32 "sums_at", f32 "more"
|   mad.lo.u32     $(at), $(a.group), 4, $(a.memory);
|   mad.lo.u32     $(sums_at), $(a.group), $(4 * shape.shares), $(a.memory);
    for i = 0, 2 * shape.blocks - 1 do
|   ld.shared.f32  $(a.top[i]), [$(at)+$(shape.TOPS + 32 * i)];
|   ld.shared.f32  $(a.total[i]), [$(sums_at)+$(shape.SUMS + 32 * shape.shares * i)];
      for w = 1, shape.shares - 1 do
|   ld.shared.f32  $(more), [$(sums_at)+$(shape.SUMS + 32 * shape.shares * i + 4 * w)];
|   add.rn.f32     $(a.total[i]), $(a.total[i]), $(more);
      end
    end
  end)
end

return wide_value
