#pragma once

#include "train/config/rules.h"
#include "train/config/run_config.h"

namespace moh::config {

/// Rules between fields, within one section and across sections. The bounds of single fields hold already.
void check(const RunConfig& run, Rules& rules);

}  // namespace moh::config
