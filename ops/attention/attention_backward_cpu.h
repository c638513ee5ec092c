#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// The backward pass of head-sparse attention: a block of keys against all rows that see it.

#include "ops/attention/attention_blocks_cpu.h"

namespace moh {
namespace {

template <class T>
struct BackwardScratch {
  using F = Acc<T>;
  using P = Factor<T>;

  // Per gathered row. Rows are padded to whole tiles with zeros.
  P *q, *dout;              // [rows, row_factors]: floats times scale log2 e, and times the gate
  P *q_right, *dout_right;  // factors along the rows, [rows, padded d]; without pairs the ones above
  F* dq;                    // [rows, padded d], of a group of keys
  F* earlier = nullptr;     // dq of the groups before, for a task of several
  F *delta, *gate;          // gate: of pairs alone
  Range* seen;
  std::int64_t* first_weight;  // in the dropout mask
  // Per key block.
  P *k_transposed, *v_transposed;  // [factors of d, kKeyBlock]
  P* k;                            // [kKeyBlock, padded d], factors along the keys
  F *dk, *dv;                      // [kKeyBlock, padded d]
  // Per row block and key block.
  F *scores, *dp;       // [kMaxRowBlock, kKeyBlock]
  Weight<T>* ds;        // likewise: gradients of scores as factors along the keys
  P *p_left, *ds_left;  // factors along the rows: probabilities, of pairs times the gate, and ds. Without
                        // pairs all are in place of scores and dp.

  void lay_out(Arena& arena, std::int64_t d, std::int64_t rows, bool sums_groups) {
    const std::int64_t padded = round_up_to_lanes<F>(d), tiles = round_up_to_tile(rows);
    q = arena.take<P>(tiles * row_factors<T>(d));
    dout = arena.take<P>(tiles * row_factors<T>(d));
    dq = arena.take<F>(tiles * padded);
    if (sums_groups) earlier = arena.take<F>(tiles * padded);
    delta = arena.take<F>(rows);
    seen = arena.take<Range>(rows);
    first_weight = arena.take<std::int64_t>(rows);
    k_transposed = arena.take<P>(factors_in<P>(d) * kKeyBlock);
    v_transposed = arena.take<P>(factors_in<P>(d) * kKeyBlock);
    k = arena.take<P>(kKeyBlock / kTerms<P> * padded);
    dk = arena.take<F>(kKeyBlock * padded);
    dv = arena.take<F>(kKeyBlock * padded);
    scores = arena.take<F>(kMaxRowBlock * kKeyBlock);
    dp = arena.take<F>(kMaxRowBlock * kKeyBlock);
    if constexpr (kPairs<T>) {
      q_right = arena.take<P>(tiles / 2 * padded);
      dout_right = arena.take<P>(tiles / 2 * padded);
      gate = arena.take<F>(rows);
      ds = arena.take<bfloat16>(kMaxRowBlock * kKeyBlock);
      p_left = arena.take<P>(kMaxRowBlock / 2 * kKeyBlock);
      ds_left = arena.take<P>(kMaxRowBlock / 2 * kKeyBlock);
    } else {
      q_right = q;
      dout_right = dout;
      gate = nullptr;
      p_left = scores;
      ds = ds_left = dp;
    }
  }
};

/// dgates of a list: delta / gate, and 0 for unselected pairs and where the gate is tiny.
template <class T>
void write_dgates(const AttentionBackward<T>& args, const List& list) {
  using F = Acc<T>;
  std::int64_t next = 0;
  const auto zero_up_to = [&](std::int64_t number) {
    for (; next < number; ++next) args.dgates[gate_index(args.shape, list, numbered_pair(list, next))] = F(0);
    next = number + 1;
  };
  for (std::int64_t r = 0; r < list.rows; ++r) {
    const Pair pair = pair_at(list, r);
    const std::int64_t at = gate_index(args.shape, list, pair);
    const F delta =
        dot_rows<T>(row_of(args.dout, list, pair), row_of(args.out, list, pair), args.shape.head_dim);
    zero_up_to(pair_number(list, pair));
    args.dgates[at] = is_tiny_gate(args.gates[at]) ? F(0) : delta / args.gates[at];
  }
  zero_up_to(list.num_pairs);
}

/// Gathers rows [first, first + rows) and computes delta.
template <class T>
void gather_for_backward(const AttentionBackward<T>& args, const List& list, std::int64_t first,
                         std::int64_t rows, BackwardScratch<T>& s) {
  using F = Acc<T>;
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d), row = row_factors<T>(d);
  for (std::int64_t i = 0; i < rows; ++i) {
    const Pair pair = pair_at(list, first + i);
    const F gate = args.gates ? args.gates[gate_index(args.shape, list, pair)] : F(1);
    const T* dout = row_of(args.dout, list, pair);
    s.delta[i] = dot_rows<T>(dout, row_of(args.out, list, pair), d);
    if constexpr (kPairs<T>) s.gate[i] = gate;
    s.seen[i] = visible_keys(args.shape, list.batch, pair.token);
    s.first_weight[i] = first_weight(args.shape, list, pair);
    gather_factors<T>(row_of(args.q, list, pair), F(args.shape.scale * kLog2E), s.q + i * row, d);
    gather_factors<T>(dout, gate, s.dout + i * row, d);
  }
  const std::int64_t tiles = round_up_to_tile(rows);
  set_zero(s.q + rows * row, (tiles - rows) * row);
  set_zero(s.dout + rows * row, (tiles - rows) * row);
  set_zero(s.dq, tiles * padded);
  if constexpr (kPairs<T>) {
    const auto pack_right = [&](const Factor<T>* from, Factor<T>* to) {
      const auto row_at = [&](std::int64_t i) { return reinterpret_cast<const bfloat16*>(from + i * row); };
      pack_right_rows<T>(row_at, tiles, d, to, padded);
    };
    pack_right(s.q, s.q_right);
    pack_right(s.dout, s.dout_right);
  }
}

/// The probabilities of a vector of scores, and the gradients of these, dS = P (m dP - delta): both zero for
/// the keys outside of `seen`. Then the probabilities are those that the values were multiplied with, m P.
template <class F>
struct SoftmaxGradient {
  Vec<F> probability, gradient;

