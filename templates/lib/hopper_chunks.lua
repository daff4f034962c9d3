-- hopper_chunks: the PV warpgroups' part of adding up a request's splits (lib/hopper_armed): this split's rows to those who add them up,
-- and the sums of the chunks that this one owns. Threads hold LOADS chunks at a time: of one chunk many splits, or of many chunks few.
local hopper_place = include "lib/hopper_place"

return function(shape)
local armed = include("lib/hopper_armed")(shape)
local wgmma = include "lib/wgmma"
local hopper_chunks = {}
local N, SUMS = shape.n, shape.n // 2
local CHUNKS, ARMED, WEIGHTS, PARTS = armed.CHUNKS, armed.WORD, armed.WEIGHTS, armed.PARTS
local LOADS = N <= 16 and 4 or N <= 32 and 8 or 16      -- as many as a thread adds up where splits are even
local PADDED = shape.groups * N > shape.rows            -- some CTA has rows past the request's last
local place, lose_patience = armed.place, armed.lose_patience

-- This split's chunks, each to its owner; its own to shared, where the query was. Sums of a row without a key are 0, and so is its
-- scale.
local function give(a, o, acc)
  section "rows of the split, to those who add them up"
  scope(function()
    local at, own, index, ends = b64 "at", b32 "own", b32 "index", b32 "ends"
    hopper_place.column(index, shape)
    place(at, index)
|   mad.lo.u32     $(index), $(a.quarter), 128, $(a.group);
|   mad.lo.u32     $(index), $(a.w), 8, $(index);
|   mad.lo.u32     $(index), $(a.part), 32, $(index);
|   mad.wide.u32   $(at), $(index), 16, $(at);
|   shl.b32        $(own), $(a.split), $(o.lg);
|   sub.u32        $(own), $(index), $(own);
|   mad.lo.u32     $(own), $(own), 16, $(a.memory);
|   add.u32        $(own), $(own), $(armed.OWN);         // where it is before the owner's first, still in shared memory
|   mad.lo.u32     $(ends), $(a.quarter), 8, $(a.memory);
    for i = 0, N // 8 - 1 do
      scope(function()
        local scale, words, x = f32("scale", 2), b32("words_", 4), f32("x", 2)
|   ld.shared.v2.f32 {$(scale[0]), $(scale[1])}, [$(ends)+$(shape.END + 512 + 32 * i)];
        for e = 0, 1 do
|   mul.rn.f32     $(scale[e]), $(scale[e]), $(f32(armed.SCALE));
        end
        for m = 0, 1 do
          scope(function()
            local owner, mine = b32 "owner", pred "mine"
|   add.u32        $(owner), $(index), $(512 * i + 64 * m);
|   shr.u32        $(owner), $(owner), $(o.lg);
|   setp.eq.u32    $(mine), $(owner), $(a.split);
            for e = 0, 1 do
              for k = 0, 1 do
                for p = 0, 1 do
|   mul.rn.f32     $(x[p]), $(acc[SUMS * (2 * m + k) + 4 * i + 2 * p + e]), $(scale[e]);
                end
|   cvt.rn.f16x2.f32 $(words[2 * e + k]), $(x[1]), $(x[0]);
              end
            end
| @$(mine) st.shared.v4.b32 [$(own)+$(8192 * i + 1024 * m)], $(wgmma.list(words, 0, 4));
| @!$(mine) st.relaxed.gpu.global.v4.u32 [$(at)+$(8192 * i + 1024 * m)], $(wgmma.list(words, 0, 4));
          end)
        end
      end)
    end
  end)
end

