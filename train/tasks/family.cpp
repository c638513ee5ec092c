#include "train/tasks/family.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/dry_run.h"
#include "core/error.h"
#include "train/weights/load_weights.h"

namespace moh {

AnalysisInputs Family::analysis_inputs(const RunConfig& run, const Model&, std::span<const AnalyzedFiles>,
                                       const AnalyzeOptions&) const {
  throw ConfigError(
      error_message("analyze", "task", "one whose models can be analysed", std::string(run.family->task())));
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

Placement placement_of(const RunConfig& run) {
  return {dtype_of(run.precision), run.device, {.tf32 = run.tf32, .attention = run.attention.backend}};
}

std::vector<WeightInfo> expected_tensors(const Family& family, const FamilyConfig& config, DType dtype) {
  const DryRunScope no_memory;
  return infos_of(tensors_of(family.make_model(config, {dtype, kCpu})->parameters()));
}

std::unique_ptr<Model> make_initialised_model(const Family& family, const RunConfig& run) {
  std::unique_ptr<Model> model = family.make_model(*run.family, placement_of(run));
  model->initialise(run.random_seed());
  return model;
}

}  // namespace moh
