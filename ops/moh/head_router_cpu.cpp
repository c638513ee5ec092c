#include <cmath>

#include "ops/cpu/reduce.h"
#include "ops/moh/head_router_kernels.h"
#include "ops/op.h"

namespace moh {
namespace {

constexpr std::int64_t kTokenGrain = 256;

template <class A>
[[gnu::always_inline]] inline void softmax_row(const A* logits, A* p, std::int64_t n) {
  A top = logits[0];
  for (std::int64_t i = 1; i < n; ++i) top = logits[i] > top ? logits[i] : top;
  A sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += p[i] = std::exp(logits[i] - top);
  for (std::int64_t i = 0; i < n; ++i) p[i] /= sum;
}

/// The K largest logits, best first, ties to the lowest index. `taken` [E] is scratch. NaN ranks
/// below every number.
template <class A>
[[gnu::always_inline]] inline void top_k_row(const A* logits, std::int64_t experts, std::int64_t k,
                                             std::int32_t* top, std::uint8_t* taken) {
  for (std::int64_t e = 0; e < experts; ++e) taken[e] = 0;
  for (std::int64_t r = 0; r < k; ++r) {
    std::int64_t best = -1;
    for (std::int64_t e = 0; e < experts; ++e) {
      if (!taken[e] && (best < 0 || logits[e] > logits[best] ||
                        (logits[best] != logits[best] && logits[e] == logits[e]))) {
        best = e;
      }
    }
    taken[best] = 1;
    top[r] = static_cast<std::int32_t>(best);
  }
}

/// The head of the layer at index i of the router's order, shared heads first.
template <class A>
[[gnu::always_inline]] inline std::int64_t head_at(const RouterArgs<A>& args, std::int64_t i) {
  return args.order ? args.order[i] : i;
}

/// Weights of the two kinds of heads: of shared ones, of routed ones.
template <class A>
struct TypeWeights {
  A shared, routed;
};

template <class A>
[[gnu::always_inline]] inline TypeWeights<A> type_weights(const RouterArgs<A>& args, std::int64_t t) {
  const bool code = args.options.scaling == GateScaling::kCode;
  const A* w = args.type_probabilities;
  if (w)
    return code ? TypeWeights<A>{2 * w[2 * t], 2 * w[2 * t + 1]} : TypeWeights<A>{w[2 * t], w[2 * t + 1]};
  const bool both = args.options.num_shared > 0 && args.options.top_k > 0;
  return !code && both ? TypeWeights<A>{A(0.5), A(0.5)} : TypeWeights<A>{A(1), A(1)};
}

/// The token's gate of a shared head without the type weight.
template <class A>
[[gnu::always_inline]] inline A shared_weight(const RouterArgs<A>& args, std::int64_t t, std::int64_t head) {
  if (!args.shared_probabilities) return A(1);
  const A p = args.shared_probabilities[t * args.options.num_shared + head];
  return args.options.scaling == GateScaling::kCode ? A(args.options.num_shared) * p : p;
}

/// The factor of p in a routed gate without the type weight: K / sum(m p), or 1.
template <class A>
[[gnu::always_inline]] inline A routed_factor(const RouterArgs<A>& args, std::int64_t t) {
  if (args.options.scaling != GateScaling::kCode) return A(1);
  const std::int64_t experts = args.options.heads - args.options.num_shared, k = args.options.top_k;
  A sum = 0;
  for (std::int64_t r = 0; r < k; ++r) sum += args.probabilities[t * experts + args.top[t * k + r]];
  // The selected heads have at least K / E of the probability; a forced selection may have less.
  const A least = sizeof(A) == 8 ? A(2.2e-16) : A(1.19e-7);
  return A(k) / (sum > least ? sum : least);
}

template <class A>
[[gnu::always_inline]] inline void gate_row(const RouterArgs<A>& args, std::int64_t t) {
  const RouterOptions& o = args.options;
  A* gates = args.gates + t * o.heads;
  std::uint8_t* selected = args.selected + t * o.heads;
  const bool binary = o.scaling == GateScaling::kBinary;
  const TypeWeights<A> w = type_weights(args, t);
  for (std::int64_t i = 0; i < o.heads; ++i) {
    const std::int64_t h = head_at(args, i);
    gates[h] = i >= o.num_shared ? A(0) : binary ? A(1) : w.shared * shared_weight(args, t, i);
    selected[h] = i < o.num_shared;
  }
  if (o.top_k == 0) return;
  const A factor = routed_factor(args, t);
  for (std::int64_t r = 0; r < o.top_k; ++r) {
    const std::int64_t e = args.top[t * o.top_k + r];
    const A p = args.probabilities[t * (o.heads - o.num_shared) + e];
    const std::int64_t h = head_at(args, o.num_shared + e);
    gates[h] = binary ? A(1) : w.routed * factor * p;
    selected[h] = 1;
  }
}

/// Backward of p = softmax(z): adds p (dp - <p, dp>) to dz.
template <class A>
[[gnu::always_inline]] inline void add_softmax_backward(const A* p, const A* dp, A* dz, std::int64_t n) {
  A mean = 0;
  for (std::int64_t i = 0; i < n; ++i) mean += p[i] * dp[i];
  for (std::int64_t i = 0; i < n; ++i) dz[i] += p[i] * (dp[i] - mean);
}

/// Gradients of the type logits and of the shared logits of token t.
template <class A>
[[gnu::always_inline]] inline void shared_backward_row(const RouterArgs<A>& args, std::int64_t t, A* dp) {
  const RouterOptions& o = args.options;
  const A* d_gates = args.d_gates + t * o.heads;
  const TypeWeights<A> w = type_weights(args, t);
  if (args.d_shared_logits) {
    const A factor = o.scaling == GateScaling::kCode ? A(o.num_shared) : A(1);
    for (std::int64_t h = 0; h < o.num_shared; ++h) dp[h] = w.shared * factor * d_gates[head_at(args, h)];
    add_softmax_backward(args.shared_probabilities + t * o.num_shared, dp,
                         args.d_shared_logits + t * o.num_shared, o.num_shared);
  }
  if (args.d_type_logits) {
    const A factor = o.scaling == GateScaling::kCode ? A(2) : A(1);
    A dw[2] = {0, 0};
    for (std::int64_t h = 0; h < o.num_shared; ++h)
      dw[0] += d_gates[head_at(args, h)] * shared_weight(args, t, h);
    const A routed = routed_factor(args, t);
    for (std::int64_t r = 0; r < o.top_k; ++r) {
      const std::int64_t e = args.top[t * o.top_k + r];
      dw[1] += d_gates[head_at(args, o.num_shared + e)] * routed *
               args.probabilities[t * (o.heads - o.num_shared) + e];
    }
    dp[0] = factor * dw[0];
    dp[1] = factor * dw[1];
    add_softmax_backward(args.type_probabilities + 2 * t, dp, args.d_type_logits + 2 * t, 2);
  }
}

/// Gradient of the routed logits of token t from its gates.
template <class A>
[[gnu::always_inline]] inline void routed_backward_row(const RouterArgs<A>& args, std::int64_t t, A* dp) {
  const RouterOptions& o = args.options;
  const std::int64_t experts = o.heads - o.num_shared, k = o.top_k;
  const A* d_gates = args.d_gates + t * o.heads;
  const auto d_gate = [&](std::int64_t e) { return d_gates[head_at(args, o.num_shared + e)]; };
  const A* p = args.probabilities + t * experts;
  const std::int32_t* top = args.top + t * k;
  A* dz = args.d_routed_logits + t * experts;
  if (o.scaling == GateScaling::kBinary) {
    if (!o.straight_through) return;
    for (std::int64_t e = 0; e < experts; ++e) dp[e] = d_gate(e);
    return add_softmax_backward(p, dp, dz, experts);
  }
  const A weight = type_weights(args, t).routed;
  if (o.scaling == GateScaling::kPaper) {
    for (std::int64_t e = 0; e < experts; ++e) dp[e] = 0;
    for (std::int64_t r = 0; r < k; ++r) dp[top[r]] = weight * d_gate(top[r]);
    return add_softmax_backward(p, dp, dz, experts);
  }
  // kCode: R = K softmax over the selected logits, so dz = R (dR - <R, dR> / K) there and 0 elsewhere.
  const A factor = routed_factor(args, t);
  A mean = 0;
  for (std::int64_t r = 0; r < k; ++r) mean += factor * p[top[r]] * weight * d_gate(top[r]);
  mean /= A(k);
  for (std::int64_t r = 0; r < k; ++r) dz[top[r]] += factor * p[top[r]] * (weight * d_gate(top[r]) - mean);
}

}  // namespace

template <class Backend, class A>
void HeadRouterKernels<Backend, A>::forward(const RouterArgs<A>& args) {
  const RouterOptions& o = args.options;
  const std::int64_t experts = o.heads - o.num_shared;
  parallel_for(args.tokens, kTokenGrain, [&](std::int64_t begin, std::int64_t end) {
    const Scratch scratch(static_cast<std::size_t>(o.heads));
    for (std::int64_t t = begin; t < end; ++t) {
      if (args.shared_logits) {
        softmax_row(args.shared_logits + t * o.num_shared, args.shared_probabilities + t * o.num_shared,
                    o.num_shared);
      }
      if (args.type_logits) softmax_row(args.type_logits + 2 * t, args.type_probabilities + 2 * t, 2);
      if (args.routed_logits) {
        const A* logits = args.routed_logits + t * experts;
        softmax_row(logits, args.probabilities + t * experts, experts);
        if (!args.forced)
          top_k_row(logits, experts, o.top_k, args.top + t * o.top_k, scratch.as<std::uint8_t>());
      }
      gate_row(args, t);
    }
  });
  if (!args.routed_logits) return;
  const A share = args.tokens > 0 ? A(1) / A(args.tokens) : A(0);
  sum_over_rows<A>(args.tokens, experts, args.mean_probability, [&](std::int64_t t, A* sums) {
    for (std::int64_t e = 0; e < experts; ++e) sums[e] += args.probabilities[t * experts + e];
  });
  sum_over_rows<A>(args.tokens, experts, args.load, [&](std::int64_t t, A* sums) {
    for (std::int64_t r = 0; r < o.top_k; ++r) sums[args.top[t * o.top_k + r]] += A(1);
  });
  for (std::int64_t e = 0; e < experts; ++e) {
    args.mean_probability[e] *= share;
    args.load[e] *= share;
  }
}

template <class Backend, class A>
void HeadRouterKernels<Backend, A>::balance_loss(const RouterArgs<A>& args, A* balance) {
  const RouterOptions& o = args.options;
  const std::int64_t experts = o.heads - o.num_shared;
  double sum = 0;
  for (std::int64_t e = 0; e < experts; ++e)
    sum += static_cast<double>(args.mean_probability[e]) * static_cast<double>(args.load[e]);
  *balance = static_cast<A>(o.balance_loss == BalanceLoss::kPaper ? sum : static_cast<double>(experts) * sum);
}

template <class Backend, class A>
void HeadRouterKernels<Backend, A>::backward(const RouterArgs<A>& args) {
  const RouterOptions& o = args.options;
  const std::int64_t experts = o.heads - o.num_shared;
  const A scale = o.balance_loss == BalanceLoss::kPaper ? A(1) : A(experts);
  const A balance = args.d_balance ? *args.d_balance * scale / A(args.tokens) : A(0);
  parallel_for(args.tokens, kTokenGrain, [&](std::int64_t begin, std::int64_t end) {
    const Scratch scratch(static_cast<std::size_t>(o.heads + 2) * sizeof(A));
    A* dp = scratch.as<A>();
    for (std::int64_t t = begin; t < end; ++t) {
      if (args.d_shared_logits) {
        for (std::int64_t h = 0; h < o.num_shared; ++h) args.d_shared_logits[t * o.num_shared + h] = A(0);
      }
      if (args.d_type_logits) args.d_type_logits[2 * t] = args.d_type_logits[2 * t + 1] = A(0);
      if (args.d_gates) shared_backward_row(args, t, dp);
      if (!args.d_routed_logits) continue;
      A* dz = args.d_routed_logits + t * experts;
      for (std::int64_t e = 0; e < experts; ++e) dz[e] = A(0);
      if (args.d_gates) routed_backward_row(args, t, dp);
      if (!args.d_balance) continue;
      for (std::int64_t e = 0; e < experts; ++e) dp[e] = balance * args.load[e];
      add_softmax_backward(args.probabilities + t * experts, dp, dz, experts);
    }
  });
}

template struct HeadRouterKernels<cpu::MOH_ISA, float>;
template struct HeadRouterKernels<cpu::MOH_ISA, double>;

}  // namespace moh
