-- warp: reductions over the 32 lanes, as butterflies 16, 8, 4, 2, 1 (a fixed order: the same bits on every machine).
local warp = {}

-- value := op over all lanes. op: "add.rn" or "max" (F32; add alone might be fused with a product).
function warp.reduce(op, value)
  scope(function()
    local other = b32 "other"
    for _, lanes in ipairs { 16, 8, 4, 2, 1 } do
|   shfl.sync.bfly.b32 $(other), $(value), $(lanes), 31, 0xffffffff;
|   $(op).f32      $(value), $(value), $(other);
    end
  end)
end

return warp
