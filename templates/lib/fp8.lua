-- fp8: e4m3 bytes from FP32, one rounding, saturating; a NaN becomes 0x7F (never 0xFF: that is the query mailbox's armed byte).
local fp8 = {}

-- word := bytes of x0..x3, x0 at the lowest address. x: four F32 registers.
function fp8.pack4(word, x0, x1, x2, x3)
  scope(function()
    local low, high = b16 "low", b16 "high"
|   cvt.rn.satfinite.e4m3x2.f32 $(low), $(x1), $(x0);
|   cvt.rn.satfinite.e4m3x2.f32 $(high), $(x3), $(x2);
|   mov.b32        $(word), {$(low), $(high)};
  end)
end

-- half (b16) := bytes of x0, x1.
function fp8.pack2(half, x0, x1)
|   cvt.rn.satfinite.e4m3x2.f32 $(half), $(x1), $(x0);
end

-- low, high := F16 pairs of a word's first and last two bytes.
function fp8.halves(low, high, word)
  scope(function()
    local half = b16("half", 2)
|   mov.b32        {$(half[0]), $(half[1])}, $(word);
|   cvt.rn.f16x2.e4m3x2 $(low), $(half[0]);
|   cvt.rn.f16x2.e4m3x2 $(high), $(half[1]);
  end)
end

-- x := 0 where it is NaN: what a cache row stores for one.
function fp8.nan_to_zero(x)
  scope(function()
    local number = pred "number"
|   setp.num.f32   $(number), $(x), $(x);
|   selp.f32       $(x), $(x), 0f00000000, $(number);
  end)
end

-- word: four e4m3 bytes, NaN bytes to 0.
function fp8.without_nan(word)
  scope(function()
    local nan = b32 "nan"
|   and.b32        $(nan), $(word), 0x7f7f7f7f;
|   add.u32        $(nan), $(nan), 0x01010101;
|   and.b32        $(nan), $(nan), 0x80808080;          // the byte's sign bit: it is a NaN
|   shr.u32        $(nan), $(nan), 7;
|   mul.lo.u32     $(nan), $(nan), 255;
|   not.b32        $(nan), $(nan);
|   and.b32        $(word), $(word), $(nan);
  end)
end

return fp8
