-- hopper_load: the producer warp of mla_decode's form for sm_90a: page ids from the block table, a ring of key stages filled by tensor
-- copies. A pair of CTAs loads each half of a tile and gives it to both.
local shape = include "lib/hopper_shape"
local mbarrier = include "lib/mbarrier"
local hopper_load = {}
local PAGES = shape.TILE // shape.PAGE                  -- of a tile
local BATCH = 32 // PAGES                               -- tiles whose page ids the warp holds
local WHOLE = shape.PAGE == 64                          -- one copy takes all the tile's latents of this CTA

-- One tensor copy of a map to `to`; c: coordinates, x first.
local function copy(map, c, to, bar, mask)
  local names = {}
  for i, value in ipairs(c) do names[i] = tostring(value) end
|   cp.async.bulk.tensor.$(#c)d.shared::cluster.global.mbarrier::complete_tx::bytes$(mask and ".multicast::cluster" or "")
|       [$(to)], [$(map), {$(table.concat(names, ", "))}], [$(bar)]$(mask and ", " .. tostring(mask) or "");
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
|   mad.lo.u32     $(entry), $(entry), $(a.step), $(from);
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
|   ld.global.u32  $(id), [$(at)];
  end)
end

-- The page of the CTA's first tile, asked for before the request's length is known: an entry of the table's row in any case.
function hopper_load.ask(a)
  if PAGES > 1 then return end
  a.first_page = b32("first_page", "page of tile `split`, if there is such a tile")
  scope(function()
    local entry, place, at, pages, last_ = b32 "entry", b32 "place", b64 "at", b32 "pages", b32 "last_"
|   ld.param.u32   $(pages), [$(param.max_pages)];
|   sub.u32        $(last_), $(pages), 1;
|   min.u32        $(entry), $(a.split), $(last_);
|   mad.lo.u32     $(place), $(a.request), $(pages), $(entry);
|   ld.param.u64   $(at), [$(param.block_table)];
|   mad.wide.u32   $(at), $(place), 4, $(at);
|   ld.global.u32  $(a.first_page), [$(at)];
  end)
end

-- The producer: warp 0, tile a.split and every a.step-th before a.last. No tiles: nothing is done.
function hopper_load.run(a)
  section "producer: one warp fills the ring"
  local again, out = label "fill", label "filled"
  scope(function()
    local t, id, next, index, stage, parity = b32 "t", b32("id", "page of this lane"), b32 "next", b32("index", "in the batch"), b32("ring", "stage"), b32 "parity"
    local pages, leader, end_ = b32("pages", PAGES), pred "leader", pred "end"
    local at, bar, skip = b32 "at", b32 "bar", label "not_leader"
|   setp.ne.u32    $(end_), $(a.warp), 0;
|   setp.ge.or.u32 $(end_), $(a.split), $(a.last), $(end_);
| @$(end_) bra     $(out);
|   setp.eq.u32    $(leader), $(a.lane), 0;
|   mov.u32        $(t), $(a.split);
|   mov.u32        $(index), 0;
|   mov.u32        $(stage), 0;
|   mov.u32        $(parity), 1;                        // the ring is free at first
    if PAGES == 1 then
      local late = label "first_asked"
| @!$(leader) bra  $(late);
      mbarrier.expect(a.memory, shape.FULL, shape.STAGE)
      scope(function()
        local first_bar = b32 "first_bar"
|   add.u32        $(first_bar), $(a.memory), $(shape.FULL);
        tile(a, { [0] = a.first_page }, a.memory, first_bar)
      end)
| $(late):
|   bar.warp.sync  0xffffffff;
|   add.u32        $(t), $(t), $(a.step);
|   mov.u32        $(stage), 1;
|   setp.ge.u32    $(end_), $(t), $(a.last);
| @$(end_) bra     $(out);
    end
    batch(a, id, t)
    scope(function()
      local from = b32 "from"
|   mad.lo.u32     $(from), $(a.step), $(BATCH), $(t);
      batch(a, next, from)
    end)
| $(again):
    for p = 0, PAGES - 1 do
      scope(function()
        local lane = b32 "from_lane"
|   mad.lo.u32     $(lane), $(index), $(PAGES), $(p);
|   shfl.sync.idx.b32 $(pages[p]), $(id), $(lane), 31, 0xffffffff;
      end)
    end
| @!$(leader) bra  $(skip);
|   mad.lo.u32     $(at), $(stage), $(shape.STAGE), $(a.memory);
|   mad.lo.u32     $(bar), $(stage), 8, $(a.memory);
|   add.u32        $(bar), $(bar), $(shape.FULL);
    mbarrier.wait(bar, shape.FREE - shape.FULL, parity, shape.pair > 1)
    mbarrier.expect(bar, 0, shape.STAGE)
    tile(a, pages, at, bar)
| $(skip):
|   bar.warp.sync  0xffffffff;
|   add.u32        $(stage), $(stage), 1;
|   setp.eq.u32    $(end_), $(stage), $(shape.stages);
|   selp.b32       $(stage), 0, $(stage), $(end_);
    scope(function()
      local flip = b32 "flip"
|   selp.b32       $(flip), 1, 0, $(end_);
|   xor.b32        $(parity), $(parity), $(flip);
    end)
|   add.u32        $(index), $(index), 1;
|   add.u32        $(t), $(t), $(a.step);
    local same = label "same_batch"
|   setp.ne.u32    $(end_), $(index), $(BATCH);
| @$(end_) bra     $(same);
|   mov.u32        $(index), 0;
|   mov.u32        $(id), $(next);
    scope(function()
      local from = b32 "from"
|   mad.lo.u32     $(from), $(a.step), $(BATCH), $(t);
      batch(a, next, from)
    end)
| $(same):
|   setp.lt.u32    $(end_), $(t), $(a.last);
| @$(end_) bra     $(again);
  end)
| $(out):
end

return hopper_load
