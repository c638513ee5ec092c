#include <cmath>

#include "core/cuda/tag.h"
#include "ops/cuda/lanes.h"
#include "ops/device/kernel.h"
#include "ops/moh/balance_bias_kernels.h"

namespace moh {

namespace {

using BiasArgs = BalanceBiasArgs<float>;

/// The load of a routed head over the step.
MOH_DEVICE double load_of(const BiasArgs& args, std::int64_t head) {
  double sum = 0;
  for (std::int64_t m = 0; m < args.micro_batches; ++m) sum += args.loads[m * args.row_width + head];
  return sum;
}

/// One warp for each group.
MOH_KERNEL(device::kWarp) void balance_bias_kernel(BiasArgs args) {
  if (args.go != nullptr && *args.go == 0.0) return;
  const std::int64_t size = args.routed / args.groups, first = device::block_x() * size;
  const double all = sum_on_lanes<double>(size, [&](std::int64_t i) { return load_of(args, first + i); });
  on_lanes(size, [&](std::int64_t i) {
    const double lacks = all - static_cast<double>(size) * load_of(args, first + i);
    if (fabs(lacks) > kEvenLoad * all) args.bias[first + i] += lacks > 0 ? args.rate : -args.rate;
  });
}

}  // namespace

template <class Backend, class A>
void BalanceBiasKernels<Backend, A>::update(const BalanceBiasArgs<A>& args) {
  cuda::launch("balance_bias", balance_bias_kernel, {.blocks_x = args.groups, .threads = device::kWarp},
               args);
}

template struct BalanceBiasKernels<Cuda, float>;

}  // namespace moh
