#include "ops/linalg/gemm_pack_cpu.h"

// For each block of the depth (k): slivers of b in L1, or at least in L2, times tiles of the task's rows,
// which pass by from L2. What a task packs next is prefetched while its tiles multiply, since those leave the
// memory bus idle.

namespace moh {
namespace {

/// Wide slivers need no packed rows of a: those in place are read once for as many columns as a panel has.
constexpr bool kPacksRows = kTileVecs < 4;
/// Depth of a block in factors: a narrow sliver takes half of L1, a wide one stays in L2; smaller for a
/// transposed a, whose block is packed for all rows of a task. Constants, since the order of sums depends on
/// them.
constexpr std::int64_t kDepth = kPacksRows ? 256 : 512, kTransposedDepth = 256;

/// Rows of a task for which packing b would not pay.
constexpr std::int64_t kFewRows = std::int64_t{2} * kTileRows;

/// Whether rows of a can be read in place: elements that are factors, and pairs that no row splits.
template <class T>
bool has_factors_in_place(const GemmShape& s) {
  if (s.transpose_a || kPacksRows) return false;
  if constexpr (kStep<T> == 2) return s.k % 2 == 0 && s.lda % 2 == 0;
  return std::is_same_v<T, Factor<T>>;
}

template <class T, class C>
struct GemmScratch {
  using F = Factor<T>;
  using Sum = SumOf<F>;
  /// Whether sums are another matrix than c.
  static constexpr bool kRounds = !std::is_same_v<C, Sum>;

  F* panel;   // [depth, kGemmPanel]
  F* left;    // packed tiles of a
  Sum* edge;  // [kTileRows, kSliver]
  Sum* sums;  // [rows, sums_row], the task's part of c before it is transposed or rounded, or tile by tile
  std::int64_t sums_row;
  bool by_tiles;  // each tile is rounded as soon as it is summed, while it is in L1

  void lay_out(Arena& arena, const GemmShape& s, std::int64_t depth, std::int64_t rows, std::int64_t columns,
               bool packs) {
    const std::int64_t factors = factors_in<F>(depth);
    by_tiles = kRounds && !s.transpose_c && s.k <= depth;
    sums_row = by_tiles ? kSliver<F> : (columns + kGemmPanel - 1) / kGemmPanel * kGemmPanel;
    sums = arena.take<Sum>(s.transpose_c || kRounds ? (by_tiles ? kTileRows : rows) * sums_row : 0);
    panel = arena.take<F>(packs ? factors * kGemmPanel : 0);
    left = arena.take<F>(
        has_factors_in_place<T>(s) ? 0 : packed_tile<F>(factors) * round_up_to_tile(rows) / kTileRows);
    edge = arena.take<Sum>(kTileRows * kSliver<F>);
  }
};

/// One cache line of several rows with a row stride of `row` bytes.
struct LineOfRows {
  const std::byte* first = nullptr;
  std::ptrdiff_t row = 0;
};

/// The cache lines that tiles prefetch while they multiply: each tile one line of as many rows as its depth
/// has factors; of pairs, those of even rows, then those of odd ones.
template <class T>
class FetchPlan {
 public:
  /// Rows of `columns` elements, the first at `corner`.
  void add(const T* corner, std::ptrdiff_t row, std::int64_t columns) {
    parts_[count_++] = {reinterpret_cast<const std::byte*>(corner), row * std::ptrdiff_t{sizeof(T)},
                        (columns + kLine<T> - 1) / kLine<T> * kStep<T>, 0};
  }
  /// The lines that the next tile prefetches; none once all have been.
  LineOfRows take() {
    for (; part_ < count_; ++part_) {
      Part& part = parts_[part_];
      if (part.taken == part.lines) continue;
      const std::int64_t line = part.taken++;
      return {part.corner + line / kStep<T> * kCacheLine + line % kStep<T> * part.row, kStep<T> * part.row};
    }
    return {};
  }

 private:
  struct Part {
    const std::byte* corner;
    std::ptrdiff_t row;
    std::int64_t lines, taken;
  };
  Part parts_[2] = {};
  int count_ = 0, part_ = 0;
};

/// A left operand that prefetches a line with every k.
template <class Left, class F>
struct FetchingLeft {
  Left left;
  LineOfRows ahead;

  F at(int i) const { return left.at(i); }
  void next() {
    left.next();
    __builtin_prefetch(ahead.first, 0, 2);
    ahead.first += ahead.row;
  }
};

/// Columns of b for a register tile: packed, or in place; `row` is the distance of factors.
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

