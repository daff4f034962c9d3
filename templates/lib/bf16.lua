-- bf16: pairs of BF16 in a word; the low half is the element at the lower address.
local bf16 = {}

-- lo, hi: F32 registers.
function bf16.unpack(lo, hi, word)
|   shl.b32        $(lo), $(word), 16;
|   and.b32        $(hi), $(word), 0xffff0000;
end

-- Both halves rounded to nearest even; a NaN becomes 0x7FFF.
function bf16.pack(word, lo, hi)
|   cvt.rn.bf16x2.f32 $(word), $(hi), $(lo);
end

return bf16
