#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// The common part of the forward and the backward pass of aggregated attention: keys and values in scratch,
// blocks of queries, and their logits.

#include <type_traits>

#include "ops/attention/aggregated_attention_kernels.h"
#include "ops/attention/list_walk.h"
#include "ops/attention/near_window_cpu.h"
#include "ops/attention/softmax_cpu.h"
#include "ops/attention/unit_rows_cpu.h"
#include "ops/cpu/tile.h"

namespace moh {
namespace {

constexpr double kLn2 = 0.6931471805599453;
/// Rows of a block of queries at most; whole vectors of them.
constexpr std::int64_t kMostRows = std::int64_t{16} * kTileRows;

/// Tokens by which the rows of neighbours are fetched ahead of the queries: some blocks.
inline std::int64_t lead_of(const AggregatedShape& s) {
  return margin_of(s) + 2 * kMostRows;
}

/// Fetches rows of tokens while queries are computed, behind whose arithmetic this is hidden: rows that are
/// written soon, of this list, and rows that are read when the next keys are packed.
template <class T>
class RowFetcher {
 public:
  void will_write(T* rows, std::int64_t stride) { written_[num_written_++] = {rows, stride}; }
  /// Tokens before `token` are not fetched.
  void begin_at(std::int64_t token) { next_ = token; }
  /// Row t + `lead` of a list of `count` rows, or where that is past its end, the row so far into the next
  /// list.
  void will_read(const T* rows, const T* next, std::int64_t stride, std::int64_t lead, std::int64_t count) {
    read_[num_read_++] = {rows, next, stride};
    lead_ = lead;
    count_ = count;
  }
  /// Divides what belongs to the tokens up to `last` evenly among the next `rows` calls of step(), so that no
  /// branch depends on the selection.
  void begin_block(std::int64_t last, std::int64_t rows) {
    each_ = rows > 0 ? (last - next_ + rows) / rows : 0;
    end_ = last + 1;
  }
  [[gnu::always_inline]] void step(std::int64_t head_dim) {
    const std::int64_t end = min_of(next_ + each_, end_);
    for (; next_ < end; ++next_) {
      for (int i = 0; i < num_written_; ++i) {
        T* const row = written_[i].rows + next_ * written_[i].stride;
        __builtin_prefetch(row, /*for writing*/ 1);
        __builtin_prefetch(row + head_dim - 1, 1);
      }
      const std::int64_t at = next_ + lead_;
      for (int i = 0; i < num_read_; ++i) {
        const T* const list = at < count_ ? read_[i].rows : read_[i].next;
        if (list == nullptr) continue;
        const T* const row = list + (at < count_ ? at : min_of(at - count_, count_ - 1)) * read_[i].stride;
        __builtin_prefetch(row, 0, /*into L2*/ 2);
        __builtin_prefetch(row + head_dim - 1, 0, 2);
      }
    }
  }

 private:
  struct Written {
    T* rows;
    std::int64_t stride;
  };
  struct Read {
    const T *rows, *next;
    std::int64_t stride;
  };
  Written written_[3];
  Read read_[2];
  int num_written_ = 0, num_read_ = 0;
  std::int64_t next_ = 0, end_ = 0, each_ = 0, lead_ = 0, count_ = 0;
};

/// Zeroes the rows of the tokens up to the last of each block, selected or not, before the block writes its
/// own: no branch depends on the selection. Without a list there is nothing to zero.
template <class T>
class RowClearer {
 public:
  /// For a task that begins at row `begin` of its list.
  RowClearer(const HeadView<T>& view, const List& list, std::int64_t begin)
      : first_(row_of(view, list, {0, 0})), stride_(view.token_stride) {
    is_needed_ = list.entries != nullptr;
    if (is_needed_ && begin > 0) next_ = pair_at(list, begin - 1).token + 1;
  }
  [[gnu::always_inline]] void up_to(std::int64_t end, std::int64_t head_dim) {
    if (!is_needed_) return;
    for (; next_ < end; ++next_)
      __builtin_memset(static_cast<void*>(first_ + next_ * stride_), 0,
                       static_cast<std::size_t>(head_dim) * sizeof(T));
  }

