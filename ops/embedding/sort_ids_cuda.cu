#include "ops/embedding/sort_ids_cuda.h"

#include "ops/cuda/block_sizes.h"
#include "ops/cuda/scan.h"
#include "ops/device/kernel.h"
#include "ops/device/warp.h"

// LSD radix sort with digits of eight bits: one pass for bytes, two for up to 65536 ids, three above. A pass
// divides the list into tiles. Each tile counts its digits; one block computes by prefix sums where each
// digit of each tile begins; each tile moves its elements there. Within a tile an element's rank among those
// of its digit comes from ballots of its warp, 32 elements at a time, so there are no atomics and the sort is
// stable and deterministic.
//
// A pass reads and writes 16 bytes per id, little beside the embedding rows of these ids; its cost
// is three launches.

namespace moh {

namespace {

constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
constexpr int kEach = 4, kTile = kBlockThreads * kEach;  // elements of a thread, of a tile
static_assert(kDigits == kBlockThreads);                 // a thread for each digit

/// A list before a pass over the bits from `shift` on.
struct Pass {
  IdPlaces from;  ///< places null: the k-th id has position k
  std::int64_t count;
  int shift;

  MOH_DEVICE int digit(std::int64_t k) const {
    return static_cast<int>(from.ids[k] >> shift & (kDigits - 1));
  }
};

/// Shared memory of a tile.
struct TileSpace {
  std::int32_t counts[kBlockWarps][kDigits];  ///< of the digits among each warp's elements
  std::int64_t starts[kDigits];
};

/// The index of element i of the thread. A warp's elements are contiguous.
MOH_DEVICE std::int64_t element(int i) {
  const int lane = device::thread_x() % device::kWarp, warp = device::thread_x() / device::kWarp;
  return device::block_x() * kTile + (warp * kEach + i) * device::kWarp + lane;
}

/// Mask of the lanes with this lane's digit. Lanes without an element, digit -1, are in no mask; their own
/// result is meaningless.
MOH_DEVICE std::uint32_t lanes_with(int digit) {
  std::uint32_t same = device::ballot(digit >= 0);
  for (int bit = 0; bit < kDigitBits; ++bit) {
    const bool set = (digit >> bit & 1) != 0;
    const std::uint32_t lanes = device::ballot(set);
    same &= set ? lanes : ~lanes;
  }
  return same;
}

/// The digits of the thread's elements, -1 past the end of the list, and how many elements of the warp before
/// each have the same. Leaves the counts of the warp.
MOH_DEVICE void rank_in_warp(const Pass& pass, TileSpace& space, int (&digits)[kEach], int (&ranks)[kEach]) {
  const int lane = device::thread_x() % device::kWarp;
  std::int32_t* const counts = space.counts[device::thread_x() / device::kWarp];
  MOH_UNROLL for (int i = 0; i < kEach; ++i) digits[i] =
      element(i) < pass.count ? pass.digit(element(i)) : -1;
  for (int d = lane; d < kDigits; d += device::kWarp) counts[d] = 0;
  device::sync_warp();
  MOH_UNROLL for (int i = 0; i < kEach; ++i) {
    const std::uint32_t same = lanes_with(digits[i]), before = same & ((1U << lane) - 1);
    if (digits[i] >= 0) ranks[i] = counts[digits[i]] + device::count_bits(before);
    device::sync_warp();
    if (digits[i] >= 0 && before == 0) counts[digits[i]] += device::count_bits(same);
    device::sync_warp();
  }
}

/// counts[tile, digit] = how often the tile has the digit. One block per tile.
MOH_KERNEL(kBlockThreads) void count_digits_kernel(Pass pass, std::int64_t* counts) {
  auto& space = *device::shared_memory<TileSpace>();
  int digits[kEach], ranks[kEach];
  rank_in_warp(pass, space, digits, ranks);
  device::sync_block();
  std::int64_t count = 0;
  MOH_UNROLL for (int w = 0; w < kBlockWarps; ++w) count += space.counts[w][device::thread_x()];
  counts[device::block_x() * kDigits + device::thread_x()] = count;
}

/// Replaces counts[tile, digit] by the sum over earlier tiles; starts[digit] = number of elements with a
/// smaller digit. One block.
MOH_KERNEL(kBlockThreads)
void scan_digits_kernel(std::int64_t* counts, std::int64_t tiles, std::int64_t* starts) {
  constexpr int kInFlight = 8;
  std::int64_t* const own = counts + device::thread_x();
  std::int64_t sum = 0;
  for (std::int64_t tile = 0; tile < tiles; tile += kInFlight) {
    std::int64_t read[kInFlight];
    MOH_UNROLL for (int u = 0; u < kInFlight; ++u) read[u] = tile + u < tiles ? own[(tile + u) * kDigits] : 0;
    MOH_UNROLL for (int u = 0; u < kInFlight; ++u) {
      if (tile + u < tiles) own[(tile + u) * kDigits] = sum;
      sum += read[u];
    }
  }
  std::int64_t total = 0;
  starts[device::thread_x()] = sum_before<kBlockThreads>(sum, device::shared_memory<std::int64_t>(), &total);
}

/// Moves the elements of a tile to their sorted positions. One block per tile.
MOH_KERNEL(kBlockThreads)
void move_ids_kernel(Pass pass, const std::int64_t* offsets, const std::int64_t* starts, std::int64_t* ids,
                     std::int64_t* places) {
  auto& space = *device::shared_memory<TileSpace>();
  const int own = device::thread_x(), warp = own / device::kWarp;
  int digits[kEach], ranks[kEach];
  rank_in_warp(pass, space, digits, ranks);
  device::sync_block();
  space.starts[own] = starts[own] + offsets[device::block_x() * kDigits + own];
  std::int32_t before = 0;
  MOH_UNROLL for (int w = 0; w < kBlockWarps; ++w) {
    const std::int32_t count = space.counts[w][own];
    space.counts[w][own] = before;
    before += count;
  }
  device::sync_block();
  MOH_UNROLL for (int i = 0; i < kEach; ++i) {
    if (digits[i] < 0) continue;
    const std::int64_t k = element(i);
    const std::int64_t to = space.starts[digits[i]] + space.counts[warp][digits[i]] + ranks[i];
    ids[to] = pass.from.ids[k];
    places[to] = pass.from.places != nullptr ? pass.from.places[k] : k;
  }
}

/// Runs one pass: writes the elements to `ids` and `places`, ordered by their digit.
void run(const Pass& pass, std::int64_t* ids, std::int64_t* places) {
  const std::int64_t tiles = (pass.count + kTile - 1) / kTile;
  const DeviceScratch scratch(static_cast<std::size_t>(tiles + 1) * kDigits * sizeof(std::int64_t));
  auto *counts = scratch.as<std::int64_t>(), *starts = counts + tiles * kDigits;
  const cuda::LaunchShape per_tile{
      .blocks_x = tiles, .threads = kBlockThreads, .shared_bytes = sizeof(TileSpace)};
  cuda::launch("count_digits", count_digits_kernel, per_tile, pass, counts);
  cuda::launch("scan_digits", scan_digits_kernel,
               {.threads = kBlockThreads, .shared_bytes = kBlockWarps * sizeof(std::int64_t)}, counts, tiles,
               starts);
  cuda::launch("move_ids", move_ids_kernel, per_tile, pass, counts, starts, ids, places);
}

std::size_t list_bytes(std::int64_t count) {
  return static_cast<std::size_t>(count) * 2 * sizeof(std::int64_t);
}

}  // namespace

SortedIds::SortedIds(const std::int64_t* ids, std::int64_t count, std::int64_t bound)
    : even_(list_bytes(count)), odd_(bound > kDigits ? list_bytes(count) : 0), sorted_{ids, nullptr} {
  int shift = 0;
  do {
    auto* const to = (shift / kDigitBits % 2 == 0 ? even_ : odd_).as<std::int64_t>();
    run({sorted_, count, shift}, to, to + count);
    sorted_ = {to, to + count};
    shift += kDigitBits;
  } while ((bound - 1) >> shift > 0);
}

}  // namespace moh
