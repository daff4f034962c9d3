-- attend_value: P V of a tile, both from shared memory. Warp w owns latents 64 w .. 64 w + 63 of every row: exact F16 products, FP32 sums.
local shape = include "lib/attend_shape"
local fp8 = include "lib/fp8"
local attend_value = {}

function attend_value.open(a)
  a.p_at, a.value_at = b32("p_at", "ldmatrix: P"), b32("value_at", "ldmatrix: this warp's latents of the tile's first 32 keys")
  scope(function()
    local row, unit = b32 "row_", b32 "unit"
|   and.b32        $(row), $(a.lane), 15;
|   shr.u32        $(unit), $(a.lane), 4;
|   add.u32        $(a.p_at), $(a.memory), $(shape.P);
|   mad.lo.u32     $(a.p_at), $(row), $(shape.P_PITCH), $(a.p_at);
|   mad.lo.u32     $(a.p_at), $(unit), 16, $(a.p_at);
|   mul.lo.u32     $(a.value_at), $(a.lane), $(shape.PITCH);
|   mad.lo.u32     $(a.value_at), $(a.warp), 64, $(a.value_at);
  end)
end

-- Where rows of the CTA end at different keys (q > 1), a tile that reaches past the least bound holds keys that some row does not see:
-- their NaN bytes of V become 0 in the stage. A row that sees such a key has a NaN score, so it loses nothing. By those who loaded the tile, after
-- all have scored it.
function attend_value.clean(a)
  if spec.q == 1 then return end
  local clean = label "stage_clean"
  scope(function()
    local past, stop, at, w = b32 "past", pred "stop", b32 "at", b32("w", 4)
|   mad.lo.u32     $(past), $(a.first), $(shape.TILE), $(shape.TILE);
|   setp.le.u32    $(stop), $(past), $(a.least);
| @$(stop) bra     $(clean);
|   add.u32        $(at), $(a.stage), $(a.place);
    for i = 0, 8 * shape.passes - 1 do
      local from = 64 * (i % 8) + 8 * shape.loaders * shape.PITCH * (i // 8)
|   ld.shared.v4.u32 {$(w[0]), $(w[1]), $(w[2]), $(w[3])}, [$(at)+$(from)];
      for n = 0, 3 do fp8.without_nan(w[n]) end
|   st.shared.v4.u32 [$(at)+$(from)], {$(w[0]), $(w[1]), $(w[2]), $(w[3])};
    end
  end)
| $(clean):
end

-- acc := acc * factor; most tiles move no maximum, and a warp with none to move skips it.
function attend_value.rescale(a, factor)
  local same = label "same_maxima"
  scope(function()
    local moved, any = pred "moved", pred "any"
|   setp.neu.f32   $(moved), $(factor[0]), 0f3F800000;
    for i = 1, 2 * shape.blocks - 1 do
|   setp.neu.or.f32 $(moved), $(factor[i]), 0f3F800000, $(moved);
    end
|   vote.sync.any.pred $(any), $(moved), 0xffffffff;
| @!$(any) bra     $(same);
    for i = 0, 32 * shape.blocks - 1 do
|   mul.rn.f32     $(a.acc[i]), $(a.acc[i]), $(factor[2 * (i // 32) + i % 4 // 2]);
    end
  end)
| $(same):
end

-- acc := acc * factor + P V over the tile's 64 keys. acc[32 block + 4 j + ...]: tile j = 2 u + e holds latents 16 u + 2 n + e of the
-- warp's 64, n the column of the mma: the transposed 16-bit elements of ldmatrix are pairs of neighbouring latents.
function attend_value.products(a, factor)
  attend_value.rescale(a, factor)
  scope(function()
    local at, p, v = b32 "at", b32("p", 8 * shape.blocks), b32("v", 4)
|   add.u32        $(at), $(a.stage), $(a.value_at);
    for half = 0, 1 do                                  -- 32 keys
      for block = 0, shape.blocks - 1 do
        for k = 0, 1 do
          local i = 8 * block + 4 * k
|   ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$(p[i]), $(p[i + 1]), $(p[i + 2]), $(p[i + 3])}, [$(a.p_at)+$(64 * half + 32 * k + 16 * shape.P_PITCH * block)];
        end
      end
      for u = 0, 3 do                                   -- 16 latents
|   ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {$(v[0]), $(v[1]), $(v[2]), $(v[3])}, [$(at)+$(32 * shape.PITCH * half + 16 * u)];
        scope(function()
          local f = b32("f", 8)                         -- f[2 i + e]: keys 8 i + 2 quarter, + 1 of latent 2 group + e
          for i = 0, 3 do
|   prmt.b32       $(v[i]), $(v[i]), 0, 0x3120;
            fp8.halves(f[2 * i], f[2 * i + 1], v[i])
          end
          for k = 0, 1 do
            for block = 0, shape.blocks - 1 do
              for e = 0, 1 do
                local d, x, y = 32 * block + 4 * (2 * u + e), 8 * block + 4 * k, 4 * k + e
|   mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
|       {$(a.acc[d]), $(a.acc[d + 1]), $(a.acc[d + 2]), $(a.acc[d + 3])}, {$(p[x]), $(p[x + 1]), $(p[x + 2]), $(p[x + 3])},
|       {$(f[y]), $(f[y + 2])}, {$(a.acc[d]), $(a.acc[d + 1]), $(a.acc[d + 2]), $(a.acc[d + 3])};
              end
            end
          end
        end)
      end
    end
  end)
end

return attend_value
