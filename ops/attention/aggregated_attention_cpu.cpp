#include "ops/attention/aggregated_blocks_cpu.h"

// Blocks of gathered queries against all distant keys, which are few, and against the keys of neighbouring
// tokens. A row of logits holds both groups, so that one pass over it is the softmax.
//   forward    logits, exponentials, weighted sums of values; the task packs the keys and values of the
//              neighbours of its queries, some rows of the image at a time.
//   backward   logits again and probabilities from the saved lse, then the gradients of everything that the
//              row has read. A task has a head of a sequence to itself, so its sums need no other thread's.

namespace moh {
namespace {

/// Rows of the image whose queries are computed with the same packed keys: a few hundred tokens.
std::int64_t band_rows(const AggregatedShape& s) {
  const std::int64_t rows = 512 / s.width;
  return rows > 4 ? rows : 4;
}

template <class F>
struct ForwardScratch {
  HeadParameters<F> head;
  DistantKeys<F> distant;
  NearKeys<F> near;
  QueryBlock<F> block;
  F* out;  // [block rows, padded]

  void lay_out(Arena& arena, const AggregatedShape& shape, const Layout<F>& at) {
    head.lay_out(arena, at);
    distant.lay_out(arena, at);
    const std::int64_t rows = min_of(shape.height, band_rows(shape) + shape.window);
    near.lay_out(arena, at, at.neighbours > 0 ? rows * shape.width : 0);
    block.lay_out(arena, at);
    out = arena.take<F>(at.rows_of(at.block_rows(), at.padded));
  }
};

/// The logits of a row become exponentials relative to the largest, and 0 where they are -infinity.
template <class F>
struct RowSoftmax {
  F top, sum;
};
template <class F>
[[gnu::always_inline]] inline RowSoftmax<F> exponentials(F* scores, std::int64_t columns) {
  constexpr int kN = kLanes<F>;
  Vec<F> largest = load(scores);
  for (std::int64_t j = kN; j < columns; j += kN) largest = larger<F>(load(scores + j), largest);
  const F top = max_lane<F>(largest);
  const Vec<F> shift = splat<F>(top);
  Vec<F> sum{};
  for (std::int64_t j = 0; j < columns; j += kN) {
    const Vec<F> e = exp2_lanes<F>(load(scores + j) - shift);
    store(scores + j, e);
    sum += e;
  }
  return {top, sum_lanes<F>(sum)};
}

/// Outputs of a block of rows from number `begin` of their list on.
template <int kCount, class T, class F>
void forward_block(const AggregatedForward<T>& args, const List& list, std::int64_t begin,
                   const Layout<F>& at, ForwardScratch<F>& s, RowClearer<T>& clearer,
                   RowFetcher<T>& fetcher) {
  constexpr int kN = kLanes<F>;
  QueryBlock<F>& block = s.block;
  score_block<kCount>(args.parameters, args.shape, list.kv_head, s.head, s.distant, s.near, at, block);
  fetcher.begin_block(block.tokens[block.rows - 1], block.rows);
  F sums[kMostRows], tops[kMostRows];
  // Lanes after the last row, whose logarithms are dropped.
  for (std::int64_t i = block.rows; i < kMostRows; ++i) {
    sums[i] = F(1);
    tops[i] = F(0);
  }
  for (std::int64_t i = 0; i < block.rows; ++i) {
    fetcher.step(at.d);
    if (begin + block.rows + i < list.rows)
      prefetch_row(row_of(args.q, list, pair_at(list, begin + block.rows + i)), at.d);
    F* scores = block.scores + i * at.columns();
    const RowSoftmax<F> softmax = exponentials(scores, at.columns());
    sums[i] = softmax.sum;
    tops[i] = softmax.top;
    F* local = scores + at.key_columns;
    for (std::int64_t j = 0; j < at.local_columns; j += kN)
      store(local + j, load(local + j) + load(block.learned + i * at.local_columns + j) * softmax.sum);
  }
  if (args.lse != nullptr) {
    for (std::int64_t i = 0; i < block.rows; i += kN) {
      const Vec<F> lse = load(tops + i) + log2_lanes<F>(load(sums + i));
      const std::int64_t rest = block.rows - i;
      F* to = args.lse + list.first + begin + i;
      rest >= kN ? store(to, lse) : store_first<F>(to, lse, rest);
    }
  }
  multiply_block<false>(block.scores, at.columns(), at.keys, s.distant.v, at.padded, s.out, at.padded,
                        at.padded, block.rows);
  clearer.up_to(block.tokens[block.rows - 1] + 1);
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const Pair pair{block.tokens[i], 0};
    F* out = s.out + i * at.padded;
    if (at.neighbours > 0) {
      add_neighbours<F, kCount>(block.scores + i * at.columns() + at.key_columns,
                                s.near.v + (pair.token - s.near.first) * at.padded,
                                block.template near<kCount>(i, at), out);
    }
    const F gate = args.gates ? args.gates[gate_index(args.shape.pairs, list, pair)] : F(1);
    store_row<T>(out, gate / sums[i], row_of(args.out, list, pair), at.d);
  }
}

/// The number of the first row in [begin, end) of a list whose token is `token` or a later one.
std::int64_t first_row_from(const List& list, std::int64_t begin, std::int64_t end, std::int64_t token) {
  while (begin < end) {
    const std::int64_t middle = (begin + end) / 2;
    if (pair_at(list, middle).token < token) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// ---- backward ----

/// Sums over the queries of a head.
template <class F>
struct PartialSums {
  F *position_bias, *embedding, *temperature, *local_bias, *token_bias, *tokens;
  std::int64_t size;

  /// Slices of `data`; null only computes the size.
  PartialSums(F* data, const AggregatedShape& shape, const Layout<F>& at) {
    Arena arena(reinterpret_cast<std::byte*>(data));
    position_bias = arena.take<F>(shape.pairs.queries * at.key_columns);
    embedding = arena.take<F>(at.padded);
    temperature = arena.take<F>(1);
    local_bias = arena.take<F>(at.local_columns);
    token_bias = arena.take<F>(at.local_columns);
    tokens = arena.take<F>(round_up_to_tile(at.d) * at.local_columns);
    size = static_cast<std::int64_t>(arena.used_bytes() / sizeof(F));
  }
};

template <class F>
struct BackwardScratch {
  HeadParameters<F> head;
  DistantKeys<F> distant;
  NearKeys<F> near;
  QueryBlock<F> block;
  F* tokens_transposed;      // [neighbours, padded]
  F* v_transposed;           // [d, key_columns]
  F *dk, *dv;                // [keys, padded] in whole tiles
  F *dnear_k, *dnear_v;      // [tokens, padded]
  F *dout, *dunit, *dquery;  // [block rows, padded]
  F* dscores;                // [block rows, columns]
  F* dlearned;               // [block rows, local_columns]

  void lay_out(Arena& arena, const AggregatedShape& shape, const Layout<F>& at) {
    head.lay_out(arena, at);
    distant.lay_out(arena, at);
    const std::int64_t near_rows = at.neighbours > 0 ? shape.pairs.queries : 0, most = at.block_rows();
    near.lay_out(arena, at, near_rows);
    block.lay_out(arena, at);
    tokens_transposed = arena.take<F>(at.neighbours * at.padded);
    v_transposed = arena.take<F>(at.d * at.key_columns);
    dk = arena.take<F>(at.rows_of(at.keys, at.padded));
    dv = arena.take<F>(at.rows_of(at.keys, at.padded));
    dnear_k = arena.take<F>(near_rows * at.padded);
    dnear_v = arena.take<F>(near_rows * at.padded);
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
template <class F>
[[gnu::always_inline]] inline F softmax_gradient(F* scores, F* dscores, const F* learned, F* dlearned, F lse,
                                                 F gate, const Layout<F>& at) {
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
template <int kCount, class T, class F>
void backward_logits(const AggregatedBackward<T>& args, const List& list, std::int64_t begin,
                     const Layout<F>& at, BackwardScratch<F>& s, const PartialSums<F>& sums,
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
      neighbour_dots<F, kCount>(s.dout + i * at.padded, s.near.v + pair.token * at.padded,
                                block.template near<kCount>(i, at), dscores + at.key_columns);
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
    add_row(dscores, sums.position_bias + pair.token * at.key_columns, at.key_columns);
    if (at.neighbours == 0) continue;
    add_row(dscores + at.key_columns, sums.local_bias, at.local_columns);
    add_row(dlearned, sums.token_bias, at.local_columns);
  }
}

/// What a block adds to the gradients of keys, values and learnable tokens.
template <int kCount, class F>
void backward_keys(const Layout<F>& at, BackwardScratch<F>& s, const PartialSums<F>& sums) {
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
    const std::int64_t local = i * at.columns() + at.key_columns, around = block.tokens[i] * at.padded;
    const auto near = block.template near<kCount>(i, at);
    add_to_neighbours<F, kCount>(s.dscores + local, block.query + i * at.padded, near, s.dnear_k + around);
    add_to_neighbours<F, kCount>(block.scores + local, s.dout + i * at.padded, near, s.dnear_v + around);
  }
  for (std::int64_t c = 0; c < at.d; c += kTileRows) {
    multiply_rows<F, kTileRows, true>({block.unit + c, 1, at.padded}, s.dlearned, at.local_columns,
                                      block.rows, {sums.tokens + c * at.local_columns, at.local_columns},
                                      static_cast<int>(at.local_columns / kLanes<F>));
  }
}

/// dq of a block, and what it adds to the gradients of the query embedding and the temperature.
template <int kCount, class T, class F>
void backward_queries(const AggregatedBackward<T>& args, const List& list, const Layout<F>& at,
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
                                s.near.k + block.tokens[i] * at.padded, block.template near<kCount>(i, at),
                                dquery);
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
  clearer.up_to(block.tokens[block.rows - 1] + 1);
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const Pair pair{block.tokens[i], 0};
    store_row<T>(s.dunit + i * at.padded, F(1), row_of(args.dq, list, pair), at.d);
  }
}

/// Writes the gradients of keys and values [begin, end): those of keys have a factor log2 e from the queries.
template <class T, class F>
void store_key_gradients(F* dk, const F* unit, const F* inverse, const F* dv, std::int64_t begin,
                         std::int64_t end, const List& list, const HeadView<T>& to_k, const HeadView<T>& to_v,
                         const Layout<F>& at) {
  unit_gradients(dk + begin * at.padded, unit + begin * at.padded, inverse + begin, end - begin, at.padded);
  for (std::int64_t t = begin; t < end; ++t) {
    store_row<T>(dk + t * at.padded, F(kLn2), key_row(to_k, list, t), at.d);
    store_row<T>(dv + t * at.padded, F(1), key_row(to_v, list, t), at.d);
  }
}

/// Gathers the gradients of a block's outputs.
template <class T, class F>
void gather_outputs(const AggregatedBackward<T>& args, const List& list, const Layout<F>& at,
                    BackwardScratch<F>& s) {
  const auto row = [&](std::int64_t i) { return row_of(args.dout, list, {s.block.tokens[i], 0}); };
  for (std::int64_t i = 0; i < s.block.rows; ++i) {
    if (i + kRowsAhead < s.block.rows) prefetch_row(row(i + kRowsAhead), at.d);
    gather_row<T>(row(i), F(1), s.dout + i * at.padded, at.d);
  }
  set_zero(s.dout + s.block.rows * at.padded, (round_up_to_tile(s.block.rows) - s.block.rows) * at.padded);
}

/// All gradients of one head of one sequence, whether or not the last of the task.
template <int kCount, class T, class F>
void backward_list(const AggregatedBackward<T>& args, const List& list, bool is_last, const Layout<F>& at,
                   BackwardScratch<F>& s, const PartialSums<F>& sums) {
  const std::int64_t tokens = args.shape.pairs.queries, near_rows = at.neighbours > 0 ? tokens : 0;
  s.distant.pack(args.k, args.v, list, at);
  pack_transposed<F>(s.distant.v, at.padded, at.keys, at.d, s.v_transposed, at.key_columns);
  if (near_rows > 0) s.near.pack(args.local_k, args.local_v, list, 0, tokens, at);
  for (F* sum : {s.dk, s.dv}) set_zero(sum, round_up_to_tile(at.keys) * at.padded);
  for (F* sum : {s.dnear_k, s.dnear_v}) set_zero(sum, near_rows * at.padded);
  RowClearer<T> clearer(args.dq, list, 0, at.d);
  RowFetcher<T> fetcher;
  fetcher.will_write(row_of(args.dq, list, {0, 0}), args.dq.token_stride);
  std::int64_t stored = 0;  // gradients of neighbours that no later query changes
  const auto store_near = [&](std::int64_t end) {
    if (end <= stored) return;
    store_key_gradients(s.dnear_k, s.near.k, s.near.inverse, s.dnear_v, stored, end, list, args.dlocal_k,
                        args.dlocal_v, at);
    stored = end;
  };
  if (near_rows > 0) {
    fetcher.will_write(key_row(args.dlocal_k, list, 0), args.dlocal_k.token_stride);
    fetcher.will_write(key_row(args.dlocal_v, list, 0), args.dlocal_v.token_stride);
    for (const HeadView<const T>& view : {args.local_k, args.local_v}) {
      const T* const own = key_row(view, list, 0);
      fetcher.will_read(own, is_last ? nullptr : own + view.batch_stride, view.token_stride, tokens, tokens);
    }
  }
  for (std::int64_t begin = 0; begin < list.rows; begin += at.block_rows()) {
    const std::int64_t rows = min_of(at.block_rows(), list.rows - begin);
    gather_queries<T>(args, list, begin, rows, s.head, at, s.block);
    gather_outputs(args, list, at, s);
    score_block<kCount>(args.parameters, args.shape, list.kv_head, s.head, s.distant, s.near, at, s.block);
    backward_logits<kCount>(args, list, begin, at, s, sums, fetcher);
    backward_keys<kCount>(at, s, sums);
    backward_queries<kCount>(args, list, at, s, sums, clearer);
    if (near_rows > 0)
      store_near(s.block.tokens[rows - 1] + 1 - args.shape.window / 2 * (args.shape.width + 1));
  }
  clearer.up_to(tokens);
  store_key_gradients(s.dk, s.distant.k, s.distant.inverse, s.dv, 0, at.keys, list, args.dk, args.dv, at);
  store_near(near_rows);
}

/// to [rows, count] = the first `count` elements of rows of `row` elements.
template <class F>
void take_columns(const F* from, std::int64_t rows, std::int64_t row, std::int64_t count, F* to) {
  for (std::int64_t i = 0; i < rows; ++i) copy_rows(from + i * row, to + i * count, count);
}

}  // namespace

template <class Backend, class T>
void AggregatedKernels<Backend, T>::find_places(const AggregatedShape& s, const WindowPlaces<F>& to) {
  const std::int64_t reach = s.window / 2, sides = reach + 1, columns = s.padded_neighbours();
  const auto room = [&](std::int64_t position) { return min_of(position, reach); };
  for (std::int64_t place = 0; place < s.places(); ++place) {
    // Rows above and below, columns left and right of the token that are inside the image.
    const std::int64_t above = place / sides / sides / sides, below = place / sides / sides % sides;
    const std::int64_t left = place / sides % sides, right = place % sides;
    std::int64_t inside = 0;
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t dy = j / s.window - reach, dx = j % s.window - reach;
      const bool seen = j < s.neighbours() && -dy <= above && dy <= below && -dx <= left && dx <= right;
      to.mask[place * columns + j] = seen ? F(0) : -std::numeric_limits<F>::infinity();
      if (j < s.neighbours())
        to.offsets[place * s.neighbours() + j] = seen ? static_cast<std::int32_t>(dy * s.width + dx) : 0;
      inside += seen;
    }
    to.log_keys[place] = std::log(static_cast<F>(inside + s.pairs.keys));
  }
  for (std::int64_t t = 0; t < s.pairs.queries; ++t) {
    const std::int64_t y = t / s.width, x = t % s.width;
    const std::int64_t rows = room(y) * sides + room(s.height - 1 - y);
    to.of_token[t] = static_cast<std::int32_t>((rows * sides + room(x)) * sides + room(s.width - 1 - x));
  }
}

