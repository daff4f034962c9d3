-- dcp_value: the tail of one MLA layer under DCP: partial rows to their head's owner, merge there, W_UV, gate.
--   rows [B, D*H, 512] BF16, rows_lse [B, D*H] F32 base 2, lens [B/q] S32 (local), totals [B/q] S32 (global): from the decode
--   kv_b [H*256, 512] BF16, gate [B, pitch] BF16 (first column of this rank's gate) -> output [B, H*128] BF16
--   mailboxes partial [2, D, cap, H, 512], lse [2, D, cap, H]; re-arms them as it reads, and the query mailbox of this use.
-- Forms, all with CTAs of 512 threads, one an SM (min_ctas = 1 leaves each thread 128 registers):
--   split=0  grid (H, ceil(B/16), Z): every CTA pushes, those of z = 0 then merge. Resident as a whole: merge CTAs poll for
--            what other ranks' CTAs of this kernel push.
--   split=1  a push kernel that never polls, then a merge kernel (H, ceil(B/16)) that may run in waves.
--   dcp=1    no mailbox: the merge kernel over the decode's own rows.
-- Schedule of a merge CTA:
--   W_UV fragments (64 registers a thread) on their way -> wait -> control block, gate, totals in flight
--   -> [push: rows in flight, F1, stores to owners, LSE, re-arm of the query mailbox] -> dependents if chained
--   -> 16 warps poll 16 rows' LSE -> weights in shared -> 512 threads poll 2 x 8 rows' chunks, 8 sources in flight
--   -> BF16 rows in shared [16][544] -> 32 mma a warp -> gate -> store.   F2 stands between the rows and the product.
local pdl = include "lib/pdl"
local merge = include "lib/merge"
local sources = include "lib/sources"

need { ptx = "7.8", target = "sm_90" }
local alone = spec.dcp == 1
local box = not alone and include "lib/box"
local lamport = not alone and include "lib/lamport"
local push = not alone and include "lib/push"

local THREADS = merge.THREADS
local tiles = ceil_div(spec.batch, merge.ROWS)
local mergers = spec.heads * tiles
local room = spec.sms - spec.reserve
local chunks = spec.batch * spec.dcp * spec.heads * 64
local split = not alone and spec.split == 1

local function names(...)
  local all, seen = {}, {}
  for _, list in ipairs { ... } do
    for _, name in ipairs(list) do
      if not seen[name] then all[#all + 1] = name end
      seen[name] = true
    end
  end
  return all
end

-- me := this thread's number in the grid, x fastest.
local function number(me, tid, x, y)
  scope(function()
    local cta, part = b32 "cta", b32 "part"
|   mov.u32        $(cta), %ctaid.z;
|   mov.u32        $(part), %ctaid.y;
|   mad.lo.u32     $(cta), $(cta), $(y), $(part);
|   mov.u32        $(part), %ctaid.x;
|   mad.lo.u32     $(cta), $(cta), $(x), $(part);
|   mad.lo.u32     $(me), $(cta), $(THREADS), $(tid);
  end)
end

-- One thread of the grid checks parity=arg against the counter and closes the use.
local function close(b, me)
  section "close the use: next := current + 1"
  local closed, wrong = label "closed", label "parity_wrong"
  scope(function()
    local other, low = pred "other", b32 "low"
|   setp.ne.u32    $(other), $(me), 0;
| @$(other) bra    $(closed);
    if spec.parity == "arg" and spec.watchdog == 1 then
|   mov.pred       $(other), 0;
      box.parity_differs(b, low, other)
| @$(other) bra    $(wrong);
    end
    box.close_use(b)
    if spec.parity == "arg" and spec.watchdog == 1 then
|   bra            $(closed);
| $(wrong):
      box.abort(b, { mailbox = "use", row = b.word[0], other = b.word[1], word = b.parity })
    end
  end)
| $(closed):
end

-- From the polls to the end of the entry.
local function merge_and_end(m, b, me)
  local leave, out = label "leave", label "out"
  local from = sources.from_mailbox
  from.weights(m)
  box.barrier_or_leave(b, leave)
  from.rows(m)
  box.barrier_or_leave(b, leave)
|   fence.acq_rel.sys;                                  // F2
  merge.product(m)
  merge.store(m)
  close(b, me)
|   bra            $(out);
| $(leave):
  merge.store_nan(m)
| $(out):
|   ret;
end

local tid, me
local function thread_ids(x, y)
  tid, me = b32 "thread", b32("me", "thread of the grid")
|   mov.u32        $(tid), %tid.x;
  number(me, tid, x, y)
end

-- Everything a merge CTA does before its polls; push_part: what stands between the first loads and the polls.
local function merge_entry(x, y, pushers, push_part)
  thread_ids(x, y)
  local b = box.open("dcp_value", false)
  local watch = lamport.watch(b)
  local p = push_part and push.open(b, me, THREADS * x * y * pushers)
  local m = merge.open(tid)
  sources.from_mailbox.open(m, b, watch)
  local z, only_push, guard = b32 "z", pred("only_push", "z > 0: this CTA merges nothing"), ""
  if pushers > 1 then
|   mov.u32        $(z), %ctaid.z;
|   setp.ne.u32    $(only_push), $(z), 0;
    guard = "@!" .. tostring(only_push)
  end
  section "weights, before the predecessor has finished"
  merge.weights(m, guard)
  pdl.wait()
  box.load(b)
  merge.inputs(m)
  box.read(b)
  if push_part then push_part(b, p) end
  pdl.launch_dependents_if_chained()
  if pushers > 1 then
| @$(only_push) ret;
  end
  merge_and_end(m, b, me)
end

local function push_unless_dead(b, p)
  local skip = label "nothing_sent"
| @$(b.dead) bra   $(skip);
  push.all(p)
| $(skip):
end

local chain = { "chain_waits" }
if alone then
  kernel { grid = { spec.heads, tiles }, block = { THREADS }, min_ctas = 1,
           params = names(merge.params, chain) }
  thread_ids(spec.heads, tiles)
  local m, from = merge.open(tid), sources.from_rows
  merge.weights(m, "")
  pdl.wait()
  merge.inputs(m)
  pdl.launch_dependents_if_chained()
  from.weights(m)
  from.rows(m)
  merge.product(m)
  merge.store(m)
|   ret;
elseif split then
  local ctas = min(room, ceil_div(chunks, 4 * THREADS))
  kernel { name = "dcp_value_push", grid = { ctas }, block = { THREADS }, params = names(box.params, push.params) }
  thread_ids(ctas, 1)
  local b = box.open("dcp_value", false)
  local p = push.open(b, me, THREADS * ctas)
  pdl.wait()
  pdl.launch_dependents()
  box.load(b)
  box.read(b)
  push_unless_dead(b, p)
|   ret;

  kernel { name = "dcp_value_merge", grid = { spec.heads, tiles }, block = { THREADS }, min_ctas = 1,
           params = names(box.params, merge.params, chain) }
  merge_entry(spec.heads, tiles, 1)
else
  local pushers = min(max(1, room // mergers), ceil_div(chunks, mergers * 4 * THREADS))
  rule(mergers <= room, "split=0 needs heads * ceil(batch/16) <= sms - reserve, so that the grid is resident as a whole; use split=1")
  kernel { grid = { spec.heads, tiles, pushers }, block = { THREADS }, min_ctas = 1, resident = true,
           params = names(box.params, push.params, merge.params, chain) }
  merge_entry(spec.heads, tiles, pushers, push_unless_dead)
end
