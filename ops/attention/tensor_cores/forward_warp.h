#pragma once

#include <cmath>

#include "ops/attention/tensor_cores/kept_weights.h"

// For kernel files only.

namespace moh::tensor_cores {

/// Online softmax of a warp's rows, in powers of two.
template <int kStrips>
struct RunningSoftmax {
  float top[kStrips][2], sum[kStrips][2];  ///< maximum of a row, and sum over this thread's columns only

  MOH_DEVICE RunningSoftmax() {
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) top[s][0] = top[s][1] = -INFINITY, sum[s][0] = sum[s][1] = 0.0F;
  }

  /// Scores become 2^(scale * score - top); earlier sums and outputs are rescaled to the new top.
  template <int kKeys, int kHeadDim>
  MOH_DEVICE void add(Fragments<kStrips, kKeys>& scores, Fragments<kStrips, kHeadDim>& out, float scale) {
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      MOH_UNROLL
      for (int half = 0; half < 2; ++half) add_row(scores.at[s], out.at[s], s, half, scale);
    }
  }

 private:
  template <int kPieces, int kOutPieces>
  MOH_DEVICE void add_row(float (&scores)[kPieces][4], float (&out)[kOutPieces][4], int s, int half,
                          float scale) {
    float new_top = top[s][half];
    MOH_UNROLL
    for (int j = 0; j < kPieces; ++j)
      new_top = fmaxf(new_top, fmaxf(scores[j][2 * half], scores[j][2 * half + 1]));
    new_top = largest_of_row(new_top);
    // A row that has seen no key yet, or is padding, has top -inf: inf - inf would be NaN.
    const float finite_top = new_top == -INFINITY ? 0.0F : new_top;
    const float base = finite_top * scale;
    // Exactly 1 under the same top: the product less base would be a fused multiply-add, which sees the
    // rounding of base, in each block of keys again.
    const float shrink = device::exp2_fast((top[s][half] - finite_top) * scale);
    top[s][half] = new_top;
    sum[s][half] *= shrink;
    MOH_UNROLL
    for (int j = 0; j < kPieces; ++j) {
      MOH_UNROLL
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[j][i] = device::exp2_fast(scores[j][i] * scale - base);
        sum[s][half] += scores[j][i];
      }
    }
    MOH_UNROLL
    for (int j = 0; j < kOutPieces; ++j) {
      out[j][2 * half] *= shrink;
      out[j][2 * half + 1] *= shrink;
    }
  }
};

/// The rows of a warp in the forward pass, with dropout or without; key_pass.h passes keys and values to it.
template <int kWidth, int kNumStrips, int kNumKeys, bool kDrops = false>
class ForwardWarp {
 public:
  static constexpr int kHeadDim = kWidth, kStrips = kNumStrips, kKeys = kNumKeys, kPanels = 1;
  using Args = AttentionForward<bfloat16>;

  MOH_DEVICE static HeadView<const bfloat16> source(const Args& args, int) { return args.q; }

  MOH_DEVICE ForwardWarp(const Args& args, const List& list, const Place* places, int rows,
                         std::int64_t number, bfloat16* const (&panels)[kPanels])
      : batch_(static_cast<std::int32_t>(list.batch)),
        rows_(rows),
        list_(&list),
        places_(places),
        number_(number),
        queries_(panels[0]),
        scale_(static_cast<float>(args.shape.scale) * kLog2E) {}

  MOH_DEVICE void start(const Args&, const List&) {}

  MOH_DEVICE void add(const Args& args, int first_key, const bfloat16* keys, const bfloat16* values) {
    const VisibleRange range(args.shape, batch_, places_, rows_,
                             kStrips * 16);  // takes no registers in between
    if (!range.sees_some(first_key, kKeys)) return;
    const bool hides = !range.sees_all(first_key, kKeys);
    std::uint32_t kept[kStrips];  // drawn while there are no scores in registers
    if constexpr (kDrops) {
      MOH_UNROLL
      for (int s = 0; s < kStrips; ++s)
        kept[s] = kept_in_rows<kKeys>(args.shape, *list_, places_ + s * 16, first_key);
    }
    Fragments<kStrips, kKeys> scores;
    multiply_heads<kHeadDim>(scores, queries_, keys);
    if (hides) hide(args.shape, scores, first_key);
    softmax_.add(scores, out_, scale_);
    if constexpr (kDrops) drop(scores, kept, static_cast<float>(args.shape.dropout.scale));
    accumulate(out_, scores, values);
  }

  /// Writes the outputs and lse.
  MOH_DEVICE void finish(const Args& args, const List& list) {
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      float factors[2];
      MOH_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int r = s * 16 + fragment_row(2 * half);
        const float sum = sum_of_row(softmax_.sum[s][half]);
        factors[half] = 0.0F;
        if (!places_[r].real()) continue;
        const float gate =
            args.gates != nullptr ? args.gates[gate_index(args.shape, list, places_[r].pair())] : 1.0F;
        factors[half] = gate / sum;
        if (args.lse != nullptr && lane_number() % 4 == 0)
          args.lse[number_ + r] = softmax_.top[s][half] * scale_ + log2f(sum);
      }
      store_fragments<kHeadDim>(queries_ + s * 16 * Panel<kHeadDim>::kStride, out_, s, factors);
    }
    store_rows<kHeadDim, kStrips>(queries_, args.out, list, places_);
  }

  /// Writes the partial results of the rows, row r at index r: the output before division, the largest score
  /// (scaled, base 2; minus infinity if no key was seen) and the sum of 2^(score - largest).
  MOH_DEVICE void leave(float* out, float* top, float* sum) const {
    static_assert(kStrips == 1);
    MOH_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int r = fragment_row(2 * half);
      const float row_sum = sum_of_row(softmax_.sum[0][half]);
      if (!places_[r].real()) continue;
      if (lane_number() % 4 == 0) {
        top[r] = softmax_.top[0][half] * scale_;
        sum[r] = row_sum;
      }
      MOH_UNROLL
      for (int j = 0; j < kHeadDim / 8; ++j) {
        MOH_UNROLL
        for (int i = 2 * half; i < 2 * half + 2; ++i)
          out[r * kHeadDim + j * 8 + fragment_column(i)] = out_.at[0][j][i];
      }
    }
  }

 private:
  /// Masks the scores of keys that a row does not see.
  MOH_DEVICE void hide(const AttentionShape& shape, Fragments<kStrips, kKeys>& scores, int first_key) const {
    const VisibleKeys<kStrips> visible(shape, batch_, places_);
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      MOH_UNROLL
      for (int j = 0; j < kKeys / 8; ++j) {
        MOH_UNROLL
        for (int i = 0; i < 4; ++i) {
          if (!visible.sees(first_key, s, j, i)) scores.at[s][j][i] = -INFINITY;
        }
      }
    }
  }

  /// Multiplies the weights, of which the sum has been taken, with the dropout mask.
  MOH_DEVICE static void drop(Fragments<kStrips, kKeys>& weights, const std::uint32_t (&kept)[kStrips],
                              float scale) {
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      MOH_UNROLL
      for (int j = 0; j < kKeys / 8; ++j) {
        MOH_UNROLL
        for (int i = 0; i < 4; ++i) weights.at[s][j][i] *= kept_factor(kept[s], j, i, scale);
      }
    }
  }

  std::int32_t batch_;
  int rows_;
  const List* list_;
  const Place* places_;
  std::int64_t number_;
  bfloat16* queries_;
  float scale_;
  RunningSoftmax<kStrips> softmax_;
  Fragments<kStrips, kHeadDim> out_;
};

}  // namespace moh::tensor_cores
