#include "train/families/diffusion/diffusion_family.h"

#include <utility>

#include "train/families/diffusion/diffusion_analysis.h"
#include "train/families/diffusion/diffusion_data.h"
#include "train/families/diffusion/diffusion_run.h"
#include "train/families/diffusion/diffusion_task.h"
#include "train/families/diffusion/dit_weight_names.h"

namespace moh {

namespace {

class DiffusionFamily final : public Family {
 public:
  const FamilyConfig& defaults() const override { return defaults_; }
  const WeightNames& weight_names() const override { return names_; }

  std::shared_ptr<const TaskData> open_data(const RunConfig& run, DataUse use) const override {
    return open_diffusion_data(run, use);
  }
  std::unique_ptr<Model> make_model(const FamilyConfig& config, Placement placement) const override {
    return std::make_unique<Dit>(diffusion_run(config).model, placement);
  }
  std::unique_ptr<Task> make_task(const RunConfig& run, std::shared_ptr<const TaskData> data,
                                  std::unique_ptr<Model> model) const override {
    return std::make_unique<DiffusionTask>(run,
                                           std::static_pointer_cast<const DiffusionData>(std::move(data)),
                                           std::unique_ptr<Dit>(static_cast<Dit*>(model.release())));
  }
  AnalysisInputs analysis_inputs(const RunConfig& run, const Model& model,
                                 std::span<const AnalyzedFiles> files,
                                 const AnalyzeOptions& options) const override {
    return analysis_of_noisy_pictures(run, static_cast<const Dit&>(model), files, options);
  }

 private:
  DiffusionRun defaults_;
  DitWeightNames names_;
};

}  // namespace

const Family& diffusion_family() {
  static const DiffusionFamily family;
  return family;
}

}  // namespace moh
