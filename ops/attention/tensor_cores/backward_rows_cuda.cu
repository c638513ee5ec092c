#include "ops/attention/tensor_cores/head_widths.h"
#include "ops/attention/tensor_cores/rows.h"
#include "ops/attention/tensor_cores/tensor_core_attention.h"
#include "ops/device/block.h"

namespace moh {
namespace tensor_cores {
namespace {

/// Query rows stay, keys pass by, as in the forward pass.
template <int kHeadDim>
struct RowsCut {
  static constexpr int kStrips = 1, kKeys = 64;
  static constexpr int kWarpRows = kStrips * 16, kRows = kWarps * kWarpRows;
};

template <int kHeadDim>
struct RowsMemory {
  using Cut = RowsCut<kHeadDim>;
  Heads<kHeadDim, Cut::kRows> queries, douts;  // queries: in the end dq
  Heads<kHeadDim, Cut::kKeys> keys[2], values[2];
  Place places[Cut::kRows];
  Tile tile;
  List list;
};

/// What a thread knows of one of its rows.
struct RowScalars {
  float lse = 0, gate = 0, delta = 0, dgate = 0;
};

/// Half of <dout, out>: chunk `half`, half + 2 ... of the head.
template <int kHeadDim>
MOH_DEVICE float half_of_delta(const bfloat16* dout, const bfloat16* out, int half) {
  float sum = 0;
  for (int c = half * kChunk; c < kHeadDim; c += 2 * kChunk) {
    const auto from = *reinterpret_cast<const Pack<bfloat16>*>(out + c);
    MOH_UNROLL
    for (int i = 0; i < kChunk; ++i)
      sum += static_cast<float>(from.values[i]) * static_cast<float>(dout[c + i]);
  }
  return sum;
}

/// A warp's rows on their way through the keys, again:
///   P = 2^(scale q k^T - lse)   dP = dout v^T   dgate = sum P dP   dS = P (gate dP - delta) scale   dq = dS
///   k
template <int kHeadDim>
class WarpRows {
  static constexpr int kStrips = RowsCut<kHeadDim>::kStrips, kKeys = RowsCut<kHeadDim>::kKeys;
  static constexpr int kStride = Panel<kHeadDim>::kStride;

 public:
  /// Its first `rows` places are real; `number` is that of the first of them among the rows of all lists.
  MOH_DEVICE WarpRows(const AttentionBackward<bfloat16>& args, const List& list, const Place* places,
                      int rows, std::int64_t number)
      : range_(args.shape, places, rows, kStrips * 16),
        visible_(args.shape, places),
        args_(args),
        list_(list),
        places_(places),
        number_(number),
        scale_(static_cast<float>(args.shape.scale)) {}

  /// Once queries and douts, the warp's rows in their panels, are there.
  MOH_DEVICE void start(bfloat16* queries, const bfloat16* douts, float* deltas) {
    queries_ = queries;
    douts_ = douts;
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      const float delta = delta_of_lane_row(s);
      MOH_UNROLL
      for (int half = 0; half < 2; ++half) {
        RowScalars& row = rows_[s][half];
        const int r = fragment_row(2 * half);
        row.delta = device::shuffle(delta, 2 * r);
        const Place place = places_[s * 16 + r];
        if (!place.real()) continue;
        row.lse = args_.lse[number_ + s * 16 + r];
        row.gate = args_.gates != nullptr ? args_.gates[gate_index(args_.shape, list_, place.pair())] : 1.0F;
        if (lane_number() % 4 == 0) deltas[number_ + s * 16 + r] = row.delta;
      }
    }
  }

  /// Takes in keys [first_key, first_key + kKeys).
  MOH_DEVICE void add(int first_key, const bfloat16* keys, const bfloat16* values) {
    if (first_key >= range_.most) return;
    Fragments<kStrips, kKeys> scores, dscores;
    multiply_heads<kHeadDim>(scores, queries_, keys);
    multiply_heads<kHeadDim>(dscores, douts_, values);
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      MOH_UNROLL
      for (int j = 0; j < kKeys / 8; ++j) {
        MOH_UNROLL
        for (int i = 0; i < 4; ++i) {
          RowScalars& row = rows_[s][i / 2];
          const bool seen = visible_.sees(first_key, s, j, i);
          const float p = device::exp2_fast(scores.at[s][j][i] * (scale_ * kLog2E) - row.lse),
                      dp = dscores.at[s][j][i];
          row.dgate += seen ? p * dp : 0.0F;
          dscores.at[s][j][i] = seen ? p * (row.gate * dp - row.delta) * scale_ : 0.0F;
        }
      }
    }
    accumulate(dq_, dscores, keys);
  }

