#include "ops/linalg/gemm_pack_cpu.h"

// For each block of the depth (k): slivers of b in L1, or at least in L2, times tiles of the task's rows,
// which pass by from L2. What a task packs next is prefetched while its tiles multiply, since those leave the
// memory bus idle.

namespace moh {
namespace {

/// Wide slivers need no packed rows of a: those in place are read once for as many columns as a panel has.
constexpr bool kPacksRows = kTileVecs < 4;
/// Depth of a block: a narrow sliver takes half of L1, a wide one stays in L2; smaller for a transposed a,
/// whose block is packed for all rows of a task. Constants, since the order of sums depends on them.
constexpr std::int64_t kDepth = kPacksRows ? 256 : 512, kTransposedDepth = 256;

/// Rows of a task for which packing b would not pay.
constexpr std::int64_t kFewRows = std::int64_t{2} * kTileRows;

template <class F>
struct GemmScratch {
  F* panel;   // [depth, kGemmPanel]
  F* left;    // packed tiles of a
  F* edge;    // [kTileRows, kSliver]
  F* turned;  // [rows, turned_row], the task's part of c before it is transposed
  std::int64_t turned_row;

  void lay_out(Arena& arena, const GemmShape& s, std::int64_t depth, std::int64_t rows, bool packs) {
    turned_row = (s.n + kGemmPanel - 1) / kGemmPanel * kGemmPanel;
    turned = arena.take<F>(s.transpose_c ? rows * turned_row : 0);
    panel = arena.take<F>(packs ? depth * kGemmPanel : 0);
    left = arena.take<F>(
        s.transpose_a || kPacksRows ? packed_tile<F>(depth) * round_up_to_tile(rows) / kTileRows : 0);
    edge = arena.take<F>(kTileRows * kSliver<F>);
  }
};

/// One cache line of several rows with a row stride of `row` elements.
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
template <class Left, class F>
struct FetchingLeft {
  Left left;
  LineOfRows<F> ahead;

  F at(int i) const { return left.at(i); }
  void next() {
    left.next();
    __builtin_prefetch(ahead.first, 0, 2);
    ahead.first += ahead.row;
  }
};

/// Columns of b for a register tile: packed, or in place; `row` is the distance of elements of k.
template <class F>
struct Sliver {
  const F* data;
  std::ptrdiff_t row;
};
/// The columns of a panel.
template <class F>
struct Panel {
  const F* data;
  std::ptrdiff_t row;  // 0: packed in slivers

