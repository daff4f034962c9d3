-- absorb: q_c -> qf = Q_B q_c -> ql = W_UK^T qf, for 16 token rows of one head, by a CTA of 16 warps with mma.m16n8k16.
--   q_b    n = 192 columns in 24 tiles: warp w takes tiles 3 (w % 8) .. + 2 over half w / 8 of k = 1536; halves added in FP32, one BF16
--          rounding -> shared qf [16][224]. A fragments from shared q_c [16][1568], B straight from Q_B: 16-byte loads, the same
--          permutation of k on both sides (chunk of 32: lane quarter q holds k = 8 q .. 8 q + 7).
--   w_uk   n = 512: warp w takes latents 64 (w % 8) .. + 63 over half w / 8 of k = 128. A lane loads 8 latents of 4 rows of W_UK and
--          deals them to 8 tiles (column g of tile j is latent 8 g + j), so its results are 16 consecutive latents of two rows.
-- Both pitches are 64 bytes past a multiple of 128: fragment loads meet no bank twice.
local absorb = { QC_PITCH = 1568, QF_PITCH = 224, WARPS = 16 }
absorb.QC_BYTES = 16 * absorb.QC_PITCH * 2
absorb.QF_BYTES = 16 * absorb.QF_PITCH * 2

-- Adds the partial results of warps 8..15 to those of warps 0..7 through shared memory at `base`; upper: predicate of warps 8..15.
-- acc: n F32 registers. Barriers before and after: what lay at `base` is gone.
local function add_halves(a, acc, base)
  local n = #acc
  scope(function()
    local at, part = b32 "at", f32("part", 4)
    local held = label "halves_written"
|   bar.sync       0;
|   and.b32        $(at), $(a.thread), 255;
|   mad.lo.u32     $(at), $(at), $(4 * n), $(base);
    for i = 0, n - 1, 4 do
| @$(a.upper) st.shared.v4.f32 [$(at)+$(4 * i)], {$(acc[i]), $(acc[i + 1]), $(acc[i + 2]), $(acc[i + 3])};
    end
|   bar.sync       0;
| @$(a.upper) bra  $(held);
    for i = 0, n - 1, 4 do
|   ld.shared.v4.f32 {$(part[0]), $(part[1]), $(part[2]), $(part[3])}, [$(at)+$(4 * i)];
      for k = 0, 3 do
|   add.rn.f32     $(acc[i + k]), $(acc[i + k]), $(part[k]);
      end
    end
| $(held):
  end)
end

local function mma(acc, first, a0, a1, a2, a3, b0, b1)
|   mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
|       {$(acc[first]), $(acc[first + 1]), $(acc[first + 2]), $(acc[first + 3])}, {$(a0), $(a1), $(a2), $(a3)}, {$(b0), $(b1)},
|       {$(acc[first]), $(acc[first + 1]), $(acc[first + 2]), $(acc[first + 3])};
end

-- a: {thread, warp, group, quarter, head, upper}; qc, qf: shared addresses (registers). Leaves qf filled, after a barrier.
function absorb.q_b(a, qc, qf)
  section "Q_B"
  local CHUNKS, FLIGHT = 24, 2                         -- chunks of 32 k in a half; loaded together
  scope(function()
    local acc, side, more = f32("acc", 12), b32 "side", pred "more"
    local from, at, chunk, tile = b64 "from", b32 "at", b32 "chunk", b32 "tile"
    local again = label "q_b"
    for i = 0, 11 do
|   mov.f32        $(acc[i]), 0f00000000;
    end
|   and.b32        $(tile), $(a.warp), 7;
|   shr.u32        $(side), $(a.warp), 3;
|   ld.param.u64   $(from), [$(param.w_q_b)];
|   mad.lo.u32     $(tile), $(tile), 24, $(a.group);   // row of the head's Q_B: 8 columns a tile, 3 tiles
|   mad.lo.u32     $(tile), $(a.head), 192, $(tile);
|   mul.lo.u32     $(tile), $(tile), 3072;
|   mad.lo.u32     $(tile), $(side), $(64 * CHUNKS), $(tile);
|   mad.lo.u32     $(tile), $(a.quarter), 16, $(tile);
|   mad.wide.u32   $(from), $(tile), 1, $(from);
|   mad.lo.u32     $(at), $(a.group), $(2 * absorb.QC_PITCH), $(qc);
|   mad.lo.u32     $(at), $(side), $(64 * CHUNKS), $(at);
|   mad.lo.u32     $(at), $(a.quarter), 16, $(at);
|   mov.u32        $(chunk), 0;
| $(again):
    scope(function()
      local w, x, y = {}, b32("x", 4), b32("y", 4)
      for c = 0, FLIGHT - 1 do
        for n = 0, 2 do
          local v = b32("w" .. c .. n .. "_", 4)
          w[3 * c + n] = v
|   ld.global.nc.v4.u32 {$(v[0]), $(v[1]), $(v[2]), $(v[3])}, [$(from)+$(64 * c + 8 * 3072 * n)];
        end
      end
      for c = 0, FLIGHT - 1 do
|   ld.shared.v4.u32 {$(x[0]), $(x[1]), $(x[2]), $(x[3])}, [$(at)+$(64 * c)];
|   ld.shared.v4.u32 {$(y[0]), $(y[1]), $(y[2]), $(y[3])}, [$(at)+$(64 * c + 16 * absorb.QC_PITCH)];
        for n = 0, 2 do
          local v = w[3 * c + n]
          for s = 0, 1 do mma(acc, 4 * n, x[2 * s], y[2 * s], x[2 * s + 1], y[2 * s + 1], v[2 * s], v[2 * s + 1]) end
        end
      end
    end)
|   add.u64        $(from), $(from), $(64 * FLIGHT);
|   add.u32        $(at), $(at), $(64 * FLIGHT);
|   add.u32        $(chunk), $(chunk), $(FLIGHT);
|   setp.lt.u32    $(more), $(chunk), $(CHUNKS);
| @$(more) bra     $(again);
    add_halves(a, acc, qc)
    local kept = label "qf_kept"
| @$(a.upper) bra  $(kept);
    scope(function()
      local pair, to = b32 "pair", b32 "to"
|   and.b32        $(to), $(a.warp), 7;
|   mul.lo.u32     $(to), $(to), 48;                   // 24 columns of 2 bytes
|   mad.lo.u32     $(to), $(a.group), $(2 * absorb.QF_PITCH), $(to);
|   mad.lo.u32     $(to), $(a.quarter), 4, $(to);
|   add.u32        $(to), $(to), $(qf);
      for n = 0, 2 do
        for r = 0, 1 do
|   cvt.rn.bf16x2.f32 $(pair), $(acc[4 * n + 2 * r + 1]), $(acc[4 * n + 2 * r]);
|   st.shared.b32  [$(to)+$(16 * n + 16 * absorb.QF_PITCH * r)], $(pair);
        end
      end
    end)
| $(kept):
|   bar.sync       0;
  end)
