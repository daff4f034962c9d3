-- attend_wide: mla_decode's portable form when a CTA takes 48 or 64 rows: 4 warps load and score, up to two tiles ahead of the 8 that
-- multiply P V. What they hand each other, by named barriers:
--   FREE + i % 2: the products of tile i - 2 are done: P i % 2, its factors and the stage of tile i - 2 may be written again
--   FULL + i % 2: P and factors of tile i are there (and V: a scorer has seen the whole stage before it scored)
--   SCORED: the products of tile i + 1's scores are done: the rest of tile i's products run under its softmax, which leaves the tensor cores alone
-- Three stages of key rows: tile i + 1 is asked for when tile i - 2 is done. A key byte is converted once for its products, and once a scorer
-- that shares its key for its scores; the query is converted once a CTA.
local shape = include "lib/attend_shape"
local attend = include "lib/attend"
local attend_load = include "lib/attend_load"
local wide_score = include "lib/attend_wide_score"
local wide_value = include "lib/attend_wide_value"
local attend_wide = {}
local FREE, FULL, SCORED = 2, 4, 6                      -- named barriers, the first two pairs; 1 is the scorers' own

function attend_wide.open(rows, splits)
  local a = attend.indices(rows, splits)
  a.turn = b32("turn", "0 or 1: tile i % 2")
|   mov.u32        $(a.turn), 0;
  return a
end

local function barrier(a, verb, first)
  scope(function()
    local id = b32 "id"
|   add.u32        $(id), $(a.turn), $(first);
|   bar.$(verb)    $(id), $(shape.THREADS);
  end)
end

-- stage := the next of the ring.
local function step(a, stage)
  scope(function()
    local past, wrap = b32 "past", pred "wrap"
|   add.u32        $(stage), $(stage), $(shape.STAGE);
|   add.u32        $(past), $(a.memory), $(shape.stages * shape.STAGE);
|   setp.ge.u32    $(wrap), $(stage), $(past);
| @$(wrap) mov.u32 $(stage), $(a.memory);
  end)
end

local function next_tile(a, again)
  step(a, a.stage)
  scope(function()
    local more = pred "more_"
|   xor.b32        $(a.turn), $(a.turn), 1;
|   add.u32        $(a.first), $(a.first), 1;
|   setp.lt.u32    $(more), $(a.first), $(a.last);
| @$(more) bra     $(again);
  end)
end

-- Loads of tile `tile` leave for the next stage, if the split has it, and pages of the one after it are asked for.
local function ask(a, tile, stage)
  local none = label "no_tile"
  scope(function()
    local more = pred "more"
|   setp.lt.u32    $(more), $(tile), $(a.last);
| @!$(more) bra    $(none);
    attend_load.keys(a, tile, stage)
|   cp.async.commit_group;
|   add.u32        $(tile), $(tile), 1;
    attend_load.page(a, tile)
    step(a, stage)
  end)
| $(none):
end

local function score_tiles(a, b)
  section "scores"
  local again, done, more = label "score_tile", label "scores_done", pred "more_tiles"
  local earlier = pred("earlier", "there was a tile before this one")
  local ahead, tile = b32("ahead", "stage of the tile to be asked for next"), b32("ahead_tile", "that tile")
  a.loader = a.warp
  attend_load.open(a)
  wide_score.open(a)
|   setp.ge.u32    $(more), $(a.first), $(a.last);
| @$(more) bra     $(done);
|   mov.u32        $(tile), $(a.first);
|   mov.u32        $(ahead), $(a.memory);
  attend_load.page(a, tile)
  attend_load.query(a, b)
  ask(a, tile, ahead)
|   cp.async.wait_group 0;
  wide_score.meet()
  wide_score.convert_query(a)
|   setp.ne.u32    $(earlier), 0, 0;
| $(again):
|   cp.async.wait_group 0;
  barrier(a, "sync", FREE)
  ask(a, tile, ahead)
  wide_score.tile(a, function()
| @$(earlier) bar.arrive $(SCORED), $(shape.THREADS);
|   setp.eq.u32    $(earlier), 0, 0;
  end)
  barrier(a, "arrive", FULL)
  next_tile(a, again)
| $(done):
  wide_score.ends(a)
end

local function value_tiles(a)
  section "products"
  local again, done, more = label "value_tile", label "values_done", pred "more_tiles"
  local none = label "none_waits"
|   sub.u32        $(a.warp), $(a.warp), $(shape.loaders);
  wide_value.open(a)
|   setp.ge.u32    $(more), $(a.first), $(a.last);
| @$(more) bra     $(done);
  scope(function()
    local second = b32 "second"
|   bar.arrive     $(FREE), $(shape.THREADS);
|   add.u32        $(second), $(a.first), 1;
|   setp.ge.u32    $(more), $(second), $(a.last);
| @$(more) bra     $(again);
|   bar.arrive     $(FREE + 1), $(shape.THREADS);
  end)
| $(again):
  barrier(a, "sync", FULL)
  wide_value.tile(a, function()
    scope(function()
      local next, later = b32 "next", pred "later"
|   add.u32        $(next), $(a.first), 1;
|   setp.lt.u32    $(later), $(next), $(a.last);
| @$(later) bar.sync $(SCORED), $(shape.THREADS);
    end)
  end)
  scope(function()
    local later = b32 "later"
|   add.u32        $(later), $(a.first), 2;
|   setp.ge.u32    $(more), $(later), $(a.last);
| @$(more) bra     $(none);
    barrier(a, "arrive", FREE)
  end)
| $(none):
  next_tile(a, again)
| $(done):
end

-- finish: emitted for the warps that multiply, with acc, total and top of their rows.
function attend_wide.tiles(a, b, finish)
  local products, out = label "products", label "wide_out"
  scope(function()
    local multiplies = pred "multiplies"
|   setp.ge.u32    $(multiplies), $(a.warp), $(shape.loaders);
| @$(multiplies) bra $(products);
  end)
  scope(function()
    score_tiles(a, b)
|   bar.sync       0;
  end)
|   bra            $(out);
| $(products):
  scope(function()
    value_tiles(a)
|   bar.sync       0;
    wide_value.ends(a)
    finish()
  end)
| $(out):
end

return attend_wide
