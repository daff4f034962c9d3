-- hopper_score: the softmax warpgroup of mla_decode's form for sm_90a, tile after tile. What of a tile is whose depends on the number of
-- rows: up to 16 the keys are the rows of the product (lib/hopper_few), above the query rows are (lib/hopper_many).
local shape = include "lib/hopper_shape"
local mbarrier = include "lib/mbarrier"
local hopper_query = include "lib/hopper_query"
local form = shape.few and include "lib/hopper_few" or include "lib/hopper_many"
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
    local t, stage, parity, slot, free, idle = b32 "t", b32("ring", "stage"), b32 "parity", b32 "slot", b32("free", "parity of the slot"), pred "idle"
    local again, over = label "score", label "scored"
    local bar, at = b32 "bar", b32 "at"
    form.open(a)
    hopper_query.there(true)
|   ld.param.f32   $(a.scale), [$(param.softmax_scale)];
|   mul.rn.f32     $(a.scale), $(a.scale), $(f32(1.4426950408889634));
|   mov.u32        $(t), $(a.split);
|   mov.u32        $(stage), 0;
|   mov.u32        $(parity), 0;
|   mov.u32        $(slot), 0;
|   mov.u32        $(free), 1;
|   setp.ge.u32    $(idle), $(t), $(a.last);
| @$(idle) bra     $(over);
| $(again):
|   mad.lo.u32     $(bar), $(stage), 8, $(a.memory);
    mbarrier.wait(bar, shape.FULL, parity)
|   mad.lo.u32     $(at), $(stage), $(shape.STAGE), $(a.memory);
    form.tile(a, t, stage, at, slot, free)
    a.next(stage, parity, shape.stages)
    a.next(slot, free, 2)
|   add.u32        $(t), $(t), $(a.live);
|   setp.lt.u32    $(idle), $(t), $(a.last);
| @$(idle) bra     $(again);
| $(over):
    form.ends(a)
    tell_end(a)
  end)
end

return hopper_score
