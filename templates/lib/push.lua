-- push: the sending half of dcp_value. Re-arms this parity of the query mailbox (the decode has read it), sends every
-- partial row and its LSE to the owner of its head. Stores of this half are fire and forget; nothing here polls.
--   rows [B, D*H, 512] BF16, rows_lse [B, D*H] F32 base 2, lens [B/q] S32: local lengths, <= 0: zeros and -inf are sent.
local box = include "lib/box"
local mailbox = include "lib/mailbox"
local push = { FLIGHT = 4 }

push.params = { "rows", "rows_lse", "lens", "q_box", "ledger" }

-- Registers and parameters. threads: of the whole grid; me: this thread's number in it.
function push.open(b, me, threads)
  local p = { b = b, me = me, threads = threads }
  p.rows, p.rows_lse, p.lens = b64 "rows", b64 "rows_lse", b64 "lens"
  p.q, p.ledger = b64 "own_q", b64 "own_ledger"
|   ld.param.u64   $(p.rows), [$(param.rows)];
|   ld.param.u64   $(p.rows_lse), [$(param.rows_lse)];
|   ld.param.u64   $(p.lens), [$(param.lens)];
|   ld.param.u64   $(p.q), [$(param.q_box)];
|   ld.param.u64   $(p.ledger), [$(param.ledger)];
  return p
end

-- Runs body(index, count) for index = me, me + threads, ... below total, `flight` of them at a time: index[k] may reach past
-- total, so body guards each with inside[k]. Unrolled when short, a loop otherwise; peel: the first round stands before the loop.
local function strided(p, total, flight, body, peel)
  local steps = ceil_div(total, p.threads)
  scope(function()
    local at = b32("at", "first index of the round")
|   mov.b32        $(at), $(p.me);
    local function round(count)
      scope(function()
        local index, inside = b32("index", count), pred("inside", count)
        for k = 0, count - 1 do
|   add.u32        $(index[k]), $(at), $(k * p.threads);
|   setp.lt.u32    $(inside[k]), $(index[k]), $(total);
        end
        body(index, inside, count)
      end)
    end
    if steps <= flight then return round(steps) end
    local again, more = label "round", pred "more"
    if peel then
      round(flight)
|   add.u32        $(at), $(at), $(flight * p.threads);
    end
| $(again):
    round(flight)
|   add.u32        $(at), $(at), $(flight * p.threads);
|   setp.lt.u32    $(more), $(at), $(total);
| @$(more) bra     $(again);
  end)
end

-- Query mailbox of this parity back to its armed value, and the ledger words in checked builds.
function push.rearm(p)
  section "re-arm the query mailbox"
  scope(function()
    local base = b64 "base"
    mailbox.q_parity(base, p.q, p.b.parity)
    strided(p, mailbox.q_chunks, push.FLIGHT, function(index, inside, count)
      local address = b64("address", count)
      for k = 0, count - 1 do
        mailbox.q_chunk(address[k], base, index[k])
        mailbox.rearm_chunk("q", address[k], "@" .. tostring(inside[k]))
      end
    end)
    if spec.checked == 1 then
      local offset, skip, over = b64 "offset", label "ledger_rearmed", pred "over"
|   setp.ge.u32    $(over), $(p.me), $(spec.dcp);
| @$(over) bra     $(skip);
      box.ledger_offset(p.b, offset, p.me)
|   add.u64        $(offset), $(offset), $(p.ledger);
      mailbox.rearm_word("ledger", offset)
| $(skip):
    end
  end)
end

-- length := local length of the request of token row `row`.
local function local_length(p, length, row)
  scope(function()
    local request, at = b32 "request", b64 "at"
|   div.u32        $(request), $(row), $(spec.q);
|   mad.wide.u32   $(at), $(request), 4, $(p.lens);
|   ld.global.s32  $(length), [$(at)];
  end)
end

