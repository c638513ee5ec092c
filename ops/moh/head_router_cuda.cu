#include <cmath>

#include "ops/cuda/column_sums.h"
#include "ops/cuda/lanes.h"
#include "ops/moh/head_router_kernels.h"

// One warp per token; lane l computes heads l, l + 32, ...

namespace moh {

namespace {

constexpr int kWarps = 4, kThreads = kWarps * device::kWarp;

using Args = RouterArgs<float>;

/// p = softmax(z) over n logits z(i).
template <class Logit>
MOH_DEVICE void softmax_on_lanes(const Logit& z, float* p, std::int64_t n) {
  float top = -INFINITY;
  on_lanes(n, [&](std::int64_t i) { top = fmaxf(top, z(i)); });
  top = reduce_warp(top, Largest{});
  const float scale = 1 / sum_on_lanes(n, [&](std::int64_t i) { return expf(z(i) - top); });
  on_lanes(n, [&](std::int64_t i) { p[i] = expf(z(i) - top) * scale; });
}
MOH_DEVICE void softmax_on_lanes(const float* logits, float* p, std::int64_t n) {
  softmax_on_lanes([&](std::int64_t i) { return logits[i]; }, p, n);
}

/// The heads of the largest scores(e) of each group, largest first: a head's rank is the number of heads of
/// its group that precede it.
template <class Score>
MOH_DEVICE void top_k_on_lanes(const Score& scores, const RouterOptions& o, std::int32_t* top) {
  const std::int64_t size = (o.heads - o.num_shared) / o.groups, k = o.top_k / o.groups;
  on_lanes(size * o.groups, [&](std::int64_t e) {
    const std::int64_t group = e / size;
    std::int64_t place = 0;
    for (std::int64_t other = group * size; other < (group + 1) * size; ++other)
      place += precedes(scores(other), other, scores(e), e);
    if (place < k) top[group * k + place] = static_cast<std::int32_t>(e);
  });
}

/// The head of the layer at index i of the router's order, shared heads first.
MOH_DEVICE std::int64_t head_at(const std::int32_t* order, std::int64_t i) {
  return order != nullptr ? order[i] : i;
}

/// Logits that a softmax of the routed heads is of: those of the layer, or with kShares of a group.
MOH_DEVICE std::int64_t softmax_width(const RouterOptions& o) {
  const std::int64_t experts = o.heads - o.num_shared;
  return o.scaling == GateScaling::kShares ? experts / o.groups : experts;
}

/// Token t, with the factors that all its gates have in common.
struct Token {
  const Args& args;
  std::int64_t t, experts;
  bool code, binary, shares;
  float shared_weight, routed_weight;  ///< of the two kinds of heads
  float routed_factor;                 ///< K / sum(m p), with kShares 1 / sum(m p), or 1

