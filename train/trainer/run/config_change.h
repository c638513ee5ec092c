#pragma once

#include <string>
#include <utility>
#include <vector>

namespace moh {

struct RunConfig;

/// A key whose value differs between two configurations.
struct ConfigChange {
  std::string key;
  std::string before, now;
  bool harmless = false;  ///< affects logging, files or the length of the run, but not what a step computes
};

/// All keys that differ, in the order of the configuration.
std::vector<ConfigChange> config_changes(RunConfig before, RunConfig now);

/// The result of Task::data_contents().
using DataContents = std::vector<std::pair<std::string, std::string>>;

/// For a run that resumes with another configuration than that of its checkpoint: logs harmless changes;
/// throws ConfigError listing the others, or with `allow` logs them as warnings. Paths of data in `data` may
/// change: review_data_changes() compares their contents.
void review_config_changes(const RunConfig& before, const RunConfig& now, bool allow,
                           const DataContents& data = {});

/// review_config_changes() for the contents of the data. Throws DataError.
void review_data_changes(const DataContents& before, const DataContents& now, bool allow);

}  // namespace moh
