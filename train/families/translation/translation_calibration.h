#pragma once

#include "train/families/translation/data/pair_batches.h"
#include "train/families/translation/translation_data.h"
#include "train/trainer/task/calibration.h"

namespace moh {

struct RunConfig;

/// The first batches of sentence pairs of a run, in the order of its seed. The loss is the cross entropy per
/// target token in nats, without smoothing; logits are [1, T, V].
class TranslationCalibration final : public Calibration {
 public:
  /// `data` has training pairs.
  TranslationCalibration(const RunConfig& run, const TranslationData& data);

  std::int64_t size() const override { return size_; }
  std::string_view input() const override { return "token"; }
  BatchLoss loss(const Model& model, std::int64_t index, const ForwardContext& context) const override;
  Variable logits(const Model& model, std::int64_t index, const ForwardContext& context) const override;

  PairBatch batch(std::int64_t index) const;

 private:
  TrainingPairs pairs_;
  SentenceMarks marks_;
  std::int64_t batch_size_, size_;
};

}  // namespace moh
