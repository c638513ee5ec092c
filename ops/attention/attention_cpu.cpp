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
// Operands are packed first: q and dout rows gathered, k and v transposed where they are the right operand. A
// causal mask compares positions. Rows ascend by position, so the last row of a tile sees the most keys: key
// blocks past it are skipped, and matrix multiplications are only as wide or as deep as that row sees.

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
  F* q;                             // [kMaxRowBlock, padded d], times scale log2 e
  F* scores;                        // [kMaxRowBlock, kKeyBlock]: scores, then their exponentials
  F* out;                           // [kMaxRowBlock, padded d], not yet divided by the sum
  F* sum;                           // [kMaxRowBlock, lanes]: the softmax denominator, one part per lane
  F top[kMaxRowBlock];              // the largest score so far
  std::int64_t seen[kMaxRowBlock];  // number of visible keys
  std::int64_t rows = 0;
};

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

/// The online softmax of rows [begin, end), one tile, whose last row sees `seen` keys of the block.
template <class F>
void softmax_tile(RowBlock<F>& block, std::int64_t begin, std::int64_t end, std::int64_t key,
                  std::int64_t seen, std::int64_t padded) {
  const bool all = block.seen[begin] - key >= kKeyBlock;  // holds for the rows that follow, too
  const int vecs = vecs_of<F>(seen);
  for (std::int64_t i = begin; i < end; ++i) {
    F *scores = block.scores + i * kKeyBlock, *sum = block.sum + i * kLanes<F>, *out = block.out + i * padded;
    if (all) {  // the common case: the number of vectors is a compile-time constant
      softmax_step<F>(scores, kKeyVecs<F>, kKeyBlock, block.top[i], sum, out, padded);
    } else {
      softmax_step<F>(scores, vecs, block.seen[i] - key, block.top[i], sum, out, padded);
    }
  }
}

/// Adds keys [key, key + kKeyBlock) to a block of rows.
template <class F>
void forward_step(RowBlock<F>& block, const F* k_transposed, const F* v, std::int64_t key, std::int64_t d) {
  const std::int64_t padded = round_up_to_lanes<F>(d);
  std::int64_t seen[kMaxRowBlock / kTileRows];  // keys that the last row of each tile sees
  std::int64_t tiles = 0;
  for (std::int64_t end = kTileRows; tiles * kTileRows < block.rows; end += kTileRows, ++tiles) {
    seen[tiles] = clamp(block.seen[min_of(end, block.rows) - 1] - key, 0, kKeyBlock);
  }
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t row = t * kTileRows;
    multiply_rows<F, kTileRows, false>({block.q + row * padded, padded, 1}, k_transposed, kKeyBlock, d,
                                       {block.scores + row * kKeyBlock, kKeyBlock}, vecs_of<F>(seen[t]));
  }
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t row = t * kTileRows;
    softmax_tile(block, row, min_of(row + kTileRows, block.rows), key, seen[t], padded);
  }
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t row = t * kTileRows;
    multiply_rows<F, kTileRows, true>({block.scores + row * kKeyBlock, kKeyBlock, 1}, v, padded, seen[t],
                                      {block.out + row * padded, padded},
                                      static_cast<int>(padded / kLanes<F>));
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
    block.seen[i] = visible_keys(args.shape, pair.token);
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

// ---- backward ----

template <class F>
struct BackwardScratch {
  // Per gathered row. Rows are padded to whole tiles with zeros.
  F *q, *dout, *dq;      // [rows, padded d]: q times scale log2 e, dout times gate, dq of a group of keys
  F* earlier = nullptr;  // dq of the groups before, for a task of several
  F* delta;
  std::int64_t* seen;
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
    seen = arena.take<std::int64_t>(rows);
    for (F** piece : {&k_transposed, &v_transposed}) *piece = arena.take<F>(d * kKeyBlock);
    for (F** piece : {&k, &dk, &dv}) *piece = arena.take<F>(kKeyBlock * padded);
    for (F** piece : {&p, &ds}) *piece = arena.take<F>(kMaxRowBlock * kKeyBlock);
  }
};

/// Gathers rows [first, list.rows) and computes delta.
template <class T, class F>
void gather_for_backward(const AttentionBackward<T>& args, const List& list, std::int64_t first,
                         bool write_dgates, BackwardScratch<F>& s) {
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d), rows = list.rows - first;
  std::int64_t next_gate = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const Pair pair = pair_at(list, first + i);
    const F gate = args.gates ? args.gates[gate_index(args.shape, list, pair)] : F(1);
    const T* dout = row_of(args.dout, list, pair);
    s.delta[i] = dot_rows<T>(dout, row_of(args.out, list, pair), d);
    s.seen[i] = visible_keys(args.shape, pair.token);
    gather_row<T>(row_of(args.q, list, pair), F(args.shape.scale * kLog2E), s.q + i * padded, d);
    gather_row<T>(dout, gate, s.dout + i * padded, d);
    if (!write_dgates) continue;
    for (; next_gate < pair_number(list, pair); ++next_gate) {
      args.dgates[gate_index(args.shape, list, numbered_pair(list, next_gate))] = F(0);
    }
    ++next_gate;
    args.dgates[gate_index(args.shape, list, pair)] = is_tiny_gate(gate) ? F(0) : s.delta[i] / gate;
  }
  if (write_dgates) {
    for (; next_gate < list.num_pairs; ++next_gate) {
      args.dgates[gate_index(args.shape, list, numbered_pair(list, next_gate))] = F(0);
    }
  }
  const std::int64_t filling = (round_up_to_tile(rows) - rows) * padded;
  set_zero(s.q + rows * padded, filling);
  set_zero(s.dout + rows * padded, filling);
  set_zero(s.dq, round_up_to_tile(rows) * padded);
}