  /// The sliver at `column`, of at most `columns` columns; `depth` in factors, as below.
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
                                            OutMatrix<SumOf<F>> c, int vecs) {
  multiply_rows<F, kRows, kAccumulate, Left>(left, sliver.data, sliver.row, depth, c, vecs);
}

/// c[rows, vecs] (+)= left[rows, depth] sliver[depth, vecs] for a tile of kTileRows rows.
template <class F, bool kAccumulate, class Left>
void multiply_whole_tile(Left left, LineOfRows ahead, const Sliver<F>& sliver, std::int64_t depth,
                         OutMatrix<SumOf<F>> c, int vecs) {
  if (ahead.first) {
    multiply_sliver_rows<F, kTileRows, kAccumulate, FetchingLeft<Left, F>>({left, ahead}, sliver, depth, c,
                                                                           vecs);
  } else {
    multiply_sliver_rows<F, kTileRows, kAccumulate, Left>(left, sliver, depth, c, vecs);
  }
}

/// multiply_whole_tile() for up to kTileRows rows.
template <class F, bool kAccumulate>
void multiply_tile_of(const TaskRows<F>& a, LineOfRows ahead, const Sliver<F>& sliver, std::int64_t depth,
                      std::int64_t rows, OutMatrix<SumOf<F>> c, int vecs) {
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
                   std::int64_t columns, OutMatrix<SumOf<F>> c, SumOf<F>* edge) {
  using Sum = SumOf<F>;
  for (std::int64_t i = 0; kAccumulate && i < rows; ++i)
    gather_row<Sum>(c.at(static_cast<int>(i)), Sum(1), edge + i * kSliver<F>, columns);
  multiply_tile_of<F, kAccumulate>(a, {}, sliver, depth, rows, {edge, kSliver<F>},
                                   static_cast<int>(round_up_to_lanes<F>(columns) / kLanes<F>));
  for (std::int64_t i = 0; i < rows; ++i)
    store_row<Sum>(edge + i * kSliver<F>, Sum(1), c.at(static_cast<int>(i)), columns);
}

/// Where the sums of a sliver's tiles are: in a matrix, one tile below the other.
template <class Sum>
struct TilesInPlace {
  OutMatrix<Sum> c;

  TilesInPlace at_column(std::int64_t column) const { return {{c.data + column, c.row}}; }
  OutMatrix<Sum> begin(std::int64_t /*rows*/, std::int64_t /*columns*/) const { return c; }
  void end(std::int64_t /*rows*/, std::int64_t /*columns*/) { c.data += kTileRows * c.row; }
};
/// Each tile in `sums`, from where it is rounded to its place in c.
template <class C, std::int64_t kRow>
struct RoundedTiles {
  Acc<C>* sums;
  C* c;
  std::ptrdiff_t row;
  bool accumulate;

  RoundedTiles at_column(std::int64_t column) const { return {sums, c + column, row, accumulate}; }
  OutMatrix<Acc<C>> begin(std::int64_t rows, std::int64_t columns) const {
    for (std::int64_t i = 0; i < rows; ++i) {
      if (accumulate) gather_row<C>(c + i * row, Acc<C>(1), sums + i * kRow, columns);
      for (std::int64_t j = 0; j < columns; j += kLine<C>)
        __builtin_prefetch(c + i * row + j, /*for writing*/ 1);
    }
    return {sums, kRow};
  }
  void end(std::int64_t rows, std::int64_t columns) {
    for (std::int64_t i = 0; i < rows; ++i) store_row<C>(sums + i * kRow, Acc<C>(1), c + i * row, columns);
    c += kTileRows * row;
  }
};

/// The sums of `out` (+)= a[rows, depth] sliver[depth, columns] + bias, which is added while a tile's sums
/// are in L1.
template <class F, bool kAccumulate, class C, class Out, class Plan>
void multiply_sliver(TaskRows<F> a, const Sliver<F>& sliver, std::int64_t depth, std::int64_t rows,
                     std::int64_t columns, const PartBias<C>& bias, Out out, SumOf<F>* edge, Plan& plan) {
  const bool whole = columns % kLanes<F> == 0;
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    const std::int64_t count = min_of(kTileRows, rows - i);
    const OutMatrix<SumOf<F>> c = out.begin(count, columns);
    if (whole) {
      const LineOfRows ahead = count == kTileRows ? plan.take() : LineOfRows{};
      multiply_tile_of<F, kAccumulate>(a, ahead, sliver, depth, count, c,
                                       static_cast<int>(columns / kLanes<F>));
    } else {
      multiply_edge<F, kAccumulate>(a, sliver, depth, count, columns, c, edge);
    }
    add_bias(bias.at_row(i), count, columns, c);
    out.end(count, columns);
    a.data += a.tile;
  }
}

