#pragma once

#include "train/tasks/calibration.h"
#include "train/tasks/family.h"
#include "train/tasks/model_source.h"

namespace moh {

/// Where model.moh.shared_heads is a rule that measures: makes the dense model of the source, measures, and
/// replaces the rule by the lists of heads, so that whatever reads the configuration from then on needs no
/// measurement. Throws what load_source throws.
void settle_shared_heads(RunConfig& run, const Family& family, const ModelSource& source,
                         const Calibration& calibration);

/// Gives the model, which run.family describes, its first weights: the source's, and what init.moh says for
/// routers that the source lacks. Logs how far the model's predictions are from the dense ones
/// (divergence_from_dense), with each way to start learned routers. Throws what load_source throws.
void initialise_from_source(const Model& model, const ModelSource& source, const RunConfig& run,
                            const Family& family, const Calibration& calibration);

}  // namespace moh
