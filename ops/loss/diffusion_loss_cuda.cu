#include "ops/cuda/block_sizes.h"
#include "ops/cuda/rows.h"
#include "ops/loss/diffusion_bound.h"
#include "ops/loss/diffusion_loss_kernels.h"

namespace moh {

namespace {

/// A sample's operands, of which device code reads elements in float64.
template <class T>
struct DiffusionReader {
  const T* prediction;
  DiffusionOperands<float> targets;
  DiffusionSizes sizes;

  MOH_DEVICE double predicted(std::int64_t sample, std::int64_t output) const {
    return static_cast<float>(prediction[sample * sizes.outputs + output]);
  }
  /// The noise less the prediction.
  MOH_DEVICE double off(std::int64_t sample, std::int64_t j) const {
    return targets.noise[sample * sizes.elements + j] - predicted(sample, j);
  }
  MOH_DEVICE BoundTerm bound(std::int64_t sample, std::int64_t j) const {
    const std::int64_t at = sample * sizes.elements + j;
    const DiffusionElement element{targets.start[at], targets.sample[at], predicted(sample, j),
                                   predicted(sample, sizes.elements + j)};
    return bound_term(element, targets.factors + sample * kDiffusionFactors);
  }
};

struct DiffusionParts {
  float *squared_error, *bound, *losses;
};

/// One block per sample.
template <class T>
MOH_KERNEL(kBlockThreads)
void diffusion_loss_kernel(DiffusionReader<T> from, DiffusionParts to) {
  const std::int64_t sample = device::block_x(), count = from.sizes.elements;
  double squares = 0, bits = 0;
  for (std::int64_t j = device::thread_x(); j < count; j += device::block_threads()) {
    const double off = from.off(sample, j);
    squares += off * off;
  }
  // A loop of its own: in one with the squares, registers spill around its calls.
  if (from.sizes.has_variance()) {
    for (std::int64_t j = device::thread_x(); j < count; j += device::block_threads())
      bits += from.bound(sample, j).value;
  }
  auto* space = device::shared_memory<ReduceSpace<double>>();
  squares = reduce_block(squares, Sum{}, space[0].values);
  bits = reduce_block(bits, Sum{}, space[1].values);
  if (device::thread_x() > 0) return;
  const double per_element = 1.0 / static_cast<double>(count);
  to.squared_error[sample] = static_cast<float>(squares * per_element);
  to.bound[sample] = static_cast<float>(bits * per_element);
  to.losses[sample] = static_cast<float>((squares + bits) * per_element);
}

/// The gradients of an element: of the predicted noise and of v.
template <class T>
struct DiffusionGradient {
  DiffusionReader<T> from;
  const float* dloss;
  double normalizer;
  T* dprediction;

  MOH_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t count = from.sizes.elements, sample = i / count, j = i % count;
    const double factor = *dloss / (normalizer * static_cast<double>(count));
    T* to = dprediction + sample * from.sizes.outputs;
    to[j] = static_cast<float>(-2 * factor * from.off(sample, j));
    if (from.sizes.has_variance()) to[count + j] = static_cast<float>(factor * from.bound(sample, j).slope);
  }
};

}  // namespace

template <class Backend, class T>
void DiffusionLossKernels<Backend, T>::forward(const T* prediction, const DiffusionOperands<Acc<T>>& targets,
                                               Acc<T>* squared_error, Acc<T>* bound, Acc<T>* losses,
                                               DiffusionSizes sizes) {
  cuda::launch(
      "diffusion_loss", diffusion_loss_kernel<T>,
      {.blocks_x = sizes.samples, .threads = kBlockThreads, .shared_bytes = 2 * sizeof(ReduceSpace<double>)},
      DiffusionReader<T>{prediction, targets, sizes}, DiffusionParts{squared_error, bound, losses});
}

template <class Backend, class T>
void DiffusionLossKernels<Backend, T>::backward(const Acc<T>* dloss, double normalizer, const T* prediction,
                                                const DiffusionOperands<Acc<T>>& targets, T* dprediction,
                                                DiffusionSizes sizes) {
  cuda::launch_each("diffusion_loss_gradient", sizes.samples * sizes.elements,
                    DiffusionGradient<T>{{prediction, targets, sizes}, dloss, normalizer, dprediction});
}

template struct DiffusionLossKernels<Cuda, float>;
template struct DiffusionLossKernels<Cuda, bfloat16>;

}  // namespace moh
