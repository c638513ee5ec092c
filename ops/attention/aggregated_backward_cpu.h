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
  /// Adds to the gradient of the temperature: from the sum of the products of logits, times log2 e, and their
  /// gradients, lane by lane.
  void add_temperature(Vec<F> along, const HeadParameters<F>& head) const {
    // A temperature that has underflowed to 0 makes all of `along` 0, too.
    const F relative_slope = head.temperature > F(0) ? head.slope / head.temperature : F(0);
    *temperature += sum_lanes<F>(along) * F(kLn2) * relative_slope;
  }
};

template <class T>
struct BackwardScratch {
  using F = Acc<T>;
  using P = Factor<T>;

  HeadParameters<F> head;
  DistantKeys<T> distant;
  NearWindow<F> near;
  QueryBlock<T> block;
  F* tokens_transposed;      // [neighbours, padded]
  P* v_transposed;           // [factors of d, key_columns]
  P* k;                      // [factors of keys, padded]: unit keys, factors along the keys
  F *dk, *dv;                // [keys, padded] in whole tiles
  F *dout, *dunit, *dquery;  // [block rows, padded]
  F* dscores;                // [block rows, columns]
  F* dlearned;               // [block rows, local_columns]
  P* dout_left;              // [block rows, left_row()]
  Weight<T>* ds;             // [block rows, weights_row()]: gradients of logits, factors along the keys
  P *p_left, *ds_left;       // [factors of block rows, weights_row()]: gate times probabilities, and ds
  P *dout_right, *q_right;   // [factors of block rows, padded]
                             // Without pairs, these six are in place of dout, dscores, and so on.
  // For pairs alone:
  F* logit_sums;  // [key_columns]: gradients of logits times the queries' scales, before rounding
  F* from_near;   // [padded]: the neighbours' part of a row of dquery

  void lay_out(Arena& arena, const AggregatedShape& shape, const AnyLayout<F>& at) {
    head.lay_out(arena, at);
    distant.lay_out(arena, at);
    const std::int64_t most = at.block_rows();
    near.lay_out(arena, shape, /*has_gradients=*/true);
    block.lay_out(arena, at, /*has_gradients=*/true);
    tokens_transposed = arena.take<F>(at.neighbours * at.padded);
    v_transposed = arena.take<P>(factors_in<P>(at.d) * at.key_columns);
    dk = arena.take<F>(at.rows_of(at.keys, at.padded));
    dv = arena.take<F>(at.rows_of(at.keys, at.padded));
    dout = arena.take<F>(at.rows_of(most, at.padded));
    dunit = arena.take<F>(at.rows_of(most, at.padded));
    dquery = arena.take<F>(at.rows_of(most, at.padded));
    dscores = arena.take<F>(at.rows_of(most, at.columns()));
    dlearned = arena.take<F>(at.rows_of(most, at.local_columns));
    if constexpr (kPairs<T>) {
      k = arena.take<P>(factors_in<P>(at.keys) * at.padded);
      dout_left = arena.take<P>(at.rows_of(most, block.left_row(at)));
      ds = arena.take<bfloat16>(at.rows_of(most, at.key_columns));
      p_left = arena.take<P>(at.rows_of(factors_in<P>(most), at.key_columns));
      ds_left = arena.take<P>(at.rows_of(factors_in<P>(most), at.key_columns));
      dout_right = arena.take<P>(factors_in<P>(most) * at.padded);
      q_right = arena.take<P>(factors_in<P>(most) * at.padded);
      logit_sums = arena.take<F>(at.key_columns);
      from_near = arena.take<F>(at.padded);
    } else {
      k = distant.k;
      dout_left = dout_right = dout;
      ds = ds_left = dscores;
      p_left = block.scores;
      q_right = block.query;
    }
  }
  static std::int64_t weights_row(const AnyLayout<F>& at) {
    return kPairs<T> ? at.key_columns : at.columns();
  }
};

/// to [factors of `count`, padded] = pairs of neighbouring rows of from, rounded; a last one that is alone
/// has zeros.
[[maybe_unused]] inline void round_rows(const float* from, std::int64_t count, std::int64_t padded,
                                        Bf16Pair* to) {
  for (std::int64_t i = 0; i < count; i += 2) {
    const float *const row = from + i * padded, *const next = row + padded;
    for (std::int64_t c = 0; c < padded; c += kLanes<float>)
      TwoRounded(load(row + c), i + 1 < count ? load(next + c) : Vec<float>{})
          .store_pairs(to + i / 2 * padded + c);
  }
}

