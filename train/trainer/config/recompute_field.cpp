#include <array>
#include <cstddef>
#include <vector>

#include "models/recompute_level.h"
#include "train/config/fields.h"
#include "train/trainer/config/enum_names.h"
#include "train/trainer/config/run_config.h"

namespace moh::config {

namespace {

/// A level by its name, or as a list of parts of which each is a level.
Choice choice_with_lists(RecomputeLevel& level) {
  static constexpr std::array kParts = {RecomputeLevel::kNorms, RecomputeLevel::kMlp,
                                        RecomputeLevel::kAttention, RecomputeLevel::kLayer};
  Choice choice = choice_of(level);
  for (const RecomputeLevel part : kParts) choice.parts.emplace_back(name_of(part));
  choice.set_parts = [&level](const std::vector<std::size_t>& parts) {
    level = RecomputeLevel::kNone;
    for (const std::size_t part : parts) level = joined(level, kParts.at(part));
  };
  return choice;
}

}  // namespace

void add_recompute(RecomputeLevel& level, Section& model) {
  model
      .field("recompute", choice_with_lists(level),
             "Activations that the backward pass recomputes instead of keeping them in memory: `none`; "
             "outputs of `norms` and of the MLP's activation, which takes no product of matrices; with them "
             "the first products of the `mlp`, or queries, keys, values and heads of `attention`, or both, "
             "`[mlp, attention]`; or all inside of each `layer` (activation checkpointing). A list of parts "
             "is their union. All give the same bits.")
      .differs_freely()
      .of_training()
      .optional_with_weights();
}

}  // namespace moh::config
