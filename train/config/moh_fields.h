#pragma once

#include "models/layers/moh_config.h"
#include "train/config/fields.h"

namespace moh::config {

/// The section `moh` of a model of any family.
Section describe(MohConfig& config);

}  // namespace moh::config
