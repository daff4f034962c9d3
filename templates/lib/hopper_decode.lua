-- hopper_decode: mla_decode's form for sm_90a (pv=fp8): TMA, wgmma, warpgroups with roles.
--
-- 512 threads, one CTA a multiprocessor. A CTA holds n = 8 .. 64 rows of a request (groups as equal as can be: 96 rows are 2 x 48, 192 rows 3 x 64
-- or 4 x 48) and takes key tiles split, split + live, ... of 64 keys. Where there are exactly two groups, and 16 requests or more, the two are a
-- cluster, a pair: each loads half a tile and gives it to both. grid (row groups, columns): which request and split a column is, of how many
-- (`live`), follows from the lengths of all requests (lib/hopper_plan); the splits give each other their sums (lib/hopper_armed). With as many requests as
-- columns, or with splits=K, grid (row groups, splits, R): a request's splits are K or as many as it has tiles, and a second kernel adds them up.
-- Few tiles: where `fold` CTAs that take the same tiles, 16 or 32 rows each, would have at most four of them (or fold), they do (lib/hopper_shape,
-- shape.folded). The kernel holds both forms of what comes after the plan, and the plan says which.
--   before the wait   lengths, plan, page ids; where query bytes come from and go; the first key tiles, where they hold nothing that this step wrote
--                     and it began by a full edge
--   after it      warpgroups 1 to 3 copy the query rows (lib/hopper_query)
--   warpgroup 0   warp 0: page ids 32 at a time, tile -> ring of 5 stages, tensor copies (kv_latent_map, kv_rope_map)
--   warpgroup 1   softmax. Per tile: S = Q K^T, m64n64k32 x 18 in two chains, e4m3, Q and K from shared (up to 16 rows S^T = K Q^T,
--                 m64nNk32) -> row maxima, m' an integer -> P = 2^(z - m' + 8), its sum, its e4m3 rounding to one of two slots -> P_FULL
--   warpgroup 2,3 256 latents each: V^T of the tile by ldmatrix (transposed pairs) + prmt as A, P as B: O^T += V^T P^T, m64nNk32 x 8.
--                 The tensor core's FP8 sums live for one tile (64 keys), then FP32 registers take them (decision 7)
--   time ->       load t+6 | first chain of S t+2 under softmax t+1, then the second | P V t, first fragments of V t+1 under its last block
--   at the end    LSE words and F16 chunks of 16 bytes to the splits that add them up, and from them (lib/hopper_armed)
-- Barriers: FULL, FREE of a stage (FREE: 12 warps of each CTA of the pair); P_FULL (warps with P), P_FREE (8) of a slot; ENDED.
-- Shared: 5 x 36,864 key stages | 36,864 query rows, then an owner's chunks and weights | 2 x 4,096 P | scales, flags, m' and l | plan | barriers.
-- Registers of the four warpgroups: 32 96 192 192.
local pdl = include "lib/pdl"
local shape = include "lib/hopper_shape"
local hopper = include "lib/hopper"
local hopper_plan = include "lib/hopper_plan"
local hopper_bounds = include "lib/hopper_bounds"
local hopper_load = include "lib/hopper_load"
local hopper_query = include("lib/hopper_query")(shape)
local hopper_place = include "lib/hopper_place"
local hopper_out = include("lib/hopper_out")(shape)
local hopper_decode = {}
local DEALT = shape.columns > 0

-- request, split, live, total, length, and what follows from them.
local function find_work(a, b)
  if DEALT then
    hopper_plan.make(a, b)
    hopper.meet()
    hopper_plan.take(a)
    hopper_bounds.find(a, b)
    return
  end
|   mov.u32        $(a.split), %ctaid.y;
|   mov.u32        $(a.request), %ctaid.z;
  hopper_bounds.read(a.request, a.total, a.length)
  hopper_bounds.find(a, b)
|   min.u32        $(a.live), $(a.last), $(shape.splits);
|   max.u32        $(a.live), $(a.live), 1;
  hopper.meet()
end

-- Parity and abort word of the box, by one thread for the CTA, or for the pair: both go on, or neither. A dead box: no tiles; the CTA
-- still gives its splits' others what they wait for.
local function read_box(a, b, box)
  local known = label "known"
  a.dead, a.parity = b32("dead_box", "1: the box is dead"), b32("box_parity", "of the use")
  scope(function()
    local one, word, at = pred "one", b32 "word", b32 "at"
|   setp.ne.u32    $(one), $(a.thread), 0;
| @$(one) bra      $(known);
    box.load(b)
    box.read(b)
|   selp.b32       $(word), 1, 0, $(b.dead);
|   st.shared.v2.u32 [$(a.memory)+$(shape.WORD)], {$(b.parity), $(word)};
| $(known):
    hopper.meet()
|   mov.u32        $(at), $(a.memory);
    if shape.pair > 1 then
|   mapa.shared::cluster.u32 $(at), $(a.memory), 0;
|   ld.shared::cluster.v2.u32 {$(a.parity), $(a.dead)}, [$(at)+$(shape.WORD)];
    else
|   ld.shared.v2.u32 {$(a.parity), $(a.dead)}, [$(at)+$(shape.WORD)];
    end
|   setp.ne.u32    $(one), $(a.dead), 0;
|   vote.sync.any.pred $(one), $(one), 0xffffffff;      // the same in all threads: ptxas keeps tile numbers in scalar registers
|   selp.b32       $(a.last), 0, $(a.last), $(one);
  end)
