#include "ops/cuda/rows.h"
#include "ops/moh/head_router_token_cuda.h"

// Besides its gates, a warp sums what the means over the tokens are of, [2 E + 2]: the probabilities, the
// selection, the statistics. A block writes the sums of its warps, and one block adds up these.

namespace moh {

namespace {

constexpr int kMeansWarps = 16, kMeansThreads = kMeansWarps * device::kWarp;

/// Sums over the tokens: of the probabilities, of the selection, of the statistics.
constexpr std::int64_t sums_width(const Args& args) {
  return 2 * (args.options.heads - args.options.num_shared) + 2;
}

/// p = softmax(z) over n logits z(i).
template <class Logit>
MOH_DEVICE void softmax_on_lanes(const Logit& z, float* p, std::int64_t n) {
  float top = -INFINITY;
  on_heads(n, [&](std::int64_t i) { top = fmaxf(top, z(i)); });
  top = reduce_warp(top, Largest{});
  const float scale = 1 / sum_on_heads(n, [&](std::int64_t i) { return expf(z(i) - top); });
  on_heads(n, [&](std::int64_t i) { p[i] = expf(z(i) - top) * scale; });
}
MOH_DEVICE void softmax_on_lanes(const float* logits, float* p, std::int64_t n) {
  softmax_on_lanes([&](std::int64_t i) { return logits[i]; }, p, n);
}

/// The heads of the largest scores(e) of each group, largest first: a head's rank is the number of heads of
/// its group that precede it.
template <class Score>
MOH_DEVICE void top_k_on_lanes(const Score& scores, const RouterOptions& o, std::int32_t* top) {
  const std::int64_t size = quotient(o.heads - o.num_shared, o.groups), k = quotient(o.top_k, o.groups);
  on_heads(size * o.groups, [&](std::int64_t e) {
    const std::int64_t group = quotient(e, size);
    std::int64_t place = 0;
    for (std::int64_t other = group * size; other < (group + 1) * size; ++other)
      place += precedes(scores(other), other, scores(e), e);
    if (place < k) top[group * k + place] = static_cast<std::int32_t>(e);
  });
}

/// Logits that a softmax of the routed heads is of: those of the layer, or with kShares of a group.
MOH_DEVICE std::int64_t softmax_width(const RouterOptions& o) {
  const std::int64_t experts = o.heads - o.num_shared;
  return o.scaling == GateScaling::kShares ? quotient(experts, o.groups) : experts;
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
  const std::int64_t size = quotient(token.experts, args.options.groups);
  const float* const logits = args.routed_logits.row(token.t);
  float* const p = args.group_probabilities + token.t * token.experts;
  const bool all = args.options.balance_loss != BalanceLoss::kCv;
  for (std::int64_t first = 0; first < token.experts; first += size) {
    const auto logit = [&](std::int64_t i) {
      return all || token.is_chosen(first + i) ? logits[first + i] : -INFINITY;
    };
    softmax_on_lanes(logit, p + first, size);
  }
}

/// z_k - z_r of the last kept logit of each group and the first refused one, on average
/// (Routing::statistics). Must be called by all lanes.
MOH_DEVICE float margin_on_lanes(const Token& token) {
  const RouterOptions& o = token.args.options;
  const std::int64_t size = quotient(token.experts, o.groups), k = quotient(o.top_k, o.groups);
  const float* const logits = token.args.routed_logits.row(token.t);
  float sum = 0;
  for (std::int64_t group = 0; group < o.groups; ++group) {
    const std::int64_t last = token.chosen((group + 1) * k - 1);
    const float kept = logits[last];
    float refused = -INFINITY;
    on_heads(size, [&](std::int64_t i) {
      const std::int64_t e = group * size + i;
      const float z = logits[e];
      if (z < kept || (z == kept && e > last)) refused = fmaxf(refused, z);
    });
    refused = reduce_warp(refused, Largest{});
    if (refused > -INFINITY) sum += kept - refused;
  }
  return sum / static_cast<float>(o.groups);
}

/// Adds those of a token to its warp's sums, of which a lane has every 32nd. Must be called by all lanes.
MOH_DEVICE void add_to_sums(const Token& token, float* sums) {
  const Args& args = token.args;
  const std::int64_t experts = token.experts;
  const float* const p =
      (args.group_probabilities != nullptr ? args.group_probabilities : args.probabilities) +
      token.t * experts;
  on_heads(experts, [&](std::int64_t e) { sums[e] += p[e]; });
  on_heads(experts, [&](std::int64_t e) { sums[experts + e] += token.is_chosen(e) ? 1.0F : 0.0F; });
  const bool logits_decide = !args.forced && args.selection_bias == nullptr;
  const float margin = logits_decide && args.options.top_k < experts ? margin_on_lanes(token) : 0.0F;
  if (device::thread_x() % device::kWarp != 0) return;
  if (args.type_probabilities != nullptr) sums[2 * experts] += args.type_probabilities[2 * token.t + 1];
  sums[2 * experts + 1] += margin;
}

/// The softmaxes, the selection and the gates of token t. Must be called by all lanes.
MOH_DEVICE Token route_on_lanes(const Args& args, std::int64_t t) {
  const RouterOptions& o = args.options;
  const std::int64_t experts = o.heads - o.num_shared;
  if (args.shared_logits)
    softmax_on_lanes(args.shared_logits.row(t), args.shared_probabilities + t * o.num_shared, o.num_shared);
  if (args.type_logits) softmax_on_lanes(args.type_logits.row(t), args.type_probabilities + 2 * t, 2);
  if (args.routed_logits) {
    const float* logits = args.routed_logits.row(t);
    const std::int64_t width = softmax_width(o);
    for (std::int64_t first = 0; first < experts; first += width)
      softmax_on_lanes(logits + first, args.probabilities + t * experts + first, width);
    device::sync_warp();
    if (!args.forced) select_on_lanes(args, t, logits);
  }
  device::sync_warp();
  const Token token = token_at(args, t);
  if (args.group_probabilities != nullptr) group_probabilities_on_lanes(token);
  on_heads(o.heads, [&](std::int64_t i) {
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
  return token;
}

/// partials[b] [2 E + 2]: the sums of block b; null without routed heads. Shared memory: those of its warps.
MOH_KERNEL(kItemThreads) void route_heads_kernel(Args args, float* partials) {
  const std::int64_t width = sums_width(args), warps = device::blocks_x() * kItemWarps;
  const int warp = device::thread_x() / device::kWarp;
  float* const of_warps = device::shared_memory<float>();
  float* const sums = of_warps + warp * width;
  if (partials != nullptr) on_heads(width, [&](std::int64_t i) { sums[i] = 0; });
  for (std::int64_t t = device::block_x() * kItemWarps + warp; t < args.tokens; t += warps) {
    const Token token = route_on_lanes(args, t);
    device::sync_warp();
    if (partials != nullptr) add_to_sums(token, sums);
  }
  if (partials == nullptr) return;
  device::sync_block();
  for (std::int64_t i = device::thread_x(); i < width; i += kItemThreads) {
    float sum = of_warps[i];
    for (int w = 1; w < kItemWarps; ++w) sum += of_warps[w * width + i];
    partials[device::block_x() * width + i] = sum;
  }
}

/// The loss of mean probabilities P and loads f (balance_factor()). Must be called by all lanes of a warp.
MOH_DEVICE float balance_loss_on_lanes(const Args& args, const float* mean, const float* load) {
  const bool is_cv = args.options.balance_loss == BalanceLoss::kCv;
  const auto even = static_cast<float>(args.even_share);
  const float sum = sum_on_heads(args.options.heads - args.options.num_shared, [&](std::int64_t e) {
    const float p = mean[e], f = load[e];
    return is_cv ? (f - even) * (2 * p - f - even) : p * f;
  });
  return static_cast<float>(args.balance_factor) * sum;
}

/// From the sums of all blocks, partials [count, 2 E + 2], the means, the balance loss and the statistics.
/// One block, of which a warp adds every kMeansWarps-th part. Shared memory: [kMeansWarps, 32] and [2 E + 2].
MOH_KERNEL(kMeansThreads)
void route_heads_means_kernel(Args args, const float* partials, std::int64_t count) {
  const std::int64_t width = sums_width(args), experts = args.options.heads - args.options.num_shared;
  const int lane = device::thread_x() % device::kWarp, warp = device::thread_x() / device::kWarp;
  float *const of_warps = device::shared_memory<float>(), *const means = of_warps + kMeansThreads;
  const float share = args.tokens > 0 ? 1.0F / static_cast<float>(args.tokens) : 0.0F;
  for (std::int64_t first = 0; first < width; first += device::kWarp) {
    const std::int64_t column = first + lane;
    float sum = 0;
    if (column < width) {
      for (std::int64_t part = warp; part < count; part += kMeansWarps)
        sum += partials[part * width + column];
    }
    of_warps[device::thread_x()] = sum;
    device::sync_block();
    if (warp == 0 && column < width) {
      for (int w = 1; w < kMeansWarps; ++w) sum += of_warps[w * device::kWarp + lane];
      means[column] = sum * share;
    }
    device::sync_block();
  }
  for (std::int64_t i = device::thread_x(); i < width; i += kMeansThreads) {
    if (i < experts) {
      args.mean_probability[i] = means[i];
    } else if (i < 2 * experts) {
      args.load[i - experts] = means[i];
    } else {
      args.statistics[i - 2 * experts] = means[i];
    }
  }
  if (warp > 0) return;
  const float* load = args.balance_load;
  if (load == args.load) load = means + experts;
  if (load == args.mean_probability) load = means;
  const float loss = balance_loss_on_lanes(args, means, load);
  if (lane == 0) *args.balance = loss;
}

std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

}  // namespace

template <class Backend, class A>
void HeadRouterKernels<Backend, A>::forward(const RouterArgs<A>& args) {
  if (!args.routed_logits) {
    return cuda::launch("route_heads", route_heads_kernel,
                        {.blocks_x = item_blocks(args.tokens), .threads = kItemThreads}, args, nullptr);
  }
  const std::int64_t width = sums_width(args), blocks = summing_blocks(item_blocks(args.tokens));
  const DeviceScratch partials(bytes_of(blocks * width));
  cuda::launch("route_heads", route_heads_kernel,
               {.blocks_x = blocks, .threads = kItemThreads, .shared_bytes = bytes_of(kItemWarps * width)},
               args, partials.as<float>());
  cuda::launch("route_heads_means", route_heads_means_kernel,
               {.threads = kMeansThreads, .shared_bytes = bytes_of(kMeansThreads + width)}, args,
               partials.as<float>(), blocks);
}

template void HeadRouterKernels<Cuda, float>::forward(const RouterArgs<float>& args);

}  // namespace moh
