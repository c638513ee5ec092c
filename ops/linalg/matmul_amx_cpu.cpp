#include "ops/cpu/amx/isa_tiles.h"
#include "ops/linalg/gemm_pack_cpu.h"

// The GEMM of bfloat16 in the tiles of AMX, or in their plain form. For each block of the depth (k): slivers
// of b in L1 times blocks of rows of the task, which pass by from L2. Elements of c are summed in steps of
// kTileSide pairs, in the order of k, so that their bits do not depend on the division into tasks.

namespace moh {
namespace {

/// Rows and columns of a block: of two tiles each way.
constexpr std::int64_t kBlock = 2 * kTileSide;
static_assert(kBlock == kGemmBlockOfAmx && kGemmPanel % kBlock == 0);
static_assert(kHasTiles != std::is_same_v<cpu::MOH_ISA, cpu::AmxPlain>, "Amx has instructions");
/// Depth of a block in pairs, with which a sliver takes two thirds of an L1 of 48 KiB. A constant, since the
/// order of sums depends on it.
constexpr std::int64_t kBlockDepth = 256;

/// Whether rows of a can be read in place: those whose pairs are.
bool has_pairs_in_place(const GemmShape& s) {
  return !s.transpose_a && s.k % 2 == 0;
}

/// Distance of packed rows of `pairs` pairs. Without the last term many would begin in the same L1 set.
std::int64_t packed_row(std::int64_t pairs) {
  return round_up_to_lanes<Bf16Pair>(pairs) + kTileSide;
}

template <class C>
struct AmxScratch {
  Bf16Pair* panel;  // slivers, [depth, kBlock] each
  Bf16Pair* left;   // packed rows of a
  float* sums;      // [rows, sums_row], the task's part of c before it is transposed or rounded
  std::int64_t sums_row;

  static bool has_sums(const GemmShape& s) { return s.transpose_c || !std::is_same_v<C, float>; }

