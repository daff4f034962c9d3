-- hopper_product: the scores of a key tile by wgmma, as both forms of the softmax take them (lib/hopper_many, lib/hopper_few).
local shape = include "lib/hopper_shape"
local wgmma = include "lib/wgmma"
local hopper_product = {}
local ROWS = 64                                         -- of the query in shared memory

-- s := the scores of the tile at shared address `stage`: Q K^T [64 rows][64 keys], or with keys_first K Q^T [64 keys][n rows]; `columns`: of
-- the product. Two chains of 9 steps each, added here: the tensor core keeps about 13 bits of a chain and cuts towards zero; one chain of 18
-- moved rows by up to 2e-2, two by 3e-3.
function hopper_product.scores(a, s, stage, columns, keys_first)
  scope(function()
    local key, rope, query, query_rope = b64 "key", b64 "key_rope", b64 "query_", b64 "query_rope"
    local at, step, from, other = b32 "at_", b64 "step", b64 "from", f32("s_other", columns // 2)
    wgmma.descriptor(key, stage, 128)
|   add.u32        $(at), $(stage), $(shape.LATENT);
    wgmma.descriptor(rope, at, 64)
|   add.u32        $(at), $(a.memory), $(shape.QUERY);
    wgmma.descriptor(query, at, 128)
|   add.u32        $(at), $(at), $(ROWS * 512);
    wgmma.descriptor(query_rope, at, 64)
    wgmma.fence()
    for k = 0, 17 do
      local latent = k < 16
      local offset = latent and (k // 4) * ROWS * 8 + (k % 4) * 2 or (k - 16) * 2   -- a stage has 64 rows, too
|   add.u64        $(step), $(latent and key or rope), $(offset);
|   add.u64        $(from), $(latent and query or query_rope), $(offset);
      wgmma.product(k % 2 == 0 and s or other, columns, keys_first and step or from, nil, keys_first and from or step, k < 2)
    end
    wgmma.commit()
    wgmma.wait(0)
    for i = 0, columns // 2 - 1 do
|   add.rn.f32     $(s[i]), $(s[i]), $(other[i]);
    end
  end)
end

return hopper_product
