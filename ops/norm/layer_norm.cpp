#include "ops/norm/layer_norm.h"

#include "autograd/gradient_target.h"
#include "ops/cpu/row_sums.h"
#include "ops/modulation.h"
#include "ops/norm/layer_norm_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

/// NormAffine of tensors, which hold all groups.
struct Affine {
  Tensor weight, bias;                      // may be undefined
  std::int64_t weight_at = 0, bias_at = 0;  // offset of group 0 in elements
  double base = 0;
  std::int64_t groups = 1, stride = 0;

  template <class T>
  NormAffine<T> kernels() const {
    return {weight.defined() ? weight.data<T>() + weight_at : nullptr,
            bias.defined() ? bias.data<T>() + bias_at : nullptr, base, groups, stride};
  }
};

/// The result of the forward pass, and the tensors saved for the backward pass.
struct Normalised {
  Tensor y;
  struct Saved {
    Tensor mean, r;
  } saved;
};

Normalised normalise(const char* op, const Variable& x, const Affine& affine, double eps) {
  const Rows rows = rows_of(x);
  Tensor y = empty_like(x.value());
  Tensor mean = empty({rows.count}, accumulate_dtype(x.dtype()), x.device());
  Tensor r = empty_like(mean);
  run_kernel<MatrixIsas>(op, y, [&]<class Backend, class T>() {
    LayerNormKernels<Backend, T>::forward(x.value().data<T>(), affine.kernels<T>(), y.data<T>(),
                                          mean.data<Acc<T>>(), r.data<Acc<T>>(), rows, eps);
  });
  return {y, {mean, r}};
}

/// Returns dx, and puts the gradients of bias and weight where `sums` says.
template <class SumsOf>
Tensor gradients(const char* op, const Tensor& dy, const Tensor& x, const Affine& affine,
                 const Normalised::Saved& saved, bool needs_sums, const SumsOf& sums_of) {
  // An addition by itself would be a launch.
  const Tensor sum_so_far = x.device() == kCpu ? Tensor() : gradient_sum_of_input(0);
  Tensor dx = sum_so_far.defined() ? sum_so_far : empty_like(x);
  const Rows rows{saved.mean.numel(), x.dim(-1)};
  const auto run = [&]<class Backend, class T>() {
    LayerNormKernels<Backend, T>::backward(
        dy.data<T>(), x.data<T>(), affine.kernels<T>(), saved.mean.data<Acc<T>>(), saved.r.data<Acc<T>>(),
        dx.data<T>(), sum_so_far.defined(), needs_sums ? sums_of.template operator()<T>() : NormSums<T>(),
        rows);
  };
  run_kernel<MatrixIsas>(op, dy, run,
                         RowSumsWorkspace{needs_sums ? Rows{rows.count, 2 * rows.width} : Rows()});
  return dx;
}

/// The gradients of a weight and a bias: one tensor on a CPU, whose rows the kernel fills; each where the
/// leaf's gradient stays on a GPU, which copies nothing then. They are not rounded: micro-batches add theirs
/// up.
struct ParameterSums {
  Tensor bias, weight;

  static ParameterSums of(const GradientTarget& bias, const GradientTarget& weight, const Tensor& x) {
    if (x.device() != kCpu && bias.needed() && weight.needed())
      return {bias.contribution(), weight.contribution()};
    const Tensor both = empty({2, x.dim(-1)}, accumulate_dtype(x.dtype()), x.device());
    return {both.select(0), both.select(1)};
  }
};

Tensor value_or_undefined(const Variable& v) {
  return v.defined() ? v.value() : Tensor();
}

}  // namespace

Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double eps) {
  Check check("layer_norm");
  check.floating("x", x).min_rank("x", x, 1).positive("eps", eps);
  const Shape shape{x.dim(-1)};
  if (weight.defined()) check.shape("weight", weight, shape, "last axis of x").like("weight", weight, "x", x);
  if (bias.defined()) check.shape("bias", bias, shape, "last axis of x").like("bias", bias, "x", x);
  Affine affine{.weight = value_or_undefined(weight),
                .bias = value_or_undefined(bias),
                .base = weight.defined() ? 0.0 : 1.0};
  const auto [y, saved] = normalise("layer_norm", x, affine, eps);
  affine.bias = Tensor();
  return record("layer_norm", y, {x, weight, bias},
                [x = x.value(), affine, saved = saved, w = GradientTarget(weight),
                 b = GradientTarget(bias)](const Tensor& dy) -> Grads {
                  const bool needs_sums = w.needed() || b.needed();
                  const ParameterSums sums = needs_sums ? ParameterSums::of(b, w, x) : ParameterSums();
                  Tensor dx = gradients("layer_norm", dy, x, affine, saved, needs_sums, [&]<class T>() {
                    return NormSums<T>{{.overwritten = sums.bias.data<Acc<T>>()},
                                       {.overwritten = sums.weight.data<Acc<T>>()}};
                  });
                  return {dx, sums.weight, sums.bias};
                });
}

Variable layer_norm_modulate(const Variable& x, const Variable& modulation, std::int64_t first, double eps) {
  check_modulation("layer_norm_modulate", x, modulation, first, 2);
  Check("layer_norm_modulate").positive("eps", eps);
  const std::int64_t width = x.dim(-1);
  const Affine affine{.weight = modulation.value(),
                      .bias = modulation.value(),
                      .weight_at = (first + 1) * width,
                      .bias_at = first * width,
                      .base = 1.0,
                      .groups = x.dim(0),
                      .stride = modulation.dim(1) * width};
  const auto [y, saved] = normalise("layer_norm_modulate", x, affine, eps);
  return record(
      "layer_norm_modulate", y, {x, modulation},
      [x = x.value(), affine, saved = saved](const Tensor& dy) -> Grads {
        const ModulationGradient dmodulation(affine.weight, 1);
        Tensor dx = gradients("layer_norm_modulate", dy, x, affine, saved, true, [&]<class T>() {
          return NormSums<T>{dmodulation.sums<T>(affine.bias_at), dmodulation.sums<T>(affine.weight_at)};
        });
        return {dx, dmodulation.tensor()};
      });
}

}  // namespace moh
