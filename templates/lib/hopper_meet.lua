-- hopper_meet: the splits of a request add up what they found, inside the launch, through armed memory: arrival is its own flag, and who
-- reads a word arms it again. All CTAs of a grid are resident, so nobody waits for what cannot come; a split of a dead box gives empty rows.
-- The workspace holds 0xFFFFFFFF before a launch and after it; no F16 pair and no LSE is that NaN.
--
-- A split's rows are 64 n chunks of 16 bytes: [pair of rows 8 i + 2 t][128]: latents 64 mb + 16 w + 2 g + {0, 1} of blocks mb = 2 m and
-- 2 m + 1 of PV warpgroup `part`, chunk ((m * 2 + part) * 4 + w) * 8 + g of the pair: F16 of row / l * 128, two rows.
-- Owner o = 0, 1, .. of the request's `live` splits adds up chunks o << lg .. of all of them: lg as small as lets `live` owners do. It needs the
-- LSE of its chunks' rows, each word for one owner: n << shift words, shift = max(0, 7 - lg): owners of one pair of rows.
--   workspace   [columns][groups][64 n] chunks | [columns][groups][max(n, 2 columns)] words
-- Softmax warpgroup: LSE words out, owner's words in, weights 2^(lse - all) -> shared. PV warpgroups: chunks out, weights, chunks in, sums.
local shape = include "lib/hopper_shape"
local hopper_out = include "lib/hopper_out"
local wgmma = include "lib/wgmma"
local hopper_meet = {}
local N, SUMS, COLUMNS = shape.n, shape.n // 2, shape.columns
local CHUNKS = 64 * N
local WORDS = max(N, 2 * COLUMNS)                       -- of LSE, of a split
local ARMED = "0xffffffff"
local SCALE = 128                                       -- |row / l| <= 476 fits F16 with it
local BATCH = 8                                         -- chunks a thread has in flight
local WEIGHTS = shape.QUERY                             -- [live][rows of the owner] F32: the query is not needed any more
local PARTS = shape.P                                   -- [256 threads][8] F32: P is not needed any more
local PATIENCE = 1 << 22                                -- polls of a group, seconds of them, before the launch fails

-- o: lg, shift, rows_lg (log2 of the rows, rounded up, that an owner needs words of), column0 (of split 0).
local function deal(a)
  local o = { lg = b32("lg", "log2 of an owner's chunks"), shift = b32("shift", "log2 of a pair of rows' owners"),
              rows_lg = b32("rows_lg", "log2 of an owner's words of LSE, of a split"), column0 = b32("column0", "of the request's split 0") }
|   add.u32        $(o.lg), $(a.live), $(CHUNKS - 1);
|   div.u32        $(o.lg), $(o.lg), $(a.live);
|   sub.u32        $(o.lg), $(o.lg), 1;
|   clz.b32        $(o.lg), $(o.lg);
|   sub.u32        $(o.lg), 32, $(o.lg);
|   sub.s32        $(o.shift), 7, $(o.lg);
|   max.s32        $(o.shift), $(o.shift), 0;
|   sub.s32        $(o.rows_lg), $(o.lg), 6;
|   max.s32        $(o.rows_lg), $(o.rows_lg), 1;
|   mov.u32        $(o.column0), %ctaid.y;
|   sub.u32        $(o.column0), $(o.column0), $(a.split);
  return o
end

-- at := the split's first chunk, or its first word of LSE; column: a register.
local function place(at, column, words)
  scope(function()
    local index = b32 "place"
|   mov.u32        $(index), %ctaid.x;
|   mad.lo.u32     $(index), $(column), $(shape.groups), $(index);
|   ld.param.u64   $(at), [$(param.workspace)];
|   mad.wide.u32   $(at), $(index), $(words and WORDS * 4 or CHUNKS * 16), $(at);
    if words then
|   add.u64        $(at), $(at), $(COLUMNS * shape.groups * CHUNKS * 16);
    end
  end)
end

-- The launch fails where what is waited for cannot come: the grid is not resident as a whole.
local function lose_patience(polls)
  local on = label "patient"
  scope(function()
    local more = pred "more_"
|   add.u32        $(polls), $(polls), 1;
|   setp.lt.u32    $(more), $(polls), $(PATIENCE);
| @$(more) bra     $(on);
|   trap;
  end)
| $(on):
end

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
|   mov.u32        $(index), %ctaid.y;
      place(at, index, true)
|   mad.wide.u32   $(at), $(word), 4, $(at);
|   st.relaxed.gpu.global.b32 [$(at)], $(lse);
    end)
| $(none):
  end
