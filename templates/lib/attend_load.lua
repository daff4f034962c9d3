-- attend_load: what comes into shared memory: query rows once, a tile's key rows by cp.async, each row's 576 bytes once for scores
-- and products both. Four threads a key row: thread `part` copies the 16-byte units part, part + 4, ...
local shape = include "lib/attend_shape"
local attend_load = {}
local DH, PAGE = spec.dcp * spec.heads, spec.page

-- key: the thread's row of a tile; part; place: where they lie in a stage. Lanes 0..7 take two keys that are 4 apart: no bank twice.
function attend_load.open(a)
  a.key, a.part, a.place = b32("key", "this thread's key of a tile"), b32 "part", b32("place", "its first unit in a stage")
  a.page = b32("page", "page of its key in the tile to be loaded next")
  scope(function()
    local half = b32 "half"
|   and.b32        $(a.part), $(a.lane), 3;
|   shr.u32        $(a.key), $(a.lane), 3;
|   shr.u32        $(half), $(a.lane), 2;
|   and.b32        $(half), $(half), 1;
|   mad.lo.u32     $(a.key), $(half), 4, $(a.key);
|   mad.lo.u32     $(a.key), $(a.warp), 8, $(a.key);
|   mul.lo.u32     $(a.place), $(a.key), $(shape.PITCH);
|   mad.lo.u32     $(a.place), $(a.part), 16, $(a.place);
  end)
end

-- The tile's query rows -> shared [rows][592]; rows past the last: zeros.
function attend_load.query(a, b)
  section "query rows"
  scope(function()
    local base, place, at, to, live = b64 "base", b32 "place", b64 "at", b32 "to", pred "live"
    local row, size, beyond, done = b32 "row", b32 "size", pred "beyond", label "query_asked"
    if b then
|   ld.param.u64   $(base), [$(param.q_box)];
      include("lib/mailbox").q_parity(base, base, b.parity)
    else
|   ld.param.u64   $(base), [$(param.query)];
    end
|   shr.u32        $(row), $(a.thread), 2;
|   setp.ge.u32    $(beyond), $(row), $(shape.rows);
| @$(beyond) bra   $(done);
|   add.u32        $(to), $(a.memory), $(shape.QUERY);
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
| $(done):
  end)
end

-- key := the thread's local key of tile `tile`; exists: below `most`.
local function local_key(a, tile, key, exists)
|   mad.lo.u32     $(key), $(tile), $(shape.TILE), $(a.key);
|   setp.lt.u32    $(exists), $(key), $(a.most);
end

-- page := of the thread's key in tile `tile`, 0 for a key at or past `most`: its table entry is not read.
function attend_load.page(a, tile)
  scope(function()
    local key, entry, place, pages, exists = b32 "key_", b64 "entry", b32 "place_", b32 "pages", pred "exists"
    local_key(a, tile, key, exists)
|   ld.param.u64   $(entry), [$(param.block_table)];
|   ld.param.u32   $(pages), [$(param.max_pages)];
|   shr.u32        $(place), $(key), $(math.tointeger(math.log(PAGE, 2)));
|   mad.lo.u32     $(place), $(a.request), $(pages), $(place);
|   mad.wide.u32   $(entry), $(place), 4, $(entry);
|   mov.u32        $(a.page), 0;
| @$(exists) ld.global.u32 $(a.page), [$(entry)];
  end)
end

-- The thread's units of tile `tile` (its page is in `page`) -> the stage at `stage`; a key at or past `most` becomes zeros, unread.
function attend_load.keys(a, tile, stage)
  scope(function()
    local key, inside, stride, at, wide = b32 "key_", b32 "inside", b64 "stride", b64 "at", b64 "wide"
    local size, to, exists = b32 "size", b32 "to", pred "exists"
    local_key(a, tile, key, exists)
|   selp.b32       $(size), 16, 0, $(exists);
|   ld.param.u64   $(stride), [$(param.page_stride)];
|   ld.param.u64   $(at), [$(param.kv_cache)];
|   cvt.u64.u32    $(wide), $(a.page);
|   mad.lo.u64     $(at), $(wide), $(stride), $(at);
|   and.b32        $(inside), $(key), $(PAGE - 1);
|   mul.lo.u32     $(inside), $(inside), 576;
|   mad.lo.u32     $(inside), $(a.part), 16, $(inside);
|   cvt.u64.u32    $(wide), $(inside);
|   add.u64        $(at), $(at), $(wide);
|   add.u32        $(to), $(stage), $(a.place);
    for i = 0, 8 do
|   cp.async.cg.shared.global [$(to)+$(64 * i)], [$(at)+$(64 * i)], 16, $(size);
    end
|   cp.async.commit_group;
  end)
end

return attend_load
