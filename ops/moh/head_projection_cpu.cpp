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

/// Weights [first, first + count) of the token vectors' elements: block [count, padded d].
template <class T, class F>
void pack_block(const HeadProjection& p, HeadWeights<const T> w, std::int64_t head, std::int64_t first,
                std::int64_t count, F* block) {
  const std::int64_t d = p.head_dim, padded = round_up_to_lanes<F>(d);
  if (!w.by_column) {
    return pack_transposed<T>(w.data + head * d * p.width + first, p.width, d, count, block, padded);
  }
  for (std::int64_t n = 0; n < count; ++n) {
    gather_row<T>(w.data + (first + n) * p.heads * d + head * d, F(1), block + n * padded, d);
  }
}

/// The rows of a tile as a left operand: in place, or upcast into `wide`.
template <class T, class F>
GatheredLeft<F> left_rows(const T* const* rows, std::int64_t count, F* wide) {
  GatheredLeft<F> left;
  const std::int64_t padded = round_up_to_lanes<F>(count);
  for (int i = 0; i < kTileRows; ++i) {
    if constexpr (std::is_same_v<T, F>) {
      left.rows[i] = rows[i];
    } else {
      gather_row<T>(rows[i], F(1), wide + i * padded, count);
      left.rows[i] = wide + i * padded;
    }
  }
  return left;
}

template <class F>
struct ToHeadsScratch {
  std::int64_t* tokens;  // numbers of the task's tokens, [kProjectionRows rounded up to whole tiles]
  F *block, *wide, *out, *bias;

  void lay_out(Arena& arena, std::int64_t head_dim) {
    const std::int64_t padded = round_up_to_lanes<F>(head_dim), rows = round_up_to_tile(kProjectionRows);
    tokens = arena.take<std::int64_t>(rows);
    block = arena.take<F>(kDepthBlock * padded);
    wide = arena.take<F>(kTileRows * kDepthBlock);
    out = arena.take<F>(rows * padded);
    bias = arena.take<F>(padded);
  }
};

/// out (+)= the task's token vectors, elements [first, first + depth), times the packed weights.
template <class T, class F, bool kAccumulate>
void add_depth_block(const HeadProjection& p, const T* tokens, std::int64_t first, std::int64_t depth,
                     std::int64_t rows, const ToHeadsScratch<F>& s) {
  const std::int64_t padded = round_up_to_lanes<F>(p.head_dim);
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    const T* row[kTileRows];
    for (int r = 0; r < kTileRows; ++r) row[r] = tokens + s.tokens[i + r] * p.width + first;
    multiply_rows<F, kTileRows, kAccumulate, GatheredLeft<F>>(left_rows<T, F>(row, depth, s.wide), s.block,
                                                              padded, depth, {s.out + i * padded, padded},
                                                              static_cast<int>(padded / kLanes<F>));
  }
}

