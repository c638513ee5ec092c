#include "ops/cpu/pack.h"
#include "ops/cpu/tile.h"
#include "ops/linalg/matmul_kernels.h"

// For each block of the depth (k): b is read from packed panels of kGemmPanel columns, contiguous in k, which
// stay in L2 for all tiles of the task's rows; a is read in place, or, if transposed, from packed tiles:
// strides of 4 KiB would conflict in the same cache sets. What a task packs next is prefetched while its
// tiles multiply, since those leave the memory bus idle.

namespace moh {
namespace {

static_assert(kGemmTile == kTileRows);

/// Depth of a block; smaller for a transposed a, whose block is packed for all rows of a task.
constexpr std::int64_t kDepth = 512, kTransposedDepth = 256;
/// Prefetch distance in rows while packing: hardware prefetchers do not detect strides of a row.
constexpr std::int64_t kAhead = 16;
/// Elements of a cache line.
template <class F>
constexpr std::int64_t kLine = 64 / static_cast<std::int64_t>(sizeof(F));

inline std::int64_t min_of(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

/// Blocks have equal depths, except for the last.
std::int64_t depth_of_block(const GemmShape& s) {
  const std::int64_t most = s.transpose_a ? kTransposedDepth : kDepth, blocks = (s.k + most - 1) / most;
  return (s.k + blocks - 1) / blocks;
}

/// Distance of packed tiles in elements. Without the last term many would begin in the same L1 set.
template <class F>
std::int64_t copied_tile(std::int64_t depth) {
  return depth * kTileRows + kLine<F>;
}

template <class F>
struct GemmScratch {
  F* panel;   // [depth, kGemmPanel]
  F* copied;  // tiles [depth, kTileRows] of a, when it is transposed
  F* edge;    // [kTileRows, kGemmPanel]
  F* turned;  // [rows, turned_row], the task's part of c before it is transposed
  std::int64_t turned_row;

  void lay_out(Arena& arena, const GemmShape& s, std::int64_t rows, bool packs) {
    const std::int64_t depth = depth_of_block(s);
    turned_row = (s.n + kGemmPanel - 1) / kGemmPanel * kGemmPanel;
    turned = arena.take<F>(s.transpose_c ? rows * turned_row : 0);
    panel = arena.take<F>(packs ? depth * kGemmPanel : 0);
    copied = arena.take<F>(s.transpose_a ? copied_tile<F>(depth) * round_up_to_tile(rows) / kTileRows : 0);
    edge = arena.take<F>(kTileRows * kGemmPanel);
  }
};

/// Packs columns [column, column + count) of op(b), elements [k, k + depth), into a panel [depth,
/// kGemmPanel], of which only the vectors that contain the columns are written.
template <class F>
void pack_panel(const GemmShape& s, const F* b, std::int64_t column, std::int64_t count, std::int64_t k,
                std::int64_t depth, F* panel) {
  if (s.transpose_b) {
    return pack_transposed<F>(b + column * s.ldb + k, s.ldb, count, depth, panel, kGemmPanel);
  }
  for (std::int64_t i = 0; i < depth; ++i) {
    const F* from = b + (k + i) * s.ldb + column;
    for (std::int64_t c = 0; c < count; c += kLine<F>) __builtin_prefetch(from + kAhead * s.ldb + c, 0, 2);
    gather_row<F>(from, F(1), panel + i * kGemmPanel, count);
  }
}

/// Packs elements [k, k + depth) of rows [row, row + rows) of the transposed a. A row of a tile is copied as
/// kCopied elements if the matrix has them, in one instruction or two: the next row of the tile then
/// overwrites the last of them, or they end after the tile.
template <class F>
void copy_tiles(const GemmShape& s, const F* a, std::int64_t row, std::int64_t rows, std::int64_t k,
                std::int64_t depth, F* copied) {
  constexpr std::int64_t kCopied = 8;
  static_assert(kCopied >= kTileRows && kCopied - kTileRows <= kLine<F>);
  const std::int64_t distance = copied_tile<F>(depth), stride = s.lda;
  const F* from = a + k * stride + row;
  for (std::int64_t i = 0; i < depth; ++i, from += stride, copied += kTileRows) {
    F* to = copied;
    std::int64_t r = 0;
    for (; r + kCopied <= rows; r += kTileRows, to += distance) {
      __builtin_prefetch(from + kAhead * stride + r);
      copy_rows(from + r, to, kCopied);
    }
    for (; r < rows; r += kTileRows, to += distance) copy_rows(from + r, to, min_of(kTileRows, rows - r));
  }
}

/// The same cache line of several rows with a row stride of `row` elements.
template <class F>
struct LineOfRows {
  const F* first = nullptr;
  std::ptrdiff_t row = 0;
};

/// The cache lines that tiles prefetch while they multiply: each tile one line of as many rows as its depth.
template <class F>
class FetchPlan {
 public:
  /// Rows of `columns` elements, the first at `corner`.
  void add(const F* corner, std::ptrdiff_t row, std::int64_t columns) {
    parts_[count_++] = {{corner, row}, (columns + kLine<F> - 1) / kLine<F>};
  }
  /// The lines that the next tile prefetches; none once all have been.
  LineOfRows<F> take() {
    for (; part_ < count_; ++part_) {
      Part& part = parts_[part_];
      if (part.lines == 0) continue;
      const LineOfRows<F> taken = part.next;
      part.next.first += kLine<F>;
      --part.lines;
      return taken;
    }
    return {};
  }

 private:
  struct Part {
    LineOfRows<F> next;
    std::int64_t lines;
  };
  Part parts_[2] = {};
  int count_ = 0, part_ = 0;
};

/// A left operand that prefetches a line with every k.
template <class F>
struct FetchingLeft {
  LeftFactor<F> left;
  LineOfRows<F> ahead;

  F at(int i) const { return left.at(i); }
  void next() {
    left.next();
    __builtin_prefetch(ahead.first, 0, 2);
    ahead.first += ahead.row;
  }
};

/// c[rows, vecs] (+)= left[rows, depth] panel[depth, vecs] for up to kTileRows rows.
template <class F, bool kAccumulate>
void multiply_row_tile(LeftFactor<F> left, const F* panel, std::int64_t depth, std::int64_t rows,
                       OutMatrix<F> c, int vecs) {
  if (rows == kTileRows) {
    return multiply_rows<F, kTileRows, kAccumulate>(left, panel, kGemmPanel, depth, c, vecs);
  }
  for (; rows >= 2; rows -= 2) {
    multiply_rows<F, 2, kAccumulate>(left, panel, kGemmPanel, depth, c, vecs);
    left.data += 2 * left.row;
    c.data += 2 * c.row;
  }
  if (rows == 1) multiply_rows<F, 1, kAccumulate>(left, panel, kGemmPanel, depth, c, vecs);
}

/// The same for columns that end inside a vector, through scratch.
template <class F, bool kAccumulate>
void multiply_edge(LeftFactor<F> left, const F* panel, std::int64_t depth, std::int64_t rows,
                   std::int64_t columns, OutMatrix<F> c, F* edge) {
  for (std::int64_t i = 0; kAccumulate && i < rows; ++i)
    gather_row<F>(c.at(static_cast<int>(i)), F(1), edge + i * kGemmPanel, columns);
  multiply_row_tile<F, kAccumulate>(left, panel, depth, rows, {edge, kGemmPanel},
                                    static_cast<int>(round_up_to_lanes<F>(columns) / kLanes<F>));
  for (std::int64_t i = 0; i < rows; ++i)
    store_row<F>(edge + i * kGemmPanel, F(1), c.at(static_cast<int>(i)), columns);
}

/// c[rows, columns] (+)= left[rows, depth] panel[depth, columns]; tiles of the left are left_tile apart.
template <class F, bool kAccumulate>
void multiply_panel(LeftFactor<F> left, std::ptrdiff_t left_tile, const F* panel, std::int64_t depth,
                    std::int64_t rows, std::int64_t columns, OutMatrix<F> c, F* edge, FetchPlan<F> plan) {
  const int vecs = static_cast<int>(columns / kLanes<F>);
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    const std::int64_t count = min_of(kTileRows, rows - i);
    const bool whole = columns % kLanes<F> == 0;
    const LineOfRows<F> ahead = whole && count == kTileRows ? plan.take() : LineOfRows<F>{};
    if (ahead.first) {
      multiply_rows<F, kTileRows, kAccumulate, FetchingLeft<F>>({left, ahead}, panel, kGemmPanel, depth, c,
                                                                vecs);
    } else if (whole) {
      multiply_row_tile<F, kAccumulate>(left, panel, depth, count, c, vecs);
    } else {
      multiply_edge<F, kAccumulate>(left, panel, depth, count, columns, c, edge);
    }
    left.data += left_tile;
    c.data += kTileRows * c.row;
  }
}

/// A panel of a task: elements [k, k + depth) of the columns that begin at `column`.
struct PanelPlace {
  std::int64_t k, depth, column;
};
/// What the task packs after this panel (b only if the task packs it): rows that are far apart. A transposed
/// b is read along its rows, which hardware prefetchers handle.
template <class F>
FetchPlan<F> copied_next(const GemmShape& s, const F* a, const F* b, const GemmTask& task,
                         const PanelPlace& place, bool packs) {
  const bool last = place.column + kGemmPanel >= task.column_end;
  const std::int64_t k = last ? place.k + place.depth : place.k;
  const std::int64_t column = last ? task.column_begin : place.column + kGemmPanel;
  FetchPlan<F> plan;
  if (k >= s.k) return plan;
  if (packs && !s.transpose_b)
    plan.add(b + k * s.ldb + column, s.ldb, min_of(kGemmPanel, task.column_end - column));
  if (last && s.transpose_a) plan.add(a + k * s.lda + task.row_begin, s.lda, task.row_end - task.row_begin);
  return plan;
}

/// to[j, i] (+)= from[i, j] for i < rows and j < columns; rows of `from` end in whole vectors.
template <class F>
void store_transposed(const F* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns,
                      bool accumulate, F* to, std::int64_t to_row) {
  constexpr int kN = kLanes<F>;
  for (std::int64_t i = 0; i < rows; i += kN) {
    const std::int64_t count = min_of(kN, rows - i);
    for (std::int64_t j = 0; j < columns; j += kN) {
      Vec<F> square[kN];
      for (int r = 0; r < kN; ++r) square[r] = r < count ? load(from + (i + r) * from_row + j) : Vec<F>{};
      transpose_square<F>(square);
      for (int r = 0; r < kN && j + r < columns; ++r) {
        F* const place = to + (j + r) * to_row + i;
        if (count == kN) {
          store(place, accumulate ? load(place) + square[r] : square[r]);
        } else {
          store_first<F>(place, accumulate ? load_first<F>(place, count) + square[r] : square[r], count);
        }
      }
    }
  }
}

}  // namespace

template <class Backend, class T>
std::int64_t MatmulKernels<Backend, T>::depth_blocks(const GemmShape& s) {
  const std::int64_t depth = depth_of_block(s);
  return (s.k + depth - 1) / depth;
}

template <class Backend, class T>
void MatmulKernels<Backend, T>::pack(const GemmShape& s, const T* b, const PackedColumns<T>& to,
                                     std::int64_t panel, std::int64_t block) {
  const std::int64_t depth = depth_of_block(s), k = block * depth;
  const std::int64_t column = to.column_begin + panel * kGemmPanel;
  pack_panel(s, b, column, min_of(kGemmPanel, to.column_end - column), k, min_of(depth, s.k - k),
             to.packed + panel * panel_size(s) + k * kGemmPanel);
}

template <class Backend, class T>
std::size_t MatmulKernels<Backend, T>::scratch_bytes(const GemmShape& shape, std::int64_t rows, bool packs) {
  Arena arena(nullptr);
  GemmScratch<T>().lay_out(arena, shape, rows, packs);
  return arena.used_bytes();
}

template <class Backend, class T>
void MatmulKernels<Backend, T>::multiply(const GemmShape& s, const T* a, const T* b, T* c, bool accumulate,
                                         const GemmTask& task, const PackedColumns<T>* packed,
                                         std::byte* scratch) {
  const std::int64_t rows = task.row_end - task.row_begin, most = depth_of_block(s);
  GemmScratch<T> own;
  Arena arena(scratch);
  own.lay_out(arena, s, rows, packed == nullptr);
  for (std::int64_t k = 0; k < s.k; k += most) {
    const std::int64_t depth = min_of(most, s.k - k);
    LeftFactor<T> left{a + task.row_begin * s.lda + k, s.lda, 1};
    if (s.transpose_a) {
      copy_tiles(s, a, task.row_begin, rows, k, depth, own.copied);
      left = {own.copied, 1, kTileRows};
    }
    const std::ptrdiff_t left_tile = s.transpose_a ? copied_tile<T>(depth) : kTileRows * s.lda;
    for (std::int64_t column = task.column_begin; column < task.column_end; column += kGemmPanel) {
      const std::int64_t count = min_of(kGemmPanel, task.column_end - column);
      const T* panel = own.panel;
      if (packed) {
        panel = packed->packed + (column - packed->column_begin) * s.k + k * kGemmPanel;
      } else {
        pack_panel(s, b, column, count, k, depth, own.panel);
      }
      const OutMatrix<T> out = s.transpose_c
                                   ? OutMatrix<T>{own.turned + (column - task.column_begin), own.turned_row}
                                   : OutMatrix<T>{c + task.row_begin * s.ldc + column, s.ldc};
      const FetchPlan<T> plan = copied_next(s, a, b, task, {k, depth, column}, packed == nullptr);
      if (k > 0 || (accumulate && !s.transpose_c)) {
        multiply_panel<T, true>(left, left_tile, panel, depth, rows, count, out, own.edge, plan);
      } else {
        multiply_panel<T, false>(left, left_tile, panel, depth, rows, count, out, own.edge, plan);
      }
    }
  }
  if (!s.transpose_c) return;
  store_transposed(own.turned, own.turned_row, rows, task.column_end - task.column_begin, accumulate,
                   c + task.column_begin * s.ldc + task.row_begin, s.ldc);
}

template struct MatmulKernels<cpu::MOH_ISA, float>;
template struct MatmulKernels<cpu::MOH_ISA, double>;

}  // namespace moh
