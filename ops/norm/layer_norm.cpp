#include "ops/norm/layer_norm.h"

#include <optional>
#include <span>
#include <string>

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
  /// The map as a backward pass keeps it: its gradients do not depend on the bias.
  Affine without_bias() const {
    Affine of = *this;
    of.bias = Tensor();
    return of;
  }
};

/// NormBranch of tensors.
struct Branch {
  Tensor value, modulation;   // may be undefined
  std::int64_t gates_at = 0;  // offset in elements of the gates of the first sample
  std::int64_t samples = 1, stride = 0;
  DropoutMask mask;

  template <class T>
  NormBranch<T> kernels() const {
    return {value.defined() ? value.data<T>() : nullptr,
            modulation.defined() ? modulation.data<T>() + gates_at : nullptr, mask, samples, stride};
  }
  bool has_own_gradient() const { return modulation.defined() || mask.drops(); }
  /// The branch as a backward pass keeps it: only gates have gradients that depend on its values.
  Branch saved() const {
    Branch of = *this;
    if (!modulation.defined()) of.value = Tensor();
    return of;
  }
};

Tensor value_or_undefined(const Variable& v) {
  return v.defined() ? v.value() : Tensor();
}

Branch checked_branch(const char* op, const Variable& x, const ResidualBranch& from) {
  if (!from.value.defined()) return {};
  Check check(op);
  check.min_rank("x", x, 2).like("branch", from.value, "x", x).shape("branch", from.value, x.shape(), "as x");
  Branch branch{.value = from.value.value(),
                .modulation = value_or_undefined(from.modulation),
                .samples = x.dim(0),
                .mask = dropout_mask(op, "drop_rate", from.drop_rate, from.key, x.device())};
  if (!from.modulation.defined()) return branch;
  check_modulation(op, x, from.modulation, from.gate, 1);
  check.require(from.drop_rate == 0, "drop_rate", "0 beside gates", std::to_string(from.drop_rate));
  branch.gates_at = from.gate * x.dim(-1);
  branch.stride = from.modulation.dim(1) * x.dim(-1);
  return branch;
}

/// The results of the forward pass, and what is saved for the backward pass besides operands.
struct Normalised {
  Tensor sum, y;
  struct Saved {
    Tensor mean, r;
  } saved;
};

Normalised normalise(const char* op, const Variable& x, const Branch& branch, const Affine& affine,
                     double eps) {
  const Rows rows = rows_of(x);
  const bool adds = branch.value.defined();
  Tensor sum = adds ? empty_like(x.value()) : x.value(), y = empty_like(x.value());
  Tensor mean = empty({rows.count}, accumulate_dtype(x.dtype()), x.device());
  Tensor r = empty_like(mean);
  run_kernel<MatrixIsas>(op, y, [&]<class Backend, class T>() {
    LayerNormKernels<Backend, T>::forward(x.value().data<T>(), branch.kernels<T>(),
                                          adds ? sum.data<T>() : nullptr, affine.kernels<T>(), y.data<T>(),
                                          mean.data<Acc<T>>(), r.data<Acc<T>>(), rows, eps);
  });
  return {sum, y, {mean, r}};
}

/// Operands of the backward pass.
struct Backward {
  Tensor x;  ///< the sum
  Branch branch;
  Affine affine;
  Normalised::Saved saved;
};

/// Gradients of x and of the branch.
struct StreamGradients {
  Tensor x, branch;
};

