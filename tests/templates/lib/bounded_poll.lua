-- bounded_poll: the end of a poll's turn in kernels that checks and benchmarks need: back to `poll` while there is time, on where there is
-- none. Of 64 turns one looks at the clock. r: registers polls (0 before the first turn), low, p (a predicate), now, asked (when the
-- clock was first looked at), limit (ns).
local bounded_poll = {}

function bounded_poll.turn(r, poll)
|   add.u32        $(r.polls), $(r.polls), 1;
|   and.b32        $(r.low), $(r.polls), 63;
|   setp.ne.u32    $(r.p), $(r.low), 0;
| @$(r.p) bra        $(poll);
|   mov.u64        $(r.now), %globaltimer;
|   setp.eq.u32    $(r.p), $(r.polls), 64;
| @$(r.p) mov.b64    $(r.asked), $(r.now);
|   sub.u64        $(r.now), $(r.now), $(r.asked);
|   setp.lt.u64    $(r.p), $(r.now), $(r.limit);
| @$(r.p) bra        $(poll);
end

return bounded_poll
