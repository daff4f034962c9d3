-- delay: does nothing for a while, a different one at each launch: what a rank's launches wait for when it is late.
--   delays: u32[1024] ns; count: one word, launches so far. Launch k takes delays[k mod 1024] ns of %globaltimer; one thread.
local pdl = include "lib/pdl"

need { ptx = "7.8", target = "sm_90" }
kernel { grid = { 1 }, block = { 1 }, params = { { "delays", "u64" }, { "count", "u64" } } }

local at, launches, launch, wait32 = b64 "at", b64 "launches", b32 "launch", b32 "wait32"
local begin, now, wait, awake, again = b64 "begin", b64 "now", b64("wait", "ns"), pred "awake", label "asleep"
pdl.wait()
|   ld.param.u64   $(launches), [$(param.count)];
|   ld.param.u64   $(at), [$(param.delays)];
|   ld.global.u32  $(launch), [$(launches)];
|   and.b32        $(wait32), $(launch), 1023;
|   mad.wide.u32   $(at), $(wait32), 4, $(at);
|   ld.global.u32  $(wait32), [$(at)];
|   cvt.u64.u32    $(wait), $(wait32);
|   add.u32        $(launch), $(launch), 1;
|   st.global.u32  [$(launches)], $(launch);
|   mov.u64        $(begin), %globaltimer;
| $(again):
|   mov.u64        $(now), %globaltimer;
|   sub.u64        $(now), $(now), $(begin);
|   setp.lt.u64    $(awake), $(now), $(wait);
| @$(awake) bra    $(again);
|   ret;