end

-- The owner's words of all splits -> shared, as [split][1 << rows_lg].
local function take_words(a, o, base, mine)
  for first = 0, max(2 * N, WORDS) - 1, 128 do
    local none, again = label "no_word", label "word"
    scope(function()
      local index, split, row, all, skip, at, word, to, polls = b32 "index", b32 "split_", b32 "row", b32 "all", pred "skip", b64 "at", b32 "word", b32 "to", b32 "polls"
|   and.b32        $(index), $(a.thread), 127;
|   add.u32        $(index), $(index), $(first);
|   shl.b32        $(all), $(a.live), $(o.rows_lg);
|   shr.u32        $(split), $(index), $(o.rows_lg);
|   shl.b32        $(row), $(split), $(o.rows_lg);
|   sub.u32        $(row), $(index), $(row);
|   setp.ge.u32    $(skip), $(index), $(all);
|   setp.ge.or.u32 $(skip), $(row), $(mine), $(skip);
| @$(skip) bra     $(none);
|   add.u32        $(split), $(split), $(o.column0);
      place(at, split, true)
|   add.u32        $(row), $(row), $(base);
|   mad.wide.u32   $(at), $(row), 4, $(at);
|   mov.u32        $(polls), 0;
| $(again):
      lose_patience(polls)
|   ld.relaxed.gpu.global.b32 $(word), [$(at)];
|   setp.eq.u32    $(skip), $(word), $(ARMED);
| @$(skip) bra     $(again);
|   st.relaxed.gpu.global.b32 [$(at)], $(ARMED);
|   mad.lo.u32     $(to), $(index), 4, $(a.memory);
|   st.shared.b32  [$(to)+$(WEIGHTS)], $(word);
    end)
| $(none):
  end
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
|   mul.rn.f32     $(out), $(out), $(f32(1 / SCALE));
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
function hopper_meet.weigh(a)
  section "LSE of the splits, and what each weighs"
  scope(function()
    local o, base, mine, row, more = deal(a), b32("base", "the owner's first word"), b32("mine", "its words of a split"), b32 "row", pred "more"
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
|   bar.sync       3, 384;                              // weights are there
  end)
end

-- The PV warpgroups: this split's chunks, each to its owner.
function hopper_meet.give(a, acc)
  section "rows of the split, to those who add them up"
  scope(function()
    local at, index, by = b64 "at", b32 "index", f32 "by"
|   mov.u32        $(index), %ctaid.y;
    place(at, index)
|   mad.lo.u32     $(index), $(a.quarter), 128, $(a.group);
|   mad.lo.u32     $(index), $(a.w), 8, $(index);
|   mad.lo.u32     $(index), $(a.part), 32, $(index);
|   mad.wide.u32   $(at), $(index), 16, $(at);
|   mov.f32        $(by), $(f32(SCALE));
    for i = 0, N // 8 - 1 do
      scope(function()
        local row, scale, seen, words, x = b32 "row", f32("scale", 2), pred("seen", 2), b32("words_", 4), f32("x", 2)
        for e = 0, 1 do
|   mad.lo.u32     $(row), $(a.quarter), 2, $(8 * i + e);
          hopper_out.close_row(a, row, nil, scale[e], seen[e], by)
        end
        for m = 0, 1 do
          for e = 0, 1 do
            for k = 0, 1 do
              for p = 0, 1 do
|   mul.rn.f32     $(x[p]), $(acc[SUMS * (2 * m + k) + 4 * i + 2 * p + e]), $(scale[e]);
|   selp.f32       $(x[p]), $(x[p]), 0f00000000, $(seen[e]);
              end
|   cvt.rn.f16x2.f32 $(words[2 * e + k]), $(x[1]), $(x[0]);
            end
          end
|   st.relaxed.gpu.global.v4.b32 [$(at)+$(8192 * i + 1024 * m)], $(wgmma.list(words, 0, 4));
        end
      end)
    end
  end)
end