  /// The sliver at `column`, of at most `columns` columns.
  Sliver<F> sliver(std::int64_t column, std::int64_t columns, std::int64_t depth) const {
    if (row != 0) return {data + column, row};
    return {data + column * depth, sliver_row<F>(columns)};
  }
};

/// The rows of a task: packed tiles, or rows in place; tiles are `tile` elements apart.
template <class F>
struct TaskRows {
  const F* data;
  std::ptrdiff_t tile;
  std::ptrdiff_t row;  // 0: packed
};

/// multiply_rows as a function of its own: inlined with the others of its kind, the compiler would keep the
/// strides of its loop on the stack.
template <class F, int kRows, bool kAccumulate, class Left>
[[gnu::noinline]] void multiply_sliver_rows(Left left, const Sliver<F>& sliver, std::int64_t depth,
                                            OutMatrix<F> c, int vecs) {
  multiply_rows<F, kRows, kAccumulate, Left>(left, sliver.data, sliver.row, depth, c, vecs);
}

/// c[rows, vecs] (+)= left[rows, depth] sliver[depth, vecs] for a tile of kTileRows rows.
template <class F, bool kAccumulate, class Left>
void multiply_whole_tile(Left left, LineOfRows<F> ahead, const Sliver<F>& sliver, std::int64_t depth,
                         OutMatrix<F> c, int vecs) {
  if (ahead.first) {
    multiply_sliver_rows<F, kTileRows, kAccumulate, FetchingLeft<Left, F>>({left, ahead}, sliver, depth, c,
                                                                           vecs);
  } else {
    multiply_sliver_rows<F, kTileRows, kAccumulate, Left>(left, sliver, depth, c, vecs);
  }
}

/// multiply_whole_tile() for up to kTileRows rows.
template <class F, bool kAccumulate>
void multiply_tile_of(const TaskRows<F>& a, LineOfRows<F> ahead, const Sliver<F>& sliver, std::int64_t depth,
                      std::int64_t rows, OutMatrix<F> c, int vecs) {
  if (rows == kTileRows && a.row == 0)
    return multiply_whole_tile<F, kAccumulate, PackedLeft<F>>({a.data}, ahead, sliver, depth, c, vecs);
  if (rows == kTileRows)
    return multiply_whole_tile<F, kAccumulate, LeftFactor<F>>({a.data, a.row, 1}, ahead, sliver, depth, c,
                                                              vecs);
  LeftFactor<F> left{a.data, a.row == 0 ? 1 : a.row, a.row == 0 ? kTileRows : 1};
  for (; rows >= 2; rows -= 2) {
    multiply_sliver_rows<F, 2, kAccumulate>(left, sliver, depth, c, vecs);
    left.data += 2 * left.row;
    c.data += 2 * c.row;
  }
  if (rows == 1) multiply_sliver_rows<F, 1, kAccumulate>(left, sliver, depth, c, vecs);
}

/// multiply_tile_of() for columns that end inside a vector, through scratch.
template <class F, bool kAccumulate>
void multiply_edge(const TaskRows<F>& a, const Sliver<F>& sliver, std::int64_t depth, std::int64_t rows,
                   std::int64_t columns, OutMatrix<F> c, F* edge) {
  for (std::int64_t i = 0; kAccumulate && i < rows; ++i)
    gather_row<F>(c.at(static_cast<int>(i)), F(1), edge + i * kSliver<F>, columns);
  multiply_tile_of<F, kAccumulate>(a, {}, sliver, depth, rows, {edge, kSliver<F>},
                                   static_cast<int>(round_up_to_lanes<F>(columns) / kLanes<F>));
  for (std::int64_t i = 0; i < rows; ++i)
    store_row<F>(edge + i * kSliver<F>, F(1), c.at(static_cast<int>(i)), columns);
}

/// c[rows, columns] (+)= a[rows, depth] sliver[depth, columns].
template <class F, bool kAccumulate>
void multiply_sliver(TaskRows<F> a, const Sliver<F>& sliver, std::int64_t depth, std::int64_t rows,
                     std::int64_t columns, OutMatrix<F> c, F* edge, FetchPlan<F>& plan) {
  const bool whole = columns % kLanes<F> == 0;
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    const std::int64_t count = min_of(kTileRows, rows - i);
    if (whole) {
      const LineOfRows<F> ahead = count == kTileRows ? plan.take() : LineOfRows<F>{};
      multiply_tile_of<F, kAccumulate>(a, ahead, sliver, depth, count, c,
                                       static_cast<int>(columns / kLanes<F>));
    } else {
      multiply_edge<F, kAccumulate>(a, sliver, depth, count, columns, c, edge);
    }
    a.data += a.tile;
    c.data += kTileRows * c.row;
  }
}

/// multiply_sliver() for a panel.
template <class F>
void multiply_panel(const TaskRows<F>& a, const Panel<F>& panel, std::int64_t depth, std::int64_t rows,
                    std::int64_t columns, bool accumulate, const OutMatrix<F>& c, F* edge,
                    FetchPlan<F> plan) {
  for (std::int64_t column = 0; column < columns; column += kSliver<F>) {
    const std::int64_t count = min_of(kSliver<F>, columns - column);
    const Sliver<F> sliver = panel.sliver(column, columns - column, depth);
    const OutMatrix<F> out{c.data + column, c.row};
    if (accumulate) {
      multiply_sliver<F, true>(a, sliver, depth, rows, count, out, edge, plan);
    } else {
      multiply_sliver<F, false>(a, sliver, depth, rows, count, out, edge, plan);
    }
  }
}

/// A panel of a task: elements [k, k + depth) of the columns that begin at `column`.
struct PanelPlace {
  std::int64_t k, depth, column;
};
/// The operands that the task packs after this panel (b only if the task packs it): rows that are far apart.
/// Hardware prefetchers handle operands that are packed along their rows.
template <class F>
FetchPlan<F> packed_next(const GemmShape& s, const F* a, const F* b, const GemmTask& task,
                         const PanelPlace& place, bool packs) {
  const bool last = place.column + kGemmPanel >= task.column_end;
  const std::int64_t k = last ? place.k + place.depth : place.k;
  const std::int64_t column = last ? task.column_begin : place.column + kGemmPanel;
  FetchPlan<F> plan;
  if (k >= task.k_end) return plan;
  if (packs && !s.transpose_b)
    plan.add(b + k * s.ldb + column, s.ldb, min_of(kGemmPanel, task.column_end - column));
  if (last && s.transpose_a) plan.add(a + k * s.lda + task.row_begin, s.lda, task.row_end - task.row_begin);
  return plan;
}

/// Elements [k, k + depth) of the task's rows, packed into `packed` or in place.
template <class F>
TaskRows<F> rows_of_task(const GemmShape& s, const F* a, const GemmTask& task, std::int64_t k,
                         std::int64_t depth, F* packed) {
  const std::int64_t rows = task.row_end - task.row_begin;
  if (s.transpose_a) {
    copy_tiles(s, a, task.row_begin, rows, k, depth, packed);
  } else if (kPacksRows && task.column_end - task.column_begin > kGemmPanel) {
    pack_tiles(s, a, task.row_begin, rows, k, depth, packed);
  } else {
    return {a + task.row_begin * s.lda + k, kTileRows * s.lda, s.lda};
  }
  return {packed, packed_tile<F>(depth), 0};
}

}  // namespace

