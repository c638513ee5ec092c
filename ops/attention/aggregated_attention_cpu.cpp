#include "ops/attention/aggregated_backward_cpu.h"
#include "ops/attention/aggregated_blocks_cpu.h"

// Blocks of gathered queries against all distant keys, which are few, and against the keys of neighbouring
// tokens. A row of logits holds both groups, so that one pass over it is the softmax. Here is the forward
// pass, logits, exponentials and weighted sums of values, and what calls both.

namespace moh {
namespace {

template <class T>
struct ForwardScratch {
  using F = Acc<T>;

  HeadParameters<F> head;
  DistantKeys<T> distant;
  NearWindow<F> near;
  QueryBlock<T> block;
  F* out;  // [block rows, padded]

  void lay_out(Arena& arena, const AggregatedShape& shape, const AnyLayout<F>& at) {
    head.lay_out(arena, at);
    distant.lay_out(arena, at);
    near.lay_out(arena, shape, /*has_gradients=*/false);
    block.lay_out(arena, at, /*has_gradients=*/false);
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
template <class T, class F, int kDim, int kCount>
void forward_block(const AggregatedForward<T>& args, const List& list, std::int64_t begin,
                   const Layout<F, kDim, kCount>& at, ForwardScratch<T>& s, RowClearer<T>& clearer,
                   RowFetcher<T>& fetcher) {
  constexpr int kN = kLanes<F>;
  QueryBlock<T>& block = s.block;
  score_block(args.parameters, args.shape, list.kv_head, s.head, s.distant, s.near, at, block);
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
  multiply_block(block.scores, at.columns(), at.keys, s.distant.v, at.padded, s.out, at.padded, at.padded,
                 block.rows);
  clearer.up_to(block.tokens[block.rows - 1] + 1, at.d);
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const Pair pair{block.tokens[i], 0};
    F* out = s.out + i * at.padded;
    if (at.neighbours > 0) {
      add_neighbours<F, kCount>(block.scores + i * at.columns() + at.key_columns,
                                s.near.v + s.near.row(pair.token, at.padded), block.near(i, at), out);
    }
    const F gate = args.gates ? args.gates[gate_index(args.shape.pairs, list, pair)] : F(1);
    store_row<T>(out, gate / sums[i], row_of(args.out, list, pair), at.d);
  }
}

/// The outputs of a task.
template <class T, class F, int kDim, int kCount>
void forward_rows(const AggregatedForward<T>& args, const RowTask& task, std::byte* scratch,
                  const Layout<F, kDim, kCount>& at) {
  const AggregatedShape& shape = args.shape;
  const List list = list_at(shape.pairs, args.lists, task.list);
  ForwardScratch<T> s;
  Arena arena(scratch);
  s.lay_out(arena, shape, at);
  RowClearer<T> clearer(args.out, list, task.begin);
  if (task.begin < task.end) {
    s.head.load_head(args.parameters, list.kv_head, at);
    s.distant.pack(args.k, args.v, list, s.head, at);
  }
  const std::int64_t margin = margin_of(shape), tokens = shape.pairs.queries;
  RowFetcher<T> fetcher;
  fetcher.will_write(row_of(args.out, list, {0, 0}), args.out.token_stride);
  if (task.begin < task.end) fetcher.begin_at(pair_at(list, task.begin).token);
  if (at.neighbours > 0) {
    const std::int64_t lists = shape.pairs.batch * shape.pairs.heads;
    const List next = list_at(shape.pairs, {}, min_of(task.list + 1, lists - 1));
    for (const HeadView<const T>& view : {args.local_k, args.local_v}) {
      fetcher.will_read(key_row(view, list, 0), key_row(view, next, 0), view.token_stride, lead_of(shape),
                        tokens);
    }
  }
  s.near.restart(0);
  for (std::int64_t row = task.begin; row < task.end; row += s.block.rows) {
    gather_queries<T>(args, list, row, block_length(list, row, task.end, at), s.head, at, s.block);
    if (at.neighbours > 0) {
      const std::int64_t from = s.block.tokens[0] - margin, last = s.block.tokens[s.block.rows - 1];
      if (from > s.near.end) s.near.restart(from);
      s.near.advance(args.local_k, args.local_v, list, from, min_of(tokens, last + margin + 1), at,
                     [](std::int64_t) {});
    }
    forward_block(args, list, row, at, s, clearer, fetcher);
  }
  if (task.end == list.rows) clearer.up_to(tokens, at.d);
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
  ForwardScratch<T>().lay_out(arena, shape, AnyLayout<F>(shape));
  return arena.used_bytes();
}

template <class Backend, class T>
void AggregatedKernels<Backend, T>::forward(const AggregatedForward<T>& args, const RowTask& task,
                                            std::byte* scratch) {
  with_layout<F>(args.shape, [&](const auto& at) { forward_rows(args, task, scratch, at); });
}

template <class Backend, class T>
std::size_t AggregatedKernels<Backend, T>::backward_scratch_bytes(const AggregatedShape& shape) {
  Arena arena(nullptr);
  BackwardScratch<T>().lay_out(arena, shape, AnyLayout<F>(shape));
  return arena.used_bytes();
}

template <class Backend, class T>
std::int64_t AggregatedKernels<Backend, T>::partial_size(const AggregatedShape& shape) {
  return PartialSums<F>(nullptr, shape, AnyLayout<F>(shape)).size;
}

template <class Backend, class T>
void AggregatedKernels<Backend, T>::backward(const AggregatedBackward<T>& args, const HeadChunk& task,
                                             std::byte* scratch) {
  F* own = args.partials + (task.head * args.chunks + task.chunk) * partial_size(args.shape);
  with_layout<F>(args.shape, [&](const auto& at) { backward_lists(args, task, scratch, own, at); });
}

template <class Backend, class T>
void AggregatedKernels<Backend, T>::sum_partials(const AggregatedBackward<T>& args, std::int64_t head,
                                                 const AggregatedParameters<F>& to) {
  const AnyLayout<F> at(args.shape);
  const std::int64_t size = partial_size(args.shape), tokens = args.shape.pairs.queries;
  F* total = args.partials + head * args.chunks * size;
  const PartialSums<F> sums(total, args.shape, at);
  sum_position_biases(args, sums, at, to.position_bias + head * tokens * at.keys);
  for (std::int64_t chunk = 1; chunk < args.chunks; ++chunk)
    add_row(total + chunk * size + sums.before, total + sums.before, size - sums.before);
  const auto take = [&](const F* from, std::int64_t rows, std::int64_t row, std::int64_t count, F* result) {
    take_columns(from, rows, row, count, result + head * rows * count);
  };
  take(sums.embedding, 1, at.padded, at.d, to.query_embedding);
  take(sums.temperature, 1, 1, 1, to.temperature);
  if (at.neighbours == 0) return;
  take(sums.local_bias, 1, at.local_columns, at.neighbours, to.local_bias);
  take(sums.token_bias, 1, at.local_columns, at.neighbours, to.token_bias);
  take(sums.tokens, at.d, at.local_columns, at.neighbours, to.tokens);
}

MOH_MATRIX_KERNELS(AggregatedKernels)

}  // namespace moh