  template <class Keep>
  [[gnu::always_inline]] SoftmaxGradient(Vec<F> score, Vec<F> dp, F lse, F delta, const Range& seen, int vec,
                                         const Keep& keep)
      : probability(exp2_lanes<F>(score - splat<F>(lse))),
        gradient(probability * (keep(dp, vec) - splat<F>(delta))) {
    probability = keep(probability, vec);
    if (seen.end < (vec + 1) * kLanes<F> || seen.begin > vec * kLanes<F>) {
      probability = masked<F>(probability, seen, vec, F(0));
      gradient = masked<F>(gradient, seen, vec, F(0));
    }
  }
};

/// p holds scores, ds holds dP; on return p holds probabilities and ds their gradients, for the keys of
/// `vecs`.
template <class F, class Keep>
[[gnu::always_inline]] inline void softmax_backward_row(F* p, F* ds, VecRange vecs, const Range& seen, F lse,
                                                        F delta, const Keep& keep) {
#pragma GCC unroll 4
  for (int j = vecs.begin; j < vecs.end; ++j) {
    const SoftmaxGradient<F> found(load(p + j * kLanes<F>), load(ds + j * kLanes<F>), lse, delta, seen, j,
                                   keep);
    store(p + j * kLanes<F>, found.probability);
    store(ds + j * kLanes<F>, found.gradient);
  }
}

/// P and dS of rows [begin, begin + rows) against a key block, in place of scores and dP. Weights are dropped
/// by a mask of type Keep.
template <class Keep, class T>
void softmax_backward(const DropoutMask& dropout, BackwardScratch<T>& s, std::int64_t begin,
                      std::int64_t rows, const Acc<T>* lse, std::int64_t key) {
  using F = Acc<T>;
  for (std::int64_t i = 0; i < rows; ++i) {
    F *p = s.scores + i * kKeyBlock, *ds = s.dp + i * kKeyBlock;
    const Range row = in_block(s.seen[begin + i], key);
    const Keep keep(dropout, s.first_weight[begin + i] + key);
    if (row.size() == kKeyBlock) {  // the common case: the number of vectors is a compile-time constant
      softmax_backward_row<F>(p, ds, {0, kKeyVecs<F>}, {0, kKeyBlock}, lse[begin + i], s.delta[begin + i],
                              keep);
      continue;
    }
    const VecRange vecs = vecs_of<F>(row);
    softmax_backward_row<F>(p, ds, vecs, row, lse[begin + i], s.delta[begin + i], keep);
    for (F* values : {p, ds}) {
      set_zero(values, vecs.begin * kLanes<F>);
      set_zero(values + vecs.end * kLanes<F>, kKeyBlock - vecs.end * kLanes<F>);
    }
  }
}

/// P times the gate and dS of rows [begin, begin + rows) against a key block, as factors along the rows, and
/// dS as factors along the keys. Weights are dropped by a mask of type Keep.
template <class Keep, class T>
void softmax_backward_pairs(const AttentionShape& shape, BackwardScratch<T>& s, std::int64_t begin,
                            std::int64_t rows, const float* lse, std::int64_t key) {
  using P = Factor<T>;
  constexpr std::int64_t kN = kLanes<float>;
  const auto factor = static_cast<float>(shape.scale * kLog2E);
  const auto gradient_of = [&](std::int64_t i, const Range& seen, int vec, const Keep& keep)
      __attribute__((always_inline)) {
    const std::int64_t at = i * kKeyBlock + vec * kN;
    return SoftmaxGradient<float>(load(s.scores + at) * factor, load(s.dp + at) * s.gate[begin + i],
                                  lse[begin + i], s.delta[begin + i], seen, vec, keep);
  };
  for (std::int64_t i = 0; i < rows; i += 2) {
    const bool has_next = i + 1 < rows;
    const std::int64_t next = has_next ? i + 1 : i;
    const Range first_seen = in_block(s.seen[begin + i], key),
                next_seen = has_next ? in_block(s.seen[begin + next], key) : Range{0, 0};
    const Keep keep(shape.dropout, s.first_weight[begin + i] + key),
        next_keep(shape.dropout, s.first_weight[begin + next] + key);
    const float gate = s.gate[begin + i], next_gate = s.gate[begin + next];
    P *const p_left = s.p_left + i / 2 * kKeyBlock, *const ds_left = s.ds_left + i / 2 * kKeyBlock;
    bfloat16 *const ds = s.ds + i * kKeyBlock, *const next_ds = ds + kKeyBlock;
    const auto vector = [&](int j) __attribute__((always_inline)) {
      const SoftmaxGradient<float> a = gradient_of(i, first_seen, j, keep),
                                   b = gradient_of(next, next_seen, j, next_keep);
      TwoRounded(a.probability * gate, b.probability * next_gate).store_pairs(p_left + j * kN);
      const TwoRounded gradients(a.gradient, b.gradient);
      gradients.store_pairs(ds_left + j * kN);
      gradients.store_rows(ds + j * kN, next_ds + j * kN);
    };
    const int first_end = vecs_of<float>(first_seen).end, next_end = vecs_of<float>(next_seen).end;
    const int end = first_end > next_end ? first_end : next_end;
    if (end == kKeyVecs<float>) {  // the common case: the number of vectors is a compile-time constant
#pragma GCC unroll 4
      for (int j = 0; j < kKeyVecs<float>; ++j) vector(j);
      continue;
    }
    for (int j = 0; j < end; ++j) vector(j);
    const std::int64_t rest = kKeyBlock - end * kN;
    for (P* factors : {p_left, ds_left}) set_zero(factors + end * kN, rest);
    for (bfloat16* row : {ds, next_ds}) set_zero(row + end * kN, rest);
  }
}

/// Scores and dP of rows [begin, begin + rows) against a key block, then P and dS.
template <class T>
void backward_scores(const AttentionShape& shape, BackwardScratch<T>& s, std::int64_t begin,
                     std::int64_t rows, const Acc<T>* lse, std::int64_t key) {
  const std::int64_t d = shape.head_dim, row = row_factors<T>(d);
  const Range* seen = s.seen + begin;
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    multiply_by_keys<T>(s.q + (begin + i) * row, s.k_transposed, seen_by_tile(seen, i, rows, key), d,
                        s.scores + i * kKeyBlock);
  }
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    multiply_by_keys<T>(s.dout + (begin + i) * row, s.v_transposed, seen_by_tile(seen, i, rows, key), d,
                        s.dp + i * kKeyBlock);
  }
  const auto gradients = [&]<class Keep>() {
    if constexpr (kPairs<T>) {
      softmax_backward_pairs<Keep>(shape, s, begin, rows, lse, key);
    } else {
      softmax_backward<Keep>(shape.dropout, s, begin, rows, lse, key);
    }
  };
  if (shape.dropout.drops()) {
    gradients.template operator()<KeepSome<Acc<T>>>();
  } else {
    gradients.template operator()<KeepAll>();
  }
}

