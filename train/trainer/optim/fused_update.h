#pragma once

#include <cstddef>
#include <vector>

#include "train/trainer/optim/adamw.h"

namespace moh {

/// AdamW within the backward pass: a hook updates each parameter as soon as its gradient is complete, and
/// frees the gradient's memory at once (arXiv 2306.09782, LOMO, has the idea for SGD). The bits are those of
/// an update after the backward pass. A step has one micro-batch and one process, and clips nothing, as the
/// norm is known when all is over.
class FusedUpdate {
 public:
  /// Hooks the optimiser's parameters, before anything else keeps their gradients; it must outlive this
  /// object.
  explicit FusedUpdate(AdamW& optimizer);
  ~FusedUpdate();
  FusedUpdate(const FusedUpdate&) = delete;
  FusedUpdate& operator=(const FusedUpdate&) = delete;

  /// Before the step's backward pass, which changes nothing if the sum of `losses` (float64 [n]) is not
  /// finite, or above its limit. A gradient that is not finite is found when other parameters have their new
  /// values: neither this parameter nor those after it get one, and finish() says that there was no update.
  void begin(const Tensor& losses);
  /// After it: updates the parameters that it has not reached, with zeros for gradients. The result is that
  /// of AdamW::update().
  Tensor finish();

 private:
  void update_one(std::size_t index, const Tensor& grad);

  AdamW& optimizer_;
  std::vector<Variable> parameters_;
  std::vector<bool> updated_;  // in this step
};

}  // namespace moh
