#include <cmath>

#include "ops/cuda/rows.h"
#include "ops/moh/router_statistics_kernels.h"

// A thread has the logits of a token, which are few.

namespace moh {

namespace {

struct EachToken {
  RouterStatisticsArgs<float> args;

  /// The margin of a group of `size` logits.
  MOH_DEVICE static float margin(const float* z, std::int64_t size, std::int64_t last) {
    const float kept = z[last];
    float first = -INFINITY;
    for (std::int64_t e = 0; e < size; ++e) {
      const bool refused = z[e] < kept || (z[e] == kept && e > last);
      if (refused && z[e] > first) first = z[e];
    }
    return first == -INFINITY ? 0.0F : kept - first;
  }

  MOH_DEVICE float mean_margin(std::int64_t n) const {
    const std::int64_t size = args.routed / args.groups, kept = args.kept / args.groups;
    float sum = 0;
    for (std::int64_t g = 0; g < args.groups; ++g) {
      const std::int64_t last = args.top[n * args.kept + (g + 1) * kept - 1];
      sum += margin(args.routed_logits + n * args.routed + g * size, size, last - g * size);
    }
    return sum / static_cast<float>(args.groups);
  }

  MOH_DEVICE void operator()(std::int64_t n) const {
    const float* const types = args.type_logits;
    args.each[2 * n] = types == nullptr ? 0.0F : 1.0F / (1.0F + expf(types[2 * n] - types[2 * n + 1]));
    const bool refuses = args.routed_logits != nullptr && args.kept < args.routed;
    args.each[2 * n + 1] = refuses ? mean_margin(n) : 0.0F;
  }
};

/// One block; sums in float64.
MOH_KERNEL(kMostRowThreads) void mean_pairs_kernel(const float* each, std::int64_t count, float* means) {
  double weight = 0, margin = 0;
  for (std::int64_t n = device::thread_x(); n < count; n += device::block_threads()) {
    weight += static_cast<double>(each[2 * n]);
    margin += static_cast<double>(each[2 * n + 1]);
  }
  auto* const space = device::shared_memory<ReduceSpace<double>>();
  weight = reduce_block(weight, Sum{}, space[0].values);
  margin = reduce_block(margin, Sum{}, space[1].values);
  if (device::thread_x() != 0) return;
  const double tokens = count > 0 ? static_cast<double>(count) : 1.0;
  means[0] = static_cast<float>(weight / tokens);
  means[1] = static_cast<float>(margin / tokens);
}

}  // namespace

template <class Backend, class A>
void RouterStatisticsKernels<Backend, A>::forward(const RouterStatisticsArgs<A>& args) {
  cuda::launch_each("router_statistics_each", args.tokens, EachToken{args});
  cuda::launch("router_statistics", mean_pairs_kernel,
               {.threads = kMostRowThreads, .shared_bytes = 2 * sizeof(ReduceSpace<double>)}, args.each,
               args.tokens, args.means);
}

template struct RouterStatisticsKernels<Cuda, float>;

}  // namespace moh
