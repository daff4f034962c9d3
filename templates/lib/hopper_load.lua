-- hopper_load: the producer warp of mla_decode's form for sm_90a: page ids from the block table, a ring of key stages filled by tensor
-- copies. A pair of CTAs loads each half of a tile and gives it to both.
local shape = include "lib/hopper_shape"
local mbarrier = include "lib/mbarrier"
local hopper_load = {}
local PAGES = shape.TILE // shape.PAGE                  -- of a tile
local BATCH = 32 // PAGES                               -- tiles whose page ids the warp holds
local WHOLE = shape.PAGE == 64                          -- one copy takes all the tile's latents of this CTA

-- One tensor copy of a map to `to`; c: coordinates, x first. Before the wait only tiles of older steps are asked for.
local function copy(map, c, to, bar, mask)
  local names = {}
  for i, value in ipairs(c) do names[i] = tostring(value) end
|   cp.async.bulk.tensor.$(#c)d.shared::cluster.global.mbarrier::complete_tx::bytes$(mask and ".multicast::cluster" or "")
|       [$(to)], [$(map), {$(table.concat(names, ", "))}], [$(bar)]$(mask and ", " .. tostring(mask) or "");   // const_input
end

-- One thread: the tile's bytes (pages[i]) -> the stage at `stage`; this CTA's half where there is a pair.
local function tile(a, pages, stage, bar)
  scope(function()
    local to, x, row = b32 "to", b32 "x", b32 "row"
    local half = shape.LATENT // shape.pair
    local mask = a.mask
    if WHOLE then
|   mad.lo.u32     $(to), $(a.half), $(half), $(stage);
|   mul.lo.u32     $(x), $(a.half), $(4 // shape.pair);
      copy(a.latent_map, { 0, 0, pages[0], x }, to, bar, mask)
|   mad.lo.u32     $(to), $(a.half), $(4096 // shape.pair), $(stage);
|   add.u32        $(to), $(to), $(shape.LATENT);
|   mul.lo.u32     $(row), $(a.half), $(64 // shape.pair);
      copy(a.rope_map, { 0, row, pages[0] }, to, bar, mask)
      return
    end
    for p = 0, PAGES - 1 do
      for sub = 0, 4 // shape.pair - 1 do
|   mad.lo.u32     $(to), $(a.half), $(half), $(stage);
|   add.u32        $(to), $(to), $(sub * 8192 + p * shape.PAGE * 128);
|   mad.lo.u32     $(x), $(a.half), $(512 // shape.pair), $(128 * sub);
        copy(a.latent_map, { x, 0, pages[p] }, to, bar, mask)
      end
    end
    for p = 0, PAGES // shape.pair - 1 do
|   mad.lo.u32     $(to), $(a.half), $(4096 // shape.pair), $(stage);
|   add.u32        $(to), $(to), $(shape.LATENT + p * shape.PAGE * 64);
      if shape.pair == 1 then
        copy(a.rope_map, { 0, 0, pages[p] }, to, bar, mask)
      else
        scope(function()
          local page, second = b32 "page_", pred "second"
|   setp.ne.u32    $(second), $(a.half), 0;
|   selp.b32       $(page), $(pages[PAGES // 2 + p]), $(pages[p]), $(second);
          copy(a.rope_map, { 0, 0, page }, to, bar, mask)
        end)
      end
    end
  end)
end

-- id := the lane's page of the batch of tiles that begins at tile `from`: entries past the last live page are not read, the last live one
-- stands for them.
local function batch(a, id, from)
  scope(function()
    local entry, place, at, pages = b32 "entry", b32 "place", b64 "at", b32 "pages"
|   shr.u32        $(entry), $(a.lane), $(math.tointeger(math.log(PAGES, 2)));
|   mad.lo.u32     $(entry), $(entry), $(a.live), $(from);
|   mul.lo.u32     $(entry), $(entry), $(PAGES);
    if PAGES > 1 then
      scope(function()
        local inside = b32 "inside"
|   and.b32        $(inside), $(a.lane), $(PAGES - 1);
|   add.u32        $(entry), $(entry), $(inside);
      end)
    end
|   min.u32        $(entry), $(entry), $(a.last_page);
|   ld.param.u32   $(pages), [$(param.max_pages)];
|   mad.lo.u32     $(place), $(a.request), $(pages), $(entry);
|   ld.param.u64   $(at), [$(param.block_table)];
|   mad.wide.u32   $(at), $(place), 4, $(at);
|   ld.global.u32  $(id), [$(at)];   // const_input
  end)
end

-- Warp 1, first of all: page ids of the request that is this CTA's if all lengths are equal, towards the L2, while others find out which
-- it is. A line a lane: of the first 1024 pages.
function hopper_load.foresee(a)
  local done = label "foreseen"
  scope(function()
    local other, request, pages, line, at = pred "other_", b32 "request_", b32 "pages_", b32 "line", b64 "at"
|   setp.ne.u32    $(other), $(a.warp), 1;
| @$(other) bra    $(done);
    if shape.columns > 0 then
|   mov.u32        $(request), %ctaid.y;
|   mul.lo.u32     $(request), $(request), $(shape.requests);
|   div.u32        $(request), $(request), $(shape.columns);
    else
|   mov.u32        $(request), %ctaid.z;
    end
|   ld.param.u32   $(pages), [$(param.max_pages)];
|   shl.b32        $(line), $(a.lane), 5;
|   setp.ge.u32    $(other), $(line), $(pages);
| @$(other) bra    $(done);
|   mad.lo.u32     $(line), $(request), $(pages), $(line);
|   ld.param.u64   $(at), [$(param.block_table)];
|   mad.wide.u32   $(at), $(line), 4, $(at);
|   prefetch.global.L2 [$(at)];   // const_input
  end)
| $(done):
end

-- State of the producer warp, from before the wait to its end.
function hopper_load.open(a)
  local p = { t = b32("fill", "tile to ask for"), id = b32("id", "page of this lane"), next = b32("next", "of the batch after"),
              index = b32("index", "in the batch"), stage = b32("fill_stage", "stage to fill"), parity = b32("fill_parity", "of its FREE"),
              early = b32("early", "tiles asked for before the wait") }
  a.fill = p
end

-- Tiles p.t, p.t + live, ... before `limit`. early: the ring is empty, nobody frees stages yet.
local function fill(a, p, limit, early)
  local again, out = label "fill", label "filled"
  scope(function()
    local pages, leader, over = b32("pages", PAGES), pred "leader", pred "over"
    local at, bar, skip = b32 "at", b32 "bar", label "not_leader"
|   setp.eq.u32    $(leader), $(a.lane), 0;
|   setp.ge.u32    $(over), $(p.t), $(limit);
| @$(over) bra     $(out);
| $(again):
    for i = 0, PAGES - 1 do
      scope(function()
        local lane = b32 "from_lane"
|   mad.lo.u32     $(lane), $(p.index), $(PAGES), $(i);
|   shfl.sync.idx.b32 $(pages[i]), $(p.id), $(lane), 31, 0xffffffff;
      end)
    end
| @!$(leader) bra  $(skip);
|   mad.lo.u32     $(at), $(p.stage), $(shape.STAGE), $(a.memory);
|   mad.lo.u32     $(bar), $(p.stage), 8, $(a.memory);
|   add.u32        $(bar), $(bar), $(shape.FULL);
    if not early then mbarrier.wait(bar, shape.FREE - shape.FULL, p.parity, shape.pair > 1) end
    mbarrier.expect(bar, 0, shape.STAGE)
    tile(a, pages, at, bar)
| $(skip):
|   bar.warp.sync  0xffffffff;
    a.next(p.stage, p.parity, shape.stages)
|   add.u32        $(p.index), $(p.index), 1;
|   add.u32        $(p.t), $(p.t), $(a.live);
    if early then
|   add.u32        $(p.early), $(p.early), 1;
    else
      local same = label "same_batch"
|   setp.ne.u32    $(over), $(p.index), $(BATCH);
| @$(over) bra     $(same);
|   mov.u32        $(p.index), 0;
|   mov.u32        $(p.id), $(p.next);
      scope(function()
        local from = b32 "from"
|   mad.lo.u32     $(from), $(a.live), $(BATCH), $(p.t);
        batch(a, p.next, from)
      end)
| $(same):
    end
|   setp.lt.u32    $(over), $(p.t), $(limit);
| @$(over) bra     $(again);
  end)
| $(out):
end

-- Warp 0, before the wait: as many stages as hold keys of older steps alone. They are what they were when this step began: only rows of
-- its tokens are written in it. Nothing where the step itself follows the last one by a programmatic edge (CHAIN_WAITS): then no kernel
-- since has known, as it began, what older steps wrote.
function hopper_load.start(a)
  section "before the wait: page ids, and key tiles of older steps"
  local p, out = a.fill, label "started"
  scope(function()
    local idle, limit, most, from = pred "idle", b32 "limit", b32 "most_", b32 "from"
|   mov.u32        $(p.early), 0;
|   setp.ne.u32    $(idle), $(a.warp), 0;
|   setp.ge.or.u32 $(idle), $(a.split), $(a.last), $(idle);
| @$(idle) bra     $(out);
|   mov.u32        $(p.t), $(a.split);
|   mov.u32        $(p.index), 0;
|   mov.u32        $(p.stage), 0;
|   mov.u32        $(p.parity), 1;                       // the ring is free at first
    batch(a, p.id, p.t)
|   mad.lo.u32     $(from), $(a.live), $(BATCH), $(p.t);
    batch(a, p.next, from)
    if shape.folded and shape.folded.early > shape.early then
|   selp.b32       $(most), $(shape.folded.early), $(shape.early), $(a.folded);
|   mad.lo.u32     $(most), $(a.live), $(most), $(p.t);
    else
|   mad.lo.u32     $(most), $(a.live), $(shape.early), $(p.t);
    end
|   min.u32        $(limit), $(a.old), $(most);
    scope(function()
      local flag, chained = b32 "flag", pred "chained"
|   ld.param.u32   $(flag), [$(param.chain_waits)];
|   setp.ne.u32    $(chained), $(flag), 0;
|   selp.b32       $(limit), 0, $(limit), $(chained);
    end)
    fill(a, p, limit, true)
  end)
| $(out):
end

-- The box is dead: nobody takes what was asked for; it has to be there before the CTA ends.
local function drain(a, p)
  local none, again = label "not_dead", label "drain"
  scope(function()
    local dead, bar, more = pred "dead_", b32 "bar", pred "more"
|   setp.ne.u32    $(dead), $(a.dead), 0;
|   setp.ne.and.u32 $(dead), $(p.early), 0, $(dead);
| @!$(dead) bra    $(none);
|   mov.u32        $(bar), $(a.memory);
| $(again):
    mbarrier.wait(bar, shape.FULL, 0)
|   add.u32        $(bar), $(bar), 8;
|   sub.u32        $(p.early), $(p.early), 1;
|   setp.ne.u32    $(more), $(p.early), 0;
| @$(more) bra     $(again);
  end)
| $(none):
end

-- Warp 0, after the wait: tile a.split and every a.live-th before a.last.
function hopper_load.run(a)
  section "producer: one warp fills the ring"
  local p, out = a.fill, label "produced"
  scope(function()
    local idle = pred "idle"
|   setp.ne.u32    $(idle), $(a.warp), 0;
| @$(idle) bra     $(out);
    if a.boxed then drain(a, p) end
|   setp.ge.u32    $(idle), $(a.split), $(a.last);
| @$(idle) bra     $(out);
    fill(a, p, a.last, false)
  end)
| $(out):
end

return hopper_load
