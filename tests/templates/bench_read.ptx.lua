-- bench_read: reads memory as fast as plain loads can: an anchor of the machine.
--   from: bytes, a multiple of 16, read once by sms CTAs of 512 threads (8 loads of 16 bytes in flight); sink: one word, written only if
--   the xor of all words is one value in 2^32, so that nothing is optimised away.
local pdl = include "lib/pdl"

need { ptx = "7.8", target = "sm_90" }
local THREADS, DEEP = 512, 8
kernel { grid = { spec.sms }, block = { THREADS }, params = { { "from", "u64" }, { "bytes", "u64" }, { "sink", "u64" } } }

local at, last, step, far = b64 "at", b64("last", "end of the bytes"), b64 "step", b64 "far"
local me, index, sum, more = b32 "me", b32 "index", b32 "sum", pred "more"
local words = b32("words", 4 * DEEP)
local again, tail, done, alone = label "again", label "tail", label "done", label "alone"
|   mov.u32        $(me), %ctaid.x;
|   mov.u32        $(index), %tid.x;
|   mad.lo.u32     $(index), $(me), $(THREADS), $(index);
pdl.wait()
pdl.launch_dependents()
|   ld.param.u64   $(at), [$(param.from)];
|   ld.param.u64   $(last), [$(param.bytes)];
|   add.u64        $(last), $(last), $(at);
|   mad.wide.u32   $(at), $(index), 16, $(at);
|   mov.u64        $(step), $(spec.sms * THREADS * 16);
|   mov.b32        $(sum), 0;
| $(again):
|   add.u64        $(far), $(at), $(spec.sms * THREADS * 16 * (DEEP - 1));
|   setp.ge.u64    $(more), $(far), $(last);
| @$(more) bra     $(tail);
for i = 0, DEEP - 1 do
|   ld.global.nc.v4.u32 {$(words[4 * i]), $(words[4 * i + 1]), $(words[4 * i + 2]), $(words[4 * i + 3])}, [$(at)+$(spec.sms * THREADS * 16 * i)];
end
for i = 0, 4 * DEEP - 1 do
|   xor.b32        $(sum), $(sum), $(words[i]);
end
|   add.u64        $(at), $(far), $(step);
|   bra            $(again);
| $(tail):
|   setp.ge.u64    $(more), $(at), $(last);
| @$(more) bra     $(done);
|   ld.global.nc.v4.u32 {$(words[0]), $(words[1]), $(words[2]), $(words[3])}, [$(at)];
|   xor.b32        $(sum), $(sum), $(words[0]);
|   add.u64        $(at), $(at), $(step);
|   bra            $(tail);
| $(done):
|   setp.ne.u32    $(more), $(sum), 305419896;
| @$(more) bra     $(alone);
|   ld.param.u64   $(at), [$(param.sink)];
|   st.global.u32  [$(at)], $(sum);
| $(alone):
|   ret;
