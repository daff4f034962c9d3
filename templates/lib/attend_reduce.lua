-- attend_reduce: the second kernel of mla_decode with splits > 1: row := sum over the splits of 2^(lse_k - lse) row_k. Its own thread
-- layout: `groups` of threads take every groups-th split each, eight partial rows in flight, a thread 4 latents; then the groups' sums
-- are added in their order. So a row's bits depend on its partials and on `splits` alone.
local attend_out = include "lib/attend_out"
local attend_reduce = {}
local BATCH = 8                                         -- partial rows a thread has in flight

-- slices: CTAs a row; lanes: threads a group, 4 latents each.
function attend_reduce.plan(splits)
  local plan = { slices = splits > 32 and 4 or 1 }
  plan.groups = splits > 32 and 16 or ceil_div(splits, BATCH)
  plan.lanes = 128 // plan.slices
  plan.threads = plan.lanes * plan.groups
  return plan
end

-- top, sum, over all splits; every warp computes the same from the LSEs in shared memory.
local function weigh(a, plan, lse_shared, top, sum, whole, out)
  scope(function()
    local split, lse, at, lse_at, real, other = b32 "split", f32 "lse", b64 "at", b64 "lse_at", pred "real", f32 "other"
    local place, lane = b32 "place", b32 "lane"
|   setp.lt.u32    $(real), $(a.thread), $(a.splits);
|   min.u32        $(split), $(a.thread), $(a.splits - 1);
    attend_out.workspace_row(a, at, lse_at, a.row, split)
|   ld.global.f32  $(lse), [$(lse_at)];
|   mov.u32        $(place), $(lse_shared);
|   mad.lo.u32     $(place), $(split), 4, $(place);
| @$(real) st.shared.f32 [$(place)], $(lse);
|   bar.sync       0;
    if whole then
      scope(function()
        local first_lse = b32 "first_lse"
|   mov.u32        $(place), $(lse_shared);
|   ld.shared.u32  $(first_lse), [$(place)];
|   setp.eq.u32    $(real), $(first_lse), $(whole);
| @$(real) bra     $(out);
      end)
    end
|   and.b32        $(lane), $(a.thread), 31;
    local rounds = ceil_div(a.splits, 32)
    local each = f32("each", rounds)
|   mov.f32        $(top), 0fff800000;
    for i = 0, rounds - 1 do
|   add.u32        $(split), $(lane), $(32 * i);
|   setp.lt.u32    $(real), $(split), $(a.splits);
|   mov.u32        $(place), $(lse_shared);
|   mad.lo.u32     $(place), $(split), 4, $(place);
|   mov.f32        $(each[i]), 0fff800000;
| @$(real) ld.shared.f32 $(each[i]), [$(place)];
|   max.f32        $(top), $(top), $(each[i]);
    end
    for _, lanes in ipairs { 16, 8, 4, 2, 1 } do
|   shfl.sync.bfly.b32 $(other), $(top), $(lanes), 31, 0xffffffff;
|   max.f32        $(top), $(top), $(other);
    end
|   mov.f32        $(sum), 0f00000000;
    for i = 0, rounds - 1 do
|   setp.neu.f32   $(real), $(each[i]), 0fff800000;
|   sub.rn.f32     $(each[i]), $(each[i]), $(top);
|   ex2.approx.f32 $(each[i]), $(each[i]);
|   selp.f32       $(each[i]), $(each[i]), 0f00000000, $(real);
|   add.rn.f32     $(sum), $(sum), $(each[i]);
    end
    for _, lanes in ipairs { 16, 8, 4, 2, 1 } do
|   shfl.sync.bfly.b32 $(other), $(sum), $(lanes), 31, 0xffffffff;
|   add.rn.f32     $(sum), $(sum), $(other);
    end
  end)
end

-- acc[0..3] := the group's sum of weighted partial rows; splits with LSE -inf are not read.
local function add_up(a, plan, lse_shared, top, acc)
  scope(function()
    local at, lse_at, from, place = b64 "at", b64 "lse_at", b64 "from", b32 "place"
    local split, latent, offset, inside = b32 "split", b32 "latent", b64 "offset", pred "inside"
    for i = 0, 3 do
|   mov.f32        $(acc[i]), 0f00000000;
    end
|   mad.lo.u32     $(latent), $(a.slice), $(plan.lanes), $(a.lane);
|   shl.b32        $(latent), $(latent), 4;
|   cvt.u64.u32    $(offset), $(latent);
    for first = 0, ceil_div(a.splits, plan.groups) - 1, BATCH do
      local count = min(BATCH, ceil_div(a.splits, plan.groups) - first)
      scope(function()
        local x, weight, live = f32("x", 4 * count), f32("weight", count), pred("live", count)
        for i = 0, count - 1 do
|   add.u32        $(split), $(a.group), $(plan.groups * (first + i));
|   setp.lt.u32    $(inside), $(split), $(a.splits);
|   min.u32        $(split), $(split), $(a.splits - 1);
|   mov.u32        $(place), $(lse_shared);
|   mad.lo.u32     $(place), $(split), 4, $(place);
|   ld.shared.f32  $(weight[i]), [$(place)];
|   setp.neu.and.f32 $(live[i]), $(weight[i]), 0fff800000, $(inside);
|   sub.rn.f32     $(weight[i]), $(weight[i]), $(top);
|   ex2.approx.f32 $(weight[i]), $(weight[i]);
          attend_out.workspace_row(a, at, lse_at, a.row, split)
|   add.u64        $(from), $(at), $(offset);
          for n = 0, 3 do
|   mov.f32        $(x[4 * i + n]), 0f00000000;
          end
| @$(live[i]) ld.global.v4.f32 {$(x[4 * i]), $(x[4 * i + 1]), $(x[4 * i + 2]), $(x[4 * i + 3])}, [$(from)];
        end
        for i = 0, count - 1 do
          for n = 0, 3 do
| @$(live[i]) fma.rn.f32 $(acc[n]), $(weight[i]), $(x[4 * i + n]), $(acc[n]);
          end
        end
      end)
    end
  end)
