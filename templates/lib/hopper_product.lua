-- hopper_product: the scores of a key tile by wgmma, as both forms of the softmax take them (lib/hopper_many, lib/hopper_few).
local shape = include "lib/hopper_shape"
local wgmma = include "lib/wgmma"
local hopper_product = {}
local ROWS = 64                                         -- of the query in shared memory

-- Starts the products of the tile at shared address `stage`: Q K^T [64 rows][64 keys], or with keys_first K Q^T [64 keys][n rows]; `columns`:
-- of the product. Two chains of every other of the 18 steps, of which those with registers in `into` ([0], [1]) are started: the tensor core
-- keeps about 13 bits of a chain and cuts towards zero; one chain of 18 moved rows by up to 2e-2, two by 3e-3.
function hopper_product.start(a, into, stage, columns, keys_first)
  scope(function()
    local key, rope, query, query_rope = b32 "key", b32 "key_rope", b32 "query_", b32 "query_rope"
    local at, step, from = b32 "at_", b64 "step", b64 "from"
    wgmma.place(key, stage)
|   add.u32        $(at), $(stage), $(shape.LATENT);
    wgmma.place(rope, at)
|   add.u32        $(at), $(a.memory), $(shape.QUERY);
    wgmma.place(query, at)
|   add.u32        $(at), $(at), $(ROWS * 512);
    wgmma.place(query_rope, at)
    wgmma.fence()
    for k = 0, 17 do
      local latent, s = k < 16, into[k % 2]
      local steps = latent and (k // 4) * ROWS * 8 + (k % 4) * 2 or (k - 16) * 2   -- a stage has 64 rows, too
      if s then
        wgmma.descriptor(step, latent and key or rope, steps, latent and 128 or 64)
        wgmma.descriptor(from, latent and query or query_rope, steps, latent and 128 or 64)
        wgmma.product(s, columns, keys_first and step or from, nil, keys_first and from or step, k < 2)
      end
    end
    wgmma.commit()
  end)
end

-- s := the tile's scores: both chains are done, s and `other` hold one each.
function hopper_product.join(s, other, columns)
  wgmma.wait(0)
  for i = 0, columns // 2 - 1 do
|   add.rn.f32     $(s[i]), $(s[i]), $(other[i]);
  end
end

return hopper_product
