#pragma once

#include <optional>

#include "models/diffusion/dit.h"
#include "train/tasks/diffusion/diffusion_batch.h"
#include "train/tasks/task.h"

namespace moh {

/// Evaluates a model on all pictures of `data`, made by `workers` threads, each at one step of the process
/// with noise of its own, the same in every evaluation (NoisySamples::make_held_out): the loss, the score,
/// and its two parts. Returns nothing if `stop` returned true. The processes take batches in turns; the
/// result does not depend on their number.
std::optional<Evaluation> evaluate_diffusion_model(const Dit& model, const EvaluationPictures& data,
                                                   int workers, StopEvaluation stop, Communicator& processes);

}  // namespace moh
