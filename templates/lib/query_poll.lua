-- query_poll: polls of the whole query mailbox of a use: every chunk of all D*H heads, own ones included, shared out over the threads
-- of a grid. query_wait is this and nothing else; mla_query does it at its end with poll=1.
local box = include "lib/box"
local mailbox = include "lib/mailbox"
local lamport = include "lib/lamport"
local query_poll = { FLIGHT = 8, params = { "q_box", "ledger" } }
local chunks = mailbox.q_chunks

function query_poll.watch(b)
  return lamport.watch(b)
end

-- A round of `count` chunks of the thread: first, first + stride, ... The tail polls the last chunk again.
local function round(watch, base, first, stride, count)
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

-- first: this thread's number among `threads` (a register, used up). Ledger first in checked builds, then the chunks, then F2.
-- check_parity: nil, or what is emitted before them.
function query_poll.all(watch, first, threads, check_parity)
  local b = watch.box
  local steps, flight = ceil_div(chunks, threads), query_poll.FLIGHT
  local done = label "polled"
  scope(function()
    local base, ledger, more = b64("base", "own query mailbox at this parity"), b64 "ledger", pred "more"
|   ld.param.u64   $(base), [$(param.q_box)];
    mailbox.q_parity(base, base, b.parity)
| @$(b.dead) bra   $(done);
    if check_parity then check_parity() end
    if spec.checked == 1 then
      section "ledger: thread d compares what rank d runs"
      local agreed = label "ledger_read"
|   ld.param.u64   $(ledger), [$(param.ledger)];
|   setp.ge.u32    $(more), $(first), $(spec.dcp);
| @$(more) bra     $(agreed);
      lamport.agree(watch, ledger, first)
| $(agreed):
    end
    section "poll"
    if steps <= 2 * flight then
      for step = 0, steps - 1, flight do
        round(watch, base, first, threads, min(flight, steps - step))
|   add.u32        $(first), $(first), $(flight * threads);
      end
    else
      local again = label "round"
| $(again):
      round(watch, base, first, threads, flight)
|   add.u32        $(first), $(first), $(flight * threads);
|   setp.lt.u32    $(more), $(first), $(chunks);
| @$(b.dead) bra   $(done);
| @$(more) bra     $(again);
    end
|   fence.acq_rel.sys;                                  // F2: the polls before all that follows this grid
  end)
| $(done):
end

return query_poll
