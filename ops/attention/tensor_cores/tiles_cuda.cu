#include <algorithm>

#include "ops/attention/list_walk.h"
#include "ops/attention/tensor_cores/tiles.h"
#include "ops/cuda/block_sizes.h"
#include "ops/cuda/reduce.h"
#include "ops/device/atomic.h"

namespace moh::tensor_cores {

namespace {

/// Number of bins that tiles are sorted into by length.
constexpr std::int32_t kLengths = 512;
/// Most blocks of a multiprocessor that write zeros.
constexpr int kZeroBlocks = 16;
/// Bytes of the keys and values of lists whose tiles are sorted together: they stay in L2 (50 MiB on an
/// H100).
constexpr std::int64_t kCacheBytes = std::int64_t{32} << 20;

struct TileArgs {
  AttentionShape shape;
  RowLists lists;
  std::int32_t rows_per_tile;
  std::int64_t lists_per_block, blocks;
  Tile* tiles;
  std::int32_t* count;

  MOH_DEVICE std::int32_t tiles_of(std::int64_t list) const {
    const std::int64_t rows = list_at(shape, lists, list).rows;
    return static_cast<std::int32_t>((rows + rows_per_tile - 1) / rows_per_tile);
  }
  MOH_DEVICE Tile tile(std::int64_t number, std::int32_t t) const {
    const List list = list_at(shape, lists, number);
    const std::int64_t first = std::int64_t{t} * rows_per_tile,
                       rows = min_of(rows_per_tile, list.rows - first);
    return {static_cast<std::int32_t>(number), static_cast<std::int32_t>(first),
            static_cast<std::int32_t>(rows),
            static_cast<std::int32_t>(visible_keys(shape, list, first).begin),
            static_cast<std::int32_t>(visible_keys(shape, list, first + rows - 1).end)};
  }
  /// 0 for the longest tiles. A tile without keys, which only wrong documents make, is among the shortest.
  MOH_DEVICE std::int32_t length(const Tile& tile) const {
    const std::int64_t keys = clamp(tile.end_key - tile.first_key, 1, shape.keys);
    return static_cast<std::int32_t>((shape.keys - keys) * kLengths / shape.keys);
  }
};

/// Calls visit(tile) for the tiles of the block's lists, one per thread.
template <class Visit>
MOH_DEVICE void each_tile(const TileArgs& args, std::int64_t begin, std::int64_t end, const Visit& visit) {
  for (std::int64_t l = begin; l < end; ++l) {
    const std::int32_t count = args.tiles_of(l);
    for (std::int32_t t = device::thread_x(); t < count; t += kBlockThreads) visit(args.tile(l, t));
  }
}

/// Exclusive prefix sum in place: starts[i] becomes `first` plus the counts before i. Returns first
/// plus all counts.
MOH_DEVICE std::int32_t sum_up(std::int32_t* starts, std::int32_t first) {
  for (std::int32_t i = 0; i < kLengths; ++i) {
    const std::int32_t count = starts[i];
    starts[i] = first;
    first += count;
  }
  return first;
}

/// Writes the tiles of the block's lists, sorted by length, after those of earlier lists. One block per
/// lists_per_block lists; those after them write the zeros.
MOH_KERNEL(kBlockThreads) void attention_tiles_kernel(TileArgs args, HeadZeros<bfloat16> zeros) {
  if (device::block_x() >= args.blocks) {
    const std::int64_t step = (device::blocks_x() - args.blocks) * kBlockThreads;
    std::int64_t i = (device::block_x() - args.blocks) * kBlockThreads + device::thread_x();
    for (; i < zeros.count; i += step) zeros(i);
    return;
  }
  auto* const starts = device::shared_memory<std::int32_t>();
  auto* const space = starts + kLengths;
  const std::int64_t num_lists = args.shape.batch * args.shape.kv_heads;
  const std::int64_t begin = device::block_x() * args.lists_per_block,
                     end = min_of(begin + args.lists_per_block, num_lists);
  std::int32_t before = 0;
  for (std::int64_t l = device::thread_x(); l < begin; l += kBlockThreads) before += args.tiles_of(l);
  for (std::int32_t i = device::thread_x(); i < kLengths; i += kBlockThreads) starts[i] = 0;
  before = reduce_block(before, Sum{}, space);  // its barrier also makes the zeros visible
  each_tile(args, begin, end, [&](const Tile& tile) { device::atomic_add(starts + args.length(tile), 1); });
  device::sync_block();
  if (device::thread_x() == 0) {
    const std::int32_t all = sum_up(starts, before);
    if (end == num_lists) *args.count = all;
  }
  device::sync_block();
  each_tile(args, begin, end,
            [&](const Tile& tile) { args.tiles[device::atomic_add(starts + args.length(tile), 1)] = tile; });
}

}  // namespace

Tiles::Tiles(const AttentionShape& shape, const RowLists& lists, std::int64_t num_rows,
             std::int32_t rows_per_tile, const HeadZeros<bfloat16>& zeros)
    : most_(num_rows / rows_per_tile + shape.batch * shape.kv_heads),
      tiles_(static_cast<std::size_t>(most_) * sizeof(Tile)),
      count_(sizeof(std::int32_t)) {
  const std::int64_t list_bytes =
      2 * shape.keys * shape.head_dim * static_cast<std::int64_t>(sizeof(bfloat16));
  const std::int64_t num_lists = shape.batch * shape.kv_heads,
                     lists_per_block = clamp(kCacheBytes / list_bytes, 1, num_lists),
                     blocks = (num_lists + lists_per_block - 1) / lists_per_block,
                     zero_blocks = std::min((zeros.count + kBlockThreads - 1) / kBlockThreads,
                                            std::int64_t{kZeroBlocks} * cuda::limits().multiprocessors);
  cuda::launch("attention_tiles", attention_tiles_kernel,
               {.blocks_x = blocks + zero_blocks,
                .threads = kBlockThreads,
                .shared_bytes = (kLengths + kBlockWarps) * sizeof(std::int32_t)},
               TileArgs{shape, lists, rows_per_tile, lists_per_block, blocks, tiles_.as<Tile>(),
                        count_.as<std::int32_t>()},
               zeros);
}

}  // namespace moh::tensor_cores