  MOH_DEVICE void finish() {
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      MOH_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float dgate = sum_of_row(rows_[s][half].dgate);
        const Place place = places_[s * 16 + fragment_row(2 * half)];
        if (args_.dgates != nullptr && place.real() && lane_number() % 4 == 0)
          args_.dgates[gate_index(args_.shape, list_, place.pair())] = dgate;
      }
      store_fragments<kHeadDim>(queries_ + s * 16 * kStride, dq_, s, {1.0F, 1.0F});
    }
    device::sync_warp();
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      store_strip<kHeadDim>(queries_ + s * 16 * kStride,
                            [&](int r) { return head_at(args_.dq, list_, places_[s * 16 + r]); });
    }
  }

 private:
  /// <dout, out> of row lane / 2 of strip s.
  MOH_DEVICE float delta_of_lane_row(int s) const {
    const int r = s * 16 + lane_number() / 2;
    const bfloat16* const out = head_at(args_.out, list_, places_[r]);
    const float half =
        out != nullptr ? half_of_delta<kHeadDim>(douts_ + r * kStride, out, lane_number() % 2) : 0.0F;
    return half + device::shuffle_xor(half, 1);
  }

  VisibleRange range_;
  VisibleKeys<kStrips> visible_;
  const AttentionBackward<bfloat16>& args_;
  const List& list_;
  const Place* places_;
  std::int64_t number_;
  float scale_;
  bfloat16* queries_ = nullptr;
  const bfloat16* douts_ = nullptr;
  RowScalars rows_[kStrips][2];
  Fragments<kStrips, kHeadDim> dq_;
};

template <int kHeadDim>
MOH_KERNEL(kThreads)
void attention_backward_rows_kernel(AttentionBackward<bfloat16> args, const Tile* tiles,
                                    const std::int32_t* count, float* deltas) {
  using Cut = RowsCut<kHeadDim>;
  if (device::block_x() >= *count) return;
  auto& memory = *device::shared_memory<RowsMemory<kHeadDim>>();
  const Tile& tile = memory.tile;
  const List& list = memory.list;
  if (device::thread_x() == 0) {
    memory.tile = tiles[device::block_x()];
    memory.list = list_at(args.shape, args.lists, tile.list);
  }
  device::sync_block();
  for (int r = device::thread_x(); r < Cut::kRows; r += kThreads)
    memory.places[r] = place_of(list, tile.first, tile.rows, r);
  device::sync_block();
  copy_heads(memory.queries, args.q.data, [&](int r) { return head_at(args.q, list, memory.places[r]); });
  copy_heads(memory.douts, args.q.data, [&](int r) { return head_at(args.dout, list, memory.places[r]); });
  device::commit_copies();
  const auto copy_keys = [&](int block) {
    const int first = block * Cut::kKeys, rows = static_cast<int>(args.shape.keys) - first;
    copy_heads(memory.keys[block % 2], key_row(args.k, list, first), args.k.token_stride, rows);
    copy_heads(memory.values[block % 2], key_row(args.v, list, first), args.v.token_stride, rows);
    device::commit_copies();
  };
  copy_keys(0);
  const int warp_row = warp_number() * Cut::kWarpRows;
  WarpRows<kHeadDim> warp(args, list, memory.places + warp_row, tile.rows - warp_row,
                          list.first + tile.first + warp_row);
  device::wait_copies<1>();  // queries and douts
  device::sync_block();
  warp.start(memory.queries.row(warp_row), memory.douts.row(warp_row), deltas);
  const int blocks = (tile.keys + Cut::kKeys - 1) / Cut::kKeys;
  for (int block = 0; block < blocks; ++block) {
    device::wait_copies<0>();
    device::sync_block();  // the copies of all threads are there, and nobody reads the other buffer any more
    if (block + 1 < blocks) copy_keys(block + 1);
    warp.add(block * Cut::kKeys, memory.keys[block % 2].elements, memory.values[block % 2].elements);
  }
  warp.finish();
}

template <int kHeadDim>
void launch_rows(const AttentionBackward<bfloat16>& args, std::int64_t num_rows, float* deltas) {
  const Tiles tiles(args.shape, args.lists, num_rows, RowsCut<kHeadDim>::kRows);
  cuda::launch("attention_backward_rows", attention_backward_rows_kernel<kHeadDim>,
               {.blocks_x = tiles.most(), .threads = kThreads, .shared_bytes = sizeof(RowsMemory<kHeadDim>)},
               args, tiles.tiles(), tiles.count(), deltas);
}

}  // namespace
}  // namespace tensor_cores

void TensorCoreAttention::backward(const AttentionBackward<bfloat16>& args, std::int64_t num_rows) {
  const DeviceScratch deltas(static_cast<std::size_t>(num_rows) * sizeof(float));
  backward_rows(args, num_rows, deltas.as<float>());
  backward_keys(args, deltas.as<float>());
}

void TensorCoreAttention::backward_rows(const AttentionBackward<bfloat16>& args, std::int64_t num_rows,
                                        float* deltas) {
  if (num_rows == 0) return;
  tensor_cores::visit_head_width(args.shape.head_dim, [&](auto width) {
    tensor_cores::launch_rows<width.value>(args, num_rows, deltas);
  });
}

}  // namespace moh
