-- hopper_roles: what the warpgroups of a CTA of mla_decode's form for sm_90a do once they know its request and split: query rows, keys,
-- softmax, PV, and what they leave. A function of the CTA's shape (lib/hopper_shape).
local hopper_load = include "lib/hopper_load"

return function(shape)
local hopper_query = include("lib/hopper_query")(shape)
local hopper_score = include("lib/hopper_score")(shape)
local hopper_value = include("lib/hopper_value")(shape)
local hopper_out = include("lib/hopper_out")(shape)
local hopper_words = include("lib/hopper_words")(shape)
local hopper_chunks = include("lib/hopper_chunks")(shape)
local roles = {}
local DEALT = shape.columns > 0

-- After the wait: the query rows, from and to where lib/hopper_query's `prepare` found.
roles.ask = hopper_query.copy

-- What a PV warpgroup leaves: rows, a split's rows for the others of its request, or for the reducer.
local function leave_sums(a, acc)
  if shape.most == 1 then
    hopper_out.store(a, acc, false)
    return
  end
  local part, stored, many = label "partial", label "stored", pred "many"
|   setp.ne.u32    $(many), $(a.live), 1;
| @$(many) bra     $(part);
  hopper_out.store(a, acc, false, not DEALT and hopper_out.WHOLE)
|   bra            $(stored);
| $(part):
  if DEALT then
    hopper_chunks.exchange(a, acc)
  else
    hopper_out.store(a, acc, true)
  end
| $(stored):
end

-- Row ends of a split for the others, and the weights of all: the softmax warpgroup's last work.
local function weigh(a)
  if not DEALT then return end
  local alone, one = label "alone", pred "one_"
|   setp.eq.u32    $(one), $(a.live), 1;
| @$(one) bra      $(alone);
  hopper_words.weigh(a)
| $(alone):
end

-- Warpgroups part, each with its registers.
function roles.run(a)
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
  weigh(a)
|   bra            $(done);
| $(value):
|   setmaxnreg.inc.sync.aligned.u32 $(shape.registers[3]);
  hopper_query.there(false)
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

return roles
end
