-- attend_shape: sizes of mla_decode's portable form that its files share. A CTA of 8 warps takes `rows` rows of one request (16, or 32
-- when the request has more than 16: runtime/spec_plan.c plans splits for the same) and walks its split's tiles of 64 keys.
local shape = { THREADS = 256, WARPS = 8, TILE = 64 }
local all = spec.q * spec.dcp * spec.heads
shape.rows = all > 16 and 32 or 16
shape.blocks = shape.rows // 16                         -- blocks of 16 rows: the M of one mma
shape.groups = shape.WARPS // shape.blocks              -- warps that share a block's scores, each with `keys` of the tile
shape.keys = shape.TILE // shape.groups                 -- 8 or 16

-- Rows of 16-byte units at odd pitches: eight rows of one ldmatrix lie in different banks.
shape.PITCH = 592                                       -- a key or a query row: 576 bytes, 37 units
shape.P_PITCH = 144                                     -- a row of P: 64 F16, 9 units

-- Shared memory: two stages of key rows [64][592], query rows, P [rows][144], row maxima (in the end row sums) [rows][groups] F32.
shape.STAGE = shape.TILE * shape.PITCH
shape.QUERY = 2 * shape.STAGE
shape.P = shape.QUERY + shape.rows * shape.PITCH
shape.MAXIMA = shape.P + shape.rows * shape.P_PITCH
shape.BYTES = shape.MAXIMA + 4 * shape.rows * shape.groups
return shape
