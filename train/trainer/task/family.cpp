#include "train/trainer/task/family.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "train/trainer/config/run_config.h"

namespace moh {

AnalysisInputs Family::analysis_inputs(const RunConfig& run, const Model&, std::span<const AnalyzedFiles>,
                                       const AnalyzeOptions&) const {
  throw ConfigError(
      error_message("analyze", "task", "one whose models can be analysed", std::string(run.family->task())));
}

std::unique_ptr<Predictor> Family::make_predictor(const RunConfig& run, const Model&) const {
  throw ConfigError(error_message("predict", "task", "an image classifier (task: image_classification)",
                                  "a model of task: " + std::string(run.family->task())));
}

Families::Families(std::vector<const Family*> families) : families_(std::move(families)) {
  for (const Family* family : families_) configs_.push_back(&family->defaults());
}

const Family& Families::of(const FamilyConfig& config) const {
  const auto found = std::ranges::find(families_, config.task(),
                                       [](const Family* family) { return family->defaults().task(); });
  MOH_CHECK(found != families_.end(), "a configuration is read with the families that are known");
  return **found;
}

const Family& Families::of(const RunConfig& run) const {
  return of(*run.family);
}

}  // namespace moh
