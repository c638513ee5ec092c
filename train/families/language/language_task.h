#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/llm/llama.h"
#include "ops/loss/loss_divisor.h"
#include "train/families/language/data/token_batch.h"
#include "train/families/language/language_data.h"
#include "train/families/language/language_evaluation.h"
#include "train/families/language/language_run.h"
#include "train/trainer/config/run_config.h"
#include "train/trainer/task/calibration.h"
#include "train/trainer/task/data/batch_workers.h"
#include "train/trainer/task/task.h"
#include "train/trainer/task/teacher.h"

namespace moh {

/// Next-token prediction: the loss is the cross entropy per token (nats), plus balance_weight times the mean
/// load-balance loss of the layers with routed heads. Where that is defined per micro-batch, as in the
/// released code, results depend on the number of micro-batches per step beyond rounding.
/// The score is the loss on held-out text; perplexity and bits per byte of text are reported, too.
class LanguageTask final : public Task {
 public:
  /// Batches that a thread makes ahead of the next one.
  static constexpr int kAhead = 3;

  LanguageTask(const RunConfig& run, std::shared_ptr<const LanguageData> data, std::unique_ptr<Llama> model);

  const Model& model() const override { return *model_; }
  Unit unit() const override { return {"token", "tokens", "tok/s"}; }
  Score score() const override { return {"loss", /*higher_is_better=*/false}; }
  std::vector<std::pair<std::string_view, std::int64_t>> sample_sizes() const override {
    return {{"sequence_length", run_.data.sequence_length}};
  }
  std::string summary() const override;
  bool set_progress(double share) override { return model_->set_progress(share); }

  void seek(std::int64_t first_sample, const StepPart& part) override;
  void set_teacher(std::unique_ptr<Model> model, const std::string& hash) override {
    teacher_.use(std::move(model), hash);
  }
  void run_first_batch(AttentionObserver& observer) override;
  /// Remarks on a mixture: each source's epochs, share of the rows and last held-out loss.
  std::vector<std::pair<std::string, std::string>> remarks() const override;
  std::optional<Evaluation> evaluate(StopEvaluation stop, Communicator& processes) override;
  double evaluation_samples() const override;
  std::vector<std::pair<std::string, std::string>> identity() const override;
  std::vector<std::pair<std::string, std::string>> files() const override;
  std::vector<std::pair<std::string, std::string>> data_contents() const override {
    return teacher_.added_to(data_->contents);
  }
  /// Generates the text of the section `sample` and writes it to sample.txt.
  bool finish(const std::filesystem::path& run_folder, PrintText print,
              FunctionRef<bool()> stop) const override;

 private:
  StepSize start_step(std::int64_t count) override;
  void set_targets(std::int64_t targets) override;
  void load(std::int64_t index) override;
  std::vector<Tensor> head_loads(Generator& generator) override;
  void set_balance_loads(const std::vector<Tensor>& loads) override { balance_loads_ = loads; }
  MicroBatchLoss loss(Generator& generator) override;
  void end_step() override;

  const TrainingBatches& training_batches();
  EvaluationLimits evaluation_limits() const;
  void reserve_batches();
  ForwardContext training_context(Generator& generator) const;

  LanguageRun run_;
  std::uint64_t seed_;
  TrainConfig train_;
  std::shared_ptr<const LanguageData> data_;
  std::unique_ptr<Llama> model_;
  Teacher teacher_;
  std::optional<TrainingBatches> batches_;
  std::unique_ptr<BatchWorkers<TokenBatch>> ahead_;

  std::vector<TokenBatch> micro_batches_;  ///< of the current step, in host memory
  TokenBatch loaded_;                      ///< on the model's device
  std::vector<Tensor> balance_loads_;      ///< see ForwardContext
  LossDivisor normalizer_ = 1.0;
  Tensor num_targets_;                       ///< on a GPU: what normalizer_ reads
  std::int64_t next_sample_ = 0;             ///< of the run: the first of the next step
  std::map<std::string, double> last_loss_;  ///< of each held-out source with a name
};

/// The first batches of text of a run. The loss is the cross entropy per token in nats; logits are [B, T, V].
class LanguageCalibration final : public Calibration {
 public:
  /// `tokenizer` must be that of `text`. Throws as TrainingBatches does.
  LanguageCalibration(std::vector<TextSource> text, const Tokenizer& tokenizer, const RunConfig& run);

  std::int64_t size() const override { return size_; }
  std::string_view input() const override { return "token"; }
  BatchLoss loss(const Model& model, std::int64_t index, const ForwardContext& context) const override;
  Variable logits(const Model& model, std::int64_t index, const ForwardContext& context) const override;

  TokenBatch batch(std::int64_t index) const { return batches_.at(index * batch_size_, batch_size_); }

 private:
  Variable logits_of(const Model& model, const TokenBatch& text, const ForwardContext& context) const;

  TrainingBatches batches_;
  std::int64_t batch_size_, size_;
  bool reset_positions_;
};

}  // namespace moh
