#pragma once

#include <cstdint>

#include "autograd/variable.h"
#include "ops/loss/loss_divisor.h"

namespace moh {

/// Target without loss and gradient (padding, prompts): ignore_index of PyTorch.
inline constexpr std::int64_t kIgnoredTarget = -100;

struct CrossEntropyOptions {
  /// The sum of the losses is divided by this number: that of the targets not ignored in the whole batch,
  /// over all micro-batches and ranks, so that gradient accumulation gives the gradients of the whole batch.
  LossDivisor normalizer = 1.0;
  /// Does not overwrite the logits, and allocates their gradient separately.
  bool keep_logits = false;
};

/// loss = sum over rows of (log sum_j e^(logits_j) - logits_target) / normalizer, over the targets that are
/// not kIgnoredTarget. logits [..., V] of a floating dtype; targets of the leading axes' shape, int32 or
/// int64, in [0, V). Returns a float32 scalar (float64 for float64), 0 when every target is ignored. Row
/// maxima are subtracted first, so that large logits do not overflow; rows are summed in double precision, in
/// an order that does not depend on the number of threads. Throws ShapeError, DTypeError, DeviceError, and
/// ValueError with position and value of a target out of range.
///
/// Consumes the logits, to avoid a second tensor of their size: the forward pass saves two numbers per row,
/// its maximum and the sum of its exponentials, and the backward pass overwrites the logits with their
/// gradient. From then on logits.value() and its views hold gradients. If the logits are read later, by
/// another loss or by an op whose backward pass uses them, set keep_logits. Leaves (gradient checks, inputs)
/// are never overwritten, nor are logits while nothing is recorded.
Variable cross_entropy(const Variable& logits, const Tensor& targets,
                       const CrossEntropyOptions& options = {});

/// The loss of each row, without reduction, for evaluation: a tensor of the targets' shape, float32 (float64
/// for float64), 0 where the target is ignored. Not differentiable; the logits are not overwritten.
Tensor token_losses(const Tensor& logits, const Tensor& targets);

}  // namespace moh
