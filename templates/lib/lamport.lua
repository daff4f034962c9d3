-- lamport: bounded polls. Arrival is its own flag: a word that still holds the armed value has not come.
--
-- A group of loads is issued together, then polled together: while any word of any of them is missing, all are loaded
-- again (words that came are stable until this reader re-arms them). Every 64 rounds the abort word is read and the time
-- compared with the box's bound; a thread that runs past it writes the record and leaves with `dead` set.
local box = include "lib/box"
local mailbox = include "lib/mailbox"
local lamport = {}

-- Registers of the slow path, once a kernel.
function lamport.watch(b)
  return {
    box = b,
    rounds = b32("rounds", "polls of the current group"),
    start = b64("start", "globaltimer at its first check"),
    bound = b64("bound", "ns a poll may take"),
    missing = pred("missing", "some word of the group has not come"),
    row = b32("at_row", "record of the missing word"), other = b32 "at_other", word = b32 "at_word",
  }
end

-- One member of a group: words (1 or 4 registers), the address they come from, guard: a predicate that says whether this
-- thread takes part (nil: always); place(row, other): emits what names the member in the record, with word := index of its first word.
function lamport.load(member)
  local w, go = member.words, member.guard and "@" .. tostring(member.guard) or ""
  if #w == 1 then
| $(go) ld.relaxed.sys.global.u32 $(w[0]), [$(member.address)];
  else
| $(go) ld.relaxed.sys.global.v4.u32 {$(w[0]), $(w[1]), $(w[2]), $(w[3])}, [$(member.address)];
  end
end

-- p := (or p |=, when not first) some word of the member still holds the armed value.
local function any_missing(p, member, armed, first)
  scope(function()
    local absent = member.guard and pred "absent" or p
    for i = 0, #member.words - 1 do
      if i == 0 and (first or member.guard) then
|   setp.eq.u32    $(absent), $(member.words[i]), $(armed);
      else
|   setp.eq.or.u32 $(absent), $(member.words[i]), $(armed), $(absent);
      end
    end
    if member.guard then
|   and.pred       $(absent), $(absent), $(member.guard);
      if first then
|   mov.pred       $(p), $(absent);
      else
|   or.pred        $(p), $(p), $(absent);
      end
    end
  end)
end

-- row, other and word of the first missing word of the group, for the record.
local function locate(watch, group, armed)
  scope(function()
    local here, index, last = pred "here", b32 "index", pred "last"
    for k = #group, 1, -1 do
      local member, arrived = group[k], label "arrived"
      any_missing(here, member, armed, true)
| @!$(here) bra    $(arrived);
      member.place(watch)
      for i = #member.words - 1, 0, -1 do
|   setp.eq.u32    $(last), $(member.words[i]), $(armed);
| @$(last) mov.u32 $(index), $(i);
      end
|   add.u32        $(watch.word), $(watch.word), $(index);
| $(arrived):
    end
  end)
end

-- One slow round: abort word and time every 64 rounds. Sets dead; the caller leaves the loop then.
local function check(watch, group, which)
  local b = watch.box
  local again, alive = label "again", label "in_time"
  scope(function()
    local low, seen, skip = b32 "low", b32("seen", "the abort word"), pred "skip"
    local now, waited = b64 "now", b64 "waited"
|   add.u32        $(watch.rounds), $(watch.rounds), 1;
|   and.b32        $(low), $(watch.rounds), 63;
|   setp.ne.u32    $(skip), $(low), 0;
| @$(skip) bra     $(again);
|   ld.relaxed.sys.global.u32 $(seen), [$(b.control)+8];
|   setp.ne.u32    $(b.dead), $(seen), 0;
    box.tell_host(b, seen)
| @$(b.dead) bra   $(again);
|   mov.u64        $(now), %globaltimer;
|   setp.ne.u32    $(skip), $(watch.rounds), 64;
| @!$(skip) mov.b64 $(watch.start), $(now);
| @!$(skip) ld.global.u64 $(watch.bound), [$(b.control)+16];
|   sub.u64        $(waited), $(now), $(watch.start);
|   setp.lt.u64    $(skip), $(waited), $(watch.bound);
| @$(skip) bra     $(again);
    locate(watch, group, mailbox.armed[which])
    box.abort(b, { mailbox = which, row = watch.row, other = watch.other, word = watch.word })
| $(again):
  end)
end

-- Spins until the whole group has come, or the box is dead. The loads of the group are already in flight.
-- which: "q", "partial" or "lse".
function lamport.until_published(watch, group, which)
  local armed, retry, done = mailbox.armed[which], label "poll", label "came"
  if spec.watchdog == 1 then
|   mov.u32        $(watch.rounds), 0;
  end
| $(retry):
  for k, member in ipairs(group) do any_missing(watch.missing, member, armed, k == 1) end
| @!$(watch.missing) bra $(done);
  if spec.watchdog == 1 then
| @$(watch.box.dead) bra $(done);
    check(watch, group, which)
| @$(watch.box.dead) bra $(done);
  end
  for _, member in ipairs(group) do lamport.load(member) end
|   bra            $(retry);
| $(done):
end

-- One thread a source: waits for the source's ledger word of this use and compares it with what this rank runs.
-- Call it with the threads 0..D-1 only; source: this thread's register. Aborts with mailbox ledger or mismatch.
function lamport.agree(watch, ledger, source)
  local b = watch.box
  local done = label "agreed"
  scope(function()
    local address, word = b64 "address", b32("word", 1, "what the source says it runs")
    local mine, differs = b32("mine", "what this rank runs"), pred "differs"
    box.ledger_word(b, mine)
    box.ledger_offset(b, address, source)
|   add.u64        $(address), $(address), $(ledger);
    local member = { words = word, address = address }
    function member.place(w)
|   mov.u32        $(w.row), 0;
|   mov.u32        $(w.other), $(source);
|   mov.u32        $(w.word), 0;
    end
    lamport.load(member)
    lamport.until_published(watch, { member }, "ledger")
| @$(b.dead) bra   $(done);
|   setp.ne.u32    $(differs), $(word[0]), $(mine);
| @!$(differs) bra $(done);
    box.abort(b, { mailbox = "mismatch", row = mine, other = source, word = word[0] })
  end)
| $(done):
end

return lamport