template <class Backend, class T>
std::size_t AggregatedKernels<Backend, T>::forward_scratch_bytes(const AggregatedShape& shape) {
  Arena arena(nullptr);
  ForwardScratch<F>().lay_out(arena, shape, Layout<F>(shape));
  return arena.used_bytes();
}

template <class Backend, class T>
void AggregatedKernels<Backend, T>::forward(const AggregatedForward<T>& args, const RowTask& task,
                                            std::byte* scratch) {
  const AggregatedShape& shape = args.shape;
  const Layout<F> at(shape);
  const List list = list_at(shape.pairs, args.lists, task.list);
  ForwardScratch<F> s;
  Arena arena(scratch);
  s.lay_out(arena, shape, at);
  RowClearer<T> clearer(args.out, list, task.begin, at.d);
  if (task.begin < task.end) {
    s.head.load_head(args.parameters, list.kv_head, at);
    s.distant.pack(args.k, args.v, list, at);
  }
  const std::int64_t reach = shape.window / 2, band = band_rows(shape);
  RowFetcher<T> fetcher;
  fetcher.will_write(row_of(args.out, list, {0, 0}), args.out.token_stride);
  if (at.neighbours > 0) {
    const std::int64_t lists = shape.pairs.batch * shape.pairs.heads;
    const List next = list_at(shape.pairs, {}, min_of(task.list + 1, lists - 1));
    for (const HeadView<const T>& view : {args.local_k, args.local_v}) {
      fetcher.will_read(key_row(view, list, 0), key_row(view, next, 0), view.token_stride,
                        (band + reach) * shape.width, shape.pairs.queries);
    }
  }
  for (std::int64_t row = task.begin; row < task.end;) {
    std::int64_t end = task.end;
    if (at.neighbours > 0) {
      const std::int64_t y = pair_at(list, row).token / shape.width;
      end = first_row_from(list, row, end, (y + band) * shape.width);
      s.near.pack(args.local_k, args.local_v, list, (y > reach ? y - reach : 0) * shape.width,
                  min_of(shape.height, y + band + reach) * shape.width, at);
    }
    for (; row < end; row += s.block.rows) {
      gather_queries<T>(args, list, row, min_of(at.block_rows(), end - row), s.head, at, s.block);
      with_window(at.neighbours,
                  [&](auto count) { forward_block<count()>(args, list, row, at, s, clearer, fetcher); });
    }
  }
  if (task.end == list.rows) clearer.up_to(shape.pairs.queries);
}

