-- attend_shape: sizes of mla_decode's portable form that its files share. A CTA takes `rows` rows of one request and walks its split's
-- tiles of 64 keys; runtime/spec_plan.c plans splits for the same rows. Two structures:
--   narrow, 16 rows, or 32 when a request has more than 16: 8 warps, each scores and multiplies; two CTAs a multiprocessor.
--   wide, 48 or 64 rows when it has more than 32 (lib/attend_wide): 4 warps load and score, 8 multiply; one CTA a multiprocessor.
local shape = { WARPS = 8, TILE = 64 }                  -- WARPS: those that multiply, 64 latents each
local all = spec.q * spec.dcp * spec.heads
shape.wide = all > 32
if shape.wide then
  shape.blocks = ceil_div(ceil_div(all, ceil_div(all, 64)), 16)
  shape.loaders, shape.stages = 4, 3
  shape.own = shape.blocks == 4 and 2 or 3              -- blocks of 16 rows that a warp scores, with keys of the tile
  shape.shares = shape.own * 4 // shape.blocks          -- warps that share a row's scores
  shape.keys = shape.TILE // shape.shares               -- 32 or 16
else
  shape.blocks = all > 16 and 2 or 1                    -- blocks of 16 rows: the M of one mma
  shape.loaders, shape.stages = shape.WARPS, 2
  shape.groups = shape.WARPS // shape.blocks            -- warps that share a block's scores, each with `keys` of the tile
  shape.keys = shape.TILE // shape.groups               -- 8 or 16
end
shape.rows = 16 * shape.blocks
shape.passes = shape.TILE // (8 * shape.loaders)         -- a warp loads 8 key rows at a time
shape.THREADS = 32 * (shape.WARPS + (shape.wide and shape.loaders or 0))

-- Rows of 16-byte units at odd pitches: eight rows of one ldmatrix lie in different banks.
shape.PITCH = 592                                       -- a key or a query row: 576 bytes, 37 units
shape.P_PITCH = 144                                     -- a row of P: 64 F16, 9 units

-- Shared memory: stages of key rows [64][592], query rows, P [rows][144], and
--   narrow: row maxima (in the end row sums) [rows][groups] F32; query rows as they come.
--   wide: a second P; query rows as F16 (they come to the last stage, which is free then); row maxima [rows][shares] F32, factors of both P
--   [2][rows], in the end row sums [rows][shares] and m' [rows]; visible keys [rows] S32.
shape.STAGE = shape.TILE * shape.PITCH
shape.QUERY = shape.stages * shape.STAGE
shape.P_BYTES = shape.rows * shape.P_PITCH
if shape.wide then
  shape.QUERY_PITCH = 1168                              -- 1,152 bytes, 73 units
  shape.P = shape.QUERY + shape.rows * shape.QUERY_PITCH
  shape.MAXIMA = shape.P + 2 * shape.P_BYTES
  shape.FACTORS = shape.MAXIMA + 4 * shape.rows * shape.shares
  shape.SUMS = shape.FACTORS + 8 * shape.rows
  shape.TOPS = shape.SUMS + 4 * shape.rows * shape.shares
  shape.BOUNDS = shape.TOPS + 4 * shape.rows
  shape.BYTES = shape.BOUNDS + 4 * shape.rows
  shape.query_place = (shape.stages - 1) * shape.STAGE
else
  shape.P = shape.QUERY + shape.rows * shape.PITCH
  shape.MAXIMA = shape.P + shape.P_BYTES
  shape.BYTES = shape.MAXIMA + 4 * shape.rows * shape.groups
  shape.query_place = shape.QUERY
end
return shape