-- row, head, owner, inner from flat = row * D*H + global head; inner = the head's number on its owner.
local function split(flat, row, owner, inner)
|   div.u32        $(row), $(flat), $(spec.dcp * spec.heads);
|   rem.u32        $(inner), $(flat), $(spec.dcp * spec.heads);
|   div.u32        $(owner), $(inner), $(spec.heads);
|   rem.u32        $(inner), $(inner), $(spec.heads);
end

-- fence: called once, when the first loads are in flight and no mailbox store of this thread has been issued.
function push.partials(p, fence)
  section "partial rows to their head's owner"
  local total = spec.batch * spec.dcp * spec.heads * mailbox.ROW_CHUNKS
  local fenced = false
  strided(p, total, push.FLIGHT, function(index, inside, count)
    local words, length = {}, b32("length", count)
    local row, owner, inner = b32("row", count), b32("owner", count), b32("inner", count)
    local chunk, from = b32("chunk", count), b64("from", count)
    for k = 0, count - 1 do
      words[k] = b32("words" .. k .. "_", 4)
|   and.b32        $(chunk[k]), $(index[k]), 63;
|   mad.wide.u32   $(from[k]), $(index[k]), 16, $(p.rows);
|   shr.u32        $(owner[k]), $(index[k]), 6;
      split(owner[k], row[k], owner[k], inner[k])
|   mov.u32        $(length[k]), 0;
    end
    for k = 0, count - 1 do
      local outside = label "no_row"
      for i = 0, 3 do
|   mov.u32        $(words[k][i]), 0;
      end
| @!$(inside[k]) bra $(outside);
      local_length(p, length[k], row[k])
|   ld.global.v4.u32 {$(words[k][0]), $(words[k][1]), $(words[k][2]), $(words[k][3])}, [$(from[k])];
| $(outside):
    end
    if not fenced then fence() end
    fenced = true
    for k = 0, count - 1 do
      scope(function()
        local base, to, slot, empty = b64 "base", b64 "to", b32 "slot", pred "empty"
        local sent = label "sent"
| @!$(inside[k]) bra $(sent);
|   setp.le.s32    $(empty), $(length[k]), 0;
        for i = 0, 3 do
|   selp.b32       $(words[k][i]), 0, $(words[k][i]), $(empty);
        end
        mailbox.canonical_partial(words[k])
        box.peer(p.b, base, "partial", owner[k])
        mailbox.slot(slot, p.b.parity, p.b.rank, row[k], inner[k])
        mailbox.partial_chunk(to, base, slot, chunk[k])
|   st.relaxed.sys.global.v4.u32 [$(to)], {$(words[k][0]), $(words[k][1]), $(words[k][2]), $(words[k][3])};
| $(sent):
      end)
    end
  end, true)
end

function push.lse(p)
  section "their LSE"
  strided(p, spec.batch * spec.dcp * spec.heads, 1, function(index, inside)
    local value, length, empty = f32 "value", b32 "length", pred "empty"
    local row, owner, inner, slot = b32 "row", b32 "owner", b32 "inner", b32 "slot"
    local from, base, to, sent = b64 "from", b64 "base", b64 "to", label "lse_sent"
| @!$(inside[0]) bra $(sent);
|   mad.wide.u32   $(from), $(index[0]), 4, $(p.rows_lse);
|   ld.global.f32  $(value), [$(from)];
    split(index[0], row, owner, inner)
    local_length(p, length, row)
    mailbox.canonical_lse(value)
|   setp.le.s32    $(empty), $(length), 0;
|   selp.f32       $(value), 0fff800000, $(value), $(empty);
    box.peer(p.b, base, "lse", owner)
    mailbox.slot(slot, p.b.parity, p.b.rank, row, inner)
    mailbox.lse_word(to, base, slot)
|   st.relaxed.sys.global.f32 [$(to)], $(value);
| $(sent):
  end)
end

-- All of it: F1 goes between the first loads and the first mailbox store; the re-arm comes after it.
function push.all(p)
  push.partials(p, function()
|   fence.acq_rel.sys;                                  // F1
  end)
  push.lse(p)
  push.rearm(p)
end

return push
