-- attend: the steps of mla_decode's portable form. 128 threads, 16 rows, tiles of 64 keys; every function is emitted once a kernel.
local attend = { TILE = 64, P_PITCH = 96 }              -- P [16][96] F16: 192 bytes a row, 64 past a multiple of 128
local D, H, PAGE, I = spec.dcp, spec.heads, spec.page, spec.interleave
local DH = D * H
local NEVER = f32(-1e30)                                -- m' before any visible key; exponents of factors stay in range

-- Indices, shared memory, accumulators.
function attend.open(rows, splits)
  local a = { rows = rows, splits = splits }
  a.thread, a.lane, a.warp = b32 "thread", b32 "lane", b32 "warp"
  a.group, a.quarter = b32 "group", b32 "quarter"
  a.row0, a.request = b32("row0", "first of the 16 rows"), b32 "request"
  a.q = shared("query_rows", 16 * 576, 16)
  a.p = shared("weights", 16 * 2 * attend.P_PITCH, 16)
  a.maxima = shared("maxima", 4 * 16 * 4, 16)
  a.acc = f32("acc", 64, "O: tile j of 16 latents, rows group and group + 8")
  a.top = f32("top", 2, "m' of rows group, group + 8")
  a.sum = f32("sum", 2, "this warp's part of l")
  a.bound = b32("bound", 2, "visible local keys of rows group, group + 8")
  a.most = b32("most", "largest bound of the tile's rows")
  a.first, a.last = b32("tile", "key tile"), b32("tile_end", "past the split's last tile")
|   mov.u32        $(a.thread), %tid.x;
|   and.b32        $(a.lane), $(a.thread), 31;
|   shr.u32        $(a.warp), $(a.thread), 5;
|   shr.u32        $(a.group), $(a.lane), 2;
|   and.b32        $(a.quarter), $(a.lane), 3;
|   mov.u32        $(a.row0), %ctaid.x;
|   shl.b32        $(a.row0), $(a.row0), 4;
|   mov.u32        $(a.request), %ctaid.z;
  return a
end

