#include "ops/cpu/pack.h"
#include "ops/cpu/tile.h"
#include "ops/moh/head_projection_kernels.h"

// Matrix multiplications over gathered rows. A library call would need the rows gathered in memory first,
// which costs more than skipping a quarter of the heads saves; here the register tile reads each row in
// place. Weights are packed, a block at a time, so that the right operand is contiguous: rows with a stride
// of a power of two would conflict in the same L1 sets.

namespace moh {
namespace {

constexpr std::int64_t kDepthBlock = 256;  // of the token vectors: 64 KiB of weights for heads of 64
// Rows of gathered columns: not a power of two, see above.
constexpr std::int64_t kColumnsRow = kProjectionColumns + 16;
// Rows gathered at a time: with the tile of sums little more than L1.
constexpr std::int64_t kGradientRows = 64;

inline std::int64_t min_of(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
/// Numbers (b * T + t) of the tokens in rows [begin, end) of a head.
void list_tokens(const HeadProjection& p, std::int64_t head, std::int64_t begin, std::int64_t end,
                 std::int64_t* tokens) {
  std::int64_t first = 0;  // number of the list's first row
  for (std::int64_t b = 0; b < p.batch && first < end; ++b) {
    const std::int64_t list = b * p.heads + head, offset = p.offsets[list];
    const std::int64_t rows = p.offsets[list + 1] - offset;
    const std::int64_t low = begin > first ? begin - first : 0, high = min_of(end - first, rows);
    for (std::int64_t r = low; r < high; ++r) *tokens++ = b * p.tokens + p.rows[offset + r];
    first += rows;
  }
}

/// Weights [first, first + count) of the token vectors' elements: a block of factors along these,
/// [count, padded d].
template <class T>
void pack_block(const HeadProjection& p, HeadWeights<const T> w, std::int64_t head, std::int64_t first,
                std::int64_t count, Factor<T>* block) {
  const std::int64_t d = p.head_dim, padded = round_up_to_lanes<Factor<T>>(d);
  if (!w.by_column) {
    return pack_transposed<T>(w.data + head * d * p.width + first, p.width, d, count, block, padded);
  }
  const T* const column = w.data + first * p.heads * d + head * d;
  pack_right_rows<T>([&](std::int64_t i) { return column + i * p.heads * d; }, count, d, block, padded);
}

/// The rows of a tile as a left operand of `count` elements: in place, or as factors in `wide`.
template <class T>
GatheredLeft<Factor<T>> left_rows(const T* const* rows, std::int64_t count, Factor<T>* wide) {
  using P = Factor<T>;
  GatheredLeft<P> left;
  const bool in_place = std::is_same_v<T, P> || (kTerms<P> == 2 && count % 2 == 0);
  for (int i = 0; i < kTileRows; ++i) {
    if (in_place) {
      left.rows[i] = reinterpret_cast<const P*>(rows[i]);
    } else {
      gather_factors<T>(rows[i], Acc<T>(1), wide + i * row_factors<T>(count), count);
      left.rows[i] = wide + i * row_factors<T>(count);
    }
  }
  return left;
}

template <class T>
struct ToHeadsScratch {
  using F = Acc<T>;

  std::int64_t* tokens;  // numbers of the task's tokens, [kProjectionRows rounded up to whole tiles]
  Factor<T>*block, *wide;
  F *out, *bias;

  void lay_out(Arena& arena, std::int64_t head_dim) {
    const std::int64_t padded = round_up_to_lanes<F>(head_dim), rows = round_up_to_tile(kProjectionRows);
    tokens = arena.take<std::int64_t>(rows);
    block = arena.take<Factor<T>>(factors_in<Factor<T>>(kDepthBlock) * padded);
    wide = arena.take<Factor<T>>(kTileRows * row_factors<T>(kDepthBlock));
    out = arena.take<F>(rows * padded);
    bias = arena.take<F>(padded);
  }
};

/// out (+)= the task's token vectors, elements [first, first + depth), times the packed weights.
template <class T, bool kAccumulate>
void add_depth_block(const HeadProjection& p, const T* tokens, std::int64_t first, std::int64_t depth,
                     std::int64_t rows, const ToHeadsScratch<T>& s) {
  using P = Factor<T>;
  const std::int64_t padded = round_up_to_lanes<P>(p.head_dim);
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    const T* row[kTileRows];
    for (int r = 0; r < kTileRows; ++r) row[r] = tokens + s.tokens[i + r] * p.width + first;
    multiply_rows<P, kTileRows, kAccumulate, GatheredLeft<P>>(
        left_rows(row, depth, s.wide), s.block, padded, factors_in<P>(depth), {s.out + i * padded, padded},
        static_cast<int>(padded / kLanes<P>));
  }
}

/// Stores the task's rows and the zeros between them.
template <class T>
void store_heads(const HeadProjection& p, const HeadTask& task, bool add_bias, const ToHeadsScratch<T>& s,
                 std::int64_t next, T* heads) {
  using F = Acc<T>;
  const std::int64_t d = p.head_dim, padded = round_up_to_lanes<F>(d), rows = task.end - task.begin;
  T* head = heads + task.head * d;
  const auto zero_up_to = [&](std::int64_t token) {
    for (; next < token; ++next) {
      __builtin_memset(static_cast<void*>(head + next * p.head_row), 0,
                       static_cast<std::size_t>(d) * sizeof(T));
    }
    ++next;
  };
  for (std::int64_t i = 0; i < rows; ++i) {
    zero_up_to(s.tokens[i]);
    if (add_bias) add_row(s.bias, s.out + i * padded, padded);
    store_row<T>(s.out + i * padded, F(1), head + s.tokens[i] * p.head_row, d);
  }
  if (task.end == task.rows) zero_up_to(p.batch * p.tokens);
}

template <class T>
struct FromHeadsScratch {
  using F = Acc<T>;

