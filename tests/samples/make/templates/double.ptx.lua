-- double: to[i] = 2 * from[i], one thread a number.
--   from [batch] F32 -> to [batch] F32
local pdl = include "lib/pdl"

need { ptx = "7.8", target = "sm_90" }
kernel { grid = { ceil_div(spec.batch, 32) }, block = { 32 }, params = { { "from", "u64" }, { "to", "u64" } } }

local index, lane, outside = b32 "index", b32 "lane", pred "outside"
local from, to, number = b64 "from", b64 "to", f32 "number"

|   mov.u32        $(index), %ctaid.x;
|   mov.u32        $(lane), %tid.x;
|   mad.lo.u32     $(index), $(index), 32, $(lane);
pdl.wait()
|   setp.ge.u32    $(outside), $(index), $(spec.batch);
| @$(outside) ret;
|   ld.param.u64   $(from), [$(param.from)];
|   ld.param.u64   $(to), [$(param.to)];
|   mad.wide.u32   $(from), $(index), 4, $(from);
|   mad.wide.u32   $(to), $(index), 4, $(to);
|   ld.global.f32  $(number), [$(from)];
|   add.rn.f32     $(number), $(number), $(number);
|   st.global.f32  [$(to)], $(number);
|   ret;
