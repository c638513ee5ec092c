#include "ops/optim/clip_grad_norm.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "ops/op.h"
#include "ops/optim/clip_grad_norm_kernels.h"

namespace moh {

namespace {

constexpr std::int64_t kChunk = 1 << 14;

/// Chunks of all tensors of one dtype, in their order.
template <class T>
std::vector<GradChunk<T>> chunks_of(std::span<const Tensor> grads) {
  std::vector<GradChunk<T>> chunks;
  for (const Tensor& grad : grads) {
    if (!grad.defined() || grad.dtype() != dtype_of<T>()) continue;
    for (std::int64_t begin = 0; begin < grad.numel(); begin += kChunk) {
      chunks.push_back({grad.data<T>() + begin, std::min(kChunk, grad.numel() - begin)});
    }
  }
  return chunks;
}

/// The sum of squares over all tensors of the dtype of `like`.
double sum_squares(std::span<const Tensor> grads, const Tensor& like) {
  double total = 0.0;
  run_kernel("grad_norm", like, [&]<class Backend, class T>() {
    const std::vector<GradChunk<T>> chunks = chunks_of<T>(grads);
    std::vector<double> sums(chunks.size());
    GradNormKernels<Backend, T>::sum_squares(chunks.data(), static_cast<std::int64_t>(chunks.size()),
                                             sums.data());
    for (const double sum : sums) total += sum;
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
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace moh