end

-- ql[0..15], ql[16..31]: latents 64 (warp % 8) + 16 quarter .. + 15 of rows group and group + 8; right in warps 0..7.
-- spare: shared memory of 32 KiB that may be overwritten.
function absorb.w_uk(a, qf, spare, ql)
  section "W_UK"
  scope(function()
    local acc, side, from, at, row = f32("acc", 32), b32 "side", b64 "from", b32 "at", b32 "row"
    for i = 0, 31 do
|   mov.f32        $(acc[i]), 0f00000000;
    end
|   shr.u32        $(side), $(a.warp), 3;
|   mul.lo.u32     $(row), $(a.head), 256;
|   mad.lo.u32     $(row), $(side), 64, $(row);
|   mad.lo.u32     $(row), $(a.quarter), 4, $(row);
|   ld.param.u64   $(from), [$(param.kv_b)];
|   mad.wide.u32   $(from), $(row), 1024, $(from);
|   and.b32        $(row), $(a.warp), 7;
|   mul.lo.u32     $(row), $(row), 128;
|   mad.lo.u32     $(row), $(a.group), 16, $(row);
|   mad.wide.u32   $(from), $(row), 1, $(from);
|   mad.lo.u32     $(at), $(a.group), $(2 * absorb.QF_PITCH), $(qf);
|   mad.lo.u32     $(at), $(side), 128, $(at);
|   mad.lo.u32     $(at), $(a.quarter), 8, $(at);
    for k = 0, 3 do
      scope(function()
        local w, x, y, b = {}, b32("x", 2), b32("y", 2), b32("b", 2)
        for r = 0, 3 do
          local v = b32("w" .. r .. "_", 4)
          w[r] = v
|   ld.global.nc.v4.u32 {$(v[0]), $(v[1]), $(v[2]), $(v[3])}, [$(from)+$(1024 * (16 * k + r))];
        end
|   ld.shared.v2.u32 {$(x[0]), $(x[1])}, [$(at)+$(32 * k)];
|   ld.shared.v2.u32 {$(y[0]), $(y[1])}, [$(at)+$(32 * k + 16 * absorb.QF_PITCH)];
        for j = 0, 7 do
          local select = j % 2 == 0 and "0x5410" or "0x7632"
|   prmt.b32       $(b[0]), $(w[0][j // 2]), $(w[1][j // 2]), $(select);
|   prmt.b32       $(b[1]), $(w[2][j // 2]), $(w[3][j // 2]), $(select);
          mma(acc, 4 * j, x[0], y[0], x[1], y[1], b[0], b[1])
        end
      end)
    end
    add_halves(a, acc, spare)
    for j = 0, 7 do
|   mov.f32        $(ql[j]), $(acc[4 * j]);
|   mov.f32        $(ql[8 + j]), $(acc[4 * j + 1]);
|   mov.f32        $(ql[16 + j]), $(acc[4 * j + 2]);
|   mov.f32        $(ql[24 + j]), $(acc[4 * j + 3]);
    end
  end)
end

return absorb
