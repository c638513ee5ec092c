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
// The mask gives each row a range of keys, whose ends ascend with the rows, since these ascend by position: a
// tile sees the keys from the begin of its first row's range to the end of its last row's. Key blocks outside
// are skipped, and matrix multiplications are only as wide or as deep as the tile sees.

namespace moh {
namespace {

constexpr std::int64_t kMaxRowBlock = std::int64_t{12} * kTileRows;
/// Rows per block, such that the operands of a block and of a key block fit in L1 or little more.
std::int64_t row_block(std::int64_t head_dim) {
  return head_dim <= 64 ? kMaxRowBlock : std::int64_t{8} * kTileRows;
}
constexpr double kLn2 = 0.6931471805599453;

// ---- forward ----

/// The state of a block of rows, which is carried from key block to key block.
template <class F>
struct RowBlock {
  F* q;                      // [kMaxRowBlock, padded d], times scale log2 e
  F* scores;                 // [kMaxRowBlock, kKeyBlock]: scores, then their exponentials
  F* out;                    // [kMaxRowBlock, padded d], not yet divided by the sum
  F* sum;                    // [kMaxRowBlock, lanes]: the softmax denominator, one part per lane
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

template <class F>
struct ForwardScratch {
  F *k_transposed, *v;
  RowBlock<F> block;

  void lay_out(Arena& arena, const AttentionShape& shape, std::int64_t keys) {
    const std::int64_t padded = round_up_to_lanes<F>(shape.head_dim);
    const std::int64_t key_rows = (keys + kKeyBlock - 1) / kKeyBlock * kKeyBlock;
    k_transposed = arena.take<F>(key_rows * shape.head_dim);
    v = arena.take<F>(keys * padded);
    block.q = arena.take<F>(kMaxRowBlock * padded);
    block.scores = arena.take<F>(kMaxRowBlock * kKeyBlock);
    block.out = arena.take<F>(kMaxRowBlock * padded);
    block.sum = arena.take<F>(kMaxRowBlock * kLanes<F>);
  }
};

/// The online softmax of rows [begin, end), one tile, which sees `seen` of the block.
template <class F>
void softmax_tile(RowBlock<F>& block, std::int64_t begin, std::int64_t end, std::int64_t key,
                  const Range& seen, std::int64_t padded) {
  const bool all = in_block({block.seen[end - 1].begin, block.seen[begin].end}, key).size() == kKeyBlock;
  const VecRange vecs = vecs_of<F>(seen);
  for (std::int64_t i = begin; i < end; ++i) {
    F *scores = block.scores + i * kKeyBlock, *sum = block.sum + i * kLanes<F>, *out = block.out + i * padded;
    if (all) {  // the common case: the number of vectors is a compile-time constant
      softmax_step<F>(scores, {0, kKeyVecs<F>}, {0, kKeyBlock}, block.top[i], sum, out, padded);
      continue;
    }
    const Range row = in_block(block.seen[i], key);
    if (row.size() > 0) {
      softmax_step<F>(scores, vecs, row, block.top[i], sum, out, padded);
    } else {
      set_zero(scores + vecs.begin * kLanes<F>, (vecs.end - vecs.begin) * kLanes<F>);
    }
  }
}

/// scores [kTileRows, kKeyBlock] = rows * keys^T for the keys of a block that a tile sees.
template <class F>
[[gnu::always_inline]] inline void multiply_by_keys(const F* rows, const F* keys_transposed,
                                                    const Range& seen, std::int64_t d, F* scores) {
  const std::int64_t padded = round_up_to_lanes<F>(d);
  const VecRange vecs = vecs_of<F>(seen);
  const std::int64_t first = vecs.begin * kLanes<F>;
  multiply_rows<F, kTileRows, false>({rows, padded, 1}, keys_transposed + first, kKeyBlock, d,
                                     {scores + first, kKeyBlock}, vecs.end - vecs.begin);
}

/// out [kTileRows, padded d] += weights [kTileRows, kKeyBlock] * keys, of those that a tile sees.
template <class F>
[[gnu::always_inline]] inline void add_weighted_keys(const F* weights, const F* keys, const Range& seen,
                                                     std::int64_t d, F* out) {
  if (seen.size() <= 0) return;
  const std::int64_t padded = round_up_to_lanes<F>(d);
  multiply_rows<F, kTileRows, true>({weights + seen.begin, kKeyBlock, 1}, keys + seen.begin * padded, padded,
                                    seen.size(), {out, padded}, static_cast<int>(padded / kLanes<F>));
}

/// Adds keys [key, key + kKeyBlock) to a block of rows.
template <class F>
void forward_step(RowBlock<F>& block, const F* k_transposed, const F* v, std::int64_t key, std::int64_t d) {
  const std::int64_t padded = round_up_to_lanes<F>(d);
  Range seen[kMaxRowBlock / kTileRows];  // by each tile
  std::int64_t tiles = 0;
  for (; tiles * kTileRows < block.rows; ++tiles) {
    seen[tiles] = seen_by_tile(block.seen, tiles * kTileRows, block.rows, key);
  }
  for (std::int64_t t = 0; t < tiles; ++t) {
    multiply_by_keys(block.q + t * kTileRows * padded, k_transposed, seen[t], d,
                     block.scores + t * kTileRows * kKeyBlock);
  }
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t row = t * kTileRows;
    if (seen[t].size() > 0)
      softmax_tile(block, row, min_of(row + kTileRows, block.rows), key, seen[t], padded);
  }
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t row = t * kTileRows;
    add_weighted_keys(block.scores + row * kKeyBlock, v, seen[t], d, block.out + row * padded);
  }
}

/// Gathers rows [begin, begin + rows) of a list and clears their sums. The last tile is padded with zero
/// rows, whose results are not read.
template <class T, class F>
void begin_block(const AttentionForward<T>& args, const List& list, std::int64_t begin, std::int64_t rows,
                 RowBlock<F>& block) {
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d);
  block.rows = rows;
  for (std::int64_t i = 0; i < rows; ++i) {
    const Pair pair = pair_at(list, begin + i);
    gather_row<T>(row_of(args.q, list, pair), F(args.shape.scale * kLog2E), block.q + i * padded, d);
    block.seen[i] = visible_keys(args.shape, list.batch, pair.token);
    block.top[i] = -std::numeric_limits<F>::infinity();
  }
  set_zero(block.q + rows * padded, (round_up_to_tile(rows) - rows) * padded);
  set_zero(block.out, round_up_to_tile(rows) * padded);
  set_zero(block.sum, rows * kLanes<F>);
}

