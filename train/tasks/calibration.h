#pragma once

#include <cstdint>
#include <string_view>

#include "core/error.h"
#include "models/forward_context.h"
#include "models/model.h"

namespace moh {

/// How the losses of a batch become one number.
enum class Reduction { kMean, kSum };

/// The first batches of a run's training data, on which a model is measured before the run begins from it
/// (train/moh/init). The model is of the family that the data are for. As it is, for a family whose models
/// are not measured: there are no batches.
class Calibration {
 public:
  virtual ~Calibration() = default;

  /// init.moh.calibration.batches: those that every measurement reads; 0 for models that are not measured.
  virtual std::int64_t size() const { return 0; }
  /// What one prediction is for: "token", "image".
  virtual std::string_view input() const { return "input"; }
  struct BatchLoss {
    Variable value;  ///< scalar
    std::int64_t targets = 0;
  };
  /// loss(model, index, context, reduction): the loss of batch `index`, which may go on past size(): the sum
  /// over its targets, or that divided by their number.
  virtual BatchLoss loss(const Model&, std::int64_t, const ForwardContext&, Reduction) const { no_batch(); }
  /// logits(model, index, context): the logits of the model's predictions for batch `index`: a distribution
  /// over the last axis for each input.
  virtual Variable logits(const Model&, std::int64_t, const ForwardContext&) const { no_batch(); }

 private:
  [[noreturn]] static void no_batch() {
    fail_check(__FILE__, __LINE__, "index < size()", "there is no batch to measure on");
  }
};

}  // namespace moh