 private:
  T* first_;
  std::int64_t stride_, next_ = 0;
  bool is_needed_ = false;
};

/// Fetches a row of `count` elements, from one that is read soon.
template <class F>
[[gnu::always_inline]] inline void prefetch_all(const F* row, std::int64_t count) {
  constexpr std::int64_t kLine = 64 / sizeof(F);
  for (std::int64_t c = 0; c < count; c += kLine) __builtin_prefetch(row + c);
}

/// Sizes of what is in scratch. kDim and kCount: the width of a head and the number of neighbours where they
/// are constants, or 0.
template <class F, int kDim, int kCount>
struct Layout;

/// The layout of any sizes.
template <class F>
struct Layout<F, 0, 0> {
  std::int64_t d, padded;          // of a head, in elements
  std::int64_t keys, key_columns;  // distant keys, and rounded up to whole vectors
  std::int64_t neighbours, local_columns;

  explicit Layout(const AggregatedShape& s)
      : d(s.pairs.head_dim),
        padded(round_up_to_lanes<F>(d)),
        keys(s.pairs.keys),
        key_columns(round_up_to_lanes<F>(keys)),
        neighbours(s.neighbours()),
        local_columns(s.padded_neighbours()) {}

  /// Elements of a row of logits: distant keys, then neighbours.
  std::int64_t columns() const { return key_columns + local_columns; }
  /// Rows of a block of queries: whole tiles whose logits fit in L1 with their operands.
  std::int64_t block_rows() const {
    const std::int64_t fit = (std::int64_t{1} << 14) / columns() / kTileRows * kTileRows;
    return clamp(fit, kTileRows, kMostRows);
  }
  /// Elements of `rows` rows of `row` elements, and a tile more, which left operands of a last tile may read.
  static std::int64_t rows_of(std::int64_t rows, std::int64_t row) {
    return round_up_to_tile(rows) * row + row;
  }
};
template <class F>
using AnyLayout = Layout<F, 0, 0>;

/// With a known number of neighbours.
template <class F, int kCount>
struct Layout<F, 0, kCount> : AnyLayout<F> {
  using AnyLayout<F>::AnyLayout;
  // NOLINTBEGIN(readability-identifier-naming): in place of members of that name
  static constexpr std::int64_t neighbours = kCount, local_columns = (neighbours + 15) / 16 * 16;
  // NOLINTEND(readability-identifier-naming)
  std::int64_t columns() const { return this->key_columns + local_columns; }
};

/// And with heads of a known width.
template <class F, int kDim, int kCount>
struct Layout : Layout<F, 0, kCount> {
  using Layout<F, 0, kCount>::Layout;
  // NOLINTBEGIN(readability-identifier-naming): in place of members of that name
  static constexpr std::int64_t d = kDim, padded = round_up_to_lanes<F>(kDim);
  // NOLINTEND(readability-identifier-naming)
};

/// Calls body(layout), with sizes as constants where they are TransNeXt's; not in float64, which no model
/// trains in.
template <class F, class Body>
[[gnu::always_inline]] inline void with_layout(const AggregatedShape& shape, const Body& body) {
  constexpr int kDim = 24, kCount = 9;
  if constexpr (!std::is_same_v<F, double>) {
    if (shape.neighbours() == kCount && shape.pairs.head_dim == kDim)
      return body(Layout<F, kDim, kCount>(shape));
    if (shape.neighbours() == kCount) return body(Layout<F, 0, kCount>(shape));
  }
  body(AnyLayout<F>(shape));
}

/// The parameters of a head.
template <class F>
struct HeadParameters {
  F* embedding;          // [padded]
  F* local_bias;         // [local_columns], times log2 e, zeros after the last
  F* tokens;             // [d, local_columns]
  F* token_bias;         // [local_columns]
  F temperature, slope;  // softplus of the parameter, and its derivative

  void lay_out(Arena& arena, const AnyLayout<F>& at) {
    embedding = arena.take<F>(at.padded);
    local_bias = arena.take<F>(at.local_columns);
    tokens = arena.take<F>(at.d * at.local_columns);
    token_bias = arena.take<F>(at.local_columns);
  }

