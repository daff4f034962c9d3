-- hopper_place: which row group and which column of its shape's grid a CTA is (lib/hopper_shape).
local shape = include "lib/hopper_shape"
local hopper_place = {}

-- dst := the CTA's column.
function hopper_place.column(dst, s)
|   mov.u32        $(dst), %ctaid.y;
  if s.fold > 1 then
|   div.u32        $(dst), $(dst), $(s.fold);
  end
end

-- dst := its row group.
function hopper_place.group(dst, s)
|   mov.u32        $(dst), %ctaid.x;
  if s.fold > 1 then
    scope(function()
      local part = b32 "part_of_fold"
|   mov.u32        $(part), %ctaid.y;
|   rem.u32        $(part), $(part), $(s.fold);
|   mad.lo.u32     $(dst), $(part), $(shape.groups), $(dst);
    end)
  end
end

return hopper_place
