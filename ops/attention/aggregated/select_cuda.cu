#include <algorithm>
#include <bit>

#include "ops/attention/aggregated/passes.h"
#include "ops/attention/aggregated/problem.h"

// Selects the keys of a row that keeps those of the largest logits only. The lanes of a head share out
// its logits, in global memory, as images decide how many there are: each reads those alone that it has
// written. The least kept logit is found bit by bit, in integers that are ordered like the logits. Blocks
// walk over the strips, so that memory does not grow with the batch.

namespace moh::aggregated {

namespace {

template <class T>
struct Selection {
  Problem<T> problem;
  float* scores;  // [blocks, keys, heads of the block]
  std::int64_t strips;
};

/// An integer that is larger for a larger number; NaN is larger than all numbers.
MOH_DEVICE std::uint32_t ordered(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return 0xffffffffU;
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

/// The logits of a row, of which a lane has every kSplit-th.
template <class Slice>
struct Scores {
  float* at;
  int count;

  MOH_DEVICE float& operator[](int key) const { return at[key * kGroups<Slice>]; }
  MOH_DEVICE void set(int key, float score) const {
    if (key % Slice::kSplit == Slice::part()) (*this)[key] = score;
  }
  /// How many are `least` or more. Must be called by whole warps.
  MOH_DEVICE int count_from(std::uint32_t least) const {
    int found = 0;
    MOH_ROLLED for (int key = Slice::part(); key < count; key += Slice::kSplit) found +=
        ordered((*this)[key]) >= least;
    MOH_UNROLL for (int mask = Slice::kSplit / 2; mask > 0; mask /= 2) found +=
        device::shuffle_xor(found, mask);
    return found;
  }
};

/// The largest bound from which `kept` scores are left. Must be called by whole warps.
template <class Slice>
MOH_DEVICE std::uint32_t least_kept(const Scores<Slice>& scores, std::int64_t percent) {
  const int seen = scores.count_from(ordered(-INFINITY) + 1);
  const auto kept = static_cast<int>((seen * percent + 99) / 100);
  std::uint32_t least = 0;
  MOH_ROLLED for (int bit = 31; bit >= 0; --bit) {
    const std::uint32_t higher = least | std::uint32_t{1} << bit;
    if (scores.count_from(higher) >= kept) least = higher;
  }
  return least;
}

/// The logits of a row. All threads of the block call it: distant keys pass by in shared memory.
template <class T, class Slice>
MOH_DEVICE void score_row(const Problem<T>& p, const List& list, const Pair& pair, KeyTile<Slice>& tile,
                          const Scores<Slice>& scores) {
  const std::int64_t head = list.kv_head, keys = p.shape.pairs.keys;
  const Window window = Window::of(p.shape, pair.token);
  const Slice query =
      scaled_query(p, list, pair, window, parameter_row<Slice>(p, p.parameters.query_embedding, head),
                   p.temperature(head));
  MOH_ROLLED for (std::int64_t begin = 0; begin < keys; begin += kTileKeys<Slice>) {
    const auto count = static_cast<int>(min_of(kTileKeys<Slice>, keys - begin));
    load_tile(p, list, begin, count, tile);
    const float* biases = p.bias + (head * keys + begin) * p.shape.pairs.queries + pair.token;
    MOH_ROLLED for (int i = 0; i < count; ++i) {
      Slice k;
      k.load_padded(tile.k[i]);
      scores.set(static_cast<int>(begin) + i, query.dot(k) + kLog2e * biases[i * p.shape.pairs.queries]);
    }
  }
  if (p.shape.window == 0) return;
  const float* biases = p.parameters.local_bias + head * p.shape.neighbours();
  MOH_ROLLED for (Neighbour at(window); at.more(); at.step()) {
    const Slice k = token_row<Slice>(p, p.local_k, list, pair.token + at.offset());
    const float logit = query.dot(k) * k.inverse_norm() + kLog2e * biases[at.number()];
    scores.set(static_cast<int>(keys) + at.number(), at.seen() ? logit : -INFINITY);
  }
}

/// A block takes every blocks_x-th strip of rows.
template <class T, class Slice>
MOH_KERNEL(kThreads, 4)
void select_keys_kernel(Selection<T> s) {
  const Problem<T>& p = s.problem;
  auto& tile = *device::shared_memory<KeyTile<Slice>>();
  const auto count = static_cast<int>(p.shape.pairs.keys + p.shape.neighbours());
  const Scores<Slice> scores{s.scores + device::block_x() * count * kGroups<Slice> + group<Slice>(), count};
  const std::int64_t all = p.shape.pairs.batch * p.shape.pairs.heads * s.strips;
  MOH_ROLLED for (std::int64_t strip = device::block_x(); strip < all; strip += device::blocks_x()) {
    const List list = list_at(p.shape.pairs, p.lists, strip / s.strips);
    const std::int64_t first = strip % s.strips * kGroups<Slice>, own = first + group<Slice>();
    if (first >= list.rows) continue;
    const std::int64_t number = own < list.rows ? own : list.rows - 1;
    score_row(p, list, pair_at(list, number), tile, scores);
    const std::uint32_t least = least_kept(scores, p.shape.kept_percent);
    MOH_ROLLED for (int begin = 0; begin < count; begin += 32) {
      std::uint32_t word = 0;
      const int end = begin + 32 < count ? begin + 32 : count;
      MOH_ROLLED for (int key = begin + Slice::part(); key < end; key += Slice::kSplit) {
        if (ordered(scores[key]) >= least) word |= std::uint32_t{1} << (key - begin);
      }
      MOH_UNROLL for (int mask = Slice::kSplit / 2; mask > 0; mask /= 2) word |=
          device::shuffle_xor(word, mask);
      if (own < list.rows && Slice::part() == 0)
        p.kept.words[begin / 32 * p.kept.rows + list.first + number] = word;
    }
  }
}

}  // namespace

template <class T>
void select_keys(const Problem<T>& p, float* scores) {
  const Division division = Division::of(p.shape);
  with_slice(p.shape.pairs.head_dim, [&](auto type) {
    using Slice = typename decltype(type)::type;
    cuda::launch("select_keys", select_keys_kernel<T, Slice>,
                 {.blocks_x = division.select_blocks(p.shape),
                  .threads = kThreads,
                  .shared_bytes = sizeof(KeyTile<Slice>)},
                 Selection<T>{p, scores, division.strips});
  });
}

template void select_keys(const Problem<float>&, float*);
template void select_keys(const Problem<bfloat16>&, float*);

}  // namespace moh::aggregated
