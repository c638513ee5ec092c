#pragma once

#include <cstdint>
#include <string_view>

#include "models/forward_context.h"
#include "models/model.h"

namespace moh {

/// How the losses of a batch become one number.
enum class Reduction { kMean, kSum };

/// The first batches of a run's training data, on which a model is measured before the run begins from it
/// (train/moh/init). The model is of the family that the data are for.
class Calibration {
 public:
  virtual ~Calibration() = default;

  /// init.moh.calibration.batches: those that every measurement reads; 0 for models that are not measured.
  virtual std::int64_t size() const = 0;
  /// What one prediction is for: "token", "image".
  virtual std::string_view input() const = 0;
  /// The loss of batch `index`, which may go on past size(): the sum over its targets, or that divided by
  /// their number.
  struct BatchLoss {
    Variable value;  ///< scalar
    std::int64_t targets = 0;
  };
  virtual BatchLoss loss(const Model& model, std::int64_t index, const ForwardContext& context,
                         Reduction reduction) const = 0;
  /// The logits of the model's predictions for batch `index`: a distribution over the last axis for each
  /// input.
  virtual Variable logits(const Model& model, std::int64_t index, const ForwardContext& context) const = 0;
};

/// Of a family whose models are not measured: no batches.
class NoCalibration final : public Calibration {
 public:
  std::int64_t size() const override { return 0; }
  std::string_view input() const override { return "input"; }
  [[noreturn]] BatchLoss loss(const Model&, std::int64_t, const ForwardContext&, Reduction) const override;
  [[noreturn]] Variable logits(const Model&, std::int64_t, const ForwardContext&) const override;
};

}  // namespace moh
