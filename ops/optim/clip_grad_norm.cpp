#include "ops/optim/clip_grad_norm.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "ops/op.h"
#include "ops/optim/chunks.h"
#include "ops/optim/kernel_table.h"

namespace moh {

namespace {

/// The sums of squares of the chunks of all tensors of the dtype of `like`.
std::vector<double> sums_of_chunks(std::span<const Tensor> grads, const Tensor& like) {
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  std::vector<double> all;
  run_kernel("grad_norm", like, [&]<class Backend, class T>() {
    const KernelTable<GradChunk<T>> chunks(grad_chunks<T>(grads), like.device());
    const Tensor sums = empty({chunks.size()}, DType::kFloat64, like.device());
    GradNormKernels<Backend, T>::sum_squares(chunks.data(), chunks.size(), sums.data<double>());
    const Tensor on_host = sums.to(kCpu);
    const std::span<const double> found = on_host.span<double>();
    all.assign(found.begin(), found.end());
  });
  return all;
}

}  // namespace

double grad_norm(std::span<const Tensor> grads) {
  std::vector<SquareSums> sums;
  std::set<DType> done;
  for (const Tensor& grad : grads) {
    if (grad.defined() && done.insert(grad.dtype()).second)
      sums.push_back({grad.dtype(), sums_of_chunks(grads, grad)});
  }
  return norm_of(sums);
}

SquareSums square_sums(const Tensor& grad) {
  return {grad.dtype(), sums_of_chunks({&grad, 1}, grad)};
}

double norm_of(std::span<const SquareSums> gradients) {
  std::vector<std::pair<DType, double>> totals;
  for (const SquareSums& gradient : gradients) {
    auto total = std::ranges::find(totals, gradient.dtype, &std::pair<DType, double>::first);
    if (total == totals.end()) total = totals.insert(total, {gradient.dtype, 0.0});
    for (const double sum : gradient.of_chunks) total->second += sum;
  }
  double squares = 0.0;
  for (const auto& [dtype, total] : totals) squares += total;
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
