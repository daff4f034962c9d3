-- pdl, late: as templates/lib/pdl.lua, but after its trigger every thread does nothing for 100 us: what a kernel writes
-- comes long after its dependents may have started, so one that reads before its wait reads what was there before.
local pdl = {}

local function sleep()
  scope(function()
    local begin, now, awake, again = b64 "begin", b64 "now", pred "awake", label "asleep"
|   mov.u64        $(begin), %globaltimer;
| $(again):
|   nanosleep.u32  20000;
|   mov.u64        $(now), %globaltimer;
|   sub.u64        $(now), $(now), $(begin);
|   setp.lt.u64    $(awake), $(now), 100000;
| @$(awake) bra    $(again);
  end)
end

function pdl.wait()
|   griddepcontrol.wait;
end

function pdl.launch_dependents()
|   griddepcontrol.launch_dependents;
  sleep()
end

function pdl.launch_dependents_if_chained()
  scope(function()
    local flag, chained = b32 "flag", pred "chained"
|   ld.param.u32   $(flag), [$(param.chain_waits)];
|   setp.ne.u32    $(chained), $(flag), 0;
| @$(chained) griddepcontrol.launch_dependents;
  end)
  sleep()
end

return pdl
