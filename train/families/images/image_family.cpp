#include "train/families/images/image_family.h"

#include <utility>

#include "train/families/images/image_calibration.h"
#include "train/families/images/image_data.h"
#include "train/families/images/image_predictor.h"
#include "train/families/images/image_run.h"
#include "train/families/images/image_task.h"
#include "train/families/images/image_weight_names.h"
#include "train/families/images/picture_analysis.h"

namespace moh {

namespace {

class ImageFamily final : public Family {
 public:
  const FamilyConfig& defaults() const override { return defaults_; }
  const WeightNames& weight_names() const override { return names_; }

  std::shared_ptr<const TaskData> open_data(const RunConfig& run, DataUse use) const override {
    return open_image_data(run, use);
  }
  std::unique_ptr<Model> make_model(const FamilyConfig& config, Placement placement) const override {
    return make_image_model(image_run(config).model, placement);
  }
  std::unique_ptr<Task> make_task(const RunConfig& run, std::shared_ptr<const TaskData> data,
                                  std::unique_ptr<Model> model) const override {
    return std::make_unique<ImageTask>(
        run, std::static_pointer_cast<const ImageData>(std::move(data)),
        std::unique_ptr<ImageModel>(static_cast<ImageModel*>(model.release())));
  }
  AnalysisInputs analysis_inputs(const RunConfig& run, const Model& model,
                                 std::span<const AnalyzedFiles> files,
                                 const AnalyzeOptions& options) const override {
    return analysis_of_pictures(run, static_cast<const ImageModel&>(model), files, options);
  }
  std::unique_ptr<Predictor> make_predictor(const RunConfig& run, const Model& model) const override {
    return image_predictor(run, static_cast<const ImageModel&>(model));
  }
  std::unique_ptr<Calibration> make_calibration(const RunConfig& run,
                                                std::shared_ptr<const TaskData> data) const override {
    return std::make_unique<ImageCalibration>(run, static_cast<const ImageData&>(*data));
  }

 private:
  ImageRun defaults_;
  ImageWeightNames names_;
};

}  // namespace

const Family& image_family() {
  static const ImageFamily family;
  return family;
}

}  // namespace moh
