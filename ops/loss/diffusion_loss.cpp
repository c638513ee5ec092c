#include "ops/loss/diffusion_loss.h"

#include <string>

#include "ops/loss/cross_entropy_kernels.h"
#include "ops/loss/diffusion_loss_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

constexpr std::string_view kDiffusionLossOp = "diffusion_loss";

void check_target(std::string_view name, const Tensor& t, const Shape& shape, const Variable& prediction) {
  const Variable operand = t.defined() ? Variable(t) : Variable();
  Check(kDiffusionLossOp)
      .dtype(name, operand, accumulate_dtype(prediction.dtype()))
      .shape(name, operand, shape);
  if (t.device() == prediction.device()) return;
  throw DeviceError(error_message(kDiffusionLossOp, name, device_name(prediction.device()) + " as prediction",
                                  device_name(t.device())));
}

DiffusionSizes checked(const Variable& prediction, const DiffusionTargets& targets, double normalizer) {
  Check(kDiffusionLossOp).floating("prediction", prediction).min_rank("prediction", prediction, 2);
  Check(kDiffusionLossOp).positive("normalizer", normalizer);
  const Variable start = targets.start.defined() ? Variable(targets.start) : Variable();
  Check(kDiffusionLossOp).floating("start", start).min_rank("start", start, 2);
  const std::int64_t samples = start.dim(0), elements = samples > 0 ? start.numel() / samples : 0;
  const std::int64_t outputs = samples > 0 ? prediction.numel() / samples : 0;
  Check(kDiffusionLossOp)
      .require(prediction.dim(0) == samples && (outputs == elements || outputs == 2 * elements), "prediction",
               "one or two outputs for each element of start " + to_string(start.shape()),
               to_string(prediction.shape()));
  for (const auto& [name, tensor] :
       {std::pair{"start", &targets.start}, {"sample", &targets.sample}, {"noise", &targets.noise}})
    check_target(name, *tensor, start.shape(), prediction);
  check_target("factors", targets.factors, {samples, kDiffusionFactors}, prediction);
  return {samples, elements, outputs};
}

template <class A>
DiffusionOperands<A> operands_of(const DiffusionTargets& t) {
  return {t.start.data<A>(), t.sample.data<A>(), t.noise.data<A>(), t.factors.data<A>()};
}

}  // namespace

DiffusionLoss diffusion_loss(const Variable& prediction, const DiffusionTargets& targets, double normalizer) {
  const DiffusionSizes sizes = checked(prediction, targets, normalizer);
  const DType dtype = accumulate_dtype(prediction.dtype());
  const auto per_sample = [&] { return empty({sizes.samples}, dtype, prediction.device()); };
  DiffusionLoss result{{}, per_sample(), per_sample()};
  const Tensor losses = per_sample(), loss = empty({}, dtype, prediction.device());
  run_kernel(kDiffusionLossOp, prediction.value(), [&]<class Backend, class T>() {
    DiffusionLossKernels<Backend, T>::forward(prediction.value().data<T>(), operands_of<Acc<T>>(targets),
                                              result.squared_error.data<Acc<T>>(),
                                              result.bound.data<Acc<T>>(), losses.data<Acc<T>>(), sizes);
    CrossEntropyKernels<Backend, T>::reduce(losses.data<Acc<T>>(), sizes.samples, {normalizer},
                                            loss.data<Acc<T>>());
  });
  result.loss =
      record(kDiffusionLossOp, loss, {prediction}, [=, x = prediction.value()](const Tensor& dloss) -> Grads {
        const Tensor dx = empty_like(x);
        run_kernel(kDiffusionLossOp, x, [&]<class Backend, class T>() {
          DiffusionLossKernels<Backend, T>::backward(dloss.data<Acc<T>>(), normalizer, x.data<T>(),
                                                     operands_of<Acc<T>>(targets), dx.data<T>(), sizes);
        });
        return {dx};
      });
  return result;
}

}  // namespace moh
