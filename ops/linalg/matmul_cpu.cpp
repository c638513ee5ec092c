#include "ops/cpu/pack.h"
#include "ops/cpu/tile.h"
#include "ops/linalg/matmul_kernels.h"

// For each block of the depth: b is packed into panels of kPanel columns, contiguous in k, and a is read
// where it lies, or, transposed, copied to rows whose distance is no power of two: rows of 4 KiB would fight
// for the same places of the caches.

namespace moh {
namespace {

constexpr std::int64_t kDepth = 384;
constexpr std::int64_t kPanel = 64;
constexpr std::int64_t kCopiedRow = kGemmRows + 16;  // of a, when it is transposed

inline std::int64_t min_of(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

/// Depths of about kDepth, equal but for the last.
std::int64_t depth_of_block(std::int64_t k) {
  const std::int64_t blocks = (k + kDepth - 1) / kDepth;
  return (k + blocks - 1) / blocks;
}

template <class F>
struct GemmScratch {
  F* panel;   // [depth, kPanel]
  F* copied;  // [depth, kCopiedRow]
  F* edge;    // [kTileRows, kPanel]

  void lay_out(Arena& arena, const GemmShape& s) {
    const std::int64_t depth = depth_of_block(s.k);
    panel = arena.take<F>(depth * kPanel);
    copied = arena.take<F>(s.transpose_a ? depth * kCopiedRow : 0);
    edge = arena.take<F>(kTileRows * kPanel);
  }
};

/// Columns [column, column + count) of op(b), elements [k, k + depth): panel [depth, kPanel], of which the
/// vectors that hold the columns are written.
template <class F>
void pack_panel(const GemmShape& s, const F* b, std::int64_t column, std::int64_t count, std::int64_t k,
                std::int64_t depth, F* panel) {
  if (s.transpose_b) {
    return pack_transposed<F>(b + column * s.ldb + k, s.ldb, count, depth, panel, kPanel);
  }
  for (std::int64_t i = 0; i < depth; ++i)
    gather_row<F>(b + (k + i) * s.ldb + column, F(1), panel + i * kPanel, count);
}

/// A tile at the edge of c, by way of scratch: its vectors, or its rows, reach past the end.
template <class F, bool kAccumulate>
void multiply_edge(LeftFactor<F> left, const F* panel, std::int64_t depth, std::int64_t rows,
                   std::int64_t columns, OutMatrix<F> c, F* edge) {
  const int vecs = static_cast<int>(round_up_to_lanes<F>(columns) / kLanes<F>);
  for (std::int64_t i = 0; kAccumulate && i < rows; ++i)
    gather_row<F>(c.data + i * c.row, F(1), edge + i * kPanel, columns);
  if (rows == kTileRows) {
    multiply_rows<F, kTileRows, kAccumulate>(left, panel, kPanel, depth, {edge, kPanel}, vecs);
  } else {
    for (std::int64_t i = 0; i < rows; ++i) {
      multiply_rows<F, 1, kAccumulate>({left.data + i * left.row, left.row, left.depth}, panel, kPanel, depth,
                                       {edge + i * kPanel, kPanel}, vecs);
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) store_row<F>(edge + i * kPanel, F(1), c.data + i * c.row, columns);
}

/// c[rows, columns] (+)= left[rows, depth] panel[depth, columns].
template <class F, bool kAccumulate>
void multiply_panel(LeftFactor<F> left, const F* panel, std::int64_t depth, std::int64_t rows,
                    std::int64_t columns, OutMatrix<F> c, F* edge) {
  const bool whole_vectors = columns % kLanes<F> == 0;
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    const LeftFactor<F> tile{left.data + i * left.row, left.row, left.depth};
    const OutMatrix<F> out{c.data + i * c.row, c.row};
    if (whole_vectors && rows - i >= kTileRows) {
      multiply_rows<F, kTileRows, kAccumulate>(tile, panel, kPanel, depth, out,
                                               static_cast<int>(columns / kLanes<F>));
    } else {
      multiply_edge<F, kAccumulate>(tile, panel, depth, min_of(kTileRows, rows - i), columns, out, edge);
    }
  }
}

}  // namespace

template <class Backend, class T>
std::size_t MatmulKernels<Backend, T>::scratch_bytes(const GemmShape& shape) {
  Arena arena(nullptr);
  GemmScratch<T>().lay_out(arena, shape);
  return arena.used_bytes();
}

template <class Backend, class T>
void MatmulKernels<Backend, T>::multiply(const GemmShape& s, const T* a, const T* b, T* c, bool accumulate,
                                         const GemmTask& task, std::byte* scratch) {
  GemmScratch<T> own;
  Arena arena(scratch);
  own.lay_out(arena, s);
  const std::int64_t rows = task.row_end - task.row_begin, columns = task.column_end - task.column_begin;
  const std::int64_t most = depth_of_block(s.k);
  for (std::int64_t k = 0; k < s.k; k += most) {
    const std::int64_t depth = min_of(most, s.k - k);
    LeftFactor<T> left;
    if (!s.transpose_a) {
      left = {a + task.row_begin * s.lda + k, s.lda, 1};
    } else {
      for (std::int64_t i = 0; i < depth; ++i) {
        copy_rows(a + (k + i) * s.lda + task.row_begin, own.copied + i * kCopiedRow, rows);
      }
      left = {own.copied, 1, kCopiedRow};
    }
    for (std::int64_t j = 0; j < columns; j += kPanel) {
      const std::int64_t count = min_of(kPanel, columns - j), column = task.column_begin + j;
      pack_panel(s, b, column, count, k, depth, own.panel);
      const OutMatrix<T> out{c + task.row_begin * s.ldc + column, s.ldc};
      if (accumulate || k > 0) {
        multiply_panel<T, true>(left, own.panel, depth, rows, count, out, own.edge);
      } else {
        multiply_panel<T, false>(left, own.panel, depth, rows, count, out, own.edge);
      }
    }
  }
}

template struct MatmulKernels<cpu::MOH_ISA, float>;
template struct MatmulKernels<cpu::MOH_ISA, double>;

}  // namespace moh
