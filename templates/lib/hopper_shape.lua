-- hopper_shape: sizes of mla_decode's form for sm_90a that its files share: rows of a CTA, clusters, shared memory, barriers, registers.
-- Files of which a CTA's rows are the measure return a function of the shape; in them `shape` is its argument.
-- shape.folded (or nil): the second shape of the same kernel, for launches with few key tiles: `fold` CTAs take the tiles of one, a part of
-- its rows each. A CTA of the grid [groups][columns] is then row group %ctaid.x + groups * (%ctaid.y % fold) of column %ctaid.y / fold
-- (lib/hopper_place): a pair stays one. Clusters, stages and barriers are the first shape's, and of the workspace it needs no more.
-- lib/hopper_plan decides.
local shape = { THREADS = 512, TILE = 64, PAGE = spec.page, fold = 1, suffix = "" }
shape.dh = spec.dcp * spec.heads
shape.rows = spec.q * shape.dh                          -- of a request
shape.requests = spec.batch // spec.q

-- Row groups: at most 64 rows each, as equal as can be; as few as can be, or one more (runtime/spec_plan.c). Where there are
-- two, they share what they load from 16 requests on: 1 to 3% where those are long, but a cluster takes 0.3 to 1 us longer to begin and to end.
shape.groups = spec.planned_groups
shape.n = round_up(ceil_div(shape.rows, shape.groups), 8)
shape.pair = shape.groups == 2 and shape.requests >= 16 and 2 or 1   -- CTAs that load one tile together
-- Who works on a request. columns > 0 (splits=auto): columns of CTAs that the kernel deals out to the requests by their lengths; they
-- add up what they found by themselves (lib/hopper_armed). Else `splits` CTAs each; a reducer adds them up where there are several.
shape.columns, shape.splits = spec.planned_columns, spec.planned_splits

-- What follows from rows and columns.
local function derive(s)
  s.most = s.columns > 0 and s.columns or s.splits      -- splits that a request may have
  s.few = s.n <= 16                                     -- keys are the rows of the score's product, not the query's rows
  s.warps = ceil_div(s.n, 16)                           -- softmax warps that have rows, where those are the rows
  s.early = s.n > 32 and 2 or 5                         -- tiles that are asked for before the wait: many query rows wait behind them
  s.sets = s.n <= 16 and 4 or s.n <= 32 and 2 or 1      -- sets of FP8 sums of PV in flight
end
derive(shape)
shape.registers = { 32, 96, 192 }                       -- a thread: producer, softmax, each PV warpgroup: 512 in all; no spills

-- Shared memory, from a multiple of 1024: key stages, query rows, P (two slots), scales, flags, row ends, barriers.
shape.LATENT = 32768                                    -- 4 x [64 keys][128 bytes]
shape.STAGE = 36864                                     -- then [64 keys][64 bytes] rope
shape.stages = 5
shape.QUERY = shape.stages * shape.STAGE                -- 4 x [64 rows][128 bytes], then [64][64]: wgmma reads 64 rows
shape.P = shape.QUERY + 64 * 576                       -- [2][64 rows][64 keys] e4m3
shape.SCALE = shape.P + 2 * 4096                        -- [2][64] F32: what older sums are multiplied by
shape.FLAG = shape.SCALE + 512                          -- [2][4] U32: a warp's scales are to be used
shape.END = shape.FLAG + 32                             -- [64] m', then [64] l, then [64] 1 / l
shape.SHARED_ROWS = shape.END + 768                     -- [4 warps][32] F32, of a row: maxima, sums, where keys are the rows
shape.WORD = shape.SHARED_ROWS + (shape.few and 512 or 0)                            -- parity, dead
shape.PLAN = shape.WORD + 16                            -- request, split, live | total, length | folded
shape.BARRIERS = shape.PLAN + 32
local place = shape.BARRIERS
local function barriers(count)
  local at = place
  place = place + 8 * count
  return at
end
shape.FULL, shape.FREE = barriers(shape.stages), barriers(shape.stages)   -- of key stages
shape.P_FULL, shape.P_FREE = barriers(2), barriers(2)
shape.ENDED = barriers(1)                               -- row ends are there

-- As many parts as make them 16 rows or fewer, or 32, if a request then still has a column. Which is faster was measured: more columns are
-- fewer tiles for each, but more sums to add up.
local part = (shape.groups == 1 or shape.groups == 3 or shape.groups == 4) and 16 or 32
local fold = ceil_div(shape.rows, part * shape.groups)
if fold > 1 and shape.columns // fold > shape.requests then
  local folded = {}
  for name, value in pairs(shape) do folded[name] = value end
  folded.fold, folded.suffix = fold, "_folded"           -- suffix: of registers that both shapes have
  folded.groups, folded.columns = fold * shape.groups, shape.columns // fold
  folded.each = part == 16 and fold or 4                -- most key tiles of a column: with more, whole rows are faster
  folded.n = round_up(ceil_div(shape.rows, folded.groups), 8)
  derive(folded)
  folded.P_FULL = barriers(2)                           -- other warps arrive
  folded.SHARED_ROWS = round_up(place, 16)
  place = folded.SHARED_ROWS + 512
  shape.folded = folded
end
shape.BYTES = place + 1024                              -- the base is rounded up
rule(shape.BYTES <= 232448, "shared memory: " .. shape.BYTES .. " bytes, of 232448")
return shape