template <class Backend, class T>
std::size_t AggregatedKernels<Backend, T>::backward_scratch_bytes(const AggregatedShape& shape) {
  Arena arena(nullptr);
  BackwardScratch<F>().lay_out(arena, shape, Layout<F>(shape));
  return arena.used_bytes();
}

template <class Backend, class T>
std::int64_t AggregatedKernels<Backend, T>::partial_size(const AggregatedShape& shape) {
  return PartialSums<F>(nullptr, shape, Layout<F>(shape)).size;
}

template <class Backend, class T>
void AggregatedKernels<Backend, T>::backward(const AggregatedBackward<T>& args, const HeadChunk& task,
                                             std::byte* scratch) {
  const Layout<F> at(args.shape);
  BackwardScratch<F> s;
  Arena arena(scratch);
  s.lay_out(arena, args.shape, at);
  const std::int64_t size = partial_size(args.shape);
  F* own = args.partials + (task.head * args.chunks + task.chunk) * size;
  set_zero(own, size);
  const PartialSums<F> sums(own, args.shape, at);
  s.head.load_head(args.parameters, task.head, at);
  if (at.neighbours > 0) {
    pack_transposed<F>(s.head.tokens, at.local_columns, at.d, at.neighbours, s.tokens_transposed, at.padded);
  }
  for (std::int64_t b = task.begin; b < task.end; ++b) {
    const List list = list_at(args.shape.pairs, args.lists, b * args.shape.pairs.heads + task.head);
    with_window(at.neighbours,
                [&](auto count) { backward_list<count()>(args, list, b + 1 == task.end, at, s, sums); });
  }
}

