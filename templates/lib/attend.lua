-- attend: mla_decode's portable form from bounds to row sums: indices, bounds, and the narrow structure's walk over the key tiles (the wide
-- one's: lib/attend_wide). Its steps are in attend_load, attend_score and attend_value, its sizes in attend_shape; every function is emitted
-- once a kernel.
local shape = include "lib/attend_shape"
local attend_load = include "lib/attend_load"
local attend_score = include "lib/attend_score"
local attend_value = include "lib/attend_value"
local shard = include "lib/shard"
local attend = {}
local D = spec.dcp
local DH = D * spec.heads

-- Indices and shared memory of both structures.
function attend.indices(rows, splits)
  local a = { rows = rows, splits = splits }
  a.thread, a.lane, a.warp = b32 "thread", b32 "lane", b32 "warp"
  a.group, a.quarter = b32 "group", b32 "quarter"
  a.row0, a.request = b32("row0", "first of the CTA's rows"), b32 "request"
  a.memory, a.stage = b32 "memory", b32("stage", "key rows of this tile")
  a.most = b32("most", "largest bound of the CTA's rows")
  a.least = spec.q > 1 and b32("least", "smallest")
  a.first, a.last = b32("tile", "key tile"), b32("tile_end", "past the split's last tile")
|   mov.u32        $(a.thread), %tid.x;
|   and.b32        $(a.lane), $(a.thread), 31;
|   shr.u32        $(a.warp), $(a.thread), 5;
|   shr.u32        $(a.group), $(a.lane), 2;
|   and.b32        $(a.quarter), $(a.lane), 3;
|   mov.u32        $(a.row0), %ctaid.x;
|   mul.lo.u32     $(a.row0), $(a.row0), $(shape.rows);
|   mov.u32        $(a.request), %ctaid.z;
|   mov.u32        $(a.memory), dynamic_shared;
|   mov.u32        $(a.stage), $(a.memory);
  return a
end

-- The narrow structure: indices and accumulators.
function attend.open(rows, splits)
  local a = attend.indices(rows, splits)
  a.block = b32("block", "rows 16 block .. + 15: this warp scores them")
  a.bound = b32("bound", 2, "visible local keys of rows group and group + 8 of its block")
  a.share, a.loader = b32("share", "its part of the tile's keys"), a.warp
  a.second = shape.blocks == 2 and pred("second", "block 1")
  a.other = b32("other", "key rows of the next tile")
  a.acc = f32("acc", 32 * shape.blocks, "O: 64 latents, rows group and group + 8 of each block")
  a.top = f32("top", 2 * shape.blocks, "m' of those rows")
  a.total = f32("total", 2 * shape.blocks, "l of those rows")
  a.sum = f32("sum", 2, "this thread's part of l, rows group and group + 8 of its block")
|   and.b32        $(a.block), $(a.warp), $(shape.blocks - 1);
|   shr.u32        $(a.share), $(a.warp), $(shape.blocks - 1);
  if a.second then
|   setp.ne.u32    $(a.second), $(a.block), 0;
  end
|   add.u32        $(a.other), $(a.memory), $(shape.STAGE);
  attend_load.open(a)
  attend_score.open(a)
  attend_value.open(a)
  return a
end

-- bound[0..1] (wide: bounds of all rows, in shared memory), most, least, the split's tiles. meanwhile: emitted while the lengths are under way.
function attend.bounds(a, b, meanwhile)
  section "bounds"
  scope(function()
    local at, total, length = b64 "at", b32 "total_", b32 "length"
    local row, j, live = b32 "row", b32 "j", pred "live"
|   ld.param.u64   $(at), [$(param.totals)];
|   mad.wide.u32   $(at), $(a.request), 4, $(at);
|   ld.global.s32  $(total), [$(at)];
|   ld.param.u64   $(at), [$(param.lens)];
|   mad.wide.u32   $(at), $(a.request), 4, $(at);
|   ld.global.s32  $(length), [$(at)];
    meanwhile()
|   max.s32        $(length), $(length), 0;
    local function bound_of(dst, m)
      scope(function()
        local n = b32 "n"
|   div.u32        $(j), $(m), $(DH);
|   add.s32        $(n), $(total), $(j);
|   add.s32        $(n), $(n), $(1 - spec.q);
        shard.local_keys(dst, n, b and b.rank)
|   min.s32        $(dst), $(dst), $(length);
|   setp.lt.u32    $(live), $(m), $(a.rows);
|   selp.b32       $(dst), $(dst), 0, $(live);
      end)
    end
    if shape.wide then                                  -- thread t: of row t
      local bound, place, exists = b32 "bound", b32 "place", pred "exists"
|   add.u32        $(row), $(a.row0), $(a.thread);
      bound_of(bound, row)
|   mad.lo.u32     $(place), $(a.thread), 4, $(a.memory);
|   setp.lt.u32    $(exists), $(a.thread), $(shape.rows);
| @$(exists) st.shared.s32 [$(place)+$(shape.BOUNDS)], $(bound);
    else
      for r = 0, 1 do
|   mad.lo.u32     $(row), $(a.block), 16, $(a.row0);
|   add.u32        $(row), $(row), $(a.group);
|   add.u32        $(row), $(row), $(8 * r);
        bound_of(a.bound[r], row)
      end
    end
|   add.u32        $(row), $(a.row0), $(shape.rows - 1);
|   min.u32        $(row), $(row), $(a.rows - 1);
    bound_of(a.most, row)                              -- bounds grow with j, so the last row's is the largest
    if a.least then bound_of(a.least, a.row0) end
    local all, each, split = b32 "all", b32 "each", b32 "split"
|   add.u32        $(all), $(length), $(shape.TILE - 1);
|   shr.u32        $(all), $(all), 6;
|   add.u32        $(each), $(all), $(a.splits - 1);
|   div.u32        $(each), $(each), $(a.splits);
|   mov.u32        $(split), %ctaid.y;
|   mul.lo.u32     $(a.first), $(split), $(each);
|   add.u32        $(a.last), $(a.first), $(each);
|   add.u32        $(all), $(a.most), $(shape.TILE - 1);
|   shr.u32        $(all), $(all), 6;
|   min.u32        $(a.last), $(a.last), $(all);
  end)
end

-- One tile's barriers: the tile is there and the stage of the one before is free; its keys are scored; P is there.
local function tile(a)
  scope(function()
    local more, z, factor, next, alone = pred "more", f32("z", shape.keys // 2), f32("factor", 2 * shape.blocks), b32 "next", label "last_tile"
|   cp.async.wait_group 0;
|   bar.sync       0;
|   add.u32        $(next), $(a.first), 1;
|   setp.lt.u32    $(more), $(next), $(a.last);
| @!$(more) bra    $(alone);
    attend_load.keys(a, next, a.other)
|   cp.async.commit_group;
    scope(function()
      local after = b32 "after"
|   add.u32        $(after), $(next), 1;
      attend_load.page(a, after)
    end)
| $(alone):
    attend_score.scores(a, z)
    attend_score.maxima(a, z, factor)
    attend_score.weights(a, z, factor)
    attend_value.clean(a)
|   bar.sync       0;
    attend_value.products(a, factor)
    scope(function()
      local stage = b32 "stage_"
|   mov.u32        $(stage), $(a.stage);
|   mov.u32        $(a.stage), $(a.other);
|   mov.u32        $(a.other), $(stage);
    end)
|   mov.u32        $(a.first), $(next);
  end)
end

function attend.tiles(a, b)
  section "key tiles"
  local again, done, more = label "key_tile", label "keys_done", pred "more_tiles"
  for i = 0, 32 * shape.blocks - 1 do
|   mov.f32        $(a.acc[i]), 0f00000000;
  end
  for i = 0, 2 * shape.blocks - 1 do
|   mov.f32        $(a.top[i]), $(attend_score.NEVER);
  end
  for r = 0, 1 do
|   mov.f32        $(a.sum[r]), 0f00000000;
  end
|   setp.ge.u32    $(more), $(a.first), $(a.last);
| @$(more) bra     $(done);
  attend_load.page(a, a.first)
  attend_load.query(a, b)
  attend_load.keys(a, a.first, a.stage)
|   cp.async.commit_group;
  scope(function()
    local after = b32 "after"
|   add.u32        $(after), $(a.first), 1;
    attend_load.page(a, after)
  end)
| $(again):
  tile(a)
|   setp.lt.u32    $(more), $(a.first), $(a.last);
| @$(more) bra     $(again);
| $(done):
  attend_score.totals(a)
end

return attend
