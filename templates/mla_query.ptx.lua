-- mla_query: the front of one MLA layer: q_a norm, Q_B, W_UK absorption, FP8 query rows to every rank's mailbox, KV row into the cache.
--   qkv [B, pitch] BF16 (q_a 1536 | kv_c 512 | k_pe 64 | gate ...), q_a_norm, kv_a_norm, w_q_b [H*192, 1536], kv_b [H*256, 512], slots [B] S64
--   -> query rows [B, H, 576] e4m3 in all mailboxes (dcp = 1: in `query`), kv_cache[slot], with store_qc also qc [B, 1536] BF16.
--   q_lora = 0: qf [B, H*192] BF16 comes in ready and the packed row begins with kv_c.
--   grid (H, ceil(B/16)), 512 threads: CTA h makes the rows of head h for 16 token rows; its warps w with w mod H = h also insert the KV row
--   of token row w of the tile, at the end.
-- Schedule of a head's CTA: wait -> control block in flight -> 16 warps norm 16 rows -> shared q_c -> Q_B -> shared qf -> F1
--   -> W_UK and, in the upper warps, the rope columns -> e4m3 in registers -> 16-byte stores to each rank -> (poll=1: own share of the polls).
-- Rounding points: q_c BF16, qf BF16, then FP32 to e4m3 once. q_c equals query_norm's bit for bit.
local pdl = include "lib/pdl"
local norm = include "lib/norm"
local bf16 = include "lib/bf16"
local fp8 = include "lib/fp8"
local rope = include "lib/rope"
local absorb = include "lib/absorb"
local kv_row = include "lib/kv_row"

need { ptx = "7.8", target = "sm_90" }
local THREADS, H, B = 512, spec.heads, spec.batch
local tiles = ceil_div(B, 16)
local alone, ready = spec.dcp == 1, spec.q_lora == 0
local box = not alone and include "lib/box"
local mailbox = include "lib/mailbox"
local publish = not alone and include "lib/publish"
local query_poll = spec.poll == 1 and include "lib/query_poll"
local own_chunks = B * H * mailbox.HEAD_CHUNKS
if spec.poll == 1 then
  rule(H * tiles <= spec.sms - spec.reserve,
       "poll=1 needs heads * ceil(batch/16) <= sms - reserve, so that the grid is resident as a whole; use poll=0 with query_wait")
end

