#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// The backward pass of aggregated attention: logits again and probabilities from the saved lse, then the
// gradients of everything that the row has read. A task has a head of a sequence to itself, so its sums need
// no other thread's.

#include "ops/attention/aggregated_blocks_cpu.h"

namespace moh {
namespace {

/// Sums over the queries of a head.
template <class F>
struct PartialSums {
  F* position_bias;         // [tokens, key columns]; a row is of no meaning before its first addend
  BitsOf<F>* has_position;  // [tokens]: all bits set where the row has an addend, or 0
  F *embedding, *temperature, *local_bias, *token_bias, *tokens;
  std::int64_t before, size;  // elements of the position biases, and of all

  /// Slices of `data`; null only computes the size.
  PartialSums(F* data, const AggregatedShape& shape, const AnyLayout<F>& at) {
    Arena arena(reinterpret_cast<std::byte*>(data));
    position_bias = arena.take<F>(shape.pairs.queries * at.key_columns);
    before = static_cast<std::int64_t>(arena.used_bytes() / sizeof(F));
    has_position = arena.take<BitsOf<F>>(shape.pairs.queries);
    embedding = arena.take<F>(at.padded);
    temperature = arena.take<F>(1);
    local_bias = arena.take<F>(at.local_columns);
    token_bias = arena.take<F>(at.local_columns);
    tokens = arena.take<F>(round_up_to_tile(at.d) * at.local_columns);
    size = static_cast<std::int64_t>(arena.used_bytes() / sizeof(F));
  }
  /// The current sum of vector m of the position biases of a token.
  [[gnu::always_inline]] Vec<F> position(std::int64_t token, const F* row, std::int64_t m) const {
    const Vec<BitsOf<F>> mask = Vec<BitsOf<F>>{} + has_position[token];
    return (Vec<F>)((Vec<BitsOf<F>>)load(row + m) & mask);
  }
  [[gnu::always_inline]] void add_position(std::int64_t token, const F* addend, std::int64_t columns) const {
    F* row = position_bias + token * columns;
    for (std::int64_t m = 0; m < columns; m += kLanes<F>)
      store(row + m, position(token, row, m) + load(addend + m));
    has_position[token] = -1;
  }
};

template <class F>
struct BackwardScratch {
  HeadParameters<F> head;
  DistantKeys<F> distant;
  NearWindow<F> near;
  QueryBlock<F> block;
  F* tokens_transposed;      // [neighbours, padded]
  F* v_transposed;           // [d, key_columns]
  F *dk, *dv;                // [keys, padded] in whole tiles
  F *dout, *dunit, *dquery;  // [block rows, padded]
  F* dscores;                // [block rows, columns]
  F* dlearned;               // [block rows, local_columns]