/// Stores the task's rows and the zeros between them.
template <class T, class F>
void store_heads(const HeadProjection& p, const HeadTask& task, bool add_bias, const ToHeadsScratch<F>& s,
                 std::int64_t next, T* heads) {
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

template <class F>
struct FromHeadsScratch {
  F *sums, *unused, *wide;     // sums [kProjectionTokens, kProjectionPanel]
  std::int64_t *first, *last;  // per head, the rows of its list in the block of tokens

  void lay_out(Arena& arena, std::int64_t heads, std::int64_t head_dim) {
    sums = arena.take<F>(kProjectionTokens * kProjectionPanel);
    unused = arena.take<F>(kTileRows * kProjectionPanel);
    wide = arena.take<F>(kTileRows * round_up_to_lanes<F>(head_dim));
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
template <class T, class F>
void add_head(const HeadProjection& p, const TokenTask& task, std::int64_t head, const F* panel,
              const T* heads, const FromHeadsScratch<F>& s) {
  constexpr int kVecs = static_cast<int>(kProjectionPanel / kLanes<F>);
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
    multiply_rows<F, kTileRows, true, GatheredLeft<F>, ScatteredOut<F>>(
        left_rows<T, F>(row, p.head_dim, s.wide), panel, kProjectionPanel, p.head_dim, out, kVecs);
  }
}

/// Stores the sums of a panel, plus bias or previous values, in the tokens.
template <class T, class F>
void store_tokens(const HeadProjection& p, const TokenTask& task, std::int64_t first, const T* bias,
                  bool accumulate, const FromHeadsScratch<F>& s, T* tokens) {
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

template <class F>
struct GradientScratch {
  std::int64_t* tokens;
  F *heads, *columns;  // gathered rows: [kGradientRows, padded d], [kGradientRows, kColumnsRow]
  F *sums, *turned;    // [kProjectionColumns rounded up to whole tiles, padded d], and its transpose
  F* bias;

  void lay_out(Arena& arena, std::int64_t head_dim) {
    const std::int64_t padded = round_up_to_lanes<F>(head_dim);
    tokens = arena.take<std::int64_t>(kGradientRows);
    heads = arena.take<F>(kGradientRows * padded);
    columns = arena.take<F>(kGradientRows * kColumnsRow);
    sums = arena.take<F>(round_up_to_tile(kProjectionColumns) * padded);
    turned = arena.take<F>(head_dim * kProjectionColumns);
    bias = arena.take<F>(padded);
  }
};

/// Stores the sums, [columns, d], in the layout of the weights.
template <class T, class F>
void store_gradient(const HeadProjection& p, const ColumnTask& task, const GradientScratch<F>& s,
                    HeadWeights<F> dw) {
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
  ToHeadsScratch<F>().lay_out(arena, p.head_dim);
  return arena.used_bytes();
}

template <class Backend, class T>
void HeadProjectionKernels<Backend, T>::to_heads(const HeadProjection& p, HeadWeights<const T> w,
                                                 const T* bias, const T* tokens, T* heads,
                                                 const HeadTask& task, std::byte* scratch) {
  ToHeadsScratch<F> s;
  Arena arena(scratch);
  s.lay_out(arena, p.head_dim);
  const std::int64_t rows = task.end - task.begin;
  list_tokens(p, task.head, task.begin, task.end, s.tokens);
  for (std::int64_t i = rows; i < round_up_to_tile(rows); ++i) s.tokens[i] = s.tokens[rows - 1];
  for (std::int64_t first = 0; first < p.width; first += kDepthBlock) {
    const std::int64_t depth = min_of(kDepthBlock, p.width - first);
    pack_block<T, F>(p, w, task.head, first, depth, s.block);
    if (first == 0) {
      add_depth_block<T, F, false>(p, tokens, first, depth, rows, s);
    } else {
      add_depth_block<T, F, true>(p, tokens, first, depth, rows, s);
    }
  }
  if (bias) gather_row<T>(bias + task.head * p.head_dim, F(1), s.bias, p.head_dim);
  std::int64_t before = -1;
  if (task.begin > 0) list_tokens(p, task.head, task.begin - 1, task.begin, &before);
  store_heads<T, F>(p, task, bias != nullptr, s, before + 1, heads);
}

template <class Backend, class T>
void HeadProjectionKernels<Backend, T>::pack_panel(const HeadProjection& p, HeadWeights<const T> w,
                                                   std::int64_t head, std::int64_t first, F* panel) {
  const std::int64_t d = p.head_dim, count = min_of(kProjectionPanel, p.width - first);
  if (w.by_column) {
    const std::int64_t row = p.heads * d;
    return pack_transposed<T>(w.data + first * row + head * d, row, count, d, panel, kProjectionPanel);
  }
  set_zero(panel, d * kProjectionPanel);
  for (std::int64_t j = 0; j < d; ++j) {
    gather_row<T>(w.data + (head * d + j) * p.width + first, F(1), panel + j * kProjectionPanel, count);
  }
}

template <class Backend, class T>
std::size_t HeadProjectionKernels<Backend, T>::from_heads_scratch_bytes(const HeadProjection& p) {
  Arena arena(nullptr);
  FromHeadsScratch<F>().lay_out(arena, p.heads, p.head_dim);
  return arena.used_bytes();
}

template <class Backend, class T>
void HeadProjectionKernels<Backend, T>::from_heads(const HeadProjection& p, const F* panels, const T* bias,
                                                   const T* heads, bool accumulate, T* tokens,
                                                   const TokenTask& task, std::byte* scratch) {
  FromHeadsScratch<F> s;
  Arena arena(scratch);
  s.lay_out(arena, p.heads, p.head_dim);
  for (std::int64_t h = 0; h < p.heads; ++h) {
    const std::int64_t list = task.batch * p.heads + h, end = p.offsets[list + 1];
    s.first[h] = lower_bound(p.rows, p.offsets[list], end, task.begin);
    s.last[h] = lower_bound(p.rows, s.first[h], end, task.end);
  }
  const std::int64_t panel_size = p.head_dim * kProjectionPanel;
  for (std::int64_t first = 0; first < p.width; first += kProjectionPanel) {
    set_zero(s.sums, (task.end - task.begin) * kProjectionPanel);
    for (std::int64_t h = 0; h < p.heads; ++h, panels += panel_size)
      add_head<T, F>(p, task, h, panels, heads, s);
    store_tokens<T, F>(p, task, first, bias, accumulate, s, tokens);
  }
}

template <class Backend, class T>
std::size_t HeadProjectionKernels<Backend, T>::weight_gradient_scratch_bytes(const HeadProjection& p) {
  Arena arena(nullptr);
  GradientScratch<F>().lay_out(arena, p.head_dim);
  return arena.used_bytes();
}

template <class Backend, class T>
void HeadProjectionKernels<Backend, T>::weight_gradient(const HeadProjection& p, const T* heads,
                                                        const T* tokens, HeadWeights<F> dw, F* dbias,
                                                        const ColumnTask& task, std::byte* scratch) {
  GradientScratch<F> s;
  Arena arena(scratch);
  s.lay_out(arena, p.head_dim);
  const std::int64_t d = p.head_dim, padded = round_up_to_lanes<F>(d), columns = task.end - task.begin;
  set_zero(s.sums, round_up_to_tile(columns) * padded);
  set_zero(s.bias, padded);
  for (std::int64_t begin = 0; begin < task.rows; begin += kGradientRows) {
    const std::int64_t count = min_of(kGradientRows, task.rows - begin);
    list_tokens(p, task.head, begin, begin + count, s.tokens);
    for (std::int64_t i = 0; i < count; ++i) {
      gather_row<T>(heads + s.tokens[i] * p.head_row + task.head * d, F(1), s.heads + i * padded, d);
      gather_row<T>(tokens + s.tokens[i] * p.width + task.begin, F(1), s.columns + i * kColumnsRow, columns);
      add_row(s.heads + i * padded, s.bias, padded);
    }
    for (std::int64_t n = 0; n < columns; n += kTileRows) {
      multiply_rows<F, kTileRows, true>({s.columns + n, 1, kColumnsRow}, s.heads, padded, count,
                                        {s.sums + n * padded, padded}, static_cast<int>(padded / kLanes<F>));
    }
  }
  store_gradient<T, F>(p, task, s, dw);
  if (dbias && task.begin == 0) copy_rows(s.bias, dbias + task.head * d, d);
}

template struct HeadProjectionKernels<cpu::MOH_ISA, float>;
template struct HeadProjectionKernels<cpu::MOH_ISA, bfloat16>;
template struct HeadProjectionKernels<cpu::MOH_ISA, double>;

}  // namespace moh
