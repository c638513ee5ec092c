#include "ops/attention/attention_kernels.h"
#include "ops/attention/list_walk.h"
#include "ops/attention/softmax_cpu.h"
#include "ops/cpu/pack.h"
#include "ops/cpu/tile.h"

// Head-sparse attention in cache-sized blocks. For one list (the gathered rows of a batch and KV head)
// against dense keys and values:
//   forward    blocks of rows; for each, all blocks of kKeyBlock keys: scores, online softmax in base 2
//              (log2 e is folded into q), multiplication with v.
//   backward   blocks of kKeyBlock keys; for each, all blocks of rows: scores and probabilities again
//              from the saved lse, then the four matrix multiplications of dq, dk and dv, which stay in
//              cache meanwhile.
// Operands are packed first: q and dout rows gathered, k and v transposed where they are the right operand.
// Factor<T> is the type of packed factors, Acc<T> that of sums and of the softmax. Pairs of bfloat16 along
// the summed axis keep the bits of q, k, v and dout: the scale and the gate are multiplied with the products,
// in float32. What the softmax makes is rounded to bfloat16 once, as factors of the next product. The mask
// gives each row a range of keys, whose ends ascend with the rows, since these ascend by position: a tile
// sees the keys from the begin of its first row's range to the end of its last row's. Key blocks outside are
// skipped, and matrix multiplications are only as wide or as deep as the tile sees.

namespace moh {
namespace {

constexpr std::int64_t kMaxRowBlock = std::int64_t{12} * kTileRows;
/// Rows per block, such that the operands of a block and of a key block fit in L1 or little more.
std::int64_t row_block(std::int64_t head_dim) {
  return head_dim <= 64 ? kMaxRowBlock : std::int64_t{8} * kTileRows;
}
constexpr double kLn2 = 0.6931471805599453;

// ---- forward ----

/// Whether factors are pairs.
template <class T>
constexpr bool kPairs = kTerms<Factor<T>> == 2;
/// The type of probabilities and of gradients of scores, elements of factors.
template <class T>
using Weight = std::conditional_t<kPairs<T>, bfloat16, Acc<T>>;

/// `count` elements as factors.
template <class T>
Factor<T>* as_factors(Weight<T>* elements) {
  return reinterpret_cast<Factor<T>*>(elements);
}

/// The state of a block of rows, which is carried from key block to key block.
template <class T>
struct RowBlock {
  using F = Acc<T>;

  Factor<T>* q;              // [kMaxRowBlock, row_factors], floats times scale log2 e
  F* scores;                 // [kMaxRowBlock, kKeyBlock]
  Weight<T>* weights;        // [kMaxRowBlock, kKeyBlock]: their exponentials; without pairs in their place
  F* out;                    // [kMaxRowBlock, padded d], not yet divided by the sum
  F* sum;                    // [kMaxRowBlock, lanes]: the softmax denominator, one part per lane
  F factor;                  // of scores, where q is not scaled
  F top[kMaxRowBlock];       // the largest score so far
  Range seen[kMaxRowBlock];  // visible keys
  std::int64_t rows = 0;
};

/// The keys of the block from `key` on that a tile sees, rows [begin, end) of `rows`.
[[gnu::always_inline]] inline Range seen_by_tile(const Range* seen, std::int64_t begin, std::int64_t rows,
                                                 std::int64_t key) {
  const std::int64_t last = min_of(begin + kTileRows, rows) - 1;
  return in_block({seen[begin].begin, seen[last].end}, key);
}

template <class T>
struct ForwardScratch {
  Factor<T>*k_transposed, *v;
  RowBlock<T> block;

