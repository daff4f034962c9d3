-- attend_out: what mla_decode's portable form leaves: BF16 rows and LSE, or FP32 partial rows of a split, and the kernel that adds
-- those. a: the state of lib/attend after its last key tile (acc, top, sum, bound of rows group and group + 8).
local attend_out = {}

-- lse := log2(l) + m' - 8 of row r, -inf and seen = false when the row saw no key; inverse := 1 / l, or 0.
local function close_row(a, r, lse, inverse, seen)
|   setp.gt.u32    $(seen), $(a.bound[r]), 0;
|   setp.neu.and.f32 $(seen), $(a.sum[r]), 0f00000000, $(seen);
|   lg2.approx.f32 $(lse), $(a.sum[r]);
|   add.rn.f32     $(lse), $(lse), $(a.top[r]);
|   sub.rn.f32     $(lse), $(lse), $(f32(8));
|   selp.f32       $(lse), $(lse), 0fff800000, $(seen);
|   rcp.rn.f32     $(inverse), $(a.sum[r]);
|   selp.f32       $(inverse), $(inverse), 0f00000000, $(seen);
end

-- index := of row group + 8 r in [B][D*H]; live: it exists.
local function output_row(a, r, index, live)
  scope(function()
    local row, j = b32 "row", b32 "j"
|   add.u32        $(row), $(a.row0), $(a.group);
|   add.u32        $(row), $(row), $(8 * r);
|   setp.lt.u32    $(live), $(row), $(a.rows);
|   mad.lo.u32     $(index), $(a.request), $(a.rows), $(row);
  end)
end

-- splits = 1: BF16 rows and LSE.
function attend_out.store(a)
  section "rows and LSE"
  for r = 0, 1 do
    scope(function()
      local lse, inverse, seen, index, live, at = f32 "lse", f32 "inverse", pred "seen", b32 "index", pred "live", b64 "at"
      local scale, x, y, pair, owner = f32 "scale", f32 "x", f32 "y", b32("pair", 4), pred "owner"
      close_row(a, r, lse, inverse, seen)
      output_row(a, r, index, live)
|   ld.param.u64   $(at), [$(param.rows_lse)];
|   mad.wide.u32   $(at), $(index), 4, $(at);
|   setp.eq.and.u32 $(owner), $(a.quarter), 0, $(live);
|   setp.eq.and.u32 $(owner), $(a.warp), 0, $(owner);
| @$(owner) st.global.f32 [$(at)], $(lse);
|   ld.param.f32   $(scale), [$(param.output_scale)];
|   ld.param.u64   $(at), [$(param.rows)];
|   mad.wide.u32   $(at), $(index), 1024, $(at);
      scope(function()
        local part, offset = b32 "part", b64 "offset"
|   mul.lo.u32     $(part), $(a.warp), 256;
|   mad.lo.u32     $(part), $(a.quarter), 64, $(part);
|   cvt.u64.u32    $(offset), $(part);
|   add.u64        $(at), $(at), $(offset);
      end)
      for c = 0, 3 do                                  -- 8 latents: tiles 8 (c % 2) .. + 7 of column 2 quarter + c / 2
        for i = 0, 3 do
          local j = 8 * (c % 2) + 2 * i
          local d = 4 * j + 2 * r + c // 2
|   mul.rn.f32     $(x), $(a.acc[d]), $(inverse);
|   mul.rn.f32     $(y), $(a.acc[d + 4]), $(inverse);
|   mul.rn.f32     $(x), $(x), $(scale);
|   mul.rn.f32     $(y), $(y), $(scale);
|   cvt.rn.bf16x2.f32 $(pair[i]), $(y), $(x);
|   selp.b32       $(pair[i]), $(pair[i]), 0, $(seen);
        end
| @$(live) st.global.v4.b32 [$(at)+$(16 * c)], {$(pair[0]), $(pair[1]), $(pair[2]), $(pair[3])};
      end
    end)
  end
end

-- at := workspace row of [R][splits][rows], its LSE behind all rows.
local function workspace_row(a, at, lse_at, row, split)
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

