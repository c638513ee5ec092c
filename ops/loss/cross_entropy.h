#pragma once

#include <cstdint>

#include "autograd/variable.h"

namespace moh {

/// A target that takes part in no loss and gets no gradient (padding, prompts).
inline constexpr std::int64_t kIgnoredTarget = -100;

struct CrossEntropyOptions {
  /// The sum of the losses is divided by this number: the targets that count in the whole batch, over
  /// micro-batches and ranks, so that gradient accumulation equals the big batch.
  double normalizer = 1.0;
  /// Leaves the logits as they are and gives their gradient storage of its own.
  bool keep_logits = false;
};

/// loss = sum over rows of (log sum_j e^(logits_j) - logits_target) / normalizer, over the targets that are
/// not kIgnoredTarget. logits [..., V] of a floating dtype; targets of the leading axes' shape, int32 or
/// int64, in [0, V). Returns a float32 scalar (float64 for float64), 0 when every target is ignored. Row
/// maxima are subtracted first, so that logits of any finite size are right; rows are summed in double
/// precision, in an order that does not depend on the number of threads. Throws ShapeError, DTypeError,
/// DeviceError, and ValueError with place and value of a target out of range.
///
/// Consumes the logits: there is never a second copy of them. The forward pass saves two numbers per row, its
/// maximum and the sum of its exponentials, and the backward pass writes the gradient over the logits. From
/// then on logits.value() holds gradients, and so do its views. Where somebody else reads the logits later -
/// another loss, or an op whose backward pass uses them - set keep_logits. Leaves (gradient checks, inputs)
/// are never written to, as if it were set, and neither is anything while nothing is recorded.
Variable cross_entropy(const Variable& logits, const Tensor& targets,
                       const CrossEntropyOptions& options = {});

/// The loss of every row by itself, for evaluation: a tensor of the targets' shape, float32 (float64 for
/// float64), 0 where the target is ignored. Nothing is recorded, and the logits stay as they are.
Tensor token_losses(const Tensor& logits, const Tensor& targets);

}  // namespace moh
