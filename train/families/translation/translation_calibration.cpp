#include "train/families/translation/translation_calibration.h"

#include "models/translation/translation_model.h"
#include "ops/loss/cross_entropy.h"
#include "train/trainer/config/run_config.h"

namespace moh {

namespace {

Variable logits_of(const Model& model, const PairBatch& batch, const ForwardContext& context) {
  const auto& translation = dynamic_cast<const TranslationModel&>(model);
  return translation.forward(batch.pairs.to(model.device()), context).logits;
}

}  // namespace

TranslationCalibration::TranslationCalibration(const RunConfig& run, const TranslationData& data)
    : pairs_(data.train, translation_run(run).data.batch_tokens, run.random_seed()),
      marks_(data.marks),
      batch_size_(run.train.batch_size),
      size_(run.init.moh.calibration.batches) {}

PairBatch TranslationCalibration::batch(std::int64_t index) const {
  return make_pair_batch(pairs_.pairs(), pairs_.at(index * batch_size_, batch_size_), marks_);
}

Calibration::BatchLoss TranslationCalibration::loss(const Model& model, std::int64_t index,
                                                    const ForwardContext& context) const {
  const PairBatch pairs = batch(index);
  return {cross_entropy(logits_of(model, pairs, context), pairs.targets.to(model.device())),
          pairs.num_targets};
}

Variable TranslationCalibration::logits(const Model& model, std::int64_t index,
                                        const ForwardContext& context) const {
  return logits_of(model, batch(index), context);
}

}  // namespace moh