-- length := local keys of the global prefix n (S32) on this rank (spec: base = n / (I D) * I, then the remainder's share).
local function local_keys(length, n, rank)
  if D == 1 then
|   max.s32        $(length), $(n), 0;
    return
  end
  scope(function()
    local whole, rest = b32 "whole", b32 "rest"
|   max.s32        $(rest), $(n), 0;
|   div.u32        $(whole), $(rest), $(I * D);
|   mul.lo.u32     $(length), $(whole), $(I * D);
|   sub.u32        $(rest), $(rest), $(length);
|   mad.lo.s32     $(rest), $(rank), $(-I), $(rest);
|   max.s32        $(rest), $(rest), 0;
|   min.s32        $(rest), $(rest), $(I);
|   mad.lo.u32     $(length), $(whole), $(I), $(rest);
  end)
end

-- bound[0..1], most, the split's tiles.
function attend.bounds(a, b)
  section "bounds"
  scope(function()
    local at, total, length = b64 "at", b32 "total", b32 "length"
    local row, j, live = b32 "row", b32 "j", pred "live"
|   ld.param.u64   $(at), [$(param.totals)];
|   mad.wide.u32   $(at), $(a.request), 4, $(at);
|   ld.global.s32  $(total), [$(at)];
|   ld.param.u64   $(at), [$(param.lens)];
|   mad.wide.u32   $(at), $(a.request), 4, $(at);
|   ld.global.s32  $(length), [$(at)];
|   max.s32        $(length), $(length), 0;
    local function bound_of(dst, m)
      scope(function()
        local n = b32 "n"
|   div.u32        $(j), $(m), $(DH);
|   add.s32        $(n), $(total), $(j);
|   add.s32        $(n), $(n), $(1 - spec.q);
        local_keys(dst, n, b and b.rank)
|   min.s32        $(dst), $(dst), $(length);
|   setp.lt.u32    $(live), $(m), $(a.rows);
|   selp.b32       $(dst), $(dst), 0, $(live);
      end)
    end
    for r = 0, 1 do
|   add.u32        $(row), $(a.row0), $(a.group);
|   add.u32        $(row), $(row), $(8 * r);
      bound_of(a.bound[r], row)
    end
|   add.u32        $(row), $(a.row0), 15;
|   min.u32        $(row), $(row), $(a.rows - 1);
    bound_of(a.most, row)                              -- bounds grow with j, so the last row's is the largest
    local all, each, split = b32 "all", b32 "each", b32 "split"
|   add.u32        $(all), $(length), 63;
|   shr.u32        $(all), $(all), 6;
|   add.u32        $(each), $(all), $(a.splits - 1);
|   div.u32        $(each), $(each), $(a.splits);
|   mov.u32        $(split), %ctaid.y;
|   mul.lo.u32     $(a.first), $(split), $(each);
|   add.u32        $(a.last), $(a.first), $(each);
|   add.u32        $(all), $(a.most), 63;
|   shr.u32        $(all), $(all), 6;
|   min.u32        $(a.last), $(a.last), $(all);
  end)
  for i = 0, 63 do
|   mov.f32        $(a.acc[i]), 0f00000000;
  end
  for r = 0, 1 do
|   mov.f32        $(a.top[r]), $(NEVER);
|   mov.f32        $(a.sum[r]), 0f00000000;
  end
end

-- The 16 query rows -> shared [16][576]; rows past the last: zeros.
function attend.query(a, b)
  section "query rows"
  scope(function()
    local base, index, row, chunk, at = b64 "base", b32 "index", b32 "row", b32 "chunk", b64 "at"
    local words, to, live, place, more = b32("words", 4), b32 "to", pred "live", b32 "place", pred "more"
    local again = label "query_chunk"
    if b then
|   ld.param.u64   $(base), [$(param.q_box)];
      include("lib/mailbox").q_parity(base, base, b.parity)
    else
|   ld.param.u64   $(base), [$(param.query)];
    end
|   mov.u32        $(index), $(a.thread);
| $(again):
|   div.u32        $(row), $(index), 36;
|   rem.u32        $(chunk), $(index), 36;
|   mov.u32        $(to), $(a.q);
|   mad.lo.u32     $(to), $(index), 16, $(to);
|   add.u32        $(row), $(row), $(a.row0);
|   setp.lt.u32    $(live), $(row), $(a.rows);
|   div.u32        $(place), $(row), $(DH);
|   rem.u32        $(row), $(row), $(DH);
|   mad.lo.u32     $(place), $(a.request), $(spec.q), $(place);
|   mad.lo.u32     $(place), $(place), $(b and spec.qh or H), $(row);
|   mad.lo.u32     $(place), $(place), 36, $(chunk);
|   mad.wide.u32   $(at), $(place), 16, $(base);
    for i = 0, 3 do
|   mov.b32        $(words[i]), 0;
    end
| @$(live) ld.global.v4.u32 {$(words[0]), $(words[1]), $(words[2]), $(words[3])}, [$(at)];
|   st.shared.v4.u32 [$(to)], {$(words[0]), $(words[1]), $(words[2]), $(words[3])};
|   add.u32        $(index), $(index), 128;
|   setp.lt.u32    $(more), $(index), 576;
| @$(more) bra     $(again);
|   bar.sync       0;
  end)
end

-- address := cache row of local key `key`; exists: key < most. Table entries of other keys are not read.
local function key_row(a, address, key, exists)
  scope(function()
    local entry, page, inside, stride, pages, wide = b64 "entry", b32 "page", b32 "inside", b64 "stride", b32 "pages", b64 "wide"
|   setp.lt.u32    $(exists), $(key), $(a.most);
|   ld.param.u64   $(entry), [$(param.block_table)];
|   ld.param.u32   $(pages), [$(param.max_pages)];
|   shr.u32        $(page), $(key), $(math.tointeger(math.log(PAGE, 2)));
|   mad.lo.u32     $(page), $(a.request), $(pages), $(page);
|   mad.wide.u32   $(entry), $(page), 4, $(entry);
|   mov.u32        $(page), 0;
| @$(exists) ld.global.u32 $(page), [$(entry)];
|   ld.param.u64   $(stride), [$(param.page_stride)];
|   ld.param.u64   $(address), [$(param.kv_cache)];
|   cvt.u64.u32    $(wide), $(page);
|   mad.lo.u64     $(address), $(wide), $(stride), $(address);
|   and.b32        $(inside), $(key), $(PAGE - 1);
|   mad.wide.u32   $(address), $(inside), 576, $(address);
  end)
end

-- z[0..7] := base-2 scores of this warp's 16 keys (tile n: keys 8n + 2 quarter, + 1; rows group, group + 8), -inf where not visible.
local function scores(a, z)
  scope(function()
    local s, at, exists, key, scale = f32("s", 8), b64("at", 2), pred("exists", 2), b32 "key", f32 "scale"
    local q, x, y, k = b32 "q", b32("x", 4), b32("y", 4), b32("k", 4)
    for n = 0, 1 do
|   mad.lo.u32     $(key), $(a.warp), 16, $(a.group);
|   mad.lo.u32     $(key), $(a.first), 64, $(key);
|   add.u32        $(key), $(key), $(8 * n);
      key_row(a, at[n], key, exists[n])
      scope(function()
        local part = b64 "part"
|   mul.wide.u32   $(part), $(a.quarter), 16;
|   add.u64        $(at[n]), $(at[n]), $(part);
      end)
    end
    for i = 0, 7 do
|   mov.f32        $(s[i]), 0f00000000;
    end
|   mov.u32        $(q), $(a.q);
|   mad.lo.u32     $(q), $(a.group), 576, $(q);
|   mad.lo.u32     $(q), $(a.quarter), 16, $(q);
    for c = 0, 8 do
|   ld.shared.v4.u32 {$(x[0]), $(x[1]), $(x[2]), $(x[3])}, [$(q)+$(64 * c)];
|   ld.shared.v4.u32 {$(y[0]), $(y[1]), $(y[2]), $(y[3])}, [$(q)+$(64 * c + 8 * 576)];
      for n = 0, 1 do
        for i = 0, 3 do
|   mov.b32        $(k[i]), 0;
        end
| @$(exists[n]) ld.global.v4.u32 {$(k[0]), $(k[1]), $(k[2]), $(k[3])}, [$(at[n])+$(64 * c)];
        for h = 0, 1 do
          local d = 4 * n
|   mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32
|       {$(s[d]), $(s[d + 1]), $(s[d + 2]), $(s[d + 3])}, {$(x[2 * h]), $(y[2 * h]), $(x[2 * h + 1]), $(y[2 * h + 1])},
|       {$(k[2 * h]), $(k[2 * h + 1])}, {$(s[d]), $(s[d + 1]), $(s[d + 2]), $(s[d + 3])};
        end
      end
    end
|   ld.param.f32   $(scale), [$(param.softmax_scale)];
|   mul.rn.f32     $(scale), $(scale), $(f32(1.4426950408889634));
    for n = 0, 1 do
      for e = 0, 1 do
        scope(function()
          local visible = pred "visible"
|   mad.lo.u32     $(key), $(a.warp), 16, $(8 * n + e);
|   mad.lo.u32     $(key), $(a.first), 64, $(key);
|   mad.lo.u32     $(key), $(a.quarter), 2, $(key);
          for r = 0, 1 do
            local i = 4 * n + 2 * r + e
|   setp.lt.u32    $(visible), $(key), $(a.bound[r]);
|   mul.rn.f32     $(z[i]), $(s[i]), $(scale);
|   selp.f32       $(z[i]), $(z[i]), 0fff800000, $(visible);
          end
        end)
      end
    end
  end)
end

-- factor := 2^(old - new) from exponent bits; both integers (or NEVER), new >= old; 0 when 127 or more apart.
local function power(factor, old, new)
  scope(function()
    local apart, bits, far = f32 "apart", b32 "bits", pred "far"
|   sub.rn.f32     $(apart), $(old), $(new);
|   max.f32        $(apart), $(apart), $(f32(-127));
|   cvt.rzi.s32.f32 $(bits), $(apart);
|   add.s32        $(bits), $(bits), 127;
|   shl.b32        $(factor), $(bits), 23;
  end)
end

-- top := the new m' of both rows over the whole tile; factor[r]: what older sums are multiplied by.
local function maxima(a, z, factor)
  scope(function()
    local most, other, at, each = f32 "most", f32 "other", b32 "at", f32("each", 4)
    local first, number = pred "first", pred "number"
|   setp.eq.u32    $(first), $(a.quarter), 0;
|   mov.u32        $(at), $(a.maxima);
|   mad.lo.u32     $(at), $(a.group), 16, $(at);
    for r = 0, 1 do
|   max.NaN.f32    $(most), $(z[2 * r]), $(z[2 * r + 1]);
|   max.NaN.f32    $(most), $(most), $(z[4 + 2 * r]);
|   max.NaN.f32    $(most), $(most), $(z[5 + 2 * r]);
      for _, lanes in ipairs { 1, 2 } do
|   shfl.sync.bfly.b32 $(other), $(most), $(lanes), 31, 0xffffffff;
|   max.NaN.f32    $(most), $(most), $(other);
      end
      scope(function()
        local to = b32 "to"
|   mad.lo.u32     $(to), $(a.warp), 4, $(at);
| @$(first) st.shared.f32 [$(to)+$(128 * r)], $(most);
      end)
    end
|   bar.sync       0;
    for r = 0, 1 do
|   ld.shared.v4.f32 {$(each[0]), $(each[1]), $(each[2]), $(each[3])}, [$(at)+$(128 * r)];
      for w = 1, 3 do
|   max.NaN.f32    $(each[0]), $(each[0]), $(each[w]);
      end
|   cvt.rpi.f32.f32 $(each[0]), $(each[0]);              // rounded up to an integer
|   max.f32        $(each[0]), $(each[0]), $(NEVER);    // -inf: nothing visible yet; NaN scores do not move it
|   max.f32        $(each[0]), $(each[0]), $(a.top[r]);
      power(factor[r], a.top[r], each[0])
|   mov.f32        $(a.top[r]), $(each[0]);
    end
  end)
end

-- P of the tile -> shared as F16 of its e4m3 rounding; sum += the unrounded P.
local function weights(a, z, factor)
  scope(function()
    local p, at, half, pair = f32("p", 2), b32 "at", b16 "half", b32 "pair"
|   mov.u32        $(at), $(a.p);
|   mad.lo.u32     $(at), $(a.group), $(2 * attend.P_PITCH), $(at);
|   mad.lo.u32     $(at), $(a.warp), 32, $(at);
|   mad.lo.u32     $(at), $(a.quarter), 4, $(at);
    for r = 0, 1 do
|   mul.rn.f32     $(a.sum[r]), $(a.sum[r]), $(factor[r]);
      for n = 0, 1 do
        for e = 0, 1 do
          local i = 4 * n + 2 * r + e
|   sub.rn.f32     $(p[e]), $(z[i]), $(a.top[r]);
|   add.rn.f32     $(p[e]), $(p[e]), $(f32(8));
|   ex2.approx.f32 $(p[e]), $(p[e]);
|   add.rn.f32     $(a.sum[r]), $(a.sum[r]), $(p[e]);
        end
|   cvt.rn.satfinite.e4m3x2.f32 $(half), $(p[1]), $(p[0]);
|   cvt.rn.f16x2.e4m3x2 $(pair), $(half);
|   st.shared.b32  [$(at)+$(16 * n + 16 * attend.P_PITCH * r)], $(pair);
      end
    end
|   bar.sync       0;
  end)
end

-- word: four e4m3 bytes, NaN bytes to 0.
local function without_nan(word)
  scope(function()
    local nan, t = b32 "nan", b32 "t"
|   and.b32        $(nan), $(word), 0x7f7f7f7f;
|   add.u32        $(nan), $(nan), 0x01010101;
|   and.b32        $(nan), $(nan), 0x80808080;          // the byte's sign bit: it is a NaN
|   shr.u32        $(t), $(nan), 7;
|   mul.lo.u32     $(t), $(t), 255;
|   not.b32        $(t), $(t);
|   and.b32        $(word), $(word), $(t);
  end)
end

-- acc := acc * factor + P V over the tile's 64 keys, 16 at a time.
local function products(a, factor)
  for i = 0, 63 do
|   mul.rn.f32     $(a.acc[i]), $(a.acc[i]), $(factor[i % 4 // 2]);
  end
  scope(function()
    local at = b32 "at"
|   mov.u32        $(at), $(a.p);
|   mad.lo.u32     $(at), $(a.group), $(2 * attend.P_PITCH), $(at);
|   mad.lo.u32     $(at), $(a.quarter), 8, $(at);
    for k = 0, 3 do
      scope(function()
        local key, from, exists, skip = b32 "key", b64 "from", pred "exists", b32 "skip"
        local x, y, v, part = b32("x", 2), b32("y", 2), {}, b64 "part"
|   ld.shared.v2.u32 {$(x[0]), $(x[1])}, [$(at)+$(32 * k)];
|   ld.shared.v2.u32 {$(y[0]), $(y[1])}, [$(at)+$(32 * k + 16 * attend.P_PITCH)];
|   mul.lo.u32     $(key), $(a.quarter), 4;
|   add.u32        $(key), $(key), $(16 * k);
|   mad.lo.u32     $(key), $(a.first), 64, $(key);
        key_row(a, from, key, exists)
|   mul.lo.u32     $(skip), $(a.warp), 128;
|   mad.lo.u32     $(skip), $(a.group), 16, $(skip);
|   cvt.u64.u32    $(part), $(skip);
|   add.u64        $(from), $(from), $(part);
        for r = 0, 3 do
          local w = b32("v" .. r .. "_", 4)
          v[r] = w
          scope(function()
            local here = pred "here"
|   add.u32        $(skip), $(key), $(r);
|   setp.lt.u32    $(here), $(skip), $(a.most);
            for i = 0, 3 do
|   mov.b32        $(w[i]), 0;
            end
| @$(here) ld.global.v4.u32 {$(w[0]), $(w[1]), $(w[2]), $(w[3])}, [$(from)+$(576 * r)];
          end)
          for i = 0, 3 do without_nan(w[i]) end
        end
        for pair = 0, 7 do                              -- latents 2 pair, 2 pair + 1 of the 16: tiles j
          scope(function()
            local f, half, unused, b = b32("f", 4), b16 "half", b16 "unused", b32("b", 2)
            for r = 0, 3 do
              local w = v[r][pair // 2]
              if pair % 2 == 0 then
|   mov.b32        {$(half), $(unused)}, $(w);
              else
|   mov.b32        {$(unused), $(half)}, $(w);
              end
|   cvt.rn.f16x2.e4m3x2 $(f[r]), $(half);
            end
            for e = 0, 1 do
              local j, select = 2 * pair + e, e == 0 and "0x5410" or "0x7632"
              local d = 4 * j
|   prmt.b32       $(b[0]), $(f[0]), $(f[1]), $(select);
|   prmt.b32       $(b[1]), $(f[2]), $(f[3]), $(select);
|   mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
|       {$(a.acc[d]), $(a.acc[d + 1]), $(a.acc[d + 2]), $(a.acc[d + 3])}, {$(x[0]), $(y[0]), $(x[1]), $(y[1])},
|       {$(b[0]), $(b[1])}, {$(a.acc[d]), $(a.acc[d + 1]), $(a.acc[d + 2]), $(a.acc[d + 3])};
            end
          end)
        end
      end)
    end
  end)
end

function attend.tiles(a)
  section "key tiles"
  local again, done = label "key_tile", label "keys_done"
  scope(function()
    local more, z, factor = pred "more", f32("z", 8), f32("factor", 2)
| $(again):
|   setp.ge.u32    $(more), $(a.first), $(a.last);
| @$(more) bra     $(done);
    scores(a, z)
    maxima(a, z, factor)
    weights(a, z, factor)
    products(a, factor)
|   bar.sync       0;
|   add.u32        $(a.first), $(a.first), 1;
|   bra            $(again);
  end)
| $(done):
  section "the row sums over quarters and warps"
  scope(function()
    local other, at, first, each = f32 "other", b32 "at", pred "first", f32("each", 4)
|   setp.eq.u32    $(first), $(a.quarter), 0;
|   mov.u32        $(at), $(a.maxima);
|   mad.lo.u32     $(at), $(a.group), 16, $(at);
    for r = 0, 1 do
      for _, lanes in ipairs { 1, 2 } do
|   shfl.sync.bfly.b32 $(other), $(a.sum[r]), $(lanes), 31, 0xffffffff;
|   add.rn.f32     $(a.sum[r]), $(a.sum[r]), $(other);
      end
      scope(function()
        local to = b32 "to"
|   mad.lo.u32     $(to), $(a.warp), 4, $(at);
| @$(first) st.shared.f32 [$(to)+$(128 * r)], $(a.sum[r]);
      end)
    end
|   bar.sync       0;
    for r = 0, 1 do
|   ld.shared.v4.f32 {$(each[0]), $(each[1]), $(each[2]), $(each[3])}, [$(at)+$(128 * r)];
|   add.rn.f32     $(each[0]), $(each[0]), $(each[1]);
|   add.rn.f32     $(each[2]), $(each[2]), $(each[3]);
|   add.rn.f32     $(a.sum[r]), $(each[0]), $(each[2]);
    end
  end)
end

return attend
