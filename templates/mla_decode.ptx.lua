-- mla_decode: FP8 attention of all D*H heads over this rank's paged KV shard -> partial rows and base-2 LSE.
--   query: own mailbox at the use's parity (dcp = 1: [B, H, 576]); kv_cache pages of `page` rows of 576 e4m3 bytes, block_table [R, max_pages] S32,
--   lens [R] S32 local, totals [R] S32 global -> rows [B, D*H, 512] BF16, rows_lse [B, D*H] F32; R = B/q requests.
--   Rows of a request are numbered m = j * D*H + head (j: query row of q); row j sees the keys of the global prefix totals - (q-1) + j.
-- Portable form: mma.sync, cp.async, ldmatrix; right for every shape.
--   grid (ceil(q*D*H/M), splits, R), 256 threads, two CTAs a multiprocessor: M = 16 rows of a request (32 when it has more than 16) and
--   every key tile of a split, 64 keys at a time. Registers 128 a thread: M * 2 sums of P V. Shared 88,064 or 99,840 bytes:
--   two stages of key rows [64][592 bytes] | query rows | P | row maxima. A key row is loaded once for K and V both.
-- Schedule of a key tile, three barriers:
--   tile t is there, stage of t - 1 is free -> loads of t + 1 leave (16 bytes a copy, page ids of t + 2 behind them)
--   -> warp w scores 8 keys (M = 32: 16 keys for one half of the rows), e4m3 mma -> row maxima through shared                    | barrier
--   -> m' = maximum rounded up; P = 2^(z - m' + 8), summed, rounded to e4m3, kept as f16 in shared                               | barrier
--   -> warp w adds P V for latents 64w..64w+63 of all M rows (V bytes to f16, f16 mma, FP32): exact products, true FP32 sums.    | barrier
-- A key at or past a row's bound is never visible: P = 0; keys past every bound of the CTA's rows are not loaded (zeros), their table
-- entry is not read; NaN bytes of V that only some rows see become 0 (a visible key with NaN bytes already has a NaN score).
-- splits > 1: partial sums to the workspace, a second kernel adds them: workspace [R][splits][rows][512] F32, then [R][splits][rows] F32;
-- a row that saw no key of a split has LSE -inf there, and its 512 are not written.
local pdl = include "lib/pdl"
local attend = include "lib/attend"
local attend_out = include "lib/attend_out"
local shape = include "lib/attend_shape"

need { ptx = "8.4", target = "sm_90" }
local alone = spec.dcp == 1
local box = not alone and include "lib/box"
local rows = spec.q * spec.dcp * spec.heads
local tiles, requests = ceil_div(rows, shape.rows), spec.batch // spec.q
local splits = spec.planned_splits
rule(spec.pv == "f16",
     "pv=fp8 is not in this template: a chain of FP8 products keeps about 13 bits, so its sums drift with the context; pv=f16 adds in FP32")

local params = { "kv_cache", "page_stride", "block_table", "max_pages", "lens", "totals", "softmax_scale", "output_scale" }
local function add(list)
  for _, name in ipairs(list) do params[#params + 1] = name end
end
add(alone and { "query" } or { "q_box" })
if not alone then add(box.params) end
if splits > 1 then add { "workspace" } else add { "rows", "rows_lse" } end

|.extern .shared .align 16 .b8 dynamic_shared[];
kernel { name = splits > 1 and "mla_decode_split" or "mla_decode", grid = { tiles, splits, requests }, block = { shape.THREADS },
         shared = shape.BYTES, min_ctas = 2, params = params }
local a = attend.open(rows, splits)
local b = not alone and box.open("mla_decode", false)
pdl.wait()
pdl.launch_dependents()
local out = label "out"
if b then
  box.load(b)
  box.read(b)
| @$(b.dead) bra   $(out);
end
attend.bounds(a, b)
attend.tiles(a, b)
if splits > 1 then attend_out.store_partial(a) else attend_out.store(a) end
| $(out):
|   ret;

if splits > 1 then
  local attend_reduce = include "lib/attend_reduce"
  local plan = attend_reduce.plan(splits)
  kernel { name = "mla_decode_reduce", grid = { rows, requests, plan.slices }, block = { plan.threads },
           params = { "workspace", "rows", "rows_lse" } }
  pdl.wait()
  pdl.launch_dependents()
  attend_reduce.reduce(rows, splits, plan)
|   ret;
end
