#include <cmath>

#include "core/cuda/tag.h"
#include "core/philox.h"
#include "ops/cuda/lanes.h"
#include "ops/moh/hard_concrete.h"
#include "ops/moh/head_masks_kernels.h"

// One warp has the heads of a layer, which are few.

namespace moh {

namespace {

using MaskArgs = HeadMaskArgs<float>;

/// The draw of head h, as random_uniform() on the host.
MOH_DEVICE double draw_of(const RandomKey& key, std::int64_t h) {
  const std::uint64_t first = key.first_stream == nullptr ? 0 : static_cast<std::uint64_t>(*key.first_stream);
  const auto words = philox(key.seed, static_cast<std::uint64_t>(h), first + key.stream);
  return static_cast<double>(words[0] >> 8) * 0x1p-24 + hard_concrete::kHalfStep;
}

MOH_KERNEL(device::kWarp) void head_masks_kernel(MaskArgs args) {
  const auto scaled = [&](std::int64_t h) { return kMaskSharpness * static_cast<double>(args.scores[h]); };
  double reach = kMaskReach;
  on_lanes(args.heads, [&](std::int64_t h) { reach = fmax(reach, kMaskReach + fabs(scaled(h))); });
  reach = reduce_warp(reach, Largest{});
  double low = -reach, high = reach;
  MOH_ROLLED for (int i = 0; i < kMaskBisections; ++i) {
    const double middle = (low + high) / 2, unmasked = sum_on_lanes<double>(args.heads, [&](std::int64_t h) {
                                              return hard_concrete::probability_on(scaled(h) + middle);
                                            });
    (unmasked < *args.count ? low : high) = middle;
  }
  on_lanes(args.heads, [&](std::int64_t h) {
    const double log_alpha = scaled(h) + high;
    const auto mask = hard_concrete::sample(log_alpha, draw_of(args.key, h));
    args.log_alpha[h] = log_alpha;
    args.slopes[h] = mask.slope;
    args.masks[h] = static_cast<float>(mask.z);
  });
}

MOH_KERNEL(device::kWarp) void head_masks_gradient_kernel(MaskArgs args) {
  const auto slope = [&](std::int64_t h) {
    const double p = hard_concrete::probability_on(args.log_alpha[h]);
    return p * (1 - p);
  };
  const auto through_mask = [&](std::int64_t h) {
    return static_cast<double>(args.d_masks[h]) * args.slopes[h];
  };
  const double all = sum_on_lanes<double>(args.heads, slope),
               sum = sum_on_lanes<double>(args.heads, through_mask);
  on_lanes(args.heads, [&](std::int64_t h) {
    const double moved = all > 0 ? slope(h) / all * sum : 0.0;
    args.d_scores[h] = static_cast<float>(kMaskSharpness * (through_mask(h) - moved));
  });
}

}  // namespace

template <class Backend, class A>
void HeadMaskKernels<Backend, A>::forward(const HeadMaskArgs<A>& args) {
  cuda::launch("head_masks", head_masks_kernel, {.threads = device::kWarp}, args);
}

template <class Backend, class A>
void HeadMaskKernels<Backend, A>::backward(const HeadMaskArgs<A>& args) {
  cuda::launch("head_masks_gradient", head_masks_gradient_kernel, {.threads = device::kWarp}, args);
}

template struct HeadMaskKernels<Cuda, float>;

}  // namespace moh
