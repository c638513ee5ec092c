#include "train/moh/init/shared_heads.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>

#include "core/error.h"
#include "train/config/enum_names.h"
#include "train/log/logging.h"
#include "train/moh/init/head_masks.h"

namespace moh {

namespace {

HeadScores scores_by_loss(const Model& dense, const Calibration& calibration) {
  const std::size_t layers = dense.routing().size();
  return loss_increases(dense, calibration, [&](std::int64_t layer) {
    log_info("init: loss with each head masked: layer " + std::to_string(layer + 1) + "/" +
             std::to_string(layers));
  });
}

HeadScores scores_of_masks(const Model& dense, const MohConfig& moh, const Calibration& calibration,
                           const RunConfig& run) {
  const CalibrationConfig& c = run.init.moh.calibration;
  MaskTraining training{
      .steps = c.mask_steps, .learning_rate = c.mask_learning_rate, .seed = run.random_seed()};
  const auto layers = static_cast<std::int64_t>(dense.routing().size());
  for (std::int64_t layer = 0; layer < layers; ++layer) training.targets.push_back(moh.num_shared.at(layer));
  const std::int64_t every = std::max<std::int64_t>(1, training.steps / 10);
  return train_head_masks(dense, calibration, training, [&](const MaskStep& step) {
    if (step.step % every != 0 && step.step != training.steps) return;
    char text[160];
    std::snprintf(text, sizeof text,
                  "init: masks: step %lld/%lld, loss %.4f, %.2f heads kept per layer (target %.2f)",
                  static_cast<long long>(step.step), static_cast<long long>(training.steps), step.loss,
                  step.heads_on, step.target);
    log_info(text);
  });
}

HeadScores scores_of(const Model& dense, const MohConfig& moh, const Calibration& calibration,
                     const RunConfig& run) {
  switch (moh.shared_heads.rule) {
    case HeadRule::kFirst:
      break;
    case HeadRule::kOutputNorm:
      return mean_output_norms(dense, calibration, moh.routing);
    case HeadRule::kLossIncrease:
      return scores_by_loss(dense, calibration);
    case HeadRule::kLearned:
      return scores_of_masks(dense, moh, calibration, run);
  }
  fail_check(__FILE__, __LINE__, "rule", "no rule that measures");
}

}  // namespace

std::vector<std::int64_t> heads_of_largest_score(const std::vector<double>& scores, std::int64_t count) {
  std::vector<std::int64_t> heads(scores.size());
  std::iota(heads.begin(), heads.end(), 0);
  std::ranges::stable_sort(heads, [&](std::int64_t a, std::int64_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  heads.resize(static_cast<std::size_t>(count));
  std::ranges::sort(heads);
  return heads;
}

HeadSet choose_shared_heads(const Model& dense, const MohConfig& moh, const Calibration& calibration,
                            const RunConfig& run) {
  const HeadRule rule = moh.shared_heads.rule;
  const HeadScores scores = scores_of(dense, moh, calibration, run);
  HeadSet chosen;
  for (std::size_t layer = 0; layer < scores.size(); ++layer) {
    const std::int64_t count = moh.num_shared.at(static_cast<std::int64_t>(layer));
    chosen.each.push_back(heads_of_largest_score(scores[layer], count));
    std::string text =
        "init: shared heads of layer " + std::to_string(layer) + " by " + std::string(name_of(rule)) + ":";
    for (const std::int64_t head : chosen.each.back()) text += " " + std::to_string(head);
    log_info(text);
  }
  return chosen;
}

}  // namespace moh
