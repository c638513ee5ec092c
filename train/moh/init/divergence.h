#pragma once

#include "train/tasks/calibration.h"

namespace moh {

/// How far the model's predictions are from those of the same weights with every head on: KL(dense || model)
/// = sum_v p_v (ln p_v - ln q_v) in nats, a mean over the predictions of the calibration batches. 0 for a
/// dense model.
double divergence_from_dense(const Model& model, const Calibration& calibration);

/// The sum over rows of KL(softmax(p) || softmax(q)) for logits p, q [N, V], float32 on the CPU.
double sum_of_divergences(const Tensor& p, const Tensor& q);

}  // namespace moh