  void lay_out(Arena& arena, const GemmShape& s, std::int64_t depth, std::int64_t rows, std::int64_t columns,
               bool packs) {
    const std::int64_t pairs = factors_in<Bf16Pair>(depth);
    // Columns that are rounded as soon as they are summed take turns in the place of a panel.
    const bool at_once = !s.transpose_c && s.k <= depth;
    sums_row = at_once ? kGemmPanel : (columns + kGemmPanel - 1) / kGemmPanel * kGemmPanel;
    sums = arena.take<float>(has_sums(s) ? rows * sums_row : 0);
    panel = arena.take<Bf16Pair>(packs ? pairs * kGemmPanel : 0);
    left = arena.take<Bf16Pair>(has_pairs_in_place(s) ? 0 : rows * packed_row(pairs));
  }
};

/// Packs columns [column, column + count) of op(b), elements [k, k + depth), into the slivers of a panel.
void pack_slivers(const GemmShape& s, const bfloat16* b, std::int64_t column, std::int64_t count,
                  std::int64_t k, std::int64_t depth, Bf16Pair* panel) {
  for (std::int64_t c = 0; c < count; c += kBlock) {
    const std::int64_t columns = min_of(kBlock, count - c);
    Bf16Pair* const sliver = panel + c * factors_in<Bf16Pair>(depth);
    if (s.transpose_b) {
      pack_transposed<bfloat16, Bf16Pair>(b + (column + c) * s.ldb + k, s.ldb, columns, depth, sliver,
                                          kBlock);
      continue;
    }
    const bfloat16* from = b + k * s.ldb + column + c;
    for (std::int64_t i = 0; i < depth; i += 2, from += 2 * s.ldb) {
      __builtin_prefetch(from + kAhead * s.ldb, 0, 2);
      __builtin_prefetch(from + (kAhead + 1) * s.ldb, 0, 2);
      gather_pairs(from, i + 1 < depth ? from + s.ldb : nullptr, sliver + i / 2 * kBlock, columns);
    }
  }
}

/// Packs elements [0, depth) of `rows` rows; of an odd depth, the last pairs have a zero.
void pack_rows(const bfloat16* from, std::int64_t from_row, std::int64_t rows, std::int64_t depth,
               Bf16Pair* to, std::int64_t to_row) {
  for (std::int64_t i = 0; i < rows; ++i) {
    auto* const row = reinterpret_cast<bfloat16*>(to + i * to_row);
    copy_rows(from + i * from_row, row, depth);
    if (depth % 2 != 0) row[depth] = bfloat16();
  }
}

/// pack_rows() from the transposed matrix, in which neighbours of a row are `from_row` apart.
void pack_columns(const bfloat16* from, std::int64_t from_row, std::int64_t rows, std::int64_t depth,
                  Bf16Pair* to, std::int64_t to_row) {
  constexpr std::int64_t kN = kLanes<Bf16Pair>;
  for (std::int64_t k = 0; k < depth; k += 2 * kN) {
    for (std::int64_t i = 0; i < rows; i += kN) {
      const std::int64_t count = min_of(kN, rows - i);
      Vec<Bf16Pair> square[kN];
      for (std::int64_t r = 0; r < kN; ++r) {
        const std::int64_t first = k + 2 * r;
        const bfloat16* const place = from + first * from_row + i;
        Bf16Pair pairs[kN] = {};
        if (first < depth) gather_pairs(place, first + 1 < depth ? place + from_row : nullptr, pairs, count);
        square[r] = load(pairs);
      }
      transpose_square<Bf16Pair>(square);
      for (std::int64_t r = 0; r < count; ++r) store(to + (i + r) * to_row + k / 2, square[r]);
    }
  }
}

/// Rows of a, packed or in place, `row` elements apart.
struct LeftRows {
  const bfloat16* data;
  std::int64_t row;
};

/// Elements [k, k + depth) of the task's rows, packed into `packed` or in place.
LeftRows rows_of_task(const GemmShape& s, const bfloat16* a, const GemmTask& task, std::int64_t k,
                      std::int64_t depth, Bf16Pair* packed) {
  const std::int64_t rows = task.row_end - task.row_begin, row = packed_row(factors_in<Bf16Pair>(depth));
  if (has_pairs_in_place(s)) return {a + task.row_begin * s.lda + k, s.lda};
  if (s.transpose_a) {
    pack_columns(a + k * s.lda + task.row_begin, s.lda, rows, depth, packed, row);
  } else {
    pack_rows(a + task.row_begin * s.lda + k, s.lda, rows, depth, packed, row);
  }
  return {reinterpret_cast<const bfloat16*>(packed), 2 * row};
}

/// Calls fn.template operator()<i, j>() for each tile of sums of a block of kDown x kAcross tiles.
template <int kDown, int kAcross, class Fn>
[[gnu::always_inline]] inline void for_each_sum(const Fn& fn) {
  fn.template operator()<0, 0>();
  if constexpr (kAcross == 2) fn.template operator()<0, 1>();
  if constexpr (kDown == 2) fn.template operator()<1, 0>();
  if constexpr (kDown == 2 && kAcross == 2) fn.template operator()<1, 1>();
}

/// c (+)= left right for a block of kDown x kAcross tiles, in `steps` steps along the depth.
template <int kDown, int kAcross>
void multiply_block(Tiles& tiles, const LeftRows& left, const Bf16Pair* right, std::int64_t steps,
                    bool accumulate, const OutMatrix<float>& c) {
  const auto left_bytes = left.row * std::ptrdiff_t{sizeof(bfloat16)},
             right_bytes = kBlock * std::ptrdiff_t{sizeof(Bf16Pair)},
             sum_bytes = c.row * std::ptrdiff_t{sizeof(float)};
  const auto place_of = [&](int i, int j) { return c.data + i * kTileSide * c.row + j * kTileSide; };
  for_each_sum<kDown, kAcross>([&]<int i, int j>() {
    if (accumulate) {
      tiles.template load<sum_tile(i, j)>(place_of(i, j), sum_bytes);
    } else {
      tiles.template zero<sum_tile(i, j)>();
    }
  });
  const bfloat16* a = left.data;
  for (std::int64_t step = 0; step < steps; ++step) {
    for_each_sum<kDown, kAcross>([&]<int i, int j>() {
      if constexpr (j == 0) tiles.template load<left_tile(i)>(a + i * kTileSide * left.row, left_bytes);
      if constexpr (i == 0) tiles.template load<right_tile(j)>(right + j * kTileSide, right_bytes);
      tiles.template multiply<i, j>();
    });
    a += 2 * kTileSide;
    right += kTileSide * kBlock;
  }
  for_each_sum<kDown, kAcross>(
      [&]<int i, int j>() { tiles.template store<sum_tile(i, j)>(place_of(i, j), sum_bytes); });
}

/// multiply_block() for any numbers of rows and columns of a block.
void multiply_any_block(Tiles& tiles, const LeftRows& left, const Bf16Pair* right, std::int64_t steps,
                        const BlockSize& size, bool accumulate, const OutMatrix<float>& c) {
  const bool two_down = size.rows > kTileSide, two_across = size.columns > kTileSide;
  if (two_down && two_across) return multiply_block<2, 2>(tiles, left, right, steps, accumulate, c);
  if (two_down) return multiply_block<2, 1>(tiles, left, right, steps, accumulate, c);
  if (two_across) return multiply_block<1, 2>(tiles, left, right, steps, accumulate, c);
  multiply_block<1, 1>(tiles, left, right, steps, accumulate, c);
}

/// Tiles in the shapes of the latest block: they are configured where these change, at edges.
struct ShapedTiles {
  Tiles tiles;
  BlockSize size = {};

