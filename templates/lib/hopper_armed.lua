-- hopper_armed: how the splits of a request add up what they found, inside the launch, through armed memory: arrival is its own flag, and
-- who reads a word arms it again. All CTAs of a grid are resident, so nobody waits for what cannot come; a split of a dead box gives empty
-- rows. The workspace holds 0xFFFFFFFF before a launch and after it; no F16 pair and no LSE is that NaN.
--
-- A split's rows are 64 n chunks of 16 bytes: [pair of rows 8 i + 2 t][128]: latents 64 mb + 16 w + 2 g + {0, 1} of blocks mb = 2 m and
-- 2 m + 1 of PV warpgroup `part`, chunk ((m * 2 + part) * 4 + w) * 8 + g of the pair: F16 of row / l * 128, two rows.
-- Owner o = 0, 1, .. of the request's `live` splits adds up chunks o << lg .. of all of them: lg as small as lets `live` owners do. It needs the
-- LSE of its chunks' rows, each word for one owner: n << shift words, shift = max(0, 7 - lg): owners of one pair of rows.
--   workspace   [columns][groups][64 n] chunks | [columns][groups][max(n, 2 columns)] words
-- What an owner has for itself stays in shared memory.
-- Softmax warpgroup (lib/hopper_words): LSE words out, owner's words in, weights 2^(lse - all) -> shared. PV warpgroups (lib/hopper_chunks):
-- chunks out; once the words are there, chunks in, so that few polls are in vain; once the weights are there, sums.
local hopper_place = include "lib/hopper_place"

return function(shape)
local armed = { CHUNKS = 64 * shape.n, WORDS = max(shape.n, 2 * shape.columns) }   -- of a split
armed.WORD = "0xffffffff"
armed.SCALE = 128                                       -- |row / l| <= 476 fits F16 with it
armed.WEIGHTS = shape.QUERY                             -- [live][rows of the owner] F32: the query is not needed any more
armed.OWN = armed.WEIGHTS + 4096                        -- at most half of the chunks: an owner's from itself
rule(shape.columns <= 512, "columns: weights of two rows of at most 512 splits have room")
armed.PARTS = shape.P                                   -- [256 threads][8] F32: P is not needed any more
armed.PV, armed.WEIGHTS_THERE, armed.WORDS_THERE = 2, 3, 5   -- named barriers: of the PV warpgroups, and of warpgroups 1 to 3
local PATIENCE = 1 << 22                                -- polls of a group, seconds of them, before the launch fails

-- o: lg, shift, rows_lg (log2 of the rows, rounded up, that an owner needs words of), column0 (of split 0).
function armed.deal(a)
  local o = { lg = b32("lg", "log2 of an owner's chunks"), shift = b32("shift", "log2 of a pair of rows' owners"),
              rows_lg = b32("rows_lg", "log2 of an owner's words of LSE, of a split"), column0 = b32("column0", "of the request's split 0") }
|   add.u32        $(o.lg), $(a.live), $(armed.CHUNKS - 1);
|   div.u32        $(o.lg), $(o.lg), $(a.live);
|   sub.u32        $(o.lg), $(o.lg), 1;
|   clz.b32        $(o.lg), $(o.lg);
|   sub.u32        $(o.lg), 32, $(o.lg);
|   sub.s32        $(o.shift), 7, $(o.lg);
|   max.s32        $(o.shift), $(o.shift), 0;
|   sub.s32        $(o.rows_lg), $(o.lg), 6;
|   max.s32        $(o.rows_lg), $(o.rows_lg), 1;
  hopper_place.column(o.column0, shape)
|   sub.u32        $(o.column0), $(o.column0), $(a.split);
  return o
end

-- at := the split's first chunk, or its first word of LSE; column: a register.
function armed.place(at, column, words)
  scope(function()
    local index = b32 "place"
    hopper_place.group(index, shape)
|   mad.lo.u32     $(index), $(column), $(shape.groups), $(index);
|   ld.param.u64   $(at), [$(param.workspace)];
|   mad.wide.u32   $(at), $(index), $(words and armed.WORDS * 4 or armed.CHUNKS * 16), $(at);
    if words then
|   add.u64        $(at), $(at), $(shape.columns * shape.groups * armed.CHUNKS * 16);
    end
  end)
end

-- The launch fails where what is waited for cannot come: the grid is not resident as a whole.
function armed.lose_patience(a, polls)
  scope(function()
    local no_more = pred "no_more_"
|   add.u32        $(polls), $(polls), 1;
|   setp.ge.u32    $(no_more), $(polls), $(PATIENCE);
| @$(no_more) bra  $(a.lost);
  end)
end

return armed
end
