-- hopper_join: the CTAs of a cluster add up what they found of their request's splits, through distributed shared memory. Each CTA leaves
-- its sums where its key stages were, [8 blocks of 64 latents][n / 8][128 threads][4] F32, with m' and l of its rows; then CTA c of the
-- cluster's `share` splits reads blocks c * 8 / share .. of all of them, in their order. The result is the rows themselves, or a cluster's
-- FP32 rows for the reducer.
local shape = include "lib/hopper_shape"
local row_max = include "lib/row_max"
local attend_out = include "lib/attend_out"
local hopper_join = {}
local GROUPS = shape.n // 8                             -- of 8 rows
local ITEMS = 8 // shape.share * GROUPS                 -- [block][group] that a CTA adds up, 128 threads each

hopper_join.WHOLE = "0xffffffff"                        -- LSE of cluster 0 in the workspace: the row is written, there is no more to add

-- A cluster that has nothing to do says so: LSE -inf.
function hopper_join.idle(a)
  local none = label "no_idle_row"
  scope(function()
    local all, skip, at, lse_at, never = b32 "all", pred "skip", b64 "at", b64 "lse_at", f32 "never"
|   add.u32        $(all), $(a.thread), $(a.row0);
|   setp.ge.u32    $(skip), $(a.thread), $(shape.n);
|   setp.ge.or.u32 $(skip), $(all), $(shape.rows), $(skip);
|   setp.ne.or.u32 $(skip), $(a.member), 0, $(skip);
| @$(skip) bra     $(none);
    attend_out.workspace_row(a, at, lse_at, all, a.cluster)
|   mov.f32        $(never), 0fff800000;
|   st.global.f32  [$(lse_at)], $(never);
  end)
| $(none):
end

-- acc -> shared. After the PV warpgroup's last product; only its own thread reads nothing here any more.
function hopper_join.leave(a, acc)
  section "sums for the cluster"
  scope(function()
    local at, place = b32 "at", b32 "place"
|   bar.sync       2, 256;                              // every warp has read its last key stage
|   and.b32        $(place), $(a.thread), 127;
|   mad.lo.u32     $(at), $(place), 16, $(a.memory);
|   mad.lo.u32     $(at), $(a.part), $(4 * GROUPS * 2048), $(at);
    for mb = 0, 3 do
      for i = 0, GROUPS - 1 do
        local k = shape.n // 2 * mb + 4 * i
|   st.shared.v4.f32 [$(at)+$((mb * GROUPS + i) * 2048)], {$(acc[k]), $(acc[k + 1]), $(acc[k + 2]), $(acc[k + 3])};
      end
    end
  end)
end

-- peer[k] := shared::cluster address of split k's `memory`.
local function find_peers(a, peer)
  scope(function()
    local rank = b32 "rank_"
    for k = 0, shape.share - 1 do
|   add.u32        $(rank), $(a.half), $(shape.pair * k);
|   mapa.shared::cluster.u32 $(peer[k]), $(a.memory), $(rank);
    end
  end)
end

