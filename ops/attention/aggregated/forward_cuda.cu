#include <algorithm>

#include "ops/attention/aggregated/passes.h"
#include "ops/attention/aggregated/problem.h"

// A lane (or some, for wide heads) computes rows of its own: the query and the weighted sum of values are in
// registers, the softmax is online and needs no other lane. Distant keys and values are in shared memory,
// where all lanes read the same address; with two rows to a lane each is read once for both. Keys and values
// of neighbours come from L1: neighbouring lanes have neighbouring tokens.

namespace moh::aggregated {

namespace {

/// The initial maximum of a softmax: a row may keep none of its first keys, and 2^(-infinity + infinity) is
/// no number.
constexpr float kLowest = -0x1p126F;

template <class Slice>
struct Row {
  Pair pair;
  std::int64_t number;  // through all lists
  Window window;
  Slice query, sum;  // q' log2 e, and the sum of 2^(score - top) times the values
  float top, total;
};

/// Logits, exponentials and weighted values of a tile of distant keys, kScores at a time.
template <class T, class Slice, int kRows>
MOH_DEVICE void add_tile(const Problem<T>& p, const List& list, std::int64_t begin, int count,
                         const KeyTile<Slice>& tile, Row<Slice> (&rows)[kRows]) {
  MOH_ROLLED for (int first = 0; first < count; first += kScores) {
    float scores[kRows][kScores];
    MOH_UNROLL for (int i = 0; i < kScores; ++i) {
      Slice k;
      k.load_padded(tile.k[first + i]);
      MOH_UNROLL for (int r = 0; r < kRows; ++r) scores[r][i] = rows[r].query.dot(k);
    }
    const float* biases =
        p.bias + (list.kv_head * p.shape.pairs.keys + begin + first) * p.shape.pairs.queries;
    MOH_UNROLL for (int r = 0; r < kRows; ++r) {
      Row<Slice>& row = rows[r];
      float top = row.top;
      MOH_UNROLL for (int i = 0; i < kScores; ++i) {
        const bool real = first + i < count && p.kept.holds(row.number, begin + first + i);
        scores[r][i] =
            real ? scores[r][i] + kLog2e * biases[i * p.shape.pairs.queries + row.pair.token] : -INFINITY;
        top = fmaxf(top, scores[r][i]);
      }
      const float shrink = device::exp2_fast(row.top - top);
      row.top = top;
      row.total *= shrink;
      row.sum.scale(shrink);
      MOH_UNROLL for (int i = 0; i < kScores; ++i) {
        scores[r][i] = device::exp2_fast(scores[r][i] - top);
        row.total += scores[r][i];
      }
    }
    MOH_UNROLL for (int i = 0; i < kScores; ++i) {
      Slice v;
      v.load_padded(tile.v[first + i]);
      MOH_UNROLL for (int r = 0; r < kRows; ++r) rows[r].sum.add(scores[r][i], v);
    }
  }
}

/// Adds the neighbours, and the learned weights, which are outside the softmax. `scores`: shared memory of
/// the thread, an element every kThreads floats.
template <class T, class Slice>
MOH_DEVICE void add_neighbours(const Problem<T>& p, const List& list, Row<Slice>& row, float* scores) {
  const std::int64_t head = list.kv_head, first = head * p.shape.neighbours();
  const float before = row.top;
  MOH_ROLLED for (Neighbour at(row.window); at.more(); at.step()) {
    const Slice k = token_row<Slice>(p, p.local_k, list, row.pair.token + at.offset());
    const float logit =
        row.query.dot(k) * k.inverse_norm() + kLog2e * p.parameters.local_bias[first + at.number()];
    const bool kept = at.seen() && p.kept.holds(row.number, p.shape.pairs.keys + at.number());
    const float score = kept ? logit : -INFINITY, top = fmaxf(row.top, score);
    row.total = row.total * device::exp2_fast(row.top - top) + device::exp2_fast(score - top);
    row.top = top;
    scores[at.number() * kThreads] = score;
  }
  row.sum.scale(device::exp2_fast(before - row.top));
  Slice unit = query_row<Slice>(p, p.q, list, row.pair);
  unit.scale(unit.inverse_norm());
  MOH_ROLLED for (Neighbour at(row.window); at.more(); at.step()) {
    const Slice v = token_row<Slice>(p, p.local_v, list, row.pair.token + at.offset());
    const std::int64_t number = first + at.number();
    const float learned =
        unit.dot(parameter_row<Slice>(p, p.tokens, number)) + p.parameters.token_bias[number];
    const float weight = device::exp2_fast(scores[at.number() * kThreads] - row.top);
    row.sum.add(at.seen() ? weight + learned * row.total : 0.0F, v);
  }
}

template <class T>
struct Forward {
  Problem<T> problem;
  HeadView<T> out;
  float* lse;
  std::int64_t strips;
};

template <class Slice>
constexpr std::size_t kTileBytes = sizeof(KeyTile<Slice>);

/// One block per strip of kRows * kGroups rows.
template <class T, class Slice, int kRows>
MOH_KERNEL(kThreads, 4)
void aggregated_kernel(Forward<T> f) {
  const Problem<T>& p = f.problem;
  const Strip strip = strip_of_block(p, f.strips);
  const List& list = strip.list;
  const std::int64_t first = strip.number * kRows * kGroups<Slice>;
  if (first >= list.rows) return;
  auto& tile = *device::shared_memory<KeyTile<Slice>>();
  float* const scores = reinterpret_cast<float*>(&tile + 1) + device::thread_x();

  const Slice embedding = parameter_row<Slice>(p, p.parameters.query_embedding, list.kv_head);
  const float temperature = p.temperature(list.kv_head);
  Row<Slice> rows[kRows];
  MOH_UNROLL for (int r = 0; r < kRows; ++r) {
    const std::int64_t number = first + r * kGroups<Slice> + group<Slice>();
    Row<Slice>& row = rows[r];
    row.pair = pair_at(list, number < list.rows ? number : list.rows - 1);
    row.number = list.first + (number < list.rows ? number : list.rows - 1);
    row.window = Window::of(p.shape, row.pair.token);
    row.query = scaled_query(p, list, row.pair, row.window, embedding, temperature);
    row.sum.clear();
    row.top = kLowest;
    row.total = 0;
  }
  MOH_ROLLED for (std::int64_t begin = 0; begin < p.shape.pairs.keys; begin += kTileKeys<Slice>) {
    const auto count = static_cast<int>(min_of(kTileKeys<Slice>, p.shape.pairs.keys - begin));
    load_tile(p, list, begin, count, tile);
    add_tile(p, list, begin, count, tile, rows);
  }
  MOH_UNROLL for (int r = 0; r < kRows; ++r) {
    Row<Slice>& row = rows[r];
    if (p.shape.window > 0) add_neighbours(p, list, row, scores);
    const std::int64_t number = first + r * kGroups<Slice> + group<Slice>();
    if (number >= list.rows) continue;
    row.sum.scale(p.gate(list, row.pair) / row.total);
    row.sum.store(row_of(f.out, list, row.pair), p.head_dim(), p.whole);
    if (f.lse != nullptr && Slice::part() == 0) f.lse[list.first + number] = row.top + log2f(row.total);
  }
}

template <class T, class Slice, int kRows>
void launch_forward(const Problem<T>& p, const HeadView<T>& out, float* lse) {
  const std::int64_t strips = (Division::of(p.shape).strips + kRows - 1) / kRows;
  const std::size_t scores = static_cast<std::size_t>(p.shape.neighbours()) * kThreads * sizeof(float);
  cuda::launch("aggregated_attention", aggregated_kernel<T, Slice, kRows>,
               {.blocks_x = p.shape.pairs.batch * p.shape.pairs.heads * strips,
                .threads = kThreads,
                .shared_bytes = kTileBytes<Slice> + scores},
               Forward<T>{p, out, lse, strips});
}

}  // namespace

template <class T>
void forward(const Problem<T>& p, const HeadView<T>& out, float* lse) {
  with_slice(p.shape.pairs.head_dim, [&](auto type) {
    using Slice = typename decltype(type)::type;
    // Two rows to a lane where a list may fill the lanes of a block, and where they fit in registers.
    if constexpr (Slice::kDims <= 24) {
      if (p.shape.pairs.queries > kGroups<Slice>) return launch_forward<T, Slice, 2>(p, out, lse);
    }
    launch_forward<T, Slice, 1>(p, out, lse);
  });
}

template void forward(const Problem<float>&, const HeadView<float>&, float*);
template void forward(const Problem<bfloat16>&, const HeadView<bfloat16>&, float*);

}  // namespace moh::aggregated
