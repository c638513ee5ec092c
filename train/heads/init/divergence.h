#pragma once

#include "train/trainer/task/calibration.h"

namespace moh {

/// The divergence of the model's predictions q from those of the same weights with every head active, p:
/// KL(p || q) = sum_v p_v (ln p_v - ln q_v) in nats, averaged over the predictions for the calibration
/// batches. 0 for a dense model.
double divergence_from_dense(const Model& model, const Calibration& calibration);

/// The sum over rows of KL(softmax(p) || softmax(q)) for logits p, q [N, V], float32 on the CPU.
double sum_of_divergences(const Tensor& p, const Tensor& q);

}  // namespace moh
