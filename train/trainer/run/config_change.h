#pragma once

#include <cstdint>
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

/// All keys that differ, in the order of the configuration, for a run that goes on after `step` steps.
std::vector<ConfigChange> config_changes(RunConfig before, RunConfig now, std::int64_t step = 0);

/// The result of Task::data_contents().
using DataContents = std::vector<std::pair<std::string, std::string>>;

/// The treatment of changes of what the steps compute.
enum class OnChange {
  kRefuse,  ///< an error that lists them
  kWarn,    ///< of a run that resumes with --allow-changes
  kNote,    ///< of a branch, which is a run of its own
};

/// For a run that goes on after `step` steps with another configuration than that of its checkpoint: logs
/// harmless changes; throws ConfigError listing the others, or logs them. Paths of data in `data` may change:
/// review_data_changes() compares their contents.
void review_config_changes(const RunConfig& before, const RunConfig& now, OnChange on_change,
                           const DataContents& data = {}, std::int64_t step = 0);

/// review_config_changes() for the contents of the data. Throws DataError.
void review_data_changes(const DataContents& before, const DataContents& now, OnChange on_change);

}  // namespace moh
