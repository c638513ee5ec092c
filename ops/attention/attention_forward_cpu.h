#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// The forward pass of head-sparse attention: a block of rows, its online softmax, and its output.

#include "ops/attention/attention_blocks_cpu.h"

namespace moh {
namespace {

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
  const DropoutMask* dropout;
  std::int64_t first_weight[kMaxRowBlock];  // in the dropout mask
  std::int64_t rows = 0;
};

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

/// The online softmax of rows [begin, end), one tile, which sees `seen` of the block; weights are dropped by
/// a mask of type Keep.
template <class Keep, class T>
void softmax_tile(RowBlock<T>& block, std::int64_t begin, std::int64_t end, std::int64_t key,
                  const Range& seen, std::int64_t padded) {
  using F = Acc<T>;
  const bool all = in_block({block.seen[end - 1].begin, block.seen[begin].end}, key).size() == kKeyBlock;
  const VecRange vecs = vecs_of<F>(seen);
  for (std::int64_t i = begin; i < end; ++i) {
    F *scores = block.scores + i * kKeyBlock, *sum = block.sum + i * kLanes<F>, *out = block.out + i * padded;
    Weight<T>* const weights = block.weights + i * kKeyBlock;
    const Keep keep(*block.dropout, block.first_weight[i] + key);
    if (all) {  // the common case: the number of vectors is a compile-time constant
      softmax_step(scores, block.factor, {0, kKeyVecs<F>}, {0, kKeyBlock}, block.top[i], sum, out, padded,
                   weights, keep);
      continue;
    }
    const Range row = in_block(block.seen[i], key);
    if (row.size() > 0) {
      softmax_step(scores, block.factor, vecs, row, block.top[i], sum, out, padded, weights, keep);
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
    if (seen[t].size() <= 0) continue;
    const std::int64_t end = min_of(row + kTileRows, block.rows);
    if (block.dropout->drops()) {
      softmax_tile<KeepSome<Acc<T>>>(block, row, end, key, seen[t], padded);
    } else {
      softmax_tile<KeepAll>(block, row, end, key, seen[t], padded);
    }
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
  block.dropout = &args.shape.dropout;
  for (std::int64_t i = 0; i < rows; ++i) {
    const Pair pair = pair_at(list, begin + i);
    gather_factors<T>(row_of(args.q, list, pair), block.factor, block.q + i * q_row, d);
    block.seen[i] = visible_keys(args.shape, list.batch, pair.token);
    block.first_weight[i] = first_weight(args.shape, list, pair);
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
inline std::int64_t first_block(std::int64_t key) {
  return key / kKeyBlock * kKeyBlock;
}

/// The keys that the rows of a task see, from the first of a block on.
inline Range keys_of_task(const AttentionShape& shape, const List& list, const RowTask& task) {
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

}  // namespace
}  // namespace moh