  void load_head(const AggregatedParameters<const F>& from, std::int64_t head, const AnyLayout<F>& at) {
    gather_row<F>(from.query_embedding + head * at.d, F(1), embedding, at.d);
    const F t = from.temperature[head];
    temperature = t > F(20) ? t : std::log1p(std::exp(t));
    slope = F(1) / (F(1) + std::exp(-t));
    if (at.neighbours == 0) return;
    const auto row = [&](const F* row_of, F factor, F* to) {
      set_zero(to, at.local_columns);
      for (std::int64_t j = 0; j < at.neighbours; ++j) to[j] = row_of[j] * factor;
    };
    row(from.local_bias + head * at.neighbours, F(kLog2E), local_bias);
    row(from.token_bias + head * at.neighbours, F(1), token_bias);
    for (std::int64_t c = 0; c < at.d; ++c)
      row(from.tokens + (head * at.d + c) * at.neighbours, F(1), tokens + c * at.local_columns);
  }
};

/// Keys and values of the distant tokens of a (sequence, head). Pairs are of the keys as they stand, so that
/// their products are exact: logits are multiplied by the inverse norms afterwards, and the products of the
/// unit keys with the query embedding added.
template <class T>
struct DistantKeys {
  using F = Acc<T>;
  using P = Factor<T>;

  F* k;             // [keys, padded]: unit keys
  F* inverse;       // [key_columns], of pairs zeros after the last
  F* embedded;      // [key_columns], of pairs alone: products of unit keys and the query embedding
  P* k_transposed;  // [factors of d, key_columns]: unit keys, or pairs
  F* v;             // [keys, padded]

  void lay_out(Arena& arena, const AnyLayout<F>& at) {
    k = arena.take<F>(at.keys * at.padded);
    inverse = arena.take<F>(at.key_columns);
    if constexpr (kPairs<T>) embedded = arena.take<F>(at.key_columns);
    k_transposed = arena.take<P>(factors_in<P>(at.d) * at.key_columns);
    v = arena.take<F>(at.keys * at.padded);
  }
  template <int kDim, int kCount>
  void pack(const HeadView<const T>& from_k, const HeadView<const T>& from_v, const List& list,
            const HeadParameters<F>& head, const Layout<F, kDim, kCount>& at) {
    const T* const keys = key_row(from_k, list, 0);
    pack_rows<T>(keys, from_k.token_stride, at.keys, at.d, k, at.padded);
    pack_rows<T>(key_row(from_v, list, 0), from_v.token_stride, at.keys, at.d, v, at.padded);
    if constexpr (kPairs<T>) set_zero(inverse, at.key_columns);
    normalise_rows(k, at.keys, at.padded, inverse);
    if constexpr (kPairs<T>) {
      pack_transposed<T>(keys, from_k.token_stride, at.keys, at.d, k_transposed, at.key_columns);
      for (std::int64_t m = 0; m < at.keys; ++m)
        embedded[m] = dot_rows<F>(k + m * at.padded, head.embedding, at.padded);
      set_zero(embedded + at.keys, at.key_columns - at.keys);
    } else {
      pack_transposed<F>(k, at.padded, at.keys, at.d, k_transposed, at.key_columns);
    }
  }
};

/// A block of queries of a list.
template <class T>
struct QueryBlock {
  using F = Acc<T>;

  F* unit;   // [rows, padded]: u(q)
  F* query;  // [rows, padded]: q' log2 e
  // [rows, left_row()]: queries as they stand, in pairs; without pairs in place of query.
  Factor<T>* left;
  F* scores;  // [rows, columns]: logits times log2 e, then their exponentials
  // [rows, key_columns]: of pairs in the backward pass, logits of distant keys without the biases.
  F* unbiased = nullptr;
  F* learned;  // [rows, local_columns]: u(q) L + l, 0 for neighbours outside the image
  F *inverse, *scale;
  std::int64_t* tokens;
  const F** masks;
  const std::int32_t** offsets;
  std::int64_t rows = 0;

