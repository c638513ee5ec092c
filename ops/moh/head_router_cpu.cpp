#include <algorithm>
#include <limits>

#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/moh/head_router_tile_cpu.h"

namespace moh {
namespace {

/// Tokens per chunk: whole tiles, and few enough chunks that their partial sums stay small.
std::int64_t token_grain(std::int64_t tokens) {
  constexpr std::int64_t kLeast = 256, kMostChunks = 64;
  return std::max(kLeast, num_chunks(tokens, kMostChunks * kLeast) * kLeast);
}

/// Probabilities of a tile from its logits, into `p` and stored.
template <class A>
[[gnu::always_inline]] inline void softmax_tile(const RouterArgs<A>& args, const RouterTile<A>& tile,
                                                const Columns<const A>& logits, std::int64_t width, Vec<A>* p,
                                                A* probabilities) {
  if (!logits) return;
  tile.load(logits, args.tokens, width, p);
  softmax_columns<A>(p, width);
  tile.store(p, width, probabilities);
}

/// Probabilities of the routed heads of a tile, likewise.
template <class A>
[[gnu::always_inline]] inline void routed_tile(const RouterArgs<A>& args, const RouterTile<A>& tile) {
  if (!args.routed_logits) return;
  const std::int64_t experts = args.options.routed();
  tile.load(args.routed_logits, args.tokens, experts, tile.routed());
  softmax_parts<A>(tile.routed(), experts, softmax_width(args.options));
  tile.store(tile.routed(), experts, args.probabilities);
}

/// Chooses the heads of a tile, or reads a forced choice.
template <class A>
[[gnu::always_inline]] inline void choose_heads(const RouterArgs<A>& args, const RouterTile<A>& tile) {
  const RouterOptions& o = args.options;
  const std::int64_t experts = o.heads - o.num_shared;
  if (!args.routed_logits || args.forced) return count_choice(tile, experts, o.top_k, args.top);
  tile.load(args.routed_logits, args.tokens, experts, tile.routed());
  if (args.selection_bias) {
    softmax_parts<A>(tile.routed(), experts, softmax_width(o));
    for (std::int64_t e = 0; e < experts; ++e) tile.routed()[e] += args.selection_bias[e];
  }
  choose(tile, o);
  if (!args.selection_bias && o.top_k < experts) tile.statistics()[1] += tile.masked(margin(tile, o));
  tile.store_numbers(o.top_k, args.top);
}

/// Leaves the selected logits of a tile alone: a softmax of the others is 0.
template <class A>
[[gnu::always_inline]] inline void keep_selected(const RouterTile<A>& tile, std::int64_t experts, Vec<A>* z) {
  const Vec<A> none = splat(-std::numeric_limits<A>::infinity());
  for (std::int64_t e = 0; e < experts; ++e) z[e] = tile.times()[e] > A(0) ? z[e] : none;
}

/// The probabilities of a tile that the balance loss is about: RouterArgs::group_probabilities, which are
/// stored, or those of the only group.
template <class A>
[[gnu::always_inline]] inline const Vec<A>* group_tile(const RouterArgs<A>& args, const RouterTile<A>& tile) {
  if (!args.group_probabilities) return tile.routed();
  const std::int64_t experts = args.options.routed(), size = args.options.group_routed();
  tile.load(args.routed_logits, args.tokens, experts, tile.in_groups());
  if (args.options.balance_loss == BalanceLoss::kCv) keep_selected(tile, experts, tile.in_groups());
  softmax_parts<A>(tile.in_groups(), experts, size);
  tile.store(tile.in_groups(), experts, args.group_probabilities);
  return tile.in_groups();
}

/// Gates and selection of a tile.
template <class A>
[[gnu::always_inline]] inline void gate_tile(const RouterArgs<A>& args, const RouterTile<A>& tile) {
  using Bits = BitsOf<A>;
  const RouterOptions& o = args.options;
  const bool binary = o.scaling == GateScaling::kBinary;
  const TypeWeights<A> w = type_weights(args, tile);
  const Vec<A> one = splat(A(1)), routed = w.routed * routed_factor(args, tile);
  const Vec<Bits> yes = Vec<Bits>{} + 1;
  for (std::int64_t i = 0; i < o.num_shared; ++i) {
    const std::int64_t h = head_at(args, i);
    tile.gates()[h] = binary ? one : w.shared * shared_weight(args, tile, i);
    tile.numbers()[h] = yes;
  }
  for (std::int64_t i = o.num_shared; i < o.heads; ++i) {
    const std::int64_t h = head_at(args, i), e = i - o.num_shared;
    const auto is_selected = tile.times()[e] > A(0);
    tile.gates()[h] = is_selected ? (binary ? one : routed * tile.routed()[e]) : Vec<A>{};
    tile.numbers()[h] = is_selected ? yes : Vec<Bits>{};
  }
  tile.store(tile.gates(), o.heads, args.gates);
  tile.store_numbers(o.heads, args.selected);
}

/// Gradient of the shared logits of a tile, from tile.gates(), the gradient of the gates.
template <class A>
[[gnu::always_inline]] inline void shared_backward_tile(const RouterArgs<A>& args,
                                                        const RouterTile<A>& tile) {
  const RouterOptions& o = args.options;
  const Vec<A> factor =
      type_weights(args, tile).shared * (o.scaling == GateScaling::kCode ? A(o.num_shared) : A(1));
  for (std::int64_t h = 0; h < o.num_shared; ++h) {
    tile.dp()[h] = factor * tile.gates()[head_at(args, h)];
    tile.dz()[h] = Vec<A>{};
  }
  add_softmax_backward<A>(tile.shared(), tile.dp(), tile.dz(), o.num_shared);
  tile.store(tile.dz(), o.num_shared, args.d_shared_logits);
}

/// Gradient of the type logits of a tile.
template <class A>
[[gnu::always_inline]] inline void type_backward_tile(const RouterArgs<A>& args, const RouterTile<A>& tile) {
  const RouterOptions& o = args.options;
  const A factor = o.scaling == GateScaling::kCode ? A(2) : A(1);
  Vec<A> of_shared{}, of_routed{};
  for (std::int64_t h = 0; h < o.num_shared; ++h)
    of_shared += tile.gates()[head_at(args, h)] * shared_weight(args, tile, h);
  for (std::int64_t e = 0; e < o.heads - o.num_shared; ++e)
    of_routed += tile.gates()[head_at(args, o.num_shared + e)] * tile.times()[e] * tile.routed()[e];
  tile.dp()[0] = factor * of_shared;
  tile.dp()[1] = factor * routed_factor(args, tile) * of_routed;
  tile.dz()[0] = tile.dz()[1] = Vec<A>{};
  add_softmax_backward<A>(tile.types(), tile.dp(), tile.dz(), 2);
  tile.store(tile.dz(), 2, args.d_type_logits);
}

/// Adds the gradient of the routed logits of a tile with kShares, from tile.dp(), the gradient of the gates R
/// of selected heads: d log p = R (dR - <R, dR>), and dz = d log p - p sum(d log p) in each group.
template <class A>
[[gnu::always_inline]] inline void shares_backward_tile(const RouterArgs<A>& args,
                                                        const RouterTile<A>& tile) {
  const std::int64_t experts = args.options.routed(), size = args.options.group_routed();
  const Vec<A> factor = routed_factor(args, tile);
  Vec<A>*dp = tile.dp(), *p = tile.routed();
  Vec<A> mean{};
  for (std::int64_t e = 0; e < experts; ++e) mean += factor * p[e] * dp[e];
  for (std::int64_t first = 0; first < experts; first += size) {
    Vec<A> sum{};
    for (std::int64_t e = first; e < first + size; ++e)
      sum += dp[e] = factor * p[e] * (dp[e] - tile.times()[e] * mean);
    for (std::int64_t e = first; e < first + size; ++e) tile.dz()[e] += dp[e] - p[e] * sum;
  }
}

/// Adds the gradient of the routed logits of a tile from its gates to tile.dz().
template <class A>
[[gnu::always_inline]] inline void routed_backward_tile(const RouterArgs<A>& args,
                                                        const RouterTile<A>& tile) {
  const RouterOptions& o = args.options;
  const std::int64_t experts = o.heads - o.num_shared;
  const bool binary = o.scaling == GateScaling::kBinary;
  if (binary && !o.straight_through) return;
  const Vec<A> weight = type_weights(args, tile).routed, factor = routed_factor(args, tile);
  Vec<A>*dp = tile.dp(), *p = tile.routed();
  for (std::int64_t e = 0; e < experts; ++e) {
    const Vec<A> d_gate = tile.gates()[head_at(args, o.num_shared + e)];
    dp[e] = binary ? d_gate : tile.times()[e] * weight * d_gate;
  }
  if (o.scaling == GateScaling::kShares) return shares_backward_tile(args, tile);
  if (o.scaling != GateScaling::kCode) return add_softmax_backward<A>(p, dp, tile.dz(), experts);
  // R = K softmax over the selected logits, so dz = R (dR - <R, dR> / K) there and 0 elsewhere.
  Vec<A> mean{};
  for (std::int64_t e = 0; e < experts; ++e) mean += factor * p[e] * dp[e];
  mean *= A(1) / A(o.top_k);
  for (std::int64_t e = 0; e < experts; ++e) tile.dz()[e] += factor * p[e] * (dp[e] - tile.times()[e] * mean);
}

/// Adds the gradient of the routed logits of a tile from the balance loss, whose derivative in P_i is
/// `scale` f_i, to tile.dz().
template <class A>
[[gnu::always_inline]] inline void balance_backward_tile(const RouterArgs<A>& args, const RouterTile<A>& tile,
                                                         A scale) {
  const std::int64_t experts = args.options.routed(), size = args.options.group_routed();
  const Vec<A>* p = args.group_probabilities ? tile.in_groups() : tile.routed();
  for (std::int64_t e = 0; e < experts; ++e) tile.dp()[e] = splat(scale * args.balance_load[e]);
  for (std::int64_t e = 0; e < experts; e += size)
    add_softmax_backward<A>(p + e, tile.dp() + e, tile.dz() + e, size);
}

/// Sums over a chunk of tokens, of the probabilities, the choice and the statistics, into sums [2 E + 2].
template <class A>
[[gnu::always_inline]] inline void forward_chunk(const RouterArgs<A>& args, std::int64_t begin,
                                                 std::int64_t end, A* sums) {
  const RouterOptions& o = args.options;
  const std::int64_t experts = o.heads - o.num_shared;
  RouterTile<A> tile(o);
  for_each_tile(tile, begin, end, [&] {
    softmax_tile(args, tile, args.shared_logits, o.num_shared, tile.shared(), args.shared_probabilities);
    softmax_tile(args, tile, args.type_logits, 2, tile.types(), args.type_probabilities);
    choose_heads(args, tile);
    routed_tile(args, tile);
    gate_tile(args, tile);
    const Vec<A>* p = group_tile(args, tile);
    for (std::int64_t e = 0; e < experts; ++e) {
      tile.mean()[e] += tile.masked(p[e]);
      tile.load_sums()[e] += tile.masked(tile.times()[e]);
    }
    if (args.type_logits) tile.statistics()[0] += tile.masked(tile.types()[1]);
  });
  for (std::int64_t e = 0; e < experts; ++e) {
    sums[e] += sum_lanes<A>(tile.mean()[e]);
    sums[experts + e] += sum_lanes<A>(tile.load_sums()[e]);
  }
  for (std::int64_t i = 0; i < 2; ++i) sums[2 * experts + i] += sum_lanes<A>(tile.statistics()[i]);
}

/// The loss of args.mean_probability and args.balance_load (balance_factor()).
template <class A>
A balance_loss(const RouterArgs<A>& args) {
  const bool is_cv = args.options.balance_loss == BalanceLoss::kCv;
  double sum = 0;
  for (std::int64_t e = 0; e < args.options.routed(); ++e) {
    const auto p = static_cast<double>(args.mean_probability[e]),
               f = static_cast<double>(args.balance_load[e]);
    sum += is_cv ? (f - args.even_share) * (2 * p - f - args.even_share) : p * f;
  }
  return static_cast<A>(args.balance_factor * sum);
}

}  // namespace

template <class Backend, class A>
void HeadRouterKernels<Backend, A>::forward(const RouterArgs<A>& args) {
  const std::int64_t experts = args.options.heads - args.options.num_shared;
  const std::int64_t width = 2 * experts + 2;
  const Scratch scratch(static_cast<std::size_t>(width) * sizeof(A));
  A* sums = scratch.as<A>();
  sum_over_chunks<A>(
      args.tokens, token_grain(args.tokens), width, sums,
      [&](std::int64_t begin, std::int64_t end, A* partial) { forward_chunk(args, begin, end, partial); });
  if (!args.routed_logits) return;
  const A share = args.tokens > 0 ? A(1) / A(args.tokens) : A(0);
  for (std::int64_t e = 0; e < experts; ++e) {
    args.mean_probability[e] = sums[e] * share;
    args.load[e] = sums[experts + e] * share;
  }
  for (std::int64_t i = 0; i < 2; ++i) args.statistics[i] = sums[2 * experts + i] * share;
  *args.balance = balance_loss(args);
}

template <class Backend, class A>
void HeadRouterKernels<Backend, A>::backward(const RouterArgs<A>& args) {
  const RouterOptions& o = args.options;
  const std::int64_t experts = o.heads - o.num_shared;
  const A balance = args.d_balance ? *args.d_balance * A(args.balance_slope) / A(args.tokens) : A(0);
  parallel_for(args.tokens, token_grain(args.tokens), [&](std::int64_t begin, std::int64_t end) {
    RouterTile<A> tile(o);
    const auto load = [&](const A* from, std::int64_t width, Vec<A>* to) {
      if (from) tile.load(from, args.tokens, width, to);
    };
    for_each_tile(tile, begin, end, [&] {
      load(args.shared_probabilities, o.num_shared, tile.shared());
      load(args.type_probabilities, 2, tile.types());
      load(args.probabilities, experts, tile.routed());
      load(args.group_probabilities, experts, tile.in_groups());
      load(args.d_gates, o.heads, tile.gates());  // zeros without
      count_choice(tile, experts, o.top_k, args.top);
      if (args.d_shared_logits) shared_backward_tile(args, tile);
      if (args.d_type_logits) type_backward_tile(args, tile);
      if (!args.d_routed_logits) return;
      for (std::int64_t e = 0; e < experts; ++e) tile.dz()[e] = Vec<A>{};
      if (args.d_gates) routed_backward_tile(args, tile);
      if (args.d_balance) balance_backward_tile(args, tile, balance);
      tile.store(tile.dz(), experts, args.d_routed_logits);
    });
  });
}

template struct HeadRouterKernels<cpu::MOH_ISA, float>;
template struct HeadRouterKernels<cpu::MOH_ISA, double>;

}  // namespace moh
