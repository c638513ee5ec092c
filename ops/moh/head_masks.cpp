#include "ops/moh/head_masks.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include "ops/moh/hard_concrete.h"
#include "ops/moh/head_masks_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

constexpr double kFirstShare = 0.99;

template <class A>
double unmasked(const HeadMaskArgs<A>& args, double shift) {
  double sum = 0;
  for (std::int64_t h = 0; h < args.heads; ++h)
    sum += hard_concrete::probability_on(args.log_alpha[h] + shift);
  return sum;
}

template <class A>
void masks_on_cpu(const HeadMaskArgs<A>& args) {
  double reach = kMaskReach;
  for (std::int64_t h = 0; h < args.heads; ++h) {
    args.log_alpha[h] = kMaskSharpness * static_cast<double>(args.scores[h]);
    reach = std::max(reach, kMaskReach + std::abs(args.log_alpha[h]));
  }
  double low = -reach, high = reach;
  for (int i = 0; i < kMaskBisections; ++i)
    (unmasked(args, (low + high) / 2) < *args.count ? low : high) = (low + high) / 2;
  for (std::int64_t h = 0; h < args.heads; ++h) {
    args.log_alpha[h] += high;
    const double draw = random_uniform(args.key, static_cast<std::uint64_t>(h)) + hard_concrete::kHalfStep;
    const auto mask = hard_concrete::sample(args.log_alpha[h], draw);
    args.masks[h] = static_cast<A>(mask.z);
    args.slopes[h] = mask.slope;
  }
}

/// d loss / d scores from d loss / d log_alpha: the shift moves so that the expected number stays.
template <class A>
void gradients_on_cpu(const HeadMaskArgs<A>& args) {
  const auto slope = [&](std::int64_t h) {
    const double p = hard_concrete::probability_on(args.log_alpha[h]);
    return p * (1 - p);
  };
  const auto through_mask = [&](std::int64_t h) {
    return static_cast<double>(args.d_masks[h]) * args.slopes[h];
  };
  double all = 0, sum = 0;
  for (std::int64_t h = 0; h < args.heads; ++h) {
    all += slope(h);
    sum += through_mask(h);
  }
  for (std::int64_t h = 0; h < args.heads; ++h) {
    const double moved = all > 0 ? slope(h) / all * sum : 0.0;
    args.d_scores[h] = static_cast<A>(kMaskSharpness * (through_mask(h) - moved));
  }
}

/// Calls body.operator()<Backend, A>(args) with what both directions read, for float32 or float64.
template <class Body>
void run(const Tensor& scores, const Tensor& log_alpha, const Tensor& slopes, const Body& body) {
  run_kernel("head_masks", scores, [&]<class Backend, class A>() {
    if constexpr (!std::is_same_v<A, bfloat16>) {
      HeadMaskArgs<A> args;
      args.heads = scores.numel();
      args.scores = scores.data<A>();
      args.log_alpha = log_alpha.data<double>();
      args.slopes = slopes.data<double>();
      body.template operator()<Backend>(args);
    }
  });
}

}  // namespace

double first_unmasked(std::int64_t heads) {
  return kFirstShare * static_cast<double>(heads);
}

Variable head_masks(const Variable& scores, const Tensor& count, RandomKey key) {
  constexpr std::string_view kOp = "head_masks";
  Check check(kOp);
  check.floating("scores", scores).rank("scores", scores, 1);
  check.shape("count", Variable(count), {}).dtype("count", Variable(count), DType::kFloat64);
  const Tensor& x = scores.value();
  const std::int64_t heads = x.dim(0);
  if (x.dtype() == DType::kBFloat16)
    throw DTypeError(error_message(kOp, "scores", "float32 or float64", "bfloat16"));
  if (count.device() != x.device())
    throw DeviceError(error_message(kOp, "count", "on the device of the scores", "on another"));
  if (x.device() == kCpu && !dry_run() && !(count.item() > 0 && count.item() < static_cast<double>(heads))) {
    throw ValueError(error_message(kOp, "count", "above 0, below the " + std::to_string(heads) + " heads",
                                   std::to_string(count.item())));
  }
  const Tensor masks = empty_like(x), log_alpha = empty({heads}, DType::kFloat64, x.device()),
               slopes = empty_like(log_alpha);
  run(x, log_alpha, slopes, [&]<class Backend, class A>(HeadMaskArgs<A> args) {
    args.count = count.data<double>();
    args.key = key;
    args.masks = masks.data<A>();
    if constexpr (std::is_same_v<Backend, Cuda>) {
      HeadMaskKernels<Backend, A>::forward(args);
    } else {
      masks_on_cpu(args);
    }
  });
  return record("head_masks", masks, {scores}, [x, log_alpha, slopes](const Tensor& dz) -> Grads {
    const Tensor dx = empty_like(x);
    run(x, log_alpha, slopes, [&]<class Backend, class A>(HeadMaskArgs<A> args) {
      args.d_masks = dz.data<A>();
      args.d_scores = dx.data<A>();
      if constexpr (std::is_same_v<Backend, Cuda>) {
        HeadMaskKernels<Backend, A>::backward(args);
      } else {
        gradients_on_cpu(args);
      }
    });
    return {dx};
  });
}

}  // namespace moh
