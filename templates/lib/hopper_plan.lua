-- hopper_plan: which request a column of CTAs works on, and as which of its splits. No host knows the lengths: every CTA finds out by
-- itself, before the wait, from the lengths of all requests.
--   each = least number of key tiles such that sum over the requests of max(1, ceil(tiles / each)) is at most the columns;
--   request r has as many splits as its term says, and the columns follow the requests in order. So no column has more than `each` tiles,
--   and no other deal of whole tiles has a smaller maximum.
-- Where the launch has so few tiles that the folded shape's columns (lib/hopper_shape) have at most `each` of them, the same deal is made of
-- those: fewer rows to read, to give away and to add up, for tiles that idle multiprocessors take again, from the L2.
-- Warp 0 works it out, one request a lane (and 32 on), and leaves it in shared memory for the others.
local shape = include "lib/hopper_shape"
local hopper_bounds = include "lib/hopper_bounds"
local hopper_place = include "lib/hopper_place"
local hopper_plan = {}
local ROUNDS = ceil_div(shape.requests, 32)
local folded = shape.folded

-- sum := over all lanes of max(1, ceil(tiles / each)), of requests that there are.
local function columns(p, sum, each)
  scope(function()
    local one = b32 "one"
|   mov.u32        $(sum), 0;
    for k = 0, ROUNDS - 1 do
|   add.u32        $(one), $(p.tiles[k]), $(each);
|   sub.u32        $(one), $(one), 1;
|   div.u32        $(one), $(one), $(each);
|   max.u32        $(one), $(one), $(p.one[k]);
|   add.u32        $(sum), $(sum), $(one);
    end
|   redux.sync.add.u32 $(sum), $(sum), 0xffffffff;
  end)
end

-- tiles[k], total[k], length[k] of request lane + 32 k; one[k]: 1 where there is such a request.
local function read(a, b, p)
  for k = 0, ROUNDS - 1 do
    scope(function()
      local request, there = b32 "request_", pred "there"
|   add.u32        $(request), $(a.lane), $(32 * k);
|   setp.lt.u32    $(there), $(request), $(shape.requests);
|   selp.b32       $(p.one[k]), 1, 0, $(there);
|   min.u32        $(request), $(request), $(shape.requests - 1);
      hopper_bounds.read(request, p.total[k], p.length[k])
      hopper_bounds.tiles(p.tiles[k], p.total[k], p.length[k], b)
|   selp.b32       $(p.tiles[k]), $(p.tiles[k]), 0, $(there);
    end)
  end
end

-- p.folded, p.columns: which shape is dealt out.
local function choose(p)
  if not folded then
    p.columns = shape.columns
    return
  end
  p.folded, p.columns = pred("folded_", "few tiles"), b32("columns", "of the shape")
  columns(p, p.columns, folded.each)
|   setp.le.u32    $(p.folded), $(p.columns), $(folded.columns);
|   selp.b32       $(p.columns), $(folded.columns), $(shape.columns), $(p.folded);
end

-- dst := sum / of(shape), rounded up.
local function share_out(p, dst, sum, of)
|   add.u32        $(dst), $(sum), $(of(shape) - 1);
|   div.u32        $(dst), $(dst), $(of(shape));
  if folded then
    scope(function()
      local other = b32 "other"
|   add.u32        $(other), $(sum), $(of(folded) - 1);
|   div.u32        $(other), $(other), $(of(folded));
|   selp.b32       $(dst), $(other), $(dst), $(p.folded);
    end)
  end
end

-- p.each := the least that fits: between all tiles over all columns, and what fits for sure.
local function search(p)
  local again, found = label "halve", label "each_found"
  scope(function()
    local low, high, sum, fits, middle = b32 "low", b32 "high", b32 "sum", pred "fits", b32 "middle"
|   mov.u32        $(sum), 0;
    for k = 0, ROUNDS - 1 do
|   add.u32        $(sum), $(sum), $(p.tiles[k]);
    end
|   redux.sync.add.u32 $(sum), $(sum), 0xffffffff;
    share_out(p, low, sum, function(s) return s.columns end)
|   max.u32        $(low), $(low), 1;
    share_out(p, high, sum, function(s) return s.columns - s.requests end)
|   max.u32        $(high), $(high), $(low);
|   mov.u32        $(middle), $(low);                    // fits at once where lengths are equal
| $(again):
    columns(p, sum, middle)
|   setp.le.u32    $(fits), $(sum), $(p.columns);
|   selp.b32       $(high), $(middle), $(high), $(fits);
|   add.u32        $(middle), $(middle), 1;
|   selp.b32       $(low), $(low), $(middle), $(fits);
|   setp.ge.u32    $(fits), $(low), $(high);
|   add.u32        $(middle), $(low), $(high);
|   shr.u32        $(middle), $(middle), 1;
| @!$(fits) bra    $(again);
|   mov.u32        $(p.each), $(high);
  end)
