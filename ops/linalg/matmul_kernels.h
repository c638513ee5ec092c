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
};

/// Rows and columns of c that are one task.
struct GemmTask {
  std::int64_t row_begin, row_end, column_begin, column_end;
};
/// Most rows of a task: its block of a stays in the second cache level, while each packed panel of b, which
/// is packed again for the next task, serves many rows.
inline constexpr std::int64_t kGemmRows = 516;

/// Matrix products of float and double in register tiles. Each element of c is summed in the order of k, in
/// blocks of a fixed depth, so its bits do not depend on the task that it is part of.
template <class Backend, class T>
struct MatmulKernels {
  static std::size_t scratch_bytes(const GemmShape& shape);
  /// The task's part of c = op(a) op(b), or of c += op(a) op(b); scratch is aligned to 64 bytes.
  static void multiply(const GemmShape& shape, const T* a, const T* b, T* c, bool accumulate,
                       const GemmTask& task, std::byte* scratch);
};

}  // namespace moh