/// The probabilities and gradients of logits of distant keys as factors: of rows i and i + 1, of which the
/// second may be missing. What the gradients add to sums over all queries is taken before they are rounded:
/// to logit_sums, and to `along`, the sum of the products with the logits.
template <class T, int kDim, int kCount>
[[gnu::always_inline]] inline void round_logits(std::int64_t i, bool has_next,
                                                const Layout<float, kDim, kCount>& at, BackwardScratch<T>& s,
                                                Vec<float>& along) {
  const std::int64_t row = at.key_columns, columns = at.columns();
  const float *const p = s.block.scores + i * columns, *const ds = s.dscores + i * columns;
  const float *const logits = s.block.unbiased + i * row, *const scale = s.block.scale + i;
  for (std::int64_t j = 0; j < row; j += kLanes<float>) {
    const Vec<float> first = load(ds + j);
    Vec<float> next{}, next_p{}, sum = load(s.logit_sums + j) + first * scale[0];
    along += first * load(logits + j);
    if (has_next) {
      next = load(ds + columns + j);
      next_p = load(p + columns + j);
      sum += next * scale[1];
      along += next * load(logits + row + j);
    }
    store(s.logit_sums + j, sum);
    TwoRounded(load(p + j), next_p).store_pairs(s.p_left + i / 2 * row + j);
    const TwoRounded gradients(first, next);
    gradients.store_pairs(s.ds_left + i / 2 * row + j);
    gradients.store_rows(s.ds + i * row + j, s.ds + (i + 1) * row + j);
  }
}

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
                     const Layout<F, kDim, kCount>& at, BackwardScratch<T>& s, const PartialSums<F>& sums,
                     RowFetcher<T>& fetcher) {
  constexpr int kN = kLanes<F>;
  QueryBlock<T>& block = s.block;
  fetcher.begin_block(block.tokens[block.rows - 1], block.rows);
  [[maybe_unused]] Vec<F> along{};
  multiply_block(s.dout_left, block.left_row(at), factors_in<Factor<T>>(at.d), s.v_transposed, at.key_columns,
                 s.dscores, at.columns(), at.key_columns, block.rows);
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
    if constexpr (kPairs<T>) {
      if (i % 2 == 1) round_logits(i - 1, /*has_next=*/true, at, s, along);
      if (i % 2 == 0 && i + 1 == block.rows) round_logits(i, /*has_next=*/false, at, s, along);
    }
    if (at.neighbours == 0) continue;
    add_row(dscores + at.key_columns, sums.local_bias, at.local_columns);
    add_row(dlearned, sums.token_bias, at.local_columns);
  }
  if constexpr (kPairs<T>) sums.add_temperature(along, s.head);
}