  void lay_out(Arena& arena, const AggregatedShape& shape, const AnyLayout<F>& at) {
    head.lay_out(arena, at);
    distant.lay_out(arena, at);
    const std::int64_t most = at.block_rows();
    near.lay_out(arena, shape, /*has_gradients=*/true);
    block.lay_out(arena, at);
    tokens_transposed = arena.take<F>(at.neighbours * at.padded);
    v_transposed = arena.take<F>(at.d * at.key_columns);
    dk = arena.take<F>(at.rows_of(at.keys, at.padded));
    dv = arena.take<F>(at.rows_of(at.keys, at.padded));
    dout = arena.take<F>(at.rows_of(most, at.padded));
    dunit = arena.take<F>(at.rows_of(most, at.padded));
    dquery = arena.take<F>(at.rows_of(most, at.padded));
    dscores = arena.take<F>(at.rows_of(most, at.columns()));
    dlearned = arena.take<F>(at.rows_of(most, at.local_columns));
  }
};

/// From the logits of a row and the gradients of their probabilities, in scores and dscores: gate times the
/// probabilities (of neighbours: plus the learned weights), and the gradients of the logits. Returns the
/// gradient of the gate.
template <class F, int kDim, int kCount>
[[gnu::always_inline]] inline F softmax_gradient(F* scores, F* dscores, const F* learned, F* dlearned, F lse,
                                                 F gate, const Layout<F, kDim, kCount>& at) {
  constexpr int kN = kLanes<F>;
  const std::int64_t columns = at.columns(), keys = at.key_columns;
  const Vec<F> shift = splat<F>(lse), factor = splat<F>(gate);
  Vec<F> dot{}, learned_dot{};
  for (std::int64_t j = 0; j < columns; j += kN) {
    const Vec<F> p = exp2_lanes<F>(load(scores + j) - shift);
    store(scores + j, p);
    dot += p * load(dscores + j);
  }
  for (std::int64_t j = 0; j < at.local_columns; j += kN)
    learned_dot += load(learned + j) * load(dscores + keys + j);
  const F delta = sum_lanes<F>(dot);
  const Vec<F> mean = splat<F>(delta);
  for (std::int64_t j = 0; j < keys; j += kN) {
    const Vec<F> p = load(scores + j) * factor;
    store(scores + j, p);
    store(dscores + j, p * (load(dscores + j) - mean));
  }
  for (std::int64_t j = 0; j < at.local_columns; j += kN) {
    const Vec<F> p = load(scores + keys + j) * factor, dp = load(dscores + keys + j);
    store(dscores + keys + j, p * (dp - mean));
    store(scores + keys + j, p + load(learned + j) * factor);
    store(dlearned + j, dp * factor);
  }
  return delta + sum_lanes<F>(learned_dot);
}

/// Probabilities and gradients of logits of a block, and the gradients of its gates and biases.
template <class T, class F, int kDim, int kCount>
void backward_logits(const AggregatedBackward<T>& args, const List& list, std::int64_t begin,
                     const Layout<F, kDim, kCount>& at, BackwardScratch<F>& s, const PartialSums<F>& sums,
                     RowFetcher<T>& fetcher) {
  constexpr int kN = kLanes<F>;
  QueryBlock<F>& block = s.block;
  fetcher.begin_block(block.tokens[block.rows - 1], block.rows);
  multiply_block<false>(s.dout, at.padded, at.d, s.v_transposed, at.key_columns, s.dscores, at.columns(),
                        at.key_columns, block.rows);
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const Pair pair{block.tokens[i], 0};
    fetcher.step(at.d);
    if (begin + block.rows + i < list.rows) {
      const Pair later = pair_at(list, begin + block.rows + i);
      prefetch_row(row_of(args.q, list, later), at.d);
      prefetch_row(row_of(args.dout, list, later), at.d);
    }
    F *scores = block.scores + i * at.columns(), *dscores = s.dscores + i * at.columns();
    F *learned = block.learned + i * at.local_columns, *dlearned = s.dlearned + i * at.local_columns;
    if (at.neighbours > 0) {
      clear_row(dscores + at.key_columns, at.local_columns);
      neighbour_dots<F, kCount>(s.dout + i * at.padded, s.near.v + s.near.row(pair.token, at.padded),
                                block.near(i, at), dscores + at.key_columns);
      // Outside the image the dots are with the token itself, and count for nothing.
      for (std::int64_t j = 0; j < at.local_columns; j += kN) {
        F* dot = dscores + at.key_columns + j;
        store(dot, load(block.masks[i] + j) == F(0) ? load(dot) : Vec<F>{});
      }
    }
    const std::int64_t gate_at = gate_index(args.shape.pairs, list, pair);
    const F gate = args.gates ? args.gates[gate_at] : F(1);
    const F dgate =
        softmax_gradient(scores, dscores, learned, dlearned, args.lse[list.first + begin + i], gate, at);
    if (args.dgates) args.dgates[gate_at] = dgate;
    sums.add_position(pair.token, dscores, at.key_columns);
    if (at.neighbours == 0) continue;
    add_row(dscores + at.key_columns, sums.local_bias, at.local_columns);
    add_row(dlearned, sums.token_bias, at.local_columns);
  }
}

/// Adds a block's part to the gradients of keys, values and learnable tokens.
template <class F, int kDim, int kCount>
void backward_keys(const Layout<F, kDim, kCount>& at, BackwardScratch<F>& s, const PartialSums<F>& sums) {
  const QueryBlock<F>& block = s.block;
  const int dim_vecs = static_cast<int>(at.padded / kLanes<F>);
  for (std::int64_t m = 0; m < at.keys; m += kTileRows) {
    multiply_rows<F, kTileRows, true>({block.scores + m, 1, at.columns()}, s.dout, at.padded, block.rows,
                                      {s.dv + m * at.padded, at.padded}, dim_vecs);
    multiply_rows<F, kTileRows, true>({s.dscores + m, 1, at.columns()}, block.query, at.padded, block.rows,
                                      {s.dk + m * at.padded, at.padded}, dim_vecs);
  }
  if (at.neighbours == 0) return;
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const std::int64_t local = i * at.columns() + at.key_columns,
                       around = s.near.row(block.tokens[i], at.padded);
    const auto near = block.near(i, at);
    add_to_neighbours<F, kCount>(s.dscores + local, block.query + i * at.padded, near, s.near.dk + around);
    add_to_neighbours<F, kCount>(block.scores + local, s.dout + i * at.padded, near, s.near.dv + around);
  }
  for (std::int64_t c = 0; c < at.d; c += kTileRows) {
    multiply_rows<F, kTileRows, true>({block.unit + c, 1, at.padded}, s.dlearned, at.local_columns,
                                      block.rows, {sums.tokens + c * at.local_columns, at.local_columns},
                                      static_cast<int>(at.local_columns / kLanes<F>));
  }
}

