#include "ops/attention/aggregated/passes.h"

// Gradients of the keys and values of neighbours: a lane (or some, for wide heads) has a token of a head, and
// adds what the selected queries around it contribute. Neighbouring lanes read neighbouring queries, from L1.

namespace moh::aggregated {

namespace {

template <class T>
struct WindowPass {
  Backward<T> args;
  HeadView<T> dk, dv;
};

/// The number of a token's row in a list, -1 if it has none.
template <class T>
MOH_DEVICE std::int64_t row_number(const Backward<T>& b, const List& list, std::int64_t token) {
  if (b.row_numbers == nullptr) return token;
  const AttentionShape& s = b.problem.shape.pairs;
  return b.row_numbers[(list.batch * s.heads + list.kv_head) * s.queries + token] - 1;
}

template <class T, class Slice>
MOH_KERNEL(kThreads, 8)
void aggregated_window_kernel(WindowPass<T> pass) {
  const Backward<T>& b = pass.args;
  const Problem<T>& p = b.problem;
  const AttentionShape& s = p.shape.pairs;
  const std::int64_t all = s.batch * s.heads * s.queries;
  const std::int64_t own = device::block_x() * kGroups<Slice> + group<Slice>(),
                     number = own < all ? own : all - 1;
  const List list = list_at(s, p.lists, number / s.queries);
  const std::int64_t token = number % s.queries;
  Slice dk, dv;
  dk.clear();
  dv.clear();
  float sum = 0;
  MOH_ROLLED for (Neighbour at(Window::of(p.shape, token)); at.more(); at.step()) {
    const std::int64_t query = token + at.offset(), row = at.seen() ? row_number(b, list, query) : -1;
    // A query that is not selected is not read, and lanes without one have nothing to do meanwhile.
    if (row < 0) continue;
    // The token is a neighbour of the query on the opposite side.
    const std::int64_t j = p.shape.neighbours() - 1 - at.number(), place = list.first + row;
    const RowFactors factors = b.factors[place];
    const float of_unit = b.dscores[j * b.rows + place] * factors.scale;
    dk.add(of_unit * factors.inverse, query_row<Slice>(p, p.q, list, {query, 0}));
    dv.add(b.weights[j * b.rows + place], query_row<Slice>(p, b.dout, list, {query, 0}));
    sum += of_unit;
  }
  dk.add(sum, parameter_row<Slice>(p, p.parameters.query_embedding, list.kv_head));
  Slice k = token_row<Slice>(p, p.local_k, list, token);
  const float inverse = k.inverse_norm();
  k.scale(inverse);
  dk.make_gradient_of(k, inverse);
  if (own >= all) return;
  dk.store(key_row(pass.dk, list, token), p.head_dim(), p.whole);
  dv.store(key_row(pass.dv, list, token), p.head_dim(), p.whole);
}

}  // namespace

template <class T>
void backward_window(const Backward<T>& b, const HeadView<T>& dk, const HeadView<T>& dv) {
  const AttentionShape& s = b.problem.shape.pairs;
  with_slice(s.head_dim, [&](auto type) {
    using Slice = typename decltype(type)::type;
    cuda::launch("aggregated_attention_window", aggregated_window_kernel<T, Slice>,
                 {.blocks_x = (s.batch * s.heads * s.queries + kGroups<Slice> - 1) / kGroups<Slice>,
                  .threads = kThreads},
                 WindowPass<T>{b, dk, dv});
  });
}

template void backward_window(const Backward<float>&, const HeadView<float>&, const HeadView<float>&);
template void backward_window(const Backward<bfloat16>&, const HeadView<bfloat16>&,
                              const HeadView<bfloat16>&);

}  // namespace moh::aggregated