/// dk and dv of kRows keys of the block from `key_in_block` on: contributions of `rows`, counted from
/// `begin`.
template <class T, int kRows>
void add_key_gradients(BackwardScratch<T>& s, std::int64_t begin, const Range& rows,
                       std::int64_t key_in_block, std::int64_t padded) {
  using P = Factor<T>;
  if (rows.size() <= 0) return;
  const int dim_vecs = static_cast<int>(padded / kLanes<P>);
  const std::int64_t first = rows.begin / kTerms<P>, depth = factors_in<P>(rows.end) - first;
  const std::int64_t element = first * kKeyBlock + key_in_block, row = (begin / kTerms<P> + first) * padded;
  multiply_rows<P, kRows, true>({s.p_left + element, 1, kKeyBlock}, s.dout_right + row, padded, depth,
                                {s.dv + key_in_block * padded, padded}, dim_vecs);
  multiply_rows<P, kRows, true>({s.ds_left + element, 1, kKeyBlock}, s.q_right + row, padded, depth,
                                {s.dk + key_in_block * padded, padded}, dim_vecs);
}

/// Contributions of rows [begin, begin + rows) to dk and dv of a block of `keys` keys, and of the
/// block to dq.
template <class T>
void backward_step(const AttentionShape& shape, BackwardScratch<T>& s, std::int64_t begin, std::int64_t rows,
                   const Acc<T>* lse, std::int64_t key, std::int64_t keys) {
  const std::int64_t d = shape.head_dim, padded = round_up_to_lanes<Acc<T>>(d);
  backward_scores(shape, s, begin, rows, lse, key);
  const Range* seen = s.seen + begin;
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    add_weighted_keys<T>(s.ds + i * kKeyBlock, s.k, seen_by_tile(seen, i, rows, key), d,
                         s.dq + (begin + i) * padded);
  }
  constexpr std::int64_t kLastTile = kKeyBlock / kTileRows * kTileRows;
  Range seeing{0, 0};  // rows that see keys of the tile
  for (std::int64_t tile = 0; tile < keys; tile += kTileRows) {
    while (seeing.begin < rows && seen[seeing.begin].end - key <= tile) ++seeing.begin;
    while (seeing.end < rows && seen[seeing.end].begin - key < tile + kTileRows) ++seeing.end;
    if (tile < kLastTile) {
      add_key_gradients<T, kTileRows>(s, begin, seeing, tile, padded);
    } else {
      add_key_gradients<T, kKeyBlock - kLastTile>(s, begin, seeing, tile, padded);
    }
  }
}