-- weights [split of the cluster][64 rows] in shared, where P was; LSE of the rows to global by the cluster's first split.
local function weigh(a, peer, whole)
  local none = label "no_row"
  scope(function()
    local row, all, skip, top, sum, factor = b32 "row", b32 "all", pred "skip", f32 "top_all", f32 "sum_all", f32("factor", shape.share)
    local m, l, at, lse, seen = f32("m", shape.share), f32("l", shape.share), b32 "at", f32 "lse", pred "seen"
|   sub.u32        $(row), $(a.thread), 256;
|   setp.ge.u32    $(skip), $(row), $(shape.n);
| @$(skip) bra     $(none);
    for k = 0, shape.share - 1 do
|   mad.lo.u32     $(at), $(row), 4, $(peer[k]);
|   ld.shared::cluster.f32 $(m[k]), [$(at)+$(shape.END)];
|   ld.shared::cluster.f32 $(l[k]), [$(at)+$(shape.END + 256)];
    end
|   mov.f32        $(top), $(m[0]);
    for k = 1, shape.share - 1 do
|   max.f32        $(top), $(top), $(m[k]);
    end
|   mov.f32        $(sum), 0f00000000;
    for k = 0, shape.share - 1 do
      row_max.factor(factor[k], m[k], top)
|   fma.rn.f32     $(sum), $(factor[k]), $(l[k]), $(sum);
    end
|   setp.neu.f32   $(seen), $(sum), 0f00000000;
|   rcp.rn.f32     $(m[0]), $(sum);
|   ld.param.f32   $(l[0]), [$(param.output_scale)];
|   mul.rn.f32     $(m[0]), $(m[0]), $(l[0]);
|   selp.f32       $(m[0]), $(m[0]), 0f00000000, $(seen);
|   mad.lo.u32     $(at), $(row), 4, $(a.memory);
    for k = 0, shape.share - 1 do
|   mul.rn.f32     $(factor[k]), $(factor[k]), $(m[0]);
|   st.shared.f32  [$(at)+$(shape.P + 256 * k)], $(factor[k]);
    end
|   lg2.approx.f32 $(lse), $(sum);
|   add.rn.f32     $(lse), $(lse), $(top);
|   sub.rn.f32     $(lse), $(lse), $(f32(8));
|   selp.f32       $(lse), $(lse), 0fff800000, $(seen);
|   add.u32        $(all), $(row), $(a.row0);
|   setp.ge.u32    $(skip), $(all), $(shape.rows);
|   setp.ne.or.u32 $(skip), $(a.member), 0, $(skip);
| @$(skip) bra     $(none);
    scope(function()
      local to, partial, partial_row = b64 "to", b64 "partial", b64 "partial_row"
|   mad.lo.u32     $(row), $(a.request), $(shape.rows), $(all);
|   ld.param.u64   $(to), [$(param.rows_lse)];
|   mad.wide.u32   $(to), $(row), 4, $(to);
      if whole then
        local split = label "lse_of_split"
        attend_out.workspace_row(a, partial_row, partial, all, a.cluster)
| @!$(whole) bra   $(split);
|   st.global.f32  [$(to)], $(lse);
|   mov.b32        $(lse), $(hopper_join.WHOLE);
| $(split):
|   st.global.f32  [$(partial)], $(lse);
      else
|   st.global.f32  [$(to)], $(lse);
      end
    end)
  end)
| $(none):
end

