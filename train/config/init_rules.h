#pragma once

#include <optional>

#include "train/config/read_fields.h"
#include "train/config/rules.h"
#include "train/config/run_config.h"

namespace moh::config {

/// Settles what `init` and `model` say about each other in a run with init.from. `source` is the model that
/// the run begins with, where it is known: what `model` says must agree with it. The routing that init.moh
/// describes becomes that of model.moh, and init.moh what model.moh describes, so that both say the same.
/// Refuses contradictions.
void settle_init(RunConfig& run, const std::optional<ModelConfig>& source, const GivenKeys& given,
                 Rules& rules);

}  // namespace moh::config
