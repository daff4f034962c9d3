-- hopper_words: the softmax warpgroup's part of adding up a request's splits (lib/hopper_armed): their LSE words and what each weighs.
local hopper_place = include "lib/hopper_place"

return function(shape)
local armed = include("lib/hopper_armed")(shape)
local hopper_out = include("lib/hopper_out")(shape)
local hopper_words = {}
local N, COLUMNS = shape.n, shape.columns
local WORDS, ARMED, WEIGHTS = armed.WORDS, armed.WORD, armed.WEIGHTS
local place, lose_patience = armed.place, armed.lose_patience

-- This split's words of LSE, each to its owner.
local function give_words(a, o)
  for first = 0, WORDS - 1, 128 do
    local none = label "no_word"
    scope(function()
      local word, row, some, lse, seen, at, index, count = b32 "word", b32 "row", pred "some", f32 "lse", pred "seen", b64 "at", b32 "index", b32 "count"
|   and.b32        $(word), $(a.thread), 127;
|   add.u32        $(word), $(word), $(first);
|   mov.u32        $(count), $(N);
|   shl.b32        $(count), $(count), $(o.shift);
|   setp.ge.u32    $(some), $(word), $(count);
| @$(some) bra     $(none);
|   shr.u32        $(row), $(word), 1;
|   shr.u32        $(row), $(row), $(o.shift);
|   shl.b32        $(row), $(row), 1;
|   and.b32        $(index), $(word), 1;
|   add.u32        $(row), $(row), $(index);
      hopper_out.close_row(a, row, lse, nil, seen)
      hopper_place.column(index, shape)
      place(at, index, true)
|   mad.wide.u32   $(at), $(word), 4, $(at);
|   st.relaxed.gpu.global.b32 [$(at)], $(lse);
    end)
| $(none):
  end
end

-- The owner's words of all splits -> shared, as [split][1 << rows_lg]. A thread has all of its words under way at once.
local function take_words(a, o, base, mine)
  local count, again = ceil_div(max(2 * N, WORDS), 128), label "word"
  scope(function()
    local word, at, skip, to, polls, any = b32("word", count), b64("at", count), pred("skip", count), b32 "to", b32 "polls", b32 "any"
    for k = 0, count - 1 do
      scope(function()
        local index, split, row, all = b32 "index", b32 "split_", b32 "row", b32 "all"
|   and.b32        $(index), $(a.thread), 127;
|   add.u32        $(index), $(index), $(128 * k);
|   shl.b32        $(all), $(a.live), $(o.rows_lg);
|   shr.u32        $(split), $(index), $(o.rows_lg);
|   shl.b32        $(row), $(split), $(o.rows_lg);
|   sub.u32        $(row), $(index), $(row);
|   setp.ge.u32    $(skip[k]), $(index), $(all);
|   setp.ge.or.u32 $(skip[k]), $(row), $(mine), $(skip[k]);
|   add.u32        $(split), $(split), $(o.column0);
        place(at[k], split, true)
|   add.u32        $(row), $(row), $(base);
|   mad.wide.u32   $(at[k]), $(row), 4, $(at[k]);
|   mov.b32        $(word[k]), 0;
      end)
    end
|   mov.u32        $(polls), 0;
| $(again):
    lose_patience(a, polls)
    for k = 0, count - 1 do
| @!$(skip[k]) ld.relaxed.gpu.global.b32 $(word[k]), [$(at[k])];
    end
|   mov.b32        $(any), $(word[0]);
    for k = 1, count - 1 do
|   max.u32        $(any), $(any), $(word[k]);
    end
    scope(function()
      local missing = pred "missing"
|   setp.eq.u32    $(missing), $(any), $(ARMED);
| @$(missing) bra  $(again);
    end)
|   and.b32        $(to), $(a.thread), 127;
|   mad.lo.u32     $(to), $(to), 4, $(a.memory);
    for k = 0, count - 1 do
| @!$(skip[k]) st.relaxed.gpu.global.b32 [$(at[k])], $(ARMED);
| @!$(skip[k]) st.shared.b32 [$(to)+$(WEIGHTS + 512 * k)], $(word[k]);
    end
  end)
end