/// p holds scores, ds holds dP; on return p holds probabilities and ds = P (dP - delta), both zero after the
/// first `seen` keys.
template <class F>
[[gnu::always_inline]] inline void softmax_backward_row(F* p, F* ds, int vecs, std::int64_t seen, F lse,
                                                        F delta) {
  const Vec<F> shift = splat<F>(lse), mean = splat<F>(delta);
#pragma GCC unroll 4
  for (int j = 0; j < vecs; ++j) {
    Vec<F> probability = exp2_lanes<F>(load(p + j * kLanes<F>) - shift);
    Vec<F> gradient = probability * (load(ds + j * kLanes<F>) - mean);
    if (seen < (j + 1) * kLanes<F>) {
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
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    const std::int64_t last = min_of(i + kTileRows, rows) - 1;
    const int vecs = vecs_of<F>(s.seen[begin + last] - key);
    multiply_rows<F, kTileRows, false>({s.q + (begin + i) * padded, padded, 1}, s.k_transposed, kKeyBlock, d,
                                       {s.p + i * kKeyBlock, kKeyBlock}, vecs);
  }
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    const std::int64_t last = min_of(i + kTileRows, rows) - 1;
    const int vecs = vecs_of<F>(s.seen[begin + last] - key);
    multiply_rows<F, kTileRows, false>({s.dout + (begin + i) * padded, padded, 1}, s.v_transposed, kKeyBlock,
                                       d, {s.ds + i * kKeyBlock, kKeyBlock}, vecs);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    F *p = s.p + i * kKeyBlock, *ds = s.ds + i * kKeyBlock;
    const std::int64_t seen = s.seen[begin + i] - key;
    if (seen >= kKeyBlock) {  // the common case: the number of vectors is a compile-time constant
      softmax_backward_row<F>(p, ds, kKeyVecs<F>, kKeyBlock, lse[begin + i], s.delta[begin + i]);
    } else {
      const int vecs = vecs_of<F>(seen);
      softmax_backward_row<F>(p, ds, vecs, seen, lse[begin + i], s.delta[begin + i]);
      set_zero(p + vecs * kLanes<F>, kKeyBlock - vecs * kLanes<F>);
      set_zero(ds + vecs * kLanes<F>, kKeyBlock - vecs * kLanes<F>);
    }
  }
}

/// dk and dv of kRows keys of the block from `key_in_block` on.
template <class F, int kRows>
void add_key_gradients(BackwardScratch<F>& s, std::int64_t begin, std::int64_t skip, std::int64_t rows,
                       std::int64_t key_in_block, std::int64_t padded) {
  const int dim_vecs = static_cast<int>(padded / kLanes<F>);
  const std::int64_t element = skip * kKeyBlock + key_in_block, row = (begin + skip) * padded;
  multiply_rows<F, kRows, true>({s.p + element, 1, kKeyBlock}, s.dout + row, padded, rows - skip,
                                {s.dv + key_in_block * padded, padded}, dim_vecs);
  multiply_rows<F, kRows, true>({s.ds + element, 1, kKeyBlock}, s.q + row, padded, rows - skip,
                                {s.dk + key_in_block * padded, padded}, dim_vecs);
}

