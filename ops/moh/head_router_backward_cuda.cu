#include "ops/cuda/rows.h"
#include "ops/moh/head_router_token_cuda.h"

namespace moh {

namespace {

/// Backward of p = softmax(z) over n elements: dz = p (dp - <p, dp>); dp(i) returns the gradient of p_i.
template <class Gradient>
MOH_DEVICE void softmax_gradient_on_lanes(const float* p, std::int64_t n, const Gradient& dp, float* dz) {
  const float mean = sum_on_heads(n, [&](std::int64_t i) { return p[i] * dp(i); });
  on_heads(n, [&](std::int64_t i) { dz[i] = p[i] * (dp(i) - mean); });
}

MOH_DEVICE void shared_gradients(const Token& token) {
  const Args& args = token.args;
  const RouterOptions& o = args.options;
  const std::int64_t t = token.t;
  const bool given = args.d_gates != nullptr;
  const float* d_gates = args.d_gates + (given ? t * o.heads : 0);
  if (args.d_shared_logits) {
    const float factor =
        given ? token.shared_weight * (token.code ? static_cast<float>(o.num_shared) : 1.0F) : 0.0F;
    softmax_gradient_on_lanes(
        args.shared_probabilities + t * o.num_shared, o.num_shared,
        [&](std::int64_t h) { return given ? factor * d_gates[head_at(args.order, h)] : 0.0F; },
        args.d_shared_logits.row(t));
  }
  if (args.d_type_logits) {
    const float factor = token.code ? 2.0F : 1.0F;
    float of_shared = 0, of_routed = 0;
    if (given) {
      of_shared = sum_on_heads(o.num_shared, [&](std::int64_t h) {
        return d_gates[head_at(args.order, h)] * token.shared_gate(h);
      });
      of_routed = sum_on_heads(o.top_k, [&](std::int64_t r) {
        const std::int64_t e = token.chosen(r);
        return token.d_gate(e) * token.routed_factor * token.probability(e);
      });
    }
    softmax_gradient_on_lanes(
        args.type_probabilities + 2 * t, 2,
        [&](std::int64_t i) { return factor * (i == 0 ? of_shared : of_routed); }, args.d_type_logits.row(t));
  }
}

/// The gradient of the routed logits through the gates; see routed_gradient.
struct RoutedGradient {
  float scale;   ///< of p (dp - mean)
  float weight;  ///< of the gates' gradient in dp
  float mean;
  bool chosen_only;     ///< dp is 0 for unselected heads
  bool nothing_beside;  ///< unselected logits get no gradient, either

  MOH_DEVICE float at(const Token& token, std::int64_t e) const {
    const float own = of_softmax(token, e);
    return token.shares ? own - token.probability(e) * sum_of_group(token, e) : own;
  }

  MOH_DEVICE float of_softmax(const Token& token, std::int64_t e) const {
    const bool counts = !chosen_only || token.is_chosen(e);
    if (nothing_beside && !counts) return 0;
    return scale * token.probability(e) * ((counts ? weight * token.d_gate(e) : 0.0F) - mean);
  }

  /// d log p of the selected heads in e's group, which the top_k / G selected of each group stand in turn
  /// for.
  MOH_DEVICE float sum_of_group(const Token& token, std::int64_t e) const {
    const RouterOptions& o = token.args.options;
    const std::int64_t kept = quotient(o.top_k, o.groups), size = quotient(token.experts, o.groups),
                       first = quotient(e, size) * kept;
    float sum = 0;
    for (std::int64_t r = first; r < first + kept; ++r) sum += of_softmax(token, token.chosen(r));
    return sum;
  }
};

// kCode: R = K softmax over the selected logits, so dz = R (dR - <R, dR> / K) there and 0 elsewhere.
// kPaper: dz = p (dp - <p, dp>) with dp of the selected. kBinary: the same with the gradients of all gates
// (straight-through). kShares: R = m p / sum(m p) of softmaxes of groups, d log p = R (dR - <R, dR>), and dz
// = d log p - p sum(d log p) in each group.
MOH_DEVICE RoutedGradient routed_gradient(const Token& token) {
  const RouterOptions& o = token.args.options;
  if (token.args.d_gates == nullptr || (token.binary && !o.straight_through)) return {0, 0, 0, true, true};
  if (token.binary) {
    const float mean =
        sum_on_heads(token.experts, [&](std::int64_t e) { return token.probability(e) * token.d_gate(e); });
    return {1, 1, mean, false, false};
  }
  const bool renormalised = token.code || token.shares;
  const float weight = token.routed_weight, scale = renormalised ? token.routed_factor : 1.0F;
  const float sum = sum_on_heads(o.top_k, [&](std::int64_t r) {
    const std::int64_t e = token.chosen(r);
    return scale * token.probability(e) * weight * token.d_gate(e);
  });
  return {scale, weight, token.code ? sum / static_cast<float>(o.top_k) : sum, true, renormalised};
}

/// The gradient of the routed logits of a token through the balance loss. It refers to no Token: a kernel
/// would copy its arguments to local memory for that.
struct BalanceGradient {
  const float* load;  ///< [E]
  std::int64_t experts;
  const float* p;           ///< [E], whose mean over the tokens is P
  std::int64_t group_size;  ///< E with one group
  float balance, mean;      ///< factor of p (f - mean), mean load of the only group

  MOH_DEVICE float at(std::int64_t e) const {
    float of_group = mean;
    if (group_size < experts) {
      of_group = 0;
      const std::int64_t first = quotient(e, group_size) * group_size;
      for (std::int64_t i = first; i < first + group_size; ++i) of_group += p[i] * load[i];
    }
    return balance * p[e] * (load[e] - of_group);
  }
};

/// Must be called by all lanes.
MOH_DEVICE BalanceGradient balance_gradient(const Token& token) {
  const Args& args = token.args;
  const float* all = args.group_probabilities != nullptr ? args.group_probabilities : args.probabilities;
  BalanceGradient gradient{args.balance_load,
                           token.experts,
                           all + token.t * token.experts,
                           quotient(token.experts, args.options.groups),
                           0,
                           0};
  if (args.d_balance == nullptr) return gradient;
  gradient.balance =
      *args.d_balance * static_cast<float>(args.balance_slope) / static_cast<float>(args.tokens);
  if (args.options.groups == 1)
    gradient.mean =
        sum_on_heads(token.experts, [&](std::int64_t e) { return gradient.p[e] * args.balance_load[e]; });
  return gradient;
}

MOH_KERNEL(kItemThreads) void route_heads_gradient_kernel(Args args) {
  const std::int64_t t = item_of_warp();
  if (t >= args.tokens) return;
  const Token token = token_at(args, t);
  shared_gradients(token);
  if (!args.d_routed_logits) return;
  const RoutedGradient gradient = routed_gradient(token);
  const BalanceGradient of_balance = balance_gradient(token);
  on_heads(token.experts, [&](std::int64_t e) {
    float dz = gradient.at(token, e);
    if (args.d_balance != nullptr) dz += of_balance.at(e);
    args.d_routed_logits.row(t)[e] = dz;
  });
}

}  // namespace

template <class Backend, class A>
void HeadRouterKernels<Backend, A>::backward(const RouterArgs<A>& args) {
  cuda::launch("route_heads_gradient", route_heads_gradient_kernel,
               {.blocks_x = item_blocks(args.tokens), .threads = kItemThreads}, args);
}

template void HeadRouterKernels<Cuda, float>::backward(const RouterArgs<float>& args);

}  // namespace moh