end

-- acc of group 0 += the other groups', in their order. The other groups end here.
local function join(a, plan, acc, out)
  if plan.groups == 1 then return end
  scope(function()
    local sums, at, other, rest = shared("sums", 16 * plan.threads, 16), b32 "at", f32("other", 4), pred "rest"
|   mov.u32        $(at), $(sums);
|   mad.lo.u32     $(at), $(a.thread), 16, $(at);
|   st.shared.v4.f32 [$(at)], {$(acc[0]), $(acc[1]), $(acc[2]), $(acc[3])};
|   bar.sync       0;
|   setp.ne.u32    $(rest), $(a.group), 0;
| @$(rest) bra     $(out);
    for g = 1, plan.groups - 1 do
|   ld.shared.v4.f32 {$(other[0]), $(other[1]), $(other[2]), $(other[3])}, [$(at)+$(16 * plan.lanes * g)];
      for n = 0, 3 do
|   add.rn.f32     $(acc[n]), $(acc[n]), $(other[n]);
      end
    end
  end)
end

-- grid (rows, R, slices). whole: the LSE of split 0 that says: the row is written already; nil: none does.
function attend_reduce.reduce(rows, splits, plan, whole)
  local a = { rows = rows, splits = splits, request = b32 "request", row = b32 "row", thread = b32 "thread" }
  a.group, a.lane, a.slice = b32 "group", b32("lane", "of the group"), b32 "slice"
  local top, sum, lse, weight, real = f32 "top", f32 "sum", f32 "lse", f32 "weight", pred "real"
  local acc, index, pair, first, out = f32("acc", 4), b32 "index", b32("pair", 2), pred "first", label "reduced"
  local at, lse_shared = b64 "at", shared("split_lse", 4 * splits, 16)
|   mov.u32        $(a.thread), %tid.x;
|   mov.u32        $(a.row), %ctaid.x;
|   mov.u32        $(a.request), %ctaid.y;
|   mov.u32        $(a.slice), %ctaid.z;
|   div.u32        $(a.group), $(a.thread), $(plan.lanes);
|   rem.u32        $(a.lane), $(a.thread), $(plan.lanes);
  weigh(a, plan, lse_shared, top, sum, whole, out)
  add_up(a, plan, lse_shared, top, acc)
  join(a, plan, acc, out)
|   setp.neu.f32   $(real), $(sum), 0f00000000;
|   rcp.rn.f32     $(weight), $(sum);
|   selp.f32       $(weight), $(weight), 0f00000000, $(real);
|   lg2.approx.f32 $(lse), $(sum);
|   add.rn.f32     $(lse), $(lse), $(top);
|   selp.f32       $(lse), $(lse), 0fff800000, $(real);
|   mad.lo.u32     $(index), $(a.request), $(rows), $(a.row);
  for i = 0, 3 do
|   mul.rn.f32     $(acc[i]), $(acc[i]), $(weight);
  end
|   cvt.rn.bf16x2.f32 $(pair[0]), $(acc[1]), $(acc[0]);
|   cvt.rn.bf16x2.f32 $(pair[1]), $(acc[3]), $(acc[2]);
|   ld.param.u64   $(at), [$(param.rows)];
|   mad.wide.u32   $(at), $(index), 1024, $(at);
  scope(function()
    local latent = b32 "latent"
|   mad.lo.u32     $(latent), $(a.slice), $(plan.lanes), $(a.lane);
|   mad.wide.u32   $(at), $(latent), 8, $(at);
  end)
|   st.global.v2.b32 [$(at)], {$(pair[0]), $(pair[1])};
|   setp.eq.u32    $(first), $(a.thread), 0;
|   setp.eq.and.u32 $(first), $(a.slice), 0, $(first);
|   ld.param.u64   $(at), [$(param.rows_lse)];
|   mad.wide.u32   $(at), $(index), 4, $(at);
| @$(first) st.global.f32 [$(at)], $(lse);
| $(out):
end

return attend_reduce
