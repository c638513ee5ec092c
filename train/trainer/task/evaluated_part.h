#pragma once

#include <string>
#include <vector>

#include "train/trainer/config/load_run_config.h"
#include "train/trainer/task/family.h"
#include "train/weights/locate_model.h"

namespace moh {

/// The run of a checkpoint, with settings of which later ones go before earlier ones. Its checksum is
/// verified before it is read: damage is no mistake in a configuration. Throws CheckpointError, ConfigError.
RunConfig stored_run(const ModelLocation& checkpoint, const Families& families,
                     const std::vector<std::string>& settings = {});

/// The part of a model that commands take (open_weights()): of a checkpoint whose run has ema.evaluate, the
/// moving average of the weights. A conversion keeps one set of weights with the configuration of the run
/// that it came from: that set is taken, unless `overrides`, which are the user's and the last of `settings`,
/// ask for an average. Throws as stored_run() does, and ConfigError if there is no average.
std::string evaluated_part(const ModelLocation& location, const Families& families,
                           const std::vector<std::string>& settings,
                           const std::vector<std::string>& overrides);

/// Whether the weights of a checkpoint are not what its run evaluates, but a moving average that it has, too.
/// Throws as stored_run() does.
bool leaves_average_out(const ModelLocation& location, const Families& families);

}  // namespace moh