template <class T>
void pack_key_block(const AttentionBackward<T>& args, const List& list, std::int64_t key, std::int64_t keys,
                    BackwardScratch<T>& s) {
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<Acc<T>>(d);
  const T* k = key_row(args.k, list, key);
  pack_transposed<T>(k, args.k.token_stride, keys, d, s.k_transposed, kKeyBlock);
  pack_transposed<T>(key_row(args.v, list, key), args.v.token_stride, keys, d, s.v_transposed, kKeyBlock);
  pack_right_rows<T>([&](std::int64_t i) { return k + i * args.k.token_stride; }, keys, d, s.k, padded);
  set_zero(s.dk, kKeyBlock * padded);
  set_zero(s.dv, kKeyBlock * padded);
}

/// The tiles of the `rows` gathered rows that see some of `keys`. `before`: the tiles of keys before them.
inline Range tiles_seeing(const Range* seen, std::int64_t rows, const Range& keys, const Range& before) {
  Range found = before;
  while (found.begin < rows && seen[found.begin].end <= keys.begin) ++found.begin;
  while (found.end < rows && seen[found.end].begin < keys.end) ++found.end;
  return {found.begin / kTileRows * kTileRows, min_of(round_up_to_tile(found.end), rows)};
}

/// dk and dv of `group`, a group of keys, and its contribution to dq. `seeing`: rows that see some of the
/// group.
template <class T>
void backward_group(const AttentionBackward<T>& args, const List& list, const Range& group, const Acc<T>* lse,
                    std::int64_t rows, const Range& seeing, BackwardScratch<T>& s) {
  using F = Acc<T>;
  const F dk_factor = F(kPairs<T> ? args.shape.scale : kLn2);  // ln 2 undoes log2 e in q
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d);
  Range tiles{seeing.begin, seeing.begin};
  for (std::int64_t key = group.begin; key < group.end; key += kKeyBlock) {
    const std::int64_t keys = min_of(kKeyBlock, group.end - key);
    pack_key_block(args, list, key, keys, s);
    tiles = tiles_seeing(s.seen, rows, {key, key + keys}, tiles);
    for (std::int64_t begin = tiles.begin; begin < tiles.end; begin += row_block(d)) {
      backward_step(args.shape, s, begin, min_of(row_block(d), tiles.end - begin), lse, key, keys);
    }
    for (std::int64_t i = 0; i < keys; ++i) {
      store_row<T>(s.dk + i * padded, dk_factor, key_row(args.dk, list, key + i), d);
      store_row<T>(s.dv + i * padded, F(1), key_row(args.dv, list, key + i), d);
    }
  }
}

