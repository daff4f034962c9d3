-- publish: this rank's query chunks into every rank's query mailbox, by peer stores or one multicast store.
--
-- The last steps of mla_query and all of query_push: payload made canonical, F1 before the first mailbox store, the
-- one address function of lib/mailbox, the ledger of checked builds. A destination is a rank, or all of them at once.
local box = include "lib/box"
local mailbox = include "lib/mailbox"
local publish = {}

publish.multicast = spec.publish == "multicast"
publish.destinations = publish.multicast and 1 or spec.dcp
if publish.multicast then need { ptx = "8.1", target = "sm_90" } end

-- base := where the query mailbox of `destination` (a register, ignored by multicast) begins. May run before the wait.
function publish.destination(b, base, destination)
  if publish.multicast then
|   ld.param.u64   $(base), [$(param.q_multicast)];
  else
    box.peer(b, base, "q", destination)
  end
end

-- F1: orders what this thread's predecessors in the stream did to the mailboxes (re-arm) before its own stores.
function publish.fence()
|   fence.acq_rel.sys;
end

-- chunk := index among all D*H heads of this rank's chunk `own` of [0, B*H*36).
function publish.global_chunk(b, chunk, own)
  local mine = spec.heads * mailbox.HEAD_CHUNKS
  scope(function()
    local token = b32 "token"
|   div.u32        $(token), $(own), $(mine);
|   mad.lo.u32     $(chunk), $(token), $(mailbox.token_chunks - mine), $(own);
|   mad.lo.u32     $(chunk), $(b.rank), $(mine), $(chunk);
  end)
end

-- words (4 registers, canonical) to `address` in the mailbox of one destination, or in all of them.
function publish.store(address, words)
  if publish.multicast then
|   multimem.st.relaxed.sys.global.v4.f32 [$(address)], {$(words[0]), $(words[1]), $(words[2]), $(words[3])};
  else
|   st.relaxed.sys.global.v4.u32 [$(address)], {$(words[0]), $(words[1]), $(words[2]), $(words[3])};
  end
end

-- words (4 registers, canonical) as this rank's chunk `own` of [0, B*H*36) to every rank (after the kernel's wait and F1).
function publish.everywhere(b, own, words)
  scope(function()
    local base, place, chunk = b64 "base", b64 "place", b32 "chunk"
    publish.global_chunk(b, chunk, own)
    for d = 0, publish.destinations - 1 do
      publish.destination(b, base, d)
      mailbox.q_parity(base, base, b.parity)
      mailbox.q_chunk(place, base, chunk)
      publish.store(place, words)
    end
  end)
end

-- Checked builds, one thread: its word of the use into every rank's ledger.
function publish.ledger_to_all(b)
  scope(function()
    local to, more, again = b32 "to", pred "more", label "each_ledger"
|   mov.u32        $(to), 0;
| $(again):
    publish.ledger(b, to)
|   add.u32        $(to), $(to), 1;
|   setp.lt.u32    $(more), $(to), $(spec.dcp);
| @$(more) bra     $(again);
  end)
end

-- Checked builds, one thread a rank `to` (a register): this rank's word of the use into that rank's ledger.
function publish.ledger(b, to)
  scope(function()
    local base, offset, word = b64 "base", b64 "offset", b32 "word"
    box.ledger_word(b, word)
    box.ledger_offset(b, offset, b.rank)
    box.peer(b, base, "ledger", to)
|   add.u64        $(base), $(base), $(offset);
|   st.relaxed.sys.global.u32 [$(base)], $(word);
  end)
end

return publish
