-- cuda: what CUDA C++ templates share. No header is there to include: conversions and the launch's own instructions are these.
--   functions(): to be called before the first kernel{}; it writes
--     wait_for_predecessor(), let_dependents_in()     programmatic dependent launch
--     e4m3x2_to_float2(pair) -> float2                exact; byte 0 is .x
--     float_to_e4m3(x) -> unsigned char               nearest even, saturating, NaN -> 0x7F
--     bf16_to_float(bits), float_to_bf16(x)           exact; nearest even
local cuda = {}

need { ptx = "8.1", target = "sm_90" } -- cvt of e4m3

function cuda.functions()
| // Grids before this one are complete, and what they wrote is visible: first in every kernel.
| __forceinline__ void wait_for_predecessor() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
| __forceinline__ void let_dependents_in() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
| __forceinline__ float2 e4m3x2_to_float2(unsigned short pair)
| {
|   unsigned halves;
|   float2 out;
|   asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
|   asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
|       : "=f"(out.x), "=f"(out.y) : "r"(halves));
|   return out;
| }
| __forceinline__ unsigned char float_to_e4m3(float x)
| {
|   unsigned short pair;
|   asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
|   return (pair & 0x7F) == 0x7F ? 0x7F : (unsigned char)pair;
| }
| __forceinline__ float bf16_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
| __forceinline__ unsigned short float_to_bf16(float x)
| {
|   unsigned short bits;
|   asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
|   return bits;
| }
end

return cuda