-- splits > 1: the split's own normalised rows (scaled by output_scale) in FP32, and its LSE.
function attend_out.store_partial(a)
  section "partial rows and LSE"
  for r = 0, 1 do
    scope(function()
      local lse, inverse, seen, row, live = f32 "lse", f32 "inverse", pred "seen", b32 "row", pred "live"
      local at, lse_at, split, scale, x, owner = b64 "at", b64 "lse_at", b32 "split", f32 "scale", f32("x", 4), pred "owner"
      close_row(a, r, lse, inverse, seen)
|   add.u32        $(row), $(a.row0), $(a.group);
|   add.u32        $(row), $(row), $(8 * r);
|   setp.lt.u32    $(live), $(row), $(a.rows);
|   mov.u32        $(split), %ctaid.y;
      workspace_row(a, at, lse_at, row, split)
|   setp.eq.and.u32 $(owner), $(a.quarter), 0, $(live);
|   setp.eq.and.u32 $(owner), $(a.warp), 0, $(owner);
| @$(owner) st.global.f32 [$(lse_at)], $(lse);
|   ld.param.f32   $(scale), [$(param.output_scale)];
|   mul.rn.f32     $(inverse), $(inverse), $(scale);
      scope(function()
        local part, offset = b32 "part", b64 "offset"
|   mul.lo.u32     $(part), $(a.warp), 512;
|   mad.lo.u32     $(part), $(a.quarter), 128, $(part);
|   cvt.u64.u32    $(offset), $(part);
|   add.u64        $(at), $(at), $(offset);
      end)
      for c = 0, 7 do                                  -- 4 latents: tiles 4 (c % 4) .. + 3 of column 2 quarter + c / 4
        for i = 0, 3 do
          local d = 4 * (4 * (c % 4) + i) + 2 * r + c // 4
|   mul.rn.f32     $(x[i]), $(a.acc[d]), $(inverse);
|   selp.f32       $(x[i]), $(x[i]), 0f00000000, $(seen);
        end
| @$(live) st.global.v4.f32 [$(at)+$(16 * c)], {$(x[0]), $(x[1]), $(x[2]), $(x[3])};
      end
    end)
  end
end

-- The second kernel: one CTA a row, 4 latents a thread: sum over the splits of 2^(lse_k - lse) rows_k, in the order of the splits.
function attend_out.reduce(rows, splits)
  local a = { rows = rows, splits = splits, request = b32 "request" }
  local row, thread, split, at, lse_at = b32 "row", b32 "thread", b32 "split", b64 "at", b64 "lse_at"
  local top, sum, lse, weight, more, real = f32 "top", f32 "sum", f32 "lse", f32 "weight", pred "more", pred "real"
  local acc, x, index, pair, first = f32("acc", 4), f32("x", 4), b32 "index", b32("pair", 2), pred "first"
|   mov.u32        $(thread), %tid.x;
|   mov.u32        $(row), %ctaid.x;
|   mov.u32        $(a.request), %ctaid.y;
  local function over_splits(name, body)
    local again = label(name)
|   mov.u32        $(split), 0;
| $(again):
    workspace_row(a, at, lse_at, row, split)
|   ld.global.f32  $(lse), [$(lse_at)];
    body()
|   add.u32        $(split), $(split), 1;
|   setp.lt.u32    $(more), $(split), $(splits);
| @$(more) bra     $(again);
  end
|   mov.f32        $(top), 0fff800000;
  over_splits("largest", function()
|   max.f32        $(top), $(top), $(lse);
  end)
|   mov.f32        $(sum), 0f00000000;
  for i = 0, 3 do
|   mov.f32        $(acc[i]), 0f00000000;
  end
  over_splits("add_split", function()
    local skip = label "empty_split"
|   setp.eq.f32    $(real), $(lse), 0fff800000;
| @$(real) bra     $(skip);
|   sub.rn.f32     $(weight), $(lse), $(top);
|   ex2.approx.f32 $(weight), $(weight);
|   add.rn.f32     $(sum), $(sum), $(weight);
|   mad.wide.u32   $(at), $(thread), 16, $(at);
|   ld.global.v4.f32 {$(x[0]), $(x[1]), $(x[2]), $(x[3])}, [$(at)];
    for i = 0, 3 do
|   fma.rn.f32     $(acc[i]), $(weight), $(x[i]), $(acc[i]);
    end
| $(skip):
  end)
|   setp.neu.f32   $(real), $(sum), 0f00000000;
|   rcp.rn.f32     $(weight), $(sum);
|   selp.f32       $(weight), $(weight), 0f00000000, $(real);
|   lg2.approx.f32 $(lse), $(sum);
|   add.rn.f32     $(lse), $(lse), $(top);
|   selp.f32       $(lse), $(lse), 0fff800000, $(real);
|   mad.lo.u32     $(index), $(a.request), $(rows), $(row);
  for i = 0, 3 do
|   mul.rn.f32     $(acc[i]), $(acc[i]), $(weight);
  end
|   cvt.rn.bf16x2.f32 $(pair[0]), $(acc[1]), $(acc[0]);
|   cvt.rn.bf16x2.f32 $(pair[1]), $(acc[3]), $(acc[2]);
|   ld.param.u64   $(at), [$(param.rows)];
|   mad.wide.u32   $(at), $(index), 1024, $(at);
|   mad.wide.u32   $(at), $(thread), 8, $(at);
|   st.global.v2.b32 [$(at)], {$(pair[0]), $(pair[1])};
|   setp.eq.u32    $(first), $(thread), 0;
|   ld.param.u64   $(lse_at), [$(param.rows_lse)];
|   mad.wide.u32   $(lse_at), $(index), 4, $(lse_at);
| @$(first) st.global.f32 [$(lse_at)], $(lse);
end

return attend_out