  void lay_out(Arena& arena, const AttentionShape& shape, std::int64_t keys) {
    using F = Acc<T>;
    using P = Factor<T>;
    const std::int64_t padded = round_up_to_lanes<F>(shape.head_dim);
    const std::int64_t key_rows = (keys + kKeyBlock - 1) / kKeyBlock * kKeyBlock;
    k_transposed = arena.take<P>(key_rows * factors_in<P>(shape.head_dim));
    v = arena.take<P>(factors_in<P>(keys) * padded);
    block.q = arena.take<P>(kMaxRowBlock * row_factors<T>(shape.head_dim));
    block.scores = arena.take<F>(kMaxRowBlock * kKeyBlock);
    if constexpr (kPairs<T>) {
      block.weights = arena.take<bfloat16>(kMaxRowBlock * kKeyBlock);
    } else {
      block.weights = block.scores;
    }
    block.out = arena.take<F>(kMaxRowBlock * padded);
    block.sum = arena.take<F>(kMaxRowBlock * kLanes<F>);
  }
};

/// The online softmax of rows [begin, end), one tile, which sees `seen` of the block.
template <class T>
void softmax_tile(RowBlock<T>& block, std::int64_t begin, std::int64_t end, std::int64_t key,
                  const Range& seen, std::int64_t padded) {
  using F = Acc<T>;
  const bool all = in_block({block.seen[end - 1].begin, block.seen[begin].end}, key).size() == kKeyBlock;
  const VecRange vecs = vecs_of<F>(seen);
  for (std::int64_t i = begin; i < end; ++i) {
    F *scores = block.scores + i * kKeyBlock, *sum = block.sum + i * kLanes<F>, *out = block.out + i * padded;
    Weight<T>* const weights = block.weights + i * kKeyBlock;
    if (all) {  // the common case: the number of vectors is a compile-time constant
      softmax_step(scores, block.factor, {0, kKeyVecs<F>}, {0, kKeyBlock}, block.top[i], sum, out, padded,
                   weights);
      continue;
    }
    const Range row = in_block(block.seen[i], key);
    if (row.size() > 0) {
      softmax_step(scores, block.factor, vecs, row, block.top[i], sum, out, padded, weights);
    } else {
      set_zero(weights + vecs.begin * kLanes<F>, (vecs.end - vecs.begin) * kLanes<F>);
    }
  }
}

/// scores [kTileRows, kKeyBlock] = rows * keys^T for the keys of a block that a tile sees.
template <class T>
[[gnu::always_inline]] inline void multiply_by_keys(const Factor<T>* rows, const Factor<T>* keys_transposed,
                                                    const Range& seen, std::int64_t d, Acc<T>* scores) {
  using P = Factor<T>;
  const VecRange vecs = vecs_of<Acc<T>>(seen);
  const std::int64_t first = vecs.begin * kLanes<P>;
  multiply_rows<P, kTileRows, false>({rows, row_factors<T>(d), 1}, keys_transposed + first, kKeyBlock,
                                     factors_in<P>(d), {scores + first, kKeyBlock}, vecs.end - vecs.begin);
}

/// out [kTileRows, padded d] += weights [kTileRows, kKeyBlock] * keys, of those that a tile sees.
template <class T>
[[gnu::always_inline]] inline void add_weighted_keys(Weight<T>* weights, const Factor<T>* keys,
                                                     const Range& seen, std::int64_t d, Acc<T>* out) {
  using P = Factor<T>;
  if (seen.size() <= 0) return;
  const std::int64_t padded = round_up_to_lanes<Acc<T>>(d), first = seen.begin / kTerms<P>;
  multiply_rows<P, kTileRows, true>({as_factors<T>(weights) + first, kKeyBlock / kTerms<P>, 1},
                                    keys + first * padded, padded, factors_in<P>(seen.end) - first,
                                    {out, padded}, static_cast<int>(padded / kLanes<P>));
}

/// Adds keys [key, key + kKeyBlock) to a block of rows.
template <class T>
void forward_step(RowBlock<T>& block, const Factor<T>* k_transposed, const Factor<T>* v, std::int64_t key,
                  std::int64_t d) {
  const std::int64_t padded = round_up_to_lanes<Acc<T>>(d);
  Range seen[kMaxRowBlock / kTileRows];  // by each tile
  std::int64_t tiles = 0;
  for (; tiles * kTileRows < block.rows; ++tiles) {
    seen[tiles] = seen_by_tile(block.seen, tiles * kTileRows, block.rows, key);
  }
  for (std::int64_t t = 0; t < tiles; ++t) {
    multiply_by_keys<T>(block.q + t * kTileRows * row_factors<T>(d), k_transposed, seen[t], d,
                        block.scores + t * kTileRows * kKeyBlock);
  }
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t row = t * kTileRows;
    if (seen[t].size() > 0)
      softmax_tile(block, row, min_of(row + kTileRows, block.rows), key, seen[t], padded);
  }
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t row = t * kTileRows;
    add_weighted_keys<T>(block.weights + row * kKeyBlock, v, seen[t], d, block.out + row * padded);
  }
}

