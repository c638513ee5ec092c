#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/diffusion/dit.h"
#include "train/families/diffusion/diffusion_batch.h"
#include "train/families/diffusion/diffusion_data.h"
#include "train/families/images/class_names.h"
#include "train/trainer/config/run_config.h"
#include "train/trainer/task/data/batch_workers.h"
#include "train/trainer/task/data/step_batches.h"
#include "train/trainer/task/task.h"

namespace moh {

/// Training of a class-conditional diffusion model: the loss is diffusion_loss per picture, at a step of the
/// process that is drawn for it, plus balance_weight times the mean load-balance loss of the layers with
/// routed heads. The score is the loss on held-out pictures.
class DiffusionTask final : public Task {
 public:
  /// Batches made ahead of their use.
  static constexpr int kAhead = 2;

  DiffusionTask(const RunConfig& run, std::shared_ptr<const DiffusionData> data, std::unique_ptr<Dit> model);

  const Model& model() const override { return *model_; }
  Unit unit() const override { return {"image", "images", "img/s"}; }
  Score score() const override { return {"loss", /*higher_is_better=*/false}; }
  std::vector<std::pair<std::string_view, std::int64_t>> sample_sizes() const override {
    return {{"image_size", run_.model.image_size}};
  }
  std::string summary() const override;

  bool set_progress(double share) override { return model_->set_progress(share); }
  std::int64_t steps_per_epoch() const override;
  void seek(std::int64_t first_sample, const StepPart& part) override;
  std::optional<Evaluation> evaluate(StopEvaluation stop, Communicator& processes) override;
  std::optional<std::string> draw_samples(StopEvaluation stop, Communicator& processes) override;
  /// The broken pictures that were met.
  std::vector<std::pair<std::string, std::string>> remarks() const override;
  double evaluation_samples() const override;
  /// Names of classes; of latents also the hash of the autoencoder that made them.
  std::vector<std::pair<std::string, std::string>> identity() const override;
  std::vector<std::pair<std::string, std::string>> data_contents() const override { return data_->contents; }

 private:
  StepSize start_step(std::int64_t count) override;
  void load(std::int64_t index) override;
  std::vector<Tensor> head_loads(Generator& generator) override;
  void set_balance_loads(const std::vector<Tensor>& loads) override { balance_loads_ = loads; }
  MicroBatchLoss loss(Generator& generator) override;
  void end_step() override;

  DitOutput forward(Generator& generator) const;
  std::int64_t most_evaluated() const;

  RunConfig config_;
  const DiffusionRun& run_;  // of config_
  std::int64_t batch_size_, accumulate_;
  int workers_;
  std::shared_ptr<const DiffusionData> data_;
  std::unique_ptr<Dit> model_;
  NoisySamples samples_;
  std::unique_ptr<TrainingStarts> starts_;
  std::unique_ptr<BatchWorkers<DiffusionBatch>> batches_;

  StepBatches<DiffusionBatch> of_step_;
  DiffusionBatch loaded_;              // on the model's device
  std::vector<Tensor> balance_loads_;  // see ForwardContext
};

}  // namespace moh
