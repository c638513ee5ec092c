#pragma once

#include <algorithm>

#include "ops/attention/tensor_cores/paired_blocks.h"
#include "ops/attention/tensor_cores/rows.h"
#include "ops/device/block.h"

// For kernel files only: loops over keys and values for query rows that stay in a warp. The computation is a
// template parameter, Warp, which holds a warp's kStrips * 16 rows:
//   kHeadDim, kStrips, kKeys   tile sizes: kKeys keys per step
//   kPanels                    number of panels of gathered rows; source(args, p) is the view of panel p
//   Args                       the kernel's arguments: shape, lists, q, k, v and more
//   Warp(args, list, places, rows, number, panels)   the first `rows` of its places are real; `number` is
//                              that of the first among the rows of all lists; panels[p] points to its rows
//   start(args, list)          called once its rows are in shared memory
//   add(args, first_key, keys, values)   processes kKeys keys
//   finish(args, list)         writes the results

namespace moh::tensor_cores {

template <class Warp>
struct PassMemory {
  static constexpr int kWarpRows = Warp::kStrips * 16, kRows = kWarps * kWarpRows;
  Heads<Warp::kHeadDim, kRows> panels[Warp::kPanels];
  Heads<Warp::kHeadDim, Warp::kKeys> keys[2], values[2];
  Place places[kRows];
  Tile tile;
  List list;  // in shared memory, since registers are scarce in the loop
};

/// One tile per block: its rows against all keys that they see. Copies of the next keys overlap with the
/// computation (double buffering).
template <class Warp>
MOH_KERNEL(kThreads)
void pass_over_tiles_kernel(typename Warp::Args args, const Tile* tiles, const std::int32_t* count) {
  using Memory = PassMemory<Warp>;
  if (device::block_x() >= *count) return;
  auto& memory = *device::shared_memory<Memory>();
  const Tile& tile = memory.tile;
  const List& list = memory.list;
  if (device::thread_x() == 0) {
    memory.tile = tiles[device::block_x()];
    memory.list = list_at(args.shape, args.lists, tile.list);
  }
  device::sync_block();
  for (int r = device::thread_x(); r < Memory::kRows; r += kThreads)
    memory.places[r] = place_of(list, tile.first, tile.rows, r);
  device::sync_block();
  const int warp_row = warp_number() * Memory::kWarpRows;
  bfloat16* rows[Warp::kPanels];
  MOH_UNROLL
  for (int p = 0; p < Warp::kPanels; ++p) {
    const auto view = Warp::source(args, p);
    copy_heads(memory.panels[p], args.q.data, [&](int r) { return head_at(view, list, memory.places[r]); });
    rows[p] = memory.panels[p].row(warp_row);
  }
  device::commit_copies();
  const auto copy_keys = [&](int block) {
    const int first = block * Warp::kKeys, left = static_cast<int>(args.shape.keys) - first;
    copy_heads(memory.keys[block % 2], key_row(args.k, list, first), args.k.token_stride, left);
    copy_heads(memory.values[block % 2], key_row(args.v, list, first), args.v.token_stride, left);
    device::commit_copies();
  };
  const int first = tile.first_key / Warp::kKeys, end = (tile.end_key + Warp::kKeys - 1) / Warp::kKeys;
  copy_keys(first);
  Warp warp(args, list, memory.places + warp_row, tile.rows - warp_row, list.first + tile.first + warp_row,
            rows);
  device::wait_copies<1>();  // the rows
  device::sync_block();
  warp.start(args, list);
  for (int block = first; block < end; ++block) {
    device::wait_copies<0>();
    device::sync_block();  // all threads' copies are complete, and no thread reads the other buffer any more
    if (block + 1 < end) copy_keys(block + 1);
    warp.add(args, block * Warp::kKeys, memory.keys[block % 2].elements, memory.values[block % 2].elements);
  }
  warp.finish(args, list);
}

/// Layout of the shared memory of a block that keeps all keys and values of a list.
template <class Warp>
struct ListMemory {
  static_assert(Warp::kStrips == 1);
  static constexpr int kStride = Panel<Warp::kHeadDim>::kStride, kWarpElements = Warp::kPanels * 16 * kStride;
  int key_rows, warps;

  MOH_DEVICE bfloat16* keys() const { return device::shared_memory<bfloat16>(); }
  MOH_DEVICE bfloat16* values() const { return keys() + key_rows * kStride; }
  MOH_DEVICE bfloat16* panel(int warp, int p) const {
    return values() + key_rows * kStride + warp * kWarpElements + p * 16 * kStride;
  }
  MOH_DEVICE Place* places(int warp) const { return reinterpret_cast<Place*>(panel(warps, 0)) + warp * 16; }

