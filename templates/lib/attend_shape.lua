-- attend_shape: sizes of mla_decode's portable form that its files share. A CTA takes `rows` rows of one request and walks its split's
-- tiles of 64 keys; runtime/spec_plan.c plans splits for the same rows. Two structures:
--   narrow, 16 rows, or 32 when a request has more than 16: 8 warps, each scores and multiplies; two CTAs a multiprocessor.
--   wide, 48 or 64 rows when it has more than 32 (lib/attend_wide): 8 warps multiply, one more a block of 16 rows scores and loads.
local shape = { WARPS = 8, TILE = 64 }                  -- WARPS: those that multiply, 64 latents each
local all = spec.q * spec.dcp * spec.heads
shape.wide = all > 32
if shape.wide then
  shape.blocks = ceil_div(ceil_div(all, ceil_div(all, 64)), 16)
  shape.loaders, shape.first_loader = shape.blocks, shape.WARPS
  shape.keys, shape.stages = shape.TILE, 4              -- a warp scores all keys of the tile for its block
else
  shape.blocks = all > 16 and 2 or 1                    -- blocks of 16 rows: the M of one mma
  shape.loaders, shape.first_loader = shape.WARPS, 0
  shape.groups = shape.WARPS // shape.blocks            -- warps that share a block's scores, each with `keys` of the tile
  shape.keys, shape.stages = shape.TILE // shape.groups, 2
end
shape.rows = 16 * shape.blocks
shape.passes = ceil_div(shape.TILE, 8 * shape.loaders)  -- a warp loads 8 key rows at a time
shape.THREADS = 32 * (shape.WARPS + (shape.wide and shape.blocks or 0))

-- Rows of 16-byte units at odd pitches: eight rows of one ldmatrix lie in different banks.
shape.PITCH = 592                                       -- a key or a query row: 576 bytes, 37 units
shape.P_PITCH = 144                                     -- a row of P: 64 F16, 9 units

-- Shared memory: stages of key rows [64][592], query rows, P [rows][144]; then, narrow: row maxima (in the end row sums) [rows][groups] F32;
-- wide: a second P, factors of both [2][rows] F32, in the end row sums and maxima [2][rows] F32.
shape.STAGE = shape.TILE * shape.PITCH
shape.QUERY = shape.stages * shape.STAGE
shape.P = shape.QUERY + shape.rows * shape.PITCH
shape.P_BYTES = shape.rows * shape.P_PITCH
if shape.wide then
  shape.FACTORS = shape.P + 2 * shape.P_BYTES
  shape.ENDS = shape.FACTORS + 8 * shape.rows
  shape.BYTES = shape.ENDS + 8 * shape.rows
else
  shape.MAXIMA = shape.P + shape.P_BYTES
  shape.BYTES = shape.MAXIMA + 4 * shape.rows * shape.groups
end
return shape
