-- wgmma: the warpgroup's matrix product (PTX ISA: asynchronous warpgroup-level matrix instructions), e4m3 operands, FP32 sums: D is
-- m64nNk32; A from registers or shared memory, B from shared memory, both K-major.
need { ptx = "8.0", target = "sm_90a" }
local wgmma = {}

-- "{r0, r1, ...}" of an array's elements first .. first + count - 1.
local function list(array, first, count)
  local names = {}
  for i = 0, count - 1 do names[i + 1] = tostring(array[first + i]) end
  return "{" .. table.concat(names, ", ") .. "}"
end
wgmma.list = list

-- High word of a matrix descriptor: stride of 8 rows, and the swizzle. 128: rows of 128 bytes; 64: of 64.
local HIGH = { [128] = 1 << 30 | 64, [64] = 2 << 30 | 32 }

-- low := the low word of the descriptor of rows at the shared address `at`, which is a multiple of 1024 (swizzle 128) or 512 (64).
function wgmma.place(low, at)
|   shr.u32        $(low), $(at), 4;
|   or.b32         $(low), $(low), 0x10000;             // leading offset: not used by swizzled K-major layouts
end

-- descriptor := `steps` units of 16 bytes behind `low`. A step of k 32 is 2, one of n bytes n / 16. In words of 32 bits: 64-bit sums cost
-- the scalar unit more cycles than a small product takes.
function wgmma.descriptor(descriptor, low, steps, swizzle)
  scope(function()
    local step = b32 "step_low"
|   add.u32        $(step), $(low), $(steps);
|   mov.b64        $(descriptor), {$(step), $(hex(HIGH[swizzle]))};
  end)
end

-- Registers that other instructions wrote may be read by the products that follow; one for accumulators that are new, too.
function wgmma.fence()
|   wgmma.fence.sync.aligned;
end

function wgmma.commit()
|   wgmma.commit_group.sync.aligned;
end

function wgmma.wait(pending)
|   wgmma.wait_group.sync.aligned $(pending);
end

-- d[0 .. n/2-1] := (first and 0 or d) + A B. a: a register array, from `at` on 4 of it; or a descriptor. b: a descriptor.
function wgmma.product(d, n, a, at, b, first)
  local from = at and list(a, at, 4) or tostring(a)
|   wgmma.mma_async.sync.aligned.m64n$(n)k32.f32.e4m3.e4m3
|       $(list(d, 0, n // 2)),
|       $(from), $(b), $(first and 0 or 1), 1, 1;
end

return wgmma