  MOH_DEVICE float shared_gate(std::int64_t head) const {
    if (args.shared_probabilities == nullptr) return 1;
    const float p = args.shared_probabilities[t * args.options.num_shared + head];
    return code ? static_cast<float>(args.options.num_shared) * p : p;
  }
  MOH_DEVICE float probability(std::int64_t e) const { return args.probabilities[t * experts + e]; }
  MOH_DEVICE std::int64_t chosen(std::int64_t r) const { return args.top[t * args.options.top_k + r]; }
  MOH_DEVICE bool is_chosen(std::int64_t e) const {
    for (std::int64_t r = 0; r < args.options.top_k; ++r) {
      if (chosen(r) == e) return true;
    }
    return false;
  }
  /// The gradient of the gate of routed head e.
  MOH_DEVICE float d_gate(std::int64_t e) const {
    return args.d_gates[t * args.options.heads + head_at(args.order, args.options.num_shared + e)];
  }
};

/// Must be called by all lanes, once the probabilities and the selection are written.
MOH_DEVICE Token token_at(const Args& args, std::int64_t t) {
  const RouterOptions& o = args.options;
  Token token{args,
              t,
              o.heads - o.num_shared,
              o.scaling == GateScaling::kCode,
              o.scaling == GateScaling::kBinary,
              o.scaling == GateScaling::kShares,
              1,
              1,
              1};
  const float* w = args.type_probabilities;
  if (w != nullptr) {
    token.shared_weight = token.code ? 2 * w[2 * t] : w[2 * t];
    token.routed_weight = token.code ? 2 * w[2 * t + 1] : w[2 * t + 1];
  } else if (token.shares) {
    token.shared_weight = 0;
  } else if (!token.code && o.num_shared > 0 && o.top_k > 0) {
    token.shared_weight = token.routed_weight = 0.5F;
  }
  if ((token.code || token.shares) && o.top_k > 0) {
    const float sum =
        sum_on_lanes(o.top_k, [&](std::int64_t r) { return token.probability(token.chosen(r)); });
    token.routed_factor = (token.code ? static_cast<float>(o.top_k) : 1.0F) / fmaxf(sum, 1.19e-7F);
  }
  return token;
}

/// The heads that token t selects, by their logits or by biased probabilities.
MOH_DEVICE void select_on_lanes(const Args& args, std::int64_t t, const float* logits) {
  const RouterOptions& o = args.options;
  const float *p = args.probabilities + t * (o.heads - o.num_shared), *bias = args.selection_bias;
  const auto score = [&](std::int64_t e) { return bias != nullptr ? p[e] + bias[e] : logits[e]; };
  top_k_on_lanes(score, o, args.top + t * o.top_k);
}

/// RouterArgs::group_probabilities of a token. Must be called by all lanes.
MOH_DEVICE void group_probabilities_on_lanes(const Token& token) {
  const Args& args = token.args;
  const std::int64_t size = token.experts / args.options.groups;
  const float* const logits = args.routed_logits + token.t * token.experts;
  float* const p = args.group_probabilities + token.t * token.experts;
  const bool all = args.options.balance_loss != BalanceLoss::kCv;
  for (std::int64_t first = 0; first < token.experts; first += size) {
    const auto logit = [&](std::int64_t i) {
      return all || token.is_chosen(first + i) ? logits[first + i] : -INFINITY;
    };
    softmax_on_lanes(logit, p + first, size);
  }
}

MOH_DEVICE std::int64_t token_of_warp() {
  return device::block_x() * kWarps + device::thread_x() / device::kWarp;
}

MOH_KERNEL(kThreads) void route_heads_kernel(Args args) {
  const std::int64_t t = token_of_warp();
  if (t >= args.tokens) return;
  const RouterOptions& o = args.options;
  const std::int64_t experts = o.heads - o.num_shared;
  if (args.shared_logits != nullptr)
    softmax_on_lanes(args.shared_logits + t * o.num_shared, args.shared_probabilities + t * o.num_shared,
                     o.num_shared);
  if (args.type_logits != nullptr)
    softmax_on_lanes(args.type_logits + 2 * t, args.type_probabilities + 2 * t, 2);
  if (args.routed_logits != nullptr) {
    const float* logits = args.routed_logits + t * experts;
    const std::int64_t width = softmax_width(o);
    for (std::int64_t first = 0; first < experts; first += width)
      softmax_on_lanes(logits + first, args.probabilities + t * experts + first, width);
    device::sync_warp();
    if (!args.forced) select_on_lanes(args, t, logits);
  }
  device::sync_warp();
  const Token token = token_at(args, t);
  if (args.group_probabilities != nullptr) group_probabilities_on_lanes(token);
  on_lanes(o.heads, [&](std::int64_t i) {
    const bool shared = i < o.num_shared, on = shared || token.is_chosen(i - o.num_shared);
    float gate = on ? 1.0F : 0.0F;
    if (on && !token.binary) {
      gate = shared ? token.shared_weight * token.shared_gate(i)
                    : token.routed_weight * token.routed_factor * token.probability(i - o.num_shared);
    }
    const std::int64_t h = head_at(args.order, i);
    args.gates[t * o.heads + h] = gate;
    args.selected[t * o.heads + h] = on;
  });
}

struct ProbabilityOf {
  const float* probabilities;
  std::int64_t experts;
  MOH_DEVICE float operator()(std::int64_t t, std::int64_t e) const { return probabilities[t * experts + e]; }
};
struct SelectionOf {
  const std::uint8_t* selected;
  const std::int32_t* order;
  std::int64_t heads, shared;
  MOH_DEVICE float operator()(std::int64_t t, std::int64_t e) const {
    return selected[t * heads + head_at(order, shared + e)];
  }
};

/// The loss of args.mean_probability and args.balance_load (balance_factor()). One warp.
MOH_KERNEL(device::kWarp) void balance_loss_kernel(Args args, float* balance) {
  const bool is_cv = args.options.balance_loss == BalanceLoss::kCv;
  const auto even = static_cast<float>(args.even_share);
  const float sum = sum_on_lanes(args.options.heads - args.options.num_shared, [&](std::int64_t e) {
    const float p = args.mean_probability[e], f = args.balance_load[e];
    return is_cv ? (f - even) * (2 * p - f - even) : p * f;
  });
  if (device::thread_x() == 0) *balance = static_cast<float>(args.balance_factor) * sum;
}

/// Backward of p = softmax(z) over n elements: dz = p (dp - <p, dp>); dp(i) returns the gradient of p_i.
template <class Gradient>
MOH_DEVICE void softmax_gradient_on_lanes(const float* p, std::int64_t n, const Gradient& dp, float* dz) {
  const float mean = sum_on_lanes(n, [&](std::int64_t i) { return p[i] * dp(i); });
  on_lanes(n, [&](std::int64_t i) { dz[i] = p[i] * (dp(i) - mean); });
}

MOH_DEVICE void shared_gradients(const Token& token) {
  const Args& args = token.args;
  const RouterOptions& o = args.options;
  const std::int64_t t = token.t;
  const bool given = args.d_gates != nullptr;
  const float* d_gates = args.d_gates + (given ? t * o.heads : 0);
  if (args.d_shared_logits != nullptr) {
    const float factor =
        given ? token.shared_weight * (token.code ? static_cast<float>(o.num_shared) : 1.0F) : 0.0F;
    softmax_gradient_on_lanes(
        args.shared_probabilities + t * o.num_shared, o.num_shared,
        [&](std::int64_t h) { return given ? factor * d_gates[head_at(args.order, h)] : 0.0F; },
        args.d_shared_logits + t * o.num_shared);
  }
  if (args.d_type_logits != nullptr) {
    const float factor = token.code ? 2.0F : 1.0F;
    float of_shared = 0, of_routed = 0;
    if (given) {
      of_shared = sum_on_lanes(o.num_shared, [&](std::int64_t h) {
        return d_gates[head_at(args.order, h)] * token.shared_gate(h);
      });
      of_routed = sum_on_lanes(o.top_k, [&](std::int64_t r) {
        const std::int64_t e = token.chosen(r);
        return token.d_gate(e) * token.routed_factor * token.probability(e);
      });
    }
    softmax_gradient_on_lanes(
        args.type_probabilities + 2 * t, 2,
        [&](std::int64_t i) { return factor * (i == 0 ? of_shared : of_routed); },
        args.d_type_logits + 2 * t);
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
    const std::int64_t kept = o.top_k / o.groups, first = e / (token.experts / o.groups) * kept;
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
        sum_on_lanes(token.experts, [&](std::int64_t e) { return token.probability(e) * token.d_gate(e); });
    return {1, 1, mean, false, false};
  }
  const bool renormalised = token.code || token.shares;
  const float weight = token.routed_weight, scale = renormalised ? token.routed_factor : 1.0F;
  const float sum = sum_on_lanes(o.top_k, [&](std::int64_t r) {
    const std::int64_t e = token.chosen(r);
    return scale * token.probability(e) * weight * token.d_gate(e);
  });
  return {scale, weight, token.code ? sum / static_cast<float>(o.top_k) : sum, true, renormalised};
}

/// The gradient of the routed logits of a token through the balance loss.
struct BalanceGradient {
  const Token& token;
  const float* p;           ///< [E], whose mean over the tokens is P
  std::int64_t group_size;  ///< E with one group
  float balance, mean;      ///< factor of p (f - mean), mean load of the only group

