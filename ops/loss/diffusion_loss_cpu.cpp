#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "ops/loss/diffusion_bound.h"
#include "ops/loss/diffusion_loss_kernels.h"

namespace moh {

template <class Backend, class T>
void DiffusionLossKernels<Backend, T>::forward(const T* prediction, const DiffusionOperands<Acc<T>>& targets,
                                               Acc<T>* squared_error, Acc<T>* bound, Acc<T>* losses,
                                               DiffusionSizes sizes) {
  using A = Acc<T>;
  const std::int64_t count = sizes.elements;
  parallel_for(sizes.samples, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const T* predicted = prediction + b * sizes.outputs;
      const A* factors = targets.factors + b * kDiffusionFactors;
      double squares = 0, bits = 0;
      for (std::int64_t j = 0; j < count; ++j) {
        const std::int64_t at = b * count + j;
        const double noise = A(predicted[j]), off = static_cast<double>(targets.noise[at]) - noise;
        squares += off * off;
        if (!sizes.has_variance()) continue;
        const DiffusionElement element{targets.start[at], targets.sample[at], noise, A(predicted[count + j])};
        bits += bound_term(element, factors).value;
      }
      const double per_element = 1.0 / static_cast<double>(count);
      squared_error[b] = static_cast<A>(squares * per_element);
      bound[b] = static_cast<A>(bits * per_element);
      losses[b] = static_cast<A>((squares + bits) * per_element);
    }
  });
}

template <class Backend, class T>
void DiffusionLossKernels<Backend, T>::backward(const Acc<T>* dloss, double normalizer, const T* prediction,
                                                const DiffusionOperands<Acc<T>>& targets, T* dprediction,
                                                DiffusionSizes sizes) {
  using A = Acc<T>;
  const std::int64_t count = sizes.elements;
  const double factor = static_cast<double>(*dloss) / (normalizer * static_cast<double>(count));
  parallel_for(sizes.samples, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const T* predicted = prediction + b * sizes.outputs;
      T* to = dprediction + b * sizes.outputs;
      const A* factors = targets.factors + b * kDiffusionFactors;
      for (std::int64_t j = 0; j < count; ++j) {
        const std::int64_t at = b * count + j;
        const double noise = A(predicted[j]);
        to[j] = static_cast<A>(2 * factor * (noise - static_cast<double>(targets.noise[at])));
        if (!sizes.has_variance()) continue;
        const DiffusionElement element{targets.start[at], targets.sample[at], noise, A(predicted[count + j])};
        to[count + j] = static_cast<A>(factor * bound_term(element, factors).slope);
      }
    }
  });
}

template struct DiffusionLossKernels<cpu::MOH_ISA, float>;
template struct DiffusionLossKernels<cpu::MOH_ISA, bfloat16>;
template struct DiffusionLossKernels<cpu::MOH_ISA, double>;

}  // namespace moh
