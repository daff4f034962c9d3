-- hopper_decode: mla_decode's form for sm_90a (pv=fp8): TMA, wgmma, warpgroups with roles.
--
-- grid (row groups, splits, R), 512 threads, one CTA a multiprocessor. A CTA holds n = 8 .. 64 rows of a request (as few groups as can be,
-- as equal as can be: 96 rows are 2 x 48) and takes key tiles split, split + step, ... of 64 keys. Two groups are a pair of a cluster: each
-- loads half a tile and gives it to both.
--   warpgroup 0   warp 0: page ids 32 at a time, tile -> ring of 5 stages, tensor copies (kv_latent_map, kv_rope_map)
--   warpgroup 1   softmax. Per tile: S = Q K^T, m64n64k32 x 18 in two chains, e4m3, Q and K from shared -> row maxima in quads, m' an
--                 integer -> P = 2^(z - m' + 8), its sum, its e4m3 rounding to one of two slots -> P_FULL
--   warpgroup 2,3 256 latents each: V^T of the tile by ldmatrix (transposed pairs) + prmt as A, P as B: O^T += V^T P^T, m64nNk32 x 8.
--                 The tensor core's FP8 sums live for one tile (64 keys), then FP32 registers take them (decision 7)
--   time ->       load t+5 | S, softmax t+1 | P V t
-- Barriers: FULL, FREE of a stage (FREE: 12 warps of each CTA of the pair); P_FULL (warps with rows), P_FREE (8) of a slot; ENDED.
-- Shared: 5 x 36,864 key stages | 36,864 query rows | 2 x 4,096 P | scales, flags, m' and l | barriers: 231,592 bytes.
-- Registers of the four warpgroups: 32 96 192 192.
-- How many clusters of splits work on a request follows from its length, in the kernel; the others say so and end. Splits of one cluster are
-- added through distributed shared memory, clusters by a reducer, a second kernel, which has nothing to do where one was enough.
local pdl = include "lib/pdl"
local shape = include "lib/hopper_shape"
local hopper = include "lib/hopper"
local hopper_bounds = include "lib/hopper_bounds"
local hopper_load = include "lib/hopper_load"
local hopper_score = include "lib/hopper_score"
local hopper_value = include "lib/hopper_value"
local hopper_out = include "lib/hopper_out"
local hopper_join = include "lib/hopper_join"
local hopper_decode = {}

-- One CTA's view of the abort word counts for its cluster: all of it goes on, or none.
local function read_box(a, b, box)
  local known = label "known"
  scope(function()
    local one, word = pred "one", b32 "word"
|   setp.ne.u32    $(one), $(a.thread), 0;
| @$(one) bra      $(known);
    box.load(b)
    box.read(b)
|   st.shared.u32  [$(a.memory)+$(shape.WORD)], $(b.parity);
|   selp.b32       $(word), 1, 0, $(b.dead);
|   st.shared.u32  [$(a.memory)+$(shape.WORD + 4)], $(word);
  end)
| $(known):
end

local function leave_if_dead(a, out)
  local alive = label "alive_"
  scope(function()
    local word, dead, at = b32 "word", pred "dead_", b32 "at"
    if shape.pair * shape.share > 1 then
|   mapa.shared::cluster.u32 $(at), $(a.memory), 0;
|   ld.shared::cluster.u32 $(word), [$(at)+$(shape.WORD + 4)];
    else
|   ld.shared.u32  $(word), [$(a.memory)+$(shape.WORD + 4)];
    end
|   setp.eq.u32    $(dead), $(word), 0;
| @$(dead) bra     $(alive);
    hopper.part()
|   bra            $(out);
  end)
| $(alive):
end

-- A cluster beyond those that the request's length asks for.
local function leave_if_idle(a, out)
  local busy = label "busy"
  scope(function()
    local idle = pred "idle_"
|   setp.lt.u32    $(idle), $(a.cluster), $(a.live);
| @$(idle) bra     $(busy);
    hopper_join.idle(a)
    if a.boxed then hopper.part() end                   -- the others may still read CTA 0's word
|   bra            $(out);
  end)
| $(busy):
end

-- What a PV warpgroup leaves: sums for its cluster, rows, or a split's rows for the reducer.
local function leave_sums(a, acc)
  if shape.share > 1 then
    hopper_join.leave(a, acc)
  elseif shape.clusters == 1 then
    hopper_out.store(a, acc, false)
  else
    local part, stored, many = label "partial", label "stored", pred "many"
|   setp.ne.u32    $(many), $(a.live), 1;
| @$(many) bra     $(part);
    hopper_out.store(a, acc, false, hopper_join.WHOLE)
|   bra            $(stored);
| $(part):
    hopper_out.store(a, acc, true)
| $(stored):
  end
end

local function roles(a)
  local role, score, value, done = pred "role", label "softmax", label "pv", label "done"
|   setp.ge.u32    $(role), $(a.warp), 8;
| @$(role) bra     $(value);
|   setp.ge.u32    $(role), $(a.warp), 4;
| @$(role) bra     $(score);
|   setmaxnreg.dec.sync.aligned.u32 $(shape.registers[1]);
  hopper_load.run(a)
|   bra            $(done);
| $(score):
|   setmaxnreg.$(shape.registers[2] > 128 and "inc" or "dec").sync.aligned.u32 $(shape.registers[2]);
  hopper_score.run(a)
|   bra            $(done);
| $(value):
|   setmaxnreg.inc.sync.aligned.u32 $(shape.registers[3]);
  scope(function()
    local acc = f32("acc", 2 * shape.n, "O: [4 blocks of latents][n / 2]")
    a.part = b32("part", "which PV warpgroup")
|   shr.u32        $(a.part), $(a.warp), 2;
|   sub.u32        $(a.part), $(a.part), 2;
    hopper_value.run(a, acc)
    leave_sums(a, acc)
  end)
| $(done):
end

-- The PV warpgroups add up the cluster's sums.
local function join(a)
  if shape.share == 1 then return end
  local left = label "left"
  hopper.part()
  scope(function()
    local others, whole = pred "others", shape.clusters > 1 and pred "whole"
|   setp.lt.u32    $(others), $(a.warp), 8;
| @$(others) bra   $(left);
    if whole then
|   setp.eq.u32    $(whole), $(a.live), 1;
    end
    hopper_join.add(a, whole)
  end)
| $(left):
end

local function main(alone, box)
  -- kv_cache and page_stride: the maps are made from them, and a launch checks them
  local params = { "kv_cache", "page_stride", "block_table", "max_pages", "lens", "totals", "softmax_scale", "output_scale", "kv_latent_map", "kv_rope_map" }
  local function add(list)
    for _, name in ipairs(list) do params[#params + 1] = name end
  end
  add(alone and { "query" } or { "q_box" })
  if not alone then add(box.params) end
  add { "rows", "rows_lse" }
  if shape.clusters > 1 then add { "workspace" } end
  kernel { name = shape.clusters > 1 and "mla_decode_split" or "mla_decode", grid = { shape.groups, shape.splits, shape.requests },
           block = { shape.THREADS }, cluster = shape.pair * shape.share > 1 and { shape.pair, shape.share } or nil, shared = shape.BYTES,
           min_ctas = 1, params = params }
  local a = hopper.open(shape.clusters)
  hopper_bounds.open(a)
  local b = not alone and box.open("mla_decode", false)
  hopper.barriers(a)
  if not b then hopper.arrive(a) end
  pdl.wait()
  pdl.launch_dependents()
  hopper_load.ask(a)
  local out = label "out"
  if b then
    read_box(a, b, box)
    hopper.arrive(a)                                    -- what the others read of CTA 0 lies before
  end
  hopper_bounds.find(a, b)
  hopper.meet(a)
  if b then leave_if_dead(a, out) end
  if shape.clusters > 1 then leave_if_idle(a, out) end
  roles(a)
  join(a)
  hopper.part()
| $(out):
|   ret;
end

function hopper_decode.emit()
  local alone = spec.dcp == 1
|.extern .shared .align 1024 .b8 dynamic_shared[];
  main(alone, not alone and include "lib/box")
  if shape.clusters == 1 then return end
  local attend_reduce = include "lib/attend_reduce"
  local plan = attend_reduce.plan(shape.clusters)
  kernel { name = "mla_decode_reduce", grid = { shape.rows, shape.requests, plan.slices }, block = { plan.threads },
           params = { "workspace", "rows", "rows_lse" } }
  pdl.wait()
  pdl.launch_dependents()
  attend_reduce.reduce(shape.rows, shape.clusters, plan, hopper_join.WHOLE)
|   ret;
end

return hopper_decode
