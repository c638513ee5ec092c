#pragma once

#include <vector>

#include "models/llm/llama.h"
#include "train/config/run_config.h"
#include "train/weights/model_source.h"

namespace moh {

/// Opens the checkpoint of init.from. Throws CheckpointError, and ConfigError where what lies beside the
/// weights describes another model than config.model.
ModelSource open_source(const RunConfig& config);

/// Copies the source's weights into the model; where the model's vocabulary is larger, the new rows of the
/// embedding and of the output matrix are filled as config.init.new_rows says. Returns the router parameters
/// that a dense checkpoint lacks: they are left as they were. Throws CheckpointError that lists all other
/// names which are missing, too much or of another shape, before anything is changed.
std::vector<NamedParameter> load_source(const Llama& model, const ModelSource& source,
                                        const RunConfig& config);

/// For ModelPresets::of_source: the configuration beside the weights of init.from, unless the run's own one
/// says every size or names a preset. Without the routing where init.moh replaces it. Throws ConfigError
/// where no configuration lies there.
std::optional<ModelConfig> model_of_source(const RunConfig& run, bool sizes_given);

}  // namespace moh