/// dq of a block, and what it adds to the gradients of the query embedding and the temperature.
template <class T, class F, int kDim, int kCount>
void backward_queries(const AggregatedBackward<T>& args, const List& list, const Layout<F, kDim, kCount>& at,
                      BackwardScratch<F>& s, const PartialSums<F>& sums, RowClearer<T>& clearer) {
  constexpr int kN = kLanes<F>;
  const QueryBlock<F>& block = s.block;
  multiply_block<false>(s.dscores, at.columns(), at.keys, s.distant.k, at.padded, s.dquery, at.padded,
                        at.padded, block.rows);
  if (at.neighbours > 0) {
    multiply_block<false>(s.dlearned, at.local_columns, at.neighbours, s.tokens_transposed, at.padded,
                          s.dunit, at.padded, at.padded, block.rows);
  } else {
    set_zero(s.dunit, block.rows * at.padded);
  }
  Vec<F> dtemperature{};
  for (std::int64_t i = 0; i < block.rows; ++i) {
    F* dquery = s.dquery + i * at.padded;
    if (at.neighbours > 0) {
      add_neighbours<F, kCount>(s.dscores + i * at.columns() + at.key_columns,
                                s.near.k + s.near.row(block.tokens[i], at.padded), block.near(i, at), dquery);
    }
    // query = (unit + embedding) scale log2 e, and scale = softplus(t) log(keys).
    const Vec<F> scale = splat<F>(block.scale[i]);
    Vec<F> along{};
    for (std::int64_t c = 0; c < at.padded; c += kN) {
      const Vec<F> to_query = load(dquery + c), step = to_query * scale;
      along += to_query * load(block.query + i * at.padded + c);
      store(sums.embedding + c, load(sums.embedding + c) + step);
      store(s.dunit + i * at.padded + c, load(s.dunit + i * at.padded + c) + step);
    }
    dtemperature += along;
  }
  // A temperature that has underflowed to 0 makes all of `along` 0, too.
  const F relative_slope = s.head.temperature > F(0) ? s.head.slope / s.head.temperature : F(0);
  *sums.temperature += sum_lanes<F>(dtemperature) * F(kLn2) * relative_slope;
  unit_gradients(s.dunit, block.unit, block.inverse, block.rows, at.padded);
  clearer.up_to(block.tokens[block.rows - 1] + 1, at.d);
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const Pair pair{block.tokens[i], 0};
    store_row<T>(s.dunit + i * at.padded, F(1), row_of(args.dq, list, pair), at.d);
  }
}

/// Gathers the gradients of a block's outputs.
template <class T, class F, int kDim, int kCount>
void gather_outputs(const AggregatedBackward<T>& args, const List& list, const Layout<F, kDim, kCount>& at,
                    BackwardScratch<F>& s) {
  const auto row = [&](std::int64_t i) { return row_of(args.dout, list, {s.block.tokens[i], 0}); };
  for (std::int64_t i = 0; i < s.block.rows; ++i) {
    if (i + kRowsAhead < s.block.rows) prefetch_row(row(i + kRowsAhead), at.d);
    gather_row<T>(row(i), F(1), s.dout + i * at.padded, at.d);
  }
  set_zero(s.dout + s.block.rows * at.padded, (round_up_to_tile(s.block.rows) - s.block.rows) * at.padded);
}

/// Writes the gradients of the distant keys and values: those of keys have a factor log2 e from the queries.
template <class T, class F, int kDim, int kCount>
void store_distant(const AggregatedBackward<T>& args, const List& list, const Layout<F, kDim, kCount>& at,
                   const BackwardScratch<F>& s) {
  store_unit_gradients<T>(s.dk, s.distant.k, s.distant.inverse, at.keys, at.padded, F(kLn2),
                          key_row(args.dk, list, 0), args.dk.token_stride, at.d);
  for (std::int64_t m = 0; m < at.keys; ++m)
    store_row<T>(s.dv + m * at.padded, F(1), key_row(args.dv, list, m), at.d);
}

/// The rows that are fetched while the queries of a list are computed. `is_last`: there is no next sequence.
template <class T>
RowFetcher<T> backward_fetcher(const AggregatedBackward<T>& args, const List& list, bool is_last) {
  const std::int64_t tokens = args.shape.pairs.queries;
  RowFetcher<T> fetcher;
  fetcher.will_write(row_of(args.dq, list, {0, 0}), args.dq.token_stride);
  if (args.shape.window == 0) return fetcher;
  fetcher.will_write(key_row(args.dlocal_k, list, 0), args.dlocal_k.token_stride);
  fetcher.will_write(key_row(args.dlocal_v, list, 0), args.dlocal_v.token_stride);
  for (const HeadView<const T>& view : {args.local_k, args.local_v}) {
    const T* const own = key_row(view, list, 0);
    fetcher.will_read(own, is_last ? nullptr : own + view.batch_stride, view.token_stride,
                      lead_of(args.shape), tokens);
  }
  return fetcher;
}