end

-- The lane of the request that this column belongs to leaves request, split, splits | total, length.
local function find(a, p, column)
  scope(function()
    local before, most, live, mine, other, past, at = b32 "before", b32 "most_", b32 "live_", pred "mine", b32 "other", pred "past", b32 "at"
|   mov.u32        $(before), 0;
    for k = 0, ROUNDS - 1 do
|   add.u32        $(live), $(p.tiles[k]), $(p.each);
|   sub.u32        $(live), $(live), 1;
|   div.u32        $(live), $(live), $(p.each);
|   max.u32        $(live), $(live), $(p.one[k]);
|   mov.u32        $(most), $(live);                     // inclusive sum over the lanes
      for _, lanes in ipairs { 1, 2, 4, 8, 16 } do
|   shfl.sync.up.b32 $(other), $(most), $(lanes), 0, 0xffffffff;
|   setp.ge.u32    $(past), $(a.lane), $(lanes);
| @$(past) add.u32 $(most), $(most), $(other);
      end
|   add.u32        $(most), $(most), $(before);
|   setp.lt.u32    $(mine), $(column), $(most);
|   sub.u32        $(at), $(most), $(live);
|   setp.ge.and.u32 $(mine), $(column), $(at), $(mine);
|   sub.u32        $(at), $(column), $(at);
|   add.u32        $(other), $(a.lane), $(32 * k);
| @$(mine) st.shared.v4.u32 [$(a.memory)+$(shape.PLAN)], {$(other), $(at), $(live), $(p.total[k])};
| @$(mine) st.shared.u32 [$(a.memory)+$(shape.PLAN + 16)], $(p.length[k]);
|   shfl.sync.idx.b32 $(before), $(most), 31, 31, 0xffffffff;
    end
  end)
end

-- Warp 0, before the CTA's first barrier.
function hopper_plan.make(a, b)
  section "plan: which request, which of its splits"
  local others, done = label "not_planning", label "planned"
  scope(function()
    local p = { tiles = b32("tiles", ROUNDS), total = b32("total_", ROUNDS), length = b32("length_", ROUNDS), one = b32("one_", ROUNDS) }
    local column, other = b32 "column", pred "other_"
    p.each = b32("each", "most tiles of a column")
|   setp.ne.u32    $(other), $(a.warp), 0;
| @$(other) bra    $(others);
    hopper_place.column(column, shape)
    scope(function()
      local zero, first = b32 "zero", pred "first"
|   mov.u32        $(zero), 0;
|   setp.eq.u32    $(first), $(a.lane), 0;
| @$(first) st.shared.v4.u32 [$(a.memory)+$(shape.PLAN)], {$(zero), $(zero), $(zero), $(zero)};   // no splits: the column is idle
| @$(first) st.shared.u32 [$(a.memory)+$(shape.PLAN + 16)], $(zero);
|   bar.warp.sync  0xffffffff;
    end)
    read(a, b, p)
    choose(p)
    search(p)
    if folded then
      scope(function()
        local other, first = b32 "other_column", pred "first_"
        hopper_place.column(other, folded)
|   selp.b32       $(column), $(other), $(column), $(p.folded);
|   selp.b32       $(other), 1, 0, $(p.folded);
|   setp.eq.u32    $(first), $(a.lane), 0;
| @$(first) st.shared.u32 [$(a.memory)+$(shape.PLAN + 20)], $(other);
      end)
    end
    find(a, p, column)
  end)
| $(others):
end

-- All threads, after the barrier. a.folded: the CTA has the folded shape.
function hopper_plan.take(a)
|   ld.shared.v4.u32 {$(a.request), $(a.split), $(a.live), $(a.total)}, [$(a.memory)+$(shape.PLAN)];
  if not folded then
|   ld.shared.u32  $(a.length), [$(a.memory)+$(shape.PLAN + 16)];
    return
  end
  a.folded = pred("folded", "a part of the rows: the tiles are few")
  scope(function()
    local word = b32 "folded_word"
|   ld.shared.v2.u32 {$(a.length), $(word)}, [$(a.memory)+$(shape.PLAN + 16)];
|   setp.ne.u32    $(a.folded), $(word), 0;
|   vote.sync.any.pred $(a.folded), $(a.folded), 0xffffffff;   // the same in all threads
  end)
end

return hopper_plan
