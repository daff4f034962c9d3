-- copy_rows: stands where the decode stands, for tests and demonstrations: it reads the query mailbox in place, as the decode
-- would, and writes given partial rows and LSE, as the decode would.
--   source [B, D*H, 512] BF16 -> rows; source_lse [B, D*H] F32 -> rows_lse
--   query mailbox [2, cap, qh, 576] at the parity of control.current -> seen [B, D*H, 576] (dcp > 1); of a dead box nothing
-- Schedule: wait -> let the dependents in -> copies, one 16-byte chunk a thread at a time.
-- Its addresses are worked out here, not by the library: a wrong one there shows.
local pdl = include "lib/pdl"

need { ptx = "7.8", target = "sm_90" }
local THREADS = 256
local heads = spec.dcp * spec.heads
local row_chunks, head_chunks = 64, 36
local ctas = min(16, ceil_div(spec.batch * heads * row_chunks, THREADS))

local params = { { "source", "u64" }, { "source_lse", "u64" }, "rows", "rows_lse" }
if spec.dcp > 1 then
  for _, name in ipairs { "control", "q_box", { "seen", "u64" } } do params[#params + 1] = name end
end
kernel { grid = { ctas }, block = { THREADS }, params = params }

local me, index, more = b32("me", "this thread's number in the grid"), b32 "index", pred "more"
local from, to, a, b = b64 "from", b64 "to", b64 "a", b64 "b"
local words = b32("words", 4)

|   mov.u32        $(me), %ctaid.x;
|   mov.u32        $(index), %tid.x;
|   mad.lo.u32     $(me), $(me), $(THREADS), $(index);
pdl.wait()
pdl.launch_dependents()

-- body(): copies element `index`; index = me, me + T, ... below total.
local function strided(total, body)
  local again, done = label "again", label "done"
|   mov.u32        $(index), $(me);
| $(again):
|   setp.ge.u32    $(more), $(index), $(total);
| @$(more) bra     $(done);
  body()
|   add.u32        $(index), $(index), $(ctas * THREADS);
|   bra            $(again);
| $(done):
end

section "rows"
|   ld.param.u64   $(from), [$(param.source)];
|   ld.param.u64   $(to), [$(param.rows)];
strided(spec.batch * heads * row_chunks, function()
|   mad.wide.u32   $(a), $(index), 16, $(from);
|   mad.wide.u32   $(b), $(index), 16, $(to);
|   ld.global.v4.u32 {$(words[0]), $(words[1]), $(words[2]), $(words[3])}, [$(a)];
|   st.global.v4.u32 [$(b)], {$(words[0]), $(words[1]), $(words[2]), $(words[3])};
end)

section "LSE"
|   ld.param.u64   $(from), [$(param.source_lse)];
|   ld.param.u64   $(to), [$(param.rows_lse)];
strided(spec.batch * heads, function()
|   mad.wide.u32   $(a), $(index), 4, $(from);
|   mad.wide.u32   $(b), $(index), 4, $(to);
|   ld.global.u32  $(words[0]), [$(a)];
|   st.global.u32  [$(b)], $(words[0]);
end)

if spec.dcp > 1 then
  section "what lies in the query mailbox, unless the box is dead"
  local dead = label "dead"
|   ld.param.u64   $(a), [$(param.control)];
|   ld.relaxed.sys.global.u32 $(words[0]), [$(a)+8];  // abort
|   setp.ne.u32    $(more), $(words[0]), 0;
| @$(more) bra     $(dead);
|   ld.global.u32  $(words[0]), [$(a)+4];             // current
|   and.b32        $(words[0]), $(words[0]), 1;
|   ld.param.u64   $(from), [$(param.q_box)];
|   mul.wide.u32   $(b), $(words[0]), $(spec.cap * spec.qh * 576);
|   add.u64        $(from), $(from), $(b);
|   ld.param.u64   $(to), [$(param.seen)];
  strided(spec.batch * heads * head_chunks, function()
    scope(function()
      local row, within = b32 "row", b32("within", "the row's D*H*36 chunks")
|   div.u32        $(row), $(index), $(heads * head_chunks);
|   rem.u32        $(within), $(index), $(heads * head_chunks);
|   mul.wide.u32   $(a), $(row), $(spec.qh * 576);
|   add.u64        $(a), $(a), $(from);
|   mad.wide.u32   $(a), $(within), 16, $(a);
|   mad.wide.u32   $(b), $(index), 16, $(to);
|   ld.global.v4.u32 {$(words[0]), $(words[1]), $(words[2]), $(words[3])}, [$(a)];
|   st.global.v4.u32 [$(b)], {$(words[0]), $(words[1]), $(words[2]), $(words[3])};
    end)
  end)
| $(dead):
end
|   ret;
