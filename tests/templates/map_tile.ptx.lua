-- map_tile: a tile of 64 rows of 128 bytes goes through the shared memory of a pair of CTAs and comes out twice, for tests of tensor maps as
-- parameters. Each CTA loads half of it, by multicast into both, in the swizzled layout; then each stores all of it at row 64 * rank.
--   from: 2 dimensions, 128 bytes by rows, boxes of 32 rows, SWIZZLE_128B; to: the same with boxes of 64 rows.
local pdl = include "lib/pdl"

need { ptx = "8.0", target = "sm_90" }
kernel { grid = { 2 }, block = { 32 }, cluster = { 2 }, params = { { "from", "map" }, { "to", "map" } } }

local tile, full = shared("tile", 8192, 1024), shared("full", 8, 8)
local map, rank, row, place, bar = b64 "map", b32 "rank", b32 "row", b32 "place", b32 "bar"
local other, over, none, both, wait = pred "other", pred "over", b32 "none", b16 "both", label "wait"
|   mov.u32        $(rank), %cluster_ctarank;
|   mov.u32        $(none), %tid.x;
|   setp.ne.u32    $(other), $(none), 0;
|   mov.u32        $(none), 0;
|   mov.u32        $(bar), $(full);
| @!$(other) mbarrier.init.shared::cta.b64 [$(bar)], 1;
| @!$(other) mbarrier.arrive.expect_tx.shared::cta.b64 _, [$(bar)], 8192;
| @!$(other) fence.mbarrier_init.release.cluster;
|   barrier.cluster.arrive.aligned;
|   barrier.cluster.wait.aligned;
pdl.wait()
pdl.launch_dependents()
section "this CTA's half, into both"
|   mov.u32        $(place), $(tile);
|   shl.b32        $(row), $(rank), 12;
|   add.u32        $(place), $(place), $(row);
|   shl.b32        $(row), $(rank), 5;
|   mov.b16        $(both), 3;
|   mov.b64        $(map), $(param.from);
|   cvta.param.u64 $(map), $(map);
| @!$(other) cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [$(place)], [$(map), {$(none), $(row)}], [$(bar)], $(both);
| $(wait):
|   mbarrier.try_wait.parity.shared::cta.b64 $(over), [$(bar)], 0;
| @!$(over) bra    $(wait);
section "all of it"
|   mov.u32        $(place), $(tile);
|   shl.b32        $(row), $(rank), 6;
|   mov.b64        $(map), $(param.to);
|   cvta.param.u64 $(map), $(map);
| @!$(other) cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [$(map), {$(none), $(row)}], [$(place)];
| @!$(other) cp.async.bulk.commit_group;
| @!$(other) cp.async.bulk.wait_group 0;
|   barrier.cluster.arrive.aligned;
|   barrier.cluster.wait.aligned;
|   ret;
