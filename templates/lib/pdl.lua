-- pdl: programmatic dependent launch. Every kernel waits before it triggers: only so is completion transitive along a
-- chain of kernels. What a kernel reads before the wait must be a weight or a table of set-up time (// const_input).
local pdl = {}

function pdl.wait()
|   griddepcontrol.wait;
end

function pdl.launch_dependents()
|   griddepcontrol.launch_dependents;
end

-- The last kernel of a step: its dependents are not ours, and may have been launched with PDL and never wait. Its end is its
-- trigger, unless the caller promised (CHAIN_WAITS) that every kernel until our next one waits.
function pdl.launch_dependents_if_chained()
  scope(function()
    local flag, chained = b32 "flag", pred "chained"
|   ld.param.u32   $(flag), [$(param.chain_waits)];
|   setp.ne.u32    $(chained), $(flag), 0;
| @$(chained) griddepcontrol.launch_dependents;
  end)
end

return pdl
