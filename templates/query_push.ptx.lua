-- query_push: ready FP8 query rows to every rank's query mailbox; opens the use. For engines that quantise queries
-- themselves: exactly what mla_query does after its own arithmetic.
--   query [B, H, 576] e4m3 (a NaN byte 0xFF is sent as 0x7F); mailboxes [2, cap, qh, 576] of all ranks.
--   grid: (CTAs of 128 threads over the B*H*36 chunks of 16 bytes, destinations); multicast has one destination.
-- Schedule: peer table -> wait -> let the dependents in -> control block and up to 4 chunks in flight -> F1 -> stores.
--   Thread 0 of the grid opens the use; a dead box publishes nothing.
local pdl = include "lib/pdl"
local box = include "lib/box"
local mailbox = include "lib/mailbox"
local publish = include "lib/publish"

need { ptx = "7.8", target = "sm_90" }
local THREADS, FLIGHT = 128, 4
local chunks = spec.batch * spec.heads * mailbox.HEAD_CHUNKS
local room = max(1, 4 * (spec.sms - spec.reserve) // publish.destinations)
local ctas = min(ceil_div(chunks, THREADS), room)
local stride = ctas * THREADS
local steps = ceil_div(chunks, stride)

local params = { "query" }
if publish.multicast then params[2] = "q_multicast" end
for _, name in ipairs(box.params) do params[#params + 1] = name end
kernel { grid = { ctas, publish.destinations }, block = { THREADS }, params = params }

local own = b32("own", "this thread's chunk of [0, B*H*36)")
local to = b32("to", "destination rank")
local rows, base = b64 "rows", b64("base", "query mailbox of the destination, then of the parity there")
local first, more = pred("first", "first CTA of a destination"), pred "more"
local thread0 = pred("thread0", "first thread of the grid")
local tid = b32 "thread"
local b = box.open("query_push", true)

|   ld.param.u64   $(rows), [$(param.query)];
|   mov.u32        $(tid), %tid.x;
|   mov.u32        $(own), %ctaid.x;
|   setp.eq.u32    $(first), $(own), 0;
|   mad.lo.u32     $(own), $(own), $(THREADS), $(tid);
|   mov.u32        $(to), %ctaid.y;
|   setp.eq.and.u32 $(thread0), $(to), 0, $(first);
|   setp.eq.and.u32 $(thread0), $(tid), 0, $(thread0);
publish.destination(b, base, to)
pdl.wait()
pdl.launch_dependents()
box.load(b)

-- One round: up to FLIGHT chunks loaded, then stored; fenced: the thread's first mailbox store comes after F1.
local function round(count, fenced)
  scope(function()
    local words, at, place = {}, b64("at", count), b64("place", count)
    local chunk, inside = b32("chunk", count), pred("inside", count)
    for k = 0, count - 1 do
      words[k] = b32("words" .. k .. "_", 4)
|   add.u32        $(chunk[k]), $(own), $(k * stride);
|   setp.lt.u32    $(inside[k]), $(chunk[k]), $(chunks);
|   mad.wide.u32   $(at[k]), $(chunk[k]), 16, $(rows);
| @$(inside[k]) ld.global.v4.u32 {$(words[k][0]), $(words[k][1]), $(words[k][2]), $(words[k][3])}, [$(at[k])];
    end
    if fenced then
      publish.fence()
      box.read(b)
      mailbox.q_parity(base, base, b.parity)
    end
    local skip = label "skip"
| @$(b.dead) bra   $(skip);
    for k = 0, count - 1 do
      local outside = label "outside"
| @!$(inside[k]) bra $(outside);
      mailbox.canonical_q(words[k])
      publish.global_chunk(b, chunk[k], chunk[k])
      mailbox.q_chunk(place[k], base, chunk[k])
      publish.store(place[k], words[k])
| $(outside):
    end
| $(skip):
  end)
end

section "publish"
round(min(steps, FLIGHT), true)
if steps > FLIGHT then
  local again, done = label "round", label "published"
| $(again):
| @$(b.dead) bra   $(done);
|   add.u32        $(own), $(own), $(FLIGHT * stride);
|   setp.ge.u32    $(more), $(own), $(chunks);
| @$(more) bra     $(done);
  round(FLIGHT, false)
|   bra            $(again);
| $(done):
end

if spec.checked == 1 then
  section "ledger: one thread a destination"
  local done = label "ledger_done"
| @$(b.dead) bra   $(done);
| @!$(first) bra   $(done);
  if publish.multicast then
|   mov.u32        $(to), $(tid);
|   setp.ge.u32    $(more), $(tid), $(spec.dcp);
  else
|   setp.ne.u32    $(more), $(tid), 0;
  end
| @$(more) bra     $(done);
  publish.ledger(b, to)
| $(done):
end

section "open the use: current := next"
local opened = label "opened"
| @!$(thread0) bra $(opened);
box.open_use(b)
| $(opened):
|   ret;
