#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/config/run_config.h"

namespace moh {

/// A key whose value differs between two configurations.
struct ConfigChange {
  std::string key;
  std::string before, now;
  bool harmless =
      false;  ///< changes what is reported or kept, or how long the run goes on, not what a step computes
};

/// All keys that differ, in the order of the configuration.
std::vector<ConfigChange> config_changes(RunConfig before, RunConfig now);

/// What a task says of its data: Task::data_contents().
using DataContents = std::vector<std::pair<std::string, std::string>>;

/// For a run that goes on with another configuration than it was saved with: logs harmless changes; throws
/// ConfigError listing the others, unless `allow`, when they are logged as warnings. Paths of data whose
/// contents `data` tells may change: review_data_changes() compares these.
void review_config_changes(const RunConfig& before, const RunConfig& now, bool allow,
                           const DataContents& data = {});

/// The same for the data, of which earlier versions kept nothing. Throws DataError.
void review_data_changes(const DataContents& before, const DataContents& now, bool allow);

}  // namespace moh