/// `dsum`, which may be undefined, is the gradient of the sum, to which that of the norm is added: in place
/// if `in_place`. `sums_of` says where the other gradients go, if `needs_sums`.
template <class SumsOf>
StreamGradients gradients(const char* op, const Tensor& dy, const Tensor& dsum, bool in_place,
                          const Backward& of, bool needs_sums, const SumsOf& sums_of) {
  Tensor dx = in_place ? dsum : empty_like(of.x);
  Tensor dbranch = of.branch.has_own_gradient() ? empty_like(of.x) : dx;
  const Rows rows{of.saved.mean.numel(), of.x.dim(-1)};
  const auto run = [&]<class Backend, class T>() {
    LayerNormGradients<T> to = needs_sums ? sums_of.template operator()<T>() : LayerNormGradients<T>();
    to.x = dx.data<T>();
    if (of.branch.has_own_gradient()) to.branch = dbranch.data<T>();
    LayerNormKernels<Backend, T>::backward(dy.data<T>(), dsum.defined() ? dsum.data<T>() : nullptr,
                                           of.x.data<T>(), of.branch.kernels<T>(), of.affine.kernels<T>(),
                                           of.saved.mean.data<Acc<T>>(), of.saved.r.data<Acc<T>>(), to, rows);
  };
  run_kernel<MatrixIsas>(op, dy, run,
                         RowSumsWorkspace{needs_sums ? Rows{rows.count, 2 * rows.width} : Rows()});
  return {dx, dbranch};
}

/// gradients() of an op whose only result is the norm.
template <class SumsOf>
Tensor gradient(const char* op, const Tensor& dy, const Backward& of, bool needs_sums,
                const SumsOf& sums_of) {
  // An addition by itself would be a launch.
  const Tensor sum_so_far = of.x.device() == kCpu ? Tensor() : gradient_sum_of_input(0);
  return gradients(op, dy, sum_so_far, sum_so_far.defined(), of, needs_sums, sums_of).x;
}

/// gradients() of an op with two results, the sum and the norm, whose gradients are `dys`.
template <class SumsOf>
StreamGradients gradients(const char* op, std::span<const Tensor> dys, const Backward& of, bool needs_sums,
                          const SumsOf& sums_of) {
  const bool in_place = of.x.device() != kCpu && dys[0].defined() && dys[0].is_unique();
  const Tensor dy = dys[1].defined() ? dys[1] : zeros_like(of.x);
  return gradients(op, dy, dys[0], in_place, of, needs_sums, sums_of);
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

/// Checks operands of layer_norm and add_layer_norm.
Affine checked_affine(const char* op, const Variable& x, const Variable& weight, const Variable& bias,
                      double eps) {
  Check check(op);
  check.floating("x", x).min_rank("x", x, 1).positive("eps", eps);
  const Shape shape{x.dim(-1)};
  if (weight.defined()) check.shape("weight", weight, shape, "last axis of x").like("weight", weight, "x", x);
  if (bias.defined()) check.shape("bias", bias, shape, "last axis of x").like("bias", bias, "x", x);
  return {.weight = value_or_undefined(weight),
          .bias = value_or_undefined(bias),
          .base = weight.defined() ? 0.0 : 1.0};
}

/// Checks operands of layer_norm_modulate and add_layer_norm_modulate.
Affine checked_modulation(const char* op, const Variable& x, const Variable& modulation, std::int64_t first,
                          double eps) {
  check_modulation(op, x, modulation, first, 2);
  Check(op).positive("eps", eps);
  const std::int64_t width = x.dim(-1);
  return {.weight = modulation.value(),
          .bias = modulation.value(),
          .weight_at = (first + 1) * width,
          .bias_at = first * width,
          .base = 1.0,
          .groups = x.dim(0),
          .stride = modulation.dim(1) * width};
}

/// The gradients of a weight and a bias, in a backward pass.
struct AffineGradients {
  GradientTarget weight, bias;

  bool needed() const { return weight.needed() || bias.needed(); }
  ParameterSums sums(const Tensor& x) const {
    return needed() ? ParameterSums::of(bias, weight, x) : ParameterSums();
  }
};

/// Where kernels put the gradients of a weight and a bias.
template <class T>
LayerNormGradients<T> destination(const ParameterSums& sums) {
  return {.bias = {.overwritten = sums.bias.data<Acc<T>>()},
          .weight = {.overwritten = sums.weight.data<Acc<T>>()}};
}

/// Likewise, of rows of a modulation.
template <class T>
LayerNormGradients<T> destination(const ModulationGradient& of, const Affine& affine) {
  return {.bias = of.sums<T>(affine.bias_at), .weight = of.sums<T>(affine.weight_at)};
}

}  // namespace

Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double eps) {
  const Affine affine = checked_affine("layer_norm", x, weight, bias, eps);
  const Normalised result = normalise("layer_norm", x, {}, affine, eps);
  return record(
      "layer_norm", result.y, {x, weight, bias},
      [of = Backward{x.value(), {}, affine.without_bias(), result.saved},
       to = AffineGradients{GradientTarget(weight), GradientTarget(bias)}](const Tensor& dy) -> Grads {
        const ParameterSums sums = to.sums(of.x);
        Tensor dx =
            gradient("layer_norm", dy, of, to.needed(), [&]<class T>() { return destination<T>(sums); });
        return {dx, sums.weight, sums.bias};
      });
}

