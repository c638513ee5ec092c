#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// x is [batch, positions, row_heads, 2 * half], of which the first `heads` of each row are read.
struct RopeSizes {
  std::int64_t batch = 0;
  std::int64_t positions = 0;
  std::int64_t heads = 0, row_heads = 0;
  std::int64_t half = 0;
  /// [batch, positions], or none: token t has the angles of row t - starts[t].
  const std::int32_t* starts = nullptr;
  /// [batch, positions], or none: the row of each token's angles, of `table_rows`, in place of its number.
  const std::int32_t* rows = nullptr;
  std::int64_t table_rows = 0;
  /// [batch, positions, selectable], or none: of the first `selectable` heads only those with a nonzero
  /// element are rotated.
  const std::uint8_t* selected = nullptr;
  std::int64_t selectable = 0;

  /// Whether a head of a token of all sequences is left as it is.
  constexpr bool leaves(std::int64_t token, std::int64_t head) const {
    return selected != nullptr && head < selectable && selected[token * selectable + head] == 0;
  }
  /// The row of the angles of a token of all sequences.
  constexpr std::int64_t row(std::int64_t token) const {
    if (rows != nullptr) {
      const std::int64_t row = rows[token];
      return row < 0 ? 0 : row < table_rows ? row : table_rows - 1;  // never outside of the table
    }
    const std::int64_t position = token % positions;
    if (starts == nullptr) return position;
    const std::int64_t start = starts[token];
    return start >= 0 && start <= position ? position - start : position;  // never outside of the table
  }
};

/// Rotates x by the table's angles times `direction`, which is 1, or -1 for the inverse; y, which may be x,
/// is overwritten. cos, sin [positions, half] begin with the row of the first position, or of a document's.
template <class Backend, class T>
struct RopeKernels {
  static void rotate(const T* x, const Acc<T>* cos, const Acc<T>* sin, Acc<T> direction, T* y,
                     RopeSizes sizes);
};

}  // namespace moh
