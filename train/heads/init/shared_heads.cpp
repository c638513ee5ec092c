#include "train/heads/init/shared_heads.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "core/error.h"
#include "train/base/log/logging.h"
#include "train/trainer/config/enum_names.h"

namespace moh {

namespace {

HeadScores scores_by_loss(const Model& dense, const Calibration& calibration) {
  const std::size_t layers = dense.routing().size();
  return loss_increases(dense, calibration, [&](std::int64_t layer) {
    log_info("init: loss with each head masked: layer " + std::to_string(layer + 1) + "/" +
             std::to_string(layers));
  });
}

HeadScores scores_of(const Model& dense, const MohConfig& moh, const Calibration& calibration) {
  switch (moh.shared_heads.rule) {
    case HeadRule::kFirst:
      break;
    case HeadRule::kOutputNorm:
      return mean_output_norms(dense, calibration, moh.routing);
    case HeadRule::kLossIncrease:
      return scores_by_loss(dense, calibration);
  }
  fail_check(__FILE__, __LINE__, "rule", "no rule that measures");
}

}  // namespace

std::vector<std::int64_t> heads_of_largest_score(const std::vector<double>& scores, std::int64_t count,
                                                 std::int64_t groups) {
  std::vector<std::int64_t> chosen, group(scores.size() / static_cast<std::size_t>(groups));
  for (std::int64_t g = 0; g < groups; ++g) {
    std::iota(group.begin(), group.end(), g * static_cast<std::int64_t>(group.size()));
    std::ranges::stable_sort(group, [&](std::int64_t a, std::int64_t b) {
      return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
    });
    chosen.insert(chosen.end(), group.begin(), group.begin() + count / groups);
  }
  std::ranges::sort(chosen);
  return chosen;
}

HeadSet choose_shared_heads(const Model& dense, const MohConfig& moh, std::int64_t kv_heads,
                            const Calibration& calibration) {
  const std::int64_t groups = moh.routing->parts({.kv_heads = kv_heads});
  const HeadRule rule = moh.shared_heads.rule;
  const HeadScores scores = scores_of(dense, moh, calibration);
  HeadSet chosen;
  for (std::size_t layer = 0; layer < scores.size(); ++layer) {
    const std::int64_t count = moh.num_shared.at(static_cast<std::int64_t>(layer));
    chosen.each.push_back(heads_of_largest_score(scores[layer], count, groups));
    std::string text =
        "init: shared heads of layer " + std::to_string(layer) + " by " + std::string(name_of(rule)) + ":";
    for (const std::int64_t head : chosen.each.back()) text += " " + std::to_string(head);
    log_info(text);
  }
  return chosen;
}

}  // namespace moh