/// multiply_sliver() for a panel.
template <class F, class C, class Out, class Plan>
void multiply_panel(const TaskRows<F>& a, const Panel<F>& panel, std::int64_t depth, std::int64_t rows,
                    std::int64_t columns, bool accumulate, const PartBias<C>& bias, const Out& out,
                    SumOf<F>* edge, Plan plan) {
  for (std::int64_t column = 0; column < columns; column += kSliver<F>) {
    const std::int64_t count = min_of(kSliver<F>, columns - column);
    const Sliver<F> sliver = panel.sliver(column, columns - column, depth);
    const Out place = out.at_column(column);
    if (accumulate) {
      multiply_sliver<F, true>(a, sliver, depth, rows, count, bias.at_column(column), place, edge, plan);
    } else {
      multiply_sliver<F, false>(a, sliver, depth, rows, count, bias.at_column(column), place, edge, plan);
    }
  }
}

/// A panel of a task: elements [k, k + depth) of the columns that begin at `column`.
struct PanelPlace {
  std::int64_t k, depth, column;
};
/// The operands that the task packs after this panel (b only if the task packs it): rows that are far apart.
/// Hardware prefetchers handle operands that are packed along their rows.
template <class T>
FetchPlan<T> packed_next(const GemmShape& s, const T* a, const T* b, const GemmTask& task,
                         const PanelPlace& place, bool packs) {
  const bool last = place.column + kGemmPanel >= task.column_end;
  const std::int64_t k = last ? place.k + place.depth : place.k;
  const std::int64_t column = last ? task.column_begin : place.column + kGemmPanel;
  FetchPlan<T> plan;
  if (k >= task.k_end) return plan;
  if (packs && !s.transpose_b)
    plan.add(b + k * s.ldb + column, s.ldb, min_of(kGemmPanel, task.column_end - column));
  if (last && s.transpose_a) plan.add(a + k * s.lda + task.row_begin, s.lda, task.row_end - task.row_begin);
  return plan;
}

/// Elements [k, k + depth) of the task's rows, packed into `packed` or in place.
template <class T>
TaskRows<Factor<T>> rows_of_task(const GemmShape& s, const T* a, const GemmTask& task, std::int64_t k,
                                 std::int64_t depth, Factor<T>* packed) {
  using F = Factor<T>;
  const std::int64_t rows = task.row_end - task.row_begin;
  const bool pays = !kPacksRows || task.column_end - task.column_begin > kGemmPanel;
  if (s.transpose_a) {
    copy_tiles(s, a, task.row_begin, rows, k, depth, packed);
  } else if (has_factors_in_place<T>(s) || (std::is_same_v<T, F> && !pays)) {
    return {reinterpret_cast<const F*>(a + task.row_begin * s.lda + k), kTileRows * s.lda / kStep<T>,
            s.lda / kStep<T>};
  } else {
    pack_tiles(s, a, task.row_begin, rows, k, depth, packed);
  }
  return {packed, packed_tile<F>(factors_in<F>(depth)), 0};
}

/// A packed panel: elements from k on of the columns from `column` on.
template <class T>
Factor<T>* packed_panel(const PackedColumns& columns, std::int64_t column, std::int64_t k) {
  using F = Factor<T>;
  return reinterpret_cast<F*>(columns.packed) +
         (column - columns.column_begin) * factors_in<F>(columns.k_end - columns.k_begin) +
         factors_in<F>(k - columns.k_begin) * kGemmPanel;
}

