#pragma once

#include <span>
#include <vector>

#include "core/tensor.h"
#include "train/moh/analyze/layer_heads.h"

namespace moh {

/// How many directions features use.
struct FeatureRank {
  std::int64_t largest = 0;  ///< what the sizes allow
  std::int64_t rank = 0;     ///< singular values above `tolerance` times the largest one
  double effective = 0;      ///< exp(entropy of the singular values over their sum), Roy & Vetterli 2007
};

/// Of the eigenvalues of a second-moment matrix, which are the squares of the features' singular values.
/// Negative ones are rounding errors and count as 0.
FeatureRank feature_rank(std::span<const double> eigenvalues, double tolerance);

/// The second moments of what the heads of a layer compute, Z'Z in float64 with a row of Z per token: all
/// heads side by side, as the output projection reads them (times their gates, 0 where not selected).
class HeadMoments {
 public:
  HeadMoments(std::int64_t heads, std::int64_t head_dim);

  /// heads [N, H d], any floating dtype.
  void add(const Tensor& heads);

  /// Of one head's output, [N, d].
  FeatureRank of_head(std::int64_t head, double tolerance) const;
  /// Of what a group of heads adds to the layer's output, [N, D]: `output` [D, H d] is the weight of the
  /// output projection.
  FeatureRank of_group(const HeadGroup& group, const Tensor& output, double tolerance) const;

 private:
  /// Rows and columns of some heads, side by side.
  Tensor block(std::span<const std::int64_t> heads) const;

  std::int64_t heads_, head_dim_;
  Tensor moments_;  // [H d, H d] float64
};

}  // namespace moh
