#pragma once

#include <cstdint>
#include <string_view>

#include "core/error.h"
#include "models/forward_context.h"
#include "models/model.h"

namespace moh {

/// The first batches of a run's training data, on which a model is measured before the run starts from it
/// (train/heads/init). The base class has no batches: for families whose models are not measured.
class Calibration {
 public:
  virtual ~Calibration() = default;

  /// Number of batches of every measurement, init.moh.calibration.batches; 0 for models that are not
  /// measured.
  virtual std::int64_t size() const { return 0; }
  /// The unit of predictions: "token", "image".
  virtual std::string_view input() const { return "input"; }
  struct BatchLoss {
    Variable value;  ///< the sum over the batch's targets, a scalar
    std::int64_t targets = 0;
  };
  /// loss(model, index, context): the loss of batch `index`.
  virtual BatchLoss loss(const Model&, std::int64_t, const ForwardContext&) const { no_batch(); }
  /// logits(model, index, context): the model's logits for batch `index`, with classes along the last axis.
  virtual Variable logits(const Model&, std::int64_t, const ForwardContext&) const { no_batch(); }

 private:
  [[noreturn]] static void no_batch() {
    fail_check(__FILE__, __LINE__, "index < size()", "this family has no calibration batches");
  }
};

}  // namespace moh