  void shape(const BlockSize& wanted) {
    if (wanted == size) return;
    tiles.configure(wanted);
    size = wanted;
  }
};

/// c[rows, columns] (+)= left[rows, pairs] panel[pairs, columns]. Steps of whole tiles first, then, in tiles
/// of another shape, the pairs that are left.
void multiply_panel(ShapedTiles& shaped, const LeftRows& left, const Bf16Pair* panel, std::int64_t pairs,
                    std::int64_t rows, std::int64_t columns, bool accumulate, const OutMatrix<float>& c) {
  for (std::int64_t column = 0; column < columns; column += kBlock) {
    const Bf16Pair* const sliver = panel + column * pairs;
    for (std::int64_t k = 0; k < pairs;) {
      const std::int64_t in_step = min_of(kTileSide, pairs - k), steps = (pairs - k) / in_step;
      for (std::int64_t i = 0; i < rows; i += kBlock) {
        const BlockSize size{min_of(kBlock, rows - i), min_of(kBlock, columns - column), in_step};
        shaped.shape(size);
        multiply_any_block(shaped.tiles, {left.data + i * left.row + 2 * k, left.row}, sliver + k * kBlock,
                           steps, size, accumulate || k > 0, {c.data + i * c.row + column, c.row});
      }
      k += steps * in_step;
    }
  }
}

/// A packed panel: elements from k on of the columns from `column` on.
Bf16Pair* packed_panel(const PackedColumns& columns, std::int64_t column, std::int64_t k) {
  return reinterpret_cast<Bf16Pair*>(columns.packed) +
         (column - columns.column_begin) * factors_in<Bf16Pair>(columns.k_end - columns.k_begin) +
         factors_in<Bf16Pair>(k - columns.k_begin) * kGemmPanel;
}

}  // namespace

template <class Backend, class T, class C>
std::int64_t MatmulKernels<Backend, T, C>::depth_of_block(const GemmShape& s) {
  constexpr std::int64_t kMost = 2 * kBlockDepth, kStepElements = 2 * kTileSide;
  const std::int64_t blocks = (s.k + kMost - 1) / kMost, depth = (s.k + blocks - 1) / blocks;
  return (depth + kStepElements - 1) / kStepElements * kStepElements;
}

template <class Backend, class T, class C>
bool MatmulKernels<Backend, T, C>::packs_rows(const GemmShape& s) {
  return !has_pairs_in_place(s);
}

template <class Backend, class T, class C>
std::int64_t MatmulKernels<Backend, T, C>::packed_bytes(std::int64_t depth) {
  return factors_in<Bf16Pair>(depth) * static_cast<std::int64_t>(sizeof(Bf16Pair));
}

template <class Backend, class T, class C>
void MatmulKernels<Backend, T, C>::pack(const GemmShape& s, const T* b, const PackedColumns& to,
                                        std::int64_t column, std::int64_t k) {
  pack_slivers(s, b, column, min_of(kGemmPanel, to.column_end - column), k,
               min_of(depth_of_block(s), to.k_end - k), packed_panel(to, column, k));
}

template <class Backend, class T, class C>
std::size_t MatmulKernels<Backend, T, C>::scratch_bytes(const GemmShape& shape, std::int64_t rows,
                                                        std::int64_t columns, bool packs) {
  Arena arena(nullptr);
  AmxScratch<C>().lay_out(arena, shape, depth_of_block(shape), rows, columns, packs);
  return arena.used_bytes();
}

template <class Backend, class T, class C>
void MatmulKernels<Backend, T, C>::multiply(const GemmShape& s, const T* a, const T* b,
                                            const GemmResult<C>& c, const GemmTask& task,
                                            const PackedColumns* packed, std::byte* scratch) {
  const std::int64_t rows = task.row_end - task.row_begin, columns = task.column_end - task.column_begin,
                     most = depth_of_block(s);
  AmxScratch<C> own;
  Arena arena(scratch);
  own.lay_out(arena, s, most, rows, columns, packed == nullptr);
  const bool has_sums = own.has_sums(s), at_once = has_sums && own.sums_row < columns;
  if (has_sums && !at_once && (c.accumulate || task.k_begin > 0))
    load_sums(s, c.data, task, own.sums, own.sums_row);
  ShapedTiles shaped;
  for (std::int64_t k = task.k_begin; k < task.k_end; k += most) {
    const std::int64_t depth = min_of(most, task.k_end - k), pairs = factors_in<Bf16Pair>(depth);
    const LeftRows left = rows_of_task(s, a, task, k, depth, own.left);
    for (std::int64_t column = task.column_begin; column < task.column_end; column += kGemmPanel) {
      const std::int64_t count = min_of(kGemmPanel, task.column_end - column);
      const Bf16Pair* panel = own.panel;
      if (packed != nullptr) {
        panel = packed_panel(*packed, column, k);
      } else {
        pack_slivers(s, b, column, count, k, depth, own.panel);
      }
      const GemmTask part{task.row_begin, task.row_end, column, column + count, task.k_begin, task.k_end};
      if (at_once && c.accumulate) load_sums(s, c.data, part, own.sums, own.sums_row);
      const OutMatrix<float> out{has_sums
                                     ? own.sums + (at_once ? 0 : column - task.column_begin)
                                     : reinterpret_cast<float*>(c.data) + task.row_begin * s.ldc + column,
                                 has_sums ? own.sums_row : s.ldc};
      multiply_panel(shaped, left, panel, pairs, rows, count, c.accumulate || k > 0, out);
      if (k + depth == s.k) add_bias(PartBias<C>::of(s, c.bias, task.row_begin, column), rows, count, out);
      if (at_once) store_sums(s, own.sums, own.sums_row, part, c.data);
    }
  }
  if (has_sums && !at_once) store_sums(s, own.sums, own.sums_row, task, c.data);
}

template struct MatmulKernels<cpu::MOH_ISA, bfloat16, bfloat16>;
template struct MatmulKernels<cpu::MOH_ISA, bfloat16, float>;

}  // namespace moh
