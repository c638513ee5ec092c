#include "ops/activation/sigmoid_cuda.h"
#include "ops/cuda/divide.h"
#include "ops/cuda/lanes.h"
#include "ops/cuda/map.h"
#include "ops/moh/sigmoid_top_k_kernels.h"

namespace moh {

namespace {

/// An expert of a group.
struct SelectExpert {
  const float* logits;
  float* gates;
  std::uint8_t* selected;
  LogitGroups groups;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const Division expert = divide(i, groups.experts);
    const float* const group = logits + expert.quotient * groups.experts;
    const float logit = logits[i];
    std::int64_t before = 0;
    for (std::int64_t other = 0; other < groups.experts; ++other)
      before += other != expert.rest && precedes(group[other], other, logit, expert.rest) ? 1 : 0;
    const bool is_selected = before < groups.kept;
    selected[i] = is_selected ? 1 : 0;
    gates[i] = is_selected ? sigmoid_pair(logit).value : 0.0F;
  }
};

struct SelectedGradient {
  const float *d_gates, *logits, *gates;
  float* d_logits;

  MOH_DEVICE void operator()(std::int64_t i) const {
    d_logits[i] = gates[i] != 0.0F ? gates[i] * sigmoid_pair(logits[i]).rest * d_gates[i] : 0.0F;
  }
};

}  // namespace

template <class Backend, class A>
void SigmoidTopKKernels<Backend, A>::forward(const A* logits, A* gates, std::uint8_t* selected,
                                             const LogitGroups& groups) {
  cuda::launch_each("sigmoid_top_k", groups.count * groups.experts,
                    SelectExpert{logits, gates, selected, groups});
}

template <class Backend, class A>
void SigmoidTopKKernels<Backend, A>::backward(const A* d_gates, const A* logits, const A* gates, A* d_logits,
                                              std::int64_t count) {
  cuda::launch_each("sigmoid_top_k_gradient", count, SelectedGradient{d_gates, logits, gates, d_logits});
}

template struct SigmoidTopKKernels<Cuda, float>;

}  // namespace moh
