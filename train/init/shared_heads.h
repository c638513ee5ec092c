#pragma once

#include "train/init/head_importance.h"

namespace moh {

/// The `count` heads of largest score, in ascending order of their numbers; of equal scores the lower
/// numbers.
std::vector<std::int64_t> heads_of_largest_score(const std::vector<double>& scores, std::int64_t count);

/// Chooses the shared heads of each layer of a dense model by the rule of config.init.moh.shared_heads, which
/// measures: kOutputNorm (mean_output_norms), kLossIncrease (loss_increases) or kLearned (train_head_masks).
/// As many heads as config.model.moh.shared says. Says in the log what is going on and what came out.
HeadSet choose_shared_heads(const Llama& dense, const CalibrationBatches& batches, const RunConfig& config);

}  // namespace moh
