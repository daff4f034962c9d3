-- peer_exchange: one node of an exchange: pushes chunks of 16 bytes to each of dcp - 1 peers, polls as many from each, arms them
-- again. What every exchange of dcp ranks costs at least. Nodes of one chain alternate parity 0, 1.
--   boxes: u64[dcp]: where each rank's chunks lie, as mapped here: [2][dcp (source)][room][16 bytes], armed with 0xFFFFFFFF
--   room: chunks of a source; chunks: how many of them are used; rank; parity
--   state: u32[2] of this rank: nodes that gave up, chunks that held something wrong. A poll ends after bound ns; a rank that gave up
--   once does nothing in later nodes.
-- checked=1: with the publisher's fence of the mailboxes before the first store.
-- The chunk of source s and number c holds {c, s, parity, 1}. sms CTAs of 512 threads, 4 chunks a thread in flight.
local pdl = include "lib/pdl"
local bounded_poll = include "lib/bounded_poll"

need { ptx = "7.8", target = "sm_90" }
rule(spec.dcp >= 2, "an exchange is between two ranks at least")
local THREADS, DEEP, ARMED = 512, 4, 0xFFFFFFFF
local peers = spec.dcp - 1
kernel { grid = { spec.sms }, block = { THREADS }, params = {
  { "boxes", "u64" }, { "room", "u32" }, { "chunks", "u32" }, { "rank", "u32" }, { "parity", "u32" }, { "state", "u64" }, { "limit", "u64" } } }

local boxes, state, limit = b64 "boxes", b64 "state", b64 "limit"
local rank, parity, room, chunks, all = b32 "rank", b32 "parity", b32 "room", b32 "chunks", b32("all", "chunks to all peers")
local tid, index, next_index = b32 "thread", b32("index", "of [0, all)"), b32 "next"
local own = b64("own", "this rank's chunks of this parity")
local p, q = pred "p", pred "q"
local quit = label "quit"

-- peer, number := of chunk `i`: its peer counted from this rank on, and its number there
local function split(i, peer, number)
|   div.u32        $(peer), $(i), $(chunks);
|   mul.lo.u32     $(number), $(peer), $(chunks);
|   sub.u32        $(number), $(i), $(number);
|   add.u32        $(peer), $(peer), $(rank);
|   add.u32        $(peer), $(peer), 1;
|   setp.ge.u32    $(q), $(peer), $(spec.dcp);
| @$(q) sub.u32    $(peer), $(peer), $(spec.dcp);
end

-- place := bytes from a box's begin to the chunk `number` of `source`
local function offset(place, source, number)
  scope(function()
    local line = b32 "line"
|   mad.lo.u32     $(line), $(parity), $(spec.dcp), $(source);
|   mad.lo.u32     $(line), $(line), $(room), $(number);
|   mul.wide.u32   $(place), $(line), 16;
  end)
end

|   ld.param.u64   $(boxes), [$(param.boxes)];
|   ld.param.u64   $(state), [$(param.state)];
|   ld.param.u64   $(limit), [$(param.limit)];
|   ld.param.u32   $(room), [$(param.room)];
|   ld.param.u32   $(chunks), [$(param.chunks)];
|   ld.param.u32   $(rank), [$(param.rank)];
|   ld.param.u32   $(parity), [$(param.parity)];
|   mul.lo.u32     $(all), $(chunks), $(peers);
|   mov.u32        $(tid), %tid.x;
|   mov.u32        $(index), %ctaid.x;
|   mad.lo.u32     $(index), $(index), $(THREADS), $(tid);
pdl.wait()
pdl.launch_dependents()
scope(function()
  local gave_up = b32 "gave_up"
|   ld.relaxed.sys.global.u32 $(gave_up), [$(state)];
|   setp.ne.u32    $(p), $(gave_up), 0;
| @$(p) bra        $(quit);
end)

