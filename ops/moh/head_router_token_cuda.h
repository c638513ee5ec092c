#pragma once

// For the kernel files of route_heads only. One warp per token; lane l computes heads l, l + 32, ...

#include <cmath>
#include <cstdint>

#include "ops/cuda/block_sizes.h"
#include "ops/cuda/lanes.h"
#include "ops/moh/head_router_kernels.h"

namespace moh {

namespace {

using Args = RouterArgs<float>;

/// A quotient of numbers of heads, which 32 bits hold: GPUs have no instruction for a division, and one of 64
/// bits takes several times as many.
MOH_DEVICE int quotient(std::int64_t heads, std::int64_t by) {
  return static_cast<int>(heads) / static_cast<int>(by);
}

/// The head of the layer at index i of the router's order, shared heads first.
MOH_DEVICE std::int64_t head_at(const std::int32_t* order, std::int64_t i) {
  return order != nullptr ? order[i] : i;
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
        sum_on_heads(o.top_k, [&](std::int64_t r) { return token.probability(token.chosen(r)); });
    token.routed_factor = (token.code ? static_cast<float>(o.top_k) : 1.0F) / fmaxf(sum, 1.19e-7F);
  }
  return token;
}

/// Blocks with a warp for each token.
}  // namespace

}  // namespace moh
