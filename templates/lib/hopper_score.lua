-- hopper_score: the softmax warpgroup of mla_decode's form for sm_90a, tile after tile. What of a tile is whose depends on the number of
-- rows: up to 16 the keys are the rows of the product (lib/hopper_few), above the query rows are (lib/hopper_many).
return function(shape)
local mbarrier = include "lib/mbarrier"
local hopper_query = include("lib/hopper_query")(shape)
local form = include(shape.few and "lib/hopper_few" or "lib/hopper_many")(shape)
local hopper_score = {}

-- The warp has left its row ends, and needs the query no more.
local function tell_end(a)
  scope(function()
    local lead = pred "lead"
|   bar.warp.sync  0xffffffff;
|   setp.eq.u32    $(lead), $(a.lane), 0;
| @$(lead) mbarrier.arrive.shared::cta.b64 _, [$(a.memory)+$(shape.ENDED)];
  end)
end

-- The softmax warpgroup, tile a.split and every a.live-th before a.last.
function hopper_score.run(a)
  section "softmax warpgroup"
  scope(function()
    a.scale = f32("scale", "softmax scale, base 2")
    local stage, parity, idle, over = b32("ring", "stage"), b32 "parity", pred "idle", label "scored"
    local p = { t = b32("t", "tile of the softmax"), slot = b32 "slot", free = b32("free", "parity of the slot") }
    -- at := where the tile is whose scores come next; it is there
    function p.arrived(at)
|   mad.lo.u32     $(at), $(stage), 8, $(a.memory);
      mbarrier.wait(at, shape.FULL, parity)
|   mad.lo.u32     $(at), $(stage), $(shape.STAGE), $(a.memory);
    end
    -- its scores are done
    function p.scored()
      a.release(stage)
      a.next(stage, parity, shape.stages)
    end
    form.open(a)
    hopper_query.there(true)
|   ld.param.f32   $(a.scale), [$(param.softmax_scale)];
|   mul.rn.f32     $(a.scale), $(a.scale), $(f32(1.4426950408889634));
|   mov.u32        $(p.t), $(a.split);
|   mov.u32        $(stage), 0;
|   mov.u32        $(parity), 0;
|   mov.u32        $(p.slot), 0;
|   mov.u32        $(p.free), 1;
|   setp.ge.u32    $(idle), $(p.t), $(a.last);
| @$(idle) bra     $(over);
    form.run(a, p)
| $(over):
    form.ends(a)
    tell_end(a)
  end)
end

return hopper_score
end
