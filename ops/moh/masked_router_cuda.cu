#include <cmath>

#include "ops/cuda/block_sizes.h"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/lanes.h"
#include "ops/moh/masked_router_kernels.h"

// One warp per token; lane l computes heads l, l + 32, ... What follows from the masks alone, K and the
// factor of the balance loss, is computed on the device, too: the host does not wait for them.

namespace moh {

namespace {

using MaskedArgs = MaskedRouterArgs<float>;

/// share(h) = weight(h) exp(z_h) / the sum of that, over the heads with a weight.
struct WeightedSoftmax {
  const float* logits;
  float top, scale;
  float all;  ///< the sum of the weights

  /// Must be called by all lanes.
  template <class Weight>
  MOH_DEVICE static WeightedSoftmax of(const float* logits, std::int64_t heads, const Weight& weight) {
    float top = -INFINITY;
    on_lanes(heads, [&](std::int64_t h) { top = weight(h) > 0 ? fmaxf(top, logits[h]) : top; });
    top = reduce_warp(top, Largest{});
    const float all = sum_on_lanes(heads, weight),
                sum = sum_on_lanes(heads, [&](std::int64_t h) {
                  return weight(h) > 0 ? weight(h) * expf(logits[h] - top) : 0.0F;
                });
    return {logits, top, all > 0 ? 1 / sum : 0.0F, all};
  }
  MOH_DEVICE float share(std::int64_t h, float weight) const {
    return weight > 0 ? weight * expf(logits[h] - top) * scale : 0.0F;
  }
};

/// Token t, once its kept heads are written: gate_h = type[0] shared.all shared_share(h) + type[1] kept.all
/// kept_share(h).
struct MaskedToken {
  const MaskedArgs& args;
  std::int64_t t;
  WeightedSoftmax shared, kept, routed;
  float type[2];

