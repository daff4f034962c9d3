-- query_wait: hold the stream until every rank's query rows have landed; its end is the signal.
--   own query mailbox [2, cap, qh, 576] at the parity of the use; nothing is written but, on failure, the record.
--   grid: at most 32 CTAs of 256 threads over the B*D*H*36 chunks of 16 bytes; thread i polls chunks i, i + T, i + 2T, ...
-- Schedule: wait -> let the dependents in -> (checked: D threads compare the ledger) -> groups of 8 loads in flight, spun on
--   until no word is the sentinel -> F2.
local pdl = include "lib/pdl"
local box = include "lib/box"
local mailbox = include "lib/mailbox"
local query_poll = include "lib/query_poll"

need { ptx = "7.8", target = "sm_90" }
local THREADS = 256
local ctas = min(32, ceil_div(mailbox.q_chunks, THREADS * query_poll.FLIGHT))

local params = {}
for _, list in ipairs { query_poll.params, box.params } do
  for _, name in ipairs(list) do params[#params + 1] = name end
end
kernel { grid = { ctas }, block = { THREADS }, params = params }

local first, thread = b32("first", "this thread's chunk of the current round"), b32 "thread"
local b = box.open("query_wait", false)
local watch = query_poll.watch(b)
|   mov.u32        $(thread), %tid.x;
|   mov.u32        $(first), %ctaid.x;
|   mad.lo.u32     $(first), $(first), $(THREADS), $(thread);
pdl.wait()
pdl.launch_dependents()
box.load(b)
box.read(b)

-- One thread holds parity=arg against the counter.
local function check_parity()
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

query_poll.all(watch, first, ctas * THREADS, spec.parity == "arg" and spec.watchdog == 1 and check_parity or nil)
|   ret;