/// Adds a block's part to the gradients of keys, values and learnable tokens.
template <class T, class F, int kDim, int kCount>
void backward_keys(const Layout<F, kDim, kCount>& at, BackwardScratch<T>& s, const PartialSums<F>& sums) {
  const QueryBlock<T>& block = s.block;
  using P = Factor<T>;
  const int dim_vecs = static_cast<int>(at.padded / kLanes<P>);
  const std::int64_t row = s.weights_row(at), depth = factors_in<P>(block.rows);
  if constexpr (kPairs<T>) round_rows(block.query, block.rows, at.padded, s.q_right);
  for (std::int64_t m = 0; m < at.keys; m += kTileRows) {
    multiply_rows<P, kTileRows, true>({s.p_left + m, 1, row}, s.dout_right, at.padded, depth,
                                      {s.dv + m * at.padded, at.padded}, dim_vecs);
    multiply_rows<P, kTileRows, true>({s.ds_left + m, 1, row}, s.q_right, at.padded, depth,
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
                      BackwardScratch<T>& s, const PartialSums<F>& sums, RowClearer<T>& clearer) {
  constexpr int kN = kLanes<F>;
  const QueryBlock<T>& block = s.block;
  using P = Factor<T>;
  multiply_block(as_factors<T>(s.ds), s.weights_row(at) / kTerms<P>, factors_in<P>(at.keys), s.k, at.padded,
                 s.dquery, at.padded, at.padded, block.rows);
  if (at.neighbours > 0) {
    multiply_block(s.dlearned, at.local_columns, at.neighbours, s.tokens_transposed, at.padded, s.dunit,
                   at.padded, at.padded, block.rows);
  } else {
    set_zero(s.dunit, block.rows * at.padded);
  }
  Vec<F> dtemperature{};
  for (std::int64_t i = 0; i < block.rows; ++i) {
    F* const dquery = s.dquery + i * at.padded;
    // Without pairs, neighbours add to what the distant keys have added.
    F* near = dquery;
    if constexpr (kPairs<T>) {
      near = s.from_near;
      clear_row(near, at.padded);
    }
    if (at.neighbours > 0) {
      add_neighbours<F, kCount>(s.dscores + i * at.columns() + at.key_columns,
                                s.near.k + s.near.row(block.tokens[i], at.padded), block.near(i, at), near);
    }
    // query = (unit + embedding) scale log2 e, and scale = softplus(t) log(keys). Of pairs, the distant keys'
    // part of the two sums over the queries is added before rounding (round_logits).
    const Vec<F> scale = splat<F>(block.scale[i]);
    Vec<F> along{};
    for (std::int64_t c = 0; c < at.padded; c += kN) {
      const Vec<F> to_query = load(near + c), step = to_query * scale;
      along += to_query * load(block.query + i * at.padded + c);
      store(sums.embedding + c, load(sums.embedding + c) + step);
      F* const dunit = s.dunit + i * at.padded + c;
      if constexpr (kPairs<T>) store(dunit, load(dunit) + load(dquery + c) * scale);
      store(dunit, load(dunit) + step);
    }
    dtemperature += along;
  }
  sums.add_temperature(dtemperature, s.head);
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
                    BackwardScratch<T>& s) {
  const auto row = [&](std::int64_t i) { return row_of(args.dout, list, {s.block.tokens[i], 0}); };
  for (std::int64_t i = 0; i < s.block.rows; ++i) {
    if (i + kRowsAhead < s.block.rows) prefetch_row(row(i + kRowsAhead), at.d);
    gather_row<T>(row(i), F(1), s.dout + i * at.padded, at.d);
  }
  const std::int64_t rows = s.block.rows, filling = round_up_to_tile(rows) - rows;
  set_zero(s.dout + rows * at.padded, filling * at.padded);
  if constexpr (kPairs<T>) {
    const std::int64_t left_row = s.block.left_row(at);
    for (std::int64_t i = 0; i < rows; ++i) gather_factors<T>(row(i), F(1), s.dout_left + i * left_row, at.d);
    set_zero(s.dout_left + rows * left_row, filling * left_row);
    pack_right_rows<T>(row, rows, at.d, s.dout_right, at.padded);
  }
}

/// Writes the gradients of the distant keys and values: those of keys have a factor log2 e from the queries.
template <class T, class F, int kDim, int kCount>
void store_distant(const AggregatedBackward<T>& args, const List& list, const Layout<F, kDim, kCount>& at,
                   const BackwardScratch<T>& s) {
  store_unit_gradients<T>(s.dk, s.distant.k, s.distant.inverse, at.keys, at.padded, F(kLn2),
                          key_row(args.dk, list, 0), args.dk.token_stride, at.d);
  for (std::int64_t m = 0; m < at.keys; ++m)
    store_row<T>(s.dv + m * at.padded, F(1), key_row(args.dv, list, m), at.d);
}

/// Adds the distant keys' part to the gradient of the query embedding, from logit_sums.
template <class T, class F, int kDim, int kCount>
void add_embedded(const Layout<F, kDim, kCount>& at, const BackwardScratch<T>& s,
                  const PartialSums<F>& sums) {
  for (std::int64_t m = 0; m < at.keys; ++m) {
    const Vec<F> factor = splat<F>(s.logit_sums[m]);
    for (std::int64_t c = 0; c < at.padded; c += kLanes<F>)
      store(sums.embedding + c, load(sums.embedding + c) + load(s.distant.k + m * at.padded + c) * factor);
  }
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
                   const Layout<F, kDim, kCount>& at, BackwardScratch<T>& s, const PartialSums<F>& sums) {
  const std::int64_t tokens = args.shape.pairs.queries, margin = margin_of(args.shape);
  const bool has_window = at.neighbours > 0;
  s.distant.pack(args.k, args.v, list, s.head, at);
  if constexpr (kPairs<T>) {
    round_rows(s.distant.k, at.keys, at.padded, s.k);
    pack_transposed<T>(key_row(args.v, list, 0), args.v.token_stride, at.keys, at.d, s.v_transposed,
                       at.key_columns);
  } else {
    pack_transposed<F>(s.distant.v, at.padded, at.keys, at.d, s.v_transposed, at.key_columns);
  }
  for (F* sum : {s.dk, s.dv}) set_zero(sum, round_up_to_tile(at.keys) * at.padded);
  if constexpr (kPairs<T>) set_zero(s.logit_sums, at.key_columns);
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
  if constexpr (kPairs<T>) add_embedded(at, s, sums);
  store_distant(args, list, at, s);
  if (!has_window) return;
  s.near.advance(args.local_k, args.local_v, list, tokens, tokens, at, store_near);
  store_near(tokens);
}

/// All gradients of the lists of a task; `own` are its partial sums.
template <class T, class F, int kDim, int kCount>
void backward_lists(const AggregatedBackward<T>& args, const HeadChunk& task, std::byte* scratch, F* own,
                    const Layout<F, kDim, kCount>& at) {
  BackwardScratch<T> s;
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