-- A thread's batch: `chunks` chunks, 256 apart, of `splits` splits, p.parts apart, from p.inside and p.split on. words[]: what came, 0 where
-- there is none.
local function take_chunks(a, o, p, words, chunks, splits)
  local again = label "chunk"
  scope(function()
    local at, live, own, mine, polls = b64("at", splits), pred("live_", chunks * splits), b32 "own", pred("mine", splits), b32 "polls"
|   mad.lo.u32     $(own), $(p.inside), 16, $(a.memory);
    for s = 0, splits - 1 do
      scope(function()
        local this, chunk = b32 "this", b32 "chunk_"
|   mad.lo.u32     $(this), $(p.parts), $(s), $(p.split);
|   setp.eq.u32    $(mine[s]), $(this), $(a.split);
        for c = 0, chunks - 1 do
|   add.u32        $(chunk), $(p.inside), $(256 * c);
|   setp.lt.u32    $(live[splits * c + s]), $(chunk), $(p.count);
|   setp.lt.and.u32 $(live[splits * c + s]), $(this), $(a.live), $(live[splits * c + s]);
        end
|   add.u32        $(this), $(this), $(o.column0);
        place(at[s], this)
|   add.u32        $(chunk), $(p.base), $(p.inside);
|   mad.wide.u32   $(at[s]), $(chunk), 16, $(at[s]);
      end)
    end
    for c = 0, chunks - 1 do
      for s = 0, splits - 1 do
        scope(function()
          local k, here = splits * c + s, pred "here"
          for i = 0, 3 do
|   mov.b32        $(words[4 * k + i]), 0;
          end
|   and.pred       $(here), $(live[k]), $(mine[s]);
| @$(here) ld.shared.v4.b32 $(wgmma.list(words, 4 * k, 4)), [$(own)+$(armed.OWN + 4096 * c)];
|   xor.pred       $(live[k]), $(live[k]), $(here);
        end)
      end
    end
|   mov.u32        $(polls), 0;
| $(again):
    lose_patience(a, polls)
    for c = 0, chunks - 1 do
      for s = 0, splits - 1 do
        local k = splits * c + s
| @$(live[k]) ld.relaxed.gpu.global.v4.u32 $(wgmma.list(words, 4 * k, 4)), [$(at[s])+$(4096 * c)];
      end
    end
    scope(function()
      local unset, any, arrived, most = b32 "unset", pred "any", pred "arrived", b32 "most"
|   mov.b32        $(unset), $(ARMED);
      for c = 0, chunks - 1 do
        for s = 0, splits - 1 do
          local k = splits * c + s
|   max.u32        $(most), $(words[4 * k]), $(words[4 * k + 1]);
|   max.u32        $(most), $(most), $(words[4 * k + 2]);
|   max.u32        $(most), $(most), $(words[4 * k + 3]);
|   setp.ne.and.u32 $(arrived), $(most), $(unset), $(live[k]);
|   setp.eq.and.u32 $(live[k]), $(most), $(unset), $(live[k]);   // still to come
| @$(arrived) st.relaxed.gpu.global.v4.u32 [$(at[s])+$(4096 * c)], {$(unset), $(unset), $(unset), $(unset)};
          if k == 0 then
|   mov.pred       $(any), $(live[k]);
          else
|   or.pred        $(any), $(any), $(live[k]);
          end
        end
      end
| @$(any) bra      $(again);
    end)
  end)
end

