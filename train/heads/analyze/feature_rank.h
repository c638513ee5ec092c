#pragma once

#include <span>
#include <vector>

#include "core/tensor.h"
#include "train/comm/communicator.h"
#include "train/heads/analyze/layer_heads.h"

namespace moh {

/// The numerical rank of a feature matrix (one row per token).
struct FeatureRank {
  std::int64_t largest = 0;  ///< the largest rank possible for its shape
  std::int64_t rank = 0;     ///< singular values above `tolerance` times the largest one
  double effective = 0;  ///< exp(entropy of the singular values divided by their sum), Roy & Vetterli 2007
};

/// The rank from the eigenvalues of the features' second-moment matrix Z'Z: the squares of the singular
/// values of Z. Negative eigenvalues are rounding errors and count as 0.
FeatureRank feature_rank(std::span<const double> eigenvalues, double tolerance);

/// The second moments Z'Z, in float64, of a layer's head outputs: a row of Z is the concatenation of a
/// token's heads that the output projection reads (times their gates, 0 where not selected).
class HeadMoments {
 public:
  HeadMoments(std::int64_t heads, std::int64_t head_dim);

  /// Adds N tokens. heads [N, H d], any floating dtype.
  void add(const Tensor& heads);
  /// Adds the tokens of the other processes. A collective.
  void add_of_all(Communicator& processes) { processes.all_reduce(moments_, ReduceOp::kSum); }

  /// The rank of one head's output, [N, d].
  FeatureRank of_head(std::int64_t head, double tolerance) const;
  /// The rank of what a group of heads adds to the layer's output, [N, D]. `output` [D, H d] is the weight of
  /// the output projection.
  FeatureRank of_group(const HeadGroup& group, const Tensor& output, double tolerance) const;

 private:
  /// The submatrix of Z'Z with the rows and columns of `heads`.
  Tensor block(std::span<const std::int64_t> heads) const;

  std::int64_t heads_, head_dim_;
  Tensor moments_;  // [H d, H d] float64
};

}  // namespace moh
