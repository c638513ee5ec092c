#pragma once

#include "train/config/fields.h"
#include "train/config/problems.h"
#include "train/families/diffusion/diffusion_run.h"

namespace moh {

/// The field list of the section `diffusion`.
config::Section diffusion_section(DiffusionConfig& c);

/// Refuses times and paths without a flow, variances that nothing learns, and previews by samplers that do
/// not go with the objective.
void check_objective(const DiffusionRun& run, config::Rules& rules);

}  // namespace moh
