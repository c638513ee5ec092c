#pragma once

#include "train/config/problems.h"
#include "train/config/run_config.h"

namespace moh::config {

/// Rules between fields, within one section and across sections, those of the run's family included. The
/// bounds of single fields hold already. `checkpoint` is the model of init.from, where it was opened.
void check(const RunConfig& run, const FamilyConfig* checkpoint, Rules& rules);

}  // namespace moh::config
