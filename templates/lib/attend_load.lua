-- attend_load: what comes into shared memory: query rows once, a tile's key rows by cp.async, each row's 576 bytes once for scores
-- and products both. Four threads a key row: thread `part` copies the 16-byte units part, part + 4, ... The `loaders` warps take 8 rows each
-- in each of `passes`. Called by their threads alone.
local shape = include "lib/attend_shape"
local attend_load = {}
local DH, PAGE = spec.dcp * spec.heads, spec.page

local STEP = 8 * shape.loaders                          -- keys from one pass to the next

-- key: the thread's row of a tile; part; place: where they lie in a stage. Lanes 0..7 take two keys that are 4 apart: no bank twice.
function attend_load.open(a)
  a.key, a.part, a.place = b32("key", "this thread's key of a tile, first pass"), b32 "part", b32("place", "its first unit in a stage")
  a.page = b32("page", shape.passes, "pages of its keys in the tile to be loaded next")
  scope(function()
    local half = b32 "half"
|   and.b32        $(a.part), $(a.lane), 3;
|   shr.u32        $(a.key), $(a.lane), 3;
|   shr.u32        $(half), $(a.lane), 2;
|   and.b32        $(half), $(half), 1;
|   mad.lo.u32     $(a.key), $(half), 4, $(a.key);
|   mad.lo.u32     $(a.key), $(a.loader), 8, $(a.key);
|   mul.lo.u32     $(a.place), $(a.key), $(shape.PITCH);
|   mad.lo.u32     $(a.place), $(a.part), 16, $(a.place);
  end)
end

-- Query rows first + 0 .. STEP - 1 of the CTA's, from `base`.
local function query_pass(a, b, base, first)
  local beyond = label "query_asked"
  scope(function()
    local row, place, at, to, live, size, more = b32 "row", b32 "place", b64 "at", b32 "to", pred "live", b32 "size", pred "more"
|   shr.u32        $(row), $(a.lane), 2;
|   mad.lo.u32     $(row), $(a.loader), 8, $(row);
    if first + STEP > shape.rows then
|   setp.ge.u32    $(more), $(row), $(shape.rows - first);
| @$(more) bra     $(beyond);
    end
    if first > 0 then
|   add.u32        $(row), $(row), $(first);
    end
|   add.u32        $(to), $(a.memory), $(shape.query_place);
|   mad.lo.u32     $(to), $(row), $(shape.PITCH), $(to);
|   mad.lo.u32     $(to), $(a.part), 16, $(to);
|   add.u32        $(row), $(row), $(a.row0);
|   setp.lt.u32    $(live), $(row), $(a.rows);
|   selp.b32       $(size), 16, 0, $(live);
|   selp.b32       $(row), $(row), 0, $(live);
|   div.u32        $(place), $(row), $(DH);
|   rem.u32        $(row), $(row), $(DH);
|   mad.lo.u32     $(place), $(a.request), $(spec.q), $(place);
|   mad.lo.u32     $(place), $(place), $(b and spec.qh or DH), $(row);
|   mad.lo.u32     $(place), $(place), 36, $(a.part);
|   mad.wide.u32   $(at), $(place), 16, $(base);
    for i = 0, 8 do
|   cp.async.cg.shared.global [$(to)+$(64 * i)], [$(at)+$(64 * i)], 16, $(size);
    end
  end)
| $(beyond):
end

-- The CTA's query rows -> shared [rows][592] at query_place; rows past the last: zeros.
function attend_load.query(a, b)
  section "query rows"
  scope(function()
    local base = b64 "base"
    if b then
|   ld.param.u64   $(base), [$(param.q_box)];
      include("lib/mailbox").q_parity(base, base, b.parity)
    else
|   ld.param.u64   $(base), [$(param.query)];
    end
    for first = 0, shape.rows - 1, STEP do query_pass(a, b, base, first) end
  end)
end

-- key := the thread's local key of tile `tile` in a pass; exists: below `most`.
local function local_key(a, tile, pass, key, exists)
|   mad.lo.u32     $(key), $(tile), $(shape.TILE), $(a.key);
  if pass > 0 then
|   add.u32        $(key), $(key), $(STEP * pass);
  end
|   setp.lt.u32    $(exists), $(key), $(a.most);
end

-- page := of the thread's key in tile `tile`, 0 for a key at or past `most`: its table entry is not read.
local function page_of(a, tile, pass)
  scope(function()
    local key, entry, place, pages, exists = b32 "key_", b64 "entry", b32 "place_", b32 "pages", pred "exists"
    local_key(a, tile, pass, key, exists)
|   ld.param.u64   $(entry), [$(param.block_table)];
|   ld.param.u32   $(pages), [$(param.max_pages)];
|   shr.u32        $(place), $(key), $(math.tointeger(math.log(PAGE, 2)));
|   mad.lo.u32     $(place), $(a.request), $(pages), $(place);
|   mad.wide.u32   $(entry), $(place), 4, $(entry);
|   mov.u32        $(a.page[pass]), 0;
| @$(exists) ld.global.u32 $(a.page[pass]), [$(entry)];
  end)
end

function attend_load.page(a, tile)
  for pass = 0, shape.passes - 1 do page_of(a, tile, pass) end
end

local function keys_of(a, tile, stage, pass)
  scope(function()
    local key, inside, stride, at, wide = b32 "key_", b32 "inside", b64 "stride", b64 "at", b64 "wide"
    local size, to, exists = b32 "size", b32 "to", pred "exists"
    local_key(a, tile, pass, key, exists)
|   selp.b32       $(size), 16, 0, $(exists);
|   ld.param.u64   $(stride), [$(param.page_stride)];
|   ld.param.u64   $(at), [$(param.kv_cache)];
|   cvt.u64.u32    $(wide), $(a.page[pass]);
|   mad.lo.u64     $(at), $(wide), $(stride), $(at);
|   and.b32        $(inside), $(key), $(PAGE - 1);
|   mul.lo.u32     $(inside), $(inside), 576;
|   mad.lo.u32     $(inside), $(a.part), 16, $(inside);
|   cvt.u64.u32    $(wide), $(inside);
|   add.u64        $(at), $(at), $(wide);
|   add.u32        $(to), $(stage), $(a.place);
    for i = 0, 8 do
|   cp.async.cg.shared.global [$(to)+$(64 * i + STEP * shape.PITCH * pass)], [$(at)+$(64 * i)], 16, $(size);
    end
  end)
end

-- The thread's units of tile `tile` (its pages are in `page`) -> the stage at `stage`; a key at or past `most` becomes zeros, unread.
function attend_load.keys(a, tile, stage)
  for pass = 0, shape.passes - 1 do keys_of(a, tile, stage, pass) end
end

return attend_load