/// Adds dq of a group of keys, which `rows` see, to that of the groups before.
template <class T>
void add_group(BackwardScratch<T>& s, const Range& rows, std::int64_t padded) {
  for (std::int64_t r = rows.begin; r < rows.end; ++r)
    add_row(s.dq + r * padded, s.earlier + r * padded, padded);
}

/// dq of rows [begin, end) of a list: the sum of the contributions of the groups of keys that a row sees,
/// accumulated in the first of them. shares points at row `begin` of group 0.
template <class T, class F>
void finish_queries(const AttentionBackward<T>& args, const List& list, std::int64_t begin, std::int64_t end,
                    F* shares, std::int64_t share_stride, std::int64_t group_keys) {
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d);
  GapFiller<T> gaps(args.dq, list, begin, d);
  for (std::int64_t r = begin; r < end; ++r) {
    const Pair pair = pair_at(list, r);
    const Range seen = visible_keys(args.shape, list.batch, pair.token);
    F* total = shares + seen.begin / group_keys * share_stride + (r - begin) * padded;
    const F* share = total;
    for (std::int64_t group = seen.begin / group_keys + 1; group * group_keys < seen.end; ++group)
      add_row(share += share_stride, total, padded);
    gaps.zero_up_to(pair);
    store_row<T>(total, F(args.shape.scale), row_of(args.dq, list, pair), d);
  }
  if (end == list.rows) gaps.zero_rest();
}

}  // namespace
}  // namespace moh
