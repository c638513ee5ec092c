#pragma once

#include "autograd/variable.h"
#include "ops/loss/loss_divisor.h"

namespace moh {

struct KlDivergenceOptions {
  double temperature = 1;  ///< T: divides the logits of both
  /// As in CrossEntropyOptions: the number of targets that are not ignored in the whole batch.
  LossDivisor normalizer = 1;
  /// Does not overwrite the teacher's logits, and allocates the gradient separately.
  bool keep_teacher = false;
};

/// The loss of distillation (Hinton et al. 2015, arXiv 1503.02531): with p = softmax(teacher / T) and
/// q = softmax(logits / T),
///   loss = T^2 / normalizer * sum over rows of KL(p || q),   KL(p || q) = sum_j p_j (log p_j - log q_j),
/// over the rows whose target is not kIgnoredTarget; T^2 keeps the gradient's scale, which softening divides
/// by it. The gradient of the logits is T (q - p) / normalizer; the teacher gets none. logits [..., V] of a
/// floating dtype, teacher of the same shape, dtype and device; targets of the leading axes' shape, or
/// undefined: every row counts. Returns a float32 scalar (float64 for float64). Row maxima are subtracted
/// first; rows are summed in double precision, in an order that does not depend on the number of threads.
/// Throws ShapeError, DTypeError, DeviceError, ValueError.
///
/// Neither p nor q is ever stored: the forward pass saves four numbers per row, and the backward pass makes
/// the gradient from both logits, in the memory of the teacher's, which then hold it. A loss of the same
/// logits that consumes them (cross_entropy) has to be computed before this one, so that its backward pass
/// runs after it.
Variable kl_divergence(const Variable& logits, const Tensor& teacher, const Tensor& targets,
                       const KlDivergenceOptions& options = {});

}  // namespace moh
