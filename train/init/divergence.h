#pragma once

#include "models/llm/llama.h"
#include "train/init/calibration_batches.h"

namespace moh {

/// How far the model's predictions are from those of the same weights with every head on: KL(dense || model)
/// = sum_v p_v (ln p_v - ln q_v) in nats, a mean over the tokens of the calibration batches. 0 for a dense
/// model.
double divergence_from_dense(const Llama& model, const CalibrationBatches& batches);

/// The sum over rows of KL(softmax(p) || softmax(q)) for logits p, q [N, V], float32 on the CPU.
double sum_of_divergences(const Tensor& p, const Tensor& q);

}  // namespace moh
