#include "ops/attention/tensor_cores/head_widths.h"
#include "ops/attention/tensor_cores/kept_weights.h"
#include "ops/attention/tensor_cores/key_pass.h"
#include "ops/attention/tensor_cores/tensor_core_attention.h"

namespace moh {
namespace tensor_cores {
namespace {

struct RowsArgs : AttentionBackward<bfloat16> {
  float* deltas;  ///< per row in list order
};

/// A thread's values of one of its rows.
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

/// The rows of a warp in the backward pass, with dropout mask m or without; key_pass.h passes keys and values
/// to it:
///   P = 2^(scale q k^T - lse)   dP = m dout v^T   dgate = sum P dP
///   dS = P (gate dP - delta) scale   dq = dS k
template <int kWidth, int kNumStrips, int kNumKeys, bool kDrops = false>
class RowsWarp {
 public:
  static constexpr int kHeadDim = kWidth, kStrips = kNumStrips, kKeys = kNumKeys, kPanels = 2;
  static constexpr int kStride = Panel<kHeadDim>::kStride;
  using Args = RowsArgs;

  MOH_DEVICE static HeadView<const bfloat16> source(const Args& args, int panel) {
    return panel == 0 ? args.q : args.dout;
  }

  MOH_DEVICE RowsWarp(const Args& args, const List& list, const Place* places, int rows, std::int64_t number,
                      bfloat16* const (&panels)[kPanels])
      : batch_(static_cast<std::int32_t>(list.batch)),
        count_(rows),
        list_(&list),
        places_(places),
        number_(number),
        queries_(panels[0]),
        douts_(panels[1]),
        scale_(static_cast<float>(args.shape.scale)) {}

  MOH_DEVICE void start(const Args& args, const List& list) {
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      const float delta = delta_of_lane_row(args, list, s);
      MOH_UNROLL
      for (int half = 0; half < 2; ++half) {
        RowScalars& row = rows_[s][half];
        const int r = fragment_row(2 * half);
        row.delta = device::shuffle(delta, 2 * r);
        const Place place = places_[s * 16 + r];
        if (!place.real()) continue;
        row.lse = args.lse[number_ + s * 16 + r];
        row.gate = args.gates != nullptr ? args.gates[gate_index(args.shape, list, place.pair())] : 1.0F;
        if (lane_number() % 4 == 0) args.deltas[number_ + s * 16 + r] = row.delta;
      }
    }
  }

  MOH_DEVICE void add(const Args& args, int first_key, const bfloat16* keys, const bfloat16* values) {
    device::sync_warp();  // what rows see is formed anew for each block, and takes no registers between them
    const VisibleRange range(args.shape, batch_, places_, count_, kStrips * 16);
    if (!range.sees_some(first_key, kKeys)) return;
    std::uint32_t seen[kStrips], kept[kStrips];
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      if constexpr (kDrops) kept[s] = kept_in_rows<kKeys>(args.shape, *list_, places_ + s * 16, first_key);
      seen[s] = VisibleKeys<kStrips>(args.shape, batch_, places_).template mask<kKeys>(first_key, s);
    }
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
          const bool sees = (seen[s] >> (4 * j + i) & 1U) != 0;
          const float p = device::exp2_fast(scores.at[s][j][i] * (scale_ * kLog2E) - row.lse);
          float dp = dscores.at[s][j][i];
          if constexpr (kDrops)
            dp *= kept_factor(kept[s], j, i, static_cast<float>(args.shape.dropout.scale));
          row.dgate += sees ? p * dp : 0.0F;
          dscores.at[s][j][i] = sees ? p * (row.gate * dp - row.delta) * scale_ : 0.0F;
        }
      }
    }
    accumulate(dq_, dscores, keys);
  }

  MOH_DEVICE void finish(const Args& args, const List& list) {
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      MOH_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float dgate = sum_of_row(rows_[s][half].dgate);
        const Place place = places_[s * 16 + fragment_row(2 * half)];
        if (args.dgates != nullptr && place.real() && lane_number() % 4 == 0)
          args.dgates[gate_index(args.shape, list, place.pair())] = dgate;
      }
      store_fragments<kHeadDim>(queries_ + s * 16 * kStride, dq_, s, {1.0F, 1.0F});
    }
    store_rows<kHeadDim, kStrips>(queries_, args.dq, list, places_);
  }

 private:
  /// <dout, out> of row lane / 2 of strip s.
  MOH_DEVICE float delta_of_lane_row(const Args& args, const List& list, int s) const {
    const int r = s * 16 + lane_number() / 2;
    const bfloat16* const out = head_at(args.out, list, places_[r]);
    const float half =
        out != nullptr ? half_of_delta<kHeadDim>(douts_ + r * kStride, out, lane_number() % 2) : 0.0F;
    return half + device::shuffle_xor(half, 1);
  }

  std::int32_t batch_;
  int count_;
  const List* list_;
  const Place* places_;
  std::int64_t number_;
  bfloat16* queries_;
  const bfloat16* douts_;
  float scale_;
  RowScalars rows_[kStrips][2];
  Fragments<kStrips, kHeadDim> dq_;
};

/// Fewer keys per step for wide heads, where registers, or the shared memory of small GPUs, would run out,
/// and with dropout, which takes registers, too.
template <int kHeadDim, bool kDrops>
using RowsOfTiles = RowsWarp<kHeadDim, 1, kHeadDim <= (kDrops ? 48 : 96) ? 64 : 32, kDrops>;
template <int kHeadDim>
using RowsOfNarrowTiles = RowsWarp<kHeadDim, 1, 32>;
template <int kHeadDim>
using RowsOfLists = RowsWarp<kHeadDim, 1, kHeadDim <= 96 ? 32 : 16>;

}  // namespace
}  // namespace tensor_cores

void TensorCoreAttention::backward(const AttentionBackward<bfloat16>& args, std::int64_t num_rows) {
  const DeviceScratch deltas(static_cast<std::size_t>(num_rows) * sizeof(float));
  backward_rows(args, num_rows, deltas.as<float>());
  backward_keys(args, deltas.as<float>());
}

void TensorCoreAttention::backward_rows(const AttentionBackward<bfloat16>& args, std::int64_t num_rows,
                                        float* deltas) {
  if (args.shape.batch * args.shape.queries == 0) return;
  const tensor_cores::PassZeros zeros = tensor_cores::zeros_of(args.lists, args.dq, args.shape, args.dgates);
  tensor_cores::visit_head_width(args.shape.head_dim, [&](auto width) {
    using namespace tensor_cores;
    constexpr PassKernels kNames{.tiles_kernel = "attention_backward_rows",
                                 .lists_kernel = "attention_backward_rows_short"};
    if (args.shape.dropout.drops())
      return launch_tiles<RowsOfTiles<width.value, true>>(kNames, {args, deltas}, num_rows, zeros);
    launch_pass<RowsOfTiles<width.value, false>, RowsOfNarrowTiles<width.value>, RowsOfLists<width.value>>(
        kNames, {args, deltas}, num_rows, zeros);
  });
}

}  // namespace moh
