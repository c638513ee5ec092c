#include <cmath>
#include <limits>

#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/moh/router_statistics_kernels.h"

namespace moh {
namespace {

/// z_k - z_r of one token with `routed` logits, whose last kept head is `last`.
template <class A>
[[gnu::always_inline]] inline A margin_of(const A* z, std::int64_t routed, std::int64_t last) {
  constexpr A kNone = -std::numeric_limits<A>::infinity();
  const A kept = z[last];
  A first = kNone;
  for (std::int64_t e = 0; e < routed; ++e) {
    const bool refused = z[e] < kept || (z[e] == kept && e > last);
    first = refused && z[e] > first ? z[e] : first;
  }
  return first == kNone ? A(0) : kept - first;
}

/// The mean of margin_of() over the groups of token n.
template <class A>
[[gnu::always_inline]] inline A mean_margin(const RouterStatisticsArgs<A>& args, std::int64_t n) {
  const std::int64_t size = args.routed / args.groups, kept = args.kept / args.groups;
  A sum = 0;
  for (std::int64_t g = 0; g < args.groups; ++g) {
    const std::int64_t last = args.top[n * args.kept + (g + 1) * kept - 1];
    sum += margin_of(args.routed_logits + n * args.routed + g * size, size, last - g * size);
  }
  return sum / A(args.groups);
}

}  // namespace

template <class Backend, class A>
void RouterStatisticsKernels<Backend, A>::forward(const RouterStatisticsArgs<A>& args) {
  sum_over_rows<A>(args.tokens, 2, args.means, [args](std::int64_t n, A* sums) {
    if (args.type_logits != nullptr)
      sums[0] += A(1) / (A(1) + std::exp(args.type_logits[2 * n] - args.type_logits[2 * n + 1]));
    if (args.routed_logits != nullptr && args.kept < args.routed) sums[1] += mean_margin(args, n);
  });
  for (int i = 0; i < 2 && args.tokens > 0; ++i) args.means[i] /= A(args.tokens);
}

template struct RouterStatisticsKernels<cpu::MOH_ISA, float>;
template struct RouterStatisticsKernels<cpu::MOH_ISA, double>;

}  // namespace moh
