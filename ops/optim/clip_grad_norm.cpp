#include "ops/optim/clip_grad_norm.h"

#include <cmath>
#include <set>
#include <string>

#include "ops/op.h"
#include "ops/optim/chunks.h"
#include "ops/optim/kernel_table.h"

namespace moh {

namespace {

/// The sum of squares over all tensors of the dtype of `like`.
double sum_squares(std::span<const Tensor> grads, const Tensor& like) {
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  double total = 0.0;
  run_kernel("grad_norm", like, [&]<class Backend, class T>() {
    const KernelTable<GradChunk<T>> chunks(grad_chunks<T>(grads), like.device());
    const Tensor sums = empty({chunks.size()}, DType::kFloat64, like.device());
    GradNormKernels<Backend, T>::sum_squares(chunks.data(), chunks.size(), sums.data<double>());
    const Tensor on_host = sums.to(kCpu);
    for (const double sum : on_host.span<double>()) total += sum;
  });
  return total;
}

}  // namespace

double grad_norm(std::span<const Tensor> grads) {
  double squares = 0.0;
  std::set<DType> done;
  for (const Tensor& grad : grads) {
    if (grad.defined() && done.insert(grad.dtype()).second) squares += sum_squares(grads, grad);
  }
  return std::sqrt(squares);
}

double clip_factor(double norm, double max_norm) {
  Check("clip_factor").positive("max_norm", max_norm);
  if (!std::isfinite(norm)) {
    throw NumericError(
        error_message("clip_factor", "gradient norm", "a finite number", std::to_string(norm)));
  }
  return clip_scale(norm, max_norm);
}

}  // namespace moh
