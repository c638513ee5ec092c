#pragma once

#include "models/llm/llama.h"
#include "train/init/calibration_batches.h"
#include "train/weights/model_source.h"

namespace moh {

/// Where config.init.moh.shared_heads is a rule that measures and config.model.moh lists no heads: makes the
/// dense model of the source, measures, and writes the heads into config.model.moh.shared_heads, so that
/// whatever reads the configuration from then on needs no measurement. Throws what load_source throws.
void settle_shared_heads(RunConfig& config, const ModelSource& source, const CalibrationBatches& batches);

/// Gives the model, which config.model describes, its first weights: the source's, and what init.moh says for
/// routers that the source lacks. Says in the log how far the model's predictions are from the dense ones
/// (divergence_from_dense), with each way to start learned routers. Throws what load_source throws.
void initialise_from_source(const Llama& model, const ModelSource& source, const RunConfig& config,
                            const CalibrationBatches& batches);

}  // namespace moh