  void lay_out(Arena& arena, const AnyLayout<F>& at, bool has_gradients) {
    const std::int64_t most = at.block_rows();
    if (kPairs<T> && has_gradients) unbiased = arena.take<F>(most * at.key_columns);
    unit = arena.take<F>(at.rows_of(most, at.padded));
    query = arena.take<F>(at.rows_of(most, at.padded));
    if constexpr (kPairs<T>) {
      left = arena.take<Factor<T>>(at.rows_of(most, left_row(at)));
    } else {
      left = query;
    }
    scores = arena.take<F>(at.rows_of(most, at.columns()));
    learned = arena.take<F>(at.rows_of(most, at.local_columns));
    inverse = arena.take<F>(most);
    scale = arena.take<F>(most);
    tokens = arena.take<std::int64_t>(most);
    masks = arena.take<const F*>(most);
    offsets = arena.take<const std::int32_t*>(most);
  }
  /// Length of a row of queries or of their gradients, as left operands, in factors.
  static std::int64_t left_row(const AnyLayout<F>& at) {
    return kPairs<T> ? row_factors<T>(at.d) : at.padded;
  }
  template <int kDim, int kCount>
  Neighbours<kCount> near(std::int64_t row, const Layout<F, kDim, kCount>& at) const {
    return {offsets[row], at.neighbours, at.padded};
  }
};

/// Rows of the block that begins at row `begin` of a list, of which rows before `end` are computed: as many
/// as fit, whose tokens are near each other if there is a window.
template <class F>
std::int64_t block_length(const List& list, std::int64_t begin, std::int64_t end, const AnyLayout<F>& at) {
  std::int64_t last = min_of(begin + at.block_rows(), end) - 1;
  if (at.neighbours == 0) return last + 1 - begin;
  const std::int64_t furthest = pair_at(list, begin).token + kMostSpan;
  while (pair_at(list, last).token >= furthest) --last;
  return last + 1 - begin;
}

/// Gathers and normalises rows [begin, begin + rows) of a list. Args: AggregatedForward or
/// AggregatedBackward.
template <class T, class Args, int kDim, int kCount, class F = Acc<T>>
void gather_queries(const Args& args, const List& list, std::int64_t begin, std::int64_t rows,
                    const HeadParameters<F>& head, const Layout<F, kDim, kCount>& at, QueryBlock<T>& block) {
  const std::int64_t padded = at.padded;
  block.rows = rows;
  for (std::int64_t i = 0; i < rows; ++i) {
    const Pair pair = pair_at(list, begin + i);
    if (i + kRowsAhead < rows) {
      const Pair ahead = pair_at(list, begin + i + kRowsAhead);
      prefetch_row(row_of(args.q, list, ahead), at.d);
      prefetch_all(
          args.parameters.position_bias + (list.kv_head * args.shape.pairs.queries + ahead.token) * at.keys,
          at.keys);
    }
    const std::int32_t place = args.places.of_token[pair.token];
    block.tokens[i] = pair.token;
    block.masks[i] = args.places.mask + place * at.local_columns;
    block.offsets[i] = args.places.offsets + place * at.neighbours;
    block.scale[i] = head.temperature * args.places.log_keys[place];
    gather_row<T>(row_of(args.q, list, pair), F(1), block.unit + i * padded, at.d);
    if constexpr (kPairs<T>)
      gather_factors<T>(row_of(args.q, list, pair), F(1), block.left + i * block.left_row(at), at.d);
  }
  normalise_rows(block.unit, rows, padded, block.inverse);
  for (std::int64_t i = 0; i < rows; ++i) {
    const Vec<F> factor = splat<F>(block.scale[i] * F(kLog2E));
    for (std::int64_t c = 0; c < padded; c += kLanes<F>) {
      store(block.query + i * padded + c,
            (load(block.unit + i * padded + c) + load(head.embedding + c)) * factor);
    }
  }
  const std::int64_t filling = (round_up_to_tile(rows) - rows) * padded;
  set_zero(block.unit + rows * padded, filling);
  set_zero(block.query + rows * padded, filling);
  if constexpr (kPairs<T>) {
    const std::int64_t row = block.left_row(at);
    set_zero(block.left + rows * row, (round_up_to_tile(rows) - rows) * row);
  }
}

/// Matrix multiplication of a block: to [rows, vecs vectors] = from [rows, depth] times right, in whole tiles
/// of factors P.
template <class P>
void multiply_block(const P* from, std::int64_t from_row, std::int64_t depth, const P* right,
                    std::int64_t right_row, SumOf<P>* to, std::int64_t to_row, std::int64_t columns,
                    std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    multiply_rows<P, kTileRows, false>({from + i * from_row, from_row, 1}, right, right_row, depth,
                                       {to + i * to_row, to_row}, static_cast<int>(columns / kLanes<P>));
  }
}

/// Adds the position biases of a query to its logits of distant keys, of which logits(m) is the vector from m
/// on; those after the last key become -infinity. `end` is that of all biases: whole vectors are read where
/// they do not pass it.
template <class F, class Logits>
[[gnu::always_inline]] inline void add_position_bias(const F* bias, const F* end, const AnyLayout<F>& at,
                                                     const Logits& logits, F* scores) {
  constexpr int kN = kLanes<F>;
  std::int64_t m = 0;
  for (; m + kN <= at.keys; m += kN) store(scores + m, logits(m) + load(bias + m) * F(kLog2E));
  if (m == at.keys) return;
  const Vec<F> rest = bias + m + kN <= end ? load(bias + m) : load_first<F>(bias + m, at.keys - m);
  const Vec<F> sum = logits(m) + rest * F(kLog2E);
  const auto seen = lane_numbers<F>() < static_cast<BitsOf<F>>(at.keys - m);
  store(scores + m, seen ? sum : splat<F>(-std::numeric_limits<F>::infinity()));
}

/// Keeps, in a row of logits, the largest `percent` of those above -infinity; smaller ones become -infinity.
template <class F>
void keep_largest(F* scores, std::int64_t columns, std::int64_t percent) {
  constexpr int kN = kLanes<F>;
  constexpr F kInfinity = std::numeric_limits<F>::infinity();
  const Vec<F> one = splat<F>(F(1));
  const auto count_above = [&](F bound) {
    Vec<F> count{};
    for (std::int64_t j = 0; j < columns; j += kN)
      count += load(scores + j) > splat<F>(bound) ? one : Vec<F>{};
    return static_cast<std::int64_t>(sum_lanes<F>(count));
  };
  const std::int64_t kept = (count_above(-kInfinity) * percent + 99) / 100;
  F least = kInfinity;
  for (std::int64_t j = 0; j < columns; ++j) {
    const F score = scores[j];
    if (score > -kInfinity && score < least && count_above(score) < kept) least = score;
  }
  for (std::int64_t j = 0; j < columns; j += kN) {
    const Vec<F> score = load(scores + j);
    store(scores + j, score < splat<F>(least) ? splat<F>(-kInfinity) : score);
  }
}

/// Logits of a block, and its learned weights of neighbours.
template <class T, class F, int kDim, int kCount>
void score_block(const AggregatedParameters<const F>& parameters, const AggregatedShape& shape,
                 std::int64_t head_number, const HeadParameters<F>& head, const DistantKeys<T>& distant,
                 const NearWindow<F>& near, const Layout<F, kDim, kCount>& at, QueryBlock<T>& block) {
  constexpr int kN = kLanes<F>;
  const std::int64_t columns = at.columns();
  const std::int64_t padded = at.padded;
  multiply_block(block.left, block.left_row(at), factors_in<Factor<T>>(at.d), distant.k_transposed,
                 at.key_columns, block.scores, columns, at.key_columns, block.rows);
  const std::int64_t tokens = shape.pairs.queries;
  const F* end = parameters.position_bias + shape.pairs.heads * tokens * at.keys;
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const std::int64_t token = block.tokens[i];
    F* scores = block.scores + i * columns;
    const F scale = block.scale[i] * F(kLog2E), factor = block.inverse[i] * scale;
    const auto logits = [&](std::int64_t m) __attribute__((always_inline)) {
      if constexpr (kPairs<T>) {
        const Vec<F> found =
            load(scores + m) * load(distant.inverse + m) * factor + load(distant.embedded + m) * scale;
        if (block.unbiased != nullptr) store(block.unbiased + i * at.key_columns + m, found);
        return found;
      } else {
        return load(scores + m);
      }
    };
    add_position_bias(parameters.position_bias + (head_number * tokens + token) * at.keys, end, at, logits,
                      scores);
    if (at.neighbours == 0) continue;
    F* local = scores + at.key_columns;
    clear_row(local, at.local_columns);
    neighbour_dots<F, kCount>(block.query + i * padded, near.k + near.row(token, padded), block.near(i, at),
                              local);
    for (std::int64_t j = 0; j < at.local_columns; j += kN)
      store(local + j, load(local + j) + load(head.local_bias + j) + load(block.masks[i] + j));
  }
  if (shape.kept_percent < 100) {
    for (std::int64_t i = 0; i < block.rows; ++i)
      keep_largest(block.scores + i * columns, columns, shape.kept_percent);
  }
  if (at.neighbours == 0) return;
  multiply_block(block.unit, padded, at.d, head.tokens, at.local_columns, block.learned, at.local_columns,
                 at.local_columns, block.rows);
  for (std::int64_t i = 0; i < block.rows; ++i) {
    F* learned = block.learned + i * at.local_columns;
    for (std::int64_t j = 0; j < at.local_columns; j += kN) {
      const Vec<F> sum = load(learned + j) + load(head.token_bias + j);
      store(learned + j, load(block.masks[i] + j) == F(0) ? sum : Vec<F>{});
    }
  }
}

}  // namespace
}  // namespace moh
