#include "ops/optim/adafactor.h"

#include "ops/op.h"
#include "ops/optim/adafactor_kernels.h"

namespace moh {

namespace {

template <class T, class G>
AdafactorMatrix<T, G> matrix_of(const AdamWParameter& p, const Tensor& grad) {
  const bool factored = p.value.rank() == 2;
  return {.value = p.value.data<T>(),
          .master = p.master.defined() ? p.master.data<Acc<T>>() : nullptr,
          .grad = grad.data<G>(),
          .row = factored ? p.exp_avg_sq_row.data<Acc<T>>() : nullptr,
          .column = p.exp_avg_sq.data<Acc<T>>(),
          .rows = factored ? p.value.dim(0) : 1,
          .columns = factored ? p.value.dim(1) : p.value.numel()};
}

template <class Backend, class T, class G>
void update(const AdamWParameter& p, const Tensor& grad, const StepNumbers& step) {
  using A = Acc<T>;
  using Kernels = AdafactorKernels<Backend, T, G>;
  const AdafactorMatrix<T, G> of = matrix_of<T, G>(p, grad);
  const DType wide = accumulate_dtype(p.value.dtype());
  const Tensor squares = empty({of.rows}, wide, p.value.device());
  const Tensor sums = empty({2}, wide, p.value.device());
  A *const row_sum = sums.data<A>(), *const square_sum = row_sum + 1;
  const auto* coefficients = static_cast<const AdamWCoefficients<A>*>(step.coefficients);
  Kernels::means(of, coefficients, step.go);
  if (of.row != nullptr) Kernels::sum(of.row, of.rows, row_sum);
  Kernels::squares(of, row_sum, squares.data<A>(), coefficients);
  Kernels::sum(squares.data<A>(), of.rows, square_sum);
  Kernels::apply(of, row_sum, square_sum, coefficients, static_cast<const AdamWRate<A>*>(step.rate), step.go);
}

}  // namespace

AdafactorShapes adafactor_shapes(const Shape& parameter) {
  if (parameter.rank() != 2) return {parameter, {0}};
  return {{parameter[1]}, {parameter[0]}};
}

void adafactor(const AdamWParameter& parameter, const Tensor& grad, const StepNumbers& step) {
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  if (parameter.value.numel() == 0) return;
  run_kernel("adafactor", parameter.value, [&]<class Backend, class T>() {
    if constexpr (std::is_same_v<T, bfloat16>) {
      if (grad.dtype() == DType::kBFloat16) return update<Backend, T, bfloat16>(parameter, grad, step);
    }
    update<Backend, T, Acc<T>>(parameter, grad, step);
  });
}

}  // namespace moh
