-- mailbox: where a word of a mailbox lies, and the values it may never hold.
--
-- q       [2, cap, qh, 576] e4m3, armed 0xFFFFFFFF: sixteen-byte chunk c of [0, B*DH*36) of a parity
-- partial [2, D, cap, H, 512] BF16, armed 0x80000000: slot [parity][source][row][head], 64 chunks each
-- lse     [2, D, cap, H] F32, armed 0xFFFFFFFF: one word a slot
-- ledger  [2, D] u32, armed 0xFFFFFFFF: checked builds only (lib/box: ledger_word)
-- One function a mailbox: publish, poll, wait and re-arm all come here, so that they cannot disagree.
local mailbox = {}

mailbox.HEAD_CHUNKS = 36                       -- 576 bytes
mailbox.ROW_CHUNKS = 64                        -- 512 BF16
mailbox.armed = { q = "0xffffffff", partial = "0x80000000", lse = "0xffffffff", ledger = "0xffffffff" }

local all_heads = spec.dcp * spec.heads
local token_chunks = all_heads * mailbox.HEAD_CHUNKS
mailbox.token_chunks = token_chunks
mailbox.q_chunks = spec.batch * token_chunks

-- address := base of parity `parity` of the query mailbox at `base`.
function mailbox.q_parity(address, base, parity)
  scope(function()
    local offset = b64 "offset"
|   mul.wide.u32   $(offset), $(parity), $(spec.cap * spec.qh * 576);
|   add.u64        $(address), $(base), $(offset);
  end)
end

-- address := chunk c of the query mailbox whose parity begins at `base`: rows are qh heads apart, only DH of them used.
function mailbox.q_chunk(address, base, chunk)
  if spec.qh == all_heads then
|   mad.wide.u32   $(address), $(chunk), 16, $(base);
    return
  end
  scope(function()
    local padded = b32("padded", "the chunk, the heads that nobody uses counted")
|   div.u32        $(padded), $(chunk), $(token_chunks);
|   mad.lo.u32     $(padded), $(padded), $((spec.qh - all_heads) * mailbox.HEAD_CHUNKS), $(chunk);
|   mad.wide.u32   $(address), $(padded), 16, $(base);
  end)
end

-- slot := index of [parity][source][row][head] in [2, D, cap, H]; source, row, head: registers or integers.
function mailbox.slot(slot, parity, source, row, head)
|   mad.lo.u32     $(slot), $(parity), $(spec.dcp), $(source);
|   mad.lo.u32     $(slot), $(slot), $(spec.cap), $(row);
|   mad.lo.u32     $(slot), $(slot), $(spec.heads), $(head);
end

-- address := chunk `chunk` (a register, 0..63) of a partial slot at `base`.
function mailbox.partial_chunk(address, base, slot, chunk)
|   mad.wide.u32   $(address), $(slot), 1024, $(base);
  scope(function()
    local offset = b64 "offset"
|   mul.wide.u32   $(offset), $(chunk), 16;
|   add.u64        $(address), $(address), $(offset);
  end)
end

function mailbox.lse_word(address, base, slot)
|   mad.wide.u32   $(address), $(slot), 4, $(base);
end

-- Stores the armed value over a 16-byte chunk, or over one word.
function mailbox.rearm_chunk(which, address, guard)
  local armed = mailbox.armed[which]
| $(guard or "") st.relaxed.sys.global.v4.u32 [$(address)], {$(armed), $(armed), $(armed), $(armed)};
end

function mailbox.rearm_word(which, address, guard)
| $(guard or "") st.relaxed.sys.global.u32 [$(address)], $(mailbox.armed[which]);
end

-- Payload must never be the armed value.
-- q: each byte 0xFF (a NaN with its sign) becomes 0x7F. words: four registers, changed in place.
function mailbox.canonical_q(words)
  scope(function()
    local nan, word = b32("nan", "sign bits of the bytes that are 0xFF"), nil
    for i = 0, 3 do
      word = words[i]
|   and.b32        $(nan), $(word), 0x7f7f7f7f;
|   add.u32        $(nan), $(nan), 0x01010101;      // bit 7 of a byte: its magnitude was 0x7F
|   and.b32        $(nan), $(nan), $(word);
|   and.b32        $(nan), $(nan), 0x80808080;
|   xor.b32        $(word), $(word), $(nan);
    end
  end)
end

-- partial: each half 0x8000 (-0) becomes 0x0000.
function mailbox.canonical_partial(words)
  scope(function()
    local keep, word = b32("keep", "bits 15 and 31: the half is not a zero"), nil
    for i = 0, 3 do
      word = words[i]
|   and.b32        $(keep), $(word), 0x7fff7fff;
|   add.u32        $(keep), $(keep), 0x7fff7fff;
|   or.b32         $(keep), $(keep), 0x7fff7fff;
|   and.b32        $(word), $(word), $(keep);
    end
  end)
end

-- lse: NaN, +inf and -inf become -inf, whose bits are not the armed value.
function mailbox.canonical_lse(value)
  scope(function()
    local size, finite = f32 "size", pred "finite"
|   abs.f32        $(size), $(value);
|   setp.lt.f32    $(finite), $(size), 0f7f800000;  // false for NaN
|   selp.f32       $(value), $(value), 0fff800000, $(finite);
  end)
end

return mailbox