/// All gradients of one head of one sequence, whether or not the last of the task.
template <class T, class F, int kDim, int kCount>
void backward_list(const AggregatedBackward<T>& args, const List& list, bool is_last,
                   const Layout<F, kDim, kCount>& at, BackwardScratch<F>& s, const PartialSums<F>& sums) {
  const std::int64_t tokens = args.shape.pairs.queries, margin = margin_of(args.shape);
  const bool has_window = at.neighbours > 0;
  s.distant.pack(args.k, args.v, list, at);
  pack_transposed<F>(s.distant.v, at.padded, at.keys, at.d, s.v_transposed, at.key_columns);
  for (F* sum : {s.dk, s.dv}) set_zero(sum, round_up_to_tile(at.keys) * at.padded);
  RowClearer<T> clearer(args.dq, list, 0);
  RowFetcher<T> fetcher = backward_fetcher(args, list, is_last);
  s.near.restart(0);
  const auto store_near = [&](std::int64_t end) {
    s.near.store_gradients(args.dlocal_k, args.dlocal_v, list, F(kLn2), end, at);
  };
  for (std::int64_t begin = 0; begin < list.rows; begin += s.block.rows) {
    const std::int64_t rows = block_length(list, begin, list.rows, at);
    gather_queries<T>(args, list, begin, rows, s.head, at, s.block);
    gather_outputs(args, list, at, s);
    const std::int64_t first = s.block.tokens[0], last = s.block.tokens[rows - 1];
    if (has_window) {
      s.near.advance(args.local_k, args.local_v, list, first - margin, min_of(tokens, last + margin + 1), at,
                     store_near);
    }
    score_block(args.parameters, args.shape, list.kv_head, s.head, s.distant, s.near, at, s.block);
    backward_logits(args, list, begin, at, s, sums, fetcher);
    backward_keys(at, s, sums);
    backward_queries(args, list, at, s, sums, clearer);
    if (has_window) store_near(last + 1 - margin);
  }
  clearer.up_to(tokens, at.d);
  store_distant(args, list, at, s);
  if (!has_window) return;
  s.near.advance(args.local_k, args.local_v, list, tokens, tokens, at, store_near);
  store_near(tokens);
}

/// All gradients of the lists of a task; `own` are its partial sums.
template <class T, class F, int kDim, int kCount>
void backward_lists(const AggregatedBackward<T>& args, const HeadChunk& task, std::byte* scratch, F* own,
                    const Layout<F, kDim, kCount>& at) {
  BackwardScratch<F> s;
  Arena arena(scratch);
  s.lay_out(arena, args.shape, at);
  const PartialSums<F> sums(own, args.shape, at);
  set_zero(own + sums.before, sums.size - sums.before);
  s.head.load_head(args.parameters, task.head, at);
  if (at.neighbours > 0) {
    pack_transposed<F>(s.head.tokens, at.local_columns, at.d, at.neighbours, s.tokens_transposed, at.padded);
  }
  for (std::int64_t b = task.begin; b < task.end; ++b) {
    const List list = list_at(args.shape.pairs, args.lists, b * args.shape.pairs.heads + task.head);
    backward_list(args, list, b + 1 == task.end, at, s, sums);
  }
}

/// to [tokens, keys] = the position biases of the chunks of a head, the first of which is `first`.
template <class T, class F>
void sum_position_biases(const AggregatedBackward<T>& args, const PartialSums<F>& first,
                         const AnyLayout<F>& at, F* to) {
  constexpr int kN = kLanes<F>;
  for (std::int64_t token = 0; token < args.shape.pairs.queries; ++token, to += at.keys) {
    const F* row = first.position_bias + token * at.key_columns;
    for (std::int64_t m = 0; m < at.keys; m += kN) {
      Vec<F> sum = first.position(token, row, m);
      for (std::int64_t chunk = 1; chunk < args.chunks; ++chunk) {
        const std::int64_t away = chunk * first.size;
        const Vec<BitsOf<F>> mask = Vec<BitsOf<F>>{} + first.has_position[token + away];
        sum += (Vec<F>)((Vec<BitsOf<F>>)load(row + away + m) & mask);
      }
      m + kN <= at.keys ? store(to + m, sum) : store_first<F>(to + m, sum, at.keys - m);
    }
  }
}

/// to [rows, count] = the first `count` elements of rows of `row` elements.
template <class F>
void take_columns(const F* from, std::int64_t rows, std::int64_t row, std::int64_t count, F* to) {
  for (std::int64_t i = 0; i < rows; ++i) copy_rows(from + i * row, to + i * count, count);
}

}  // namespace
}  // namespace moh
