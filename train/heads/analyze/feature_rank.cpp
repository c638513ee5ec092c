#include "train/heads/analyze/feature_rank.h"

#include <algorithm>
#include <cmath>

#include "ops/linalg/matmul.h"
#include "train/base/math/symmetric_eigenvalues.h"

namespace moh {

namespace {

std::vector<double> eigenvalues_of(const Tensor& matrix) {
  const std::span<double> elements = matrix.span<double>();
  return symmetric_eigenvalues({elements.begin(), elements.end()}, matrix.dim(0));
}

/// Copies the columns of `heads` out of a row that holds all heads, each of width d, and concatenates them.
void copy_heads(const double* row, std::span<const std::int64_t> heads, std::int64_t d, double* to) {
  for (const std::int64_t head : heads) to = std::copy_n(row + head * d, d, to);
}

}  // namespace

FeatureRank feature_rank(std::span<const double> eigenvalues, double tolerance) {
  std::vector<double> singular;
  for (const double value : eigenvalues) singular.push_back(std::sqrt(std::max(value, 0.0)));
  FeatureRank result{.largest = static_cast<std::int64_t>(singular.size())};
  double sum = 0, largest = 0;
  for (const double s : singular) {
    sum += s;
    largest = std::max(largest, s);
  }
  if (sum == 0) return result;
  double entropy = 0;
  for (const double s : singular) {
    if (s > 0) entropy -= s / sum * std::log(s / sum);
    if (s > tolerance * largest) ++result.rank;
  }
  result.effective = std::exp(entropy);
  return result;
}

HeadMoments::HeadMoments(std::int64_t heads, std::int64_t head_dim)
    : heads_(heads),
      head_dim_(head_dim),
      moments_(zeros({heads * head_dim, heads * head_dim}, DType::kFloat64)) {}

void HeadMoments::add(const Tensor& heads) {
  const Tensor z = heads.to(DType::kFloat64);
  matmul_into(moments_, transposed(z), z, /*accumulate=*/true);
}

Tensor HeadMoments::block(std::span<const std::int64_t> heads) const {
  const std::int64_t width = static_cast<std::int64_t>(heads.size()) * head_dim_;
  Tensor part = empty({width, width}, DType::kFloat64);
  double* to = part.data<double>();
  for (const std::int64_t head : heads) {
    for (std::int64_t i = head * head_dim_; i < (head + 1) * head_dim_; ++i, to += width)
      copy_heads(moments_.data<double>() + i * heads_ * head_dim_, heads, head_dim_, to);
  }
  return part;
}

FeatureRank HeadMoments::of_head(std::int64_t head, double tolerance) const {
  return feature_rank(eigenvalues_of(block({&head, 1})), tolerance);
}

FeatureRank HeadMoments::of_group(const HeadGroup& group, const Tensor& output, double tolerance) const {
  const Tensor all = output.to(DType::kFloat64);
  const std::int64_t rows = all.dim(0), width = static_cast<std::int64_t>(group.heads.size()) * head_dim_;
  const Tensor weight = empty({rows, width}, DType::kFloat64);
  for (std::int64_t i = 0; i < rows; ++i) {
    copy_heads(all.data<double>() + i * heads_ * head_dim_, group.heads, head_dim_,
               weight.data<double>() + i * width);
  }
  // (Z W')' (Z W') = W (Z'Z) W'
  const Tensor half = matmul(weight, block(group.heads), DType::kFloat64);
  const Tensor moments = matmul(half, transposed(weight), DType::kFloat64);
  FeatureRank rank = feature_rank(eigenvalues_of(moments), tolerance);
  rank.largest = std::min(rank.largest, width);
  return rank;
}

}  // namespace moh
