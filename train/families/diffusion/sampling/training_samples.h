#pragma once

#include <optional>
#include <string>

#include "models/diffusion/autoencoder.h"
#include "models/diffusion/dit.h"
#include "train/families/diffusion/diffusion_run.h"
#include "train/trainer/task/task.h"

namespace moh {

/// A PNG file of the pictures of the section `sample`, in rows of eight, as sample_together() draws them,
/// with the autoencoder of a model of latents; empty for such a model without one (null), or without
/// pictures. Picture n is of class n modulo their number. Calls `stop` before each step of the process;
/// returns nothing if it returned true.
std::optional<std::string> draw_training_samples(const Dit& model, const Autoencoder* autoencoder,
                                                 const TrainingSamples& sample, std::uint64_t seed,
                                                 StopEvaluation stop, Communicator& processes);

}  // namespace moh