template <class Backend, class T>
void AggregatedKernels<Backend, T>::sum_partials(const AggregatedBackward<T>& args, std::int64_t head,
                                                 const AggregatedParameters<F>& to) {
  const Layout<F> at(args.shape);
  const std::int64_t size = partial_size(args.shape), tokens = args.shape.pairs.queries;
  F* total = args.partials + head * args.chunks * size;
  for (std::int64_t chunk = 1; chunk < args.chunks; ++chunk) add_row(total + chunk * size, total, size);
  const PartialSums<F> sums(total, args.shape, at);
  const auto take = [&](const F* from, std::int64_t rows, std::int64_t row, std::int64_t count, F* result) {
    take_columns(from, rows, row, count, result + head * rows * count);
  };
  take(sums.position_bias, tokens, at.key_columns, at.keys, to.position_bias);
  take(sums.embedding, 1, at.padded, at.d, to.query_embedding);
  take(sums.temperature, 1, 1, 1, to.temperature);
  if (at.neighbours == 0) return;
  take(sums.local_bias, 1, at.local_columns, at.neighbours, to.local_bias);
  take(sums.token_bias, 1, at.local_columns, at.neighbours, to.token_bias);
  take(sums.tokens, at.d, at.local_columns, at.neighbours, to.tokens);
}

template struct AggregatedKernels<cpu::MOH_ISA, float>;
template struct AggregatedKernels<cpu::MOH_ISA, bfloat16>;
template struct AggregatedKernels<cpu::MOH_ISA, double>;

}  // namespace moh
