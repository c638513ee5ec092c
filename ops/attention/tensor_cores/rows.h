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

/// Keys [begin, end).
struct Keys {
  int begin, end;
};

/// The keys that a row of sequence `batch` sees; none for padding.
MOH_DEVICE Keys visible_keys_of(const AttentionShape& shape, std::int64_t batch, const Place& place) {
  if (!place.real()) return {0, 0};
  const Range seen = visible_keys(shape, batch, place.token);
  return {static_cast<int>(seen.begin), static_cast<int>(seen.end)};
}

/// Bounds for the keys that the `size` rows of a warp see: `any` are those that some row may see, every row
/// sees `all` of them. Both ends ascend with the rows; the first `rows` of them are real, the rest are
/// padding and see no key.
struct VisibleRange {
  Keys any, all;

  MOH_DEVICE VisibleRange(const AttentionShape& shape, std::int64_t batch, const Place* places, int rows,
                          int size) {
    if (rows <= 0) {
      any = all = {0, 0};
      return;
    }
    const Keys first = visible_keys_of(shape, batch, places[0]),
               last = visible_keys_of(shape, batch, places[(rows < size ? rows : size) - 1]);
    any = {first.begin, last.end};
    all = {last.begin, rows >= size ? first.end : 0};
  }

  /// Whether some row may see one of the keys [first, first + count).
  MOH_DEVICE bool sees_some(int first, int count) const {
    return first < any.end && first + count > any.begin;
  }
  /// Whether every row sees all of them.
  MOH_DEVICE bool sees_all(int first, int count) const {
    return first >= all.begin && first + count <= all.end;
  }
};

/// Visible keys of the rows of which the thread holds elements, two in each strip.
template <int kStrips>
struct VisibleKeys {
  Keys of[kStrips][2];

  MOH_DEVICE VisibleKeys(const AttentionShape& shape, std::int64_t batch, const Place* places) {
    MOH_UNROLL
    for (int s = 0; s < kStrips; ++s) {
      MOH_UNROLL
      for (int half = 0; half < 2; ++half)
        of[s][half] = visible_keys_of(shape, batch, places[s * 16 + fragment_row(2 * half)]);
    }
  }

  /// Whether element (s, j, i) of the scores, whose first column is key `first_key`, is a key that
  /// its row sees.
  MOH_DEVICE bool sees(int first_key, int s, int j, int i) const {
    const int key = first_key + j * 8 + fragment_column(i);
    return key >= of[s][i / 2].begin && key < of[s][i / 2].end;
  }
  /// As `sees` of the elements of strip s, bit 4 j + i: one register where ranges are four.
  template <int kKeys>
  MOH_DEVICE std::uint32_t mask(int first_key, int s) const {
    static_assert(kKeys <= 64);
    std::uint32_t bits = 0;
    MOH_UNROLL
    for (int e = 0; e < kKeys / 2; ++e)
      bits |= static_cast<std::uint32_t>(sees(first_key, s, e / 4, e % 4)) << e;
    return bits;
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
