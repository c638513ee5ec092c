#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cpu_isa.h"

namespace moh {

/// Sizes and layout of c[m, n] = op(a)[m, k] op(b)[k, n], row-major; ld is the distance of two stored rows.
struct GemmShape {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  std::int64_t lda, ldb, ldc;
  bool transpose_c = false;  ///< c is written as [n, m]
};

/// Columns of op(b) that are packed together.
inline constexpr std::int64_t kGemmPanel = 64;
/// Rows of a register tile.
inline constexpr std::int64_t kGemmTile = 6;

/// Rows and columns of c that are one task. Both begin at whole tiles and panels.
struct GemmTask {
  std::int64_t row_begin, row_end, column_begin, column_end;
};
/// Columns [column_begin, column_end) of op(b), in panels, the first at `packed`.
template <class T>
struct PackedColumns {
  std::int64_t column_begin, column_end;
  T* packed;
};

/// Matrix products of float and double in register tiles. Each element of c is summed in the order of k, in
/// blocks of a fixed depth, so its bits do not depend on the task that it is part of.
template <class Backend, class T>
struct MatmulKernels {
  /// Blocks of k that c is summed in.
  static std::int64_t depth_blocks(const GemmShape& shape);
  /// Elements of a panel.
  static std::int64_t panel_size(const GemmShape& shape) { return kGemmPanel * shape.k; }
  /// Packs panel `panel`, counted from `to.column_begin`, block `block` of the depth.
  static void pack(const GemmShape& shape, const T* b, const PackedColumns<T>& to, std::int64_t panel,
                   std::int64_t block);

  /// Scratch of a task of at most `rows` rows; `packs`: without packed columns.
  static std::size_t scratch_bytes(const GemmShape& shape, std::int64_t rows, bool packs);
  /// The task's part of c = op(a) op(b), or of c += op(a) op(b). Columns of b come from `packed`, which holds
  /// the task's, or where that is null are packed on the way: better where a task has all rows. Scratch is
  /// aligned to 64 bytes.
  static void multiply(const GemmShape& shape, const T* a, const T* b, T* c, bool accumulate,
                       const GemmTask& task, const PackedColumns<T>* packed, std::byte* scratch);
};

}  // namespace moh
