-- hopper_bounds: how many local keys the rows of a CTA see, and which key tiles are its split's.
local shape = include "lib/hopper_shape"
local shard = include "lib/shard"
local hopper_bounds = {}

-- live := clusters that work on a request of so many key tiles.
function hopper_bounds.clusters(live, tiles)
|   add.u32        $(live), $(tiles), $(shape.LEAST * shape.share - 1);
|   div.u32        $(live), $(live), $(shape.LEAST * shape.share);
|   max.u32        $(live), $(live), 1;
|   min.u32        $(live), $(live), $(shape.clusters);
end

-- bound[0..1]: of the softmax thread's rows; most, least: of the request's rows; safe: the tiles before it are seen whole by all;
-- tile `split` is the CTA's first, then every step-th before `last`; last_page: of the live ones.
function hopper_bounds.open(a)
  a.bound = b32("bound", 2, "visible local keys of rows 16 w + group and + 8")
  a.most, a.least = b32("most", "largest bound of the request's rows"), b32 "least"
  a.safe = b32("safe", "tiles before it are seen whole by every row")
  a.last, a.last_page = b32("tile_end", "past the request's last tile"), b32 "last_page"
  a.live, a.step = b32("live", "clusters that work on the request"), b32("step", "tiles from one of the CTA's to its next")
end

function hopper_bounds.find(a, b)
  section "bounds"
  scope(function()
    local at, total, length = b64 "at", b32 "total_", b32 "length"
|   ld.param.u64   $(at), [$(param.totals)];
|   mad.wide.u32   $(at), $(a.request), 4, $(at);
|   ld.global.s32  $(total), [$(at)];
|   ld.param.u64   $(at), [$(param.lens)];
|   mad.wide.u32   $(at), $(a.request), 4, $(at);
|   ld.global.s32  $(length), [$(at)];
|   max.s32        $(length), $(length), 0;
    local function bound_of(dst, j)
      scope(function()
        local n = b32 "n"
|   add.s32        $(n), $(total), $(1 - spec.q);
|   add.s32        $(n), $(n), $(j);
        shard.local_keys(dst, n, b and b.rank)
|   min.s32        $(dst), $(dst), $(length);
      end)
    end
    for r = 0, 1 do
      scope(function()
        local row = b32 "row"
|   mad.lo.u32     $(row), $(a.w), 16, $(a.row0);
|   add.u32        $(row), $(row), $(a.group);
|   add.u32        $(row), $(row), $(8 * r);
|   div.u32        $(row), $(row), $(shape.dh);
        bound_of(a.bound[r], row)
      end)
    end
    bound_of(a.most, spec.q - 1)                        -- bounds grow with the query row
    bound_of(a.least, 0)
|   shr.u32        $(a.safe), $(a.least), 6;
|   add.u32        $(a.last), $(a.most), $(shape.TILE - 1);
|   shr.u32        $(a.last), $(a.last), 6;
    hopper_bounds.clusters(a.live, a.last)
|   mul.lo.u32     $(a.step), $(a.live), $(shape.share);
|   sub.u32        $(a.last_page), $(a.most), 1;
|   shr.u32        $(a.last_page), $(a.last_page), $(math.tointeger(math.log(shape.PAGE, 2)));
  end)
end

return hopper_bounds
