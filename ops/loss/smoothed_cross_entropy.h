#pragma once

#include "autograd/variable.h"
#include "ops/loss/loss_divisor.h"

namespace moh {

struct SmoothedCrossEntropyOptions {
  double smoothing = 0;          ///< epsilon, in [0, 1): probability of a label that is not the target
  LossDivisor normalizer = 1.0;  ///< as CrossEntropyOptions::normalizer
  bool keep_logits = false;      ///< as CrossEntropyOptions::keep_logits
};

/// Results of smoothed_cross_entropy: scalars, float32 (float64 for float64 logits).
struct SmoothedLoss {
  Variable loss;  ///< what is trained on
  Tensor nll;     ///< cross_entropy() of the same logits with the same normalizer, without a gradient
};

/// Cross entropy with label smoothing (Szegedy et al. 2016, "Rethinking the Inception Architecture", section
/// 7) of targets that are ids, without a distribution per row. With nll_i = -log p_i(target) and p_i the
/// softmax of row i of V logits,
///   loss = sum_i [(1 - eps - eps / (V - 1)) nll_i + eps / (V - 1) sum_j -log p_i(j)] / normalizer,
/// the form of fairseq's label_smoothed_cross_entropy: the target has probability 1 - eps, each other label
/// eps / (V - 1). Szegedy's, eps / V for all labels and the rest for the target (PyTorch's
/// label_smoothing), is this one with eps (V - 1) / V.
///
/// Shapes, dtypes, ignored targets, saved numbers, order of sums and what becomes of the logits as in
/// cross_entropy(). Throws as that does, and ValueError for a smoothing outside [0, 1) or of a single label.
SmoothedLoss smoothed_cross_entropy(const Variable& logits, const Tensor& targets,
                                    const SmoothedCrossEntropyOptions& options);

}  // namespace moh
