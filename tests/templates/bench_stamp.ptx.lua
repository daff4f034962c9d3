-- bench_stamp: writes the time: slots[index] := %globaltimer, ns. Between kernels of a chain without PDL: when one ended and the next
-- may begin.
local pdl = include "lib/pdl"

need { ptx = "7.8", target = "sm_90" }
kernel { grid = { 1 }, block = { 1 }, params = { { "slots", "u64" }, { "index", "u32" } } }

local at, index, now = b64 "at", b32 "index", b64 "now"
pdl.wait()
|   ld.param.u64   $(at), [$(param.slots)];
|   ld.param.u32   $(index), [$(param.index)];
|   mad.wide.u32   $(at), $(index), 8, $(at);
|   mov.u64        $(now), %globaltimer;
|   st.global.u64  [$(at)], $(now);
|   ret;
