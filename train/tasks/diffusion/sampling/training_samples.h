#pragma once

#include <optional>
#include <string>

#include "models/diffusion/dit.h"
#include "train/tasks/diffusion/diffusion_run.h"
#include "train/tasks/task.h"

namespace moh {

/// A PNG file of the pictures of the section `sample`, in rows of eight, as sample_together() draws them;
/// empty for a model of latents, or without pictures. Picture n is of class n modulo their number. Calls
/// `stop` before each step of the process; returns nothing if it returned true.
std::optional<std::string> draw_training_samples(const Dit& model, const TrainingSamples& sample,
                                                 std::uint64_t seed, StopEvaluation stop,
                                                 Communicator& processes);

}  // namespace moh
