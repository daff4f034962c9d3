-- sources: where the merge's rows come from: every rank's slot of this rank's mailboxes, or (dcp = 1) the decode's own rows.
-- Both give the same two steps: weights(m) leaves scale[row][source] in shared memory, rows(m) leaves the merged rows there.
local bf16 = include "lib/bf16"
local mailbox = include "lib/mailbox"
local merge = include "lib/merge"

local D, H, B = spec.dcp, spec.heads, spec.batch
local FLIGHT = 8
local sources = {}

-- Row of the half and its guard: row := tid / 64 + 8 half, t := t0 + row.
local function half_row(m, half, row, t, live)
|   shr.u32        $(row), $(m.tid), 6;
  if half == 1 then
|   add.u32        $(row), $(row), 8;
  end
|   add.u32        $(t), $(m.t0), $(row);
|   setp.lt.u32    $(live), $(t), $(B);
end

local function zero(merged)
  for i = 0, 7 do
|   mov.f32        $(merged[i]), 0f00000000;
  end
end

-- dcp > 1 ------------------------------------------------------------------------------------------------------------
local box = D > 1 and include "lib/box"
local lamport = D > 1 and include "lib/lamport"
local from_mailbox = {}
sources.from_mailbox = from_mailbox

-- m.box, m.watch; the bases of the own mailboxes.
function from_mailbox.open(m, b, watch)
  m.box, m.watch = b, watch
  m.partial, m.lse_box = b64 "own_partial", b64 "own_lse"
|   ld.param.u64   $(m.partial), [$(param.partial)];
|   ld.param.u64   $(m.lse_box), [$(param.lse)];
end

function from_mailbox.weights(m)
  section "weights: warp w polls the LSE of row t0 + w, one source a lane"
  scope(function()
    local t, lse, mine, slot, at = b32 "t", f32 "lse", pred "mine", b32 "slot", b64 "at"
    local word, left = b32("word", 1), label "lse_left"
|   mov.f32        $(lse), 0fff800000;
|   add.u32        $(t), $(m.t0), $(m.warp);
|   setp.lt.u32    $(mine), $(t), $(B);
|   setp.lt.and.u32 $(mine), $(m.lane), $(D), $(mine);
    mailbox.slot(slot, m.box.parity, m.lane, t, m.head)
    mailbox.lse_word(at, m.lse_box, slot)
    local member = { words = word, address = at, guard = mine }
    function member.place(w)
|   mov.u32        $(w.row), $(t);
|   mov.u32        $(w.other), $(m.lane);
|   mov.u32        $(w.word), $(m.head);
    end
| @!$(mine) bra    $(left);
    lamport.load(member)
    lamport.until_published(m.watch, { member }, "lse")
| @$(m.box.dead) bra $(left);
    mailbox.rearm_word("lse", at)
|   mov.b32        $(lse), $(word[0]);
| $(left):
    merge.scale(m, lse)
  end)
end

-- One half of the tile: 8 rows, one 16-byte chunk a thread.
local function mailbox_half(m, half)
  local stride = spec.cap * H * 1024                   -- bytes from one source's slot to the next source's
  scope(function()
    local row, t, live, chunk = b32 "row", b32 "t", pred "row_live", b32 "chunk"
    local merged, slot, base = f32("merged", 8), b32 "slot", b64 "base"
    local words = {}
    for k = 0, min(D, FLIGHT) - 1 do words[k] = b32("words" .. k .. "_", 4) end
    local left = label "half_left"
    zero(merged)
    half_row(m, half, row, t, live)
|   and.b32        $(chunk), $(m.tid), 63;
| @!$(live) bra    $(left);
    mailbox.slot(slot, m.box.parity, 0, t, m.head)
    mailbox.partial_chunk(base, m.partial, slot, chunk)
    for s0 = 0, D - 1, FLIGHT do
      local group = {}
      for s = s0, min(D, s0 + FLIGHT) - 1 do
        local member = { words = words[s - s0], address = tostring(base) .. "+" .. stride * (s - s0) }
        function member.place(w)
|   mov.u32        $(w.row), $(t);
|   mov.u32        $(w.other), $(s);
|   mul.lo.u32     $(w.word), $(m.head), 256;
|   mad.lo.u32     $(w.word), $(chunk), 4, $(w.word);
        end
        group[#group + 1] = member
        lamport.load(member)
      end
      lamport.until_published(m.watch, group, "partial")
| @$(m.box.dead) bra $(left);
      for k, member in ipairs(group) do
        mailbox.rearm_chunk("partial", member.address)
        merge.add(m, merged, member.words, row, s0 + k - 1)
      end
      if s0 + FLIGHT < D then
|   add.u64        $(base), $(base), $(stride * FLIGHT);
      end
    end
| $(left):
    merge.keep(m, merged, row, chunk)
  end)
end

function from_mailbox.rows(m)
  section "rows: FP32 sum over the sources in order"
  for half = 0, 1 do mailbox_half(m, half) end
end

-- dcp = 1 ------------------------------------------------------------------------------------------------------------
local from_rows = {}
sources.from_rows = from_rows

function from_rows.weights(m)
  section "weights: one source, 1 or 0"
  scope(function()
    local t, lse, mine, at = b32 "t", f32 "lse", pred "mine", b64 "at"
    local index, length, empty = b32 "index", b32 "length", pred "empty"
|   mov.f32        $(lse), 0fff800000;
|   mov.u32        $(length), 0;
|   add.u32        $(t), $(m.t0), $(m.warp);
|   setp.lt.u32    $(mine), $(t), $(B);
|   setp.eq.and.u32 $(mine), $(m.lane), 0, $(mine);
|   mad.lo.u32     $(index), $(t), $(H), $(m.head);
|   ld.param.u64   $(at), [$(param.rows_lse)];
|   mad.wide.u32   $(at), $(index), 4, $(at);
| @$(mine) ld.global.f32 $(lse), [$(at)];
|   div.u32        $(index), $(t), $(spec.q);
|   ld.param.u64   $(at), [$(param.lens)];
|   mad.wide.u32   $(at), $(index), 4, $(at);
| @$(mine) ld.global.s32 $(length), [$(at)];
    mailbox.canonical_lse(lse)
|   setp.le.s32    $(empty), $(length), 0;
|   selp.f32       $(lse), 0fff800000, $(lse), $(empty);
    merge.scale(m, lse)
  end)
|   bar.sync       0;
end

function from_rows.rows(m)
  section "rows"
  for half = 0, 1 do
    scope(function()
      local row, t, live, chunk = b32 "row", b32 "t", pred "row_live", b32 "chunk"
      local merged, words, index, at = f32("merged", 8), b32("words", 4), b32 "index", b64 "at"
      zero(merged)
      half_row(m, half, row, t, live)
|   and.b32        $(chunk), $(m.tid), 63;
      for i = 0, 3 do
|   mov.b32        $(words[i]), 0;
      end
|   mad.lo.u32     $(index), $(t), $(H), $(m.head);
|   mad.lo.u32     $(index), $(index), 64, $(chunk);
|   ld.param.u64   $(at), [$(param.rows)];
|   mad.wide.u32   $(at), $(index), 16, $(at);
| @$(live) ld.global.v4.u32 {$(words[0]), $(words[1]), $(words[2]), $(words[3])}, [$(at)];
      merge.add(m, merged, words, row, 0)
      merge.keep(m, merged, row, chunk)
    end)
  end
|   bar.sync       0;
end

return sources
