-- peer_ping: 16 bytes there and back between ranks, over and over: how long a store takes to be seen. Thread k of the dcp threads has a
-- peer of its own; a round begins when all of them have ended the one before.
--   mine: 16 bytes a thread, zero at the start; theirs: u64[dcp], the words of the peers that answer; rounds; first: 1 on the rank that
--   sends first. result: 16 bytes a thread: u64 ns that all rounds took, u32 rounds that came in time. A poll ends after limit ns.
local pdl = include "lib/pdl"
local bounded_poll = include "lib/bounded_poll"

need { ptx = "7.8", target = "sm_90" }
kernel { grid = { 1 }, block = { spec.dcp }, params = {
  { "mine", "u64" }, { "theirs", "u64" }, { "rounds", "u32" }, { "first", "u32" }, { "result", "u64" }, { "limit", "u64" } } }

local mine, theirs, result, limit = b64 "mine", b64 "theirs", b64 "result", b64 "limit"
local begin, asked, now = b64("begin", "of all rounds"), b64("asked", "when this poll began to look at the time"), b64 "now"
local rounds, first, round, polls, low = b32 "rounds", b32 "first", b32 "round", b32 "polls", b32 "low"
local words, p, sends = b32("words", 4), pred "p", pred("sends", "this rank sends first")
local again, poll, came, over = label "round", label "poll", label "came", label "over"

local function send()
|   st.relaxed.sys.global.v4.u32 [$(theirs)], {$(round), $(round), $(round), $(round)};
end

pdl.wait()
|   ld.param.u64   $(mine), [$(param.mine)];
|   ld.param.u64   $(theirs), [$(param.theirs)];
|   ld.param.u64   $(result), [$(param.result)];
|   mov.u32        $(low), %tid.x;
|   mad.wide.u32   $(mine), $(low), 16, $(mine);
|   mad.wide.u32   $(result), $(low), 16, $(result);
|   mad.wide.u32   $(theirs), $(low), 8, $(theirs);
|   ld.global.u64  $(theirs), [$(theirs)];
|   ld.param.u64   $(limit), [$(param.limit)];
|   ld.param.u32   $(rounds), [$(param.rounds)];
|   ld.param.u32   $(first), [$(param.first)];
|   setp.ne.u32    $(sends), $(first), 0;
|   mov.u32        $(round), 0;
|   mov.u64        $(begin), %globaltimer;
| $(again):
|   setp.ge.u32    $(p), $(round), $(rounds);
| @$(p) bra        $(over);
|   add.u32        $(round), $(round), 1;
|   mov.u32        $(polls), 0;
if spec.dcp > 1 then
|   bar.sync       0;
end
scope(function()
  local waits = label "waits"
| @!$(sends) bra   $(waits);
  send()
| $(waits):
end)
| $(poll):
|   ld.relaxed.sys.global.v4.u32 {$(words[0]), $(words[1]), $(words[2]), $(words[3])}, [$(mine)];
|   setp.eq.u32    $(p), $(words[0]), $(round);
for i = 1, 3 do
|   setp.eq.and.u32 $(p), $(words[i]), $(round), $(p);
end
| @$(p) bra        $(came);
bounded_poll.turn({ polls = polls, low = low, p = p, now = now, asked = asked, limit = limit }, poll)
|   sub.u32        $(round), $(round), 1;
|   bra            $(over);
| $(came):
scope(function()
  local sent = label "sent"
| @$(sends) bra    $(sent);
  send()
| $(sent):
end)
|   bra            $(again);
| $(over):
|   mov.u64        $(now), %globaltimer;
|   sub.u64        $(now), $(now), $(begin);
|   st.global.u64  [$(result)], $(now);
|   st.global.u32  [$(result)+8], $(round);
|   ret;
