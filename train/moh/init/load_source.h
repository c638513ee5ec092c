#pragma once

#include <vector>

#include "train/tasks/model_source.h"

namespace moh {

/// Opens the checkpoint of init.from. Throws CheckpointError, and ConfigError where what lies beside the
/// weights describes another model than the run's.
ModelSource open_source(const RunConfig& run, const Families& families);

/// Copies the source's weights into the model, which is one of `family`; where it has more rows per token or
/// class (WeightNames::rows_may_grow), the new ones are filled as run.init.new_rows says. Returns the router
/// parameters that a dense checkpoint lacks: they are left as they were. Throws CheckpointError that lists
/// all other names which are missing, too much or of another shape, before anything is changed.
std::vector<NamedParameter> load_source(const Model& model, const ModelSource& source, const RunConfig& run,
                                        const Family& family);

}  // namespace moh
