#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/apps/cli/commands.h"
#include "train/families/diffusion/diffusion_run.h"
#include "train/families/diffusion/sampling/sample_options.h"

namespace moh::cli {

/// How `moh sample` draws, as it was asked for.
struct SamplerArgs {
  std::string guided = "3", clip = "auto", sampler = "auto", diffusion = "sigma";
  std::optional<double> guidance;
  std::vector<double> guided_levels;  ///< empty, or LOW and HIGH
  SampleOptions options;              ///< what needs no model to be understood
};

/// Adds the options that say how pictures are drawn.
void add_sampler_options(CLI::App& command, SamplerArgs& args);

/// The options for a model of this run. Throws ConfigError for what does not go with it.
SampleOptions options_of(const SamplerArgs& args, const DiffusionRun& run);

}  // namespace moh::cli
