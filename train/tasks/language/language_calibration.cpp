#include "train/tasks/language/language_calibration.h"

#include <utility>

#include "models/llm/llama.h"
#include "ops/loss/cross_entropy.h"
#include "train/tasks/language/language_run.h"

namespace moh {

LanguageCalibration::LanguageCalibration(TokenSourcePtr text, const Tokenizer& tokenizer,
                                         const RunConfig& run)
    : batches_(std::move(text), tokenizer, language_run(run).data.sequence_length, run.random_seed()),
      batch_size_(run.train.batch_size),
      size_(run.init.moh.calibration.batches) {}

Calibration::BatchLoss LanguageCalibration::loss(const Model& model, std::int64_t index,
                                                 const ForwardContext& context, Reduction reduction) const {
  const TokenBatch text = batch(index);
  const Variable logits = dynamic_cast<const Llama&>(model).forward(text.tokens, context).logits;
  const double normalizer = reduction == Reduction::kMean ? static_cast<double>(text.num_targets) : 1.0;
  return {cross_entropy(logits, text.targets.to(model.device()), {.normalizer = normalizer}),
          text.num_targets};
}

Variable LanguageCalibration::logits(const Model& model, std::int64_t index,
                                     const ForwardContext& context) const {
  return dynamic_cast<const Llama&>(model).forward(batch(index).tokens, context).logits;
}

}  // namespace moh
