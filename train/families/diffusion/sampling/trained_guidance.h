#pragma once

#include <string>

#include "train/families/diffusion/diffusion_run.h"
#include "train/families/diffusion/sampling/sample_options.h"

namespace moh {

/// Why a model of this run cannot be guided: guidance compares what it makes with and without a label, and
/// the training, by diffusion.label_dropout, has shown it one of both alone, so that the other row of its
/// label embedding is as random as in the beginning. Empty: it can be.
std::string reason_against_guidance(const DiffusionRun& run);

/// The options with which a model of this run can draw: without guidance where there is a reason against it
/// or, with `usual_guidance`, where there is a single class; and without labels where it has never seen one.
SampleOptions options_for(const DiffusionRun& run, SampleOptions options, bool usual_guidance);

/// The samplers that `auto` means.
struct UsualSamplers {
  SamplerKind of_steps, of_flow;  ///< for objectives of the 1000 steps, and for flows
};

/// The options for a model that is trained so: its objective and path, and the sampler that `auto` means.
SampleOptions settled(const DiffusionConfig& trained, SampleOptions options, const UsualSamplers& usual);

/// Logs that pictures drawn during the training are not guided, although sample.guidance asks for it.
void note_unguided_samples(const DiffusionRun& run);

}  // namespace moh
