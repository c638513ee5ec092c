#pragma once

#include <cmath>

#include "ops/attention/list_walk.h"
#include "ops/attention/tensor_cores/products.h"
#include "ops/attention/tensor_cores/tiles.h"
#include "ops/device/warp.h"

// For kernel files only: the gathered rows (selected pairs) of a tile.

namespace moh::tensor_cores {

inline constexpr float kLog2E = 1.4426950408889634F;

/// A selected (token, query head) pair; token -1: none.
struct Place {
  std::int32_t token, head;
  MOH_DEVICE bool real() const { return token >= 0; }
  MOH_DEVICE Pair pair() const { return {token, head}; }
};

/// Row r of rows [first, first + rows) of a list; none for r >= rows.
MOH_DEVICE Place place_of(const List& list, std::int64_t first, std::int64_t rows, int r) {
  if (r >= rows) return {-1, 0};
  const Pair pair = pair_at(list, first + r);
  return {static_cast<std::int32_t>(pair.token), static_cast<std::int32_t>(pair.head)};
}

/// Address of the pair's head in a view; null for none.
template <class T>
MOH_DEVICE T* head_at(const HeadView<T>& view, const List& list, const Place& place) {
  return place.real() ? row_of(view, list, place.pair()) : nullptr;
}

MOH_DEVICE int visible_keys_of(const AttentionShape& shape, const Place& place) {
  return place.real() ? static_cast<int>(visible_keys(shape, place.token)) : 0;
}

/// Bounds for the number of keys that the `size` rows of a warp see: each sees at least `fewest` and at most
/// `most`. Rows ascend by position; the first `rows` of them are real, the rest are padding and see no key.
struct VisibleRange {
  int fewest, most;

  MOH_DEVICE VisibleRange(const AttentionShape& shape, const Place* places, int rows, int size) {
    fewest = rows >= size ? visible_keys_of(shape, places[0]) : 0;
    most = rows > 0 ? visible_keys_of(shape, places[(rows < size ? rows : size) - 1]) : 0;
  }
};

/// Numbers of visible keys of the rows of which the thread holds elements, two in each strip.
template <int kStrips>
struct VisibleKeys {
  int of[kStrips][2];

  MOH_DEVICE VisibleKeys(const AttentionShape& shape, const Place* places) {
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      MOH_UNROLL
      for (int half = 0; half < 2; ++half)
        of[s][half] = visible_keys_of(shape, places[s * 16 + fragment_row(2 * half)]);
    }
  }

  /// Whether element (s, j, i) of the scores, whose first column is key `first_key`, is a key that
  /// its row sees.
  MOH_DEVICE bool sees(int first_key, int s, int j, int i) const {
    return first_key + j * 8 + fragment_column(i) < of[s][i / 2];
  }
};

/// Copies a warp's rows, which its lanes have written to a panel, to the heads of `places` in a view.
template <int kHeadDim, int kStrips>
MOH_DEVICE void store_rows(const bfloat16* panel_row, const HeadView<bfloat16>& view, const List& list,
                           const Place* places) {
  device::sync_warp();
  MOH_UNROLL
  for (int s = 0; s < kStrips; ++s) {
    store_strip<kHeadDim>(panel_row + s * 16 * Panel<kHeadDim>::kStride,
                          [&](int r) { return head_at(view, list, places[s * 16 + r]); });
  }
}

/// The sum over the four threads that hold a row of a strip.
MOH_DEVICE float sum_of_row(float value) {
  value += device::shuffle_xor(value, 1);
  return value + device::shuffle_xor(value, 2);
}
MOH_DEVICE float largest_of_row(float value) {
  value = fmaxf(value, device::shuffle_xor(value, 1));
  return fmaxf(value, device::shuffle_xor(value, 2));
}

}  // namespace moh::tensor_cores
