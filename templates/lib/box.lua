-- box: a rank's control block, the use counter, the abort word and the record of a dead box.
--
-- The control block (256 bytes; include/dcpk/box.h draws it) is read with one 16-byte load after the kernel's
-- wait: next | current | abort | unused. Everything here runs after griddepcontrol.wait but box.peer.
local box = {}

rule(spec.checked == 0 or spec.watchdog == 1, "checked=1 reports through the abort record, which watchdog=0 leaves out")

local MAILBOX = { q = 1, partial = 2, lse = 3, ledger = 4, mismatch = 5, use = 6 }
local KERNEL = { query_push = 2, query_wait = 3, mla_query = 4, mla_decode = 5, dcp_value = 6 }
local TABLE = { control = 0, q = 1, partial = 2, lse = 3, ledger = 4 }

-- The parameters that every kernel of the box declares, before its own.
box.params = { "control", "tables", "rank" }
if spec.parity == "arg" then box.params[#box.params + 1] = "use_parity" end

-- Declares and loads what every kernel of the box needs. Before the wait: parameters only.
-- publisher: the kernel that opens the use (it goes by `next`, all others by `current`).
function box.open(kernel_name, publisher)
  local b = { kernel = KERNEL[kernel_name], publisher = publisher }
  b.control = b64("control", "this rank's control block")
  b.tables = b64("tables", "u64[5][D]: control, q, partial, lse, ledger of every rank")
  b.rank = b32("rank")
  b.word = b32("control_word", 4, "next | current | abort | unused")
  b.use = b32("use", "this use's number; its low bit is the parity")
  b.parity = b32("parity")
  b.dead = pred("dead", "this thread has seen, or caused, the abort")
|   ld.param.u64   $(b.control), [$(param.control)];
|   ld.param.u64   $(b.tables), [$(param.tables)];
|   ld.param.u32   $(b.rank), [$(param.rank)];
  return b
end

-- Issues the load of the control block; box.read makes use of it. Split so that other first loads go between.
function box.load(b)
|   ld.relaxed.sys.global.v4.u32 {$(b.word[0]), $(b.word[1]), $(b.word[2]), $(b.word[3])}, [$(b.control)];
end

-- use, parity and dead from the loaded words; a thread that sees an abort passes it on to its rank's host word.
function box.read(b)
|   mov.b32        $(b.use), $(b.publisher and b.word[0] or b.word[1]);
  if spec.parity == "arg" then
|   ld.param.u32   $(b.parity), [$(param.use_parity)];
  else
|   and.b32        $(b.parity), $(b.use), 1;
  end
  if spec.watchdog == 0 then
|   mov.pred       $(b.dead), 0;
    return
  end
|   setp.ne.u32    $(b.dead), $(b.word[2]), 0;
  box.tell_host(b, b.word[2])
end

-- @dead: this rank's pinned host word := the abort word's value.
function box.tell_host(b, value)
  local alive = label "alive"
| @!$(b.dead) bra $(alive);
  scope(function()
    local host = b64("host", "the pinned host record")
|   ld.global.u64  $(host), [$(b.control)+24];
|   st.relaxed.sys.u32 [$(host)], $(value);
  end)
| $(alive):
end

-- dead, or-reduced over the CTA: a barrier either way; leaves for `leave` when any thread has seen the abort.
function box.barrier_or_leave(b, leave)
  if spec.watchdog == 0 then
|   barrier.cta.sync 0;
    return
  end
  scope(function()
    local any = pred "any_dead"
|   barrier.cta.red.or.pred $(any), 0, $(b.dead);
| @$(any) bra      $(leave);
  end)
end

-- address := entry [index] of a peer table; index is a register or an integer. Tables are written at set-up, before any launch.
function box.peer(b, address, which, index)
  if type(index) == "number" then
|   ld.global.u64  $(address), [$(b.tables)+$(8 * (TABLE[which] * spec.dcp + index))];   // const_input
    return
  end
  scope(function()
    local slot = b64 "slot"
|   mad.wide.u32   $(slot), $(index), 8, $(b.tables);
|   ld.global.u64  $(address), [$(slot)+$(8 * TABLE[which] * spec.dcp)];   // const_input
  end)
end

-- Ends the box's life: the first thread of the rank that gets here writes the record, then every rank's abort word,
-- then its own host word (spec: bounded polls and abort). at: {mailbox=, row=, other=, word=}: names or registers.
-- Sets dead. With watchdog = 0 nothing may call this.
function box.abort(b, at)
  local lost, each = label "claimed", label "each_rank"
  scope(function()
    local old, tag, d = b32 "old", b32("tag", "abort word: rank + 1"), b32 "d"
    local host, slot, peer, more = b64 "host", b64 "slot", b64 "peer", pred "more"
    local record = { b.rank, b.kernel, MAILBOX[at.mailbox], at.row, at.other, at.word, b.use }
|   mov.pred       $(b.dead), -1;
|   atom.relaxed.sys.global.cas.b32 $(old), [$(b.control)+64], 0, 1;
|   setp.ne.u32    $(more), $(old), 0;
| @$(more) bra     $(lost);
|   ld.global.u64  $(host), [$(b.control)+24];
    for i, value in ipairs(record) do
|   mov.b32        $(tag), $(value);
|   st.relaxed.sys.global.u32 [$(b.control)+$(64 + 4 * i)], $(tag);
|   st.relaxed.sys.u32 [$(host)+$(4 * i)], $(tag);
    end
|   fence.acq_rel.sys;                              // the record before the words that point to it
|   add.u32        $(tag), $(b.rank), 1;
|   st.relaxed.sys.global.u32 [$(b.control)+8], $(tag);
|   mov.u32        $(d), 0;
|   mov.b64        $(slot), $(b.tables);
| $(each):
|   ld.global.u64  $(peer), [$(slot)];
|   st.relaxed.sys.global.u32 [$(peer)+8], $(tag);
|   add.u64        $(slot), $(slot), 8;
|   add.u32        $(d), $(d), 1;
|   setp.lt.u32    $(more), $(d), $(spec.dcp);
| @$(more) bra     $(each);
|   st.relaxed.sys.u32 [$(host)], $(tag);
| $(lost):
  end)
end

-- One thread of the publisher: checks that the use before was closed, then opens this one. Sets dead when it was not.
-- Leaves the counter alone under abort.
function box.open_use(b)
  local done, wrong = label "use_opened", label "use_wrong"
  scope(function()
    local before, bad = b32 "before", pred "bad"
| @$(b.dead) bra   $(done);
    if spec.watchdog == 1 then
|   add.u32        $(before), $(b.word[1]), 1;
|   setp.ne.u32    $(bad), $(before), $(b.use);     // current + 1 must be next
    box.parity_differs(b, before, bad)
| @$(bad) bra      $(wrong);
    end
|   st.relaxed.sys.global.u32 [$(b.control)+4], $(b.use);
    if spec.watchdog == 1 then
|   bra            $(done);
| $(wrong):
    box.abort(b, { mailbox = "use", row = b.word[0], other = b.word[1], word = spec.parity == "arg" and b.parity or 0 })
    end
  end)
| $(done):
end

-- parity=arg: bad |= the argument is not the counter's low bit.
function box.parity_differs(b, scratch, bad)
  if spec.parity ~= "arg" then return end
|   and.b32        $(scratch), $(b.use), 1;
|   setp.ne.or.u32 $(bad), $(scratch), $(b.parity), $(bad);
end

-- One thread of the kernel that closes the use.
function box.close_use(b)
  scope(function()
    local after = b32 "after"
|   add.u32        $(after), $(b.use), 1;
|   st.relaxed.sys.global.u32 [$(b.control)], $(after);
  end)
end

-- word := what this rank says of the use in the ledgers: (use mod 2^18) << 14 | B << 4 | q.
function box.ledger_word(b, word)
|   shl.b32        $(word), $(b.use), 14;
|   or.b32         $(word), $(word), $(spec.batch << 4 | spec.q);
end

-- offset := byte offset of ledger word [parity][source]; source: register or integer.
function box.ledger_offset(b, offset, source)
  scope(function()
    local index = b32 "index"
|   mad.lo.u32     $(index), $(b.parity), $(spec.dcp), $(source);
|   mul.wide.u32   $(offset), $(index), 4;
  end)
end

return box
