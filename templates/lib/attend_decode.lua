-- attend_decode: mla_decode's portable form (pv=f16) put together: mma.sync, cp.async, ldmatrix; right for every shape. A key row is loaded
-- once for K and V both; products of P and V are exact in F16 with true FP32 sums.
--   grid (ceil(q*D*H/M), splits, R), M rows of a request and every key tile of a split, 64 keys at a time.
-- The box's word and the lengths arrive together; one barrier, at which a CTA that has seen an abort leaves.
-- Narrow, M = 16 (32 when a request has more than 16 rows): 256 threads, two CTAs a multiprocessor; registers 128 a thread: M * 2 sums of P V.
-- Shared 88,064 or 99,840 bytes: two stages of key rows [64][592 bytes] | query rows | P | row maxima. A key tile, three barriers:
--   tile t is there, stage of t - 1 is free -> loads of t + 1 leave (16 bytes a copy, page ids of t + 2 behind them)
--   -> warp w scores 8 keys (M = 32: 16 keys for one half of the rows), bytes to f16 -> row maxima through shared                | barrier
--   -> m' = maximum rounded up; P = 2^(z - m' + 8), summed, rounded to e4m3, kept as f16 in shared                               | barrier
--   -> warp w adds P V for latents 64w..64w+63 of all M rows (V bytes to f16, f16 mma, FP32): exact products, true FP32 sums.    | barrier
-- Wide, M = 48 or 64 (more than 32 rows): 384 threads, one CTA a multiprocessor; registers up to 168 a thread: M * 2 sums of P V. Shared up to
-- 208,896 bytes: three stages | query rows as F16 | two of P | row maxima, factors, row ends, bounds. Both sides run at once (lib/attend_wide):
--   warps 0..3: tile t + 1 leaves -> scores of 32 rows and 32 keys (M = 48: 48 rows, 16 keys) -> row maxima through shared -> m', P, factors
--   warps 4..11: older sums times the factors where one moved -> P V of the tile before, latents 64(w-4) .. + 63 of all M rows: half of its
--   keys beside the scores, the other half under the softmax, in which nobody else uses the tensor cores.
local pdl = include "lib/pdl"
local attend = include "lib/attend"
local attend_out = include "lib/attend_out"
local shape = include "lib/attend_shape"
local wide = shape.wide and include "lib/attend_wide"
local attend_decode = {}

local function main(rows, splits, alone, box)
  local params = { "kv_cache", "page_stride", "block_table", "max_pages", "lens", "totals", "softmax_scale", "output_scale" }
  local function add(list)
    for _, name in ipairs(list) do params[#params + 1] = name end
  end
  add(alone and { "query" } or { "q_box" })
  if not alone then add(box.params) end
  if splits > 1 then add { "workspace" } else add { "rows", "rows_lse" } end
  kernel { name = splits > 1 and "mla_decode_split" or "mla_decode", grid = { ceil_div(rows, shape.rows), splits, spec.batch // spec.q },
           block = { shape.THREADS }, shared = shape.BYTES, min_ctas = shape.wide and 1 or 2, params = params }
  local a = (wide or attend).open(rows, splits)
  local b = not alone and box.open("mla_decode", false)
  pdl.wait()
  pdl.launch_dependents()
  local out = label "out"
  if b then box.load(b) end
  attend.bounds(a, b, function()                        -- a CTA goes on as a whole or leaves as a whole
    if not b then return end
    box.read(b)
    if spec.watchdog == 1 then box.barrier_or_leave(b, out) end
  end)
  local function store()
    if splits > 1 then attend_out.store_partial(a) else attend_out.store(a) end
  end
  if wide then
    wide.tiles(a, b, store)
  else
    attend.tiles(a, b)
    store()
  end
| $(out):
|   ret;
end

function attend_decode.emit()
  local alone, rows, splits = spec.dcp == 1, spec.q * spec.dcp * spec.heads, spec.planned_splits
  local box = not alone and include "lib/box"
|.extern .shared .align 16 .b8 dynamic_shared[];
  main(rows, splits, alone, box)
  if splits == 1 then return end
  local attend_reduce = include "lib/attend_reduce"
  local plan = attend_reduce.plan(splits)
  kernel { name = "mla_decode_reduce", grid = { rows, spec.batch // spec.q, plan.slices }, block = { plan.threads },
           params = { "workspace", "rows", "rows_lse" } }
  pdl.wait()
  pdl.launch_dependents()
  attend_reduce.reduce(rows, splits, plan)
|   ret;
end

return attend_decode
