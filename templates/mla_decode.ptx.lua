-- mla_decode: FP8 attention of all D*H heads over this rank's paged KV shard -> partial rows and base-2 LSE.
--   query: own mailbox at the use's parity (dcp = 1: [B, H, 576]); kv_cache pages of `page` rows of 576 e4m3 bytes, block_table [R, max_pages] S32,
--   lens [R] S32 local, totals [R] S32 global -> rows [B, D*H, 512] BF16, rows_lse [B, D*H] F32; R = B/q requests.
--   Rows of a request are numbered m = j * D*H + head (j: query row of q); row j sees the keys of the global prefix totals - (q-1) + j.
-- Two forms, each with its schedule in its head: pv=f16 is lib/attend_decode, mma.sync, for every architecture; pv=fp8 is
-- lib/hopper_decode, TMA and wgmma, for sm_90a. Both are exact to spec decision 7 at every length.
-- A key at or past a row's bound is never visible: P = 0; keys past every bound of the CTA's rows count for nothing, whatever their bytes, and
-- their pages are not dereferenced; NaN bytes of V that only some rows see become 0 (a visible key with NaN bytes has a NaN score).
-- Partial sums (several splits, or clusters of splits) go to the workspace, a second kernel adds them: workspace [R][partial][rows][512] F32, then
-- [R][partial][rows] F32; a row that saw no key there has LSE -inf, and its 512 are not written.
if spec.pv == "f16" then
  need { ptx = "8.4", target = "sm_90" }
  include("lib/attend_decode").emit()
else
  need { ptx = "8.1", target = "sm_90a" }
  include("lib/hopper_decode").emit()
end