/// Gathers rows [begin, begin + rows) of a list and clears their sums. The last tile is padded with zero
/// rows, whose results are not read.
template <class T>
void begin_block(const AttentionForward<T>& args, const List& list, std::int64_t begin, std::int64_t rows,
                 RowBlock<T>& block) {
  using F = Acc<T>;
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d), q_row = row_factors<T>(d);
  block.rows = rows;
  block.factor = F(args.shape.scale * kLog2E);
  for (std::int64_t i = 0; i < rows; ++i) {
    const Pair pair = pair_at(list, begin + i);
    gather_factors<T>(row_of(args.q, list, pair), block.factor, block.q + i * q_row, d);
    block.seen[i] = visible_keys(args.shape, list.batch, pair.token);
    block.top[i] = -std::numeric_limits<F>::infinity();
  }
  set_zero(block.q + rows * q_row, (round_up_to_tile(rows) - rows) * q_row);
  set_zero(block.out, round_up_to_tile(rows) * padded);
  set_zero(block.sum, rows * kLanes<F>);
}

template <class T>
void finish_block(const AttentionForward<T>& args, const List& list, std::int64_t begin,
                  const RowBlock<T>& block, GapFiller<T>& gaps) {
  using F = Acc<T>;
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d);
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const Pair pair = pair_at(list, begin + i);
    const F denominator = sum_lanes<F>(load(block.sum + i * kLanes<F>));
    const F gate = args.gates ? args.gates[gate_index(args.shape, list, pair)] : F(1);
    gaps.zero_up_to(pair);
    store_row<T>(block.out + i * padded, gate / denominator, row_of(args.out, list, pair), d);
    if (args.lse) args.lse[list.first + begin + i] = block.top[i] + log2_of(denominator);
  }
}

/// The first key of the block that holds `key`. Blocks begin at multiples of their size, so that a row's bits
/// do not depend on its task.
std::int64_t first_block(std::int64_t key) {
  return key / kKeyBlock * kKeyBlock;
}

/// The keys that the rows of a task see, from the first of a block on.
Range keys_of_task(const AttentionShape& shape, const List& list, const RowTask& task) {
  if (task.begin == task.end) return {0, 0};
  return {first_block(visible_keys(shape, list, task.begin).begin),
          visible_keys(shape, list, task.end - 1).end};
}

/// The values of some keys as whole vectors, [keys, padded d]: in place, as in a KV cache, or packed.
template <class T>
const Factor<T>* values_of_task(const HeadView<const T>& v, const List& list, const Range& keys,
                                std::int64_t d, Factor<T>* packed) {
  const std::int64_t padded = round_up_to_lanes<Acc<T>>(d);
  if constexpr (std::is_same_v<T, Factor<T>>) {
    if (d == padded && v.token_stride == d) return key_row(v, list, keys.begin);
  }
  pack_right_rows<T>([&](std::int64_t i) { return key_row(v, list, keys.begin + i); }, keys.size(), d, packed,
                     padded);
  return packed;
}

// ---- backward ----

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

/// The probabilities of a vector of scores, and the gradients of these, dS = P (dP - delta): both zero for
/// the keys outside of `seen`.
template <class F>
struct SoftmaxGradient {
  Vec<F> probability, gradient;

  [[gnu::always_inline]] SoftmaxGradient(Vec<F> score, Vec<F> dp, F lse, F delta, const Range& seen, int vec)
      : probability(exp2_lanes<F>(score - splat<F>(lse))), gradient(probability * (dp - splat<F>(delta))) {
    if (seen.end < (vec + 1) * kLanes<F> || seen.begin > vec * kLanes<F>) {
      probability = masked<F>(probability, seen, vec, F(0));
      gradient = masked<F>(gradient, seen, vec, F(0));
    }
  }
};

/// p holds scores, ds holds dP; on return p holds probabilities and ds their gradients, for the keys of
/// `vecs`.
template <class F>
[[gnu::always_inline]] inline void softmax_backward_row(F* p, F* ds, VecRange vecs, const Range& seen, F lse,
                                                        F delta) {
#pragma GCC unroll 4
  for (int j = vecs.begin; j < vecs.end; ++j) {
    const SoftmaxGradient<F> found(load(p + j * kLanes<F>), load(ds + j * kLanes<F>), lse, delta, seen, j);
    store(p + j * kLanes<F>, found.probability);
    store(ds + j * kLanes<F>, found.gradient);
  }
}