template <class T, class F>
void finish_block(const AttentionForward<T>& args, const List& list, std::int64_t begin,
                  const RowBlock<F>& block, GapFiller<T>& gaps) {
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
template <class T, class F>
const F* values_of_task(const HeadView<const T>& v, const List& list, const Range& keys, std::int64_t d,
                        F* packed) {
  const std::int64_t padded = round_up_to_lanes<F>(d);
  if constexpr (std::is_same_v<T, F>) {
    if (d == padded && v.token_stride == d) return key_row(v, list, keys.begin);
  }
  for (std::int64_t key = keys.begin; key < keys.end; ++key)
    gather_row<T>(key_row(v, list, key), F(1), packed + (key - keys.begin) * padded, d);
  return packed;
}

// ---- backward ----

template <class F>
struct BackwardScratch {
  // Per gathered row. Rows are padded to whole tiles with zeros.
  F *q, *dout, *dq;      // [rows, padded d]: q times scale log2 e, dout times gate, dq of a group of keys
  F* earlier = nullptr;  // dq of the groups before, for a task of several
  F* delta;
  Range* seen;
  // Per key block.
  F *k_transposed, *v_transposed;  // [d, kKeyBlock]
  F *k, *dk, *dv;                  // [kKeyBlock, padded d]
  // Per row block and key block: probabilities and dS, in place of scores and dP.
  F *p, *ds;  // [kMaxRowBlock, kKeyBlock]

  void lay_out(Arena& arena, std::int64_t d, std::int64_t rows, bool sums_groups) {
    const std::int64_t padded = round_up_to_lanes<F>(d), row_elements = round_up_to_tile(rows) * padded;
    q = arena.take<F>(row_elements);
    dout = arena.take<F>(row_elements);
    dq = arena.take<F>(row_elements);
    if (sums_groups) earlier = arena.take<F>(row_elements);
    delta = arena.take<F>(rows);
    seen = arena.take<Range>(rows);
    for (F** piece : {&k_transposed, &v_transposed}) *piece = arena.take<F>(d * kKeyBlock);
    for (F** piece : {&k, &dk, &dv}) *piece = arena.take<F>(kKeyBlock * padded);
    for (F** piece : {&p, &ds}) *piece = arena.take<F>(kMaxRowBlock * kKeyBlock);
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
template <class T, class F>
void gather_for_backward(const AttentionBackward<T>& args, const List& list, std::int64_t first,
                         std::int64_t rows, BackwardScratch<F>& s) {
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d);
  for (std::int64_t i = 0; i < rows; ++i) {
    const Pair pair = pair_at(list, first + i);
    const F gate = args.gates ? args.gates[gate_index(args.shape, list, pair)] : F(1);
    const T* dout = row_of(args.dout, list, pair);
    s.delta[i] = dot_rows<T>(dout, row_of(args.out, list, pair), d);
    s.seen[i] = visible_keys(args.shape, list.batch, pair.token);
    gather_row<T>(row_of(args.q, list, pair), F(args.shape.scale * kLog2E), s.q + i * padded, d);
    gather_row<T>(dout, gate, s.dout + i * padded, d);
  }
  const std::int64_t filling = (round_up_to_tile(rows) - rows) * padded;
  set_zero(s.q + rows * padded, filling);
  set_zero(s.dout + rows * padded, filling);
  set_zero(s.dq, round_up_to_tile(rows) * padded);
}

/// p holds scores, ds holds dP; on return p holds probabilities and ds = P (dP - delta), both zero for the
/// keys of `vecs` outside of `seen`.
template <class F>
[[gnu::always_inline]] inline void softmax_backward_row(F* p, F* ds, VecRange vecs, const Range& seen, F lse,
                                                        F delta) {
  const Vec<F> shift = splat<F>(lse), mean = splat<F>(delta);
#pragma GCC unroll 4
  for (int j = vecs.begin; j < vecs.end; ++j) {
    Vec<F> probability = exp2_lanes<F>(load(p + j * kLanes<F>) - shift);
    Vec<F> gradient = probability * (load(ds + j * kLanes<F>) - mean);
    if (seen.end < (j + 1) * kLanes<F> || seen.begin > j * kLanes<F>) {
      probability = masked<F>(probability, seen, j, F(0));
      gradient = masked<F>(gradient, seen, j, F(0));
    }
    store(p + j * kLanes<F>, probability);
    store(ds + j * kLanes<F>, gradient);
  }
}

/// Scores and dP of rows [begin, begin + rows) against a key block, then P and dS.
template <class F>
void backward_scores(BackwardScratch<F>& s, std::int64_t begin, std::int64_t rows, const F* lse,
                     std::int64_t key, std::int64_t d) {
  const std::int64_t padded = round_up_to_lanes<F>(d);
  const Range* seen = s.seen + begin;
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    multiply_by_keys(s.q + (begin + i) * padded, s.k_transposed, seen_by_tile(seen, i, rows, key), d,
                     s.p + i * kKeyBlock);
  }
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    multiply_by_keys(s.dout + (begin + i) * padded, s.v_transposed, seen_by_tile(seen, i, rows, key), d,
                     s.ds + i * kKeyBlock);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    F *p = s.p + i * kKeyBlock, *ds = s.ds + i * kKeyBlock;
    const Range row = in_block(seen[i], key);
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

/// dk and dv of kRows keys of the block from `key_in_block` on: contributions of `rows`, counted from
/// `begin`.
template <class F, int kRows>
void add_key_gradients(BackwardScratch<F>& s, std::int64_t begin, const Range& rows,
                       std::int64_t key_in_block, std::int64_t padded) {
  if (rows.size() <= 0) return;
  const int dim_vecs = static_cast<int>(padded / kLanes<F>);
  const std::int64_t element = rows.begin * kKeyBlock + key_in_block, row = (begin + rows.begin) * padded;
  multiply_rows<F, kRows, true>({s.p + element, 1, kKeyBlock}, s.dout + row, padded, rows.size(),
                                {s.dv + key_in_block * padded, padded}, dim_vecs);
  multiply_rows<F, kRows, true>({s.ds + element, 1, kKeyBlock}, s.q + row, padded, rows.size(),
                                {s.dk + key_in_block * padded, padded}, dim_vecs);
}

/// Contributions of rows [begin, begin + rows) to dk and dv of a block of `keys` keys, and of the
/// block to dq.
template <class F>
void backward_step(BackwardScratch<F>& s, std::int64_t begin, std::int64_t rows, const F* lse,
                   std::int64_t key, std::int64_t keys, std::int64_t d) {
  const std::int64_t padded = round_up_to_lanes<F>(d);
  backward_scores(s, begin, rows, lse, key, d);
  const Range* seen = s.seen + begin;
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    add_weighted_keys(s.ds + i * kKeyBlock, s.k, seen_by_tile(seen, i, rows, key), d,
                      s.dq + (begin + i) * padded);
  }
  constexpr std::int64_t kLastTile = kKeyBlock / kTileRows * kTileRows;
  Range seeing{0, 0};  // rows that see keys of the tile
  for (std::int64_t tile = 0; tile < keys; tile += kTileRows) {
    while (seeing.begin < rows && seen[seeing.begin].end - key <= tile) ++seeing.begin;
    while (seeing.end < rows && seen[seeing.end].begin - key < tile + kTileRows) ++seeing.end;
    if (tile < kLastTile) {
      add_key_gradients<F, kTileRows>(s, begin, seeing, tile, padded);
    } else {
      add_key_gradients<F, kKeyBlock - kLastTile>(s, begin, seeing, tile, padded);
    }
  }
}

template <class T, class F>
void pack_key_block(const AttentionBackward<T>& args, const List& list, std::int64_t key, std::int64_t keys,
                    BackwardScratch<F>& s) {
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d);
  const T* k = key_row(args.k, list, key);
  pack_transposed<T>(k, args.k.token_stride, keys, d, s.k_transposed, kKeyBlock);
  pack_transposed<T>(key_row(args.v, list, key), args.v.token_stride, keys, d, s.v_transposed, kKeyBlock);
  for (std::int64_t i = 0; i < keys; ++i)
    gather_row<T>(k + i * args.k.token_stride, F(1), s.k + i * padded, d);
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
template <class T, class F>
void backward_group(const AttentionBackward<T>& args, const List& list, const Range& group, const F* lse,
                    std::int64_t rows, const Range& seeing, BackwardScratch<F>& s) {
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d);
  Range tiles{seeing.begin, seeing.begin};
  for (std::int64_t key = group.begin; key < group.end; key += kKeyBlock) {
    const std::int64_t keys = min_of(kKeyBlock, group.end - key);
    pack_key_block(args, list, key, keys, s);
    tiles = tiles_seeing(s.seen, rows, {key, key + keys}, tiles);
    for (std::int64_t begin = tiles.begin; begin < tiles.end; begin += row_block(d)) {
      backward_step(s, begin, min_of(row_block(d), tiles.end - begin), lse, key, keys, d);
    }
    for (std::int64_t i = 0; i < keys; ++i) {
      store_row<T>(s.dk + i * padded, F(kLn2), key_row(args.dk, list, key + i),
                   d);  // ln 2 undoes log2 e in q
      store_row<T>(s.dv + i * padded, F(1), key_row(args.dv, list, key + i), d);
    }
  }
}

