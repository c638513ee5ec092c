#pragma once

#include "train/config/problems.h"
#include "train/trainer/config/family_config.h"

namespace moh::config {

/// Checks rules between fields, including those of the run's family. Bounds of single fields have been
/// checked before. `checkpoint`: the model of init.from, if it was opened.
void check(const RunConfig& run, const FamilyConfig* checkpoint, Rules& rules);

}  // namespace moh::config