  F *sums, *unused;  // sums [kProjectionTokens, kProjectionPanel]
  Factor<T>* wide;
  std::int64_t *first, *last;  // per head, the rows of its list in the block of tokens

  void lay_out(Arena& arena, std::int64_t heads, std::int64_t head_dim) {
    sums = arena.take<F>(kProjectionTokens * kProjectionPanel);
    unused = arena.take<F>(kTileRows * kProjectionPanel);
    wide = arena.take<Factor<T>>(kTileRows * row_factors<T>(head_dim));
    first = arena.take<std::int64_t>(heads);
    last = arena.take<std::int64_t>(heads);
  }
};

/// The first row from `low` on whose position is `position` or more.
std::int64_t lower_bound(const std::int32_t* rows, std::int64_t low, std::int64_t high,
                         std::int64_t position) {
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (rows[middle] < position) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Adds one head's contribution to the sums of a block of tokens.
template <class T>
void add_head(const HeadProjection& p, const TokenTask& task, std::int64_t head, const Factor<T>* panel,
              const T* heads, const FromHeadsScratch<T>& s) {
  using F = Acc<T>;
  using P = Factor<T>;
  constexpr int kVecs = static_cast<int>(kProjectionPanel / kLanes<P>);
  const T* source = heads + task.batch * p.tokens * p.head_row + head * p.head_dim;
  for (std::int64_t i = s.first[head]; i < s.last[head]; i += kTileRows) {
    const T* row[kTileRows];
    ScatteredOut<F> out;
    for (int r = 0; r < kTileRows; ++r) {
      const bool real = i + r < s.last[head];
      const std::int64_t token = p.rows[real ? i + r : i];
      row[r] = source + token * p.head_row;
      out.rows[r] = real ? s.sums + (token - task.begin) * kProjectionPanel : s.unused + r * kProjectionPanel;
    }
    multiply_rows<P, kTileRows, true, GatheredLeft<P>, ScatteredOut<F>>(
        left_rows(row, p.head_dim, s.wide), panel, kProjectionPanel, factors_in<P>(p.head_dim), out, kVecs);
  }
}

/// Stores the sums of a panel, plus bias or previous values, in the tokens.
template <class T>
void store_tokens(const HeadProjection& p, const TokenTask& task, std::int64_t first, const T* bias,
                  bool accumulate, const FromHeadsScratch<T>& s, T* tokens) {
  using F = Acc<T>;
  const std::int64_t count = min_of(kProjectionPanel, p.width - first);
  for (std::int64_t t = task.begin; t < task.end; ++t) {
    F* sum = s.sums + (t - task.begin) * kProjectionPanel;
    T* token = tokens + (task.batch * p.tokens + t) * p.width + first;
    for (const T* more :
         {accumulate ? static_cast<const T*>(token) : nullptr, bias ? bias + first : nullptr}) {
      if (!more) continue;
      gather_row<T>(more, F(1), s.unused, count);
      add_row(s.unused, sum, round_up_to_lanes<F>(count));
    }
    store_row<T>(sum, F(1), token, count);
  }
}

template <class T>
struct GradientScratch {
  using F = Acc<T>;

  std::int64_t* tokens;
  // Gathered rows as factors along them: [kGradientRows, padded d], [kGradientRows, kColumnsRow].
  Factor<T>*heads, *columns;
  F *sums, *turned;  // [kProjectionColumns rounded up to whole tiles, padded d], and its transpose
  F* bias;

  void lay_out(Arena& arena, std::int64_t head_dim) {
    const std::int64_t padded = round_up_to_lanes<F>(head_dim);
    tokens = arena.take<std::int64_t>(kGradientRows);
    heads = arena.take<Factor<T>>(factors_in<Factor<T>>(kGradientRows) * padded);
    columns = arena.take<Factor<T>>(factors_in<Factor<T>>(kGradientRows) * kColumnsRow);
    sums = arena.take<F>(round_up_to_tile(kProjectionColumns) * padded);
    turned = arena.take<F>(head_dim * kProjectionColumns);
    bias = arena.take<F>(padded);
  }
};

/// to += a row of a tensor, in scratch.
template <class T>
[[gnu::always_inline]] inline void add_upcast(const T* from, std::int64_t count, Acc<T>* to) {
  constexpr int kN = kLanes<Acc<T>>;
  std::int64_t c = 0;
  for (; c + kN <= count; c += kN) store(to + c, load(to + c) + load_as<T>(from + c));
  if (c < count) store(to + c, load(to + c) + load_first<T>(from + c, count - c));
}

/// Stores the sums, [columns, d], in the layout of the weights.
template <class T>
void store_gradient(const HeadProjection& p, const ColumnTask& task, const GradientScratch<T>& s,
                    HeadWeights<Acc<T>> dw) {
  using F = Acc<T>;
  const std::int64_t d = p.head_dim, padded = round_up_to_lanes<F>(d), count = task.end - task.begin;
  if (dw.by_column) {
    for (std::int64_t n = 0; n < count; ++n) {
      copy_rows(s.sums + n * padded, dw.data + (task.begin + n) * p.heads * d + task.head * d, d);
    }
    return;
  }
  pack_transposed<F>(s.sums, padded, count, d, s.turned, kProjectionColumns);
  for (std::int64_t j = 0; j < d; ++j) {
    copy_rows(s.turned + j * kProjectionColumns, dw.data + (task.head * d + j) * p.width + task.begin, count);
  }
}

}  // namespace

template <class Backend, class T>
std::size_t HeadProjectionKernels<Backend, T>::to_heads_scratch_bytes(const HeadProjection& p) {
  Arena arena(nullptr);
  ToHeadsScratch<T>().lay_out(arena, p.head_dim);
  return arena.used_bytes();
}

template <class Backend, class T>
void HeadProjectionKernels<Backend, T>::to_heads(const HeadProjection& p, HeadWeights<const T> w,
                                                 const T* bias, const T* tokens, T* heads,
                                                 const HeadTask& task, std::byte* scratch) {
  ToHeadsScratch<T> s;
  Arena arena(scratch);
  s.lay_out(arena, p.head_dim);
  const std::int64_t rows = task.end - task.begin;
  list_tokens(p, task.head, task.begin, task.end, s.tokens);
  for (std::int64_t i = rows; i < round_up_to_tile(rows); ++i) s.tokens[i] = s.tokens[rows - 1];
  for (std::int64_t first = 0; first < p.width; first += kDepthBlock) {
    const std::int64_t depth = min_of(kDepthBlock, p.width - first);
    pack_block<T>(p, w, task.head, first, depth, s.block);
    if (first == 0) {
      add_depth_block<T, false>(p, tokens, first, depth, rows, s);
    } else {
      add_depth_block<T, true>(p, tokens, first, depth, rows, s);
    }
  }
  if (bias) gather_row<T>(bias + task.head * p.head_dim, F(1), s.bias, p.head_dim);
  std::int64_t before = -1;
  if (task.begin > 0) list_tokens(p, task.head, task.begin - 1, task.begin, &before);
  store_heads(p, task, bias != nullptr, s, before + 1, heads);
}

template <class Backend, class T>
void HeadProjectionKernels<Backend, T>::pack_panel(const HeadProjection& p, HeadWeights<const T> w,
                                                   std::int64_t head, std::int64_t first, std::byte* to) {
  const std::int64_t d = p.head_dim, count = min_of(kProjectionPanel, p.width - first);
  auto* const panel = reinterpret_cast<Factor<T>*>(to);
  if (w.by_column) {
    const std::int64_t row = p.heads * d;
    return pack_transposed<T>(w.data + first * row + head * d, row, count, d, panel, kProjectionPanel);
  }
  set_zero(panel, factors_in<Factor<T>>(d) * kProjectionPanel);
  const T* const row = w.data + head * d * p.width + first;
  pack_right_rows<T>([&](std::int64_t j) { return row + j * p.width; }, d, count, panel, kProjectionPanel);
}

template <class Backend, class T>
std::size_t HeadProjectionKernels<Backend, T>::panel_bytes(std::int64_t head_dim) {
  return static_cast<std::size_t>(factors_in<Factor<T>>(head_dim) * kProjectionPanel) * sizeof(Factor<T>);
}

template <class Backend, class T>
std::size_t HeadProjectionKernels<Backend, T>::from_heads_scratch_bytes(const HeadProjection& p) {
  Arena arena(nullptr);
  FromHeadsScratch<T>().lay_out(arena, p.heads, p.head_dim);
  return arena.used_bytes();
}

template <class Backend, class T>
void HeadProjectionKernels<Backend, T>::from_heads(const HeadProjection& p, const std::byte* panels,
                                                   const T* bias, const T* heads, bool accumulate, T* tokens,
                                                   const TokenTask& task, std::byte* scratch) {
  FromHeadsScratch<T> s;
  Arena arena(scratch);
  s.lay_out(arena, p.heads, p.head_dim);
  for (std::int64_t h = 0; h < p.heads; ++h) {
    const std::int64_t list = task.batch * p.heads + h, end = p.offsets[list + 1];
    s.first[h] = lower_bound(p.rows, p.offsets[list], end, task.begin);
    s.last[h] = lower_bound(p.rows, s.first[h], end, task.end);
  }
  for (std::int64_t first = 0; first < p.width; first += kProjectionPanel) {
    set_zero(s.sums, (task.end - task.begin) * kProjectionPanel);
    for (std::int64_t h = 0; h < p.heads; ++h, panels += panel_bytes(p.head_dim))
      add_head(p, task, h, reinterpret_cast<const Factor<T>*>(panels), heads, s);
    store_tokens(p, task, first, bias, accumulate, s, tokens);
  }
}

template <class Backend, class T>
std::size_t HeadProjectionKernels<Backend, T>::weight_gradient_scratch_bytes(const HeadProjection& p) {
  Arena arena(nullptr);
  GradientScratch<T>().lay_out(arena, p.head_dim);
  return arena.used_bytes();
}

template <class Backend, class T>
void HeadProjectionKernels<Backend, T>::weight_gradient(const HeadProjection& p, const T* heads,
                                                        const T* tokens, HeadWeights<F> dw, F* dbias,
                                                        const ColumnTask& task, std::byte* scratch) {
  using P = Factor<T>;
  GradientScratch<T> s;
  Arena arena(scratch);
  s.lay_out(arena, p.head_dim);
  const std::int64_t d = p.head_dim, padded = round_up_to_lanes<F>(d), columns = task.end - task.begin;
  set_zero(s.sums, round_up_to_tile(columns) * padded);
  set_zero(s.bias, padded);
  for (std::int64_t begin = 0; begin < task.rows; begin += kGradientRows) {
    const std::int64_t count = min_of(kGradientRows, task.rows - begin);
    list_tokens(p, task.head, begin, begin + count, s.tokens);
    const auto head_at = [&](std::int64_t i) { return heads + s.tokens[i] * p.head_row + task.head * d; };
    const auto token_at = [&](std::int64_t i) { return tokens + s.tokens[i] * p.width + task.begin; };
    pack_right_rows<T>(head_at, count, d, s.heads, padded);
    pack_right_rows<T>(token_at, count, columns, s.columns, kColumnsRow);
    for (std::int64_t i = 0; i < count; ++i) add_upcast(head_at(i), d, s.bias);
    for (std::int64_t n = 0; n < columns; n += kTileRows) {
      multiply_rows<P, kTileRows, true>({s.columns + n, 1, kColumnsRow}, s.heads, padded,
                                        factors_in<P>(count), {s.sums + n * padded, padded},
                                        static_cast<int>(padded / kLanes<P>));
    }
  }
  store_gradient(p, task, s, dw);
  if (dbias && task.begin == 0) copy_rows(s.bias, dbias + task.head * d, d);
}

MOH_MATRIX_KERNELS(HeadProjectionKernels)

}  // namespace moh