/// Contributions of rows [begin, begin + rows) to dk and dv of a block of `keys` keys, and of the
/// block to dq.
template <class F>
void backward_step(BackwardScratch<F>& s, std::int64_t begin, std::int64_t rows, const F* lse,
                   std::int64_t key, std::int64_t keys, std::int64_t d) {
  const std::int64_t padded = round_up_to_lanes<F>(d);
  backward_scores(s, begin, rows, lse, key, d);
  for (std::int64_t i = 0; i < rows; i += kTileRows) {
    const std::int64_t last = min_of(i + kTileRows, rows) - 1;
    multiply_rows<F, kTileRows, true>(
        {s.ds + i * kKeyBlock, kKeyBlock, 1}, s.k, padded, min_of(s.seen[begin + last] - key, keys),
        {s.dq + (begin + i) * padded, padded}, static_cast<int>(padded / kLanes<F>));
  }
  constexpr std::int64_t kLastTile = kKeyBlock / kTileRows * kTileRows;
  std::int64_t skip = 0;  // rows that end before the key tile
  for (std::int64_t tile = 0; tile < keys; tile += kTileRows) {
    while (skip < rows && s.seen[begin + skip] - key <= tile) ++skip;
    if (tile < kLastTile) {
      add_key_gradients<F, kTileRows>(s, begin, skip, rows, tile, padded);
    } else {
      add_key_gradients<F, kKeyBlock - kLastTile>(s, begin, skip, rows, tile, padded);
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

/// dk and dv of keys [begin, end), and their contribution to dq. `start`: the first gathered row that sees
/// `begin`; on return the one that sees the last block of keys.
template <class T, class F>
void backward_group(const AttentionBackward<T>& args, const List& list, std::int64_t key_begin,
                    std::int64_t key_end, const F* lse, std::int64_t rows, std::int64_t& start,
                    BackwardScratch<F>& s) {
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d);
  for (std::int64_t key = key_begin; key < key_end; key += kKeyBlock) {
    const std::int64_t keys = min_of(kKeyBlock, key_end - key);
    pack_key_block(args, list, key, keys, s);
    while (start < rows && s.seen[start] <= key) ++start;
    for (std::int64_t begin = start / kTileRows * kTileRows; begin < rows; begin += row_block(d)) {
      backward_step(s, begin, min_of(row_block(d), rows - begin), lse, key, keys, d);
    }
    for (std::int64_t i = 0; i < keys; ++i) {
      store_row<T>(s.dk + i * padded, F(kLn2), key_row(args.dk, list, key + i),
                   d);  // ln 2 undoes log2 e in q
      store_row<T>(s.dv + i * padded, F(1), key_row(args.dv, list, key + i), d);
    }
  }
}

/// Adds dq of a group of keys, of rows [first, rows), to that of the groups before.
template <class F>
void add_group(BackwardScratch<F>& s, std::int64_t first, std::int64_t rows, std::int64_t padded) {
  for (std::int64_t r = first; r < rows; ++r) add_row(s.dq + r * padded, s.earlier + r * padded, padded);
}

/// dq of rows [begin, end) of a list: the sum of the contributions of the groups of keys that a row sees.
/// shares points at row `begin` of group 0, in which the sum is accumulated.
template <class T, class F>
void finish_queries(const AttentionBackward<T>& args, const List& list, std::int64_t begin, std::int64_t end,
                    F* shares, std::int64_t share_stride, std::int64_t group_keys) {
  const std::int64_t d = args.shape.head_dim, padded = round_up_to_lanes<F>(d);
  GapFiller<T> gaps(args.dq, list, begin, d);
  for (std::int64_t r = begin; r < end; ++r) {
    const Pair pair = pair_at(list, r);
    F* total = shares + (r - begin) * padded;
    const std::int64_t seen = visible_keys(args.shape, pair.token);
    for (std::int64_t group = 1; group * group_keys < seen; ++group)
      add_row(total + group * share_stride, total, padded);
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
  const std::int64_t keys =
      task.begin < task.end ? visible_keys(args.shape, pair_at(list, task.end - 1).token) : 0;
  ForwardScratch<F> s;
  Arena arena(scratch);
  s.lay_out(arena, args.shape, keys);
  for (std::int64_t key = 0; key < keys; key += kKeyBlock) {
    pack_transposed<T>(key_row(args.k, list, key), args.k.token_stride, min_of(kKeyBlock, keys - key), d,
                       s.k_transposed + key * d, kKeyBlock);
  }
  const std::int64_t padded = round_up_to_lanes<F>(d);
  for (std::int64_t key = 0; key < keys; ++key) {
    gather_row<T>(key_row(args.v, list, key), F(1), s.v + key * padded, d);
  }
  GapFiller<T> gaps(args.out, list, task.begin, d);
  for (std::int64_t begin = task.begin; begin < task.end; begin += row_block(d)) {
    begin_block(args, list, begin, min_of(row_block(d), task.end - begin), s.block);
    const std::int64_t seen = s.block.seen[s.block.rows - 1];
    for (std::int64_t key = 0; key < seen; key += kKeyBlock) {
      forward_step(s.block, s.k_transposed + key * d, s.v + key * padded, key, d);
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
  const std::int64_t first = first_row_seeing(args.shape, list, task.begin) / kTileRows * kTileRows;
  const std::int64_t rows = list.rows - first;
  const bool sums_groups = task.end - task.begin > args.group_keys;
  BackwardScratch<F> s;
  Arena arena(scratch);
  s.lay_out(arena, d, rows, sums_groups);
  gather_for_backward(args, list, first, args.dgates != nullptr && task.group == 0, s);
  const F* lse = args.lse + list.first + first;
  std::int64_t start = 0;
  for (std::int64_t key = task.begin; key < task.end; key += args.group_keys) {
    if (key == task.begin + args.group_keys) {
      F* const first_group = s.dq;
      s.dq = s.earlier;
      s.earlier = first_group;
    }
    while (start < rows && s.seen[start] <= key) ++start;
    const std::int64_t seeing = start, tile = seeing / kTileRows * kTileRows;
    if (key > task.begin) set_zero(s.dq + tile * padded, (round_up_to_tile(rows) - tile) * padded);
    backward_group(args, list, key, min_of(key + args.group_keys, task.end), lse, rows, start, s);
    if (key > task.begin) add_group(s, seeing, rows, padded);
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
