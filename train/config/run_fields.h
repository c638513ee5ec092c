#pragma once

#include "train/config/fields.h"
#include "train/config/run_config.h"

namespace moh::config {

/// The fields of every run; `task` is the name of one of the families.
Section describe_common(RunConfig& run, FamilyConfigs families);
/// All fields of a run, those of its family included.
Section describe(RunConfig& run, FamilyConfigs families);

}  // namespace moh::config