  MOH_DEVICE List* list() const { return reinterpret_cast<List*>(places(warps)); }

  std::size_t bytes() const {
    return static_cast<std::size_t>(2 * key_rows * kStride + warps * kWarpElements) * sizeof(bfloat16) +
           static_cast<std::size_t>(warps) * 16 * sizeof(Place) + sizeof(List);
  }
};

inline constexpr int kMostListWarps = 6;
/// Blocks on a multiprocessor. The panels of the backward pass with heads of 128 take half of its shared
/// memory, so that with more than 64 keys one block has room; it may take the registers of two.
template <class Warp>
inline constexpr int kListBlocks = Warp::kPanels* Warp::kHeadDim > 192 ? 1 : 2;

/// Zeros for all heads, which a pass over lists writes before its rows.
using PassZeros = HeadZeros<bfloat16>;

/// Writes a block's share, one of gridDim.y, of the zeros for the pairs that a list lacks: the gaps between
/// its rows. A thread has 16 bytes of a head.
MOH_DEVICE void write_zeros_between_rows(const PassZeros& zeros, const List& list) {
  constexpr int kPack = Pack<bfloat16>::kCount;
  const int pieces = static_cast<int>(zeros.shape.head_dim) / kPack, rows = static_cast<int>(list.rows),
            threads = device::block_threads(), step = static_cast<int>(device::blocks_y()) * threads;
  const auto number_at = [&](int row) { return static_cast<int>(pair_number(list, pair_at(list, row))); };
  MOH_ROLLED
  for (int i = static_cast<int>(device::block_y()) * threads + device::thread_x(); i < (rows + 1) * pieces;
       i += step) {
    const int row = i / pieces, piece = i % pieces;
    const int end = row == rows ? static_cast<int>(list.num_pairs) : number_at(row);
    MOH_ROLLED
    for (int number = row == 0 ? 0 : number_at(row - 1) + 1; number < end; ++number) {
      const Pair pair = numbered_pair(list, number);
      *reinterpret_cast<Pack<bfloat16>*>(row_of(zeros.view, list, pair) + piece * kPack) = Pack<bfloat16>{};
      if (zeros.gates != nullptr && piece == 0) zeros.gates[gate_index(zeros.shape, list, pair)] = 0;
    }
  }
}

/// For lists with few keys: all keys stay in shared memory, and each warp processes strips of 16 rows
/// independently. Blocks of different y share the rows of a long list.
template <class Warp>
MOH_KERNEL(kMostListWarps* device::kWarp, kListBlocks<Warp>)
void pass_over_lists_kernel(typename Warp::Args args, ListMemory<Warp> memory, PassZeros zeros) {
  List& list = *memory.list();
  if (device::thread_x() == 0) list = list_at(args.shape, args.lists, device::block_x());
  device::sync_block();
  if (zeros.count > 0) write_zeros_between_rows(zeros, list);
  const int strips = static_cast<int>((list.rows + 15) / 16),
            step = memory.warps * static_cast<int>(device::blocks_y());
  int strip = static_cast<int>(device::block_y()) * memory.warps;
  if (strip >= strips) return;
  strip += warp_number();
  const auto copy_all = [&](bfloat16* panel, const HeadView<const bfloat16>& view) {
    copy_heads<Warp::kHeadDim>(panel, memory.key_rows, {device::thread_x(), device::block_threads()},
                               args.q.data,
                               [&](int r) { return r < args.shape.keys ? key_row(view, list, r) : nullptr; });
  };
  copy_all(memory.keys(), args.k);
  copy_all(memory.values(), args.v);
  bfloat16* rows[Warp::kPanels];
  Place* const places = memory.places(warp_number());
  const auto copy_strip = [&] {
    if (lane_number() < 16)
      places[lane_number()] = place_of(list, strip * 16, list.rows - strip * 16, lane_number());
    device::sync_warp();
    MOH_UNROLL
    for (int p = 0; p < Warp::kPanels; ++p) {
      rows[p] = memory.panel(warp_number(), p);
      const auto view = Warp::source(args, p);
      copy_heads<Warp::kHeadDim>(rows[p], 16, {lane_number(), device::kWarp}, args.q.data,
                                 [&](int r) { return head_at(view, list, places[r]); });
    }
    device::commit_copies();
    device::wait_copies<0>();
  };
  copy_strip();
  device::sync_block();
  for (; strip < strips; strip += step, copy_strip()) {
    device::sync_warp();
    const int number = strip * 16, left = static_cast<int>(list.rows) - number;
    Warp warp(args, list, places, left, list.first + number, rows);
    warp.start(args, list);
    device::sync_warp();  // lanes may have diverged, but ldmatrix and mma need all of them
    MOH_ROLLED
    for (int key = 0; key < memory.key_rows; key += Warp::kKeys)
      warp.add(args, key, memory.keys() + key * memory.kStride, memory.values() + key * memory.kStride);
    warp.finish(args, list);
    device::sync_warp();  // before the panels are overwritten
  }
}

/// Two blocks fit on a multiprocessor with 228 KiB, of which each block takes 1 KiB for the system.
inline constexpr std::size_t kMostListBytes = 113 << 10;
/// With more keys, re-reading them from shared memory for every 16 rows costs more than the tiles' loads.
inline constexpr std::int64_t kMostListKeys = 256;

/// Names of the two kernels of a pass, for messages and profiles.
struct PassKernels {
  const char *tiles_kernel, *lists_kernel;
};

/// The zeros of a view and, if not null, of gates; none where the kernel is dense.
inline PassZeros zeros_of(const RowLists& lists, const HeadView<bfloat16>& view, const AttentionShape& shape,
                          float* gates = nullptr) {
  return lists.rows == nullptr ? PassZeros{} : PassZeros::of(view, shape, gates);
}

/// Runs a pass over tiles, of any number of keys.
template <class Warp>
void launch_tiles(const PassKernels& names, const typename Warp::Args& args, std::int64_t num_rows,
                  const PassZeros& zeros) {
  const Tiles tiles(args.shape, args.lists, num_rows, PassMemory<Warp>::kRows, zeros);
  cuda::launch(names.tiles_kernel, pass_over_tiles_kernel<Warp>,
               {.blocks_x = tiles.most(), .threads = kThreads, .shared_bytes = sizeof(PassMemory<Warp>)},
               args, tiles.tiles(), tiles.count());
}

/// launch_tiles(), with fewer keys per step on a GPU where that lets two blocks share a multiprocessor and
/// more keys do not.
template <class Warp, class NarrowWarp>
void launch_tiles_in_pairs(const PassKernels& names, const typename Warp::Args& args, std::int64_t num_rows,
                           const PassZeros& zeros) {
  constexpr std::size_t kBytes = sizeof(PassMemory<Warp>);
  if constexpr (kPairsIfShort<kBytes, sizeof(PassMemory<NarrowWarp>)>) {
    if (lacks_room_for_two(kBytes)) return launch_tiles<NarrowWarp>(names, args, num_rows, zeros);
  }
  launch_tiles<Warp>(names, args, num_rows, zeros);
}

/// Runs a pass: over lists if all keys of one fit in a block's shared memory, else over tiles.
template <class TileWarp, class NarrowTileWarp, class ListWarp>
void launch_pass(const PassKernels& names, const typename TileWarp::Args& args, std::int64_t num_rows,
                 const PassZeros& zeros) {
  constexpr std::int64_t kRowsPerBlock = 256;
  const AttentionShape& s = args.shape;
  const std::int64_t longest = s.queries * (s.heads / s.kv_heads);
  ListMemory<ListWarp> memory;
  memory.key_rows =
      static_cast<int>((std::min(s.keys, kMostListKeys) + ListWarp::kKeys - 1) / ListWarp::kKeys) *
      ListWarp::kKeys;
  memory.warps = static_cast<int>(std::min<std::int64_t>((longest + 15) / 16, kMostListWarps));
  const std::size_t most_bytes = std::min(kMostListBytes, cuda::limits().shared_bytes_per_block);
  if (s.keys <= kMostListKeys && memory.bytes() <= most_bytes) {
    cuda::launch(names.lists_kernel, pass_over_lists_kernel<ListWarp>,
                 {.blocks_x = s.batch * s.kv_heads,
                  .blocks_y = (longest + kRowsPerBlock - 1) / kRowsPerBlock,
                  .threads = memory.warps * device::kWarp,
                  .shared_bytes = memory.bytes()},
                 args, memory, zeros);
    return;
  }
  launch_tiles_in_pairs<TileWarp, NarrowTileWarp>(names, args, num_rows, zeros);
}

}  // namespace moh::tensor_cores
