#include "ops/attention/tensor_cores/head_widths.h"
#include "ops/attention/tensor_cores/kept_weights.h"
#include "ops/attention/tensor_cores/paired_blocks.h"
#include "ops/attention/tensor_cores/tensor_core_attention.h"
#include "ops/device/block.h"

namespace moh {
namespace tensor_cores {
namespace {

/// Tile sizes of the kernel in which keys stay in a block and the rows that see them are streamed, with
/// kShort fewer at a time. Narrow heads leave registers to more blocks, which dropout would take.
template <int kWidth, bool kWithDropout, bool kShort = false>
struct KeysCut {
  static constexpr int kHeadDim = kWidth;
  static constexpr bool kDrops = kWithDropout;
  static constexpr int kStrips = 1;
  static constexpr int kRows = kShort || kHeadDim > 96 || (kDrops && kHeadDim <= 32) ? 32 : 64;
  static constexpr int kWarpKeys = kStrips * 16, kKeys = kWarps * kWarpKeys;
};

/// Per-row values that the keys need, for kRows rows.
template <int kRows>
struct RowTable {
  Place places[kRows];
  float lse[kRows], gate[kRows], delta[kRows];
  Keys visible[kRows];
};

/// Rows are pipelined in three stages, each a tile ahead of the next: read the table, copy the heads,
/// compute. So two tables are in use while a third is written.
template <class Cut>
struct KeysMemory {
  Heads<Cut::kHeadDim, Cut::kKeys> keys, values;  // reused for dk and dv at the end
  Heads<Cut::kHeadDim, Cut::kRows> queries[2], douts[2];
  RowTable<Cut::kRows> tables[3];
};

/// A row's entry of a table, in registers: read early, written once the table's previous rows are not used
/// any more.
struct RowEntry {
  Place place{-1, 0};
  float lse = 0, gate = 1, delta = 0;
  Keys visible{0, 0};

  /// Row `r` of the list; none from `end` on.
  MOH_DEVICE RowEntry(const AttentionBackward<bfloat16>& args, const float* deltas, const List& list,
                      std::int64_t r, std::int64_t end) {
    if (r >= end) return;
    place = place_of(list, r, 1, 0);
    lse = args.lse[list.first + r];
    delta = deltas[list.first + r];
    if (args.gates != nullptr) gate = args.gates[gate_index(args.shape, list, place.pair())];
    visible = visible_keys_of(args.shape, list.batch, place);
  }

  template <int kRows>
  MOH_DEVICE void write(RowTable<kRows>& table) const {
    static_assert(kRows <= kThreads);
    const int r = device::thread_x();
    if (r >= kRows) return;
    table.places[r] = place;
    table.lse[r] = lse;
    table.gate[r] = gate;
    table.delta[r] = delta;
    table.visible[r] = visible;
  }
};

/// The first row for which holds(its visible keys), as it does for the later ones; all lanes of a warp search
/// together.
template <class Holds>
MOH_DEVICE std::int64_t search_row(const AttentionShape& shape, const List& list, const Holds& holds) {
  std::int64_t low = 0, high = list.rows;
  while (low < high) {
    const std::int64_t step = (high - low + device::kWarp - 1) / device::kWarp,
                       probe = low + step * (lane_number() + 1) - 1;
    const bool found = probe >= high || holds(visible_keys(shape, list, probe));
    const std::uint32_t holding = device::ballot(found);
    int first = 0;  // lane
    while (first < device::kWarp && (holding >> first & 1) == 0) ++first;
    high = min_of(high, low + step * (first + 1) - 1);
    low += step * first;
  }
  return min_of(low, list.rows);
}

/// As rows_seeing.
MOH_DEVICE Range search_rows_seeing(const AttentionShape& shape, const List& list, const Range& keys) {
  return {search_row(shape, list, [&](const Range& seen) { return seen.end > keys.begin; }),
          search_row(shape, list, [&](const Range& seen) { return seen.begin >= keys.end; })};
}

/// A warp's keys, to which rows are added tile by tile. Scores are transposed (keys x rows), so that they are
/// left operands of the next matrix multiplications:
///   dv += (gate m P)^T dout   dk += dS^T q   with P, dS and the dropout mask m as for the rows
template <class Cut>
class WarpKeys {
  static constexpr int kHeadDim = Cut::kHeadDim, kStrips = Cut::kStrips, kRows = Cut::kRows;
  static constexpr int kStride = Panel<kHeadDim>::kStride;

