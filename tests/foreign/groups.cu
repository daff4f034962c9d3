// groups: cooperative groups within a block: tiles of 8 with reduce and scan, coalesced groups, labeled partitions, broadcasts.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
extern "C" __global__ void groups(const int *in, int *out, unsigned n) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    auto warp = cg::tiled_partition<32>(block);
    unsigned i = block.group_index().x * block.size() + block.thread_rank();
    int v = in[i];
    int sum = cg::reduce(tile, v, cg::plus<int>()), most = cg::reduce(tile, v, cg::greater<int>());
    int before = cg::exclusive_scan(tile, v);
    int first = tile.shfl(v, 0);
    int odd = 0;
    if (v & 1) {
        cg::coalesced_group some = cg::coalesced_threads();
        odd = (int)(some.size() * 100 + some.thread_rank());
    }
    auto same = cg::labeled_partition(warp, (unsigned)v % 3);
    int label = (int)same.size() * 1000 + cg::reduce(same, v & 15, cg::plus<int>());
    block.sync();
    out[i] = sum;
    out[n + i] = most;
    out[2 * n + i] = before + first;
    out[3 * n + i] = odd;
    out[4 * n + i] = label;
}
