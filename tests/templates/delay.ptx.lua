-- delay: does nothing for a while, a different one at each launch: what a rank's launches wait for when it is late.
--   delays: u32[1024] ns; count: u64[2], launches so far and the ns that they took. Launch k takes delays[k mod 1024] ns of
--   %globaltimer; one thread.
local pdl = include "lib/pdl"

need { ptx = "7.8", target = "sm_90" }
kernel { grid = { 1 }, block = { 1 }, params = { { "delays", "u64" }, { "count", "u64" } } }

local at, launches, count, took, wait32 = b64 "at", b64 "launches", b64 "launch", b64 "took", b32 "wait32"
local begin, now, wait, awake, again = b64 "begin", b64 "now", b64("wait", "ns"), pred "awake", label "asleep"
pdl.wait()
|   ld.param.u64   $(launches), [$(param.count)];
|   ld.param.u64   $(at), [$(param.delays)];
|   ld.global.u64  $(count), [$(launches)];
|   ld.global.u64  $(took), [$(launches)+8];
|   cvt.u32.u64    $(wait32), $(count);
|   and.b32        $(wait32), $(wait32), 1023;
|   mad.wide.u32   $(at), $(wait32), 4, $(at);
|   ld.global.u32  $(wait32), [$(at)];
|   cvt.u64.u32    $(wait), $(wait32);
|   add.u64        $(count), $(count), 1;
|   st.global.u64  [$(launches)], $(count);
|   mov.u64        $(begin), %globaltimer;
| $(again):
|   mov.u64        $(now), %globaltimer;
|   sub.u64        $(now), $(now), $(begin);
|   setp.lt.u64    $(awake), $(now), $(wait);
| @$(awake) bra    $(again);
|   add.u64        $(took), $(took), $(now);
|   st.global.u64  [$(launches)+8], $(took);
|   ret;
