#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/llm/llama.h"
#include "train/config/run_config.h"
#include "train/data/prefetcher.h"
#include "train/data/token_batch.h"
#include "train/data/tokenizer.h"
#include "train/tasks/task.h"

namespace moh {

/// The tokens of a run: what it trains on and what it is judged by.
struct LanguageData {
  std::unique_ptr<const Tokenizer> tokenizer;
  TokenSourcePtr train;
  TokenSourcePtr validation;  ///< may be empty
};

/// Opens the files that the configuration names; the validation set is a list of its own or split off. Throws
/// DataError, and ConfigError when the tokenizer has more tokens than the model's vocabulary.
LanguageData open_language_data(const DataConfig& config, std::int64_t vocab_size);

/// The tokens of files and folders, joined; a warning tells what was skipped. Throws DataError.
TokenSourcePtr open_text(std::span<const std::string> inputs, const Tokenizer& tokenizer);

/// The tokens that a run is judged by, without opening training files that are not needed. Throws as
/// open_language_data, and DataError when the run held nothing out.
TokenSourcePtr open_held_out_text(const RunConfig& config, const Tokenizer& tokenizer);

/// Next-token prediction: the loss is the cross entropy per token (nats), plus balance_weight times the mean
/// balance loss of the routed layers. The balance loss is defined per micro-batch (as in the released code),
/// so with it the number of micro-batches per step is not only a matter of rounding.
class LanguageModelTask : public Task {
 public:
  /// Batches that are made ahead of their use.
  static constexpr int kPrefetchDepth = 4;

  LanguageModelTask(const RunConfig& config, LanguageData data);

  const Module& model() const override { return model_; }
  Llama& llama() { return model_; }
  const Tokenizer& tokenizer() const { return *data_.tokenizer; }

  void seek(std::int64_t first_sample) override;
  StepSize begin_step(std::int64_t count) override;
  MicroBatchLoss loss(std::int64_t index, Generator& generator) override;
  void end_step() override;
  StepStatistics statistics(const StepSize& size, std::int64_t count,
                            std::span<const double> numbers) const override;
  /// Cross entropy per token, perplexity and bits per byte of text.
  std::optional<Evaluation> evaluate(FunctionRef<bool()> stop) override;
  std::vector<std::pair<std::string, std::string>> identity() const override;

 private:
  void reserve_batches() const;
  void place(TokenBatch batch, std::size_t index);
  void describe(const std::vector<LayerRouting>& routing, bool balanced);

  LanguageData data_;
  Llama model_;
  TrainingBatches batches_;
  std::int64_t batch_size_, accumulate_;
  std::int64_t eval_tokens_;  // 0: all
  double balance_weight_;
  std::unique_ptr<Prefetcher<TokenBatch>> prefetcher_;

  // Of the step that is under way. On a GPU the batches keep their places from step to step.
  std::vector<TokenBatch> micro_batches_;
  std::int64_t num_targets_ = 0;

  // What the numbers of a micro-batch are: the balance loss, then the load of each routed layer.
  bool balanced_ = false;
  std::vector<std::size_t> load_widths_;  // by layer; 0 where nothing is routed
  double computed_share_ = 1;             // of all heads
};

/// Evaluates a model on a token stream: loss (nats per token), perplexity, bits per byte. Stops after the
/// batch with which `max_tokens` targets are reached; 0 means all. Nothing when `stop`, which is asked before
/// each batch, says so.
std::optional<Evaluation> evaluate_language_model(const Llama& model, const EvaluationBatches& batches,
                                                  std::int64_t max_tokens, FunctionRef<bool()> stop);

}  // namespace moh
