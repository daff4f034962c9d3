-- attend_out: what mla_decode's portable form leaves: BF16 rows and LSE, or FP32 partial rows of a split and their LSE. a: the state of
-- lib/attend after its last key tile (acc, top, total: rows group and group + 8 of each block; latents: lib/attend_value).
local shape = include "lib/attend_shape"
local attend_out = {}

-- lse := log2(l) + m' - 8 of row i, -inf and seen = false when the row saw no key; inverse := 1 / l, or 0.
local function close_row(a, i, lse, inverse, seen)
|   setp.neu.f32   $(seen), $(a.total[i]), 0f00000000;
|   lg2.approx.f32 $(lse), $(a.total[i]);
|   add.rn.f32     $(lse), $(lse), $(a.top[i]);
|   sub.rn.f32     $(lse), $(lse), $(f32(8));
|   selp.f32       $(lse), $(lse), 0fff800000, $(seen);
|   rcp.rn.f32     $(inverse), $(a.total[i]);
|   selp.f32       $(inverse), $(inverse), 0f00000000, $(seen);
end

-- row := row i of the request, group + 8 (i % 2) of block i / 2; live: it exists; owner: and this thread stores its LSE.
local function row_of(a, i, row, live, owner)
|   add.u32        $(row), $(a.row0), $(a.group);
|   add.u32        $(row), $(row), $(8 * i);
|   setp.lt.u32    $(live), $(row), $(a.rows);
|   setp.eq.and.u32 $(owner), $(a.quarter), 0, $(live);
|   setp.eq.and.u32 $(owner), $(a.warp), 0, $(owner);
end

-- at += `bytes` times the thread's first latent: 64 warp + 4 quarter.
local function to_latents(a, at, bytes)
  scope(function()
    local part, offset = b32 "part_", b64 "offset"
|   mul.lo.u32     $(part), $(a.warp), $(64 * bytes);
|   mad.lo.u32     $(part), $(a.quarter), $(4 * bytes), $(part);
|   cvt.u64.u32    $(offset), $(part);
|   add.u64        $(at), $(at), $(offset);
  end)
end

-- x[0..3] := sums of latents 16 u + 4 quarter .. + 3, row i, times inverse and scale; zeros of a row that saw no key.
local function latents(a, i, u, x, inverse, scale, seen)
  local d = 32 * (i // 2) + 8 * u + 2 * (i % 2)
  for n, from in ipairs { d, d + 4, d + 1, d + 5 } do
|   mul.rn.f32     $(x[n - 1]), $(a.acc[from]), $(inverse);
|   mul.rn.f32     $(x[n - 1]), $(x[n - 1]), $(scale);
|   selp.f32       $(x[n - 1]), $(x[n - 1]), 0f00000000, $(seen);
  end
end

-- splits = 1: BF16 rows and LSE.
function attend_out.store(a)
  section "rows and LSE"
  for i = 0, 2 * shape.blocks - 1 do
    scope(function()
      local lse, inverse, scale, seen, live, owner = f32 "lse", f32 "inverse", f32 "scale", pred "seen", pred "live", pred "owner"
      local row, at, x, pair = b32 "row", b64 "at", f32("x", 4), b32("pair", 2)
      close_row(a, i, lse, inverse, seen)
      row_of(a, i, row, live, owner)
|   mad.lo.u32     $(row), $(a.request), $(a.rows), $(row);
|   ld.param.u64   $(at), [$(param.rows_lse)];
|   mad.wide.u32   $(at), $(row), 4, $(at);
| @$(owner) st.global.f32 [$(at)], $(lse);
|   ld.param.f32   $(scale), [$(param.output_scale)];
|   ld.param.u64   $(at), [$(param.rows)];
|   mad.wide.u32   $(at), $(row), 1024, $(at);
      to_latents(a, at, 2)
      for u = 0, 3 do
        latents(a, i, u, x, inverse, scale, seen)
|   cvt.rn.bf16x2.f32 $(pair[0]), $(x[1]), $(x[0]);
|   cvt.rn.bf16x2.f32 $(pair[1]), $(x[3]), $(x[2]);
| @$(live) st.global.v2.b32 [$(at)+$(32 * u)], {$(pair[0]), $(pair[1])};
      end
    end)
  end
end

-- at := workspace row of [R][splits][rows], lse_at its LSE behind all rows.
function attend_out.workspace_row(a, at, lse_at, row, split)
  scope(function()
    local index = b32 "index"
|   mad.lo.u32     $(index), $(a.request), $(a.splits), $(split);
|   mad.lo.u32     $(index), $(index), $(a.rows), $(row);
|   ld.param.u64   $(at), [$(param.workspace)];
|   mad.wide.u32   $(lse_at), $(index), 4, $(at);
|   add.u64        $(lse_at), $(lse_at), $(spec.batch // spec.q * a.splits * a.rows * 2048);
|   mad.wide.u32   $(at), $(index), 2048, $(at);
  end)
end

-- splits > 1: the split's own normalised rows (scaled by output_scale) in FP32, and its LSE. A row that saw no key of the split leaves
-- its LSE alone: the reducer reads no more of it.
function attend_out.store_partial(a)
  section "partial rows and LSE"
  for i = 0, 2 * shape.blocks - 1 do
    scope(function()
      local lse, inverse, scale, seen, live, owner = f32 "lse", f32 "inverse", f32 "scale", pred "seen", pred "live", pred "owner"
      local row, split, at, lse_at, x = b32 "row", b32 "split", b64 "at", b64 "lse_at", f32("x", 4)
      close_row(a, i, lse, inverse, seen)
      row_of(a, i, row, live, owner)
|   mov.u32        $(split), %ctaid.y;
      attend_out.workspace_row(a, at, lse_at, row, split)
| @$(owner) st.global.f32 [$(lse_at)], $(lse);
|   and.pred       $(live), $(live), $(seen);
|   ld.param.f32   $(scale), [$(param.output_scale)];
      to_latents(a, at, 4)
      for u = 0, 3 do
        latents(a, i, u, x, inverse, scale, seen)
| @$(live) st.global.v4.f32 [$(at)+$(64 * u)], {$(x[0]), $(x[1]), $(x[2]), $(x[3])};
      end
    end)
  end
end

return attend_out
