-- attend_wide: mla_decode's portable form when a CTA takes 48 or 64 rows: 8 warps multiply P V, one more a block of 16 rows loads and
-- scores, up to two tiles ahead. What they hand each other, by named barriers:
--   FREE + i % 2: the products of tile i - 2 are done: P i % 2, its factors and the stage of tile i - 2 may be written again
--   FULL + i % 2: P and factors of tile i are there (and V: a scorer has seen the whole stage before it scored)
-- Four stages of key rows: tile i + 2 is asked for when tile i - 2 is done. A key byte is converted once for its products, and once a block
-- for its scores.
local shape = include "lib/attend_shape"
local attend = include "lib/attend"
local attend_load = include "lib/attend_load"
local wide_score = include "lib/attend_wide_score"
local wide_value = include "lib/attend_wide_value"
local attend_wide = {}
local SCORERS, FREE, FULL = 1, 2, 4                     -- named barriers; 2 and 4 are pairs

function attend_wide.open(rows, splits)
  local a = attend.indices(rows, splits)
  a.loader = a.block
  a.turn = b32("turn", "0 or 1: tile i % 2")
|   sub.u32        $(a.block), $(a.warp), $(shape.first_loader);
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

-- Loads of tile `tile` leave, and pages of the one after it are asked for; past the split's end a group of copies stays empty.
local function ask(a, tile, stage)
  local none = label "no_tile"
  scope(function()
    local more = pred "more"
|   setp.lt.u32    $(more), $(tile), $(a.last);
| @!$(more) bra    $(none);
    attend_load.keys(a, tile, stage)
|   add.u32        $(tile), $(tile), 1;
    attend_load.page(a, tile)
  end)
| $(none):
|   cp.async.commit_group;
  step(a, stage)
end

local function score_tiles(a, b)
  section "a block's scores"
  local again, done, more = label "score_tile", label "scores_done", pred "more_tiles"
  local ahead, tile = b32("ahead", "stage of the tile to be asked for next"), b32("ahead_tile", "that tile")
  attend_load.open(a)
  wide_score.open(a)
|   setp.ge.u32    $(more), $(a.first), $(a.last);
| @$(more) bra     $(done);
|   mov.u32        $(tile), $(a.first);
|   mov.u32        $(ahead), $(a.memory);
  attend_load.page(a, tile)
  attend_load.query(a, b)
  ask(a, tile, ahead)
  ask(a, tile, ahead)
|   cp.async.wait_group 1;
|   bar.sync       $(SCORERS), $(32 * shape.blocks);
  wide_score.query(a)
| $(again):
|   cp.async.wait_group 1;
  barrier(a, "sync", FREE)
  ask(a, tile, ahead)
  wide_score.tile(a)
  barrier(a, "arrive", FULL)
  step(a, a.stage)
|   xor.b32        $(a.turn), $(a.turn), 1;
|   add.u32        $(a.first), $(a.first), 1;
|   setp.lt.u32    $(more), $(a.first), $(a.last);
| @$(more) bra     $(again);
| $(done):
  wide_score.ends(a)
end

local function value_tiles(a)
  section "products"
  local again, done, more = label "value_tile", label "values_done", pred "more_tiles"
  local tiles, alone = pred "tiles", label "one_tile"
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
  wide_value.tile(a)
  scope(function()
    local later = b32 "later"
|   add.u32        $(later), $(a.first), 2;
|   setp.ge.u32    $(tiles), $(later), $(a.last);
| @$(tiles) bra    $(alone);
    barrier(a, "arrive", FREE)
  end)
| $(alone):
  step(a, a.stage)
|   xor.b32        $(a.turn), $(a.turn), 1;
|   add.u32        $(a.first), $(a.first), 1;
|   setp.lt.u32    $(more), $(a.first), $(a.last);
| @$(more) bra     $(again);
| $(done):
end

-- finish: emitted for the warps that multiply, with acc, total and top of their rows.
function attend_wide.tiles(a, b, finish)
  local scores, out = label "scores", label "wide_out"
  scope(function()
    local scorer = pred "scorer"
|   setp.ge.u32    $(scorer), $(a.warp), $(shape.first_loader);
| @$(scorer) bra   $(scores);
  end)
  scope(function()
    value_tiles(a)
|   bar.sync       0;
    wide_value.ends(a)
    finish()
  end)
|   bra            $(out);
| $(scores):
  scope(function()
    score_tiles(a, b)
|   bar.sync       0;
  end)
| $(out):
end

return attend_wide
