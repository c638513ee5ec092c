#include "ops/attention/aggregated/passes.h"

// Gradients that are sums over rows, of what a row shares with others: distant keys and values, position
// biases, learnable tokens and their biases, the biases of neighbours. Here a lane (or some, for wide heads)
// has a distant key of its own, or a neighbour's number, and rows pass by in shared memory. A block has the
// keys of one head, the tokens of a chunk, and the sequences of a part, which it walks in their order: what
// belongs to a sequence is left when it ends, the rest at the end. Each sum grows in one thread, in an order
// that sizes and lists alone decide.

namespace moh::aggregated {

namespace {

constexpr int kRows = 32;  ///< rows of a tile

/// Rows of a list in shared memory.
template <class Slice>
struct RowTile {
  float unit[kRows][Slice::kWidth], dout[kRows][Slice::kWidth];
  RowFactors factors[kRows];
  float lse[kRows];
  std::int32_t tokens[kRows];
  float dbias[kChunkTokens][kGroups<Slice>];  // sums so far
};

/// Elements of the learned sums of a neighbour: the gradients of its token, of its token bias, of its bias.
template <class Slice>
constexpr int kLearned = Slice::kWidth + 2;

/// The number of the first row in [begin, end) of a list whose token is `token` or a later one.
MOH_DEVICE std::int64_t first_row_from(const List& list, std::int64_t begin, std::int64_t end,
                                       std::int64_t token) {
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

template <class T, class Slice>
MOH_DEVICE void load_rows(const Backward<T>& b, const List& list, std::int64_t begin, int count,
                          RowTile<Slice>& tile) {
  const Problem<T>& p = b.problem;
  device::sync_block();
  MOH_ROLLED for (int first = 0; first < count; first += kGroups<Slice>) {
    const int row = first + group<Slice>();
    if (row >= count) continue;
    const std::int64_t number = list.first + begin + row;
    const Pair pair = pair_at(list, begin + row);
    const RowFactors factors = b.factors[number];
    Slice unit = query_row<Slice>(p, p.q, list, pair);
    unit.scale(factors.inverse);
    unit.store_padded(tile.unit[row]);
    query_row<Slice>(p, b.dout, list, pair).store_padded(tile.dout[row]);
    if (Slice::part() != 0) continue;
    tile.factors[row] = factors;
    tile.lse[row] = b.lse[number];
    tile.tokens[row] = static_cast<std::int32_t>(pair.token);
  }
  device::sync_block();
}

/// The sums of a lane: of a distant key, or of a neighbour's number.
template <class Slice>
struct Slot {
  int number;  // of the distant key; from the number of keys on, of the neighbour
  bool is_key, is_neighbour;
  Slice k, v;  // the unit key and the value; zeros for a neighbour
  float of_embedding;
  Slice dk, dv;      // for a neighbour: the gradient of its token, and nothing
  float sum, dbias;  // of the factors of unit queries; of a neighbour's bias
};

/// Adds rows of a tile. `biases`: of the head, [tokens, keys].
template <class T, class Slice>
MOH_DEVICE void add_rows(const Backward<T>& b, const float* biases, std::int64_t first_row, int count,
                         std::int64_t chunk_begin, RowTile<Slice>& tile, Slot<Slice>& slot) {
  const std::int64_t keys = b.problem.shape.pairs.keys;
  const std::int64_t near = (slot.number - keys) * b.rows + first_row;
  MOH_ROLLED for (int i = 0; i < count; ++i) {
    const RowFactors row = tile.factors[i];
    const int token = tile.tokens[i];
    Slice unit, dout;
    unit.load_padded(tile.unit[i]);
    dout.load_padded(tile.dout[i]);
    const float product = slot.k.dot(unit) + slot.of_embedding, gradient = slot.v.dot(dout);
    float of_unit = 0, of_dout = 0;
    if (slot.is_key) {
      const float score = product * row.scale + biases[token * keys + slot.number];
      const float own = row.gate * device::exp2_fast(score * kLog2e - tile.lse[i]);
      const float probability = b.problem.kept.holds(first_row + i, slot.number) ? own : 0.0F;
      const float dscore = probability * (gradient - row.delta);
      of_unit = dscore * row.scale;
      of_dout = probability;
      if (Slice::part() == 0) tile.dbias[token - chunk_begin][group<Slice>()] += dscore;
    } else if (slot.is_neighbour) {
      of_unit = b.dlearned[near + i];
      slot.dbias += b.dscores[near + i];
    }
    slot.dk.add(of_unit, unit);
    slot.dv.add(of_dout, dout);
    slot.sum += of_unit;
  }
}

/// Leaves the sums of a sequence, and begins those of the next.
template <class T, class Slice>
MOH_DEVICE void leave_keys(const Backward<T>& b, const List& list, std::int64_t number, std::int64_t chunk,
                           Slot<Slice>& slot) {
  if (!slot.is_key) return;
  const Problem<T>& p = b.problem;
  slot.dk.add(slot.sum, parameter_row<Slice>(p, p.parameters.query_embedding, list.kv_head));
  float* const to = b.key_sums + ((number * b.division.chunks + chunk) * p.shape.pairs.keys + slot.number) *
                                     2 * Slice::kWidth;
  slot.dk.store_padded(to);
  slot.dv.store_padded(to + Slice::kWidth);
  slot.dk.clear();
  slot.dv.clear();
  slot.sum = 0;
}

/// Grid: x is a chunk of a part of a head; y counts blocks of slots.
template <class T, class Slice>
MOH_KERNEL(kThreads, 4)
void aggregated_keys_kernel(Backward<T> b) {
  const Problem<T>& p = b.problem;
  const AttentionShape& s = p.shape.pairs;
  const Division& division = b.division;
  const std::int64_t head = device::block_x() % s.heads, rest = device::block_x() / s.heads;
  const std::int64_t chunk = rest % division.chunks, part = rest / division.chunks;
  const std::int64_t first_token = chunk * kChunkTokens,
                     end_token = min_of(first_token + kChunkTokens, s.queries);
  auto& tile = *device::shared_memory<RowTile<Slice>>();
  for (int t = 0; t < kChunkTokens; ++t) {
    if (Slice::part() == 0) tile.dbias[t][group<Slice>()] = 0;
  }
  Slot<Slice> slot;
  slot.number = static_cast<int>(device::block_y()) * kGroups<Slice> + group<Slice>();
  slot.is_key = slot.number < s.keys;
  slot.is_neighbour = !slot.is_key && slot.number < s.keys + p.shape.neighbours();
  slot.k.clear();
  slot.v.clear();
  slot.of_embedding = 0;
  slot.dk.clear();
  slot.dv.clear();
  slot.sum = slot.dbias = 0;
  const float* const biases = p.parameters.position_bias + head * s.queries * s.keys;

  MOH_ROLLED for (std::int64_t image = s.batch * part / division.parts;
                  image < s.batch * (part + 1) / division.parts; ++image) {
    const List list = list_at(s, p.lists, image * s.heads + head);
    Slice k = token_row<Slice>(p, p.k, list, slot.is_key ? slot.number : 0);
    const Slice v = token_row<Slice>(p, p.v, list, slot.is_key ? slot.number : 0);
    k.scale(k.inverse_norm());
    const float of_embedding = k.dot(parameter_row<Slice>(p, p.parameters.query_embedding, head));
    if (slot.is_key) {
      slot.k = k;
      slot.v = v;
      slot.of_embedding = of_embedding;
    }
    const std::int64_t begin = first_row_from(list, 0, list.rows, first_token);
    const std::int64_t end = first_row_from(list, begin, list.rows, end_token);
    MOH_ROLLED for (std::int64_t row = begin; row < end; row += kRows) {
      const auto count = static_cast<int>(min_of(kRows, end - row));
      load_rows(b, list, row, count, tile);
      add_rows(b, biases, list.first + row, count, first_token, tile, slot);
    }
    leave_keys(b, list, image * s.heads + head, chunk, slot);
  }
  if (slot.is_key && Slice::part() == 0) {
    float* const to = b.bias_sums + (part * s.heads + head) * s.queries * s.keys + slot.number;
    for (std::int64_t t = first_token; t < end_token; ++t)
      to[t * s.keys] = tile.dbias[t - first_token][group<Slice>()];
  } else if (slot.is_neighbour) {
    const std::int64_t neighbour = slot.number - s.keys;
    const std::int64_t number = (head * division.parts + part) * division.chunks + chunk;
    float* const to = b.learned_sums + (number * p.shape.neighbours() + neighbour) * kLearned<Slice>;
    MOH_UNROLL for (int i = 0; i < Slice::kDims; ++i) to[Slice::place(i / kChunk) + i % kChunk] =
        slot.dk.v[i];
    if (Slice::part() == 0) {
      to[Slice::kWidth] = slot.sum;
      to[Slice::kWidth + 1] = slot.dbias;
    }
  }
}

template <class T>
struct FinishKeys {
  Problem<T> problem;
  const float* sums;  // [lists, chunks, keys, 2, width]
  std::int64_t chunks;
  HeadView<T> dk, dv;
};

/// Sums of the chunks, in their order, and the gradients of keys from those of unit keys.
template <class T, class Slice>
MOH_KERNEL(kThreads, 4)
void finish_keys_kernel(FinishKeys<T> f) {
  const Problem<T>& p = f.problem;
  const std::int64_t keys = p.shape.pairs.keys, all = p.shape.pairs.batch * p.shape.pairs.heads * keys;
  const std::int64_t own = device::block_x() * kGroups<Slice> + group<Slice>(),
                     number = own < all ? own : all - 1;
  const List list = list_at(p.shape.pairs, {}, number / keys);
  const std::int64_t key = number % keys;
  Slice dk, dv;
  dk.clear();
  dv.clear();
  const float* from = f.sums + (number / keys * f.chunks * keys + key) * 2 * Slice::kWidth;
  for (std::int64_t chunk = 0; chunk < f.chunks; ++chunk, from += keys * 2 * Slice::kWidth) {
    Slice part;
    part.load_padded(from);
    dk.add(1.0F, part);
    part.load_padded(from + Slice::kWidth);
    dv.add(1.0F, part);
  }
  Slice k = token_row<Slice>(p, p.k, list, key);
  const float inverse = k.inverse_norm();
  k.scale(inverse);
  dk.make_gradient_of(k, inverse);
  if (own >= all) return;
  dk.store(key_row(f.dk, list, key), p.head_dim(), p.whole);
  dv.store(key_row(f.dv, list, key), p.head_dim(), p.whole);
}

}  // namespace

template <class T>
void backward_keys(const Backward<T>& b, const HeadView<T>& dk, const HeadView<T>& dv) {
  const AttentionShape& s = b.problem.shape.pairs;
  with_slice(s.head_dim, [&](auto type) {
    using Slice = typename decltype(type)::type;
    const std::int64_t slots = s.keys + b.problem.shape.neighbours();
    cuda::launch("aggregated_attention_keys", aggregated_keys_kernel<T, Slice>,
                 {.blocks_x = s.heads * b.division.chunks * b.division.parts,
                  .blocks_y = (slots + kGroups<Slice> - 1) / kGroups<Slice>,
                  .threads = kThreads,
                  .shared_bytes = sizeof(RowTile<Slice>)},
                 b);
    const std::int64_t all = s.batch * s.heads * s.keys;
    cuda::launch("finish_distant_keys", finish_keys_kernel<T, Slice>,
                 {.blocks_x = (all + kGroups<Slice> - 1) / kGroups<Slice>, .threads = kThreads},
                 FinishKeys<T>{b.problem, b.key_sums, b.division.chunks, dk, dv});
  });
}

template void backward_keys(const Backward<float>&, const HeadView<float>&, const HeadView<float>&);
template void backward_keys(const Backward<bfloat16>&, const HeadView<bfloat16>&, const HeadView<bfloat16>&);

}  // namespace moh::aggregated