-- sum[0..7] += the chunk of up to BATCH splits: split, split + apart, ..; row: of the owner, its first.
local function batch(a, o, sum, chunk, split, apart, row)
  local again = label "chunk"
  scope(function()
    local words, at, live, missing, polls = b32("words_", 4 * BATCH), b64("at", BATCH), pred("live_", BATCH), pred "missing", b32 "polls"
    for n = 0, BATCH - 1 do
      scope(function()
        local this = b32 "this"
|   mad.lo.u32     $(this), $(apart), $(n), $(split);
|   setp.lt.u32    $(live[n]), $(this), $(a.live);
|   selp.b32       $(this), $(this), $(split), $(live[n]);
|   add.u32        $(this), $(this), $(o.column0);
        place(at[n], this)
|   mad.wide.u32   $(at[n]), $(chunk), 16, $(at[n]);
        for i = 0, 3 do
|   mov.b32        $(words[4 * n + i]), 0;
        end
      end)
    end
|   mov.u32        $(polls), 0;
| $(again):
    lose_patience(polls)
    for n = 0, BATCH - 1 do
| @$(live[n]) ld.relaxed.gpu.global.v4.b32 $(wgmma.list(words, 4 * n, 4)), [$(at[n])];
    end
    for i = 0, 4 * BATCH - 1 do
|   setp.eq$(i > 0 and ".or" or "").u32 $(missing), $(words[i]), $(ARMED)$(i > 0 and ", " .. tostring(missing) or "");
    end
| @$(missing) bra  $(again);
    for n = 0, BATCH - 1 do
      scope(function()
        local armed = b32 "armed"
|   mov.b32        $(armed), $(ARMED);
| @$(live[n]) st.relaxed.gpu.global.v4.b32 [$(at[n])], {$(armed), $(armed), $(armed), $(armed)};
      end)
    end
    for n = 0, BATCH - 1 do
      scope(function()
        local this, weight, half, x = b32 "this", f32("weight", 2), b16("half", 2), f32 "x"
|   mad.lo.u32     $(this), $(apart), $(n), $(split);
|   shl.b32        $(this), $(this), $(o.rows_lg);
|   add.u32        $(this), $(this), $(row);
|   mad.lo.u32     $(this), $(this), 4, $(a.memory);
        for e = 0, 1 do
|   mov.f32        $(weight[e]), 0f00000000;
        end
| @$(live[n]) ld.shared.v2.f32 {$(weight[0]), $(weight[1])}, [$(this)+$(WEIGHTS)];
        for i = 0, 3 do
|   mov.b32        {$(half[0]), $(half[1])}, $(words[4 * n + i]);
          for p = 0, 1 do
|   cvt.f32.f16    $(x), $(half[p]);
|   fma.rn.f32     $(sum[2 * i + p]), $(weight[i // 2]), $(x), $(sum[2 * i + p]);
          end
        end
      end)
    end
  end)
end

-- pair: F32 sums of two latents -> BF16; word 0..3 of the chunk (row e = word / 2, block 2 m + word % 2).
local function put(a, pair, chunk, word)
  local none = label "no_row"
  scope(function()
    local row, latent, part, live, to, out = b32 "row", b32 "latent", b32 "part_", pred "live", b64 "to", b32 "out_"
|   shr.u32        $(row), $(chunk), 7;
|   shl.b32        $(row), $(row), 1;
|   add.u32        $(row), $(row), $(a.row0);
|   shr.u32        $(part), $(word), 1;
|   add.u32        $(row), $(row), $(part);
|   setp.ge.u32    $(live), $(row), $(shape.rows);
| @$(live) bra     $(none);
|   and.b32        $(part), $(word), 1;
|   shl.b32        $(latent), $(part), 6;                // block
|   and.b32        $(part), $(chunk), 7;
|   mad.lo.u32     $(latent), $(part), 2, $(latent);     // g
|   bfe.u32        $(part), $(chunk), 3, 2;
|   mad.lo.u32     $(latent), $(part), 16, $(latent);    // w
|   bfe.u32        $(part), $(chunk), 5, 1;
|   mad.lo.u32     $(latent), $(part), 256, $(latent);   // warpgroup
|   bfe.u32        $(part), $(chunk), 6, 1;
|   mad.lo.u32     $(latent), $(part), 128, $(latent);   // m
|   mad.lo.u32     $(row), $(a.request), $(shape.rows), $(row);
|   ld.param.u64   $(to), [$(param.rows)];
|   mad.wide.u32   $(to), $(row), 1024, $(to);
|   mad.wide.u32   $(to), $(latent), 2, $(to);
|   cvt.rn.bf16x2.f32 $(out), $(pair[1]), $(pair[0]);
|   st.global.b32  [$(to)], $(out);
  end)
| $(none):
end

-- Several threads have parts of a chunk's sums, [part][chunk]: add them, a word of a chunk at a time, and store.
local function join_parts(a, base, count, parts)
  local again, over, add = label "join", label "joined", label "add_part"
  scope(function()
    local item, chunk, word, at, step, k, more, pair, x = b32 "item", b32 "chunk_", b32 "word", b32 "at", b32 "step", b32 "k", pred "more", f32("pair", 2), f32("x", 2)
|   sub.u32        $(item), $(a.thread), 256;
|   div.u32        $(step), 256, $(parts);
|   shl.b32        $(step), $(step), 5;                  // bytes from one part to the next
| $(again):
|   shr.u32        $(chunk), $(item), 2;
|   and.b32        $(word), $(item), 3;
|   setp.ge.u32    $(more), $(chunk), $(count);
| @$(more) bra     $(over);
|   mad.lo.u32     $(at), $(item), 8, $(a.memory);
|   mov.f32        $(pair[0]), 0f00000000;
|   mov.f32        $(pair[1]), 0f00000000;
|   mov.u32        $(k), 0;
| $(add):
|   ld.shared.v2.f32 {$(x[0]), $(x[1])}, [$(at)+$(PARTS)];
|   add.rn.f32     $(pair[0]), $(pair[0]), $(x[0]);
|   add.rn.f32     $(pair[1]), $(pair[1]), $(x[1]);
|   add.u32        $(at), $(at), $(step);
|   add.u32        $(k), $(k), 1;
|   setp.lt.u32    $(more), $(k), $(parts);
| @$(more) bra     $(add);
|   add.u32        $(chunk), $(chunk), $(base);
    put(a, pair, chunk, word)
|   add.u32        $(item), $(item), 256;
|   bra            $(again);
| $(over):
  end)
end

-- The PV warpgroups, after `give`: the owner's chunks of all splits.
function hopper_meet.add(a)
  section "the owner's sums"
  scope(function()
    local o, base, count, thread, part, parts = deal(a), b32("base", "the owner's first chunk"), b32("count", "its chunks"), b32 "thread_", b32("part_", "of the chunk's splits"), b32 "parts"
    local inside, split, row, sum, lg, chunk, more = b32("inside", "chunk, from the owner's first"), b32 "split_", b32 "row", f32("sum_", 8), b32 "lg_", b32 "chunk_", pred "more"
    local again, next_split, summed, over, direct, done = label "own_chunk", label "own_split", label "own_summed", label "own_over", label "direct", label "own_done"
|   shl.b32        $(base), $(a.split), $(o.lg);
|   mov.u32        $(count), 1;
|   shl.b32        $(count), $(count), $(o.lg);
|   sub.s32        $(inside), $(CHUNKS), $(base);
|   max.s32        $(inside), $(inside), 0;
|   min.u32        $(count), $(count), $(inside);
|   min.u32        $(lg), $(o.lg), 8;
|   mov.u32        $(parts), 256;
|   shr.u32        $(parts), $(parts), $(lg);
|   sub.u32        $(thread), $(a.thread), 256;
|   shr.u32        $(part), $(thread), $(lg);
|   shl.b32        $(inside), $(part), $(lg);
|   sub.u32        $(inside), $(thread), $(inside);
|   bar.sync       3, 384;                              // weights are there, and nobody needs P any more
| $(again):
|   setp.ge.u32    $(more), $(inside), $(count);
| @$(more) bra     $(over);
|   add.u32        $(chunk), $(base), $(inside);
|   shr.u32        $(row), $(inside), 7;
|   shl.b32        $(row), $(row), 1;
    for i = 0, 7 do
|   mov.f32        $(sum[i]), 0f00000000;
    end
|   mov.u32        $(split), $(part);
| $(next_split):
|   setp.ge.u32    $(more), $(split), $(a.live);
| @$(more) bra     $(summed);
    batch(a, o, sum, chunk, split, parts, row)
|   mad.lo.u32     $(split), $(parts), $(BATCH), $(split);
|   bra            $(next_split);
| $(summed):
|   setp.eq.u32    $(more), $(parts), 1;
| @$(more) bra     $(direct);
    scope(function()
      local to = b32 "to"
|   mad.lo.u32     $(to), $(thread), 32, $(a.memory);
      for i = 0, 1 do
|   st.shared.v4.f32 [$(to)+$(PARTS + 16 * i)], $(wgmma.list(sum, 4 * i, 4));
      end
    end)
|   bra            $(over);
| $(direct):
    for word = 0, 3 do
      scope(function()
        local number = b32 "number"
|   mov.u32        $(number), $(word);
        put(a, { [0] = sum[2 * word], sum[2 * word + 1] }, chunk, number)
      end)
    end
|   add.u32        $(inside), $(inside), 256;
|   bra            $(again);
| $(over):
|   setp.eq.u32    $(more), $(parts), 1;
| @$(more) bra     $(done);
|   bar.sync       2, 256;
    join_parts(a, base, count, parts)
| $(done):
  end)
end

return hopper_meet
