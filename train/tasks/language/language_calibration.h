#pragma once

#include <cstdint>

#include "train/config/run_config.h"
#include "train/tasks/calibration.h"
#include "train/tasks/language/data/token_batch.h"

namespace moh {

/// Batches of text: those that the run itself would see first. The loss is the cross entropy per token in
/// nats; logits are [B, T, V]. Models are decoders of the family.
class LanguageCalibration final : public Calibration {
 public:
  /// `tokenizer` must be the one that made `text`. Throws as TrainingBatches does.
  LanguageCalibration(TokenSourcePtr text, const Tokenizer& tokenizer, const RunConfig& run);

  std::int64_t size() const override { return size_; }
  std::string_view input() const override { return "token"; }
  BatchLoss loss(const Model& model, std::int64_t index, const ForwardContext& context,
                 Reduction reduction) const override;
  Variable logits(const Model& model, std::int64_t index, const ForwardContext& context) const override;

  TokenBatch batch(std::int64_t index) const { return batches_.at(index * batch_size_, batch_size_); }

 private:
  TrainingBatches batches_;
  std::int64_t batch_size_, size_;
};

}  // namespace moh
