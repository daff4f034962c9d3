-- hopper_out: what the PV warpgroups of mla_decode's form for sm_90a leave: BF16 rows and LSE, or the split's FP32 rows and LSE for the
-- reducer. acc as lib/hopper_value lays it out; m' and l of the CTA's rows are in shared memory.
return function(shape)
local attend_out = include "lib/attend_out"
local hopper_out = {}
local SUMS = shape.n // 2

hopper_out.WHOLE = "0xffffffff"                        -- LSE of split 0 in the workspace: the row is written, there is no more to add

-- One of both: lse := log2(l) + m' - 8, -inf where the row saw no key; scale := output_scale / l, or 0.
function hopper_out.close_row(a, row, lse, scale, seen)
  scope(function()
    local at, top, sum = b32 "at", f32 "top_", f32 "sum_"
|   mad.lo.u32     $(at), $(row), 4, $(a.memory);
|   ld.shared.f32  $(sum), [$(at)+$(shape.END + (lse and 256 or 512))];
|   setp.neu.f32   $(seen), $(sum), 0f00000000;
    if lse then
|   ld.shared.f32  $(top), [$(at)+$(shape.END)];
|   lg2.approx.f32 $(lse), $(sum);
|   add.rn.f32     $(lse), $(lse), $(top);
|   sub.rn.f32     $(lse), $(lse), $(f32(8));
|   selp.f32       $(lse), $(lse), 0fff800000, $(seen);
    end
    if scale then
|   ld.param.f32   $(top), [$(param.output_scale)];
|   mul.rn.f32     $(scale), $(sum), $(top);
    end
  end)
end

-- A split that has nothing to do says so to the reducer: LSE -inf.
function hopper_out.idle(a)
  local none = label "no_idle_row"
  scope(function()
    local all, skip, at, lse_at, never = b32 "all", pred "skip", b64 "at", b64 "lse_at", f32 "never"
|   add.u32        $(all), $(a.thread), $(a.row0);
|   setp.ge.u32    $(skip), $(a.thread), $(shape.n);
|   setp.ge.or.u32 $(skip), $(all), $(shape.rows), $(skip);
| @$(skip) bra     $(none);
    attend_out.workspace_row(a, at, lse_at, all, a.split)
|   mov.f32        $(never), 0fff800000;
|   st.global.f32  [$(lse_at)], $(never);
  end)
| $(none):
end

-- The LSE of the CTA's rows: threads 0 .. n - 1 of the first PV warpgroup.
local function ends(a, partial, mark)
  local none = label "no_lse"
  scope(function()
    local row, all, lse, seen, at, lse_at, skip = b32 "row", b32 "all", f32 "lse", pred "seen", b64 "row_at", b64 "lse_at", pred "skip"
|   sub.u32        $(row), $(a.thread), 256;
|   add.u32        $(all), $(row), $(a.row0);
|   setp.ge.u32    $(skip), $(row), $(shape.n);
|   setp.ge.or.u32 $(skip), $(all), $(shape.rows), $(skip);
| @$(skip) bra     $(none);
    hopper_out.close_row(a, row, lse, nil, seen)
    if mark then
      attend_out.workspace_row(a, at, lse_at, all, a.split)
|   st.global.b32  [$(lse_at)], $(mark);
    end
    if partial then
      attend_out.workspace_row(a, at, lse_at, all, a.split)
    else
|   mad.lo.u32     $(all), $(a.request), $(shape.rows), $(all);
|   ld.param.u64   $(lse_at), [$(param.rows_lse)];
|   mad.wide.u32   $(lse_at), $(all), 4, $(lse_at);
    end
|   st.global.f32  [$(lse_at)], $(lse);
  end)
| $(none):
end

-- partial: the split's FP32 rows and LSE, to the workspace; else the rows themselves, and `mark` (if any) as the workspace's LSE.
function hopper_out.store(a, acc, partial, mark)
  section "rows and LSE"
  ends(a, partial, mark)
  scope(function()
    local latent, wide = b32 "latent", b64 "wide"
|   mad.lo.u32     $(latent), $(a.w), 16, 0;
|   mad.lo.u32     $(latent), $(a.part), 256, $(latent);
|   mad.lo.u32     $(latent), $(a.group), 2, $(latent);
|   mul.wide.u32   $(wide), $(latent), $(partial and 4 or 2);
    for i = 0, shape.n // 8 - 1 do
      for e = 0, 1 do
        scope(function()
          local row, all, scale, seen, at, lse_at, live = b32 "row", b32 "all", f32 "scale", pred "seen", b64 "at", b64 "lse_at", pred "live"
          local x, pair = f32("x", 2), b32 "pair"
|   mad.lo.u32     $(row), $(a.quarter), 2, $(8 * i + e);
|   add.u32        $(all), $(row), $(a.row0);
|   setp.lt.u32    $(live), $(all), $(shape.rows);
          hopper_out.close_row(a, row, nil, scale, seen)
          if partial then
            attend_out.workspace_row(a, at, lse_at, all, a.split)
|   and.pred       $(live), $(live), $(seen);
          else
|   mad.lo.u32     $(all), $(a.request), $(shape.rows), $(all);
|   ld.param.u64   $(at), [$(param.rows)];
|   mad.wide.u32   $(at), $(all), 1024, $(at);
          end
|   add.u64        $(at), $(at), $(wide);
          for mb = 0, 3 do
            for p = 0, 1 do
              local from = SUMS * mb + 4 * i + 2 * p + e
|   mul.rn.f32     $(x[p]), $(acc[from]), $(scale);
|   selp.f32       $(x[p]), $(x[p]), 0f00000000, $(seen);
            end
            if partial then
| @$(live) st.global.v2.f32 [$(at)+$(256 * mb)], {$(x[0]), $(x[1])};
            else
|   cvt.rn.bf16x2.f32 $(pair), $(x[1]), $(x[0]);
| @$(live) st.global.b32 [$(at)+$(128 * mb)], $(pair);
            end
          end
        end)
      end
    end
  end)
end

return hopper_out
end