 public:
  MOH_DEVICE WarpKeys(int first_key, bfloat16* keys, bfloat16* values, double scale)
      : first_key_(first_key), keys_(keys), values_(values), scale_(static_cast<float>(scale)) {}

  MOH_DEVICE void add(const AttentionShape& shape, const List& list, const RowTable<kRows>& table,
                      const bfloat16* queries, const bfloat16* douts) {
    std::uint32_t kept[kStrips];  // drawn while there are no scores in registers
    if constexpr (Cut::kDrops) {
      MOH_UNROLL
      for (int s = 0; s < kStrips; ++s)
        kept[s] = kept_in_keys<kRows>(shape, list, table.places, first_key_ + s * 16);
    }
    Fragments<kStrips, kRows> weights, dscores;
    multiply_heads<kHeadDim>(weights, keys_, queries);
    multiply_heads<kHeadDim>(dscores, values_, douts);
    MOH_UNROLL
    for (int j = 0; j < kRows / 8; ++j) {
      MOH_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int r = j * 8 + fragment_column(i);
        const float lse = table.lse[r], gate = table.gate[r], delta = table.delta[r];
        const Keys visible = table.visible[r];
        MOH_UNROLL
        for (int s = 0; s < kStrips; ++s) {
          const int key = first_key_ + s * 16 + fragment_row(i);
          const bool seen = key >= visible.begin && key < visible.end;
          float& weight = weights.at[s][j][i];
          float& dscore = dscores.at[s][j][i];
          const float p = seen ? device::exp2_fast(weight * (scale_ * kLog2E) - lse) : 0.0F;
          float factor = gate;
          if constexpr (Cut::kDrops)
            factor *= kept_factor(kept[s], j, i, static_cast<float>(shape.dropout.scale));
          weight = p * factor;
          dscore = seen ? p * (factor * dscore - delta) * scale_ : 0.0F;
        }
      }
    }
    accumulate(dv_, weights, douts);
    accumulate(dk_, dscores, queries);
  }

  /// Writes dk and dv of the keys before `end`.
  MOH_DEVICE void finish(const HeadView<bfloat16>& dk, const HeadView<bfloat16>& dv, const List& list,
                         std::int64_t end) {
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      store_fragments<kHeadDim>(keys_ + s * 16 * kStride, dk_, s, {1.0F, 1.0F});
      store_fragments<kHeadDim>(values_ + s * 16 * kStride, dv_, s, {1.0F, 1.0F});
    }
    device::sync_warp();
    const auto place_in = [&](const HeadView<bfloat16>& view, int s) {
      return [&view, &list, end, first = first_key_ + s * 16](int r) {
        return first + r < end ? key_row(view, list, first + r) : nullptr;
      };
    };
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      store_strip<kHeadDim>(keys_ + s * 16 * kStride, place_in(dk, s));
      store_strip<kHeadDim>(values_ + s * 16 * kStride, place_in(dv, s));
    }
  }

 private:
  int first_key_;
  bfloat16 *keys_, *values_;
  float scale_;
  Fragments<kStrips, kHeadDim> dk_, dv_;
};

