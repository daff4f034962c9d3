-- query_copy: for checks: what the decode of this use will find in the query mailbox, in one piece.
--   query mailbox [2, cap, qh, 576] at the parity of control.current -> seen [B, D*H, 576]
-- It stands between the query kernels and mla_decode. Its addresses are worked out here, not by the library: a wrong one there shows.
-- Of a dead box nothing: the query kernels have left without waiting for its rows.
-- Schedule: wait -> let the dependents in -> copies, one 16-byte chunk a thread at a time.
local pdl = include "lib/pdl"

need { ptx = "7.8", target = "sm_90" }
rule(spec.dcp > 1, "query_copy reads a query mailbox, which dcp=1 does not have")
local THREADS = 256
local heads, head_chunks = spec.dcp * spec.heads, 36
local chunks = spec.batch * heads * head_chunks
local ctas = min(16, ceil_div(chunks, THREADS))
kernel { grid = { ctas }, block = { THREADS }, params = { "control", "q_box", { "seen", "u64" } } }

local index, parity, abort, more = b32 "index", b32 "parity", b32 "abort", pred "more"
local from, to, a, b = b64 "from", b64 "to", b64 "a", b64 "b"
local row, within, words = b32 "row", b32("within", "the row's D*H*36 chunks"), b32("words", 4)
local again, done = label "again", label "done"

|   mov.u32        $(row), %ctaid.x;
|   mov.u32        $(index), %tid.x;
|   mad.lo.u32     $(index), $(row), $(THREADS), $(index);
pdl.wait()
pdl.launch_dependents()
|   ld.param.u64   $(a), [$(param.control)];
|   ld.relaxed.sys.global.u32 $(abort), [$(a)+8];
|   setp.ne.u32    $(more), $(abort), 0;
| @$(more) bra     $(done);
|   ld.global.u32  $(parity), [$(a)+4];               // current
|   and.b32        $(parity), $(parity), 1;
|   ld.param.u64   $(from), [$(param.q_box)];
|   mul.wide.u32   $(b), $(parity), $(spec.cap * spec.qh * 576);
|   add.u64        $(from), $(from), $(b);
|   ld.param.u64   $(to), [$(param.seen)];
| $(again):
|   setp.ge.u32    $(more), $(index), $(chunks);
| @$(more) bra     $(done);
|   div.u32        $(row), $(index), $(heads * head_chunks);
|   rem.u32        $(within), $(index), $(heads * head_chunks);
|   mul.wide.u32   $(a), $(row), $(spec.qh * 576);
|   add.u64        $(a), $(a), $(from);
|   mad.wide.u32   $(a), $(within), 16, $(a);
|   mad.wide.u32   $(b), $(index), 16, $(to);
|   ld.global.v4.u32 {$(words[0]), $(words[1]), $(words[2]), $(words[3])}, [$(a)];
|   st.global.v4.u32 [$(b)], {$(words[0]), $(words[1]), $(words[2]), $(words[3])};
|   add.u32        $(index), $(index), $(ctas * THREADS);
|   bra            $(again);
| $(done):
|   ret;
