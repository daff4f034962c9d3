-- hopper: mla_decode's form for sm_90a put together: indices, barriers, bounds, roles.
local shape = include "lib/hopper_shape"
local mbarrier = include "lib/mbarrier"
local hopper = {}

-- Indices and what all roles share; before the wait.
function hopper.open()
  local a = { rows = shape.rows, splits = shape.splits, boxed = spec.dcp > 1 }
  a.thread, a.lane, a.warp = b32 "thread", b32 "lane", b32 "warp"
  a.w, a.group, a.quarter = b32("w", "warp of its warpgroup"), b32 "group", b32 "quarter"
  a.row0, a.split, a.request = b32("row0", "first of the CTA's rows"), b32 "split", b32 "request"
  a.live = b32("live", "splits that work on the request")
  a.memory = b32("memory", "shared memory, a multiple of 1024")
  a.half = shape.pair > 1 and b32("half", "CTA of the pair") or 0
  a.mask = shape.pair > 1 and b16("mask", "both CTAs of the pair")
|   mov.u32        $(a.thread), %tid.x;
|   and.b32        $(a.lane), $(a.thread), 31;
|   shr.u32        $(a.warp), $(a.thread), 5;
|   and.b32        $(a.w), $(a.warp), 3;
|   shr.u32        $(a.group), $(a.lane), 2;
|   and.b32        $(a.quarter), $(a.lane), 3;
|   mov.u32        $(a.row0), %ctaid.x;
|   mul.lo.u32     $(a.row0), $(a.row0), $(shape.n);
|   mov.u32        $(a.memory), dynamic_shared;
|   add.u32        $(a.memory), $(a.memory), 1023;
|   and.b32        $(a.memory), $(a.memory), 0xfffffc00;
  if shape.pair > 1 then
|   mov.u32        $(a.half), %cluster_ctaid.x;
  end
  if shape.pair > 1 then
|   mov.u16        $(a.mask), 3;
  end
  a.latent_map, a.rope_map = b64 "latent_map", b64 "rope_map"
|   mov.b64        $(a.latent_map), $(param.kv_latent_map);
|   cvta.param.u64 $(a.latent_map), $(a.latent_map);
|   mov.b64        $(a.rope_map), $(param.kv_rope_map);
|   cvta.param.u64 $(a.rope_map), $(a.rope_map);
  if shape.pair > 1 then a.peer = b32("peer", "lane 0, 1: the key stages' FREE barriers of that CTA") end

  -- stage, parity := the next of a ring of `count`
  function a.next(stage, parity, count)
    scope(function()
      local turn, flip = pred "turn", b32 "flip"
|   add.u32        $(stage), $(stage), 1;
|   setp.eq.u32    $(turn), $(stage), $(count);
|   selp.b32       $(stage), 0, $(stage), $(turn);
|   selp.b32       $(flip), 1, 0, $(turn);
|   xor.b32        $(parity), $(parity), $(flip);
    end)
  end

  -- The warp has no more use for the key stage.
  function a.release(stage)
    scope(function()
      local at, mine = b32 "at", pred "mine"
|   bar.warp.sync  0xffffffff;
|   setp.lt.u32    $(mine), $(a.lane), $(shape.pair);
      if shape.pair > 1 then
|   mad.lo.u32     $(at), $(stage), 8, $(a.peer);
| @$(mine) mbarrier.arrive.shared::cluster.b64 _, [$(at)];
      else
|   mad.lo.u32     $(at), $(stage), 8, $(a.memory);
| @$(mine) mbarrier.arrive.shared::cta.b64 _, [$(at)+$(shape.FREE)];
      end
    end)
  end
  return a
end

-- Barriers, by one thread of a warp that has nothing else to do; before the wait.
function hopper.barriers(a)
  section "barriers"
  local others = label "others"
  scope(function()
    local first = pred "first"
|   setp.ne.u32    $(first), $(a.thread), 64;
| @$(first) bra    $(others);
    for i = 0, shape.stages - 1 do
      mbarrier.init(a.memory, shape.FULL + 8 * i, 1)
      mbarrier.init(a.memory, shape.FREE + 8 * i, 12 * shape.pair)
    end
    for i = 0, 1 do
      for _, s in ipairs { shape, shape.folded } do
        mbarrier.init(a.memory, s.P_FULL + 8 * i, s.few and 4 or s.warps)
      end
      mbarrier.init(a.memory, shape.P_FREE + 8 * i, 8)
    end
    mbarrier.init(a.memory, shape.ENDED, 4)
    mbarrier.publish()
|   prefetch.tensormap [$(a.latent_map)];   // const_input
|   prefetch.tensormap [$(a.rope_map)];   // const_input
  end)
| $(others):
  if shape.pair > 1 then
    scope(function()
      local rank = b32 "rank_"
|   min.u32        $(rank), $(a.lane), 1;
|   add.u32        $(a.peer), $(a.memory), $(shape.FREE);
|   mapa.shared::cluster.u32 $(a.peer), $(a.peer), $(rank);
    end)
  end
end

-- All threads of a pair know of its barriers, and of the plan.
function hopper.meet()
|   bar.sync       0;
  if shape.pair > 1 then
|   barrier.cluster.arrive.aligned;
|   barrier.cluster.wait.aligned;
  end
end

-- A CTA of a pair may not end while the other may still arrive at its barriers.
function hopper.part()
  if shape.pair > 1 then
|   barrier.cluster.arrive.aligned;
|   barrier.cluster.wait.aligned;
  end
end

return hopper
