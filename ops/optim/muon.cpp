#include "ops/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "ops/linalg/matmul.h"
#include "ops/op.h"
#include "ops/optim/chunks.h"
#include "ops/optim/muon_kernels.h"

namespace moh {

namespace {

/// Calls fn.template operator()<Kernels, T, G>() for the types of a matrix and its gradient.
template <class Fn>
void run_muon(const Tensor& value, const Tensor& grad, Fn&& fn) {
  run_kernel("muon", value, [&]<class Backend, class T>() {
    if constexpr (std::is_same_v<T, bfloat16>) {
      if (grad.dtype() == DType::kBFloat16)
        return fn.template operator()<MuonKernels<Backend, T, bfloat16>, T, bfloat16>();
    }
    fn.template operator()<MuonKernels<Backend, T, Acc<T>>, T, Acc<T>>();
  });
}

}  // namespace

Tensor orthogonalised(Tensor x) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
  constexpr int kSteps = 5;
  const bool wide = x.dim(0) <= x.dim(1);
  const DType dtype = x.dtype();
  for (int i = 0; i < kSteps; ++i) {
    const Tensor gram = wide ? matmul({x}, transposed(x), dtype) : matmul(transposed(x), {x}, dtype);
    const Tensor polynomial = matmul({gram}, {gram}, dtype);
    polynomial.scale(kC);
    gram.scale(kB);
    polynomial.add(gram);
    const Tensor more = wide ? matmul({polynomial}, {x}, dtype) : matmul({x}, {polynomial}, dtype);
    x.scale(kA);
    x.add(more);
  }
  return x;
}

void muon(const AdamWParameter& matrix, const Tensor& grad, const StepNumbers& step) {
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  const Tensor& value = matrix.value;
  const std::int64_t count = value.numel();
  if (count == 0) return;
  const DType wide = accumulate_dtype(value.dtype());
  const Tensor u = empty(value.shape(), wide, value.device());
  const Tensor squares = empty({muon_parts(count, optimizer_chunk())}, wide, value.device());
  run_muon(value, grad, [&]<class Kernels, class T, class G>() {
    Kernels::momentum(grad.data<G>(), matrix.exp_avg.data<Acc<T>>(), u.data<Acc<T>>(), squares.data<Acc<T>>(),
                      count, static_cast<const AdamWCoefficients<Acc<T>>*>(step.coefficients), step.go);
    Kernels::normalise(u.data<Acc<T>>(), squares.data<Acc<T>>(), count);
  });
  // On a GPU in bfloat16, as its authors do: tensor cores multiply it at twice the rate of TF32 and more.
  const bool narrow = value.device() != kCpu;
  const Tensor direction = orthogonalised(narrow ? u.to(DType::kBFloat16) : u).to(wide);
  const double length = 0.2 * std::sqrt(static_cast<double>(std::max(value.dim(0), value.dim(1))));
  run_muon(value, grad, [&]<class Kernels, class T, class G>() {
    Kernels::apply(value.data<T>(), matrix.master.defined() ? matrix.master.data<Acc<T>>() : nullptr,
                   direction.data<Acc<T>>(), static_cast<Acc<T>>(length), count,
                   static_cast<const AdamWRate<Acc<T>>*>(step.rate), step.go);
  });
}

}  // namespace moh
