-- row_max: m', the running maximum of a row's base-2 scores, rounded up to an integer (spec: decision 7), and what older sums are
-- multiplied by when it moves: exact powers of two.
local row_max = {}
row_max.NEVER = f32(-1e30)                              -- before any visible key; exponents of factors stay in range

-- factor := 2^(old - new) from exponent bits; both integers (or NEVER), new >= old; 0 when 127 or more apart.
function row_max.factor(factor, old, new)
  scope(function()
    local apart, bits = f32 "apart", b32 "bits"
|   sub.rn.f32     $(apart), $(old), $(new);
|   max.f32        $(apart), $(apart), $(f32(-127));
|   cvt.rzi.s32.f32 $(bits), $(apart);
|   add.s32        $(bits), $(bits), 127;
|   shl.b32        $(factor), $(bits), 23;
  end)
end

return row_max
