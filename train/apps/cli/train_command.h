#pragma once

#include <string>

#include "train/apps/cli/commands.h"
#include "train/trainer/run/start_run.h"

namespace moh::cli {

struct TrainArgs : RunArgs {
  StartOptions start;
  std::string log_level;
  std::string memory;  ///< "80GB"; empty: model.recompute is as configured
};

/// `moh train`.
int train(const TrainArgs& args, const Families& families);

}  // namespace moh::cli