/// P and dS of rows [begin, begin + rows) against a key block, in place of scores and dP.
template <class T>
void softmax_backward(BackwardScratch<T>& s, std::int64_t begin, std::int64_t rows, const Acc<T>* lse,
                      std::int64_t key) {
  using F = Acc<T>;
  for (std::int64_t i = 0; i < rows; ++i) {
    F *p = s.scores + i * kKeyBlock, *ds = s.dp + i * kKeyBlock;
    const Range row = in_block(s.seen[begin + i], key);
    if (row.size() == kKeyBlock) {  // the common case: the number of vectors is a compile-time constant
      softmax_backward_row<F>(p, ds, {0, kKeyVecs<F>}, {0, kKeyBlock}, lse[begin + i], s.delta[begin + i]);
      continue;
    }
    const VecRange vecs = vecs_of<F>(row);
    softmax_backward_row<F>(p, ds, vecs, row, lse[begin + i], s.delta[begin + i]);
    for (F* values : {p, ds}) {
      set_zero(values, vecs.begin * kLanes<F>);
      set_zero(values + vecs.end * kLanes<F>, kKeyBlock - vecs.end * kLanes<F>);
    }
  }
}

/// P times the gate and dS of rows [begin, begin + rows) against a key block, as factors along the rows, and
/// dS as factors along the keys.
template <class T>
void softmax_backward_pairs(BackwardScratch<T>& s, std::int64_t begin, std::int64_t rows, const float* lse,
                            std::int64_t key, float factor) {
  using P = Factor<T>;
  constexpr std::int64_t kN = kLanes<float>;
  const auto gradient_of = [&](std::int64_t i, const Range& seen, int vec) __attribute__((always_inline)) {
    const std::int64_t at = i * kKeyBlock + vec * kN;
    return SoftmaxGradient<float>(load(s.scores + at) * factor, load(s.dp + at) * s.gate[begin + i],
                                  lse[begin + i], s.delta[begin + i], seen, vec);
  };
  for (std::int64_t i = 0; i < rows; i += 2) {
    const bool has_next = i + 1 < rows;
    const std::int64_t next = has_next ? i + 1 : i;
    const Range first_seen = in_block(s.seen[begin + i], key),
                next_seen = has_next ? in_block(s.seen[begin + next], key) : Range{0, 0};
    const float gate = s.gate[begin + i], next_gate = s.gate[begin + next];
    P *const p_left = s.p_left + i / 2 * kKeyBlock, *const ds_left = s.ds_left + i / 2 * kKeyBlock;
    bfloat16 *const ds = s.ds + i * kKeyBlock, *const next_ds = ds + kKeyBlock;
    const auto vector = [&](int j) __attribute__((always_inline)) {
      const SoftmaxGradient<float> a = gradient_of(i, first_seen, j), b = gradient_of(next, next_seen, j);
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
  if constexpr (kPairs<T>) {
    softmax_backward_pairs(s, begin, rows, lse, key, static_cast<float>(shape.scale * kLog2E));
  } else {
    softmax_backward(s, begin, rows, lse, key);
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
Range tiles_seeing(const Range* seen, std::int64_t rows, const Range& keys, const Range& before) {
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

template <class Backend, class T>
std::int64_t AttentionKernels<Backend, T>::padded_head_dim(std::int64_t head_dim) {
  return round_up_to_lanes<Acc<T>>(head_dim);
}

template <class Backend, class T>
std::size_t AttentionKernels<Backend, T>::forward_scratch_bytes(const AttentionShape& shape) {
  Arena arena(nullptr);
  ForwardScratch<T>().lay_out(arena, shape, shape.keys);
  return arena.used_bytes();
}

template <class Backend, class T>
void AttentionKernels<Backend, T>::forward(const AttentionForward<T>& args, const RowTask& task,
                                           std::byte* scratch) {
  using F = Acc<T>;
  const std::int64_t d = args.shape.head_dim;
  const List list = list_at(args.shape, args.lists, task.list);
  const Range keys = keys_of_task(args.shape, list, task);
  const std::int64_t factors = factors_in<Factor<T>>(d);
  ForwardScratch<T> s;
  Arena arena(scratch);
  s.lay_out(arena, args.shape, keys.size());
  for (std::int64_t key = keys.begin; key < keys.end; key += kKeyBlock) {
    pack_transposed<T>(key_row(args.k, list, key), args.k.token_stride, min_of(kKeyBlock, keys.end - key), d,
                       s.k_transposed + (key - keys.begin) * factors, kKeyBlock);
  }
  const std::int64_t padded = round_up_to_lanes<F>(d);
  const Factor<T>* const v = values_of_task<T>(args.v, list, keys, d, s.v);
  GapFiller<T> gaps(args.out, list, task.begin, d);
  for (std::int64_t begin = task.begin; begin < task.end; begin += row_block(d)) {
    begin_block(args, list, begin, min_of(row_block(d), task.end - begin), s.block);
    const Range seen{first_block(s.block.seen[0].begin), s.block.seen[s.block.rows - 1].end};
    for (std::int64_t key = seen.begin; key < seen.end; key += kKeyBlock) {
      const std::int64_t packed = key - keys.begin;
      forward_step(s.block, s.k_transposed + packed * factors, v + packed / kTerms<Factor<T>> * padded, key,
                   d);
    }
    finish_block(args, list, begin, s.block, gaps);
  }
  if (task.end == list.rows) gaps.zero_rest();
}

template <class Backend, class T>
std::size_t AttentionKernels<Backend, T>::backward_scratch_bytes(const AttentionShape& shape,
                                                                 std::int64_t longest_list,
                                                                 bool sums_groups) {
  Arena arena(nullptr);
  BackwardScratch<T>().lay_out(arena, shape.head_dim, longest_list, sums_groups);
  return arena.used_bytes();
}

template <class Backend, class T>
void AttentionKernels<Backend, T>::backward_keys(const AttentionBackward<T>& args, const KeyTask& task,
                                                 std::byte* scratch) {
  using F = Acc<T>;
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d);
  const List list = list_at(args.shape, args.lists, task.list);
  // Whole tiles, so that rows are in the same tiles as in a task of the whole list, and sums in the same
  // order.
  const Range seeing = rows_seeing(args.shape, list, {task.begin, task.end});
  const std::int64_t first = seeing.begin / kTileRows * kTileRows;
  const std::int64_t rows = min_of(round_up_to_tile(seeing.end), list.rows) - first;
  const bool sums_groups = task.end - task.begin > args.group_keys;
  BackwardScratch<T> s;
  Arena arena(scratch);
  s.lay_out(arena, d, rows, sums_groups);
  gather_for_backward(args, list, first, rows, s);
  if (args.dgates != nullptr && task.group == 0) write_dgates(args, list);
  const F* lse = args.lse + list.first + first;
  Range tiles{0, 0};
  for (std::int64_t key = task.begin; key < task.end; key += args.group_keys) {
    if (key == task.begin + args.group_keys) {
      F* const first_group = s.dq;
      s.dq = s.earlier;
      s.earlier = first_group;
    }
    const Range group{key, min_of(key + args.group_keys, task.end)};
    tiles = tiles_seeing(s.seen, rows, group, tiles);
    if (key > task.begin)
      set_zero(s.dq + tiles.begin * padded, (round_up_to_tile(tiles.end) - tiles.begin) * padded);
    backward_group(args, list, group, lse, rows, tiles, s);
    if (key > task.begin) add_group(s, tiles, padded);
  }
  if (args.dq_partials == nullptr) {
    finish_queries(args, list, 0, list.rows, sums_groups ? s.earlier : s.dq, 0, args.shape.keys);
  } else {
    F* share =
        args.dq_partials + (task.group * total_rows(args.shape, args.lists) + list.first + first) * padded;
    copy_rows(s.dq, share, rows * padded);
  }
}

template <class Backend, class T>
void AttentionKernels<Backend, T>::backward_queries(const AttentionBackward<T>& args, const RowTask& task) {
  const std::int64_t padded = padded_head_dim(args.shape.head_dim);
  const List list = list_at(args.shape, args.lists, task.list);
  finish_queries(args, list, task.begin, task.end, args.dq_partials + (list.first + task.begin) * padded,
                 total_rows(args.shape, args.lists) * padded, args.group_keys);
}

MOH_MATRIX_KERNELS(AttentionKernels)

}  // namespace moh
