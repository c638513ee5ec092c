#pragma once

#include "models/layers/head_set.h"
#include "train/heads/init/head_importance.h"

namespace moh {

/// The numbers of the `count` heads with the largest scores, ascending. Ties: the lower number wins.
std::vector<std::int64_t> heads_of_largest_score(const std::vector<double>& scores, std::int64_t count);

/// Selects the shared heads of each layer of a dense model, moh.num_shared of them, by the scores of the
/// rule moh.shared_heads: kOutputNorm (mean_output_norms) or kLossIncrease (loss_increases). Logs progress
/// and result.
HeadSet choose_shared_heads(const Model& dense, const MohConfig& moh, const Calibration& calibration);

}  // namespace moh
