-- shard: which keys of a request lie on a rank: runs of `interleave` tokens go round the D ranks.
local shard = {}
local D, I = spec.dcp, spec.interleave

-- length := local keys of the global prefix n (S32) on this rank (spec: base = n / (I D) * I, then the remainder's share).
function shard.local_keys(length, n, rank)
  if D == 1 then
|   max.s32        $(length), $(n), 0;
    return
  end
  scope(function()
    local whole, rest = b32 "whole", b32 "rest"
|   max.s32        $(rest), $(n), 0;
|   div.u32        $(whole), $(rest), $(I * D);
|   mul.lo.u32     $(length), $(whole), $(I * D);
|   sub.u32        $(rest), $(rest), $(length);
|   mad.lo.s32     $(rest), $(rank), $(-I), $(rest);
|   max.s32        $(rest), $(rest), 0;
|   min.s32        $(rest), $(rest), $(I);
|   mad.lo.u32     $(length), $(whole), $(I), $(rest);
  end)
end

return shard