template <class Backend, class T>
std::int64_t MatmulKernels<Backend, T>::depth_of_block(const GemmShape& s) {
  const std::int64_t most = s.transpose_a ? kTransposedDepth : kDepth, blocks = (s.k + most - 1) / most;
  return (s.k + blocks - 1) / blocks;
}

template <class Backend, class T>
bool MatmulKernels<Backend, T>::packs_rows() {
  return kPacksRows;
}

template <class Backend, class T>
void MatmulKernels<Backend, T>::pack(const GemmShape& s, const T* b, const PackedColumns<T>& to,
                                     std::int64_t column, std::int64_t k) {
  pack_panel(s, b, column, min_of(kGemmPanel, to.column_end - column), k,
             min_of(depth_of_block(s), to.k_end - k), to.panel(column) + (k - to.k_begin) * kGemmPanel);
}

template <class Backend, class T>
std::size_t MatmulKernels<Backend, T>::scratch_bytes(const GemmShape& shape, std::int64_t rows, bool packs) {
  Arena arena(nullptr);
  GemmScratch<T>().lay_out(arena, shape, depth_of_block(shape), rows, packs);
  return arena.used_bytes();
}

template <class Backend, class T>
void MatmulKernels<Backend, T>::multiply(const GemmShape& s, const T* a, const T* b, T* c, bool accumulate,
                                         const GemmTask& task, const PackedColumns<T>* packed,
                                         std::byte* scratch) {
  const std::int64_t rows = task.row_end - task.row_begin, most = depth_of_block(s);
  const bool in_place = !s.transpose_b && rows <= kFewRows;
  GemmScratch<T> own;
  Arena arena(scratch);
  own.lay_out(arena, s, most, rows, packed == nullptr);
  // Sums go on where those of the depths before ended, transposed or not: the order of an element's sum is
  // one.
  const std::int64_t columns = task.column_end - task.column_begin;
  T* const out_turned = s.transpose_c ? c + task.column_begin * s.ldc + task.row_begin : nullptr;
  if (s.transpose_c && (accumulate || task.k_begin > 0))
    load_transposed(out_turned, s.ldc, rows, columns, own.turned, own.turned_row);
  for (std::int64_t k = task.k_begin; k < task.k_end; k += most) {
    const std::int64_t depth = min_of(most, task.k_end - k);
    const TaskRows<T> left = rows_of_task(s, a, task, k, depth, own.left);
    for (std::int64_t column = task.column_begin; column < task.column_end; column += kGemmPanel) {
      const std::int64_t count = min_of(kGemmPanel, task.column_end - column);
      Panel<T> panel{own.panel, 0};
      if (packed) {
        panel.data = packed->panel(column) + (k - packed->k_begin) * kGemmPanel;
      } else if (in_place && count % kLanes<T> == 0) {
        panel = {b + k * s.ldb + column, s.ldb};
      } else {
        pack_panel(s, b, column, count, k, depth, own.panel);
      }
      const OutMatrix<T> out = s.transpose_c
                                   ? OutMatrix<T>{own.turned + (column - task.column_begin), own.turned_row}
                                   : OutMatrix<T>{c + task.row_begin * s.ldc + column, s.ldc};
      const FetchPlan<T> plan = packed_next(s, a, b, task, {k, depth, column}, packed == nullptr);
      multiply_panel(left, panel, depth, rows, count, /*accumulate=*/accumulate || k > 0, out, own.edge,
                     plan);
    }
  }
  if (s.transpose_c) store_transposed(own.turned, own.turned_row, rows, columns, out_turned, s.ldc);
}

template struct MatmulKernels<cpu::MOH_ISA, float>;
template struct MatmulKernels<cpu::MOH_ISA, double>;

}  // namespace moh
