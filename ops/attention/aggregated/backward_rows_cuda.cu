#include "ops/attention/aggregated/passes.h"
#include "ops/cuda/reduce.h"

// The gradients of a row, and what the other passes need of it. Like the forward pass, a lane (or some) has a
// row of its own. With p the probabilities from the saved lse, dp = <dout, v> and delta = sum p dp, the
// gradient of the query is gate sum p (dp - delta) k = gate (sum p dp k - delta sum p k): both sums grow in
// one pass over the keys.

namespace moh::aggregated {

namespace {

template <class Slice>
struct Row {
  Pair pair;
  Window window;
  std::int64_t number;  // through all lists
  Slice query, dout;    // q' log2 e
  Slice along, mean;    // sums of p dp k, and of p k
  float lse, gate, inverse, scale;
  float total, delta;  // sums of p, and of p dp
};

template <class T, class Slice>
MOH_DEVICE void add_tile(const Problem<T>& p, const List& list, std::int64_t begin, int count,
                         const KeyTile<Slice>& tile, Row<Slice>& row) {
  const float* biases =
      p.bias + (list.kv_head * p.shape.pairs.keys + begin) * p.shape.pairs.queries + row.pair.token;
  MOH_ROLLED for (int i = 0; i < count; ++i) {
    Slice k, v;
    k.load_padded(tile.k[i]);
    v.load_padded(tile.v[i]);
    const float score = row.query.dot(k) + kLog2e * biases[i * p.shape.pairs.queries];
    const float own = device::exp2_fast(score - row.lse);
    const float probability = p.kept.holds(row.number, begin + i) ? own : 0.0F,
                weighted = probability * row.dout.dot(v);
    row.total += probability;
    row.delta += weighted;
    row.along.add(weighted, k);
    row.mean.add(probability, k);
  }
}

/// The thread's numbers of each neighbour in shared memory, an element every kThreads floats.
struct NearScores {
  float* at;
  MOH_DEVICE float& probability(int j) const { return at[(2 * j) * kThreads]; }
  MOH_DEVICE float& gradient(int j) const { return at[(2 * j + 1) * kThreads]; }
};

template <class T, class Slice>
MOH_DEVICE void add_neighbours(const Problem<T>& p, const List& list, const NearScores& scores,
                               Row<Slice>& row) {
  const float* biases = p.parameters.local_bias + list.kv_head * p.shape.neighbours();
  MOH_ROLLED for (Neighbour at(row.window); at.more(); at.step()) {
    const std::int64_t token = row.pair.token + at.offset();
    const Slice k = token_row<Slice>(p, p.local_k, list, token),
                v = token_row<Slice>(p, p.local_v, list, token);
    const float inverse = k.inverse_norm(), score = row.query.dot(k) * inverse + kLog2e * biases[at.number()];
    const float own = device::exp2_fast(score - row.lse), product = row.dout.dot(v);
    const bool kept = at.seen() && p.kept.holds(row.number, p.shape.pairs.keys + at.number());
    const float probability = kept ? own : 0.0F, gradient = at.seen() ? product : 0.0F;
    row.total += probability;
    row.delta += probability * gradient;
    row.along.add(probability * gradient * inverse, k);
    row.mean.add(probability * inverse, k);
    scores.probability(at.number()) = probability;
    scores.gradient(at.number()) = gradient;
  }
}

/// Completes what the other passes read of the neighbours, and adds the part of the learnable tokens to the
/// gradient of the unit query. Returns theirs of the gate.
template <class T, class Slice>
MOH_DEVICE float add_learned(const Backward<T>& b, const List& list, const NearScores& scores,
                             const Row<Slice>& row, const Slice& unit, bool real, Slice& dunit) {
  const Problem<T>& p = b.problem;
  const std::int64_t first = list.kv_head * p.shape.neighbours();
  float dgate = 0;
  MOH_ROLLED for (Neighbour at(row.window); at.more(); at.step()) {
    const int j = at.number();
    const Slice tokens = parameter_row<Slice>(p, p.tokens, first + j);
    const float sum = unit.dot(tokens) + p.parameters.token_bias[first + j], learned = at.seen() ? sum : 0.0F;
    const float probability = scores.probability(j), gradient = scores.gradient(j),
                dlearned = row.gate * gradient;
    dgate += learned * gradient;
    dunit.add(dlearned, tokens);
    if (!real || Slice::part() != 0) continue;
    const std::int64_t place = j * b.rows + row.number;
    b.dscores[place] = row.gate * probability * (gradient - row.delta);
    b.weights[place] = row.gate * (probability + learned);
    b.dlearned[place] = dlearned;
  }
  return dgate;
}

/// Sums over the rows of the block: those of lanes with the same part of a head, then of warps.
template <class Slice>
MOH_DEVICE void leave_sums(const Slice& dquery, float scale, float temperature, float* space, float* to) {
  constexpr int kWarps = kThreads / device::kWarp, kWidth = Slice::kWidth + 1;
  const auto over_rows = [](float value) {
    MOH_UNROLL for (int mask = device::kWarp / 2; mask >= Slice::kSplit; mask /= 2) value +=
        device::shuffle_xor(value, mask);
    return value;
  };
  Slice sums;
  MOH_UNROLL for (int i = 0; i < Slice::kDims; ++i) sums.v[i] = over_rows(scale * dquery.v[i]);
  temperature = over_rows(temperature);
  device::sync_block();  // the space was that of a tile
  float* const own = space + device::thread_x() / device::kWarp * 2 * kWidth;
  if (device::thread_x() % device::kWarp < Slice::kSplit) {
    MOH_UNROLL for (int i = 0; i < Slice::kDims; ++i) own[Slice::place(i / kChunk) + i % kChunk] = sums.v[i];
    if (Slice::part() == 0) own[kWidth - 1] = temperature;
  }
  device::sync_block();
  for (int i = device::thread_x(); i < kWidth; i += kThreads) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += space[w * 2 * kWidth + i];
    to[i] = sum;
  }
}

/// One block per strip of rows.
template <class T, class Slice>
MOH_KERNEL(kThreads, 4)
void aggregated_rows_kernel(Backward<T> b) {
  const Problem<T>& p = b.problem;
  const Division& division = b.division;
  const Strip strip = strip_of_block(p, division.strips);
  const List& list = strip.list;
  const std::int64_t first = strip.number * kGroups<Slice>, head = list.kv_head;
  float* const sums =
      b.row_sums +
      ((head * p.shape.pairs.batch + list.batch) * division.strips + strip.number) * (Slice::kWidth + 1);
  if (first >= list.rows) {
    for (int i = device::thread_x(); i < Slice::kWidth + 1; i += kThreads) sums[i] = 0;
    return;
  }
  auto& tile = *device::shared_memory<KeyTile<Slice>>();
  const NearScores scores{reinterpret_cast<float*>(&tile + 1) + device::thread_x()};

  const std::int64_t number = first + group<Slice>();
  const bool real = number < list.rows;
  Row<Slice> row;
  row.number = list.first + (real ? number : list.rows - 1);
  row.pair = pair_at(list, row.number - list.first);
  row.window = Window::of(p.shape, row.pair.token);
  row.lse = b.lse[row.number];
  row.gate = p.gate(list, row.pair);
  const float keys = log_keys(p.shape, row.window);
  row.scale = p.temperature(head) * keys;
  row.query = query_row<Slice>(p, p.q, list, row.pair);
  row.inverse = row.query.inverse_norm();
  row.query.scale(row.inverse);
  row.query.add(1.0F, parameter_row<Slice>(p, p.parameters.query_embedding, head));
  row.query.scale(row.scale * kLog2e);
  row.dout = query_row<Slice>(p, b.dout, list, row.pair);
  row.along.clear();
  row.mean.clear();
  row.total = row.delta = 0;
  MOH_ROLLED for (std::int64_t begin = 0; begin < p.shape.pairs.keys; begin += kTileKeys<Slice>) {
    const auto count = static_cast<int>(min_of(kTileKeys<Slice>, p.shape.pairs.keys - begin));
    load_tile(p, list, begin, count, tile);
    add_tile(p, list, begin, count, tile, row);
  }
  if (p.shape.window > 0) add_neighbours(p, list, scores, row);

  // The rounding of lse scales all probabilities alike, and the difference would not: it is of large numbers.
  const float inverse_total = 1 / row.total;
  row.delta *= inverse_total;
  const Slice dquery =
      Slice::mix(row.gate * inverse_total, row.along, -row.gate * inverse_total * row.delta, row.mean);
  Slice unit = query_row<Slice>(p, p.q, list, row.pair);
  unit.scale(row.inverse);
  const float along =
      dquery.dot(Slice::mix(1.0F, unit, 1.0F, parameter_row<Slice>(p, p.parameters.query_embedding, head)));
  const float dtemperature = real && Slice::part() == 0 ? along * keys : 0.0F;
  Slice dunit;
  MOH_UNROLL for (int i = 0; i < Slice::kDims; ++i) dunit.v[i] = dquery.v[i] * row.scale;
  float dgate = row.delta;
  if (p.shape.window > 0) dgate += add_learned(b, list, scores, row, unit, real, dunit);
  dunit.make_gradient_of(unit, row.inverse);
  if (real) {
    dunit.store(row_of(b.dq, list, row.pair), p.head_dim(), p.whole);
    if (Slice::part() == 0) {
      b.factors[row.number] = {row.inverse, row.scale, row.delta, row.gate};
      if (b.dgates != nullptr) b.dgates[gate_index(p.shape.pairs, list, row.pair)] = dgate;
      if (b.row_numbers != nullptr) {
        const std::int64_t pair =
            (list.batch * p.shape.pairs.heads + head) * p.shape.pairs.queries + row.pair.token;
        b.row_numbers[pair] = static_cast<std::int32_t>(number + 1);
      }
    }
  }
  leave_sums(dquery, real ? row.scale : 0.0F, dtemperature, reinterpret_cast<float*>(&tile), sums);
}

}  // namespace

template <class T>
void backward_rows(const Backward<T>& b) {
  const AggregatedShape& s = b.problem.shape;
  with_slice(s.pairs.head_dim, [&](auto type) {
    using Slice = typename decltype(type)::type;
    const std::size_t scores = static_cast<std::size_t>(2 * s.neighbours()) * kThreads * sizeof(float);
    cuda::launch("aggregated_attention_rows", aggregated_rows_kernel<T, Slice>,
                 {.blocks_x = s.pairs.batch * s.pairs.heads * b.division.strips,
                  .threads = kThreads,
                  .shared_bytes = sizeof(KeyTile<Slice>) + scores},
                 b);
  });
}

template void backward_rows(const Backward<float>&);
template void backward_rows(const Backward<bfloat16>&);

}  // namespace moh::aggregated