local params, seen = {}, {}
local function add(list)
  for _, name in ipairs(list) do
    if not seen[name] then params[#params + 1] = name end
    seen[name] = true
  end
end
add(kv_row.params)
add { "kv_b", "q_scale_inv" }
add(ready and { "qf" } or { "q_a_norm", "w_q_b" })
if spec.store_qc == 1 then add { "qc" } end
if alone then add { "query" } else add(box.params) end
if not alone and publish.multicast then add { "q_multicast" } end
if query_poll then add(query_poll.params) end
rule(not (ready and spec.store_qc == 1), "store_qc=1 needs q_lora=1536: with q_lora=0 there is no q_c")

local QC_BYTES = absorb.QC_BYTES
|.extern .shared .align 16 .b8 dynamic_shared[];
kernel { grid = { H, tiles }, block = { THREADS }, shared = QC_BYTES + absorb.QF_BYTES, min_ctas = 1,
         resident = spec.poll == 1, params = params }

local thread, lane, wid, head, t0 = b32 "thread", b32 "lane", b32 "warp", b32 "head", b32("t0", "first row of the tile")
local b = not alone and box.open("mla_query", true)
local watch = query_poll and query_poll.watch(b)
|   mov.u32        $(thread), %tid.x;
|   and.b32        $(lane), $(thread), 31;
|   shr.u32        $(wid), $(thread), 5;
|   mov.u32        $(head), %ctaid.x;
|   mov.u32        $(t0), %ctaid.y;
|   shl.b32        $(t0), $(t0), 4;
pdl.wait()
pdl.launch_dependents()
if b then
  box.load(b)
  box.read(b)
end

local rows_done = label "rows_done"
local a = { thread = thread, warp = wid, head = head, group = b32 "group", quarter = b32 "quarter", upper = pred("upper", "warps 8..15") }
local qc, qf = b32("qc_shared", "q_c [16][1568] BF16"), b32("qf_shared", "qf [16][224] BF16")
|   shr.u32        $(a.group), $(lane), 2;
|   and.b32        $(a.quarter), $(lane), 3;
|   setp.ge.u32    $(a.upper), $(wid), 8;
|   mov.u32        $(qc), dynamic_shared;
|   add.u32        $(qf), $(qc), $(QC_BYTES);

-- Warp w: q_c of row t0 + w -> shared (zeros past the batch).
local function norm_row()
  section "q_c"
  scope(function()
    local row, live, pitch, eps, total, rr = b32 "row", pred "live", b32 "pitch", f32 "eps", f32 "total", f32 "rr"
    local at, to, words, x, gamma = b64 "at", b32 "to", b32("words", 4), f32("x", 48), f32("gamma", 48)
    local store = spec.store_qc == 1 and { b64 "qc_row", pred "stores" }
|   add.u32        $(row), $(t0), $(wid);
|   setp.lt.u32    $(live), $(row), $(B);
|   ld.param.u32   $(pitch), [$(param.pitch)];
|   ld.param.u64   $(at), [$(param.qkv)];
|   mul.lo.u32     $(pitch), $(pitch), $(row);
|   mad.lo.u32     $(pitch), $(lane), 8, $(pitch);
|   mad.wide.u32   $(at), $(pitch), 2, $(at);
    for i = 0, 5 do
      for k = 0, 3 do
|   mov.b32        $(words[k]), 0;
      end
| @$(live) ld.global.v4.u32 {$(words[0]), $(words[1]), $(words[2]), $(words[3])}, [$(at)+$(512 * i)];
      norm.unpack(x, 8 * i, words)
    end
|   ld.param.u64   $(at), [$(param.q_a_norm)];
|   mad.wide.u32   $(at), $(lane), 16, $(at);
    for i = 0, 5 do
|   ld.global.nc.v4.u32 {$(words[0]), $(words[1]), $(words[2]), $(words[3])}, [$(at)+$(512 * i)];
      norm.unpack(gamma, 8 * i, words)
    end
|   ld.param.f32   $(eps), [$(param.eps)];
    norm.row_total(total, x, B >= spec.tiled_from)
    norm.rsqrt(rr, total, eps)
    if store then
|   ld.param.u64   $(store[1]), [$(param.qc)];
|   mad.lo.u32     $(pitch), $(row), $(norm.WIDTH // 8), $(lane);
|   mad.wide.u32   $(store[1]), $(pitch), 16, $(store[1]);
|   setp.eq.and.u32 $(store[2]), $(head), 0, $(live);
    end
|   mad.lo.u32     $(to), $(wid), $(2 * absorb.QC_PITCH), $(qc);
|   mad.lo.u32     $(to), $(lane), 16, $(to);
    for i = 0, 5 do
      norm.scale(words, x, gamma, 8 * i, rr)
|   st.shared.v4.u32 [$(to)+$(512 * i)], {$(words[0]), $(words[1]), $(words[2]), $(words[3])};
      if store then
| @$(store[2]) st.global.v4.u32 [$(store[1])+$(512 * i)], {$(words[0]), $(words[1]), $(words[2]), $(words[3])};
      end
    end
|   bar.sync       0;
  end)
end

-- q_lora = 0: the head's ready row of 192 -> shared, 24 chunks of 16 bytes a row.
local function ready_rows()
  section "qf, ready"
  scope(function()
    local row, chunk, at, to, words, go = b32 "row", b32 "chunk", b64 "at", b32 "to", b32("words", 4), pred "go"
    local place, past = b32 "place", pred "past"
    local done = label "qf_read"
|   setp.ge.u32    $(past), $(thread), 384;
| @$(past) bra     $(done);
|   div.u32        $(row), $(thread), 24;
|   rem.u32        $(chunk), $(thread), 24;
|   mad.lo.u32     $(to), $(row), $(2 * absorb.QF_PITCH), $(qf);
|   mad.lo.u32     $(to), $(chunk), 16, $(to);
|   add.u32        $(row), $(row), $(t0);
|   setp.lt.u32    $(go), $(row), $(B);
|   mad.lo.u32     $(place), $(row), $(H), $(head);
|   mad.lo.u32     $(place), $(place), 24, $(chunk);
|   ld.param.u64   $(at), [$(param.qf)];
|   mad.wide.u32   $(at), $(place), 16, $(at);
    for k = 0, 3 do
|   mov.b32        $(words[k]), 0;
    end
| @$(go) ld.global.v4.u32 {$(words[0]), $(words[1]), $(words[2]), $(words[3])}, [$(at)];
|   st.shared.v4.u32 [$(to)], {$(words[0]), $(words[1]), $(words[2]), $(words[3])};
| $(done):
|   bar.sync       0;
  end)
end

-- 16 FP32 values x[first ..] -> scaled e4m3 -> chunk `chunk` (register, 0..35) of token row `row` of this head, everywhere it goes.
local function send(x, first, row, chunk)
  scope(function()
    local words, scale, own, go = b32("words", 4), f32 "scale", b32 "own", pred "go"
    local skip = label "not_sent"
|   setp.lt.u32    $(go), $(row), $(B);
| @!$(go) bra      $(skip);
|   ld.param.f32   $(scale), [$(param.q_scale_inv)];
    for k = first, first + 15 do
|   mul.rn.f32     $(x[k]), $(x[k]), $(scale);
    end
    for i = 0, 3 do
      local k = first + 4 * i
      fp8.pack4(words[i], x[k], x[k + 1], x[k + 2], x[k + 3])
    end
|   mad.lo.u32     $(own), $(row), $(H), $(head);
|   mad.lo.u32     $(own), $(own), $(mailbox.HEAD_CHUNKS), $(chunk);
    if alone then
      scope(function()
        local at = b64 "at"
|   ld.param.u64   $(at), [$(param.query)];
|   mad.wide.u32   $(at), $(own), 16, $(at);
|   st.global.v4.u32 [$(at)], {$(words[0]), $(words[1]), $(words[2]), $(words[3])};
      end)
    else
      publish.everywhere(b, own, words)
    end
| $(skip):
  end)
end

-- Warps 8 and 9: 16 of the 64 position columns a thread, from shared qf.
local function send_rope()
  section "position columns"
  local done = label "rope_done"
  scope(function()
    local index, row, part, at, past = b32 "index", b32 "row", b32 "part", b32 "at", pred "past"
    local x, words, chunk = f32("x", 16), b32("words", 8), b32 "chunk"
|   setp.lt.u32    $(past), $(wid), 8;
| @$(past) bra     $(done);
|   setp.ge.u32    $(past), $(wid), 10;
| @$(past) bra     $(done);
|   add.u32        $(index), $(thread), -256;
|   shr.u32        $(row), $(index), 2;
|   and.b32        $(part), $(index), 3;
|   mad.lo.u32     $(at), $(row), $(2 * absorb.QF_PITCH), $(qf);
|   add.u32        $(row), $(row), $(t0);
    local function read(into, first, offset)
      for i = 0, 1 do
        local w = 4 * i
|   ld.shared.v4.u32 {$(words[w]), $(words[w + 1]), $(words[w + 2]), $(words[w + 3])}, [$(offset)+$(256 + 16 * i)];
      end
      for i = 0, 7 do bf16.unpack(into[first + 2 * i], into[first + 2 * i + 1], words[i]) end
    end
    if spec.rope == "half" then
      scope(function()
        local partner, y, c, s, angle, mine = b32 "partner", f32("y", 16), f32 "c", f32 "s", b64 "angle", b32 "mine"
        local second, neg = pred("second", "columns 32..63: the pair's second"), f32 "neg"
|   mad.lo.u32     $(mine), $(part), 32, $(at);
|   xor.b32        $(partner), $(part), 2;
|   mad.lo.u32     $(partner), $(partner), 32, $(at);
        read(x, 0, mine)
        read(y, 0, partner)
|   setp.ge.u32    $(second), $(part), 2;
|   and.b32        $(mine), $(part), 1;
        rope.row(angle, row)
|   mad.wide.u32   $(angle), $(mine), 64, $(angle);
        local outside = label "no_angles"
|   setp.ge.u32    $(past), $(row), $(B);
| @$(past) bra     $(outside);
        for k = 0, 15 do
|   ld.global.f32  $(c), [$(angle)+$(4 * k)];
|   ld.global.f32  $(s), [$(angle)+$(128 + 4 * k)];
|   mul.rn.f32     $(s), $(y[k]), $(s);
|   neg.f32        $(neg), $(s);
|   selp.f32       $(s), $(s), $(neg), $(second);    // second: + first * sin; first: - second * sin
|   fma.rn.f32     $(x[k]), $(x[k]), $(c), $(s);
        end
| $(outside):
      end)
    else
|   mad.lo.u32     $(at), $(part), 32, $(at);
      read(x, 0, at)
      if rope.on then
        local outside = label "no_angles"
|   setp.ge.u32    $(past), $(row), $(B);
| @$(past) bra     $(outside);
        scope(function()
          local angle, c, s = b64 "angle", f32 "c", f32 "s"
          rope.row(angle, row)
|   mad.wide.u32   $(angle), $(part), 32, $(angle);
          for k = 0, 7 do
|   ld.global.f32  $(c), [$(angle)+$(4 * k)];
|   ld.global.f32  $(s), [$(angle)+$(128 + 4 * k)];
            rope.rotate(x[2 * k], x[2 * k + 1], c, s)
          end
        end)
| $(outside):
      end
    end
|   add.u32        $(chunk), $(part), 32;
    send(x, 0, row, chunk)
  end)
| $(done):
end

if ready then
  ready_rows()
else
  norm_row()
  absorb.q_b(a, qc, qf)
end
if b then publish.fence() end                          -- F1, before the first mailbox store
scope(function()
  local ql, chunk, row = f32("ql", 32), b32 "chunk", b32 "row"
  absorb.w_uk(a, qf, qc, ql)
  if b then
| @$(b.dead) bra   $(rows_done);
  end
  local upper = label "upper_warps"
| @$(a.upper) bra  $(upper);
|   and.b32        $(chunk), $(wid), 7;
|   mad.lo.u32     $(chunk), $(chunk), 4, $(a.quarter);
|   add.u32        $(row), $(t0), $(a.group);
  send(ql, 0, row, chunk)
|   add.u32        $(row), $(row), 8;
  send(ql, 16, row, chunk)
| $(upper):
  send_rope()
end)
| $(rows_done):
scope(function()
  local row, mine, elsewhere = b32 "row", pred "mine", label "kv_elsewhere"
|   rem.u32        $(row), $(wid), $(H);
|   setp.eq.u32    $(mine), $(row), $(head);
| @!$(mine) bra    $(elsewhere);
|   add.u32        $(row), $(t0), $(wid);
  kv_row.insert(row, lane)
| $(elsewhere):
end)

if b then
  section "the use"
  local opened = label "opened"
  scope(function()
    local other = pred "other"
|   or.b32         $(lane), $(thread), $(head);
|   or.b32         $(lane), $(lane), $(t0);
|   setp.ne.u32    $(other), $(lane), 0;
| @$(other) bra    $(opened);
    if spec.checked == 1 then publish.ledger_to_all(b) end
    box.open_use(b)
  end)
| $(opened):
  if query_poll then
    scope(function()
      local first = b32("first", "this thread's number in the grid")
|   shr.u32        $(first), $(t0), 4;
|   mad.lo.u32     $(first), $(first), $(H), $(head);
|   mad.lo.u32     $(first), $(first), $(THREADS), $(thread);
      query_poll.all(watch, first, H * tiles * THREADS)
    end)
  end
end
|   ret;
