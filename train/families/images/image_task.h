#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/vision/image_model.h"
#include "train/families/images/image_data.h"
#include "train/families/images/image_run.h"
#include "train/trainer/config/run_config.h"
#include "train/trainer/task/data/batch_workers.h"
#include "train/trainer/task/data/step_batches.h"
#include "train/trainer/task/task.h"
#include "train/trainer/task/teacher.h"

namespace moh {

/// Classification of images: the loss is the cross entropy of soft targets (smoothed, mixed labels) per
/// image, plus balance_weight times the mean load-balance loss of the layers with routed heads (and
/// z_loss_weight times that of their z-losses), plus kExpertBalanceWeight times that of the mixtures of
/// feed-forward networks, which is computed per micro-batch. The score is top-1 on held-out pictures.
class ImageTask final : public Task {
 public:
  /// Batches made ahead of their use.
  static constexpr int kAhead = 2;
  /// Factor of the experts' load-balance loss, a mean over the blocks. The review of the paper, whose models
  /// have them, states none: it is that of the heads' loss, and of Switch Transformers (arXiv 2101.03961).
  static constexpr double kExpertBalanceWeight = 0.01;

  ImageTask(const RunConfig& run, std::shared_ptr<const ImageData> data, std::unique_ptr<ImageModel> model);

  const Model& model() const override { return *model_; }
  Unit unit() const override { return {"image", "images", "img/s"}; }
  Score score() const override { return {"top1", /*higher_is_better=*/true}; }
  std::vector<std::pair<std::string_view, std::int64_t>> sample_sizes() const override {
    return {{"image_size", run_.settled_data().image_size}};
  }
  std::string summary() const override;

  bool set_progress(double share) override { return model_->set_progress(share); }
  std::int64_t steps_per_epoch() const override;
  void set_teacher(std::unique_ptr<Model> model, const std::string& hash) override {
    teacher_.use(std::move(model), hash);
  }
  void seek(std::int64_t first_sample, const StepPart& part) override;
  void run_first_batch(AttentionObserver& observer) override;
  std::optional<Evaluation> evaluate(StopEvaluation stop, Communicator& processes) override;
  double evaluation_samples() const override;
  /// The broken pictures that were met.
  std::vector<std::pair<std::string, std::string>> remarks() const override;
  std::vector<std::pair<std::string, std::string>> identity() const override {
    return {identity_of(data_->class_names)};
  }
  std::vector<std::pair<std::string, std::string>> data_contents() const override {
    return teacher_.added_to(data_->contents);
  }

 private:
  StepSize start_step(std::int64_t count) override;
  void load(std::int64_t index) override;
  std::vector<Tensor> head_loads(Generator& generator) override;
  void set_balance_loads(const std::vector<Tensor>& loads) override { balance_loads_ = loads; }
  MicroBatchLoss loss(Generator& generator) override;
  void end_step() override;

  std::int64_t most_evaluated() const;

  ImageOutput forward(const Variable& pictures, Generator& generator) const;

  RunConfig config_;
  const ImageRun& run_;  // of config_
  std::int64_t batch_size_, accumulate_;
  int workers_;
  std::shared_ptr<const ImageData> data_;
  std::unique_ptr<ImageModel> model_;
  Teacher teacher_;
  std::optional<TrainingPictures> pictures_;
  std::unique_ptr<BatchWorkers<PictureBatch>> batches_;

  StepBatches<PictureBatch> of_step_;
  PictureBatch loaded_;                // on the model's device
  std::vector<Tensor> balance_loads_;  // see ForwardContext
};

}  // namespace moh
