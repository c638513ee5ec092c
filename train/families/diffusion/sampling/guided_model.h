#pragma once

#include <cstdint>
#include <span>

#include "models/diffusion/dit.h"
#include "train/families/diffusion/sampling/sample_options.h"

namespace moh {

/// A model with classifier-free guidance (guide()), as the options say it.
class GuidedModel {
 public:
  /// The model must outlive this object. Throws ValueError for more guided channels than there are.
  GuidedModel(const Dit& model, const SampleOptions& options);

  const DitConfig& config() const { return model_.config(); }

  /// The prediction, float32 on the CPU, for x [B, C, H, W], float32 on the CPU, with a label for each, at a
  /// time that is that of all: DitInput::steps of one sample. `level` is the process's ratio of noise to
  /// signal there; outside of SampleOptions::guided_levels the model runs with labels alone, on B samples in
  /// place of 2 B.
  Tensor prediction(const Tensor& x, std::span<const std::int64_t> labels, const Tensor& time,
                    double level) const;

 private:
  Tensor labels_tensor(std::span<const std::int64_t> labels, bool guided) const;

  const Dit& model_;
  SampleOptions options_;
};

}  // namespace moh