/// Adds dq of a group of keys, which `rows` see, to that of the groups before.
template <class F>
void add_group(BackwardScratch<F>& s, const Range& rows, std::int64_t padded) {
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
  ForwardScratch<Acc<T>>().lay_out(arena, shape, shape.keys);
  return arena.used_bytes();
}

template <class Backend, class T>
void AttentionKernels<Backend, T>::forward(const AttentionForward<T>& args, const RowTask& task,
                                           std::byte* scratch) {
  using F = Acc<T>;
  const std::int64_t d = args.shape.head_dim;
  const List list = list_at(args.shape, args.lists, task.list);
  const Range keys = keys_of_task(args.shape, list, task);
  ForwardScratch<F> s;
  Arena arena(scratch);
  s.lay_out(arena, args.shape, keys.size());
  for (std::int64_t key = keys.begin; key < keys.end; key += kKeyBlock) {
    pack_transposed<T>(key_row(args.k, list, key), args.k.token_stride, min_of(kKeyBlock, keys.end - key), d,
                       s.k_transposed + (key - keys.begin) * d, kKeyBlock);
  }
  const std::int64_t padded = round_up_to_lanes<F>(d);
  const F* const v = values_of_task<T, F>(args.v, list, keys, d, s.v);
  GapFiller<T> gaps(args.out, list, task.begin, d);
  for (std::int64_t begin = task.begin; begin < task.end; begin += row_block(d)) {
    begin_block(args, list, begin, min_of(row_block(d), task.end - begin), s.block);
    const Range seen{first_block(s.block.seen[0].begin), s.block.seen[s.block.rows - 1].end};
    for (std::int64_t key = seen.begin; key < seen.end; key += kKeyBlock) {
      const std::int64_t packed = key - keys.begin;
      forward_step(s.block, s.k_transposed + packed * d, v + packed * padded, key, d);
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
  BackwardScratch<Acc<T>>().lay_out(arena, shape.head_dim, longest_list, sums_groups);
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
  BackwardScratch<F> s;
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

template struct AttentionKernels<cpu::MOH_ISA, float>;
template struct AttentionKernels<cpu::MOH_ISA, bfloat16>;
template struct AttentionKernels<cpu::MOH_ISA, double>;

}  // namespace moh