  /// Must be called by all lanes.
  MOH_DEVICE static MaskedToken at(const MaskedArgs& args, std::int64_t t) {
    const std::int64_t heads = args.heads;
    const float *z = args.masks, *routed = args.routed_logits + t * heads;
    const std::uint8_t* kept = args.kept + t * heads;
    MaskedToken token{
        args,
        t,
        WeightedSoftmax::of(args.shared_logits + t * heads, heads, [=](std::int64_t h) { return z[h]; }),
        WeightedSoftmax::of(routed, heads, [=](std::int64_t h) { return kept[h] != 0 ? 1.0F - z[h] : 0.0F; }),
        WeightedSoftmax::of(routed, heads, [=](std::int64_t h) { return 1.0F - z[h]; }),
        {1, 1}};
    if (args.type_logits == nullptr) return token;
    token.type[0] = 2 / (1 + expf(args.type_logits[2 * t + 1] - args.type_logits[2 * t]));
    token.type[1] = 2 - token.type[0];
    return token;
  }
  MOH_DEVICE bool keeps(std::int64_t h) const { return args.kept[t * args.heads + h] != 0; }
  MOH_DEVICE float shared_share(std::int64_t h) const { return shared.share(h, args.masks[h]); }
  MOH_DEVICE float kept_share(std::int64_t h) const {
    return kept.share(h, keeps(h) ? 1.0F - args.masks[h] : 0.0F);
  }
  MOH_DEVICE float routed_share(std::int64_t h) const { return routed.share(h, 1.0F - args.masks[h]); }
  MOH_DEVICE float d_gate(std::int64_t h) const {
    return args.d_gates != nullptr ? args.d_gates[t * args.heads + h] : 0.0F;
  }
};

struct CountRouted {
  MaskedArgs args;
  double kept_share;
  BalanceLoss form;
  MOH_DEVICE void operator()(std::int64_t /*one*/) const {
    const RoutedCount count = count_routed(args.masks, args.heads, kept_share, form);
    args.counts[0] = count.top_k;
    args.counts[1] = count.balance_factor;
  }
};

/// Marks the K heads with the largest r + ln e: a head's rank is the number of heads that precede it.
MOH_DEVICE void keep_best(const MaskedArgs& args, std::int64_t t) {
  const float *logits = args.routed_logits + t * args.heads, *z = args.masks;
  const double top_k = args.counts[0];
  const auto key = [=](std::int64_t h) { return logits[h] + logf(1.0F - z[h]); };
  on_lanes(args.heads, [&](std::int64_t h) {
    std::int64_t place = 0;
    for (std::int64_t other = 0; other < args.heads; ++other)
      place += z[other] < 1.0F && precedes(key(other), other, key(h), h);
    args.kept[t * args.heads + h] = z[h] < 1.0F && static_cast<double>(place) < top_k;
  });
}

/// `routed` [N, H]: the probabilities of the routed heads.
MOH_KERNEL(kItemThreads) void route_masked_heads_kernel(MaskedArgs args, float* routed) {
  const std::int64_t t = item_of_warp();
  if (t >= args.tokens) return;
  keep_best(args, t);
  device::sync_warp();
  const MaskedToken token = MaskedToken::at(args, t);
  on_lanes(args.heads, [&](std::int64_t h) {
    const std::int64_t pair = t * args.heads + h;
    args.gates[pair] = token.type[0] * token.shared.all * token.shared_share(h) +
                       token.type[1] * token.kept.all * token.kept_share(h);
    args.selected[pair] = args.masks[h] > 0 || token.keeps(h);
    routed[pair] = token.routed_share(h);
  });
}

template <class E>
struct ValueOf {
  const E* values;
  std::int64_t heads;
  MOH_DEVICE float operator()(std::int64_t t, std::int64_t h) const { return values[t * heads + h]; }
};

/// The mean of MaskedRouting::routed_weight. Must be called by all threads of a block.
MOH_DEVICE void routed_weight_in_block(const MaskedArgs& args) {
  float sum = 0;
  for (std::int64_t t = device::thread_x(); t < args.tokens; t += kItemThreads)
    sum += 1 / (1 + expf(args.type_logits[2 * t] - args.type_logits[2 * t + 1]));
  sum = reduce_block(sum, Sum{}, device::shared_memory<float>());
  if (device::thread_x() == 0)
    *args.routed_weight = args.tokens > 0 ? sum / static_cast<float>(args.tokens) : 0;
}

/// The balance loss from the mean probabilities, the heads that a token selects on average, and the weight of
/// those that are routed. One block.
MOH_KERNEL(kItemThreads) void masked_balance_loss_kernel(MaskedArgs args, const float* mean_probability) {
  if (args.routed_weight != nullptr) routed_weight_in_block(args);
  if (device::thread_x() >= device::kWarp) return;
  const float sum =
      sum_on_lanes(args.heads, [&](std::int64_t h) { return mean_probability[h] * args.balance_load[h]; });
  const float selected =
      sum_on_lanes(args.heads, [&](std::int64_t h) { return args.masks[h] > 0 ? 1.0F : args.load[h]; });
  if (device::thread_x() != 0) return;
  *args.balance = static_cast<float>(args.counts[1]) * sum;
  *args.heads_each = selected;
}

/// `d_masks` [N, H]: what each token adds to the gradients of the masks.
MOH_KERNEL(kItemThreads) void route_masked_heads_gradient_kernel(MaskedArgs args, float* d_masks) {
  const std::int64_t t = item_of_warp(), heads = args.heads;
  if (t >= args.tokens) return;
  const MaskedToken token = MaskedToken::at(args, t);
  const auto mean = [&](const auto& value, const auto& share) {
    return sum_on_lanes(heads, [&](std::int64_t h) { return value(h) * share(h); });
  };
  const auto d_gate = [&](std::int64_t h) { return token.d_gate(h); };
  const float of_shared = mean(d_gate, [&](std::int64_t h) { return token.shared_share(h); });
  const float of_kept = mean(d_gate, [&](std::int64_t h) { return token.kept_share(h); });
  float balance = 0, mean_load = 0;
  if (args.d_balance != nullptr) {
    balance = *args.d_balance * static_cast<float>(args.counts[1]) / static_cast<float>(args.tokens);
    mean_load = mean([&](std::int64_t h) { return args.balance_load[h]; },
                     [&](std::int64_t h) { return token.routed_share(h); });
  }
  on_lanes(heads, [&](std::int64_t h) {
    const std::int64_t pair = t * heads + h;
    const float z = args.masks[h], to_shared = token.type[0] * (d_gate(h) - of_shared),
                to_kept = token.type[1] * (d_gate(h) - of_kept);
    const float d_shared = token.shared.all * token.shared_share(h) * to_shared,
                d_kept = token.kept.all * token.kept_share(h) * to_kept;
    args.d_shared_logits[pair] = d_shared;
    args.d_routed_logits[pair] = d_kept + (args.d_balance != nullptr ? balance * token.routed_share(h) *
                                                                           (args.balance_load[h] - mean_load)
                                                                     : 0.0F);
    const bool moves = z > 0 && z < 1;
    const float through_shared = moves ? token.type[0] * of_shared + d_shared / z : 0.0F,
                through_kept = moves && token.keeps(h) ? token.type[1] * of_kept + d_kept / (1.0F - z) : 0.0F;
    d_masks[pair] = through_shared - through_kept;
  });
  if (args.d_type_logits == nullptr || device::thread_x() % device::kWarp != 0) return;
  // w = 2 softmax(types): dw_k = w_k (D_k - mean of D under softmax).
  const float d_shared = token.shared.all * of_shared, d_kept = token.kept.all * of_kept;
  const float of_types = (token.type[0] * d_shared + token.type[1] * d_kept) / 2;
  args.d_type_logits[2 * t] = token.type[0] * (d_shared - of_types);
  args.d_type_logits[2 * t + 1] = token.type[1] * (d_kept - of_types);
}

DeviceScratch per_pair(const MaskedArgs& args) {
  return DeviceScratch(static_cast<std::size_t>(args.tokens * args.heads) * sizeof(float));
}

}  // namespace

template <class Backend, class A>
void MaskedRouterKernels<Backend, A>::count(const MaskedRouterArgs<A>& args, double kept_share,
                                            BalanceLoss form) {
  cuda::launch_each("count_routed_heads", 1, CountRouted{args, kept_share, form});
}

template <class Backend, class A>
void MaskedRouterKernels<Backend, A>::forward(const MaskedRouterArgs<A>& args) {
  const DeviceScratch routed = per_pair(args), mean(static_cast<std::size_t>(args.heads) * sizeof(float));
  cuda::launch("route_masked_heads", route_masked_heads_kernel,
               {.blocks_x = item_blocks(args.tokens), .threads = kItemThreads}, args, routed.as<float>());
  column_means("masked_mean_probability_and_load", ValueOf<float>{routed.as<float>(), args.heads},
               ValueOf<std::uint8_t>{args.kept, args.heads}, {args.tokens, args.heads}, mean.as<float>(),
               args.load);
  cuda::launch("masked_balance_loss", masked_balance_loss_kernel,
               {.threads = kItemThreads, .shared_bytes = kItemWarps * sizeof(float)}, args, mean.as<float>());
}

template <class Backend, class A>
void MaskedRouterKernels<Backend, A>::backward(const MaskedRouterArgs<A>& args) {
  const DeviceScratch d_masks = per_pair(args);
  cuda::launch("route_masked_heads_gradient", route_masked_heads_gradient_kernel,
               {.blocks_x = item_blocks(args.tokens), .threads = kItemThreads}, args, d_masks.as<float>());
  column_sums("mask_gradients", ValueOf<float>{d_masks.as<float>(), args.heads}, {args.tokens, args.heads},
              StoreSums{args.d_masks});
}

template struct MaskedRouterKernels<Cuda, float>;

}  // namespace moh
