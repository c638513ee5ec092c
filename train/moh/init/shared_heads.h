#pragma once

#include "models/layers/head_set.h"
#include "train/config/run_config.h"
#include "train/moh/init/head_importance.h"

namespace moh {

/// The `count` heads of largest score, in ascending order of their numbers; of equal scores the lower
/// numbers.
std::vector<std::int64_t> heads_of_largest_score(const std::vector<double>& scores, std::int64_t count);

/// Chooses the shared heads of each layer of a dense model by the rule of moh.shared_heads, which measures:
/// kOutputNorm (mean_output_norms), kLossIncrease (loss_increases) or kLearned (train_head_masks). As many
/// heads as moh.num_shared says. Logs the progress and the result.
HeadSet choose_shared_heads(const Model& dense, const MohConfig& moh, const Calibration& calibration,
                            const RunConfig& run);

}  // namespace moh