-- Row `row` (of the owner's) of all splits, by a warp: LSE -> weights, in place; the row's own LSE to global by its first owner.
local function weigh_row(a, o, row, base)
  local rounds = ceil_div(COLUMNS, 32)
  scope(function()
    local lse, at, live, top, sum, other, all = f32("lse", rounds), b32("at_", rounds), pred("live_", rounds), f32 "top_", f32 "sum_", f32 "other", f32 "all_"
|   mov.f32        $(top), 0fff800000;
    for i = 0, rounds - 1 do
      scope(function()
        local split = b32 "split_"
|   add.u32        $(split), $(a.lane), $(32 * i);
|   setp.lt.u32    $(live[i]), $(split), $(a.live);
|   shl.b32        $(split), $(split), $(o.rows_lg);
|   add.u32        $(split), $(split), $(row);
|   mad.lo.u32     $(at[i]), $(split), 4, $(a.memory);
|   mov.f32        $(lse[i]), 0fff800000;
| @$(live[i]) ld.shared.f32 $(lse[i]), [$(at[i])+$(WEIGHTS)];
|   max.f32        $(top), $(top), $(lse[i]);
      end)
    end
    for _, lanes in ipairs { 16, 8, 4, 2, 1 } do
|   shfl.sync.bfly.b32 $(other), $(top), $(lanes), 31, 0xffffffff;
|   max.f32        $(top), $(top), $(other);
    end
|   mov.f32        $(sum), 0f00000000;
    for i = 0, rounds - 1 do
      scope(function()
        local real = pred "real"
|   setp.neu.f32   $(real), $(lse[i]), 0fff800000;
|   sub.rn.f32     $(lse[i]), $(lse[i]), $(top);
|   ex2.approx.f32 $(lse[i]), $(lse[i]);
|   selp.f32       $(lse[i]), $(lse[i]), 0f00000000, $(real);
|   add.rn.f32     $(sum), $(sum), $(lse[i]);
      end)
    end
    for _, lanes in ipairs { 16, 8, 4, 2, 1 } do
|   shfl.sync.bfly.b32 $(other), $(sum), $(lanes), 31, 0xffffffff;
|   add.rn.f32     $(sum), $(sum), $(other);
    end
    scope(function()
      local real, weight, out = pred "real", f32 "weight", f32 "out_"
|   setp.neu.f32   $(real), $(sum), 0f00000000;
|   rcp.rn.f32     $(weight), $(sum);
|   ld.param.f32   $(out), [$(param.output_scale)];
|   mul.rn.f32     $(out), $(out), $(f32(1 / armed.SCALE));
|   mul.rn.f32     $(weight), $(weight), $(out);
|   selp.f32       $(weight), $(weight), 0f00000000, $(real);
      for i = 0, rounds - 1 do
|   mul.rn.f32     $(lse[i]), $(lse[i]), $(weight);
| @$(live[i]) st.shared.f32 [$(at[i])+$(WEIGHTS)], $(lse[i]);
      end
|   lg2.approx.f32 $(all), $(sum);
|   add.rn.f32     $(all), $(all), $(top);
|   selp.f32       $(all), $(all), 0fff800000, $(real);
    end)
    local none = label "not_its_lse"
    scope(function()
      local first, index, to = pred "first", b32 "index", b64 "to"
|   shl.b32        $(index), $(a.split), $(o.lg);
|   and.b32        $(index), $(index), 127;              // 0: the pair of rows' first owner
|   or.b32         $(index), $(index), $(a.lane);
|   setp.ne.u32    $(first), $(index), 0;
|   shr.u32        $(index), $(base), $(o.shift);
|   shr.u32        $(index), $(index), 1;
|   shl.b32        $(index), $(index), 1;                // the owner's first row
|   add.u32        $(index), $(index), $(row);
|   add.u32        $(index), $(index), $(a.row0);
|   setp.ge.or.u32 $(first), $(index), $(shape.rows), $(first);
| @$(first) bra    $(none);
|   mad.lo.u32     $(index), $(a.request), $(shape.rows), $(index);
|   ld.param.u64   $(to), [$(param.rows_lse)];
|   mad.wide.u32   $(to), $(index), 4, $(to);
|   st.global.f32  [$(to)], $(all);
    end)
| $(none):
  end)
end

-- The softmax warpgroup, after its last tile: row ends are in shared memory.
function hopper_words.weigh(a)
  section "LSE of the splits, and what each weighs"
  scope(function()
    local o, base, mine, row, more = armed.deal(a), b32("base", "the owner's first word"), b32("mine", "its words of a split"), b32 "row", pred "more"
    local again, over = label "weigh", label "weighed"
|   bar.sync       1, 128;                              // row ends of all warps
    give_words(a, o)
|   shl.b32        $(base), $(a.split), $(o.rows_lg);
|   mov.u32        $(mine), $(N);
|   shl.b32        $(mine), $(mine), $(o.shift);
|   sub.s32        $(mine), $(mine), $(base);
|   max.s32        $(mine), $(mine), 0;
|   mov.u32        $(row), 1;
|   shl.b32        $(row), $(row), $(o.rows_lg);
|   min.u32        $(mine), $(mine), $(row);
    take_words(a, o, base, mine)
|   bar.arrive     $(armed.WORDS_THERE), 384;           // and chunks nearly
|   bar.sync       1, 128;
|   mov.u32        $(row), $(a.w);
|   setp.ge.u32    $(more), $(row), $(mine);
| @$(more) bra     $(over);
| $(again):
    weigh_row(a, o, row, base)
|   add.u32        $(row), $(row), 4;
|   setp.lt.u32    $(more), $(row), $(mine);
| @$(more) bra     $(again);
| $(over):
|   bar.sync       $(armed.WEIGHTS_THERE), 384;
  end)
end

return hopper_words
end
