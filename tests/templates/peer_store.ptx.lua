-- peer_store: stores bytes to dcp peers at once, 16 bytes a store, as the mailboxes are written: how much a rank can send.
--   targets: u64[dcp], where this rank's bytes go at each of them, a multiple of 16 bytes each; tag: what the stores hold beside the
--   number of their chunk: {chunk, tag, ~chunk, ~tag}. sms CTAs of 512 threads.
local pdl = include "lib/pdl"

need { ptx = "7.8", target = "sm_90" }
local THREADS = 512
kernel { grid = { spec.sms }, block = { THREADS }, params = { { "targets", "u64" }, { "bytes", "u64" }, { "tag", "u32" } } }

local base = b64("base", spec.dcp, "of each destination, then of this thread's chunk there")
local at, bytes, place = b64 "at", b64 "bytes", b64("place", "of the chunk")
local tid, chunk, tag, nchunk, ntag, more = b32 "thread", b32 "chunk", b32 "tag", b32 "nchunk", b32 "ntag", pred "more"
local again, done = label "again", label "done"
pdl.wait()
pdl.launch_dependents()
|   ld.param.u64   $(at), [$(param.targets)];
|   ld.param.u64   $(bytes), [$(param.bytes)];
|   ld.param.u32   $(tag), [$(param.tag)];
for p = 0, spec.dcp - 1 do
|   ld.global.u64  $(base[p]), [$(at)+$(8 * p)];
end
|   not.b32        $(ntag), $(tag);
|   mov.u32        $(tid), %tid.x;
|   mov.u32        $(chunk), %ctaid.x;
|   mad.lo.u32     $(chunk), $(chunk), $(THREADS), $(tid);
|   mul.wide.u32   $(place), $(chunk), 16;
for p = 0, spec.dcp - 1 do
|   add.u64        $(base[p]), $(base[p]), $(place);
end
| $(again):
|   setp.ge.u64    $(more), $(place), $(bytes);
| @$(more) bra     $(done);
|   not.b32        $(nchunk), $(chunk);
for p = 0, spec.dcp - 1 do
|   st.relaxed.sys.global.v4.u32 [$(base[p])], {$(chunk), $(tag), $(nchunk), $(ntag)};
|   add.u64        $(base[p]), $(base[p]), $(spec.sms * THREADS * 16);
end
|   add.u32        $(chunk), $(chunk), $(spec.sms * THREADS);
|   add.u64        $(place), $(place), $(spec.sms * THREADS * 16);
|   bra            $(again);
| $(done):
|   ret;
