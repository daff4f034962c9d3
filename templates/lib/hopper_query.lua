-- hopper_query: the CTA's query rows -> shared memory, in the layout that wgmma reads: 4 x [64 rows][128 bytes] of latents, [64][64] of rope,
-- both swizzled. Warpgroups 1 to 3 copy 16 bytes at a time; where to, and where from in a request, is worked out while warp 0 finds out which
-- request it is, what is missed rows' zeros too; after the wait every thread has all its copies under way at once.
return function(shape)
local hopper_query = {}
local DH, ROWS, THREADS = shape.dh, 64, 384
local COPIES = ceil_div(shape.n * 36, THREADS)          -- of a thread
local PADDED = shape.groups * shape.n > shape.rows      -- some CTA has rows past the request's last
hopper_query.THERE = 4                                  -- named barrier: the rows are in shared memory

-- to := shared address of 16-byte unit `unit` (0..35) of query row `row`.
local function place(a, to, row, unit)
  scope(function()
    local rope, sub, low, other, swing = pred "rope", b32 "sub", b32 "low", b32 "other", b32 "swing"
|   setp.ge.u32    $(rope), $(unit), 32;
|   shr.u32        $(sub), $(unit), 3;
|   and.b32        $(low), $(unit), 7;
|   and.b32        $(swing), $(row), 7;
|   xor.b32        $(low), $(low), $(swing);
|   mul.lo.u32     $(to), $(sub), $(ROWS * 128);
|   mad.lo.u32     $(to), $(row), 128, $(to);
|   mad.lo.u32     $(to), $(low), 16, $(to);
|   sub.u32        $(low), $(unit), 32;
|   shr.u32        $(swing), $(row), 1;
|   and.b32        $(swing), $(swing), 3;
|   xor.b32        $(low), $(low), $(swing);
|   mad.lo.u32     $(other), $(row), 64, $(ROWS * 512);
|   mad.lo.u32     $(other), $(low), 16, $(other);
|   selp.b32       $(to), $(other), $(to), $(rope);
|   add.u32        $(to), $(to), $(a.memory);
|   add.u32        $(to), $(to), $(shape.QUERY);
  end)
end

-- Rows n .. 63, which wgmma reads where query rows are its rows, and nobody uses: zeros.
local function clear(a, first)
  scope(function()
    local chunk, row, unit, to, zero, more = b32 "chunk", b32 "row", b32 "unit", b32 "to", b32 "zero", pred "more"
    local again, over = label "clear", label "cleared"
|   add.u32        $(chunk), $(first), $(shape.n * 36);
|   mov.u32        $(zero), 0;
| $(again):
|   setp.ge.u32    $(more), $(chunk), $(ROWS * 36);
| @$(more) bra     $(over);
|   div.u32        $(row), $(chunk), 36;
|   mul.lo.u32     $(unit), $(row), 36;
|   sub.u32        $(unit), $(chunk), $(unit);
    place(a, to, row, unit)
|   st.shared.v4.u32 [$(to)], {$(zero), $(zero), $(zero), $(zero)};
|   add.u32        $(chunk), $(chunk), $(THREADS);
|   bra            $(again);
| $(over):
  end)
end

-- Bytes of all heads of one of a request's q query rows, those past DH included.
local function pitch(a) return 576 * (a.boxed and spec.qh or DH) end

-- First of all. a.query: what `copy` needs.
function hopper_query.prepare(a)
  section "query rows: from where, to where"
  local done = label "query_prepared"
  local function name(what) return "query_" .. what .. shape.suffix end
  a.query = { from = b32(name "from", COPIES, "bytes from the request's first"), to = b32(name "to", COPIES, "shared addresses"),
              size = PADDED and b32(name "size", COPIES, "16, or 0: the row is past the request's last") }
  scope(function()
    local other, first = pred "other_", b32 "first"
    for k = 0, COPIES - 1 do                            -- warpgroup 0 leaves them as they are
|   mov.u32        $(a.query.from[k]), 0;
|   mov.u32        $(a.query.to[k]), 0;
      if PADDED then
|   mov.u32        $(a.query.size[k]), 0;
      end
    end
|   setp.lt.u32    $(other), $(a.thread), 128;
| @$(other) bra    $(done);
|   sub.u32        $(first), $(a.thread), 128;
    if shape.n < ROWS and not shape.few then clear(a, first) end
    for k = 0, COPIES - 1 do
      scope(function()
        local chunk, row, unit, at = b32 "chunk", b32 "row", b32 "unit", b32 "at"
|   add.u32        $(chunk), $(first), $(THREADS * k);
|   min.u32        $(chunk), $(chunk), $(shape.n * 36 - 1);
|   div.u32        $(row), $(chunk), 36;
|   mul.lo.u32     $(unit), $(row), 36;
|   sub.u32        $(unit), $(chunk), $(unit);
        place(a, a.query.to[k], row, unit)
|   add.u32        $(row), $(row), $(a.row0);
        if PADDED then
          local live = pred "live"
|   setp.lt.u32    $(live), $(row), $(shape.rows);
|   selp.b32       $(a.query.size[k]), 16, 0, $(live);
|   selp.b32       $(row), $(row), 0, $(live);
        end
|   div.u32        $(at), $(row), $(DH);
|   rem.u32        $(row), $(row), $(DH);
|   mul.lo.u32     $(at), $(at), $(pitch(a));
|   mad.lo.u32     $(at), $(row), 576, $(at);
|   mad.lo.u32     $(a.query.from[k]), $(unit), 16, $(at);
      end)
    end
  end)
| $(done):
end

-- After the wait: warpgroups 1 to 3 ask for their bytes.
function hopper_query.copy(a)
  section "query rows"
  local done = label "query_asked"
  scope(function()
    local other, base, at = pred "other_", b64 "base", b64 "at"
|   setp.lt.u32    $(other), $(a.thread), 128;
    if a.boxed then
|   setp.ne.or.u32 $(other), $(a.dead), 0, $(other);     // nobody has waited for the queries of a dead box, and nobody uses them
    end
| @$(other) bra    $(done);
    if a.boxed then
|   ld.param.u64   $(base), [$(param.q_box)];
      include("lib/mailbox").q_parity(base, base, a.parity)
    else
|   ld.param.u64   $(base), [$(param.query)];
    end
|   mad.wide.u32   $(base), $(a.request), $(spec.q * pitch(a)), $(base);
    for k = 0, COPIES - 1 do
      local last = THREADS * (k + 1) > shape.n * 36 and label "no_more_chunks"
      if last then
|   setp.ge.u32    $(other), $(a.thread), $(128 + shape.n * 36 - THREADS * k);
| @$(other) bra    $(last);
      end
|   cvt.u64.u32    $(at), $(a.query.from[k]);
|   add.u64        $(at), $(at), $(base);
      if PADDED then
|   cp.async.cg.shared.global [$(a.query.to[k])], [$(at)], 16, $(a.query.size[k]);
      else
|   cp.async.cg.shared.global [$(a.query.to[k])], [$(at)], 16;
      end
      if last then
| $(last):
      end
    end
  end)
| $(done):
end

-- The softmax warpgroup waits for all rows; the PV warpgroups tell of theirs.
function hopper_query.there(waits)
|   cp.async.wait_all;
|   fence.proxy.async.shared::cta;
|   bar.$(waits and "sync" or "arrive") $(hopper_query.THERE), $(THREADS);
end

return hopper_query
end
