#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

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
/// Rows of a block of two tiles of AMX, one above the other.
inline constexpr std::int64_t kGemmBlockOfAmx = 32;

/// The result of a matrix multiplication: c, or c + bias.
template <class C>
struct GemmResult {
  C* data;
  bool accumulate = false;  ///< the product is added to what c holds
  const C* bias = nullptr;  ///< an element for each column of c as it is written; null: none
};

/// The multiply-adds of one task: ranges of rows and columns of c, and of k. They begin at whole tiles
/// (MatmulKernels::kTile), panels and blocks of the depth.
struct GemmTask {
  std::int64_t row_begin, row_end, column_begin, column_end, k_begin, k_end;
};
/// The part of op(b) in columns [column_begin, column_end) and elements [k_begin, k_end) of k, packed in
/// panels, the first at `packed`.
struct PackedColumns {
  std::int64_t column_begin, column_end, k_begin, k_end;
  std::byte* packed;
};

/// Matrix multiplication in register tiles: of float and double, and of bfloat16 into C = float or bfloat16.
/// Each element of c is summed in the order of k, in blocks of a fixed depth, so its bits do not depend on
/// the division into tasks; it is rounded to bfloat16 once.
template <class Backend, class T, class C = T>
struct MatmulKernels {
  /// Rows of c that are multiplied at a time.
  static constexpr std::int64_t kTile =
      std::is_same_v<Backend, cpu::Amx> || std::is_same_v<Backend, cpu::AmxPlain> ? kGemmBlockOfAmx
                                                                                  : kGemmTile;
  /// Elements of k in a block; the last block may have fewer.
  static std::int64_t depth_of_block(const GemmShape& shape);
  /// Whether rows of a that is not transposed are packed, too, by each task.
  static bool packs_rows(const GemmShape& shape);
  /// Whether a task must have all of k.
  static constexpr bool kNeedsAllOfK = sizeof(C) < sizeof(float);
  /// Bytes of elements [0, depth) of k, packed, of a row or column.
  static std::int64_t packed_bytes(std::int64_t depth);
  /// Packs elements [k, k + depth_of_block) of the columns [column, column + kGemmPanel) of op(b), as far as
  /// `to` has them.
  static void pack(const GemmShape& shape, const T* b, const PackedColumns& to, std::int64_t column,
                   std::int64_t k);

  /// Bytes of scratch of a task of at most `rows` rows and `columns` columns; `packs`: the task packs columns
  /// of b itself.
  static std::size_t scratch_bytes(const GemmShape& shape, std::int64_t rows, std::int64_t columns,
                                   bool packs);
  /// The task's part of c = op(a) op(b). Columns of b are read from `packed`, which contains those of the
  /// task, or, if null, are packed by the task: better if a task has all rows. The bias is added to sums that
  /// have all of k, before they are rounded. Scratch is aligned to 64 bytes, and never null.
  [[gnu::nonnull(7)]] static void multiply(const GemmShape& shape, const T* a, const T* b,
                                           const GemmResult<C>& c, const GemmTask& task,
                                           const PackedColumns* packed, std::byte* scratch);
};

}  // namespace moh
