#include "train/heads/init/divergence.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "autograd/node.h"
#include "core/parallel.h"

namespace moh {

namespace {

/// ln sum_v e^(z_v), without overflow.
double log_sum_exp(const float* z, std::int64_t n) {
  const double top = *std::max_element(z, z + n);
  double sum = 0;
  for (std::int64_t v = 0; v < n; ++v) sum += std::exp(z[v] - top);
  return top + std::log(sum);
}

double divergence_of_row(const float* p, const float* q, std::int64_t n) {
  const double p_norm = log_sum_exp(p, n), q_norm = log_sum_exp(q, n);
  double sum = 0;
  for (std::int64_t v = 0; v < n; ++v) {
    const double log_p = p[v] - p_norm;
    sum += std::exp(log_p) * (log_p - (q[v] - q_norm));
  }
  return sum;
}

Tensor rows_on_host(const Variable& logits) {
  const std::int64_t width = logits.dim(-1);
  return logits.value().to(kCpu).to(DType::kFloat32).reshape({logits.numel() / width, width});
}

}  // namespace

double sum_of_divergences(const Tensor& p, const Tensor& q) {
  std::vector<double> of_rows(static_cast<std::size_t>(p.dim(0)));
  const std::int64_t width = p.dim(1);
  parallel_for(p.dim(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      of_rows[static_cast<std::size_t>(i)] =
          divergence_of_row(p.data<float>() + i * width, q.data<float>() + i * width, width);
  });
  return std::accumulate(of_rows.begin(), of_rows.end(), 0.0);
}

double divergence_from_dense(const Model& model, const Calibration& calibration) {
  const NoGrad no_grad;
  double sum = 0;
  std::int64_t predictions = 0;
  for (std::int64_t i = 0; i < calibration.size(); ++i) {
    const Tensor dense = rows_on_host(calibration.logits(model, i, {.all_heads = true}));
    sum += sum_of_divergences(dense, rows_on_host(calibration.logits(model, i, {})));
    predictions += dense.dim(0);
  }
  return predictions > 0 ? sum / static_cast<double>(predictions) : 0.0;
}

}  // namespace moh
