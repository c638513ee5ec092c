#include "train/tasks/language/language_family.h"

#include <memory>
#include <span>
#include <utility>

#include "models/llm/llama.h"
#include "train/tasks/language/analyze/text_analysis.h"
#include "train/tasks/language/language_calibration.h"
#include "train/tasks/language/language_data.h"
#include "train/tasks/language/language_run.h"
#include "train/tasks/language/language_task.h"
#include "train/tasks/language/language_weight_names.h"

namespace moh {

namespace {

class LanguageFamily final : public Family {
 public:
  const FamilyConfig& defaults() const override { return defaults_; }
  const WeightNames& weight_names() const override { return language_weight_names(); }

  std::shared_ptr<const TaskData> open_data(const RunConfig& run, DataUse use) const override {
    return open_language_data(run, use);
  }
  std::unique_ptr<Model> make_model(const FamilyConfig& config, Placement placement) const override {
    return std::make_unique<Llama>(language_run(config).model, placement);
  }
  std::unique_ptr<Task> make_task(const RunConfig& run, std::shared_ptr<const TaskData> data,
                                  std::unique_ptr<Model> model) const override {
    return std::make_unique<LanguageTask>(run, std::static_pointer_cast<const LanguageData>(std::move(data)),
                                          std::unique_ptr<Llama>(static_cast<Llama*>(model.release())));
  }
  std::unique_ptr<Calibration> make_calibration(const RunConfig& run,
                                                std::shared_ptr<const TaskData> data) const override {
    const auto text = std::static_pointer_cast<const LanguageData>(std::move(data));
    return std::make_unique<LanguageCalibration>(text->train, *text->tokenizer, run);
  }
  AnalysisInputs analysis_inputs(const RunConfig& run, const Model& model,
                                 std::span<const AnalyzedFiles> files,
                                 const AnalyzeOptions& options) const override {
    return analysis_of_files(run, static_cast<const Llama&>(model), files, options);
  }

 private:
  LanguageRun defaults_;
};

}  // namespace

const Family& language_family() {
  static const LanguageFamily family;
  return family;
}

}  // namespace moh
