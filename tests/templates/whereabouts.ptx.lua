-- whereabouts: which multiprocessor each CTA of a grid runs on, for tests of what a kernel may have. Each of 8 * batch CTAs stays for two
-- microseconds, so that the ones behind it go elsewhere, and writes to[cta] = %smid.
local pdl = include "lib/pdl"

need { ptx = "7.8", target = "sm_90" }
kernel { grid = { 8 * spec.batch }, block = { 128 }, params = { { "to", "u64" } } }

local at, me, thread, other, where, done = b64 "at", b32 "me", b32 "thread", pred "other", b32 "where", label "done"
|   mov.u32        $(me), %ctaid.x;
|   mov.u32        $(thread), %tid.x;
|   setp.ne.u32    $(other), $(thread), 0;
pdl.wait()
pdl.launch_dependents()
|   nanosleep.u32  2000;
| @$(other) bra    $(done);
|   ld.param.u64   $(at), [$(param.to)];
|   mad.wide.u32   $(at), $(me), 4, $(at);
|   mov.u32        $(where), %smid;
|   st.global.u32  [$(at)], $(where);
| $(done):
|   ret;
