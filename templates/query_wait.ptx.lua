-- query_wait: hold the stream until every rank's query rows have landed; its end is the signal.
--   own query mailbox [2, cap, qh, 576] at the parity of the use; nothing is written but, on failure, the record.
--   grid: at most 32 CTAs of 256 threads over the B*D*H*36 chunks of 16 bytes; thread i polls chunks i, i + T, i + 2T, ...
-- Schedule: wait -> let the dependents in -> (checked: D threads compare the ledger) -> groups of 8 loads in flight, spun on
--   until no word is the sentinel -> F2.
local pdl = include "lib/pdl"
local box = include "lib/box"
local mailbox = include "lib/mailbox"
local lamport = include "lib/lamport"

need { ptx = "7.8", target = "sm_90" }
local THREADS, FLIGHT = 256, 8
local chunks = mailbox.q_chunks
local ctas = min(32, ceil_div(chunks, THREADS * FLIGHT))
local stride = ctas * THREADS
local steps = ceil_div(chunks, stride)

local params = { "q_box", "ledger" }
for _, name in ipairs(box.params) do params[#params + 1] = name end
kernel { grid = { ctas }, block = { THREADS }, params = params }

local first = b32("first", "this thread's chunk of the current round")
local tid, more = b32 "thread", pred "more"
local base, ledger = b64("base", "own query mailbox at this parity"), b64 "ledger"
local b = box.open("query_wait", false)
local watch = lamport.watch(b)

|   ld.param.u64   $(base), [$(param.q_box)];
|   ld.param.u64   $(ledger), [$(param.ledger)];
|   mov.u32        $(tid), %tid.x;
|   mov.u32        $(first), %ctaid.x;
|   mad.lo.u32     $(first), $(first), $(THREADS), $(tid);
pdl.wait()
pdl.launch_dependents()
box.load(b)
box.read(b)
mailbox.q_parity(base, base, b.parity)

local done = label "done"
| @$(b.dead) bra   $(done);
if spec.parity == "arg" and spec.watchdog == 1 then
  section "parity=arg against the counter"
  local agrees = label "parity_agrees"
  scope(function()
    local low, bad = b32 "low", pred "bad"
|   setp.ne.u32    $(bad), $(first), 0;
| @$(bad) bra      $(agrees);
|   mov.pred       $(bad), 0;
    box.parity_differs(b, low, bad)
| @!$(bad) bra     $(agrees);
    box.abort(b, { mailbox = "use", row = b.word[0], other = b.word[1], word = b.parity })
  end)
| $(agrees):
end
if spec.checked == 1 then
  section "ledger: thread d compares what rank d runs"
  local agreed = label "ledger_read"
|   setp.ge.u32    $(more), $(first), $(spec.dcp);
| @$(more) bra     $(agreed);
  lamport.agree(watch, ledger, first)
| $(agreed):
end

-- A round of `count` chunks. The tail polls the last chunk again.
local function round(count)
  scope(function()
    local at, chunk, group = b64("at", count), b32("chunk", count), {}
    for k = 0, count - 1 do
|   add.u32        $(chunk[k]), $(first), $(k * stride);
|   min.u32        $(chunk[k]), $(chunk[k]), $(chunks - 1);
      mailbox.q_chunk(at[k], base, chunk[k])
      local member = { words = b32("words" .. k .. "_", 4), address = at[k] }
      function member.place(w)                          -- row b, head of D*H, word of the 144
|   div.u32        $(w.row), $(chunk[k]), $(mailbox.token_chunks);
|   rem.u32        $(w.word), $(chunk[k]), $(mailbox.token_chunks);
|   div.u32        $(w.other), $(w.word), $(mailbox.HEAD_CHUNKS);
|   rem.u32        $(w.word), $(w.word), $(mailbox.HEAD_CHUNKS);
|   shl.b32        $(w.word), $(w.word), 2;
      end
      group[k + 1] = member
    end
    for _, member in ipairs(group) do lamport.load(member) end
    lamport.until_published(watch, group, "q")
  end)
end

section "poll"
if steps <= 2 * FLIGHT then
  for base_step = 0, steps - 1, FLIGHT do
    round(min(FLIGHT, steps - base_step))
|   add.u32        $(first), $(first), $(FLIGHT * stride);
  end
else
  local again = label "round"
| $(again):
  round(FLIGHT)
|   add.u32        $(first), $(first), $(FLIGHT * stride);
|   setp.lt.u32    $(more), $(first), $(chunks);
| @$(b.dead) bra   $(done);
| @$(more) bra     $(again);
end
|   fence.acq_rel.sys;                                  // F2: the polls before all that follows this grid
| $(done):
|   ret;
