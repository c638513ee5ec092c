#pragma once

#include <cstddef>
#include <vector>

#include "train/trainer/optim/adamw.h"

namespace moh {

/// AdamW within the backward pass: each parameter is updated as soon as its gradient is complete, whose
/// memory is free then (arXiv 2306.09782, LOMO, has the idea for SGD). Of several processes, each updates its
/// own elements when their gradients have been summed. The bits are those of an update after the backward
/// pass. A step has one micro-batch in each process, and clips nothing, as the norm is known when all is
/// over.
///
/// A gradient is complete when all ops that read the parameter have been differentiated, recomputed ones
/// among them: nothing of the pass reads the value any more.
class FusedUpdate {
 public:
  /// The optimiser's gradients come one by one from now on. Before anything else keeps them; it must outlive
  /// this object.
  explicit FusedUpdate(AdamW& optimizer);
  ~FusedUpdate();
  FusedUpdate(const FusedUpdate&) = delete;
  FusedUpdate& operator=(const FusedUpdate&) = delete;

  /// In one process, whose gradients nobody sums: from now on backward passes update parameters and free
  /// their gradients.
  void hook_parameters();

  /// Before the step's backward pass, which changes nothing if the sum of `losses` (float64 [n], those of all
  /// processes) is not finite, or above its limit. A gradient that is not finite is found when other
  /// parameters have their new values: this process updates neither this parameter nor those after it, and
  /// finish() says in all processes that there was no update.
  void begin(const Tensor& losses);
  /// Updates trained parameter number `index`, or the elements of it that are this process's, by their
  /// gradient: [count], or its shape.
  void update(std::size_t index, const Tensor& grad);
  /// After the pass. Parameters that it has not reached are updated with zeros for gradients, by whoever sums
  /// them, or here. The result is that of AdamW::update(), and a collective like it.
  Tensor finish();

 private:
  AdamW& optimizer_;
  std::vector<Variable> parameters_;
  std::vector<bool> updated_;  // in this step
  bool hooked_ = false;
};

}  // namespace moh