/// MatmulKernels::multiply() in blocks of `most` elements of the depth.
template <class T, class C>
void multiply_task(const GemmShape& s, const T* a, const T* b, const GemmResult<C>& c, const GemmTask& task,
                   std::int64_t most, const PackedColumns* packed, std::byte* scratch) {
  using F = Factor<T>;
  using Sum = SumOf<F>;
  const std::int64_t rows = task.row_end - task.row_begin, columns = task.column_end - task.column_begin;
  const bool in_place = std::is_same_v<T, F> && !s.transpose_b && rows <= kFewRows;
  GemmScratch<T, C> own;
  Arena arena(scratch);
  own.lay_out(arena, s, most, rows, columns, packed == nullptr);
  const bool has_sums = (s.transpose_c || own.kRounds) && !own.by_tiles;
  // Sums go on where those of the depths before ended, transposed or not: the order of an element's sum is
  // one.
  if (has_sums && (c.accumulate || task.k_begin > 0)) load_sums(s, c.data, task, own.sums, own.sums_row);
  for (std::int64_t k = task.k_begin; k < task.k_end; k += most) {
    const std::int64_t depth = min_of(most, task.k_end - k);
    const TaskRows<F> left = rows_of_task(s, a, task, k, depth, own.left);
    for (std::int64_t column = task.column_begin; column < task.column_end; column += kGemmPanel) {
      const std::int64_t count = min_of(kGemmPanel, task.column_end - column);
      Panel<F> panel{own.panel, 0};
      if (packed) {
        panel.data = packed_panel<T>(*packed, column, k);
      } else if (in_place && count % kLanes<F> == 0) {
        panel = {reinterpret_cast<const F*>(b + k * s.ldb + column), s.ldb};
      } else {
        pack_panel(s, b, column, count, k, depth, own.panel);
      }
      const C* const bias = k + depth == s.k ? c.bias : nullptr;
      const auto run = [&](const auto& out) {
        multiply_panel(left, panel, factors_in<F>(depth), rows, count, /*accumulate=*/c.accumulate || k > 0,
                       PartBias<C>::of(s, bias, task.row_begin, column), out, own.edge,
                       packed_next(s, a, b, task, {k, depth, column}, packed == nullptr));
      };
      C* const place = c.data + task.row_begin * s.ldc + column;
      if (own.by_tiles) {
        if constexpr (own.kRounds) run(RoundedTiles<C, kSliver<F>>{own.sums, place, s.ldc, c.accumulate});
      } else if (has_sums) {
        run(TilesInPlace<Sum>{{own.sums + column - task.column_begin, own.sums_row}});
      } else {
        run(TilesInPlace<Sum>{{reinterpret_cast<Sum*>(place), s.ldc}});
      }
    }
  }
  if (has_sums) store_sums(s, own.sums, own.sums_row, task, c.data);
}

}  // namespace

template <class Backend, class T, class C>
std::int64_t MatmulKernels<Backend, T, C>::depth_of_block(const GemmShape& s) {
  const std::int64_t most = kStep<T> * (s.transpose_a ? kTransposedDepth : kDepth),
                     blocks = (s.k + most - 1) / most;
  return factors_in<Factor<T>>((s.k + blocks - 1) / blocks) * kStep<T>;
}

template <class Backend, class T, class C>
bool MatmulKernels<Backend, T, C>::packs_rows(const GemmShape& s) {
  return !has_factors_in_place<T>(s);
}

template <class Backend, class T, class C>
std::int64_t MatmulKernels<Backend, T, C>::packed_bytes(std::int64_t depth) {
  return factors_in<Factor<T>>(depth) * static_cast<std::int64_t>(sizeof(Factor<T>));
}

template <class Backend, class T, class C>
void MatmulKernels<Backend, T, C>::pack(const GemmShape& s, const T* b, const PackedColumns& to,
                                        std::int64_t column, std::int64_t k) {
  pack_panel(s, b, column, min_of(kGemmPanel, to.column_end - column), k,
             min_of(depth_of_block(s), to.k_end - k), packed_panel<T>(to, column, k));
}

template <class Backend, class T, class C>
std::size_t MatmulKernels<Backend, T, C>::scratch_bytes(const GemmShape& shape, std::int64_t rows,
                                                        std::int64_t columns, bool packs) {
  Arena arena(nullptr);
  GemmScratch<T, C>().lay_out(arena, shape, depth_of_block(shape), rows, columns, packs);
  return arena.used_bytes();
}

template <class Backend, class T, class C>
void MatmulKernels<Backend, T, C>::multiply(const GemmShape& s, const T* a, const T* b,
                                            const GemmResult<C>& c, const GemmTask& task,
                                            const PackedColumns* packed, std::byte* scratch) {
  multiply_task(s, a, b, c, task, depth_of_block(s), packed, scratch);
}

MOH_MATRIX_KERNELS(MatmulKernels)
template struct MatmulKernels<cpu::MOH_ISA, bfloat16, float>;

}  // namespace moh