AddedAndNormed add_layer_norm(const Variable& x, const ResidualBranch& branch, const Variable& weight,
                              const Variable& bias, double eps) {
  constexpr const char* kOp = "add_layer_norm";
  const Affine affine = checked_affine(kOp, x, weight, bias, eps);
  Check(kOp).require(!branch.modulation.defined(), "modulation", "none, as the norm has none", "one");
  const Branch added = checked_branch(kOp, x, branch);
  const Normalised result = normalise(kOp, x, added, affine, eps);
  const std::vector<Variable> outputs =
      record_outputs(kOp, {result.sum, result.y}, {x, branch.value, weight, bias},
                     [of = Backward{result.sum, added.saved(), affine.without_bias(), result.saved},
                      to = AffineGradients{GradientTarget(weight), GradientTarget(bias)}](
                         std::span<const Tensor> dys) -> Grads {
                       const ParameterSums sums = to.sums(of.x);
                       const StreamGradients stream = gradients(
                           kOp, dys, of, to.needed(), [&]<class T>() { return destination<T>(sums); });
                       return {stream.x, stream.branch, sums.weight, sums.bias};
                     });
  return {outputs[0], outputs[1]};
}

Variable layer_norm_modulate(const Variable& x, const Variable& modulation, std::int64_t first, double eps) {
  constexpr const char* kOp = "layer_norm_modulate";
  const Affine affine = checked_modulation(kOp, x, modulation, first, eps);
  const Normalised result = normalise(kOp, x, {}, affine, eps);
  return record(kOp, result.y, {x, modulation},
                [of = Backward{x.value(), {}, affine, result.saved}](const Tensor& dy) -> Grads {
                  const ModulationGradient dmodulation(of.affine.weight, 1);
                  Tensor dx = gradient(kOp, dy, of, true,
                                       [&]<class T>() { return destination<T>(dmodulation, of.affine); });
                  return {dx, dmodulation.tensor()};
                });
}

AddedAndNormed add_layer_norm_modulate(const Variable& x, const ResidualBranch& branch,
                                       const Variable& modulation, std::int64_t first, double eps) {
  constexpr const char* kOp = "add_layer_norm_modulate";
  const Affine affine = checked_modulation(kOp, x, modulation, first, eps);
  const Branch added = checked_branch(kOp, x, branch);
  const Normalised result = normalise(kOp, x, added, affine, eps);
  const std::vector<Variable> outputs = record_outputs(
      kOp, {result.sum, result.y}, {x, branch.value, modulation, branch.modulation},
      [of = Backward{result.sum, added.saved(), affine, result.saved}](std::span<const Tensor> dys) -> Grads {
        const ModulationGradient dmodulation(of.affine.weight, 2);
        std::optional<ModulationGradient> dgates;
        if (of.branch.modulation.defined() && !are_one_input(2, 3)) dgates.emplace(of.branch.modulation, 3);
        const StreamGradients stream = gradients(kOp, dys, of, true, [&]<class T>() {
          LayerNormGradients<T> to = destination<T>(dmodulation, of.affine);
          if (of.branch.modulation.defined())
            to.gates = (dgates ? *dgates : dmodulation).template sums<T>(of.branch.gates_at);
          return to;
        });
        return {stream.x, stream.branch, dmodulation.tensor(), dgates ? dgates->tensor() : Tensor()};
      });
  return {outputs[0], outputs[1]};
}

}  // namespace moh
