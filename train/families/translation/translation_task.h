#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "models/translation/translation_model.h"
#include "ops/loss/loss_divisor.h"
#include "train/families/translation/data/pair_batches.h"
#include "train/families/translation/translation_data.h"
#include "train/trainer/config/run_config.h"
#include "train/trainer/task/data/batch_workers.h"
#include "train/trainer/task/task.h"
#include "train/trainer/task/teacher.h"

namespace moh {

/// Trains a model that translates. The loss is the label-smoothed cross entropy of the targets, divided by
/// their number in the whole step; micro-batches have different numbers. The unit is the target token. The
/// score is the loss on held-out pairs; the loss without smoothing, "nll", and its perplexity are reported,
/// too.
class TranslationTask final : public Task {
 public:
  /// Batches that a thread makes ahead of the next one.
  static constexpr int kAhead = 3;

  TranslationTask(const RunConfig& run, std::shared_ptr<const TranslationData> data,
                  std::unique_ptr<TranslationModel> model);

  const Model& model() const override { return *model_; }
  Unit unit() const override { return {"token", "tokens", "tok/s"}; }
  Score score() const override { return {"loss", /*higher_is_better=*/false}; }
  std::vector<std::pair<std::string_view, std::int64_t>> sample_sizes() const override {
    return {{"batch_tokens", run_.data.batch_tokens}};
  }
  std::string summary() const override;
  bool set_progress(double share) override { return model_->set_progress(share); }

  std::int64_t steps_per_epoch() const override;
  void seek(std::int64_t first_sample, const StepPart& part) override;
  void set_teacher(std::unique_ptr<Model> model, const std::string& hash) override {
    teacher_.use(std::move(model), hash);
  }
  void run_first_batch(AttentionObserver& observer) override;
  std::optional<Evaluation> evaluate(StopEvaluation stop, Communicator& processes) override;
  double evaluation_samples() const override;
  std::vector<std::pair<std::string, std::string>> identity() const override;
  std::vector<std::pair<std::string, std::string>> files() const override;
  std::vector<std::pair<std::string, std::string>> data_contents() const override {
    return teacher_.added_to(data_->contents);
  }

 private:
  StepSize start_step(std::int64_t count) override;
  void set_targets(std::int64_t targets) override;
  void load(std::int64_t index) override;
  std::vector<Tensor> head_loads(Generator& generator) override;
  void set_balance_loads(const std::vector<Tensor>& loads) override { balance_loads_ = loads; }
  MicroBatchLoss loss(Generator& generator) override;
  void end_step() override;

  const TrainingPairs& training_pairs() const;
  HeldOutPairs held_out_pairs() const;
  PairBatch batch_at(std::int64_t first_sample) const;
  ForwardContext training_context(Generator& generator) const;

  TranslationRun run_;
  std::uint64_t seed_;
  TrainConfig train_;
  std::shared_ptr<const TranslationData> data_;
  std::unique_ptr<TranslationModel> model_;
  Teacher teacher_;
  mutable std::optional<TrainingPairs> pairs_;  ///< packed when first asked for
  std::unique_ptr<BatchWorkers<PairBatch>> ahead_;

  std::vector<PairBatch> micro_batches_;  ///< of the current step, in host memory
  PairBatch loaded_;                      ///< on the model's device
  std::vector<Tensor> balance_loads_;     ///< see ForwardContext
  LossDivisor normalizer_ = 1.0;
};

}  // namespace moh