-- sum[8 c ..] += weight * words of the batch.
local function weigh_chunks(a, o, p, words, sum, chunks, splits)
  scope(function()
    local row = b32 "row"
|   shr.u32        $(row), $(p.inside), 7;
|   shl.b32        $(row), $(row), 1;
    for s = 0, splits - 1 do
      scope(function()
        local this, there = b32 "this", pred "there"
|   mad.lo.u32     $(this), $(p.parts), $(s), $(p.split);
|   setp.lt.u32    $(there), $(this), $(a.live);
|   shl.b32        $(this), $(this), $(o.rows_lg);
|   add.u32        $(this), $(this), $(row);
|   mad.lo.u32     $(this), $(this), 4, $(a.memory);
        for c = 0, chunks - 1 do
          scope(function()
            local weight, half, x, some, chunk = f32("weight", 2), b16("half", 2), f32 "x", pred "some", b32 "chunk_"
|   add.u32        $(chunk), $(p.inside), $(256 * c);
|   setp.lt.u32    $(some), $(chunk), $(p.count);
|   and.pred       $(some), $(some), $(there);
            for e = 0, 1 do
|   mov.f32        $(weight[e]), 0f00000000;
            end
| @$(some) ld.shared.v2.f32 {$(weight[0]), $(weight[1])}, [$(this)+$(WEIGHTS + 16 * c)];
            for i = 0, 3 do
|   mov.b32        {$(half[0]), $(half[1])}, $(words[4 * (splits * c + s) + i]);
              for e = 0, 1 do
|   cvt.f32.f16    $(x), $(half[e]);
|   fma.rn.f32     $(sum[8 * c + 2 * i + e]), $(weight[i // 2]), $(x), $(sum[8 * c + 2 * i + e]);
              end
            end
          end)
        end
      end)
    end
  end)
end

-- to := where the chunk's first two latents go, row: their row of the request. The chunk's four pairs of latents are 0, 128, 1024 and 1152
-- bytes from there: word k of the chunk is row k / 2, block 2 m + k % 2.
local function destination(a, to, row, chunk)
  scope(function()
    local latent, bits = b32 "latent", b32 "bits"
|   shr.u32        $(row), $(chunk), 7;
|   mad.lo.u32     $(row), $(row), 2, $(a.row0);
|   and.b32        $(bits), $(chunk), 31;
|   and.b32        $(latent), $(bits), 7;                // g
|   sub.u32        $(bits), $(bits), $(latent);
|   add.u32        $(latent), $(latent), $(bits);        // + 8 w: pairs of latents
|   bfe.u32        $(bits), $(chunk), 5, 1;
|   mad.lo.u32     $(latent), $(bits), 128, $(latent);   // warpgroup
|   bfe.u32        $(bits), $(chunk), 6, 1;
|   mad.lo.u32     $(latent), $(bits), 64, $(latent);    // m
|   mad.lo.u32     $(bits), $(a.request), $(shape.rows), $(row);
|   ld.param.u64   $(to), [$(param.rows)];
|   mad.wide.u32   $(to), $(bits), 1024, $(to);
|   mad.wide.u32   $(to), $(latent), 4, $(to);
  end)
end

-- x: F32 sums of a pair of latents, to `to` + bytes, where row + `more` exists.
local function put(to, bytes, row, more, x)
  scope(function()
    local out, live = b32 "out_", PADDED and pred "live"
|   cvt.rn.bf16x2.f32 $(out), $(x[1]), $(x[0]);
    if PADDED then
      local this = b32 "this"
|   add.u32        $(this), $(row), $(more);
|   setp.lt.u32    $(live), $(this), $(shape.rows);
| @$(live) st.global.b32 [$(to)+$(bytes)], $(out);
    else
|   st.global.b32  [$(to)+$(bytes)], $(out);
    end
  end)
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
    scope(function()
      local to, row, second = b64 "to", b32 "row", b32 "second"
      destination(a, to, row, chunk)
|   shr.u32        $(second), $(word), 1;
|   add.u32        $(row), $(row), $(second);
|   mad.wide.u32   $(to), $(second), 1024, $(to);
|   and.b32        $(second), $(word), 1;
|   mad.wide.u32   $(to), $(second), 128, $(to);
      put(to, 0, row, 0, pair)
    end)
|   add.u32        $(item), $(item), 256;
|   bra            $(again);
| $(over):
  end)
end

-- Sums of the batch's chunks are whole, or this thread's part of them: to the rows, or to shared.
local function leave(a, p, sum, chunks, done)
  local direct, stored = label "direct", label "stored"
  scope(function()
    local whole, to = pred "whole", b32 "to"
|   setp.eq.u32    $(whole), $(p.parts), 1;
| @$(whole) bra    $(direct);
|   mad.lo.u32     $(to), $(p.thread), 32, $(a.memory);
    for i = 0, 1 do
|   st.shared.v4.f32 [$(to)+$(PARTS + 16 * i)], $(wgmma.list(sum, 4 * i, 4));
    end
|   bra            $(done);
| $(direct):
    local at, row = b64 "home", b32 "row"
    scope(function()
      local chunk = b32 "chunk_"
|   add.u32        $(chunk), $(p.base), $(p.inside);
      destination(a, at, row, chunk)
    end)
    for c = 0, chunks - 1 do
      scope(function()
        local chunk, past = b32 "chunk_", pred "past"
|   add.u32        $(chunk), $(p.inside), $(256 * c);
|   setp.ge.u32    $(past), $(chunk), $(p.count);
| @$(past) bra     $(stored);
        for word = 0, 3 do
          put(at, 4096 * c + 1024 * (word // 2) + 128 * (word % 2), row, 4 * c + word // 2, { [0] = sum[8 * c + 2 * word], sum[8 * c + 2 * word + 1] })
        end
      end)
    end
| $(stored):
  end)
end

-- All chunks of the thread, `chunks` * `splits` of them at a time. The first batch is asked for before the weights are there.
local function add_all(a, o, p, chunks, splits)
  local again, more_splits, over = label "batch", label "more_splits", label "own_over"
  scope(function()
    local words, sum, end_ = b32("words_", 4 * chunks * splits), f32("sum_", 8 * chunks), pred "end_"
    local function clear()
      for i = 0, 8 * chunks - 1 do
|   mov.f32        $(sum[i]), 0f00000000;
      end
    end
    clear()
    take_chunks(a, o, p, words, chunks, splits)
|   bar.sync       $(armed.WEIGHTS_THERE), 384;         // and nobody needs P any more
| $(again):
    weigh_chunks(a, o, p, words, sum, chunks, splits)
|   mad.lo.u32     $(p.split), $(p.parts), $(splits), $(p.split);
|   setp.lt.u32    $(end_), $(p.split), $(a.live);
| @$(end_) bra     $(more_splits);
    leave(a, p, sum, chunks, over)
|   add.u32        $(p.inside), $(p.inside), $(256 * chunks);
|   setp.ge.u32    $(end_), $(p.inside), $(p.count);
| @$(end_) bra     $(over);
    clear()
|   mov.u32        $(p.split), $(p.part);
| $(more_splits):
    take_chunks(a, o, p, words, chunks, splits)
|   bra            $(again);
| $(over):
  end)
end

-- The PV warpgroups, after their last tile: chunks to their owners, and the sums of those of all splits that this one owns.
function hopper_chunks.exchange(a, acc)
  scope(function()
    local o, p = armed.deal(a), { base = b32("base", "the owner's first chunk"), count = b32("count", "its chunks"), thread = b32 "thread_",
                            part = b32("part_", "of the chunk's splits"), parts = b32("parts", "threads that share a chunk"),
                            inside = b32("inside", "chunk, from the owner's first"), split = b32 "split_" }
    give(a, o, acc)
    section "the owner's sums"
    local lg, need, more, joined, done = b32 "lg_", b32("need", "splits of a chunk that are this thread's"), pred "more", label "own_joined", label "own_done"
|   shl.b32        $(p.base), $(a.split), $(o.lg);
|   mov.u32        $(p.count), 1;
|   shl.b32        $(p.count), $(p.count), $(o.lg);
|   sub.s32        $(p.inside), $(CHUNKS), $(p.base);
|   max.s32        $(p.inside), $(p.inside), 0;
|   min.u32        $(p.count), $(p.count), $(p.inside);
|   min.u32        $(lg), $(o.lg), 8;
|   mov.u32        $(p.parts), 256;
|   shr.u32        $(p.parts), $(p.parts), $(lg);
|   sub.u32        $(p.thread), $(a.thread), 256;
|   shr.u32        $(p.part), $(p.thread), $(lg);
|   shl.b32        $(p.inside), $(p.part), $(lg);
|   sub.u32        $(p.inside), $(p.thread), $(p.inside);
|   mov.u32        $(p.split), $(p.part);
|   add.u32        $(need), $(a.live), $(p.parts);
|   sub.u32        $(need), $(need), 1;
|   sub.u32        $(lg), 8, $(lg);
|   shr.u32        $(need), $(need), $(lg);
|   bar.sync       $(armed.WORDS_THERE), 384;
    local splits = 2
    while splits < LOADS do
      local wider = label "more_of_a_chunk"
|   setp.gt.u32    $(more), $(need), $(splits);
| @$(more) bra     $(wider);
      add_all(a, o, p, LOADS // splits, splits)
|   bra            $(joined);
| $(wider):
      splits = 2 * splits
    end
    add_all(a, o, p, 1, LOADS)
| $(joined):
|   setp.eq.u32    $(more), $(p.parts), 1;
| @$(more) bra     $(done);
|   bar.sync       $(armed.PV), 256;
    join_parts(a, p.base, p.count, p.parts)
| $(done):
  end)
end

return hopper_chunks
end
