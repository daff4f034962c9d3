-- bench_node: a kernel that depends on the one before it and does nothing else: an anchor of the machine. sms CTAs of 512 threads; thread 0
-- of each reads from[cta] and writes it to to[cta].
local pdl = include "lib/pdl"

need { ptx = "7.8", target = "sm_90" }
kernel { grid = { spec.sms }, block = { 512 }, params = { { "from", "u64" }, { "to", "u64" } } }

local at, me, thread, other, word, alone = b64 "at", b32 "me", b32 "thread", pred "other", b32 "word", label "alone"
|   mov.u32        $(me), %ctaid.x;
|   mov.u32        $(thread), %tid.x;
|   setp.ne.u32    $(other), $(thread), 0;
pdl.wait()
pdl.launch_dependents()
| @$(other) bra    $(alone);
|   ld.param.u64   $(at), [$(param.from)];
|   mad.wide.u32   $(at), $(me), 4, $(at);
|   ld.global.u32  $(word), [$(at)];
|   add.u32        $(word), $(word), 1;
|   ld.param.u64   $(at), [$(param.to)];
|   mad.wide.u32   $(at), $(me), 4, $(at);
|   st.global.u32  [$(at)], $(word);
| $(alone):
|   ret;
