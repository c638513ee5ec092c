#include <cmath>

#include "core/cpu_isa.h"
#include "ops/moh/balance_bias_kernels.h"

namespace moh {
namespace {

/// The load of a routed head over the step.
template <class A>
double load_of(const BalanceBiasArgs<A>& args, std::int64_t head) {
  double sum = 0;
  for (std::int64_t m = 0; m < args.micro_batches; ++m) sum += args.loads[m * args.row_width + head];
  return sum;
}

}  // namespace

template <class Backend, class A>
void BalanceBiasKernels<Backend, A>::update(const BalanceBiasArgs<A>& args) {
  if (args.go != nullptr && *args.go == 0) return;
  const std::int64_t size = args.routed / args.groups;
  for (std::int64_t first = 0; first < args.routed; first += size) {
    double all = 0;
    for (std::int64_t head = first; head < first + size; ++head) all += load_of(args, head);
    for (std::int64_t head = first; head < first + size; ++head) {
      const double lacks = all - static_cast<double>(size) * load_of(args, head);
      if (std::abs(lacks) > kEvenLoad * all) args.bias[head] += lacks > 0 ? args.rate : -args.rate;
    }
  }
}

template struct BalanceBiasKernels<cpu::MOH_ISA, float>;
template struct BalanceBiasKernels<cpu::MOH_ISA, double>;

}  // namespace moh