section "push"
if spec.checked == 1 then
|   fence.acq_rel.sys;
end
scope(function()
  local again, done = label "push", label "pushed"
|   mov.u32        $(next_index), $(index);
| $(again):
|   setp.ge.u32    $(p), $(next_index), $(all);
| @$(p) bra        $(done);
  local peer, number, slot, base, place, one = b32 "peer", b32 "number", b64 "slot", b64 "base", b64 "place", b32 "one"
  split(next_index, peer, number)
|   mad.wide.u32   $(slot), $(peer), 8, $(boxes);
|   ld.global.u64  $(base), [$(slot)];
  offset(place, rank, number)
|   add.u64        $(base), $(base), $(place);
|   mov.u32        $(one), 1;
|   st.relaxed.sys.global.v4.u32 [$(base)], {$(number), $(rank), $(parity), $(one)};
|   add.u32        $(next_index), $(next_index), $(spec.sms * THREADS);
|   bra            $(again);
| $(done):
end)

section "poll and arm again"
|   mad.wide.u32   $(own), $(rank), 8, $(boxes);
|   ld.global.u64  $(own), [$(own)];
scope(function()
  local again, done = label "group", label "polled"
  local peer, number, at, inside = b32("peer", DEEP), b32("number", DEEP), b64("at", DEEP), pred("inside", DEEP)
  local words, missing, absent = {}, pred "missing", pred "absent"
  local polls, low, asked, now, wrong, armed = b32 "polls", b32 "low", b64 "asked", b64 "now", b32 "wrong", b32 "armed"
  local poll, came = label "poll", label "came"
  for k = 0, DEEP - 1 do
    words[k] = b32("words" .. k .. "_", 4)
    for i = 0, 3 do
|   mov.u32        $(words[k][i]), 0;
    end
  end
|   mov.u32        $(armed), $(ARMED);
| $(again):
|   setp.ge.u32    $(p), $(index), $(all);
| @$(p) bra        $(done);
  for k = 0, DEEP - 1 do
|   add.u32        $(low), $(index), $(k * spec.sms * THREADS);
|   setp.lt.u32    $(inside[k]), $(low), $(all);
    split(low, peer[k], number[k])
    offset(at[k], peer[k], number[k])
|   add.u64        $(at[k]), $(at[k]), $(own);
  end
|   mov.u32        $(polls), 0;
| $(poll):
  for k = 0, DEEP - 1 do
| @$(inside[k]) ld.relaxed.sys.global.v4.u32 {$(words[k][0]), $(words[k][1]), $(words[k][2]), $(words[k][3])}, [$(at[k])];
  end
|   mov.pred       $(missing), 0;
  for k = 0, DEEP - 1 do
|   setp.eq.and.u32 $(absent), $(words[k][0]), $(armed), $(inside[k]);
|   or.pred        $(missing), $(missing), $(absent);
    for i = 1, 3 do
|   setp.eq.and.u32 $(absent), $(words[k][i]), $(armed), $(inside[k]);
|   or.pred        $(missing), $(missing), $(absent);
    end
  end
| @!$(missing) bra $(came);
  bounded_poll.turn({ polls = polls, low = low, p = p, now = now, asked = asked, limit = limit }, poll)
|   atom.global.add.u32 $(low), [$(state)], 1;
|   bra            $(quit);
| $(came):
  for k = 0, DEEP - 1 do
    local outside = label "outside"
| @!$(inside[k]) bra $(outside);
|   setp.ne.u32    $(p), $(words[k][0]), $(number[k]);
|   setp.ne.or.u32 $(p), $(words[k][1]), $(peer[k]), $(p);
|   setp.ne.or.u32 $(p), $(words[k][2]), $(parity), $(p);
|   setp.ne.or.u32 $(p), $(words[k][3]), 1, $(p);
| @$(p) atom.global.add.u32 $(wrong), [$(state)+4], 1;
|   st.relaxed.sys.global.v4.u32 [$(at[k])], {$(armed), $(armed), $(armed), $(armed)};
| $(outside):
  end
|   add.u32        $(index), $(index), $(DEEP * spec.sms * THREADS);
|   bra            $(again);
| $(done):
end)
| $(quit):
|   ret;
