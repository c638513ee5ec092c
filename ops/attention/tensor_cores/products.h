#pragma once

#include "ops/attention/tensor_cores/panel.h"
#include "ops/device/math.h"
#include "ops/device/mma.h"

// For kernel files only: the two matrix multiplications of attention and its gradients, on tensor cores. A
// warp owns kStrips strips of 16 rows; a fragment of its right operand, once loaded, serves all of them.

namespace moh::tensor_cores {

/// A warp's accumulator: [kStrips * 16, kColumns] in float32. at[s][j][i] is row lane / 4 + i / 2 * 8 of
/// strip s, column j * 8 + lane % 4 * 2 + i % 2.
template <int kStrips, int kColumns>
struct Fragments {
  float at[kStrips][kColumns / 8][4] = {};
};

MOH_DEVICE int lane_number() {
  return device::thread_x() % device::kWarp;
}
MOH_DEVICE int warp_number() {
  return device::thread_x() / device::kWarp;
}
/// The row of a strip, and the column of a piece, of element i of the thread's fragments.
MOH_DEVICE int fragment_row(int i) {
  return lane_number() / 4 + i / 2 * 8;
}
MOH_DEVICE int fragment_column(int i) {
  return lane_number() % 4 * 2 + i % 2;
}

/// c = a b^T over the head: `a` points to the warp's first row in its panel, `b` to the first of kColumns
/// rows.
template <int kHeadDim, int kStrips, int kColumns>
MOH_DEVICE void multiply_heads(Fragments<kStrips, kColumns>& c, const bfloat16* a, const bfloat16* b) {
  constexpr int kStride = Panel<kHeadDim>::kStride;
  const int lane = lane_number();
  const bfloat16* const a_at = a + lane % 16 * kStride + lane / 16 * 8;
  const bfloat16* const b_at = b + (lane % 8 + lane / 16 * 8) * kStride + lane / 8 % 2 * 8;
  c = {};
  MOH_UNROLL
  for (int k = 0; k < Panel<kHeadDim>::kReduced; k += 16) {
    std::uint32_t left[kStrips][4];
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) device::load_matrices(left[s], a_at + s * 16 * kStride + k);
    MOH_UNROLL
    for (int j = 0; j < kColumns / 8; j += 2) {
      std::uint32_t right[4];
      device::load_matrices(right, b_at + j * 8 * kStride + k);
      MOH_UNROLL
      for (int s = 0; s < kStrips; ++s) {
        device::multiply_add(c.at[s][j], left[s], right[0], right[1]);
        device::multiply_add(c.at[s][j + 1], left[s], right[2], right[3]);
      }
    }
  }
}

/// c += a b over kShared rows of a panel, the first at `b`. a, itself an accumulator, is rounded to bfloat16;
/// its fragments already have the layout of a left operand.
template <int kHeadDim, int kStrips, int kShared>
MOH_DEVICE void accumulate(Fragments<kStrips, kHeadDim>& c, const Fragments<kStrips, kShared>& a,
                           const bfloat16* b) {
  constexpr int kStride = Panel<kHeadDim>::kStride, kPieces = kHeadDim / 8;
  const int lane = lane_number();
  const bfloat16* const b_at = b + lane % 16 * kStride + lane / 16 * 8;
  MOH_UNROLL
  for (int k = 0; k < kShared / 16; ++k) {
    std::uint32_t left[kStrips][4];
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      MOH_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float(&from)[4] = a.at[s][2 * k + half];
        left[s][2 * half] = device::pack_bfloat16(from[0], from[1]);
        left[s][2 * half + 1] = device::pack_bfloat16(from[2], from[3]);
      }
    }
    MOH_UNROLL
    for (int j = 0; j < kPieces; j += 2) {
      std::uint32_t right[4];
      device::load_matrices_transposed(right, b_at + k * 16 * kStride + j * 8);
      MOH_UNROLL
      for (int s = 0; s < kStrips; ++s) {
        device::multiply_add(c.at[s][j], left[s], right[0], right[1]);
        if (j + 1 < kPieces) device::multiply_add(c.at[s][j + 1], left[s], right[2], right[3]);
      }
    }
  }
}

/// Writes strip s, with row fragment_row(i) multiplied by factors[i / 2], to a panel, rounded to bfloat16.
template <int kHeadDim, int kStrips>
MOH_DEVICE void store_fragments(bfloat16* panel_row, const Fragments<kStrips, kHeadDim>& c, int s,
                                const float (&factors)[2]) {
  MOH_UNROLL
  for (int j = 0; j < kHeadDim / 8; ++j) {
    MOH_UNROLL
    for (int half = 0; half < 2; ++half) {
      bfloat16* const to =
          panel_row + fragment_row(2 * half) * Panel<kHeadDim>::kStride + j * 8 + fragment_column(0);
      *reinterpret_cast<std::uint32_t*>(to) = device::pack_bfloat16(c.at[s][j][2 * half] * factors[half],
                                                                    c.at[s][j][2 * half + 1] * factors[half]);
    }
  }
}

}  // namespace moh::tensor_cores