local BATCH = max(1, 4 // shape.share)                  -- items a thread has in flight: more cost registers that spill

-- place := item `index`: block `block` of 64 latents, group i of 8 rows.
local function item(a, index, block, i, place)
  scope(function()
    local thread = b32 "thread_"
|   div.u32        $(block), $(index), $(GROUPS);
|   mul.lo.u32     $(i), $(block), $(GROUPS);
|   sub.u32        $(i), $(index), $(i);
|   mad.lo.u32     $(block), $(a.member), $(8 // shape.share), $(block);
|   mad.lo.u32     $(place), $(block), $(GROUPS), $(i);
|   and.b32        $(thread), $(a.thread), 127;
|   mad.lo.u32     $(place), $(place), 128, $(thread);
|   shl.b32        $(place), $(place), 4;
  end)
end

-- sum[0..3]: latents and rows as acc has them -> two BF16 pairs, or FP32 pairs where `whole` is false.
local function put(a, sum, block, i, whole)
  scope(function()
    local row, all, to, live, pair, offset, wide = b32 "row", b32 "all", b64 "to", pred "live", b32 "pair", b32 "offset", b64 "wide"
|   mul.lo.u32     $(row), $(i), 8;
|   mad.lo.u32     $(row), $(a.quarter), 2, $(row);
|   mul.lo.u32     $(offset), $(block), 64;
|   mad.lo.u32     $(offset), $(a.w), 16, $(offset);
|   mad.lo.u32     $(offset), $(a.group), 2, $(offset);
    for e = 0, 1 do
      local partial, done = label "partial_row", label "row_left"
|   add.u32        $(all), $(row), $(a.row0);
|   add.u32        $(all), $(all), $(e);
|   setp.lt.u32    $(live), $(all), $(shape.rows);
      if whole then
| @!$(whole) bra   $(partial);
      end
      scope(function()
        local at_row = b32 "at_row"
|   mad.lo.u32     $(at_row), $(a.request), $(shape.rows), $(all);
|   ld.param.u64   $(to), [$(param.rows)];
|   mad.wide.u32   $(to), $(at_row), 1024, $(to);
      end)
|   mul.wide.u32   $(wide), $(offset), 2;
|   add.u64        $(to), $(to), $(wide);
|   cvt.rn.bf16x2.f32 $(pair), $(sum[2 + e]), $(sum[e]);
| @$(live) st.global.b32 [$(to)], $(pair);
      if whole then
|   bra            $(done);
| $(partial):
        scope(function()
          local lse_at = b64 "lse_at"
          attend_out.workspace_row(a, to, lse_at, all, a.cluster)
        end)
|   mul.wide.u32   $(wide), $(offset), 4;
|   add.u64        $(to), $(to), $(wide);
| @$(live) st.global.v2.f32 [$(to)], {$(sum[e]), $(sum[2 + e])};
| $(done):
      end
    end
  end)
end

-- Items first .. of this thread, `count` of them: all loads, then all sums.
local function batch(a, peer, first, count, whole)
  scope(function()
    local x, sum, at, live = f32("x", 4 * shape.share * count), f32("sum_", 4), b32 "at", pred("live_", count)
    local block, i, place, index = b32("block_", count), b32("i", count), b32 "place", b32 "index_"
    for n = 0, count - 1 do
|   add.u32        $(index), $(a.item), $(2 * (first + n));
|   setp.lt.u32    $(live[n]), $(index), $(ITEMS);
|   min.u32        $(index), $(index), $(ITEMS - 1);
      item(a, index, block[n], i[n], place)
      for k = 0, shape.share - 1 do
        local d = 4 * (n * shape.share + k)
|   add.u32        $(at), $(place), $(peer[k]);
|   ld.shared::cluster.v4.f32 {$(x[d]), $(x[d + 1]), $(x[d + 2]), $(x[d + 3])}, [$(at)];
      end
    end
    for n = 0, count - 1 do
      local skip = label "no_item"
      scope(function()
        local weight = f32("weight", 2)
|   shl.b32        $(at), $(i[n]), 5;
|   mad.lo.u32     $(at), $(a.quarter), 8, $(at);
|   add.u32        $(at), $(at), $(a.memory);
        for k = 0, shape.share - 1 do
|   ld.shared.v2.f32 {$(weight[0]), $(weight[1])}, [$(at)+$(shape.P + 256 * k)];
          for e = 0, 3 do
            local d = 4 * (n * shape.share + k) + e
            if k == 0 then
|   mul.rn.f32     $(sum[e]), $(x[d]), $(weight[e % 2]);
            else
|   fma.rn.f32     $(sum[e]), $(x[d]), $(weight[e % 2]), $(sum[e]);
            end
          end
        end
      end)
| @!$(live[n]) bra $(skip);
      put(a, sum, block[n], i[n], whole)
| $(skip):
    end
  end)
end

-- The PV warpgroups, after the cluster's barrier. whole: predicate, this cluster is the request's only one; nil: it always is.
function hopper_join.add(a, whole)
  section "the cluster's sums"
  scope(function()
    local peer = b32("peer_", shape.share)
    a.item = b32("item", "first of this thread")
    find_peers(a, peer)
    weigh(a, peer, whole)
|   bar.sync       2, 256;
|   shr.u32        $(a.item), $(a.thread), 7;
|   sub.u32        $(a.item), $(a.item), 2;
    local each = ceil_div(ITEMS, 2)
    for first = 0, each - 1, BATCH do
      batch(a, peer, first, min(BATCH, each - first), whole)
    end
  end)
end

return hopper_join
