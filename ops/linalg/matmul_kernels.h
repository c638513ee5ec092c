#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cpu_isa.h"

namespace moh {

/// Sizes and layout of c[m, n] = op(a)[m, k] op(b)[k, n], row-major; ld: leading dimension (row
/// stride) in elements.
struct GemmShape {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  std::int64_t lda, ldb, ldc;
  bool transpose_c = false;  ///< c is written as [n, m]
};

/// Columns of op(b) in a packed panel.
inline constexpr std::int64_t kGemmPanel = 64;
/// Rows of a register tile.
inline constexpr std::int64_t kGemmTile = 6;

/// Ranges of rows and columns of c that form a task; they begin at whole tiles and panels.
struct GemmTask {
  std::int64_t row_begin, row_end, column_begin, column_end;
};
/// Columns [column_begin, column_end) of op(b), packed in panels, the first at `packed`.
template <class T>
struct PackedColumns {
  std::int64_t column_begin, column_end;
  T* packed;
};

/// Matrix multiplication of float and double in register tiles. Each element of c is summed in the order of
/// k, in blocks of a fixed depth, so its bits do not depend on the division into tasks.
template <class Backend, class T>
struct MatmulKernels {
  /// Number of blocks that k is divided into.
  static std::int64_t depth_blocks(const GemmShape& shape);
  /// Elements of a panel.
  static std::int64_t panel_size(const GemmShape& shape) { return kGemmPanel * shape.k; }
  /// Packs block `block` of the depth of panel `panel`, numbered from `to.column_begin`.
  static void pack(const GemmShape& shape, const T* b, const PackedColumns<T>& to, std::int64_t panel,
                   std::int64_t block);

  /// Bytes of scratch of a task of at most `rows` rows; `packs`: the task packs columns of b itself.
  static std::size_t scratch_bytes(const GemmShape& shape, std::int64_t rows, bool packs);
  /// The task's part of c = op(a) op(b), or of c += op(a) op(b). Columns of b are read from `packed`, which
  /// contains those of the task, or, if null, are packed by the task: better if a task has all rows. Scratch
  /// is aligned to 64 bytes.
  static void multiply(const GemmShape& shape, const T* a, const T* b, T* c, bool accumulate,
                       const GemmTask& task, const PackedColumns<T>* packed, std::byte* scratch);
};

}  // namespace moh