end

-- A column without work, or a split beyond those that the request's length asks for.
local function leave_if_idle(a, out)
  local busy = label "busy"
  if shape.most == 1 then return end
  scope(function()
    local idle = pred "idle_"
|   setp.lt.u32    $(idle), $(a.split), $(a.live);
| @$(idle) bra     $(busy);
    if not DEALT then hopper_out.idle(a) end
    if a.boxed then hopper.part() end                   -- the other may still read CTA 0's word
|   bra            $(out);
  end)
| $(busy):
end

-- All that is left once it is known that there is work, where the CTA's shape is s.
local function work(a, s)
  local roles = include("lib/hopper_roles")(s)
  roles.ask(a)
  roles.run(a)
  hopper.part()
end

-- What the prologue found for the rows of the first shape, for those of the folded one, where that is dealt out; before the wait.
local function fold(a, b)
  section "a part of the rows, where tiles are few"
  local f, whole = {}, label "all_rows"
  for name, value in pairs(a) do f[name] = value end
  f.row0 = b32("row0_folded", "first of the CTA's rows")
  hopper_bounds.open_rows(f, shape.folded)
| @!$(a.folded) bra $(whole);
  hopper_place.group(f.row0, shape.folded)
|   mul.lo.u32     $(f.row0), $(f.row0), $(shape.folded.n);
  hopper_bounds.find_rows(f, b, shape.folded)
  include("lib/hopper_query")(shape.folded).prepare(f)
| $(whole):
  return f
end

local function main(alone, box)
  -- kv_cache and page_stride: the maps are made from them, and a launch checks them
  local params = { "kv_cache", "page_stride", "block_table", "max_pages", "lens", "totals", "softmax_scale", "output_scale", "kv_latent_map", "kv_rope_map",
                   "chain_waits" }
  local function add(list)
    for _, name in ipairs(list) do params[#params + 1] = name end
  end
  add(alone and { "query" } or { "q_box" })
  if not alone then add(box.params) end
  add { "rows", "rows_lse" }
  if shape.most > 1 then add { "workspace" } end
  kernel { name = not DEALT and shape.splits > 1 and "mla_decode_split" or "mla_decode",
           grid = DEALT and { shape.groups, shape.columns } or { shape.groups, shape.splits, shape.requests },
           block = { shape.THREADS }, cluster = shape.pair > 1 and { shape.pair } or nil, shared = shape.BYTES,
           min_ctas = 1, resident = DEALT, params = params }
  local a = hopper.open()
  hopper_bounds.open(a)
  hopper_load.open(a)
  hopper_load.foresee(a)
  local b = not alone and box.open("mla_decode", false)
  hopper.barriers(a)
  hopper_query.prepare(a)
  find_work(a, b)
  hopper_load.start(a)
  local f = shape.folded and fold(a, b)
  pdl.wait()
  pdl.launch_dependents()
  local out = label "out"
  a.lost = DEALT and label "lost"
  if b then read_box(a, b, box) end
  leave_if_idle(a, out)
  local few_tiles = f and label "few_tiles"
  if f then
    f.dead, f.parity, f.lost = a.dead, a.parity, a.lost
| @$(a.folded) bra $(few_tiles);
  end
  work(a, shape)
  if f then
|   bra            $(out);
| $(few_tiles):
    scope(function() work(f, shape.folded) end)
  end
| $(out):
|   ret;
  if DEALT then
| $(a.lost):
|   trap;
  end
end

function hopper_decode.emit()
  local alone = spec.dcp == 1
|.extern .shared .align 1024 .b8 dynamic_shared[];
  main(alone, not alone and include "lib/box")
  if DEALT or shape.splits == 1 then return end
  local attend_reduce = include "lib/attend_reduce"
  local plan = attend_reduce.plan(shape.splits)
  kernel { name = "mla_decode_reduce", grid = { shape.rows, shape.requests, plan.slices }, block = { plan.threads },
           params = { "workspace", "rows", "rows_lse" } }
  pdl.wait()
  pdl.launch_dependents()
  attend_reduce.reduce(shape.rows, shape.splits, plan, hopper_out.WHOLE)
|   ret;
end

return hopper_decode