/// One key range of one list per block. Block numbers run over lists first, then over key ranges: with a
/// causal mask the first keys are seen by the most rows, so that the longest blocks start first.
template <class Cut>
MOH_KERNEL(kThreads)
void attention_backward_keys_kernel(AttentionBackward<bfloat16> args, const float* deltas) {
  auto& memory = *device::shared_memory<KeysMemory<Cut>>();
  const std::int64_t num_lists = args.shape.batch * args.shape.kv_heads;
  const List list = list_at(args.shape, args.lists, device::block_x() % num_lists);
  const std::int64_t first_key = device::block_x() / num_lists * Cut::kKeys;
  const int num_keys = static_cast<int>(args.shape.keys - first_key);
  copy_heads(memory.keys, key_row(args.k, list, first_key), args.k.token_stride, num_keys);
  copy_heads(memory.values, key_row(args.v, list, first_key), args.v.token_stride, num_keys);
  const Range rows = search_rows_seeing(args.shape, list, {first_key, first_key + Cut::kKeys});
  const int tiles = static_cast<int>((rows.size() + Cut::kRows - 1) / Cut::kRows);
  const auto read_row = [&](int tile) {
    const std::int64_t row = rows.begin + std::int64_t{tile} * Cut::kRows + device::thread_x();
    return RowEntry(args, deltas, list, row, rows.end);
  };
  const auto copy_rows = [&](int tile) {
    const RowTable<Cut::kRows>& table = memory.tables[tile % 3];
    copy_heads(memory.queries[tile % 2], args.q.data,
               [&](int r) { return head_at(args.q, list, table.places[r]); });
    copy_heads(memory.douts[tile % 2], args.q.data,
               [&](int r) { return head_at(args.dout, list, table.places[r]); });
    device::commit_copies();
  };
  read_row(0).write(memory.tables[0]);
  read_row(1).write(memory.tables[1]);
  device::sync_block();
  copy_rows(0);
  const int warp_key = warp_number() * Cut::kWarpKeys;
  WarpKeys<Cut> warp(static_cast<int>(first_key) + warp_key, memory.keys.row(warp_key),
                     memory.values.row(warp_key), args.shape.scale);
  for (int tile = 0; tile < tiles; ++tile) {
    device::wait_copies<0>();
    device::sync_block();  // copies and writes are visible, and no thread reads the buffers that are filled
                           // next
    if (tile + 1 < tiles) copy_rows(tile + 1);
    const RowEntry next = read_row(tile + 2);
    warp.add(args.shape, list, memory.tables[tile % 3], memory.queries[tile % 2].elements,
             memory.douts[tile % 2].elements);
    next.write(memory.tables[(tile + 2) % 3]);
  }
  device::wait_copies<0>();
  device::sync_block();
  warp.finish(args.dk, args.dv, list, args.shape.keys);
}

template <class Cut>
void launch_keys(const AttentionBackward<bfloat16>& args, const float* deltas) {
  const AttentionShape& s = args.shape;
  cuda::launch("attention_backward_keys", attention_backward_keys_kernel<Cut>,
               {.blocks_x = s.batch * s.kv_heads * ((s.keys + Cut::kKeys - 1) / Cut::kKeys),
                .threads = kThreads,
                .shared_bytes = sizeof(KeysMemory<Cut>)},
               args, deltas);
}

template <int kHeadDim>
void launch_keys_without_dropout(const AttentionBackward<bfloat16>& args, const float* deltas) {
  using Cut = KeysCut<kHeadDim, false>;
  using Short = KeysCut<kHeadDim, false, true>;
  constexpr std::size_t kBytes = sizeof(KeysMemory<Cut>);
  if constexpr (kPairsIfShort<kBytes, sizeof(KeysMemory<Short>)>) {
    if (lacks_room_for_two(kBytes)) return launch_keys<Short>(args, deltas);
  }
  launch_keys<Cut>(args, deltas);
}

}  // namespace
}  // namespace tensor_cores

void TensorCoreAttention::backward_keys(const AttentionBackward<bfloat16>& args, const float* deltas) {
  tensor_cores::visit_head_width(args.shape.head_dim, [&](auto width) {
    using namespace tensor_cores;
    if (args.shape.dropout.drops()) return launch_keys<KeysCut<width.value, true>>(args, deltas);
    launch_keys_without_dropout<width.value>(args, deltas);
  });
}

}  // namespace moh
