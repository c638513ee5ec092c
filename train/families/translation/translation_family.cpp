#include "train/families/translation/translation_family.h"

#include <string>
#include <utility>

#include "core/error.h"
#include "train/families/translation/analyze/pair_analysis.h"
#include "train/families/translation/translation_calibration.h"
#include "train/families/translation/translation_data.h"
#include "train/families/translation/translation_task.h"
#include "train/families/translation/translation_weight_names.h"

namespace moh {

namespace {

class TranslationFamily final : public Family {
 public:
  const FamilyConfig& defaults() const override { return defaults_; }
  const WeightNames& weight_names() const override { return names_; }

  std::shared_ptr<const TaskData> open_data(const RunConfig& run, DataUse use) const override {
    return open_translation_data(run, use);
  }
  std::unique_ptr<Model> make_model(const FamilyConfig& config, Placement placement) const override {
    return std::make_unique<TranslationModel>(translation_run(config).model, placement);
  }
  std::unique_ptr<Task> make_task(const RunConfig& run, std::shared_ptr<const TaskData> data,
                                  std::unique_ptr<Model> model) const override {
    return std::make_unique<TranslationTask>(
        run, std::static_pointer_cast<const TranslationData>(std::move(data)),
        std::unique_ptr<TranslationModel>(static_cast<TranslationModel*>(model.release())));
  }
  std::unique_ptr<Calibration> make_calibration(const RunConfig& run,
                                                std::shared_ptr<const TaskData> data) const override {
    return std::make_unique<TranslationCalibration>(run, static_cast<const TranslationData&>(*data));
  }
  AnalysisInputs analysis_inputs(const RunConfig& run, const Model& model,
                                 std::span<const AnalyzedFiles> files,
                                 const AnalyzeOptions& options) const override {
    return analysis_of_pairs(run, static_cast<const TranslationModel&>(model), files, options);
  }

 private:
  TranslationRun defaults_;
  TranslationWeightNames names_;
};

}  // namespace

const Family& translation_family() {
  static const TranslationFamily family;
  return family;
}

TrainedTranslation as_translation(const LoadedModel& loaded, std::string_view command) {
  const auto* model = dynamic_cast<const TranslationModel*>(loaded.model.get());
  if (model == nullptr)
    throw ConfigError(error_message(command, "", "a model that translates",
                                    "task: " + std::string(loaded.config.family->task())));
  const TranslationRun& run = translation_run(loaded.config);
  LanguageTokenizers tokenizers = tokenizers_of(run);
  const SentenceMarks marks = sentence_marks(run, *tokenizers.source);
  return {*model, std::move(tokenizers), marks};
}

}  // namespace moh