  MOH_DEVICE float at(std::int64_t e) const {
    const float* load = token.args.balance_load;
    float of_group = mean;
    if (group_size < token.experts) {
      of_group = 0;
      const std::int64_t first = e / group_size * group_size;
      for (std::int64_t i = first; i < first + group_size; ++i) of_group += p[i] * load[i];
    }
    return balance * p[e] * (load[e] - of_group);
  }
};

/// Must be called by all lanes.
MOH_DEVICE BalanceGradient balance_gradient(const Token& token) {
  const Args& args = token.args;
  const float* all = args.group_probabilities != nullptr ? args.group_probabilities : args.probabilities;
  BalanceGradient gradient{token, all + token.t * token.experts, token.experts / args.options.groups, 0, 0};
  if (args.d_balance == nullptr) return gradient;
  gradient.balance =
      *args.d_balance * static_cast<float>(args.balance_slope) / static_cast<float>(args.tokens);
  if (args.options.groups == 1)
    gradient.mean =
        sum_on_lanes(token.experts, [&](std::int64_t e) { return gradient.p[e] * args.balance_load[e]; });
  return gradient;
}

MOH_KERNEL(kThreads) void route_heads_gradient_kernel(Args args) {
  const std::int64_t t = token_of_warp();
  if (t >= args.tokens) return;
  const Token token = token_at(args, t);
  shared_gradients(token);
  if (args.d_routed_logits == nullptr) return;
  const RoutedGradient gradient = routed_gradient(token);
  const BalanceGradient of_balance = balance_gradient(token);
  on_lanes(token.experts, [&](std::int64_t e) {
    float dz = gradient.at(token, e);
    if (args.d_balance != nullptr) dz += of_balance.at(e);
    args.d_routed_logits[t * token.experts + e] = dz;
  });
}

std::int64_t blocks_of(const Args& args) {
  return (args.tokens + kWarps - 1) / kWarps;
}

}  // namespace

template <class Backend, class A>
void HeadRouterKernels<Backend, A>::forward(const RouterArgs<A>& args) {
  const RouterOptions& o = args.options;
  const std::int64_t experts = o.heads - o.num_shared;
  cuda::launch("route_heads", route_heads_kernel, {.blocks_x = blocks_of(args), .threads = kThreads}, args);
  if (args.routed_logits == nullptr) return;
  const float* probabilities =
      args.group_probabilities != nullptr ? args.group_probabilities : args.probabilities;
  column_means("mean_probability_and_load", ProbabilityOf{probabilities, experts},
               SelectionOf{args.selected, args.order, o.heads, o.num_shared}, {args.tokens, experts},
               args.mean_probability, args.load);
}

template <class Backend, class A>
void HeadRouterKernels<Backend, A>::balance_loss(const RouterArgs<A>& args, A* balance) {
  cuda::launch("balance_loss", balance_loss_kernel, {.threads = device::kWarp}, args, balance);
}

template <class Backend, class A>
void HeadRouterKernels<Backend, A>::backward(const RouterArgs<A>& args) {
  cuda::launch("route_heads_gradient", route_heads_gradient_kernel,
               {.blocks_x = blocks_of(args), .threads = kThreads}, args);
}

template struct HeadRouterKernels<Cuda, float>;

}  // namespace moh
