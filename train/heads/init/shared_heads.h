#pragma once

#include "models/layers/head_set.h"
#include "train/heads/init/head_importance.h"

namespace moh {

/// The numbers of the `count` heads with the largest scores, ascending: as many of each of `groups` equal
/// parts of the heads in succession. Ties: the lower number wins.
std::vector<std::int64_t> heads_of_largest_score(const std::vector<double>& scores, std::int64_t count,
                                                 std::int64_t groups = 1);

/// Selects the shared heads of each layer of a dense model, moh.num_shared of them, by the scores of the
/// rule moh.shared_heads: kOutputNorm (mean_output_norms) or kLossIncrease (loss_increases). With
/// kWithinGroups as many of the query heads of each of `kv_heads` KV heads. Logs progress and result.
HeadSet choose_shared_heads(const Model& dense, const MohConfig& moh, std::int64_t kv_heads,
                            const Calibration& calibration);

}  // namespace moh
