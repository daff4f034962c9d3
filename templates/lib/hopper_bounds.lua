-- hopper_bounds: how many local keys the rows of a CTA see, and which key tiles are its split's.
local shape = include "lib/hopper_shape"
local shard = include "lib/shard"
local hopper_bounds = {}

-- bound[..]: of the softmax thread's rows, where the CTA's shape is s.
function hopper_bounds.open_rows(a, s)
  a.bound = b32("bound" .. s.suffix, s.few and s.n // 4 or 2, "visible local keys of the softmax thread's rows")
end

-- most, least: of the request's rows; safe: the tiles before it are seen whole by all;
-- tile `split` is the CTA's first, then every live-th before `last`; last_page: of the live ones.
function hopper_bounds.open(a)
  hopper_bounds.open_rows(a, shape)
  a.most, a.least = b32("most", "largest bound of the request's rows"), b32 "least"
  a.safe = b32("safe", "tiles before it are seen whole by every row")
  a.last, a.last_page = b32("tile_end", "past the request's last tile"), b32 "last_page"
  a.old = b32("old", "tiles before it hold no key of this step")
  a.total, a.length = b32("total", "keys of the request, on all ranks"), b32("length", "on this one")
end

-- total, length := of the request `request`. Read before the wait.
function hopper_bounds.read(request, total, length)
  scope(function()
    local at = b64 "at"
|   ld.param.u64   $(at), [$(param.totals)];
|   mad.wide.u32   $(at), $(request), 4, $(at);
|   ld.global.s32  $(total), [$(at)];   // const_input
|   ld.param.u64   $(at), [$(param.lens)];
|   mad.wide.u32   $(at), $(request), 4, $(at);
|   ld.global.s32  $(length), [$(at)];   // const_input
|   max.s32        $(length), $(length), 0;
  end)
end

-- keys := what the request's last row sees; tiles := of it.
function hopper_bounds.tiles(tiles, total, length, b)
|   max.s32        $(tiles), $(total), 0;
  shard.local_keys(tiles, tiles, b and b.rank)
|   min.s32        $(tiles), $(tiles), $(length);
|   add.u32        $(tiles), $(tiles), $(shape.TILE - 1);
|   shr.u32        $(tiles), $(tiles), 6;
end

-- dst := what query row j of the request sees.
local function bound_of(dst, j, a, b)
  scope(function()
    local n = b32 "n"
|   add.s32        $(n), $(a.total), $(1 - spec.q);
|   add.s32        $(n), $(n), $(j);
    shard.local_keys(dst, n, b and b.rank)
|   min.s32        $(dst), $(dst), $(a.length);
  end)
end

-- a.bound, from a.row0 and a.most.
function hopper_bounds.find_rows(a, b, s)
  for k = 0, s.few and s.n // 4 - 1 or 1 do
    if spec.q == 1 then
|   mov.u32        $(a.bound[k]), $(a.most);
    else
      scope(function()
        local row = b32 "row"
        if s.few then                                   -- rows 8 i + 2 quarter + e, k = 2 i + e
|   mad.lo.u32     $(row), $(a.quarter), 2, $(a.row0);
|   add.u32        $(row), $(row), $(8 * (k // 2) + k % 2);
        else                                            -- 16 w + group and + 8
|   mad.lo.u32     $(row), $(a.w), 16, $(a.row0);
|   add.u32        $(row), $(row), $(a.group);
|   add.u32        $(row), $(row), $(8 * k);
        end
|   div.u32        $(row), $(row), $(s.dh);
        bound_of(a.bound[k], row, a, b)
      end)
    end
  end
end

-- From a.total and a.length.
function hopper_bounds.find(a, b)
  section "bounds"
  scope(function()
    bound_of(a.most, spec.q - 1, a, b)                  -- bounds grow with the query row
    hopper_bounds.find_rows(a, b, shape)
    bound_of(a.least, 0, a, b)
    bound_of(a.old, -1, a, b)
|   shr.u32        $(a.old), $(a.old), 6;
|   shr.u32        $(a.safe), $(a.least), 6;
|   add.u32        $(a.last), $(a.most), $(shape.TILE - 1);
|   shr.u32        $(a.last), $(a.last), 6;
|   sub.u32        $(a.last_page), $(a.most), 1;
|   shr.u32        $(a.last_page), $(a.last_page), $(math.tointeger(math.log(shape.PAGE, 2)));
  end)
end

return hopper_bounds
